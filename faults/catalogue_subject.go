package faults

// The catalogue's entries for the kinds subject and downstream.

func subjectEntries() []Entry {
	return []Entry{{
		Name: "subject.signal", Summary: "An instance of the subject is ended or frozen.",
		Does: "TERM asks it to end, KILL ends it at once, STOP freezes it until for has passed. An ended instance is " +
			"started again after restart_after, or when for has passed. With all: true, every instance is signalled in turn, " +
			"at the interval every. With process: worker 0 (or router 0), a process of the dead-letter store is signalled.",
		Made: "A signal to the process. Instances are numbered from 0. In a graph of nodes, node selects the node, and " +
			"instances are numbered within it.",
		Shows: "A correct consumer loses nothing: unfinished records are delivered again. Bugs: offsets committed before a " +
			"record is finished (KILL), records in backoff that are dropped or dead-lettered early (TERM), a frozen instance " +
			"that commits partitions it has lost (STOP).",
		Effects: []string{"process ended", "process started and ready", "process paused", "process continued"},
		Keys: []string{"subject.node", "subject.instance", "subject.all", "subject.every", "subject.signal",
			"subject.restart_after", "subject.process"},
		Example: "{at: 1s, subject: {instance: 1, signal: KILL, restart_after: 1s}}",
	}, {
		Name: "subject.restart", Summary: "Instances are restarted in an orderly way.",
		Does: "TERM, then KILL if the process has not ended within the grace period of its contract, then a new " +
			"process. With all: true it is a rolling restart, one instance per interval every.",
		Made: "A signal to the process and a new process. This fault is instantaneous and takes no for.",
		Shows: "A correct consumer finishes or releases the records it holds, and ends in time. Bugs: a shutdown that " +
			"waits for the longest backoff, a last commit that covers unfinished records.",
		Effects: []string{"process ended", "process started and ready"},
		Keys:    []string{"subject.instance", "subject.all", "subject.every", "subject.restart"},
		Example: "{at: 1s, subject: {all: true, every: 1500ms, restart: true}}",
	}}
}

func scaleEntries() []Entry {
	return []Entry{{
		Name: "subject.scale_up", Summary: "More instances join.",
		Does: "This many further instances are started; after for, they are ended by TERM. Partitions move to them, " +
			"and back.",
		Made: "New processes, with the next free numbers. A run can have 16 instances in total.",
		Shows: "A correct consumer releases a partition only after committing its finished offsets, and stops processing " +
			"its records. Bugs: records processed by both instances, commits for revoked partitions.",
		Effects: []string{"process started and ready", "process ended"}, Keys: []string{"subject.scale_up"},
		Example: "{at: 1s, for: 2s, subject: {scale_up: 2}}",
	}, {
		Name: "subject.scale_down", Summary: "Instances leave.",
		Does: "This many instances, the last ones, are ended by TERM; after for, they are started again.",
		Made: "A signal to the processes, and new processes later.",
		Shows: "A correct consumer takes over the released partitions from the committed offsets. Bugs: records in " +
			"backoff that are never retried, a long gap until the group notices.",
		Effects: []string{"process ended", "process started and ready"}, Keys: []string{"subject.scale_down"},
		Example: "{at: 1s, for: 2s, subject: {scale_down: 1}}",
	}}
}

const downstreamMade = "The downstream stub answers differently while the fault is in force; its connections are not " +
	"affected. In a graph of nodes, node selects the module; without it all are affected."

func downstreamEntries() []Entry {
	return []Entry{{
		Name: "downstream.outage", Summary: "The downstream is unavailable.",
		Does: "Every attempt is answered 503, whatever answer was planned for the record.", Made: downstreamMade,
		Shows: "A correct consumer retries as often as promised, then dead-letters before it commits. Bugs: retries " +
			"without end or without a wait, a whole partition dead-lettered within moments.",
		Effects: []string{"attempts answered 503"}, Keys: []string{"downstream.outage", "downstream.node"},
		Example: "{at: 1s, for: 2s, downstream: {outage: true}}",
	}, {
		Name: "downstream.slow", Summary: "The downstream is slow.",
		Does: "Every attempt is answered as planned, after this delay.", Made: downstreamMade,
		Shows: "A correct consumer slows down, or times out and retries. Bugs: one slow call that makes the poll loop " +
			"miss its deadline, so that the partition is lost.",
		Effects: []string{"answers delayed"}, Keys: []string{"downstream.slow"},
		Example: "{at: 1s, for: 2s, downstream: {slow: 150ms}}",
	}, {
		Name: "downstream.hang", Summary: "The downstream does not answer.",
		Does: "No attempt is answered until the fault is over; connections stay open.", Made: downstreamMade,
		Shows: "A correct consumer ends each attempt after its timeout and counts it as a retriable failure. Bugs: calls " +
			"without a timeout, timeouts that are never counted.",
		Effects: []string{"attempts left unanswered"}, Keys: []string{"downstream.hang"},
		Example: "{at: 1s, for: 1s, downstream: {hang: true}}",
	}, {
		Name: "downstream.rate_limit", Summary: "The downstream limits the rate.",
		Does: "Attempts of all instances above rate are answered 429 with Retry-After (whole seconds, default 1s).",
		Made: downstreamMade,
		Shows: "A correct consumer retries no earlier than told. Bugs: Retry-After that is ignored or read as " +
			"milliseconds, a 429 that is treated as a permanent failure.",
		Effects: []string{"attempts answered 429"}, Keys: []string{"downstream.rate_limit"},
		Example: "{at: 1s, for: 2s, downstream: {rate_limit: {rate: 100/s, retry_after: 1s}}}",
	}, {
		Name: "downstream.errors", Summary: "The downstream fails now and then.",
		Does: "These shares of the attempts fail (transient: 503, permanent: 400, logical: 422, timeout: no answer, reset: " +
			"a broken connection), drawn from the seed by record and attempt. The others are answered as planned.",
		Made: downstreamMade,
		Shows: "A correct consumer classifies each failure by itself. Bugs: the class of one failure applied to the " +
			"next, a counter that includes failures which are not retried.",
		Effects: []string{"attempts answered 503 (400, 422)", "attempts left unanswered", "attempts reset"},
		Keys:    []string{"downstream.errors"},
		Example: "{at: 1s, for: 2s, downstream: {errors: {transient: 20%, permanent: 2%}}}",
	}, {
		Name: "downstream.error_text", Summary: "Error texts contain characters that break careless code.",
		Does: "The text of every failure is non-ascii, long (4 KiB), hostile (CR LF, NUL, quotes, markup) or mentions an " +
			"outage. That text is written to the headers of dead letters.", Made: downstreamMade,
		Shows: "A correct consumer's dead letters stay intact. Bugs: headers cut in the middle of a character, texts " +
			"that break the envelope, a dead letter too large to be written.",
		Effects: []string{"error texts changed"}, Keys: []string{"downstream.error_text"},
		Example: "{at: 1s, for: 2s, downstream: {error_text: hostile}}",
	}}
}
