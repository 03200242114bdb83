// Package store owns dead letters at rest: entries in a database, the states they go through, and the locks by which
// workers share them out. It knows nothing about Kafka clients, retry strategies, or judging.
//
//	router ──Ingest──▶ pending ──Claim──▶ processing ──Settle──▶ resolved | pending | failed | manual
//	                                        │ lease expired: Recover ──▶ pending
//	people ──Alter──▶ replay, discard, resolve, edit          retention ──Expired, Remove──▶ archived, gone
//
// The database's own clock makes every comparison of times, so that workers whose clocks differ cannot take each
// other's locks.
package store
