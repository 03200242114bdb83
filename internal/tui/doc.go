// Package tui is the live view of a run, or of a drill, in a terminal: the system drawn in text, rates with their
// recent course, lag, latency, processes, the event log, and in a drill the keys that break and heal.
//
// It knows what a run shows of itself and what can be asked of a drill, and nothing of who answers. It judges nothing.
//
//	run ──Update──▶ mailbox ◀── tick (5/s) ── model ──▶ terminal
//	                                            └── keys ──▶ Drill.Do
//
// A run must never wait for a terminal: Update leaves the newest snapshot and returns, and whoever looks after a
// terminal that has stopped reading is given up on at the end.
package tui
