//go:build race

package main

import "os"

// buildFlags build the scripts' program like the tests, so that the race detector watches whole runs. It makes a
// program in which it found a race exit with 66, which no test expects.
func buildFlags() []string {
	os.Setenv(raceSettings, "atexit_sleep_ms=0") // by default every program would wait a second before it ends
	return []string{"-race"}
}
