// Package tap is the Kafka-protocol-aware proxy between a subject and the brokers: one listener per subject instance
// and broker, so that what an instance does is attributed by address. It observes (writes events), rewrites broker
// addresses so that no client goes around it, and lets an interceptor answer, delay or withhold. It judges nothing, and
// knows neither what a scenario is nor how a broker or a subject is started.
//
// The tap sits on the client's side of the links that network faults break:
//
//	subject ──▶ listener ──▶ conn ──requests──▶ observe (stamp) ─▶ intercept ─▶ hold ─▶ link ──▶ broker
//	   ◀─────────────────────  ◀──responses── stamp ◀─ hold ◀─ rewrite ◀────────────────────────────┘
//
// The order of stamps is what invariants rest on. A request is stamped after its last byte was read, a response before
// its first byte is written. A subject that waits for an acknowledgement before it commits therefore always gives
//
//	ProduceResponse stamped < acknowledgement written < subject reads it < subject commits < CommitRequest stamped
//
// so that a commit stamped before the acknowledgement it should follow is proof, never a race between observers.
package tap
