// Package worker owns how dead letters enter the store and leave it again: the router that takes them from Kafka, the
// analysis of their errors, the strategies by which they are retried, and the workers that retry them. It knows stores
// by the interfaces of package store, never a database, and nothing about judging.
//
//	dead-letter topics ──Router──▶ store.Ingest (durable) ──▶ offsets committed
//	                       └ Analyse: class ──▶ strategy, first due time
//	store.Claim ──▶ Worker ──Strategies.Before──▶ try | postpone | person      heartbeat: store.Renew while it holds any
//	                  └─try──▶ Retrier (Call | Republish) ──Strategies.After──▶ store.Settle
//	                                                                             resolved | pending | failed | manual
//
// Router and workers are both at-least-once, see Declares. The times of a strategy are nominal: a Clock with a scale
// shortens all of them alike.
package worker
