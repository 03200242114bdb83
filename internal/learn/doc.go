// Package learn finds out what a consumer does, by watching it, and proposes the contract that fits. It runs the
// consumer with little load: first without faults, then with a kill, a restart and a dead-letter topic that
// refuses writes. From the history of the first run it reads attempts, waits, classes of answers, dead letters and
// commits. It writes down the strongest promises that this history does not contradict; the second run is judged by
// them. A consumer that halts at an unreadable record, or at one without a value, is watched again in between, without
// such records.
//
//	subject.yaml ─▶ run without faults ─▶ seen ─▶ contract ─▶ run with faults ─▶ findings
package learn
