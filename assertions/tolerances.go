package assertions

import "time"

// All times and shares by which the judges excuse something, or wait for it, are defined here, each with its reason and
// its source. None of them is a setting: if a tolerance must be widened for a correct consumer to pass, the definition
// of the invariant is wrong.

// Clocks and their precision.
const (
	// earlyLeast is the amount by which any wait may look too short: clocks and timers that count in milliseconds round
	// both of its ends.
	earlyLeast = 2 * time.Millisecond
	// earlyMost is the same for timers that count by the kernel's coarse clock, as those of .NET do
	// (Environment.TickCount64): a tick, and the millisecond that is cut off. The longest tick is 10 ms (CONFIG_HZ=100,
	// in WSL 2); it is 4 ms in Debian.
	earlyMost = 11 * time.Millisecond
	// clockGrain is the same for the times in a table: databases store milliseconds, and round the two ends of a wait
	// independently.
	clockGrain = 2 * time.Millisecond
	// clockSlack is the largest difference allowed between the clocks of a subject's machine and of this one. A subject
	// that takes seconds for milliseconds, or a local time for that of another zone, is wrong by half an hour or more.
	clockSlack = time.Minute
	// exitPrecision is how late the end of a process may be noticed: the harness checks several times a second.
	exitPrecision = 250 * time.Millisecond
	// sampling is how often an instance's run delay is read (internal/env/subject). The position of a stall is
	// uncertain by this interval.
	sampling = 100 * time.Millisecond
)

// The machine, which the harness shares with the subject.
const (
	// answerStall is the shortest stall that can make an answer miss a client's timeout. Clients wait 500 ms and more.
	answerStall = 200 * time.Millisecond
	// starvedStall within starvedWindow is the equivalent in many short waits for a processor: a process that gets less
	// than half of a processor for the length of a client's timeout reads its answers too late, although none of its
	// waits is long.
	starvedStall, starvedWindow = 250 * time.Millisecond, 500 * time.Millisecond
	// catchUp is the time that the harness may need after a stall to work off its backlog:
	//
	//	client sends a request ─▶ (harness stands still; client gives up) ─▶ harness reads it, stamps its start, answers ─▶
	//	    client sends it again
	catchUp = time.Second
	// catchUpShare: a gap looks shorter than it was by the delay of the stamp at its beginning. The client receives its
	// answer, or gives up, and starts to wait, while the harness is stalled. Then the harness works off its backlog,
	// which takes at most as long as the stall. A stall of the client never shortens its wait.
	catchUpShare = 2
	// harnessNoise is the longest stall of the harness that implies nothing about the instance.
	harnessNoise = 50 * time.Millisecond
	// slowTable is how late a change in a store may be seen. A longer delay means that the database or the machine
	// cannot keep up, and neither can workers.
	slowTable = 100 * time.Millisecond
)

// Clients and their groups.
const (
	// unanswered is for how long the downstream stub leaves a call without an answer before it closes the connection
	// (internal/env/workload). The default timeout is 10 s in OkHttp, 30 s in Quarkus' REST client, 100 s in .NET's
	// HttpClient, 300 s in aiohttp, and none in Go, Python's requests and axios.
	unanswered = 30 * time.Second
	// refetch is how long a client may take to receive the next record after it has sought back: it waits for a pending
	// fetch of its other partitions (fetch.max.wait.ms, 500 ms in Kafka's clients), plus a margin.
	refetch = 600 * time.Millisecond
	// notedEvery is the precision with which it is known since when a process was busy (backoff_solo.go). A copy may be
	// late by as much more. It takes a megabyte an hour for a process that is never idle for long.
	notedEvery = 50 * time.Millisecond
	// slowAck is the longest delay with which an acknowledgement still reaches a client that waits for it.
	slowAck = time.Second
	// settling is how long after its cause a rebalance may come: one heartbeat interval of Kafka's clients
	// (heartbeat.interval.ms, 3 s by default), plus a margin.
	settling = 3500 * time.Millisecond
	// sessionStall is the shortest stall that can cost a session.
	sessionStall = time.Second
	// settled is how long after a change of its assignment isolation does not judge a process.
	settled = time.Second
	// refusedLong is how long after a refusal a process may show no reaction. kafkajs waits up to thirty seconds before
	// it retries or restarts its consumer (retry.maxRetryTime); no other client waits as long.
	refusedLong = 30 * time.Second
	// quietMargin is added to the longest promised wait before a record counts as standing still.
	quietMargin = 2 * time.Second
)

