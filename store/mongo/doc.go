// Package mongo owns dead letters in MongoDB: the collection dlq_messages with the document of "Dead Letter Queue
// Lifecycle", as a store.Store. It knows nothing of Kafka, of strategies or of judging. It needs neither transactions
// nor change streams, so that it also works on a single server and on FerretDB.
//
// # Locks
//
// As the document has it: find what is due, then findOneAndUpdate with {_id, lockedBy: null}. The document's filter
// alone lets two workers have one entry after each other: between this worker's find and its findOneAndUpdate another
// may lock, settle and unlock the entry, and lockedBy is null again. So the filter also has the version that was found,
// and the status. A lease, leaseUntil, lets Recover take back what a dead worker holds.
//
// What makes it work is that the server changes one document atomically. MongoDB does. FerretDB v1 does not (its
// findAndModify reads, then writes), so there it takes a gate that lets one command through at a time, or a single
// worker. FerretDB v2 is not concerned.
//
// # Clock
//
// The server's, as the command "hello" tells it (localTime), asked for at the start of every operation that compares or
// writes times: FerretDB v1 has no $$NOW and no pipelines in updates, and $currentDate alone can't add a lease. The
// time is therefore the server's a network round trip ago: nothing is ever due, and no lease over, before it is so by
// the server's clock, and a lease ends at most that round trip before its full length. The clocks of workers play no
// part.
//
// # What polling sees
//
// MongoDB has no triggers. Version grows by one with every change but a renewed lease, so whoever polls knows how many
// changes were missed; with Options.Audit each document keeps all of them, in transitions (version, from, to, at,
// worker, …), written by the same atomic update as the change itself. What polling still can't see: changes made since
// the last poll to an entry that was removed since (retention takes whole days), and who removed it.
//
// # Ingest
//
// Without transactions a batch is not all or none: if the server fails in its midst, some of its entries are there.
// They are left out when the same batch is ingested again, as the router does, so that in the end each source has one
// entry.
package mongo
