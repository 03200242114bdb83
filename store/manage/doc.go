// Package manage owns what people do with the dead letters of a store: finding them, looking at them, replaying,
// discarding, resolving, editing and purging them, one by one or by a filter. It knows stores by package store and ways
// to retry by package worker; flags, terminals and exit codes are its caller's.
//
//	Filter ──Query──▶ store.List ──▶ Table, View (JSON)
//	                         └────▶ Discard, Resolve, Edit, Purge: one conditional change each, by version ──▶ Report
//	                         └────▶ Replay: take (lock) ──▶ publish ──▶ settle, batch by batch ──▶ Report
package manage
