// Package history owns the record of what was observed in a run. It contains the event model, the identity of a
// record, the header with the contract and the plan, the recorder that collects events from many goroutines, and the
// files that store them. Observers (workload, tap, downstream stub, nemesis, audit) write events. Checkers and
// reports read them, sorted by time. The package judges nothing. It does not know Kafka's protocol or how an event
// was observed.
//
//	workload ─┐
//	tap ──────┤
//	stub ─────┼──▶ Recorder ──▶ segments on disk ──▶ Reader (sorted) ──▶ checkers, measurements, reports
//	nemesis ──┤
//	audit ────┘
package history
