// Package assertions holds the invariants, one file each: pure functions of a history. It judges what is in the events
// and the header and nothing else; it never logs, never panics, knows no Kafka client and no clock. Data flows one way:
//
//	events, sorted by time ──▶ World (the shared fold: who holds what, what is terminal, what was disturbed)
//	                       └─▶ each Checker (its own rule on top of the World) ──▶ Result ──▶ Verdict
package assertions
