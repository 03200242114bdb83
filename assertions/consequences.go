package assertions

// The table of consequences: which anomalies may follow from which. No verdict depends on it. Reports lead with the
// violations that no other one explains (roots.go).

import "slices"

// near is what an occurrence of an effect must have in common with one of its cause, where both have a place.
type near int

const (
	// anywhere: it happened after the first occurrence of the cause.
	anywhere near = iota
	// samePartition and sameRecord: it also concerns a partition or a record which the cause concerned before.
	samePartition
	sameRecord
)

// link is a row of the table. Anomalies whose names several invariants share may be given as "invariant: anomaly".
type link struct {
	cause   string
	near    near
	why     string
	effects []string
}

// links is the table. Of two anomalies that may follow from each other, the effect that comes first in the table is
// taken for the effect, if the evidence allows it: the more specific cause has the earlier row.
func links() []link {
	return slices.Concat(specificLinks(), commitLinks(), processLinks(), attemptLinks(), letterLinks(), graphLinks(),
		storeLinks())
}

// specificLinks are the rows whose cause is in other rows an effect of its effects.
func specificLinks() []link {
	return []link{
		{"lost-in-graph", sameRecord, "what is never written is never acknowledged", []string{"commit-before-forward"}},
		{"no-loss: stalled", samePartition, "the partition does not come to its end before each of its records does",
			[]string{"liveness: stalled"}},
		{"graceful-stop: lost", sameRecord, "the commit at the stop passed it",
			[]string{"commit-past-unfinished", "no-loss: lost"}},
		{"graceful-stop: premature-dead-letter", sameRecord, "the stop dead-lettered records that were in backoff",
			[]string{"classification: premature-dead-letter", "under-retried"}},
		{"commit-past-unfinished", samePartition, "a commit that goes too far also passes dead letters not yet acknowledged",
			[]string{"commit-before-dlq", "commit-without-dlq", "commit-advanced-while-dlq-down"}},
	}
}

func commitLinks() []link {
	return []link{
		{"commit-past-end", samePartition, "a commit that goes too far covers what is not finished",
			[]string{"commit-past-unfinished", "commit-before-dlq", "commit-without-dlq", "commit-advanced-while-dlq-down",
				"lost", "commit-regressed", "stalled", "duplicate"}},
		{"commit-wrong-partition", anywhere, "the offsets of the partition's owner are overwritten",
			[]string{"commit-regressed", "commit-past-unfinished", "commit-before-dlq", "commit-without-dlq", "lost", "stalled",
				"duplicate", "commit-past-end"}},
		{"commit-before-dlq", samePartition, "a record counts as finished before its dead letter is acknowledged",
			[]string{"commit-without-dlq", "commit-past-unfinished", "commit-advanced-while-dlq-down"}},
		{"commit-before-dlq", anywhere, "a record counts as finished before its dead letter is acknowledged",
			[]string{"reordered"}},
		{"commit-without-dlq", samePartition, "a dead letter that failed counts as written",
			[]string{"commit-past-unfinished", "commit-advanced-while-dlq-down", "failure-not-surfaced", "did-not-crash",
				"reordered"}},
		{"commit-advanced-while-dlq-down", samePartition, "a dead letter that failed is given up",
			[]string{"commit-past-unfinished", "failure-not-surfaced", "did-not-crash"}},
		{"commit-without-dlq", sameRecord, "committed past, so no instance gets the record again", []string{"lost"}},
		{"commit-before-dlq", sameRecord, "committed past, so no instance gets the record again", []string{"lost"}},
		{"commit-advanced-while-dlq-down", sameRecord, "committed past, so no instance gets the record again",
			[]string{"lost"}},
		{"commit-past-unfinished", sameRecord, "committed past, so no instance gets the record again",
			[]string{"lost", "lost-in-graph", "replay-lost"}},
		{"commit-past-unfinished", samePartition, "the records behind it go on without it", []string{"reordered"}},
		{"commit-regressed", samePartition, "records that were finished are delivered again, or left uncommitted",
			[]string{"duplicate", "dlq-duplicate", "over-retried", "endless-redelivery", "reordered", "stalled"}},
		{"dropped-by-ack", sameRecord, "its dead letter or retry copy is gone", []string{"lost", "replay-lost"}},
	}
}

