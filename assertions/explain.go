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
	// Contract is what a contract says to have the invariant judged, "" where it is judged of every subject that calls the downstream stub; Scenario is
	// what puts it to the test, with a shipped scenario that has it, "" where any load does.
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
	fmt.Fprintf(&b, "\n\n%s\n\nRule: %s\n\nEvidence: %s\n\nA violation:\n", e.Promise, e.Rule, e.Evidence)
	for _, line := range e.Example {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	fmt.Fprintf(&b, "\nHow such bugs come about: %s\n", e.Cause)
	if needs := e.Needs(); needs != "" {
		fmt.Fprintf(&b, "\nIt takes %s.\n", needs)
	}
	if len(e.Anomalies) > 0 {
		b.WriteString("\nAnomalies:\n")
		for _, a := range e.Anomalies {
			fmt.Fprintf(&b, "  %-32s %s\n", a.Name, a.Meaning)
		}
	}
	return b.String()
}

// Needs says what has the invariant judged: "a contract with ordering: key, or partition", "a scenario with a replay"; "" where nothing special does.
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

// Explain returns the explanation of an invariant, or of an anomaly for each invariant that gives it that name; none if there is nothing of the name.
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
	e.Promise = strings.ToUpper(a.Meaning[:1]) + a.Meaning[1:] + ". Promised is: " + e.Promise
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
		Promise: "Every record that Kafka acknowledged comes to an end: processed, dead-lettered, or ended by contract.",
		Rule: "After heal and drain, every acknowledged record has a success (or a logical failure, where that is a result), or an acknowledged " +
			"dead letter or retry copy; what a broker acknowledged is found by the audit. What the broker of a share group gave up after too many " +
			"deliveries is lost.",
		Evidence: "the acknowledgements, the oracle's answers, the audit of all topics and of the committed offsets",
		Example: []string{
			"1.000s  record 7 acknowledged at offset 7", "1.020s  instance 0: attempt 1 is answered transient",
			"1.100s  instance 0 gets TERM", "1.110s  instance 0 commits up to offset 8", "1.120s  instance 0 ends",
			"        ... nobody ever tries record 7 again",
		},
		Cause: "an offset is committed at shutdown or on a rebalance for records still in backoff; a failed dead-letter write is logged and " +
			"forgotten; a seek after a failure moves one partition and drops what was fetched of the others.",
		Anomalies: []AnomalyNote{
			{"lost", "committed past, never finished, and nobody left to finish it"},
			{"stalled", "neither finished nor committed although everything is healed and the time was enough"},
			{"dropped-by-ack", "a broker acknowledged it and the audit finds no copy"},
		},
	}
}

func aboutCommitAfterDLQ() Explanation {
	return Explanation{
		Promise: "An offset is committed only after the dead letters of everything below it were acknowledged.",
		Rule: "For every accepted or unanswered commit of offset N: each record below N that ends in the dead-letter topic had its dead letter " +
			"acknowledged, and the acknowledgement passed on, before the commit was read.",
		Evidence: "acknowledgements are stamped before they are written to the subject, commits after they were read from it, so a subject " +
			"that waits is always seen in order",
		Example: []string{
			"2.000s  instance 0 writes record 3 to the dead-letter topic", "2.001s  instance 0 asks to commit up to offset 4",
			"2.050s  the write is accepted",
		},
		Cause: "the write is asynchronous and its future or callback is not waited for; the offset is marked done when the write is handed to " +
			"the producer; a flush that timed out is taken for one that succeeded.",
		Contract: "dlq: {enabled: true}, and commits: after-outcome",
		Scenario: "records that fail for good (smoke)",
		Anomalies: []AnomalyNote{
			{"commit-before-dlq", "the commit was sent before the dead letter was acknowledged"},
			{"commit-without-dlq", "the commit was sent though the dead letter was refused, or never acknowledged"},
		},
	}
}

