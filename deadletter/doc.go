// Package deadletter owns what a dead letter looks like and how it goes back: the dialects that seal a failed record
// into a letter, open it and prepare the original to be replayed, and the replay of a dead-letter topic. It knows Kafka
// records and nothing of how records are processed, judged or reported.
//
//	record ──Seal──▶ letter ──▶ dead-letter topic ──Open──▶ Failure
//	                                              └─Prepare─▶ record ──▶ the topic it came from (Run)
package deadletter
