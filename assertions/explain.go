package assertions

// What the names in a verdict mean, for the person who reads one.

import (
	"fmt"
	"strings"
)

// Explanation says what an invariant or an anomaly is.
type Explanation struct {
	Name string
	// Of is the invariant that an anomaly violates; empty for an invariant.
	Of string
	// Promise is the invariant, or what an anomaly contradicts, in one sentence.
	Promise string
	// Rule is the precise rule.
	Rule string
	// Evidence says what the history must show for a judgement.
	Evidence string
	// Example is the timeline of a violation, one event a line.
	Example []string
	// Cause says how such bugs come about.
	Cause string
	// Contract is what a contract must say to have the invariant judged; "" if it is judged for every subject that
	// calls the downstream stub. Scenario is what puts it to the test, with a shipped scenario that does; "" if any
	// load does.
	Contract, Scenario string
	// Anomalies are the names that an invariant gives to its violations, with a few words each.
	Anomalies []AnomalyNote
}

// AnomalyNote is an anomaly in a few words.
type AnomalyNote struct{ Name, Meaning string }

// String returns the explanation as text for a terminal.
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", e.Name)
	if e.Of != "" {
		fmt.Fprintf(&b, " (violates %s)", e.Of)
	}
	fmt.Fprintf(&b, "\n\n%s\n\nRule: %s\n\nEvidence: %s\n\nExample of a violation:\n", e.Promise, e.Rule, e.Evidence)
	for _, line := range e.Example {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	fmt.Fprintf(&b, "\nTypical causes: %s\n", e.Cause)
	if needs := e.Needs(); needs != "" {
		fmt.Fprintf(&b, "\nTo be judged, it needs %s.\n", needs)
	}
	if len(e.Anomalies) > 0 {
		b.WriteString("\nAnomalies:\n")
		for _, a := range e.Anomalies {
			fmt.Fprintf(&b, "  %-32s %s\n", a.Name, a.Meaning)
		}
	}
	return b.String()
}

// Needs says what has the invariant judged: "a contract with ordering: key, or partition", "a scenario with a replay";
// "" where nothing special does.
func (e Explanation) Needs() string {
	var needs []string
	if e.Contract != "" {
		needs = append(needs, "a contract with "+e.Contract)
	}
	if e.Scenario != "" {
		needs = append(needs, "a scenario with "+e.Scenario)
	}
	return strings.Join(needs, ", and ")
}

// Explain returns the explanation of an invariant, or of an anomaly for each invariant that gives it that name; none if
// there is nothing of the name.
func Explain(name string) []Explanation {
	var found []Explanation
	for _, one := range catalogue() {
		about := one.about()
		if one.name == name {
			about.Name = name
			return []Explanation{about}
		}
		for _, a := range about.Anomalies {
			if a.Name == name {
				found = append(found, about.narrowed(one.name, a))
			}
		}
	}
	return found
}

// narrowed is the explanation of one anomaly of an invariant.
func (e Explanation) narrowed(of string, a AnomalyNote) Explanation {
	e.Promise = strings.ToUpper(a.Meaning[:1]) + a.Meaning[1:] + ". The promise: " + e.Promise
	if example := exampleOf(of, a.Name); example != nil {
		e.Example = example
	}
	e.Name, e.Of, e.Anomalies = a.Name, of, nil
	return e
}

// AnomalyNames returns the names of all anomalies, by invariant.
func AnomalyNames() []string {
	var names []string
	for _, one := range catalogue() {
		for _, a := range one.about().Anomalies {
			names = append(names, a.Name)
		}
	}
	return names
}

