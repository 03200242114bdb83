package catalogue

// The entries for properties of the workload and for the schedule of faults.

import "github.com/dlqbench/dlqbench/faults"

const planned = "It is planned record by record before anything starts (plan-records.csv.gz). Records of the warm-up " +
	"are never affected."

func shapeEntries() []faults.Entry {
	return []faults.Entry{{
		Name: "workload.steps", Summary: "The rate changes.",
		Does: "The steady phase consists of steps, each with its own rate, instead of rate and duration. A rate of 0/s is " +
			"a pause.", Made: planned,
		Shows: "A correct consumer falls behind and catches up. Bugs: buffers without a bound, batches that are finished " +
			"only when the next record arrives.",
		Keys:    []string{"workload.steps"},
		Example: "steps: [{rate: 200/s, for: 2s}, {rate: 1000/s, for: 1s}, {rate: 200/s, for: 2s}]",
	}, {
		Name: "workload.bursts", Summary: "Many records arrive at once.",
		Does: "In addition to the rate, this many records are sent at once at the interval every, first after one interval.",
		Made: planned,
		Shows: "A correct consumer fetches what it can hold and leaves the rest in Kafka. Bugs: a poll that exceeds its " +
			"interval, a retry queue that overflows.",
		Keys:    []string{"workload.bursts"},
		Example: "bursts: {every: 1s, records: 500}",
	}, {
		Name: "workload.hot", Summary: "One key has most of the records.",
		Does: "This share of the records has the same key, and therefore the same partition.", Made: planned,
		Shows: "A correct consumer that orders by key processes the hot key record by record while the others continue. " +
			"Bugs: a lock per partition where one per key was promised, scheduling that starves the other keys.",
		Keys:    []string{"workload.keys.hot"},
		Example: "keys: {count: 500, hot: 50%}",
	}, {
		Name: "workload.failing", Summary: "Several partitions fail at once.",
		Does: "Every record sent to these partitions in this period has this outcome, whatever outcomes says: transient " +
			"(fails twice), exhausted, permanent or logical.", Made: planned,
		Shows: "A correct consumer continues with the other partitions. Bugs: one thread or one pause for all " +
			"partitions, so that a few failing ones stop everything.",
		Keys:    []string{"workload.failing"},
		Example: "failing: [{partitions: [0, 3], at: 1s, for: 2s, outcome: exhausted}]",
	}}
}

