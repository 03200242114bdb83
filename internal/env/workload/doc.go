// Package workload owns the two ends of the load: the producer that sends the planned records, open loop, and the
// oracle, the downstream that the subject calls once per attempt and that gives the planned answers. Both write what
// they see as events. The package decides nothing: what is sent when, and what is answered, is in the plan. It knows no
// subject, of faults only what they make the oracle answer, and judges nothing.
//
//	plan ──▶ Producer ──▶ Kafka ──▶ (the subject) ──▶ Oracle ◀── plan
//	            │ Send, Acked                           │ AttemptStart, AttemptEnd
//	            └───────────────▶ Sink ◀────────────────┘
package workload
