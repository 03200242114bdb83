// Package assertions holds the invariants, one file each: pure functions of a history. It judges what is in the events
// and the header and nothing else; it never logs, never panics, knows no Kafka client and no clock. Data flows one way:
//
//	events, sorted by time ──▶ State (shared: partition holders, terminal records, disturbances)
//	                       └─▶ each Checker (its own rule on top of the State) ──▶ Result ──▶ Verdict
package assertions
