// Package sqlstore owns the dead-letter stores in SQL databases: SQLite, the embedded default, and PostgreSQL. One set
// of statements serves both; the differences are in engine. It knows nothing about Kafka clients, retry strategies, or
// judging.
//
//	open.go      connecting               migrate.go   schema files, one at a time
//	statement.go placeholders and clock   ready.go     is the schema what this program expects?
//	ingest.go    Ingest, partitions       row.go       entry ↔ columns
//	claim.go     Claim, Renew, Recover    change.go    Settle, Alter, Remove
//	list.go      Get, List, Count, Stats  write.go     one writer at a time (SQLite), or as many as there are connections
package sqlstore
