// Package reports renders the judgement of a run for the people and tools that read it: the terminal, verdict.json,
// JUnit, Markdown, and one HTML page that works offline; and it shows the progress of a run while it goes on.
//
//	Verdict ─┐
//	         ├─ Run ──▶ Terminal | JSON | JUnit | Markdown | HTML ──▶ WriteAll: the files of the run directory
//	Measurements, Header
//
// A bench (bench*.go), a gate (suite*.go) and a comparison (compare*.go) are told in the same forms. Each product
// builds one document (*_report.go), which package document renders for a terminal, as Markdown and as a page; the page
// of a run (html*.go) adds curves, traces, faults and logs of its own.
//
// It judges no run and measures nothing: what it shows is in the verdict and the measurements. Which differences
// between runs are real, it asks package stats. Whatever a record, a log line or an error text put into them is hostile
// until shown otherwise, so every renderer escapes for its own format and none of them lets control characters through
// (document/visible.go).
package reports
