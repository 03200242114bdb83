// Package deadletter owns the format and the replay of dead letters. Its dialects encode a failed record as a dead
// letter, decode the dead letter, and prepare the original for a replay. It also replays a dead-letter topic. The
// package knows Kafka records, but not how records are processed, judged or reported.
//
//	record ──Seal──▶ dead letter ──▶ dead-letter topic ──Open──▶ Failure
//	                                                   └─Prepare─▶ record ──▶ the topic it came from (Run)
package deadletter
