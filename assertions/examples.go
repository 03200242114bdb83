package assertions

// An example of each anomaly: the shortest timeline that shows it, with what of the contract it contradicts. An anomaly
// that its invariant's own example shows has none here.

// exampleOf returns the timeline of an anomaly of an invariant; nil where the invariant's own shows it.
func exampleOf(invariant, anomaly string) []string {
	return examples()[invariant+" "+anomaly]
}

func examples() map[string][]string {
	all := map[string][]string{}
	for _, some := range []map[string][]string{commitExamples(), retryExamples(), letterExamples(), groupExamples(),
		storeExamples(), graphExamples()} {
		for name, lines := range some {
			all[name] = lines
		}
	}
	return all
}

func commitExamples() map[string][]string {
	return map[string][]string{
		"no-loss stalled": {
			"1.000 s  record 7 acknowledged at offset 7", "1.020 s  instance 0: attempt 1 is answered transient",
			"9.000 s  every fault is lifted, the drain begins",
			"        ... no attempt, no dead letter and no commit of record 7 until the drain ends",
		},
		"no-loss dropped-by-ack": {
			"2.000 s  the dead letter of record 3 is accepted at offset 0", "2.010 s  instance 0 commits up to offset 4",
			"9.000 s  the audit reads the dead-letter topic to its end, and record 3 is not there",
		},
		"commit-after-dlq commit-without-dlq": {
			"2.000 s  instance 0 writes record 3 to the dead-letter topic",
			"2.001 s  the write is refused with MESSAGE_TOO_LARGE", "2.002 s  instance 0 asks to commit up to offset 4",
		},
		"commit-after-outcome commit-wrong-partition": {
			"1.000 s  instance 0 is assigned input-0, instance 1 input-1",
			"1.500 s  instance 0 asks to commit input-1 up to offset 8, which is accepted",
		},
		"commit-after-outcome commit-past-end": {
			"1.000 s  instance 0 fetches input-0 offsets 0 to 9",
			"1.100 s  instance 0 asks to commit input-0 up to offset 12, which is accepted",
		},
		"commit-after-outcome commit-regressed": {
			"1.000 s  instance 0 commits input-0 up to offset 20",
			"1.200 s  instance 0 commits input-0 up to offset 15; it has had the partition all along",
		},
		"halt-on-dlq-failure failure-not-surfaced": {
			"4.000 s  the dead letter of record 9 is refused (TOPIC_AUTHORIZATION_FAILED), and again every second",
			"9.000 s  dead letters can be written again; until then no line of the log reports an error, and no process ended",
		},
		"halt-on-dlq-failure stopped-trying": {
			"on_failure is retry", "4.000 s  the dead letter of record 9 is refused (NOT_ENOUGH_REPLICAS)",
			"        ... no attempt and no write of instance 0, which has the partition", "36.000 s  instance 0 writes it again",
		},
		"halt-on-dlq-failure did-not-crash": {
			"on_failure is crash", "4.000 s  the dead letter of record 9 is refused (MESSAGE_TOO_LARGE)",
			"50.000 s  instance 0 still runs",
		},
	}
}

func retryExamples() map[string][]string {
	return map[string][]string{
		"bounded-retries under-retried": {
			"attempts.max is 3", "1.000 s  attempt 1 is answered transient", "1.100 s  attempt 2 is answered transient",
			"1.110 s  instance 0 writes it to the dead-letter topic",
		},
		"bounded-retries endless-redelivery": {
			"attempts.max is 3", "1.000 s  attempt 1 is answered transient", "1.300 s  attempt 3 is answered transient",
			"1.700 s  attempt 4 starts", "2.700 s  attempt 7 starts; no restart and no rebalance lies between",
		},
		"classification logical-dead-lettered": {
			"logical is terminal", "1.000 s  attempt 1 is answered logical",
			"1.010 s  instance 0 writes it to the dead-letter topic",
		},
		"classification premature-dead-letter": {
			"attempts.max is 3", "1.000 s  attempt 1 is answered transient",
			"1.010 s  instance 0 writes it to the dead-letter topic",
		},
		"classification dual-terminal": {
			"1.000 s  attempt 1 is answered success", "1.010 s  instance 0 writes it to the dead-letter topic",
		},
		"backoff backoff-late": {
			"initial is 100ms, late 50ms", "1.000 s  attempt 1 is answered transient",
			"1.400 s  attempt 2 starts; no fault, stall or rebalance lies between",
		},
		"backoff backoff-not-growing": {
			"initial is 100ms, multiplier 2", "1.000 s  attempt 1 is answered transient",
			"1.105 s  attempt 2 is answered transient", "1.210 s  attempt 3 starts",
		},
		"backoff cap-exceeded": {
			"initial is 100ms, multiplier 2, cap 300ms", "1.300 s  attempt 3 is answered transient",
			"1.705 s  attempt 4 starts, 405ms later",
		},
		"backoff no-jitter": {
			"initial is 100ms, jitter 50ms", "        ... of 240 gaps, half are 100.1ms to 100.9ms long",
		},
	}
}

