//go:build race

package main

import "os"

// buildFlags build the program that the scripts run as the tests are built: the race detector then watches whole runs.
// It makes a program in which it found something exit with 66, which no test wants.
func buildFlags() []string {
	os.Setenv(raceSettings, "atexit_sleep_ms=0") // it would let every program wait a second before it ends
	return []string{"-race"}
}
