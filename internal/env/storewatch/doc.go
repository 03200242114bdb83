// Package storewatch owns seeing a dead-letter store from outside: it reads a table's changes, or the table itself, and
// writes them into the history. It knows databases and how a table is laid out; it knows nothing of the programs that
// work on the store, and nothing of judging.
//
//	table ──triggers──▶ dead_letter_audit ──read by its sequence──▶ every change, with the database's time    (exact)
//	table or collection ──read again and again, compared──▶ what differs from the last look                   (polled)
//
// What polling misses: a status that comes and goes between two looks, who had an entry locked meanwhile, and when
// exactly anything was. So what it finds is marked, and judged only as far as it proves something.
package storewatch
