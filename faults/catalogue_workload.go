package faults

// The catalogue's entries for what belongs to the workload, and for when faults happen.

const planned = "The plan holds it, record by record, before anything is started (plan-records.csv.gz). Records of the warm-up are never touched."

func shapeEntries() []Entry {
	return []Entry{{
		Name: "workload.steps", Summary: "The rate changes.",
		Does: "The steady phase is made of stretches with a rate each, in place of rate and duration; a rate of 0/s is a pause.", Made: planned,
		Shows:   "A correct consumer falls behind and catches up. Bugs: buffers without a bound, batches that are only finished when the next record comes.",
		Keys:    []string{"workload.steps"},
		Example: "steps: [{rate: 200/s, for: 2s}, {rate: 1000/s, for: 1s}, {rate: 200/s, for: 2s}]",
	}, {
		Name: "workload.bursts", Summary: "Many records come at once.",
		Does: "On top of the rate, so many records are sent at one instant, every so long; the first after every.", Made: planned,
		Shows:   "A correct consumer takes what it can hold and leaves the rest in Kafka. Bugs: a poll that takes longer than its interval, a retry queue that spills.",
		Keys:    []string{"workload.bursts"},
		Example: "bursts: {every: 1s, records: 500}",
	}, {
		Name: "workload.hot", Summary: "One key has most of the records.",
		Does: "That share of the records has one and the same key, and so one partition.", Made: planned,
		Shows:   "A correct consumer with order by key works the hot key off one by one and lets the others pass. Bugs: a lock per partition where one per key was promised, fairness that starves the rest.",
		Keys:    []string{"workload.keys.hot"},
		Example: "keys: {count: 500, hot: 50%}",
	}, {
		Name: "workload.failing", Summary: "Several partitions fail at once.",
		Does: "Every record that is sent to these partitions in this stretch has the outcome, whatever outcomes says: transient (fails twice), exhausted, permanent or logical.", Made: planned,
		Shows:   "A correct consumer lets the other partitions go on. Bugs: one thread or one pause for all partitions, so that a few failing ones stop everything.",
		Keys:    []string{"workload.failing"},
		Example: "failing: [{partitions: [0, 3], at: 1s, for: 2s, outcome: exhausted}]",
	}}
}

func valueEntries() []Entry {
	return []Entry{{
		Name: "workload.null", Summary: "Records without a key.",
		Does: "That share of the records has a null key; they go round the partitions.", Made: planned,
		Shows:   "A correct consumer treats each for itself: no key is no common key. Bugs: a null pointer, all of them behind one lock, a null key that is empty in the dead letter.",
		Keys:    []string{"workload.keys.null"},
		Example: "keys: {count: 500, null: 25%}",
	}, {
		Name: "workload.tombstones", Summary: "Records without a value.",
		Does: "That share of the records has a null value; the id is in the header dlqbench-id only. What the downstream is sent has no id then, and it answers 404.", Made: planned,
		Shows:   "A correct consumer skips them where its contract says so, otherwise brings them to an end; how often it tries is not judged. Bugs: a null pointer that stops the partition.",
		Keys:    []string{"workload.tombstones"},
		Example: "tombstones: 2%",
	}, {
		Name: "workload.garbage", Summary: "Records that are no message at all.",
		Does: "The value of that share of the records is random bytes, not UTF-8, without an id; that is in the header dlqbench-id only. The downstream answers 404.", Made: planned,
		Shows:   "A correct consumer dead-letters them byte for byte and goes on. Bugs: a deserializer that throws outside the error handling, so that the consumer reads the same record for ever.",
		Keys:    []string{"workload.garbage"},
		Example: "garbage: 2%",
	}, {
		Name: "workload.large", Summary: "Records near the broker's limit.",
		Does: "That share of the records has values of size bytes, at most 1000KiB.", Made: planned,
		Shows:   "A correct consumer dead-letters them too. Bugs: a producer whose own limit is below the broker's, headers that make the dead letter too large, and then a commit past it.",
		Keys:    []string{"workload.large"},
		Example: "large: {share: 1%, size: 900KiB}",
	}}
}

func scheduleEntries() []Entry {
	return []Entry{{
		Name: "schedule.when", Summary: "A fault that follows an event of the run, not the clock.",
		Does: `The fault starts when the event has come, after later. Events: first-retry (a record is tried for the second time), first-dead-letter (the broker has acknowledged the first dead ` +
			`letter, and the subject has not read that yet), backoff (an attempt has failed and another is due), "lag > N" (records sent and not yet covered by a commit), "instance N assigned", ` +
			`store-locked (a worker of the dead-letter store has an entry), store-republished (the broker has accepted what a worker writes back). ` +
			`A fault for one instance waits for what that instance does. at is from when on the event counts (default 0s). An event that has not come when the consumer has caught up with the load leaves the fault without effect.`,
		Made:    "The observers tell the schedule while they record; what was started when stands in the history like every other fault.",
		Shows:   "What can't be hit by the clock: TERM during backoff, a kill between the dead letter and its commit, a fault while the group is behind.",
		Effects: []string{"those of the fault"}, Keys: []string{"at", "when", "after"},
		Example: "{when: first-dead-letter, subject: {instance: 0, signal: KILL, restart_after: 1s}}",
	}}
}