func processLinks() []link {
	return []link{
		{"unclean-exit", anywhere, "the process may have ended before it committed its finished records",
			[]string{"duplicate", "dlq-duplicate"}},
		{"stop-timeout", anywhere, "the process was killed in the middle of its work",
			[]string{"unclean-exit", "duplicate", "dlq-duplicate"}},
		{"crashed", anywhere, "a process that has ended does nothing more, and what it did uncommitted is repeated",
			[]string{"stalled", "paused-partition", "stopped-trying", "gave-up", "rebalance-storm", "backoff-late", "duplicate",
				"dlq-duplicate", "over-retried", "replay-lost"}},
		{"gave-up", anywhere, "no instance consumes the partitions of one that left its group",
			[]string{"stalled", "paused-partition", "stopped-trying", "rebalance-storm", "backoff-late", "replay-lost"}},
		{"gave-up", anywhere, "a loop that hangs does not hear the stop", []string{"stop-timeout"}},
		{"stopped-trying", anywhere, "the partition waits for a dead letter that is not written",
			[]string{"stalled", "paused-partition", "replay-lost"}},
		{"rebalance-storm", anywhere, "every rebalance interrupts the work and repeats some of it",
			[]string{"stalled", "duplicate", "dlq-duplicate", "backoff-late", "reordered", "over-retried"}},
		{"paused-partition", samePartition, "nothing is fetched from the partition any more", []string{"stalled"}},
		{"liveness: stalled", samePartition, "the partition is not consumed to its end", []string{"no-loss: stalled"}},
		{"stalled", samePartition, "the partition is not consumed to its end", []string{"replay-lost"}},
		{"another-services-record", anywhere, "the service handles records of another in place of its own",
			[]string{"stalled", "lost", "replay-lost", "over-retried", "under-retried", "duplicate", "dlq-duplicate",
				"metadata-wrong"}},
	}
}

func attemptLinks() []link {
	return []link{
		{"premature-dead-letter", sameRecord, "the record had attempts left when it was dead-lettered",
			[]string{"under-retried"}},
		{"premature-dead-letter", sameRecord, "the subject went on where it promised to halt",
			[]string{"commit-past-unfinished"}},
		{"under-retried", sameRecord, "the record had attempts left when it was dead-lettered",
			[]string{"premature-dead-letter"}},
		{"under-retried", anywhere, "the count of attempts is not that of the record",
			[]string{"over-retried", "endless-redelivery", "backoff-not-growing", "backoff-early"}},
		{"over-retried", sameRecord, "the number of the attempt is wrong", []string{"endless-redelivery",
			"backoff-not-growing", "backoff-early", "metadata-wrong"}},
		{"over-retried", sameRecord, "the broker gives up a record after too many deliveries", []string{"lost"}},
		{"endless-redelivery", samePartition, "the record comes back for ever, and holds up those behind it",
			[]string{"stalled", "head-of-line-blocked"}},
		{"head-of-line-blocked", anywhere, "a record in backoff holds up the attempts of others", []string{"backoff-late"}},
		{"duplicate", sameRecord, "each success leaves its effect", []string{"effect-doubled"}},
		{"backoff-late", anywhere, "every wait is too long, also those at the cap", []string{"cap-exceeded"}},
		{"backoff-not-growing", sameRecord, "the number of the attempt is lost, and with it the end of the attempts",
			[]string{"over-retried", "endless-redelivery"}},
		{"backoff-not-growing", anywhere, "a wait that starts from the first again is too short", []string{"backoff-early"}},
	}
}