// Faults and the time by which they must show.
const (
	// faultGrace is how long after its end a fault still explains delays and gaps: connections are restored, queues
	// drain.
	faultGrace = time.Second
	// windowAtLeast is the shortest outage that is judged: single failures among successes are not outages.
	windowAtLeast = 200 * time.Millisecond
	// surfaceAtLeast: the application may retry a few times before it reports a failure.
	surfaceAtLeast = 3 * time.Second
	// surfaceUnsaid is how long clients retry by themselves if the contract does not say (librdkafka's
	// message.timeout.ms).
	surfaceUnsaid = 5 * time.Minute
	// surfaceGrace is how long after the outage the failure may still show.
	surfaceGrace = 2 * time.Second
)

// Starting and ending processes.
const (
	// startUp is the time that a worker may take from its start until it looks for work.
	startUp = time.Second
	// endingTime is the time that a process may take to end in addition to its stop grace: for the failure to reach the
	// code that ends it, and for the end to be observed.
	endingTime = 5 * time.Second
	// reserveShare is the inverse of the share of its grace that a stop must keep in reserve for scheduling delays,
	// reserveLeast the least reserve.
	reserveShare = 20
	reserveLeast = 50 * time.Millisecond
	// longCall is how long a call takes that may be about to fail.
	longCall = 100 * time.Millisecond
	// afterFault is how long after a fault a process that starts may still meet what it has left behind.
	afterFault = 10 * time.Second
	// startsInVain is how many processes of an instance may end in a row before they come up, without a fault. An
	// environment that is not ready yet and a group that is rebalanced explain a few.
	startsInVain = 5
	// lookBack is how far before an end its trace begins.
	lookBack = 2 * time.Second
)

// The evidence needed to distinguish an effect from noise.
const (
	// togetherTurns is how many turns, each within togetherWithin of the one before, show that instances read a partition
	// together. One that moves between instances, by an agreement that dlqbench does not see, stays longer with each.
	togetherTurns  = 3
	togetherWithin = time.Second
	// jitterGaps is the number of gaps needed to conclude that there is no jitter, jitterLeast the smallest promised
	// jitter that can be told from none.
	jitterGaps  = 200
	jitterLeast = 5 * time.Millisecond
	// usualGaps is the number of gaps needed to determine the usual length of a wait, usualShare the part of the
	// promised wait by which it may be longer.
	usualGaps  = 20
	usualShare = 2
	// stalledSuspects is the number of suspicions that stalls alone explain from which they are no coincidence: 1,280
	// runs of correct consumers on busy machines had none.
	stalledSuspects = 5
	// apartGaps is the number of gaps, none of which overlaps another, that a single stall of the machine cannot delay.
	apartGaps = 5
	// expelling is the number of rebalances that a member expelled later justifies: a cooperative change.
	expelling = 2
	// stormLeast is the least number of unexplained rebalances in a storm.
	stormLeast = 4
	// shortestBackoff is the shortest wait in which isolation can be told from the noise of a machine.
	shortestBackoff = 40 * time.Millisecond
	// shortSilence is the shortest pause between first attempts that is recorded. It must be less than half of the
	// shortest backoff.
	shortSilence = 10 * time.Millisecond
	// burst is the time within which records that were released together are started.
	burst = 5 * time.Millisecond
	// isolationLeast is the least number of each kind of evidence for an anomaly. A consumer that lets other records
	// proceed does so in nearly all backoffs, one that does not in nearly none, so few samples are enough.
	isolationLeast = 16
	// promptLeast is the fault-free share below which nothing is concluded: a consumer that slow lets no record proceed
	// quickly anyway.
	promptLeast = 0.5
	// activityStep is how long a fault must have been in force before a lack of fetches is meaningful.
	activityStep = time.Second
)

// The order of the violations (roots.go), on which no verdict depends.
const (
	// stampSlack is how much earlier an effect may be stamped than its cause. Several observers stamp the events of one
	// moment, and an event that never came may be dated to what it should have followed.
	stampSlack = 100 * time.Millisecond
	// noiseMargin is the margin below which an anomaly could be taken for noise of the clocks. It is evidence all the
	// same, but a poor example.
	noiseMargin = 10 * time.Millisecond
)

// shortened returns how short a promised wait may look: by earlyMost, but not to less than half of it, so that a wait
// that is left out is noticed.
func shortened(wait time.Duration) time.Duration {
	return max(wait-max(earlyLeast, min(earlyMost, wait/2)), 0)
}