func valueEntries() []faults.Entry {
	return []faults.Entry{{
		Name: "workload.null", Summary: "Records without a key.",
		Does: "This share of the records has a null key; they are spread over the partitions.", Made: planned,
		Shows: "A correct consumer treats each by itself, because a missing key is not a common key. Bugs: a null " +
			"pointer, one lock for all of them, a null key that becomes empty in the dead letter.",
		Keys:    []string{"workload.keys.null"},
		Example: "keys: {count: 500, null: 25%}",
	}, {
		Name: "workload.tombstones", Summary: "Records without a value.",
		Does: "This share of the records has a null value, with the id only in the header dlqbench-id. The attempt then " +
			"carries no id, and the downstream answers 404.", Made: planned,
		Shows: "A correct consumer skips them if its contract says so and otherwise finishes them; how often it tries is " +
			"not judged. Bugs: a null pointer that stops the partition.",
		Keys:    []string{"workload.tombstones"},
		Example: "tombstones: 2%",
	}, {
		Name: "workload.garbage", Summary: "Records with random bytes as value.",
		Does: "The value of this share of the records is random bytes, not UTF-8, with the id only in the header " +
			"dlqbench-id. The downstream answers 404.", Made: planned,
		Shows: "A correct consumer dead-letters them byte for byte and continues. Bugs: a deserializer that throws " +
			"outside the error handling, so that the consumer reads the same record for ever.",
		Keys:    []string{"workload.garbage"},
		Example: "garbage: 2%",
	}, {
		Name: "workload.malformed", Summary: "Records whose value has a fault.",
		Does: "This share of the records is made from the subject's samples, or from dlqbench's own records, with a fault. " +
			"With truncated, not-json, wrong-type, missing-field and unknown-schema-id, no id can be read from the value: it " +
			"is only in the header dlqbench-id, and the downstream answers 404. With old-schema (written with an earlier " +
			"version of the schema, which lacks a field) and oversized-field (a text with 128 KiB more, or a number with " +
			"5,000 digits), the id is in its place, and the downstream answers as planned. Without how, one of the first " +
			"five that the format can have is drawn.",
		Made: planned + " The column value names the fault.",
		Shows: "A correct consumer does with an unreadable record what its contract says (poison), and goes on with the " +
			"others, unless it says halt. A record with an old schema or an oversized field may be processed, or treated " +
			"as one that can't be read: one or the other. Bugs: a deserializer that throws out of the poll loop, a record " +
			"that is skipped with a log line, a dead letter with the decoded value in place of the bytes that came, a " +
			"field without a default that was added to a schema, a column or a header that is too short.",
		Keys:    []string{"workload.malformed"},
		Example: "malformed: {share: 2%, how: [truncated, missing-field, oversized-field]}",
	}, {
		Name: "workload.large", Summary: "Records near the broker's limit.",
		Does: "This share of the records has values of size bytes, at most 1000KiB.", Made: planned,
		Shows: "A correct consumer dead-letters them too. Bugs: a producer whose own limit is below the broker's; " +
			"headers that make the dead letter too large, followed by a commit past it.",
		Keys:    []string{"workload.large"},
		Example: "large: {share: 1%, size: 900KiB}",
	}, {
		Name: "workload.repeated", Summary: "Records that are produced twice.",
		Does: "This share of the records is produced twice, one right after the other: with the same key, value, headers " +
			"and id, at two offsets of one partition.",
		Made: "The plan chooses the records, and the history contains both sends and both acknowledgements.",
		Shows: "A correct consumer processes both, or recognises the second and commits it. Where its contract promises " +
			"one effect (effects: {repeats: never}), the sink has one. Bugs: an idempotency key with the offset or the " +
			"attempt in it, a check before the insert in place of a unique key.",
		Keys:    []string{"workload.repeated"},
		Example: "repeated: 2%",
	}, {
		Name: "workload.transaction_markers", Summary: "Offsets that no record has.",
		Does: "A transaction is committed on each partition of the input, this often while the load lasts. Its marker " +
			"takes an offset, as do those of an upstream producer with transactions. The offsets of the records are no longer " +
			"consecutive, nor are they in a compacted topic.",
		Made: "A second producer commits transactions without records. If it cannot, the run is not carried out.",
		Shows: "A correct consumer commits one past a record's offset, whichever offset comes next. Bugs: code that waits " +
			"for the next number before it commits, or counts records to find an offset.",
		Keys:    []string{"workload.transaction_markers"},
		Example: "transaction_markers: 100ms",
	}}
}

func scheduleEntries() []faults.Entry {
	return []faults.Entry{{
		Name: "schedule.when", Summary: "A fault starts after an event of the run instead of at a time.",
		Does: "The fault starts when the event has happened, delayed by after. Events: first-retry (a record is tried for " +
			"the second time), first-dead-letter (the broker has acknowledged the first dead letter, and the subject has not " +
			"read the acknowledgement yet), backoff (an attempt has failed and another is due), \"lag > N\" (records sent and " +
			"not yet covered by a commit), \"instance N assigned\", store-locked (a worker of the dead-letter store holds an " +
			"entry), store-republished (the broker has accepted a record that a worker writes back). A fault for one instance " +
			"waits for an event of that instance. at is the earliest time at which the event counts (default 0s). If the " +
			"event has not happened when the consumer has caught up with the load, the fault has no effect.",
		Made: "The observers notify the schedule while they record. The history contains the start and end of the fault " +
			"like those of any other.",
		Shows: "Moments that a fixed time cannot hit: TERM during backoff, a kill between a dead letter and its commit, " +
			"a fault while the group is behind.",
		Effects: []string{"those of the fault"}, Keys: []string{"at", "when", "after"},
		Example: "{when: first-dead-letter, subject: {instance: 0, signal: KILL, restart_after: 1s}}",
	}}
}
