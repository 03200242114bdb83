// Package verify shows that the checkers can be trusted. It has three parts; each produces a table:
//
//	completeness  every planted bug (internal/verify/planted) is run like any consumer and must be named by its
//	              invariant with every seed; the correct consumer must pass the same scenarios. The scenarios are those
//	              aimed at single bugs (testdata), the shipped ones, or the suite that dlqbench init writes
//	soundness     the correct consumer must never be accused, in all its modes and under all faults, alone and in
//	              pairs; by itself, with a dead-letter store and its service, and as the nodes of a graph
//	strangers     independently written correct consumers must not be accused in shipped scenarios
//
// A fourth part runs no consumer and is a test: generated histories, correct and minimally corrupted, are judged by the
// checkers and by the reference checker, which must agree (internal/verify/agreement).
//
// The package does not depend on the command line: cmd/dlqbench prove passes it the program to run and prints the
// results.
package verify
