package faults

// The catalogue's entries for the kind store.

const (
	databaseMade = "The scenario's store must have engine: postgres and no url, so that the run owns the server. SQLite " +
		"has no server that could end."
	clockMade = "The worker is ended by TERM and started again with --clock-offset, which shifts every time that it " +
		"reads from the machine's clock. When for has passed, it is started again without."
)

func storeEntries() []Entry {
	clockEffects := []string{"entries locked by a worker whose clock is wrong"}
	return []Entry{{
		Name: "store.restart", Summary: "The dead-letter store's database restarts.",
		Does: "Every connection to it ends, and it returns with its data as soon as it has started.",
		Made: "PostgreSQL's fast shutdown, then a start on the same data and port. This fault is instantaneous and takes " +
			"no for. " + databaseMade,
		Shows: "A correct consumer's router commits no offset whose row is not durable, and its workers repeat unanswered " +
			"statements and settle the entries they tried. Bugs: a worker that gives up on its first broken connection, a " +
			"lost answer that is taken for a lost lock.",
		Effects: []string{"connections to the database ended", "database stopped", "database started"},
		Keys:    []string{"store.restart"}, Example: "{at: 1s, store: {restart: true}}",
	}, {
		Name: "store.crash", Summary: "The dead-letter store's database crashes.",
		Does: "It ends at once, in the middle of transactions, and returns after for. Committed transactions survive, " +
			"others do not.",
		Made: "PostgreSQL's immediate shutdown, which writes nothing, then a start that recovers from the log. " +
			databaseMade,
		Shows: "A correct consumer's store has all entries afterwards, each once. Bugs: offsets committed for rows whose " +
			"transaction was open, a repeated ingest that doubles its rows.",
		Effects: []string{"connections to the database ended", "database crashed", "database started"},
		Keys:    []string{"store.crash"}, Example: "{at: 1s, for: 1s, store: {crash: true}}",
	}, {
		Name: "store.clock_ahead", Summary: "The clock of a store's worker is ahead.",
		Does: "Its clock is this much ahead of the database's (in real time, whatever the store's time_scale).",
		Made: clockMade,
		Shows: "A correct consumer's store is not affected, because locks and due times follow the database's clock. Bugs: " +
			"leases compared with the worker's own clock, so that it takes over entries that others have locked; entries " +
			"taken before they are due.",
		Effects: clockEffects, Keys: []string{"store.process", "store.clock_ahead"},
		Example: "{at: 1s, for: 2s, store: {process: worker 1, clock_ahead: 10m}}",
	}, {
		Name: "store.clock_behind", Summary: "The clock of a store's worker is behind.",
		Does: "Its clock is this much behind the database's (in real time, whatever the store's time_scale).",
		Made: clockMade,
		Shows: "A correct consumer's store is not affected. Bugs: leases that have ended for all others before the " +
			"worker has begun, entries scheduled for a time in the past.",
		Effects: clockEffects, Keys: []string{"store.clock_behind"},
		Example: "{at: 1s, for: 2s, store: {process: worker 1, clock_behind: 10m}}",
	}, {
		Name: "store.unhealthy", Summary: "The workers' health probe reports a problem.",
		Does: "The probe that a worker asks before a conditional retry reports an OPEN circuit breaker, the CPU at 80 %, " +
			"the memory at 85 % or no available database connection, or answers 503 (probe).",
		Made: "The run serves the probe (store.probe: true, --health-url of the workers) with a listener for each worker, " +
			"and records each answer before it is written.",
		Shows: "A correct consumer's workers try no entry with a conditional strategy until the probe reports that all is " +
			"well. Bugs: a probe that is asked only once, at the start; limits compared the wrong way round; a failing probe " +
			"that is taken for a healthy one.",
		Effects: []string{"health probes answered with what is wrong"}, Keys: []string{"store.unhealthy"},
		Example: "{at: 1s, for: 2s, store: {unhealthy: circuit-breaker}}",
	}, {
		Name: "store.repeat_letters", Summary: "Dead letters reach the store's router twice and in another order.",
		Does: "This share of the dead letters in the topic is written there again, byte for byte, shuffled, each to a " +
			"random partition, as a mirror, a restored topic or a producer's retry may do.",
		Made: "The run reads the topic and writes the copies itself, from the fault's seed. They are marked in the " +
			"history, so that they are never taken for the subject's. This fault is instantaneous and takes no for.",
		Shows: "A correct consumer's router makes one entry for each position at which a record failed, whichever of its " +
			"dead letters comes first. Bugs: an insert without a conflict check, a unique key over the dead letter's own " +
			"position instead of the record's.",
		Effects: []string{"dead letters written again", "dead letters written after one that was younger"},
		Keys:    []string{"store.repeat_letters"}, Example: "{at: 1s, store: {repeat_letters: 100%}}",
	}}
}