func letterLinks() []link {
	return []link{
		{"dlq-duplicate", sameRecord, "the dead letter is written a second time, with another value",
			[]string{"two-payloads-one-source"}},
		{"two-payloads-one-source", sameRecord, "one of the two values is not the record's", []string{"payload-changed"}},
		{"payload-changed", sameRecord, "the dead letter no longer has the original", []string{"replay-altered"}},
		{"key-changed", sameRecord, "the dead letter no longer has the original", []string{"replay-altered"}},
		{"headers-lost", sameRecord, "the dead letter no longer has the original", []string{"replay-altered"}},
		{"metadata-missing", sameRecord, "the dead letter does not say where the record belongs",
			[]string{"replay-wrong-topic", "replay-lost"}},
		{"metadata-wrong", sameRecord, "the dead letter names a place where the record does not belong",
			[]string{"replay-wrong-topic", "replay-lost"}},
		{"replay-wrong-topic", sameRecord, "the replayed record did not come back to its consumer",
			[]string{"replay-lost", "metadata-missing", "metadata-wrong", "another-services-record"}},
		{"replay-altered", sameRecord, "the record came back altered, and its next dead letter has what it came with",
			[]string{"payload-changed", "key-changed", "headers-lost", "two-payloads-one-source", "envelope-grew",
				"replay-lost"}},
		{"replay-duplicated", sameRecord, "the record came back twice", []string{"duplicate", "dlq-duplicate"}},
		{"selected-wrong", sameRecord, "the record came back although its dead letter was not selected",
			[]string{"duplicate", "dlq-duplicate"}},
	}
}

func graphLinks() []link {
	return []link{
		{"commit-before-forward", sameRecord, "the commit did not wait for a write that then failed",
			[]string{"lost-in-graph"}},
		{"wrong-node-dlq", sameRecord, "its node's own dead-letter topic never got it",
			[]string{"commit-past-unfinished", "commit-without-dlq", "lost", "lost-in-graph", "replay-missing",
				"metadata-wrong"}},
		{"forwarded-unprocessed", sameRecord, "it was passed on in place of being processed",
			[]string{"commit-past-unfinished", "lost"}},
		{"skipped-node", sameRecord, "it took another path through the graph",
			[]string{"commit-past-unfinished", "lost", "lost-in-graph", "forwarded-unprocessed"}},
		{"dual-exit", sameRecord, "a document that was passed on was dead-lettered, too",
			[]string{"dual-terminal", "logical-dead-lettered", "premature-dead-letter", "payload-changed", "headers-lost",
				"metadata-missing", "metadata-wrong", "dlq-duplicate", "duplicate"}},
		{"replayed-to-wrong-node", anywhere, "one node gets what is another's",
			[]string{"replay-missing", "replayed-twice", "skipped-node", "dual-exit"}},
		{"replayed-twice", sameRecord, "the document came back twice",
			[]string{"forwarded-twice", "dual-exit", "duplicate", "dlq-duplicate"}},
		{"forwarded-twice", sameRecord, "the next node got the document twice",
			[]string{"dual-exit", "duplicate", "dlq-duplicate"}},
	}
}

func storeLinks() []link {
	return []link{
		{"committed-before-stored", sameRecord, "the router committed dead letters before they were stored",
			[]string{"lost-in-store"}},
		{"double-lock", sameRecord, "two workers handled the entry at once",
			[]string{"over-retried-in-store", "illegal-transition", "replay-duplicated", "duplicate"}},
		{"doubled-in-store", sameRecord, "each of the two entries is handled by itself",
			[]string{"over-retried-in-store", "replay-duplicated", "duplicate"}},
		{"orphaned-lock", sameRecord, "an entry that stays locked is not taken", []string{"retry-late", "replay-lost"}},
		{"retry-early", sameRecord, "an entry that is not left alone uses up its tries", []string{"over-retried-in-store"}},
		{"resolved-without-success", sameRecord, "an entry that counts as resolved is not tried again",
			[]string{"illegal-transition", "replay-lost"}},
		{"lost-in-store", sameRecord, "what is not stored is not tried again", []string{"replay-lost"}},
	}
}
