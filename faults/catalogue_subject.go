package faults

// The catalogue's entries for the kinds subject and downstream.

func subjectEntries() []Entry {
	return []Entry{{
		Name: "subject.signal", Summary: "An instance of the subject is ended or frozen.",
		Does: "TERM asks it to end, KILL ends it at once, STOP freezes it until for has passed. An ended instance is started again after restart_after, " +
			"or when for has passed. With all: true every instance gets it in turn, every so long. With process: worker 0 (or router 0) a process of the dead-letter store gets it.",
		Made: "A signal to the process. Instances are numbered from 0; in a graph of nodes node says whose, and they are numbered within it.",
		Shows: "A correct consumer loses nothing: what it had not finished is delivered again. Bugs: offsets committed before the work was done (KILL), records in backoff that are dropped or " +
			"dead-lettered early (TERM), a frozen instance that commits what others own by now (STOP).",
		Effects: []string{"process ended", "process started and ready", "process paused", "process continued"},
		Keys:    []string{"subject.node", "subject.instance", "subject.all", "subject.every", "subject.signal", "subject.restart_after", "subject.process"},
		Example: "{at: 1s, subject: {instance: 1, signal: KILL, restart_after: 1s}}",
	}, {
		Name: "subject.restart", Summary: "Instances are restarted in an orderly way.",
		Does:    "TERM, then KILL if it has not ended within the grace that its contract promises, then a new process. With all: true it is a rolling restart, one every so long.",
		Made:    "A signal to the process and a new process. It is an instant: it has no for.",
		Shows:   "A correct consumer finishes or gives back what it holds, and ends in time. Bugs: a stop that waits for the longest backoff, a last commit that covers unfinished records.",
		Effects: []string{"process ended", "process started and ready"},
		Keys:    []string{"subject.instance", "subject.all", "subject.every", "subject.restart"},
		Example: "{at: 1s, subject: {all: true, every: 1500ms, restart: true}}",
	}}
}

func scaleEntries() []Entry {
	return []Entry{{
		Name: "subject.scale_up", Summary: "More instances join.",
		Does:    "So many further instances are started; after for they are ended by TERM. Partitions move to them, and back.",
		Made:    "New processes with the numbers that follow. A run can have 16 instances, all faults together.",
		Shows:   "A correct consumer gives up a partition only after its finished offsets are committed, and carries on nothing of it. Bugs: records processed by both, commits for partitions that were taken away.",
		Effects: []string{"process started and ready", "process ended"}, Keys: []string{"subject.scale_up"},
		Example: "{at: 1s, for: 2s, subject: {scale_up: 2}}",
	}, {
		Name: "subject.scale_down", Summary: "Instances leave.",
		Does:    "So many of the last instances are ended by TERM; after for they are started again.",
		Made:    "A signal to the processes, later new ones.",
		Shows:   "A correct consumer takes over what the others left, from where they committed. Bugs: records in backoff that nobody retries any more, a long gap until the group notices.",
		Effects: []string{"process ended", "process started and ready"}, Keys: []string{"subject.scale_down"},
		Example: "{at: 1s, for: 2s, subject: {scale_down: 1}}",
	}}
}

const downstreamMade = "The oracle answers differently while the fault is in force; its connections are not touched. In a graph of nodes node says whose module is meant; without it all are."

func downstreamEntries() []Entry {
	return []Entry{{
		Name: "downstream.outage", Summary: "What the subject calls is out of order.",
		Does: "Every attempt is answered 503, whatever the plan says of the record.", Made: downstreamMade,
		Shows:   "A correct consumer retries as often as it says, then dead-letters before it commits. Bugs: retries without end or without a wait, a whole partition dead-lettered in no time.",
		Effects: []string{"attempts answered 503"}, Keys: []string{"downstream.outage", "downstream.node"},
		Example: "{at: 1s, for: 2s, downstream: {outage: true}}",
	}, {
		Name: "downstream.slow", Summary: "What the subject calls takes its time.",
		Does: "Every attempt is answered as planned, that much later.", Made: downstreamMade,
		Shows:   "A correct consumer is slower, or times out and retries. Bugs: one slow call that keeps the poll loop from its deadline, so that the partition is lost.",
		Effects: []string{"answers delayed"}, Keys: []string{"downstream.slow"},
		Example: "{at: 1s, for: 2s, downstream: {slow: 150ms}}",
	}, {
		Name: "downstream.hang", Summary: "What the subject calls does not answer.",
		Does: "No attempt is answered until the fault is over; connections stay open.", Made: downstreamMade,
		Shows:   "A correct consumer gives each attempt up after its time-out, and counts it as a failure that may pass. Bugs: calls without a time-out, time-outs that are never counted.",
		Effects: []string{"attempts left unanswered"}, Keys: []string{"downstream.hang"},
		Example: "{at: 1s, for: 1s, downstream: {hang: true}}",
	}, {
		Name: "downstream.rate_limit", Summary: "What the subject calls limits the rate.",
		Does: "Of the attempts of all instances rate pass, the others are answered 429 with Retry-After (whole seconds, default 1s).", Made: downstreamMade,
		Shows:   "A correct consumer comes back no earlier than it was told. Bugs: Retry-After that is not read, or read as milliseconds; a 429 that is taken for a permanent failure.",
		Effects: []string{"attempts answered 429"}, Keys: []string{"downstream.rate_limit"},
		Example: "{at: 1s, for: 2s, downstream: {rate_limit: {rate: 100/s, retry_after: 1s}}}",
	}, {
		Name: "downstream.errors", Summary: "What the subject calls fails now and then.",
		Does: "Shares of the attempts are answered with errors (transient 503, permanent 400, logical 422, timeout not at all, reset with a broken connection), drawn from the seed by record and " +
			"attempt; the rest is answered as planned.", Made: downstreamMade,
		Shows:   "A correct consumer classes each failure for itself. Bugs: the class of the last failure that is kept for the next, a counter that counts what is not to be retried.",
		Effects: []string{"attempts answered 503 (400, 422)", "attempts left unanswered", "attempts reset"}, Keys: []string{"downstream.errors"},
		Example: "{at: 1s, for: 2s, downstream: {errors: {transient: 20%, permanent: 2%}}}",
	}, {
		Name: "downstream.error_text", Summary: "Failures say something that careless code breaks on.",
		Does: "The text of every failure is non-ascii, long (4 KiB), hostile (CR LF, NUL, quotes, markup) or tells of an outage. That text ends up in the headers of dead letters.", Made: downstreamMade,
		Shows:   "A correct consumer's dead letters stay whole. Bugs: headers cut in the middle of a character, texts that break the envelope, a dead letter too large to be written.",
		Effects: []string{"error texts changed"}, Keys: []string{"downstream.error_text"},
		Example: "{at: 1s, for: 2s, downstream: {error_text: hostile}}",
	}}
}
