// Package run carries out a run; run.go shows the sequence. It sets up a Kafka, a tap, a downstream stub and a
// subject; drives the load, injects faults, heals, drains, audits; then seals the history, judges it and reports. It
// is the only package that knows all the others. How each part works is left to that part.
//
//	Options ─▶ prepare (plan, run directory) ─▶ stage (what is started) ─▶ phases ─▶ sealed history ─▶ Judge ─▶ files
package run
