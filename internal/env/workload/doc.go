// Package workload owns the two ends of the load: the producer that sends the planned records, open loop, and the
// downstream stub (Stub) that the subject calls once per attempt and that gives the planned answers. Both record
// their observations as events. The package decides nothing: the plan says what is sent when, and what is answered.
// The package knows no subject, knows faults only by the answers that they change, and judges nothing.
//
//	plan ──▶ Producer ──▶ Kafka ──▶ (the subject) ──▶ Stub ◀── plan
//	            │ Send, Acked                           │ AttemptStart, AttemptEnd
//	            └───────────────▶ Sink ◀────────────────┘
package workload