func aboutCommitAfterOutcome() Explanation {
	return Explanation{
		Promise: "An offset is committed only after every record below it has come to its end.",
		Rule: "For every accepted commit of offset N: each fetched record below N is finished when the commit is read; the partition is or was " +
			"the committer's; N is within the log; offsets don't go back within one assignment. In a share group: a record is finished when it " +
			"is accepted or rejected, each by itself.",
		Evidence: "commits with the broker's answers, the oracle's answers, fetches, assignments, the audit's log ends",
		Example: []string{
			"1.000s  attempt 1 of offset 10 is answered transient; it waits", "1.010s  attempt 1 of offset 11 is answered success",
			"1.100s  instance 0 commits up to offset 12",
		},
		Cause: "the highest finished offset is committed instead of the end of the finished prefix; auto-commit is left on beside manual " +
			"commits; a failure is not rewound and the next success commits past it.",
		Contract: "commits: after-outcome",
		Anomalies: []AnomalyNote{
			{"commit-past-unfinished", "a commit covers a record that is still being worked on"},
			{"commit-wrong-partition", "a process commits in a partition that it never had"},
			{"commit-past-end", "a commit covers what nobody has fetched, or lies beyond the end of the log"},
			{"commit-regressed", "a commit goes back within one assignment, be it the owner's or that of a process " +
				"that has lost the partition"},
		},
	}
}

func aboutHalt() Explanation {
	return Explanation{
		Promise: "While dead letters can't be written, commits stand still at the first of them, and the failure is made known.",
		Rule: "In a window in which every dead-letter write fails, no accepted commit passes a record whose dead letter is outstanding. The failure is made known: an " +
			"error is logged (or a warning that names the error of the write, or the dead-letter topic), a process ends with one, or the health that the contract names turns " +
			"bad. That is owed once a process has been refused for good (TOPIC_AUTHORIZATION_FAILED) for more than three seconds, and more than twice the waits of a whole " +
			"series. What may pass (NOT_ENOUGH_REPLICAS), or is not answered, clients try again by themselves: of that it is owed within the contract's dlq.surfaced_within, " +
			"or within five minutes, librdkafka's message.timeout.ms. " +
			"Of a log in which no line states a level nobody can tell; the invariant is then inconclusive. " +
			"A subject that has no dead letters and promises to end instead (on_exhausted: exit) ends with an error after the last attempt of a series. " +
			"on_failure says what a process does after a refusal. retry: it tries on; one that makes neither an attempt nor a write for 30 s and its longest promised " +
			"wait has stopped trying. crash: it ends with a code above 0 within that time and its stop grace, once it was refused with an error that no client tries again " +
			"by itself (MESSAGE_TOO_LARGE, TOPIC_AUTHORIZATION_FAILED, INVALID_RECORD and the like). halt: it commits nothing past the record and says so. A process " +
			"that promised halt or retry and ends has crashed (stays-up).",
		Evidence: "the answers to dead-letter writes, the attempts, commits, log lines, exit codes, health",
		Example: []string{
			"4.000s  the dead letter of record 9 is refused (NOT_ENOUGH_REPLICAS)", "4.100s  instance 0 commits up to offset 10",
			"9.000s  dead letters can be written again",
		},
		Cause: "the error of the write is logged and treated as success; the recoverer's exception is swallowed so that the partition goes on; " +
			"a client retries for ever and says nothing.",
		Contract: "dlq: {enabled: true}, and commits: after-outcome; surfaced_within: 10s, if you can promise it",
		Scenario: "dead-letter writes that fail (dlq-publish-failure)",
		Anomalies: []AnomalyNote{
			{"commit-advanced-while-dlq-down", "a commit passed an undeliverable record during the outage"},
			{"failure-not-surfaced", "dead letters failed for long and nothing told of it; or a process that promised to end went on, or ended as if nothing had happened"},
			{"stopped-trying", "a process that promised to try on after a refusal did nothing any more (on_failure: retry)"},
			{"did-not-crash", "a process that promised to end after a refusal ran on, or ended with code 0 (on_failure: crash)"},
		},
	}
}

