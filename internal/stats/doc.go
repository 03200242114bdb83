// Package stats says whether two sets of repeated measurements differ, by how much, and how sure that is. It knows
// numbers only: not what was measured, not what is better, and nothing else of this module.
//
//	repetitions of A ─┐
//	                  ├─ CompareAll ──▶ Difference: shift and ratio, interval, p, noise floor, and whether it is called
//	                      one
//	repetitions of B ─┘
//
// A run of a few seconds on a busy machine gives few, skewed figures with outliers, so nothing here supposes a
// distribution:
//
//   - The effect is the Hodges–Lehmann estimate: the median of all ratios (for counts that may be 0: differences) of a
//     figure of B and one of A. It bears nearly a third of wild figures, uses all of them (a ratio of two medians of
//     five uses two), and has an exact interval for few figures, which a bootstrap of three or five has not. Cliff's
//     delta would say how rarely the two overlap, not by how much they differ.
//   - The test is the exact permutation test of the rank sum with ties taken as they are: of all ways to deal the
//     figures to A and B, how many are at least as far apart as what was seen. It holds its rate of false alarms for
//     any distribution.
//   - The noise floor is what identical repetitions differ by: a difference that is smaller is not called one, however
//     small its p is.
//
// How small p can get is decided by how many repetitions there are, not by how large the difference is (two-sided, no
// ties):
//
//	repetitions    least p   enough at 5 % for
//	 1 against 1   1         nothing
//	 2 against 2   0.33      nothing
//	 3 against 3   0.10      nothing
//	 4 against 4   0.029     1 figure
//	 5 against 5   0.0079    6 figures compared at once
//	 6 against 6   0.0022    23
//	 7 against 7   0.00058   85
//	 1 against 39  0.05      1
package stats
