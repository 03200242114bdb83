// Package storewatch owns the observation of a dead-letter store from outside. It reads a table's changes, or the
// table itself, and writes them into the history. It knows databases and the layouts of tables. It knows nothing of
// the programs that work on the store, and nothing of judging.
//
//	table ──triggers──▶ dead_letter_audit ──read by its sequence──▶ every change, with the database's time    (exact)
//	table or collection ──read again and again, compared──▶ what differs from the last look                   (polled)
//
// Polling misses a status that appears and disappears between two looks, the owner of an entry's lock in the
// meantime, and the exact time of every change. So polled changes are marked, and judged only as far as they prove
// something.
package storewatch
