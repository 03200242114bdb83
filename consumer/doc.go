// Package consumer is the reference retry and dead-letter consumer: it processes a topic with a Handler, tries failed
// records again with backoff, dead-letters what fails for good, and commits only what is finished. It is usable as a
// library, and it is what the harness runs as its own subject. It knows nothing of scenarios, faults or judging.
//
// One goroutine (loop) owns all state; everything else talks to it in messages, so there is no lock to reason about:
//
//	poller ──records──▶ loop ──tasks──▶ workers (Handler)
//	                    │ ▲──outcomes──────┘
//	                    │ │
//	                    │ └──acknowledged / refused── Parker ──▶ dead-letter topic
//	                    ├──finished prefix──▶ Committer ──▶ group coordinator
//	                    └──◀ assigned / revoked / lost ── group membership
//
// A record is finished when the handler succeeded, failed logically, or its dead letter was acknowledged; nothing else
// moves the Tracker, and only the Tracker's contiguous prefix is ever committed. What is in backoff, or unanswered,
// when the process ends or the partition moves is redelivered to the next owner: at least once, never lost.
//
// Members of a share group (share.go) and those that work in transactions (transactions.go) go batch by batch
// (batch.go): every record of a batch is brought to its end in the same way, then it is acknowledged, or committed with
// its dead letters, and only then the next is polled.
//
// The parts that make the promises are small and replaceable, see Parts.
package consumer
