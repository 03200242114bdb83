// Package store owns dead letters at rest: entries in a database, the states they go through, and the locks by which
// workers share them out. It knows nothing of Kafka clients, of how an entry is tried again, or of judging.
//
//	router ──Ingest──▶ pending ──Claim──▶ processing ──Settle──▶ resolved | pending | failed | manual
//	                                        │ lease over: Recover ──▶ pending
//	people ──Alter──▶ replay, discard, resolve, edit          retention ──Expired, Remove──▶ archived, gone
//
// Every comparison of times is made by the database's own clock, so that workers whose clocks differ can't take each
// other's locks.
package store