func aboutBoundedRetries() Explanation {
	return Explanation{
		Promise: "A record whose failures may heal is tried exactly as often as promised.",
		Rule: "The attempts of a series, between two events that justify a fresh count, are the contract's maximum when the failures go on; " +
			"a new series needs such an event: a restart, the loss of the partition, a failed commit or dead-letter write.",
		Evidence: "the oracle's attempts by process; assignments; for too few, that nothing could have hidden an attempt",
		Example: []string{
			"attempts.max is 3", "1.000s  attempt 1 is answered transient", "1.100s  attempt 2 is answered transient",
			"1.300s  attempt 3 is answered transient", "1.700s  attempt 4 starts",
		},
		Cause: "retries and executions are confused by one; a count lives in a place that every redelivery clears; retry sits outside the " +
			"dead-letter middleware and never runs.",
		Contract: "attempts: {max: 3}, with your number",
		Scenario: "records that fail and are tried again (transient-downstream)",
		Anomalies: []AnomalyNote{
			{"over-retried", "more attempts in one series than promised"},
			{"under-retried", "given up after fewer attempts than promised"},
			{"endless-redelivery", "the count begins again and again with nothing to justify it"},
		},
	}
}

func aboutClassification() Explanation {
	return Explanation{
		Promise: "Only what may heal is retried, and only what failed is dead-lettered.",
		Rule: "Permanent and logical outcomes are attempted once; a logical outcome that the contract calls a result is not dead-lettered; nothing " +
			"is dead-lettered that succeeded in the same delivery, was never tried, or had retries left when its instance was told to stop.",
		Evidence: "the oracle's answers, where they certainly reached the subject, and the dead-letter writes",
		Example:  []string{"1.000s  attempt 1 is answered permanent", "1.100s  attempt 2 starts"},
		Cause: "every exception is caught in one place; a status is compared by class and not by code; a shutdown hook sends what is in backoff " +
			"to the dead-letter topic; a success whose commit failed is handled as a failure.",
		Anomalies: []AnomalyNote{
			{"permanent-retried", "attempted again after an outcome that no retry can change"},
			{"logical-dead-lettered", "a logical failure, which is a result, was dead-lettered"},
			{"premature-dead-letter", "dead-lettered without a try, after the first of several, or because its instance was stopping"},
			{"dual-terminal", "succeeded and dead-lettered in one delivery"},
		},
	}
}

func aboutBackoff() Explanation {
	return Explanation{
		Promise: "The wait between two attempts is the promised one.",
		Rule: "The gap from the end of attempt k to the start of attempt k+1 is at least B(k) = min(cap, initial·multiplier^(k−1)), 2 ms " +
			"allowed for timers, and at most B(k) + jitter + late. After a 429 it is at least its Retry-After. Where late is a default, half of the gaps may be " +
			"longer by half of the wait at most. With retry topics a gap is that of the copy whose coordinates the attempt names, else of the one that is due first. " +
			"A copy whose write was asked for again may be of several failures; then it is promised the least of what they promise.",
		Evidence: "the oracle's stamps, which never make a gap shorter; stalls, faults and partitions that the instance had to give up in the window, which excuse " +
			"late and never early",
		Example: []string{"initial is 100ms", "1.000s  attempt 1 is answered transient", "1.030s  attempt 2 starts"},
		Cause: "seconds and milliseconds are mixed up; the wait is taken from the attempt's start; the exponent is reset with each delivery; " +
			"the cap is applied to the wrong term; one delayed record holds up the others behind it.",
		Contract: "backoff: {initial: 100ms, multiplier: 2, cap: 2s}, with your waits",
		Scenario: "records that fail and are tried again (transient-downstream)",
		Anomalies: []AnomalyNote{
			{"backoff-early", "the next attempt came sooner than promised"},
			{"backoff-late", "the next attempt came later than promised, with nothing to excuse it"},
			{"backoff-not-growing", "later waits are as short as the first"},
			{"cap-exceeded", "the wait grew beyond its cap"},
			{"no-jitter", "the waits are all alike although jitter is promised"},
		},
	}
}

