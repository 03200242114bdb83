// Package tui is the live view of a run, or of a drill, in a terminal: the system drawn in text, rates with their
// recent course, lag, latency, processes, the event log, and in a drill the keys that inject and lift faults.
//
// It knows the snapshots of a run, and the state and the actions of a drill. It judges nothing.
//
//	run ──Update──▶ mailbox ◀── tick (5/s) ── model ──▶ terminal
//	                                            └── keys ──▶ Drill.Do
//
// A run must never wait for a terminal: Update stores the newest snapshot and returns. If the terminal has stopped
// reading, closing the view does not wait for it beyond a limit.
package tui
