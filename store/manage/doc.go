// Package manage owns the operations of people on the dead letters of a store: finding, viewing, replaying, discarding,
// resolving, editing and purging them, one by one or by a filter. It uses stores through package store and retries
// through package worker. Flags, terminals and exit codes belong to its caller.
//
//	Filter ──Query──▶ store.List ──▶ Table, View (JSON)
//	                         └────▶ Discard, Resolve, Edit, Purge: one conditional change each, by version ──▶ Report
//	                         └────▶ Replay: take (lock) ──▶ publish ──▶ settle, batch by batch ──▶ Report
package manage
