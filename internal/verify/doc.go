// Package verify shows that the checkers can be trusted, in four parts, each of which ends in a table:
//
//	completeness  every planted bug (internal/verify/planted) is run like any consumer and must be named by its
//	              invariant, seed after seed; the correct consumer must pass the very same scenarios. These are the ones
//	              at which bugs are aimed (testdata), the shipped ones, or the suite that dlqbench init writes
//	soundness     the correct consumer, in every mode it has, under every fault there is, alone and in pairs, must never
//	              be accused; by itself, with a dead-letter store and its service, and as the nodes of a graph
//	strangers     correct consumers that others could have written must not be accused in shipped scenarios
//	oracle        generated histories, correct and minimally corrupted, are judged by the checkers and by the
//	              reference checker, and both must agree (internal/verify/generate, internal/verify/reference)
//
// It knows no command line: cmd/dlqbench prove gives it the program to run and prints what it returns.
package verify