func aboutNoLoss() Explanation {
	return Explanation{
		Promise: "Every record that Kafka acknowledged is processed, dead-lettered, or skipped by contract.",
		Rule: "After heal and drain, every acknowledged record has a success (or a logical failure, where the contract " +
			"calls that a result), or an acknowledged dead letter or retry copy. The audit confirms that acknowledged writes " +
			"exist. A record that the broker of a share group gives up after too many deliveries is lost.",
		Evidence: "acknowledgements, the answers of the downstream stub, and the audit of all topics and committed offsets",
		Example: []string{
			"1.000 s  record 7 acknowledged at offset 7", "1.020 s  instance 0: attempt 1 is answered transient",
			"1.100 s  instance 0 gets TERM", "1.110 s  instance 0 commits up to offset 8", "1.120 s  instance 0 ends",
			"        ... record 7 is never tried again",
		},
		Cause: "At shutdown or on a rebalance, an offset is committed for records still in backoff. A failed dead-letter " +
			"write is logged and forgotten. A seek after a failure moves one partition and drops the records already fetched " +
			"from the others.",
		Anomalies: []AnomalyNote{
			{"lost", "the record was committed past and never finished, and no instance will finish it"},
			{"stalled",
				"the record is neither finished nor committed, although all faults are lifted and there was time enough"},
			{"dropped-by-ack", "a broker acknowledged a copy of the record that the audit does not find"},
		},
	}
}

func aboutCommitAfterDLQ() Explanation {
	return Explanation{
		Promise: "An offset is committed only after all dead letters below it were acknowledged.",
		Rule: "For every accepted or unanswered commit of offset N: each record below N that ends in the dead-letter topic " +
			"had its dead letter acknowledged, and the acknowledgement passed on to the subject, before the commit was read.",
		Evidence: "The tap stamps an acknowledgement before it passes it to the subject, and a commit after it was read " +
			"from the subject. A subject that waits is therefore always seen in that order",
		Example: []string{
			"2.000 s  instance 0 writes record 3 to the dead-letter topic", "2.001 s  instance 0 asks to commit up to offset 4",
			"2.050 s  the write is accepted",
		},
		Cause: "The write is asynchronous and its future or callback is not awaited. The offset is marked as finished when " +
			"the record is handed to the producer. A flush that timed out is taken for a successful one.",
		Contract: "dlq: {enabled: true}, and commits: after-outcome",
		Scenario: "records that fail for good (smoke)",
		Anomalies: []AnomalyNote{
			{"commit-before-dlq", "the commit was sent before the dead letter was acknowledged"},
			{"commit-without-dlq", "the commit was sent although the dead letter was refused, or never acknowledged"},
		},
	}
}

func aboutCommitAfterOutcome() Explanation {
	return Explanation{
		Promise: "An offset is committed only after every record below it is finished.",
		Rule: "For every accepted commit of offset N: each fetched record below N is finished when the commit is read; the " +
			"partition is or was assigned to the committer; N is not beyond the end offset; and offsets do not go back within " +
			"one assignment. In a share group, each record is finished when it is accepted or rejected.",
		Evidence: "commits with the broker's answers, the answers of the downstream stub, fetches, assignments, and the " +
			"end offsets from the audit",
		Example: []string{
			"1.000 s  attempt 1 of offset 10 is answered transient; it waits",
			"1.010 s  attempt 1 of offset 11 is answered success", "1.100 s  instance 0 commits up to offset 12",
		},
		Cause: "The highest finished offset is committed instead of the end of the finished prefix. Auto-commit is left on " +
			"beside manual commits. After a failure the position is not rewound, and the next success commits past the failed " +
			"record.",
		Contract: "commits: after-outcome",
		Anomalies: []AnomalyNote{
			{"commit-past-unfinished", "a commit covers a record that is still being processed"},
			{"commit-wrong-partition", "a process commits a partition that it was never assigned"},
			{"commit-past-end", "a commit covers records that no instance has fetched, or lies beyond the end of the log"},
			{"commit-regressed", "a commit goes back within one assignment, whether it comes from the owner or from a process " +
				"that has lost the partition"},
		},
	}
}