func letterExamples() map[string][]string {
	found := func(more ...string) []string {
		return append([]string{"1.000 s  record 5 acknowledged at input-2 offset 31"}, more...)
	}
	return map[string][]string{
		"dlq-fidelity payload-changed": found(
			"9.000 s  the audit finds its dead letter: its value had 256 bytes and has 258; byte 1 was 0x22 and is 0x20"),
		"dlq-fidelity key-changed": found(
			"9.000 s  the audit finds its dead letter: its key had 13 bytes and has 19; byte 10 was 0xff and is 0xef"),
		"dlq-fidelity headers-lost": found(
			"9.000 s  the audit finds its dead letter: header \"x-twice\": it was there 2 times and is 1 times; header " +
				"\"x-null\": it was null and has 0 bytes"),
		"dlq-fidelity metadata-missing": found(
			"9.000 s  the audit finds its dead letter, in the dialect plain: it lacks x-retry-attempt"),
		"dlq-once two-payloads-one-source": {
			"1.000 s  the dead letter of record 4 is accepted",
			"1.010 s  record 4 is written to the dead-letter topic again, with another value",
		},
		"replay-round-trip replay-lost": {
			"12.000 s  the dead letter of record 8 is selected", "19.000 s  the replay is over; nothing was written back",
		},
		"replay-round-trip replay-altered": {
			"12.000 s  the dead letter of record 8 is selected", "12.500 s  the replay tool writes it to the source topic",
			"19.000 s  the audit finds it there: it still has the header x-error-reason",
		},
		"replay-round-trip replay-wrong-topic": {
			"12.000 s  the dead letter of record 8 is selected; it names the topic orders",
			"12.500 s  the replay tool writes it to orders.retry",
		},
		"replay-round-trip envelope-grew": {
			"5.000 s  the dead letter of record 8 has 8 headers", "12.500 s  the replay tool writes it back, and it fails again",
			"19.000 s  its second dead letter has 14 headers",
		},
		"replay-round-trip selected-wrong": {
			"12.000 s  the filter selects records whose reason is transient",
			"12.500 s  the replay tool writes record 9 back, whose reason is permanent",
		},
	}
}

func groupExamples() map[string][]string {
	return map[string][]string{
		"stays-up unclean-exit": {
			"9.000 s  instance 0 gets TERM", "9.004 s  instance 0 logs: panic: send on closed channel",
			"9.010 s  instance 0 ends with code 2; promised is 0",
		},
		"stays-up gave-up": {
			"2.000 s  instance 0 joins its group", "5.100 s  instance 0 leaves its group after an error of its own",
			"        ... it still runs at the end of the drain, and has not joined again",
		},
		"liveness paused-partition": {
			"4.000 s  instance 0 leaves input-1 out of its fetches", "9.000 s  every fault is lifted",
			"        ... instance 0 has input-1 until the end and never asks for it again",
		},
		"liveness rebalance-storm": {
			"9.000 s  every fault is lifted", "9.500 s  generation 14", "10.000s generation 15",
			"10.500s generation 16; no instance started, stopped or stood still",
		},
		"graceful-stop stop-timeout": {
			"the grace is 5s", "4.000 s  instance 0 gets TERM", "9.000 s  instance 0 is still there, and gets KILL",
		},
		"graceful-stop lost": {
			"4.000 s  attempt 1 of record 12 is answered transient", "4.050 s  instance 0 gets TERM",
			"4.060 s  instance 0 commits past record 12, and ends", "        ... nobody ever tries record 12 again",
		},
	}
}

