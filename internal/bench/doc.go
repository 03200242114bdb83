// Package bench owns the bench of consumer settings: what is in a bench's file, which cells and runs it means, in which
// order they are run, how the highest rate is searched for, what its runs show, and how a bench that was interrupted
// goes on. It is told how to run one scenario, and knows nothing of clusters, processes and exit codes. What its
// findings look like, and which differences are real, is the business of package reports.
//
//	bench.yaml ──▶ Plan (cells, order) ──▶ runs, one after another ──▶ reports.Bench ──▶ Folder: results.json after each
//	    run
//	                                            ▲        │
//	                                            └─ Search ┘   max-throughput: what to try next follows from what was
//	                                                          tried
package bench