func aboutHalt() Explanation {
	return Explanation{
		Promise: "While dead letters cannot be written, commits stop at the first affected record, and the consumer " +
			"reports the failure.",
		Rule: "While every dead-letter write fails, no accepted commit passes a record whose dead letter is outstanding. " +
			"The failure counts as reported when an error is logged (or a warning that names the error of the write, or the " +
			"dead-letter topic), when a process ends with an error code, or when the health URL of the contract turns bad. " +
			"After an error that is final (TOPIC_AUTHORIZATION_FAILED), a report is due after three seconds and twice the " +
			"waits of a whole series. An error that may pass (NOT_ENOUGH_REPLICAS), or no answer at all, is retried by " +
			"clients themselves, so a report is due within the contract's dlq.surfaced_within, or within five minutes, " +
			"librdkafka's message.timeout.ms. If no line of the log states a level, reports cannot be recognised and the " +
			"invariant is inconclusive. A subject without dead letters that promises to end (on_exhausted: exit) ends with an " +
			"error after the last attempt of a series. on_failure says what a process does after a refusal. retry: it keeps " +
			"trying; a process that makes neither an attempt nor a write for 30 s plus its longest promised wait has stopped " +
			"trying. crash: it ends with a code above 0 within that time plus its stop grace, after an error that no client " +
			"retries by itself (MESSAGE_TOO_LARGE, TOPIC_AUTHORIZATION_FAILED, INVALID_RECORD and similar). halt: it commits " +
			"nothing past the record and reports it. A process that promised halt or retry and ends has crashed (stays-up).",
		Evidence: "the answers to dead-letter writes, attempts, commits, log lines, exit codes, and health",
		Example: []string{
			"4.000 s  the dead letter of record 9 is refused (NOT_ENOUGH_REPLICAS)",
			"4.100 s  instance 0 commits up to offset 10", "9.000 s  dead letters can be written again",
		},
		Cause: "The error of the write is logged and then treated as success. The recoverer's exception is swallowed so " +
			"that the partition can go on. A client retries for ever and reports nothing.",
		Contract: "dlq: {enabled: true}, and commits: after-outcome; add surfaced_within: 10s if you can promise it",
		Scenario: "dead-letter writes that fail (dlq-publish-failure)",
		Anomalies: []AnomalyNote{
			{"commit-advanced-while-dlq-down", "a commit passed an undeliverable record during the outage"},
			{"failure-not-surfaced", "dead letters failed for a long time and nothing reported it; or a process that promised " +
				"to end went on, or ended with code 0"},
			{"stopped-trying",
				"a process that promised to keep trying after a refusal (on_failure: retry) did nothing any more"},
			{"did-not-crash",
				"a process that promised to end after a refusal (on_failure: crash) kept running, or ended with code 0"},
		},
	}
}

func aboutBoundedRetries() Explanation {
	return Explanation{
		Promise: "A record that keeps failing with retriable errors is attempted exactly as often as promised.",
		Rule: "A series, which is the attempts between two events that justify a fresh count, has the contract's maximum " +
			"of attempts when every one fails. A new series needs such an event: a restart, the loss of the partition, a " +
			"failed dead-letter write, or a return to the last commit because a later one failed or a transaction was " +
			"aborted. Such a failure justifies one return.",
		Evidence: "the attempts of each process at the downstream stub, and assignments; too few attempts are reported " +
			"only when none can have been missed",
		Example: []string{
			"attempts.max is 3", "1.000 s  attempt 1 is answered transient", "1.100 s  attempt 2 is answered transient",
			"1.300 s  attempt 3 is answered transient", "1.700 s  attempt 4 starts",
		},
		Cause: "Retries and attempts are confused, which is off by one. The count is kept where every redelivery clears " +
			"it. The retry sits outside the dead-letter middleware and never runs.",
		Contract: "attempts: {max: 3}, with your number",
		Scenario: "records that fail and are tried again (transient-downstream)",
		Anomalies: []AnomalyNote{
			{"over-retried", "one series has more attempts than promised"},
			{"under-retried", "the record was given up after fewer attempts than promised"},
			{"endless-redelivery", "the count starts again and again although nothing justifies it"},
		},
	}
}

