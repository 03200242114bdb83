// Package worker owns how dead letters come into the store and out of it again: the router that takes them from Kafka,
// the analysis of their errors, the strategies by which they are tried again, and the workers that do it. It knows
// stores by the interfaces of package store, never a database, and nothing of judging.
//
//	dead-letter topics ──Router──▶ store.Ingest (durable) ──▶ offsets committed
//	                       └ Analyse: class ──▶ strategy, first due time
//	store.Claim ──▶ Worker ──Strategies.Before──▶ try | postpone | person      heartbeat: store.Renew while it holds any
//	                  └─try──▶ Retrier (Call | Republish) ──Strategies.After──▶ store.Settle
//	                                                                             resolved | pending | failed | manual
//
// Both sides err on at-least-once, see Declares. Times that a strategy names are nominal: a Clock with a scale shortens
// all of them alike.
package worker