func storeExamples() map[string][]string {
	entry := func(invariant string, lines ...string) (string, []string) {
		return "store-lifecycle " + invariant, lines
	}
	all := map[string][]string{}
	put := func(name string, lines []string) { all[name] = lines }
	put(entry("illegal-transition", "4.000 s  entry 7 goes from resolved to processing"))
	put(entry("orphaned-lock", "4.000 s  entry 7 goes to processing, locked by worker-1 for 2s",
		"4.500 s  worker-1 gets KILL", "        ... entry 7 is processing until the end"))
	put(entry("resolved-without-success", "4.000 s  entry 7 is tried, and answered transient",
		"4.010 s  entry 7 goes from processing to resolved"))
	put(entry("over-retried-in-store", "3 DLQ retries are promised", "4.000 s  entry 7 is tried for the fourth time"))
	put(entry("retry-early", "4.000 s  entry 7 is pending, due 2s later",
		"4.500 s  entry 7 goes from pending to processing"))
	put(entry("retry-while-unhealthy", "4.000 s  the health probe is answered: the error rate is too high",
		"4.100 s  entry 7, whose retries are conditional, is tried"))
	put(entry("retry-late", "4.000 s  entry 7 is due; worker-1 has nothing to do", "19.000 s  entry 7 is still pending"))
	put(entry("committed-before-stored", "4.000 s  the router commits the dead-letter topic up to offset 9",
		"4.050 s  the entry of offset 8 is made"))
	put(entry("lost-in-store", "4.000 s  the dead letter of record 3 is accepted at offset 8",
		"9.000 s  the audit finds no entry of it"))
	put(entry("doubled-in-store", "4.000 s  entry 7 of input-0 offset 31 is made",
		"4.200 s  entry 9 of input-0 offset 31 is made"))
	put(entry("retention-early", "resolved entries are kept for 1h", "4.000 s  entry 7 goes to resolved",
		"9.000 s  entry 7 is removed"))
	put(entry("retention-late", "resolved entries are kept for 2s", "4.000 s  entry 7 goes to resolved",
		"19.000 s  the audit finds entry 7"))
	return all
}

func graphExamples() map[string][]string {
	all := map[string][]string{}
	put := func(name string, lines ...string) { all["graph-conservation "+name] = lines }
	put("commit-before-forward", "1.000 s  node parse writes record 3 to its next topic",
		"1.001 s  it commits past record 3", "1.050 s  the write is accepted")
	put("dual-exit", "1.000 s  node parse passes record 3 on", "1.010 s  it writes record 3 to its dead-letter topic")
	put("forwarded-twice", "1.000 s  node parse passes record 3 on",
		"1.200 s  it passes record 3 on again; nothing happened in between")
	put("forwarded-unprocessed", "1.000 s  node parse passes record 3 on",
		"1.010 s  the module of parse is called with record 3")
	put("skipped-node", "the edge leads from parse to chunk", "1.000 s  node parse writes record 3 to the topic of embed")
	put("wrong-node-dlq", "1.000 s  node parse writes record 3 to the dead-letter topic of chunk")
	put("quarantine-missed", "2 replays are allowed", "9.000 s  record 3 fails after its second replay",
		"9.010 s  node parse writes it to its dead-letter topic")
	put("quarantined-early", "2 replays are allowed", "9.000 s  record 3 fails after its first replay",
		"9.010 s  node parse quarantines it")
	put("replayed-to-wrong-node", "12.000 s  a dead letter of node parse is selected",
		"12.500 s  it is written to the input of chunk")
	put("replay-missing", "12.000 s  a dead letter of node parse is selected",
		"19.000 s  the replay is over; it was not written back")
	put("replayed-twice", "12.000 s  a dead letter of node parse is selected", "12.500 s  it is written back",
		"12.600 s  it is written back again")
	return all
}