func aboutClassification() Explanation {
	return Explanation{
		Promise: "Only failures that may pass are retried, and only failed records are dead-lettered.",
		Rule: "Permanent and logical outcomes are attempted once. A logical outcome that the contract calls a result is " +
			"not dead-lettered. No record is dead-lettered that succeeded in the same delivery, was never attempted, or had " +
			"attempts left when its instance was told to stop.",
		Evidence: "the answers of the downstream stub, where they certainly reached the subject, and the dead-letter writes",
		Example:  []string{"1.000 s  attempt 1 is answered permanent", "1.100 s  attempt 2 starts"},
		Cause: "Every exception is caught in one place. A status is compared by class instead of by code. A shutdown hook " +
			"sends records in backoff to the dead-letter topic. A success whose commit failed is handled as a failure.",
		Anomalies: []AnomalyNote{
			{"permanent-retried", "the record was attempted again after an outcome that no retry can change"},
			{"logical-dead-lettered", "a logical failure, which is a result, was dead-lettered"},
			{"premature-dead-letter", "the record was dead-lettered without an attempt, after the first of several allowed, " +
				"or because its instance was stopping"},
			{"dual-terminal", "the record succeeded and was dead-lettered in one delivery"},
		},
	}
}

func aboutBackoff() Explanation {
	return Explanation{
		Promise: "The wait between two attempts is as long as promised.",
		Rule: "The gap from the end of attempt k to the start of attempt k+1 is at least B(k) = min(cap, " +
			"initial·multiplier^(k−1)), minus 2 ms for timers, and at most B(k) + jitter + late. A process that does one " +
			"thing at a time is late only by the time in which it was not busy with other records, and a copy in a retry " +
			"topic only by the time after the copies before it. After a 429 the gap is at least " +
			"its Retry-After. Where late is a default, half of the gaps may exceed the wait by half at most. With retry " +
			"topics the gap is that of the copy whose coordinates the attempt names, otherwise of the copy that is due first. " +
			"A copy that was written again may stand for several failures; then the shortest of their waits applies.",
		Evidence: "the stamps of the downstream stub, which never make a gap shorter; stalls, faults and partitions that " +
			"the instance had to give up meanwhile excuse a late attempt, never an early one",
		Example: []string{"initial is 100ms", "1.000 s  attempt 1 is answered transient", "1.030 s  attempt 2 starts"},
		Cause: "Seconds and milliseconds are mixed up. The wait is measured from the attempt's start. The exponent is " +
			"reset with each delivery. The cap is applied to the wrong term. One delayed record holds up the records behind it.",
		Contract: "backoff: {initial: 100ms, multiplier: 2, cap: 2s}, with your waits",
		Scenario: "records that fail and are tried again (transient-downstream)",
		Anomalies: []AnomalyNote{
			{"backoff-early", "the next attempt came sooner than promised"},
			{"backoff-late", "the next attempt came later than promised, and nothing excuses it"},
			{"backoff-not-growing", "later waits are as short as the first"},
			{"cap-exceeded", "the wait grew beyond its cap"},
			{"no-jitter", "the waits are all alike although jitter is promised"},
		},
	}
}