func aboutFidelity() Explanation {
	return Explanation{
		Promise: "A dead letter carries the original record unchanged, and the truth about where it came from.",
		Rule: "Key and value are byte-equal (or as the dialect re-encodes them), original headers are kept where promised, every field of the " +
			"dialect is there, can be decoded, and is true: source topic, partition and offset, number of attempts, as far as the dialect can hold them. A reason that " +
			"quotes an answer quotes the last one, times lie in the run (a minute allowed for clocks), the epoch is one that the partition had, and the envelope is there once.",
		Evidence: "the audit's dead letters against what the workload sent and where it was acknowledged",
		Example: []string{
			"1.000s  record 5 acknowledged at input-2 offset 31", "9.000s  the audit finds its dead letter: source offset 30",
		},
		Cause: "the payload is decoded and encoded again; headers are rebuilt and the unknown ones dropped; the position is that of the " +
			"consumer, already one further; text that is not ASCII breaks a header.",
		Contract: "dlq: {enabled: true}",
		Scenario: "records that fail for good (smoke)",
		Anomalies: []AnomalyNote{
			{"payload-changed", "the value is not the record's"},
			{"key-changed", "the key is not the record's"},
			{"headers-lost", "original headers are missing or changed"},
			{"metadata-missing", "a field of the dialect is missing or can't be decoded"},
			{"metadata-wrong", "a field says what is not true"},
		},
	}
}

func aboutDLQOnce() Explanation {
	return Explanation{
		Promise: "A record is dead-lettered once, unless a disruption explains a repeat.",
		Rule: "Copies in the dead-letter topic are at most one per life of the record, plus one for each disruption while it was open: " +
			"its holder lost it or was stopped, a commit or a write failed, went unanswered or was answered too late.",
		Evidence: "the audit's dead letters; assignments, signals, answers",
		Example:  []string{"1.000s  the dead letter of record 4 is accepted", "1.010s  record 4 is written to the dead-letter topic again, and accepted"},
		Cause:    "a retry wraps a write that had succeeded; two layers dead-letter the same failure; the record is dead-lettered but not marked done.",
		Contract: "dlq: {enabled: true}",
		Scenario: "records that fail for good (smoke)",
		Anomalies: []AnomalyNote{
			{"dlq-duplicate", "more dead letters than what happened explains"},
			{"two-payloads-one-source", "two dead letters of one record with different values"},
		},
	}
}

func aboutDuplicates() Explanation {
	return Explanation{
		Promise: "A record is processed once, unless a disruption explains a repeat.",
		Rule: "Successes are at most one, plus one for each disruption between the record's first delivery and the accepted commit that covers " +
			"it; an answer that may have been lost on its way counts as one.",
		Evidence:  "the oracle's answers; assignments, signals, commits",
		Example:   []string{"1.000s  attempt 1 is answered success", "1.200s  attempt 2 is answered success; nothing happened in between"},
		Cause:     "an offset goes back further than the first unfinished record; a timed-out poll hands the same batch out again.",
		Anomalies: []AnomalyNote{{"duplicate", "succeeded more often than what happened explains"}},
	}
}

func aboutOrdering() Explanation {
	return Explanation{
		Promise: "Records that must stay in order are processed in order.",
		Rule: "Within one assignment of a partition, the first attempt of the next record of a key (or of the partition) starts after the one " +
			"before it is finished. Where dead letters are written in transactions it is enough that the one before was tried for the last time: its " +
			"dead letter counts with the rest of the transaction, whenever it is written.",
		Evidence: "the oracle's stamps: an end is stamped before it is answered, a start after it was read, so a subject that waits is seen in order",
		Example: []string{
			"1.000s  attempt 1 of offset 10, key A, is answered transient", "1.010s  attempt 1 of offset 11, key A, starts",
			"1.100s  attempt 2 of offset 10 is answered success",
		},
		Cause:    "a failed record goes to a retry queue and its key is not held; the key's hash and the lane's differ after a resize.",
		Contract: "ordering: key, or partition",
		Anomalies: []AnomalyNote{
			{"reordered", "the next record was started before the one before it was finished"},
		},
	}
}

