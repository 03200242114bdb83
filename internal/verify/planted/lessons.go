package planted

// Lesson is a planted bug that is worth a demonstration: a mistake that real consumers make, and how to avoid it.
type Lesson struct {
	// Bug is the name of a planted bug of the consumer or of the replay.
	Bug string
	// Title says in a few words what such a consumer does.
	Title string
	// Scenario is the shipped scenario in which the bug shows within about ten seconds.
	Scenario string
	// Mistake and Right are the code of the mistake and that of a correct consumer, in a language like Java's.
	Mistake, Right string
	// Trace says how the mistake is seen in the trace of a record.
	Trace string
}

// Lessons returns the bugs for demonstration. The first is the default.
func Lessons() []Lesson {
	return append(commitLessons(), recordLessons()...)
}

func commitLessons() []Lesson {
	return []Lesson{
		{
			Bug: "commit-before-dlq-ack", Title: "commits before the dead letter is acknowledged",
			Scenario: "dlq-link-down",
			Mistake: `producer.send(letter)                // returns before the broker has it
consumer.commit(record.offset + 1)`,
			Right: `producer.send(letter).get()          // waits for the acknowledgement
consumer.commit(record.offset + 1)`,
			Trace: "The commit-request stands above the produce-response. A consumer that dies between the two has lost the " +
				"record: its offset is committed, and there is no dead letter.",
		},
		{
			Bug: "ignore-dlq-error", Title: "commits although the dead letter was refused",
			Scenario: "dlq-publish-failure",
			Mistake: `try { producer.send(letter).get() }
catch (KafkaException e) { log.error("no dead letter", e) }
consumer.commit(record.offset + 1)   // whether or not it was written`,
			Right: `while (!written(letter)) backoff()   // or end with an error
consumer.commit(record.offset + 1)`,
			Trace: "The broker answers the write of the dead letter with an error, and nobody writes it again. The offset of " +
				"the record is committed all the same.",
		},
		{
			Bug: "letters-only-the-leader-has", Title: "waits for one acknowledgement (acks=1)",
			Scenario: "dlq-leader-loss",
			Mistake:  `producer = new Producer(acks: 1)      // or no setting, where 1 is the default`,
			Right:    `producer = new Producer(acks: "all")`,
			Trace: "The produce-response says that the leader alone has the dead letter, and a commit follows. Then the " +
				"leader fails, and no other broker has the dead letter.",
		},
		{
			Bug: "commit-past-unfinished", Title: "commits past records that are still in work",
			Scenario: "poison-mix",
			Mistake: `pool.submit(() -> {
  process(record)
  commit(record.offset + 1)          // earlier records may still be in work
})`,
			Right: `finished.add(record.offset)
commit(lowestOffsetNotIn(finished))`,
			Trace: "A commit covers the record before its last attempt has ended. After a crash at that moment, nobody would " +
				"read it again.",
		},
		{
			Bug: "commit-on-a-timer", Title: "commits on a timer what was only fetched",
			Scenario: "consumer-rolling-restart",
			Mistake: `enable.auto.commit=true
for (record : consumer.poll()) pool.submit(() -> process(record))`,
			Right: `enable.auto.commit=false
for (record : consumer.poll()) process(record)
consumer.commit()                    // what was polled is finished`,
			Trace: "A commit covers the record before its last attempt. Then the instance ends, and the next owner of the " +
				"partition begins behind the record.",
		},
		{
			Bug: "drop-on-term", Title: "gives up retries when it is told to stop",
			Scenario: "consumer-rolling-restart",
			Mistake: `onTerm(() -> {
  retries.cancelAll()
  consumer.commit(consumer.position())
})`,
			Right: `onTerm(() -> {
  stopPolling()
  consumer.commit(lowestUnfinishedOffset())  // the next owner has the rest
})`,
			Trace: "The record has failed and waits for its next attempt when TERM comes. It is committed, and there is " +
				"neither another attempt nor a dead letter.",
		},
	}
}

func recordLessons() []Lesson {
	return []Lesson{
		{
			Bug: "retry-permanent", Title: "retries what can never succeed",
			Scenario: "poison-mix",
			Mistake:  `catch (Exception e) { retryLater(record) }`,
			Right: `catch (TransientException e) { retryLater(record) }
catch (Exception e) { deadLetter(record, e) }`,
			Trace: "Attempt 1 is answered permanent, which says that no other attempt can succeed. Attempt 2 follows.",
		},
		{
			Bug: "backoff-not-growing", Title: "waits the same time before each retry",
			Scenario: "poison-mix",
			Mistake:  `sleep(base)                          // the same before each attempt`,
			Right:    `sleep(min(base * 2^(attempt - 1), cap) + jitter())`,
			Trace: "All waits between attempts are the same. The contract promises that each is longer than the one before, " +
				"up to its cap.",
		},
		{
			Bug: "own-name-overwritten", Title: "overwrites a record's header in the dead letter",
			Scenario: "hostile-payloads",
			Mistake: `letter.headers = record.headers
letter.headers.put("error", e.message)   // the record had one of that name`,
			Right: `letter.headers = record.headers
letter.headers.add("dlq.error", e.message)`,
			Trace: "The dead letter lacks a header that the record had. A replay of it would send another record than the " +
				"original.",
		},
		{
			Bug: "tombstones-dropped", Title: "skips records without a value",
			Scenario: "hostile-payloads",
			Mistake:  `if (record.value == null) continue   // "nothing to do"`,
			Right:    `process(record)                      // a null value means: delete this key`,
			Trace: "The record is fetched and covered by a commit. Between the two there is no attempt, and there is no dead " +
				"letter.",
		},
		{
			Bug: "replay-keeps-failure-headers", Title: "replays records with failure headers",
			Scenario: "replay-round-trip",
			Mistake:  `producer.send(topic, letter.key, letter.value, letter.headers)`,
			Right: `headers = letter.headers.without(failureHeaders)
producer.send(topic, letter.key, letter.value, headers)`,
			Trace: "The record that the replay writes carries headers about its failure. If it fails again, its dead letter " +
				"has them twice.",
		},
	}
}