func aboutFidelity() Explanation {
	return Explanation{
		Promise: "A dead letter contains the original record unchanged and states correctly where it came from.",
		Rule: "Key and value are byte-equal (or as the dialect re-encodes them), and original headers are kept where " +
			"promised. Every field of the dialect is present, decodable and true: source topic, partition and offset, and " +
			"number of attempts, as far as the dialect can hold them. A reason that quotes an answer quotes the last one. " +
			"Times lie in the run, give or take a minute for clocks. The epoch is one that the partition had. The envelope is " +
			"present once.",
		Evidence: "the audit's dead letters, compared with the records that the workload sent and with the positions at " +
			"which they were acknowledged",
		Example: []string{
			"1.000 s  record 5 acknowledged at input-2 offset 31", "9.000 s  the audit finds its dead letter: source offset 30",
		},
		Cause: "The payload is decoded and encoded again. Headers are rebuilt and unknown ones dropped. The offset is the " +
			"consumer's position, which is already one further. Text outside ASCII breaks a header.",
		Contract: "dlq: {enabled: true}",
		Scenario: "records that fail for good (smoke)",
		Anomalies: []AnomalyNote{
			{"payload-changed", "the value is not the record's"},
			{"key-changed", "the key is not the record's"},
			{"headers-lost", "original headers are missing or changed"},
			{"metadata-missing", "a field of the dialect is missing or cannot be decoded"},
			{"metadata-wrong", "a field of the dialect is not true"},
		},
	}
}

func aboutDLQOnce() Explanation {
	return Explanation{
		Promise: "A record is dead-lettered once, unless a disruption explains a second copy.",
		Rule: "The dead-letter topic holds at most one copy for each replay generation of the record, plus one for each " +
			"disruption while the record was open: its holder lost the partition or was stopped, or a commit or a write " +
			"failed, went unanswered or was answered too late.",
		Evidence: "the audit's dead letters, assignments, signals, and the answers to writes and commits",
		Example: []string{"1.000 s  the dead letter of record 4 is accepted",
			"1.010 s  record 4 is written to the dead-letter topic again, and accepted"},
		Cause: "A retry wraps a write that had succeeded. Two layers dead-letter the same failure. The record is " +
			"dead-lettered but not marked as finished.",
		Contract: "dlq: {enabled: true}",
		Scenario: "records that fail for good (smoke)",
		Anomalies: []AnomalyNote{
			{"dlq-duplicate", "the record has more dead letters than the run's events explain"},
			{"two-payloads-one-source",
				"two dead letters of one record have different values, though the contract keeps the value"},
		},
	}
}

func aboutDuplicates() Explanation {
	return Explanation{
		Promise: "A record is processed once, unless a disruption explains a repeat.",
		Rule: "A record succeeds at most once, plus once for each disruption between its first delivery and the accepted " +
			"commit that covers it. An answer that may have been lost on its way counts as a disruption.",
		Evidence: "the answers of the downstream stub, assignments, signals, and commits",
		Example: []string{"1.000 s  attempt 1 is answered success",
			"1.200 s  attempt 2 is answered success; nothing happened in between"},
		Cause: "An offset goes back further than the first unfinished record. A poll that timed out delivers the same " +
			"batch again.",
		Anomalies: []AnomalyNote{{"duplicate", "the record succeeded more often than the run's events explain"}},
	}
}

func aboutOrdering() Explanation {
	return Explanation{
		Promise: "Records that must stay in order are processed in order.",
		Rule: "Within one assignment of a partition, the first attempt of the next record of a key (or of the partition) " +
			"starts after the record before it is finished. Where dead letters are written in transactions, it may start " +
			"after the last attempt of the record before it, because that dead letter takes effect with the rest of the " +
			"transaction.",
		Evidence: "the stamps of the downstream stub: an attempt's end is stamped before the answer is written and its " +
			"start after the request was read, so a subject that waits is seen in order",
		Example: []string{
			"1.000 s  attempt 1 of offset 10, key A, is answered transient", "1.010 s  attempt 1 of offset 11, key A, starts",
			"1.100 s  attempt 2 of offset 10 is answered success",
		},
		Cause: "A failed record goes to a retry queue while its key is not held back. After a resize, the hash of the " +
			"key selects another lane.",
		Contract: "ordering: key, or partition",
		Anomalies: []AnomalyNote{
			{"reordered", "the next record was started before the one before it was finished"},
		},
	}
}

