// Package consumer is the reference retry and dead-letter consumer. It processes a topic with a Handler, retries
// failed records with backoff, dead-letters records that fail permanently, and commits only finished records. It is
// usable as a library, and the harness runs it as its own subject. It knows nothing of scenarios, faults or judging.
//
// One goroutine (loop) owns all state. All other goroutines communicate with it by messages, so no locks are needed:
//
//	poller ──records──▶ loop ──tasks──▶ workers (Handler)
//	                    │ ▲──outcomes──────┘
//	                    │ │
//	                    │ └──acknowledged / refused── Parker ──▶ dead-letter topic
//	                    ├──finished prefix──▶ Committer ──▶ group coordinator
//	                    └──◀ assigned / revoked / lost ── group membership
//
// A record is finished when the handler succeeded or failed logically, or when its dead letter was acknowledged.
// Nothing else advances the Tracker, and only the Tracker's contiguous prefix is ever committed. Records that are in
// backoff or unacknowledged when the process ends or the partition moves are redelivered to the next owner: at least
// once, never lost.
//
// Members of a share group (share.go) and members with transactions (transactions.go) work batch by batch (batch.go).
// Every record of a batch is brought to a final state in the same way. Then the batch is acknowledged, or committed
// with its dead letters, and only then the next one is polled.
//
// The parts that keep the promises are small and replaceable, see Parts.
package consumer
