// Package tap is the Kafka-protocol-aware proxy between a subject and the brokers. It has one listener per subject
// instance and broker, so that the address attributes an action to an instance. The tap observes (writes events),
// rewrites broker addresses so that no client bypasses it, and lets an interceptor answer, delay or withhold. It
// judges nothing, and knows neither scenarios nor how brokers and subjects are started.
//
// The tap sits on the client's side of the links that network faults affect:
//
//	subject ──▶ listener ──▶ conn ──requests──▶ observe (stamp) ─▶ intercept ─▶ hold ─▶ link ──▶ broker
//	   ◀─────────────────────  ◀──responses── stamp ◀─ hold ◀─ rewrite ◀────────────────────────────┘
//
// The invariants rest on the order of stamps. A request is stamped after its last byte was read, a response before
// its first byte is written. A subject that waits for an acknowledgement before it commits therefore always produces
//
//	ProduceResponse stamped < acknowledgement written < subject reads it < subject commits < CommitRequest stamped
//
// so that a commit stamped before the acknowledgement it should follow is proof, never a race between observers.
package tap
