// Package bench owns the bench of consumer settings: the format of a bench's file, the cells and runs that it defines,
// the order of the runs, the search for the highest rate, the results of its runs, and the resumption of an interrupted
// bench. The caller provides the function that runs one scenario. The package knows nothing of clusters, processes and
// exit codes. Package reports formats its findings and decides which differences are real.
//
//	bench.yaml ──▶ Plan (cells, order) ──▶ runs, one after another ──▶ reports.Bench ──▶ Folder: results.json after each
//	    run
//	                                            ▲        │
//	                                            └─ Search ┘   max-throughput: the next rate follows from the probes
//	                                                          so far
package bench
