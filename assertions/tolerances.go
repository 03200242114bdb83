package assertions

import "time"

// Every time and share by which the judges excuse something, or wait for it, is here, with its reason and where its
// value comes from. None of them is a setting: a tolerance that must be widened for a consumer to pass is a definition
// that is wrong.

// Clocks, and how exactly they are read.
const (
	// earlySlack is by how much a wait may look too short: clocks and timers that count in milliseconds round both of
	// its ends.
	earlySlack = 2 * time.Millisecond
	// clockGrain is the same for the times in a table: databases keep milliseconds, and the two ends of a wait are
	// rounded each for itself.
	clockGrain = 2 * time.Millisecond
	// clockSlack is how far the clocks of a subject's machine and of this one may be apart. Who takes seconds for
	// milliseconds, or a local time for that of another zone, is wrong by half an hour and more.
	clockSlack = time.Minute
	// exitPrecision is how late a process's end may be noticed: it is looked for several times a second.
	exitPrecision = 250 * time.Millisecond
	// sampling is how often an instance's run delay is read (internal/env/subject): a stall of it lies somewhere in so much
	// more than it lasted.
	sampling = 100 * time.Millisecond
)

// The machine that the harness shares with the subject.
const (
	// answerStall is how long something must have stood still for an answer to have missed a client's timeout. Clients
	// wait 500 ms and more.
	answerStall = 200 * time.Millisecond
	// starvedStall within starvedWindow is as much, in many short waits for a processor: who gets less than half of one
	// for as long as clients wait reads its answers too late, though none of its waits is long.
	starvedStall, starvedWindow = 250 * time.Millisecond, 500 * time.Millisecond
	// catchUp is how long the harness may need after a stall for what came meanwhile:
	//
	//	client sends a request ─▶ (harness stands still; client gives up) ─▶ harness reads it, stamps its start, answers ─▶
	//	    client sends it again
	catchUp = time.Second
	// catchUpShare: a gap looks shorter than it was by as much as its beginning was stamped late. The client has its
	// answer, or gives up, and begins to wait, while the harness stands still; then the harness works off what came
	// meanwhile, which takes it no longer than that again. No stall of a client's shortens its wait.
	catchUpShare = 2
	// harnessNoise is the length up to which a stall of the harness says nothing of the instance.
	harnessNoise = 50 * time.Millisecond
	// slowTable is how late a change in a store may be seen: later, and the database or the machine can't keep up, and
	// neither can workers.
	slowTable = 100 * time.Millisecond
)

// Clients and their groups.
const (
	// refetch is how long a client may take to be handed the next record after it has sought back: it waits for a fetch
	// of its other partitions that is under way (fetch.max.wait.ms, 500 ms in Kafka's clients), and a little.
	refetch = 600 * time.Millisecond
	// slowAck is how late an acknowledgement may be and still have reached a client that was waiting for it.
	slowAck = time.Second
	// settling is how long after its cause a rebalance may come: one heartbeat interval of Kafka's clients
	// (heartbeat.interval.ms, 3 s by default) and a little.
	settling = 3500 * time.Millisecond
	// sessionStall is how long a stall must be to have cost a session.
	sessionStall = time.Second
	// settled is how long after a change of its assignment a process is left alone by isolation.
	settled = time.Second
	// refusedLong is how long after a refusal nothing may follow. kafkajs waits up to thirty seconds before it tries
	// again or starts its consumer anew (retry.maxRetryTime); no other client waits as long.
	refusedLong = 30 * time.Second
	// quietMargin is added to the longest promised wait before a record counts as standing still.
	quietMargin = 2 * time.Second
)

// Faults, and when they must show.
const (
	// faultGrace is how long after its end a fault still explains what is late or missing: connections come back,
	// queues drain.
	faultGrace = time.Second
	// windowAtLeast is the shortest outage that is looked at: single failures among successes are none.
	windowAtLeast = 200 * time.Millisecond
	// surfaceAtLeast: the application may try a few times before it says anything.
	surfaceAtLeast = 3 * time.Second
	// surfaceUnsaid is how long clients try by themselves where the contract does not say (librdkafka's
	// message.timeout.ms).
	surfaceUnsaid = 5 * time.Minute
	// surfaceGrace is how much later than the outage the failure may show.
	surfaceGrace = 2 * time.Second
)

// Processes that start and end.
const (
	// startUp is what a worker may take from its start until it looks for work.
	startUp = time.Second
	// endingTime is what a process may take for its end beside its stop grace: for the failure to reach whoever ends
	// it, and for its end to be seen.
	endingTime = 5 * time.Second
	// reserveShare is the part of its grace that a stop must keep in reserve for not being scheduled, reserveLeast the
	// least.
	reserveShare = 20
	reserveLeast = 50 * time.Millisecond
	// lookBack is how much of what came before an end its trace shows.
	lookBack = 2 * time.Second
)

// How much it takes to tell something from noise.
const (
	// jitterGaps is how many gaps it takes to say that there is no jitter, jitterLeast the smallest promise that can be
	// told from none.
	jitterGaps  = 200
	jitterLeast = 5 * time.Millisecond
	// usualGaps is how many gaps it takes to say how long a wait usually is, usualShare the part of the promised wait
	// by which it may be longer.
	usualGaps  = 20
	usualShare = 2
	// expelling is how many rebalances a member justifies that is expelled later: a cooperative change.
	expelling = 2
	// stormLeast is how many rebalances that nothing explains make a storm.
	stormLeast = 4
	// shortestBackoff is the shortest wait in which isolation can be told from the noise of a machine.
	shortestBackoff = 40 * time.Millisecond
	// shortSilence is from when on a pause between first attempts is noted; it must be less than half of the shortest
	// backoff.
	shortSilence = 10 * time.Millisecond
	// burst is within what time records that were let go together are started.
	burst = 5 * time.Millisecond
	// isolationLeast is how many of each it takes to blame someone. A consumer that lets others go does so in nearly
	// all backoffs, one that doesn't in nearly none, so there is no need of many.
	isolationLeast = 16
	// promptLeast is the fault-free share below which nothing is concluded: who is that slow by itself lets nobody go
	// quickly anyway.
	promptLeast = 0.5
	// activityStep is how long a fault must have been in force for the lack of fetches meanwhile to mean anything.
	activityStep = time.Second
)
