// Package history owns the record of what was observed in a run: the event model, the identity of a
// record, the header that says what was promised and planned, the recorder that collects events from many
// goroutines, and the files they are kept in. Observers (workload, tap, oracle, nemesis, audit) write events,
// checkers and reports read them, sorted by time. The package judges nothing and knows neither Kafka's
// protocol nor how an event came to be observed.
//
//	workload ─┐
//	tap ──────┤
//	oracle ───┼──▶ Recorder ──▶ segments on disk ──▶ Reader (sorted) ──▶ checkers, measurements, reports
//	nemesis ──┤
//	audit ────┘
package history
