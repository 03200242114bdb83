// Package reports renders the judgement of a run for people and tools: the terminal, verdict.json, JUnit, Markdown,
// and one HTML page that works offline. It also shows the progress of a run.
//
//	Verdict ─┐
//	         ├─ Run ──▶ Terminal | JSON | JUnit | Markdown | HTML ──▶ WriteAll: the files of the run directory
//	Measurements, Header
//
// Benches (bench*.go), gates (suite*.go) and comparisons (compare*.go) have the same formats. Each product builds one
// document (*_report.go), which package document renders for a terminal, as Markdown and as a page. A run has a second
// document for its page (run_page.go), which also has curves, traces, faults and logs.
//
// The package judges no run and measures nothing: its content comes from the verdict and the measurements. Package
// stats decides which differences between runs are significant. Texts from records, log lines and errors are treated
// as hostile, so every renderer escapes them for its own format, and none lets control characters through
// (document/visible.go).
package reports