func aboutReplay() Explanation {
	return Explanation{
		Promise: "A replayed dead letter goes back once, restored to what it was, and is processed.",
		Rule: "Every selected dead letter is written once to the topic it must go to, with the original's key, value and headers and without its " +
			"failure headers, and is then finished; one that fails again makes a dead letter with no more headers than the first.",
		Evidence: "what the replay tool wrote, the audits before and after it, the oracle's answers; a record is recognised by its id, in its value or in the " +
			"workload's header, never by the place that its letter names, as some dialects name the topic only",
		Example: []string{
			"12.000s  the dead letter of record 8 is selected", "12.500s  the replay tool writes it to the source topic",
			"12.600s  the replay tool writes it to the source topic again",
		},
		Cause: "the tool starts over after an error and keeps no position; failure headers are copied along and pile up; the source topic is read " +
			"from the wrong header after a second failure.",
		Scenario: "a replay of dead letters (replay-round-trip)",
		Anomalies: []AnomalyNote{
			{"replay-lost", "selected, but not written back, or never finished again"},
			{"replay-duplicated", "written back more than once"},
			{"replay-altered", "not written back as it was"},
			{"replay-wrong-topic", "written back to another topic"},
			{"envelope-grew", "a second dead letter carries more than the first"},
			{"selected-wrong", "written back although it was not selected"},
		},
	}
}

func aboutStoreLifecycle() Explanation {
	return Explanation{
		Promise: "An entry of the dead-letter store goes through its life as the documents draw it: each dead letter once, one worker at a time, resolved only after a success.",
		Rule: "The states are those of \"Dead Letter Queue Lifecycle\" and of the management schema, whatever words the table has for them. A lock passes on " +
			"when it is given up or its lease is over; a dead worker's lock is recovered within the lease, two polls and the allowance. An entry is taken when it is due and tried " +
			"as often as promised; what is late is judged only if a worker was alive and idle long enough. Offsets of the dead-letter topic are committed when the row is there. " +
			"Entries are kept as long as the retention says, and pending ones until they are resolved.",
		Evidence: "the table's changes, as its triggers or polling tell them, with the database's own times; the attempts and republishes of the workers, the routers' commits; " +
			"signals and ends of their processes; an audit of the table",
		Example: []string{
			"4.000s  entry 7 goes from pending to processing, locked by worker-1 for 2s", "4.300s  entry 7 goes from processing to processing, locked by worker-2",
		},
		Cause: "a worker reads and then writes in place of comparing and setting; nobody looks for leases that are over; the status is set before the answer is there; a retry is counted " +
			"when it ends well only; retention looks at the wrong column.",
		Anomalies: []AnomalyNote{
			{"illegal-transition", "a change of state that neither document has, or a status that nobody knows"},
			{"double-lock", "two workers had the entry at once"},
			{"orphaned-lock", "a dead worker's lock was not recovered"},
			{"resolved-without-success", "called resolved before anything had succeeded"},
			{"over-retried-in-store", "tried, or sent back to be tried, more often than promised"},
			{"retry-early", "taken or tried before it was due, or outside the off-peak hours"},
			{"retry-while-unhealthy", "an entry whose retries are conditional was tried, although the health probe had said that something is wrong, or was not asked"},
			{"retry-late", "due, and left lying while a worker had nothing to do"},
			{"committed-before-stored", "the router committed an offset before the row was there"},
			{"lost-in-store", "a dead letter that never came into the store"},
			{"doubled-in-store", "two entries of one source coordinate"},
			{"retention-early", "removed or put away before its time, or while it was not at its end"},
			{"retention-late", "kept longer than the retention says"},
		},
	}
}
