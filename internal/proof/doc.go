// Package proof holds what shows that the checkers can be trusted: every planted bug of internal/mutants is run by the harness like any
// consumer and must be named in the verdict, and the correct consumer must pass the very same scenario. It is tests only.
package proof
