// Package deadletter owns what a dead letter looks like and how it goes back: the dialects that seal a failed record into
// a letter, open it and restore the original, and the replay of a dead-letter topic. It knows Kafka records and nothing of
// how records are processed, judged or reported.
//
//	record ──Seal──▶ letter ──▶ dead-letter topic ──Open──▶ Failure
//	                                              └─Restore─▶ record ──▶ the topic it came from (Run)
package deadletter
