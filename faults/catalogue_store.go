package faults

// The catalogue's entries for the kind store.

const (
	databaseMade = "The scenario's store has engine: postgres and no url, so that the server is the run's own; SQLite is a file in the processes that use it, and has no server that could end."
	clockMade    = "The worker is ended in order (TERM) and started again with --clock-offset, which puts all that it reads of its machine's clock forward or back; when for has passed it is " +
		"started again without."
)

func storeEntries() []Entry {
	clockEffects := []string{"entries locked by a worker whose clock is wrong"}
	return []Entry{{
		Name: "store.restart", Summary: "The dead-letter store's database restarts.",
		Does: "Every connection to it ends, and it is back with its data as soon as it can be.",
		Made: "PostgreSQL's fast shutdown, then a start on the same data and port. It is an instant: it has no for. " + databaseMade,
		Shows: "A correct consumer's router commits nothing whose row is not durable, and its workers repeat what went unanswered and settle what they tried. Bugs: a worker that " +
			"gives up on its first broken connection, an answer that got lost and is taken for a lost lock.",
		Effects: []string{"connections to the database ended", "database stopped", "database started"}, Keys: []string{"store.restart"},
		Example: "{at: 1s, store: {restart: true}}",
	}, {
		Name: "store.crash", Summary: "The dead-letter store's database crashes.",
		Does:    "It is gone at once, in the middle of transactions, and comes back after for: what was committed is there, what was not is not.",
		Made:    "PostgreSQL's immediate shutdown, which writes nothing any more, then a start that recovers from the log. " + databaseMade,
		Shows:   "A correct consumer's entries are all there afterwards, each once. Bugs: offsets committed for rows whose transaction was open, an ingest that is repeated and doubles its rows.",
		Effects: []string{"connections to the database ended", "database crashed", "database started"}, Keys: []string{"store.crash"},
		Example: "{at: 1s, for: 1s, store: {crash: true}}",
	}, {
		Name: "store.clock_ahead", Summary: "A worker of the dead-letter store has a clock that is ahead.",
		Does: "What its machine shows is later than the database's time by so much (real time, whatever the store's time_scale).", Made: clockMade,
		Shows: "Nothing, of a correct consumer's store: locks and due times are by the database's clock. Bugs: leases compared with the worker's own clock, so that it takes over " +
			"what others have locked; entries taken before they are due.",
		Effects: clockEffects, Keys: []string{"store.process", "store.clock_ahead"},
		Example: "{at: 1s, for: 2s, store: {process: worker 1, clock_ahead: 10m}}",
	}, {
		Name: "store.clock_behind", Summary: "A worker of the dead-letter store has a clock that is behind.",
		Does: "What its machine shows is earlier than the database's time by so much (real time, whatever the store's time_scale).", Made: clockMade,
		Shows:   "Nothing, of a correct consumer's store. Bugs: leases that are over for everybody else before the worker has begun, entries scheduled for a time that is past.",
		Effects: clockEffects, Keys: []string{"store.clock_behind"},
		Example: "{at: 1s, for: 2s, store: {process: worker 1, clock_behind: 10m}}",
	}, {
		Name: "store.unhealthy", Summary: "The workers' health probe says that something is wrong.",
		Does: "What a worker asks before a conditional retry answers that the circuit breaker is OPEN, the CPU at 80 %, the memory at 85 %, no database connection available, or (probe) 503.",
		Made: "The run serves the probe (store.probe: true, --health-url of the workers), a listener for each worker, and notes each answer before it is written.",
		Shows: "A correct consumer's workers try no entry whose strategy is conditional until the probe says that all is well. Bugs: a probe that is asked once, at the start; limits that are " +
			"compared the wrong way round; a probe that fails and is taken for a yes.",
		Effects: []string{"health probes answered with what is wrong"}, Keys: []string{"store.unhealthy"},
		Example: "{at: 1s, for: 2s, store: {unhealthy: circuit-breaker}}",
	}, {
		Name: "store.repeat_letters", Summary: "Dead letters come to the store's router twice, and in another order.",
		Does: "A share of the dead letters that are in their topic by then is written there once more, byte for byte, shuffled, each to a partition of its own choosing: as after a mirror or a " +
			"restored topic, or from a producer that repeats.",
		Made: "The run reads the topic and writes the copies itself, from the fault's seed. They are marked in the history, so that nobody takes them for the subject's. It is an instant: it has no for.",
		Shows: "A correct consumer's router makes one entry for each place at which a record failed, whichever of its letters comes first. Bugs: an insert without a conflict check, a unique key over " +
			"the letter's own place in place of the record's.",
		Effects: []string{"dead letters written again", "dead letters written after one that was younger"}, Keys: []string{"store.repeat_letters"},
		Example: "{at: 1s, store: {repeat_letters: 100%}}",
	}}
}
