// Package planted owns the planted bugs: for each anomaly that an invariant names, a consumer or a replay that is the
// reference one with one part replaced, and so shows exactly that anomaly. They prove that the checkers find what they
// are for. The package starts nothing; `dlqbench mutant` runs one as a subject's process, like any consumer under test.
package planted
