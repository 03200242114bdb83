// Package mongo owns dead letters in MongoDB: the collection dlq_messages with the document of "Dead Letter Queue
// Lifecycle", as a store.Store. It knows nothing about Kafka, strategies or judging. It needs neither transactions nor
// change streams, so that it also works on a single server and on FerretDB.
//
// # Locks
//
// Locking follows the document: find a due entry, then findOneAndUpdate with {_id, lockedBy: null}. That filter alone
// allows two workers to have one entry after each other: between this worker's find and its findOneAndUpdate, another
// may lock, settle and unlock the entry, so that lockedBy is null again. Therefore the filter also contains the version
// that was found, and the status. A lease, leaseUntil, lets Recover take back the entries of a dead worker.
//
// This relies on the server changing one document atomically. MongoDB does. FerretDB v1 does not (its findAndModify
// reads, then writes), so it needs a gate that lets one command through at a time, or a single worker. FerretDB v2 is
// not affected.
//
// # Clock
//
// The clock is the server's, from the command "hello" (localTime), read at the start of every operation that compares
// or writes times: FerretDB v1 has no $$NOW and no pipelines in updates, and $currentDate alone cannot add a lease. The
// time is therefore the server's time one network round trip ago. No entry becomes due, and no lease expires, earlier
// than by the server's clock, and a lease ends at most that round trip before its full length. The clocks of workers
// are not used.
//
// # Visibility to polling
//
// MongoDB has no triggers. Version grows by one with every change except a renewed lease, so a poller knows how many
// changes it missed. With Options.Audit each document keeps all of them in transitions (version, from, to, at, worker,
// …), written by the same atomic update as the change itself. Polling still cannot see the changes made since the last
// poll to an entry that was removed since (retention takes whole days), nor who removed it.
//
// # Ingest
//
// Without transactions a batch is not atomic: if the server fails in the middle, some of its entries are stored. They
// are left out when the same batch is ingested again, as the router does, so that each source has one entry in the end.
package mongo
