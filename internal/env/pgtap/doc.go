// Package pgtap observes what a subject does in a PostgreSQL. It stands between the subject and the server, one
// listener for each instance, and forwards messages as they came. A transaction with a record's id is an attempt to
// process that record; if it is to fail, the server is given a statement that fails in the place of the subject's, and
// its error is replaced by the planned one. So the state of the transaction, the order of the answers and what is
// skipped until Sync are always the server's own.
//
//	subject:  ── BEGIN ── INSERT (id) ── COMMIT ──────────────── read the answer ──
//	tap:               start ▲ decide        committed ▲ end ▲ write
//
// With Config.Batch it is an attempt at each record whose id it has, and rows of COPY count; without it, COPY passes
// through. So do connections for replication. Data is neither trusted nor kept: a message is decoded only if it can
// concern an attempt, and up to a limit.
package pgtap
