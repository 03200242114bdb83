// Package run is the whole story of a run, told in run.go: set up a Kafka, a tap, an oracle and a subject; drive
// the load, break things, heal, drain, audit; seal the history, judge it, report. It is the only package that knows all
// the others; what each part does is their business.
//
//	Options ─▶ prepare (plan, run directory) ─▶ stage (what is started) ─▶ phases ─▶ sealed history ─▶ Judge ─▶ files
package run