func aboutReplay() Explanation {
	return Explanation{
		Promise: "A replayed dead letter is written back once, restored to the original record, and is then processed.",
		Rule: "Every selected dead letter is written once to the topic where it belongs, with the original's key, value " +
			"and headers and without failure headers, and is then finished. One that fails again makes a dead letter with no " +
			"more headers than the first; that is judged where the envelope is a dialect, because of headers that the " +
			"contract does not name nobody knows which a replay should remove.",
		Evidence: "the writes of the replay tool, the audits before and after it, and the answers of the downstream stub; " +
			"a record is recognised by its id, in its value or in the workload's header, and never by the position that its " +
			"dead letter names, because some dialects name only the topic",
		Example: []string{
			"12.000 s  the dead letter of record 8 is selected", "12.500 s  the replay tool writes it to the source topic",
			"12.600 s  the replay tool writes it to the source topic again",
		},
		Cause: "The tool starts over after an error because it stores no position. Failure headers are copied along and " +
			"accumulate. After a second failure, the source topic is read from the wrong header.",
		Scenario: "a replay of dead letters (replay-round-trip)",
		Anomalies: []AnomalyNote{
			{"replay-lost", "the dead letter was selected, but not written back, or the record was never finished again"},
			{"replay-duplicated", "the record was written back more than once"},
			{"replay-altered", "the record was not written back as it was"},
			{"replay-wrong-topic", "the record was written back to another topic"},
			{"envelope-grew", "a second dead letter carries more headers than the first"},
			{"selected-wrong", "a record was written back although it was not selected"},
		},
	}
}

func aboutStoreLifecycle() Explanation {
	return Explanation{
		Promise: "An entry of the dead-letter store follows the documented lifecycle: one entry per dead letter, one " +
			"worker at a time, resolved only after a success.",
		Rule: "The states are those of \"Dead Letter Queue Lifecycle\" and of the management schema, whatever the table " +
			"calls them. A lock is passed on only when it is released or its lease has ended; a dead worker's lock is " +
			"recovered within the lease, two polls and the allowance. An entry is taken when it is due and tried as often as " +
			"promised; lateness is judged only if a worker was alive and idle long enough. Offsets of the dead-letter topic " +
			"are committed only after the row exists. Entries are kept as long as the retention says, and pending ones until " +
			"they are resolved.",
		Evidence: "the changes of the table, reported by its triggers or by polling, with the database's own times; the " +
			"attempts and republishes of the workers; the routers' commits; signals and ends of their processes; and an audit " +
			"of the table",
		Example: []string{
			"4.000 s  entry 7 goes from pending to processing, locked by worker-1 for 2s",
			"4.300 s  entry 7 goes from processing to processing, locked by worker-2",
		},
		Cause: "A worker reads and then writes instead of using compare-and-set. Nothing checks for leases that have " +
			"ended. The status is set before the answer is known. A retry is counted only when it succeeds. Retention uses " +
			"the wrong column.",
		Anomalies: []AnomalyNote{
			{"illegal-transition", "a change of state that neither document allows, or an unknown status"},
			{"double-lock", "two workers held the entry at once"},
			{"orphaned-lock", "a dead worker's lock was not recovered"},
			{"resolved-without-success", "the entry was resolved before anything had succeeded"},
			{"over-retried-in-store", "the entry was tried, or sent back to be tried, more often than promised"},
			{"retry-early", "the entry was taken or tried before it was due, or outside off-peak hours"},
			{"retry-while-unhealthy",
				"an entry with conditional retries was tried although the health probe reported a problem, or was not asked"},
			{"retry-late", "the entry was due and left lying while a worker was idle"},
			{"committed-before-stored", "the router committed an offset before the row existed"},
			{"lost-in-store", "a dead letter never reached the store"},
			{"doubled-in-store", "two entries have the same source position"},
			{"retention-early", "the entry was removed or archived before its time, or before its final state"},
			{"retention-late", "the entry was kept longer than the retention says"},
		},
	}
}
