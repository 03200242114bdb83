package subject

// On Windows no run is started (procgroup.Supported), so there are no processes to look at. `dlqbench check` and
// `report` of a stored run ask whether it is in progress, and the answer is always no.

import "time"

func startToken(int) string { return "" }

func groupAlive(int) bool { return false }

func stopped(int) bool { return false }

func ofRun(int, string) bool { return false }

func runProcesses(string) []int { return nil }

func allProcesses() map[int]status { return nil }

func used(int, status) (cpu time.Duration, rss int64) { return 0, 0 }

func runDelays(int, map[int]int64) {}
