package history

import "time"

// Kind says what was observed. Its comment lists the fields that carry something for it; every other field
// holds its "none" value (see None).
type Kind uint8

// The kinds of events. "Time" is always the moment of observation on the run's one monotonic clock.
const (
	KindUnknown Kind = iota

	// Phase: the run entered a phase. Text = its name (PhaseSetup …).
	KindPhase
	// Stall: the harness (Instance = None) or a subject instance could not run. Aux = how long, in ns, up to Time.
	KindStall

	// Send: the workload handed a record to its producer. Record, Topic, Partition; Aux = the intended send
	// time (ns since the run's base); Outcome = what the plan says will become of it; N = index of its key
	// (None for a null key); KeyHash, ValueHash, HeadersHash; HeaderCount; Flags Tombstone, Garbage, Warmup.
	KindSend
	// Acked: the broker's answer to that produce. Record, Topic, Partition, Offset, Code (Kafka error code).
	// Code ≠ 0 means that the producer gave up: the record may or may not be in the topic.
	KindAcked

	// Fetched: records were handed to an instance. Instance, Run, Topic, Partition, Offset = first,
	// Aux = last offset (inclusive). Time is before the bytes were written to the instance.
	KindFetched
	// Assigned: an instance was given a partition (SyncGroup or ConsumerGroupHeartbeat answer).
	// Instance, Run, Topic, Partition, N = generation or member epoch.
	KindAssigned
	// Revoked: an instance gave up or lost a partition. Same fields; Text = why: "rejoin" (it sent JoinGroup under an
	// eager protocol, or a cooperative one whose metadata no longer owns the partition), "rebalance" (a new assignment
	// without it), "leave" (LeaveGroup), "fenced" (the broker refused the member).
	KindRevoked
	// CommitRequest: one partition of an OffsetCommit or TxnOffsetCommit, stamped after it was read from the instance.
	// Op, Instance, Run, Topic, Partition, Offset = the committed offset (all below it is done), N = generation; Flags
	// InTransaction, and then ProducerID, ProducerEpoch; Text = the commit's metadata, where the contract gives it a
	// meaning.
	KindCommitRequest
	// CommitResponse: the broker's answer to it, stamped before it was written to the instance. Op, Code; Flags
	// Withheld when a fault kept it from the instance, Forged when a fault answered in the broker's place and the
	// broker never saw the request. The fields of the request are repeated.
	KindCommitResponse
	// ProduceRequest: one record in a Produce of an instance (or of the replayer: Instance = Replayer), stamped after
	// it was read. Op, Instance, Run, Topic, Partition, Record, KeyHash, ValueHash; ProducerID, ProducerEpoch, Sequence
	// (None without idempotence); Flags InTransaction. A client's repeat is a new Op.
	KindProduceRequest
	// ProduceResponse: the broker's answer, stamped before it was written to the instance. Op, Code, Offset;
	// Flags Withheld, Forged as above. The fields of the request are repeated.
	KindProduceResponse

	// TxnEndRequest: an EndTxn, stamped after it was read: the commits and writes InTransaction of this producer since
	// the last one take effect, or do not. Op, Instance, Run, ProducerID, ProducerEpoch, N = 1 to commit, 0 to abort.
	KindTxnEndRequest
	// TxnEndResponse: the broker's answer, stamped before it was written to the instance. Op, Code; Flags Withheld,
	// Forged as above. The fields of the request are repeated.
	KindTxnEndResponse

	// AttemptStart: the oracle has read a request. Op, Instance, Run, Record, N = how many attempts of this record the
	// oracle has seen (from 1); Topic, Partition, Offset if the subject said so.
	KindAttemptStart
	// AttemptEnd: the oracle is about to answer (or gives the connection up). As AttemptStart, and Outcome = what was
	// answered, Code = HTTP status (0: no answer), Aux = the Retry-After given, in ns; Flags ClientGone when the client
	// had closed the connection before the answer: the moment the subject stopped waiting is then unknown, between
	// start and Time.
	KindAttemptEnd

	// InstanceStarting: a subject process was started. Instance, Run, Aux = process id.
	KindInstanceStarting
	// InstanceReady: it fetched from an assigned partition, or met the readiness its subject.yaml declares.
	KindInstanceReady
	// InstanceSignal: the harness sent it a signal. Code = signal number, Text = its name ("TERM"); N = 1 if that is the
	// restart which the contract promises an instance that has turned unhealthy.
	KindInstanceSignal
	// InstanceExited: it ended. Code = exit code (-1 when ended by a signal, then Text = its name); Flags Expected when
	// the harness asked for it. Aux = by how much, in ns, it was gone before Time: whoever waits for a process may hear
	// of its end late.
	KindInstanceExited
	// SubjectError: the instance wrote a line to its log that reports an error. Text = the line, cut to 300 bytes. Code
	// is the one error of Kafka's that it names where nothing else shows that it reports one; 0 otherwise.
	KindSubjectError

	// FaultStart: planned fault Op (index in Header.Faults) was injected. Text = what exactly.
	KindFaultStart
	// FaultEffect: what fault Op did. N = how often (connections cut, requests answered, …), Aux = held or delayed time
	// in ns or bytes, as Text says; Instance where it can be attributed.
	KindFaultEffect
	// FaultEnd: fault Op was removed and what it broke was confirmed back.
	KindFaultEnd

	// AuditRecord: a record found in a topic when it was read to its end. Topic, Partition, Offset, Record (None if it
	// carries no id of this run), KeyHash, ValueHash, HeadersHash over the headers that the original also has,
	// HeaderCount, HeaderBytes, Claim (dead letters), Flags FailureHeaders, Repeated; Aux = the record's timestamp (ms
	// since 1970); Text = the service that a dead letter names as its own, where the contract promises one. The audit
	// before a replay and the one at the end both write them: a later AuditStart for the same topic begins anew.
	KindAuditRecord
	// AuditStart: the audit begins to read a topic. Topic.
	KindAuditStart
	// AuditOffsets: Topic, Partition, Offset = the log end offset, Aux = the committed offset of the subject's group
	// (None if none).
	KindAuditOffsets

	// ReplaySelected: the plan says that this dead letter goes back. Record, Topic, Partition, Offset of the dead
	// letter.
	KindReplaySelected

	// Sample: a periodic reading of the harness, or of an instance (then Instance, Run). Text = what (SampleBacklog …),
	// Aux = value.
	KindSample

	// Fetching: an instance began (N = 1) or ceased (N = 0) to ask for a partition in its Fetch requests; only the
	// changes are recorded. Instance, Run, Topic, Partition. It ceases when a Fetch on the connection that last asked
	// for the partition leaves it out (the state of a fetch session resolved, KIP-227), or when that connection ends.
	// So N = 0 does not prove that the partition is paused: a client also leaves out what it has records of that it has
	// not handed on yet, and comes back after a new connection, perhaps to another broker.
	KindFetching

	// ShareAcquired: records of a share group (KIP-932) were handed to an instance, which has them until it
	// acknowledges them, its acquisition lock runs out, or its share session ends. Instance, Run, Topic, Partition,
	// Offset = first, Aux = last offset (inclusive), N = delivery count, which the broker keeps. Time is before the
	// bytes were written to the instance; what a fault withheld is not there.
	KindShareAcquired
	// ShareAckRequest: a range of offsets that an instance acknowledges alike, in a ShareAcknowledge or a ShareFetch,
	// stamped after it was read. Op, Instance, Run, Topic, Partition, Offset = first, Aux = last offset (inclusive), N
	// = how (AckGap …).
	KindShareAckRequest
	// ShareAckResponse: the broker's answer to it, stamped before it was written to the instance. Op, Code; Flags
	// Withheld, Forged as above. The fields of the request are repeated.
	KindShareAckResponse
	// ShareSessionEnd: an instance closes its share session with a broker (share session epoch -1), which releases what
	// it has acquired there and does not acknowledge with the request. Instance, Run, Aux = the broker's node id. A
	// connection that ends does the same, and is not recorded.
	KindShareSessionEnd

	// StoreChange: an entry of the dead-letter store was seen to change, from outside. Time is when it was seen, which
	// is after it was made. Op = the entry's number in the run, from 1; Record, if its payload carries an id of this
	// run; Topic, Partition, Offset = where its dead letter is; Claim = where it says that its record comes from;
	// Instance = the worker that has it locked, where it is one of the run's; N = its DLQ retries, Sequence = its
	// version, after the change; Aux = when it was made by the database's clock, as a time of the run's clock (None
	// where the table doesn't say; see StoreClock); Text = a StoreChange; Flags Polled.
	KindStoreChange
	// StoreClock: the time of the database, as StoreChange gives it, is the run's to within Aux ns, either way. The
	// largest so far holds for all.
	KindStoreClock
	// StoreWatch: what is known of the watching itself. Text = WatchBegins, WatchLost (from here on nothing is seen),
	// WatchResumed (what was missed is told now), WatchEnds; Aux = how often the store is looked at, in ns.
	KindStoreWatch
	// StoreEntry: an entry that the audit found in the store, as in StoreChange; its Text says the state it is in (from
	// absent).
	KindStoreEntry
	// StoreAudited: the audit of the store is complete. N = how many entries it found, Aux = the database's time of it,
	// as in StoreChange.
	KindStoreAudited
	// StoreProbe: a worker of the store asked its health probe, stamped before the answer is written. Instance, N = 1
	// if all conditions of a conditional retry are met, else 0; Text = which are not.
	KindStoreProbe

	// SubjectLog: the output of an instance's process has come to its end. Instance, Run, N = how many lines it wrote
	// that are not blank, Aux = how many of them state a level in a form that is known. A history without it is older
	// than the event.
	KindSubjectLog
	// SubjectHealth: the health URL that the contract names was seen to change. Instance, Run, N = 1 healthy (answers
	// 2xx), 0 not (another status, or no answer), Code = the status (0: no answer), Text = what was seen. Time is when
	// it was asked. The first of a process is N = 1: what never was healthy has not turned unhealthy.
	KindSubjectHealth

	// Unreadable: a request of an instance was refused by closing its connection, as brokers refuse what they don't
	// know: the tap does not read that API, or not that version of it. Instance, Run, Code = the API key, N = the
	// version, Aux = the newest version that the tap reads (None: it does not read the API), Text = the API's name.
	// Once for each API and version that a process uses.
	KindUnreadable

	// Joining: an instance asks to join its consumer group with another session timeout than the last time, or for the
	// first time. Instance, Run, Aux = the session timeout in ns: for so long it may be gone before the group gives its
	// partitions to others.
	KindJoining

	// Membership: the number of group members that an instance is has changed: a JoinGroup, or the first heartbeat of a
	// member that joins by heartbeats (KIP-848, KIP-932), was answered, or one of them left, was refused, or fell
	// silent. Instance, Run, N = how many they are now; Text = why, as in Revoked, where one is gone, or "silent": it
	// made no request of the group's for longer than its session timeout. A silent member that makes one again counts
	// again. With N = 0 it may also be "seeks": the instance is still in no group, but looked for its coordinator in
	// vain, asked in vain to join, or waits for the answer; at most once a second, and only after it was a member.
	KindMembership
)

// How a record of a share group is acknowledged (KIP-932; renewing is KIP-1222's).
const (
	AckGap     = 0 // there is no record at the offset
	AckAccept  = 1
	AckRelease = 2 // to be delivered again
	AckReject  = 3 // not to be delivered again
	AckRenew   = 4 // the acquisition lock begins anew
)

// None is the value of an int field that carries nothing.
const None = -1

// Replayer is the Instance of the replay tool, which has a tap of its own.
const Replayer = -2

// The Text of KindStoreWatch.
const (
	WatchBegins  = "begins"
	WatchLost    = "lost"
	WatchResumed = "resumed"
	WatchEnds    = "ends"
)

// The Text of KindSample.
const (
	// events that wait to be written to the history; the recorder gives up at a million of them
	SampleBacklog = "recorder-backlog"
	SampleCPU     = "harness-cpu" // processor time that the harness has used since it began, in ns

	// What the processes of an instance use together: the one that was started, its process group, and what descends
	// from them.
	// processor time since they began, in ns; less where one has ended that nobody waited for, or any on macOS
	SampleInstanceCPU = "instance-cpu"
	SampleInstanceRSS = "instance-rss" // resident memory in bytes; what processes share counts in each
)

// Phase names, in order.
const (
	PhaseSetup  = "setup"
	PhaseWarmup = "warm-up"
	PhaseSteady = "steady"
	PhaseFault  = "fault"
	PhaseHeal   = "heal"
	PhaseDrain  = "drain"
	PhaseReplay = "replay"
	PhaseAudit  = "audit"
	PhaseSeal   = "seal"
)

// Flags are single facts about an event.
type Flags uint32

// The flags; the kinds that carry them say what they mean.
const (
	Tombstone Flags = 1 << iota
	Garbage
	Warmup
	InTransaction
	Withheld
	Forged
	ClientGone
	Expected
	FailureHeaders
	// Polled: found by comparing rows, so that what happened between two looks is not known.
	Polled
	// Repeated: a fault wrote this copy, nobody under test did.
	Repeated
)

// Has reports whether all of g is set.
func (f Flags) Has(g Flags) bool { return f&g == g }

// Outcome is what the downstream answers for an attempt, and what the plan makes of a record as a whole.
type Outcome uint8

// The outcomes of attempts; the comment gives the oracle's answer.
const (
	OutcomeNone        Outcome = iota
	OutcomeSuccess             // 200
	OutcomeTransient           // 503
	OutcomeRateLimited         // 429 with Retry-After
	OutcomePermanent           // 400
	OutcomeLogical             // 422
	OutcomeTimeout             // no answer for longer than the subject waits
	OutcomeReset               // connection reset
	OutcomeUnknownID           // 404: no id of this run in the body; not judged
	// OutcomeExhausted is used in plans only: every attempt is transient, so retries run out.
	OutcomeExhausted
)

// Claim is what a dead letter says about its origin, decoded by the contract's dialect. The zero Claim means
// that the event is no dead letter.
type Claim struct {
	// Present tells a decoded dead letter from every other event.
	Present bool
	// Topic is the claimed source topic (index in Header.Topics, None if absent or unknown there); Partition and Offset
	// are the claimed source position, Attempts the claimed number of executions; None where absent or not decodable.
	Topic     int16
	Partition int32
	Offset    int64
	Attempts  int32
	// Missing lists the fields that the dialect requires and the dead letter lacks or has in undecodable form,
	// comma-separated.
	Missing string
	// More is what else the audit found in the letter, a ClaimMore as JSON; "" where that is nothing.
	More string
}

// Event is one observation. It is flat so that a history is a table; which fields mean something is said at its Kind.
type Event struct {
	// Time since the run's base, monotonic.
	Time time.Duration
	Kind Kind
	// Outcome, Flags, Code: see the kinds.
	Outcome Outcome
	Flags   Flags
	// Instance is the subject instance (from 0), None for the harness, Replayer for the replay tool, Router(n),
	// Worker(n) and Keeper(n) for the processes of the dead-letter store's service, which are no instances of the
	// subject.
	Instance int16
	// Run counts an instance's processes from 0: it grows with each restart.
	Run uint16
	// Topic is an index in Header.Topics.
	Topic     int16
	Code      int16
	Partition int32
	// Record is the sequence number of the workload record, dense from 0.
	Record int32
	N      int32
	Offset int64
	// Op joins a request with its response; unique in a run, from 1; 0 is none. For faults: the index in Header.Faults.
	Op  int64
	Aux int64
	// Hashes are xxHash64 of the bytes; a null key or value hashes to 0.
	KeyHash, ValueHash, HeadersHash uint64
	HeaderCount, HeaderBytes        int32
	ProducerID                      int64
	ProducerEpoch                   int16
	Sequence                        int32
	Claim                           Claim
	Text                            string
}

// New returns an event of the kind at the time with every field that could be mistaken for a value set to None.
func New(kind Kind, at time.Duration) Event {
	return Event{
		Time: at, Kind: kind, Instance: None, Topic: None, Partition: None, Record: None, Offset: None,
		N: None, ProducerID: None, ProducerEpoch: None, Sequence: None,
	}
}

// Sink takes events from observers; it is safe for concurrent use and never blocks on a disk.
type Sink interface {
	Record(Event)
}

// Clock is the run's monotonic clock.
type Clock interface {
	// Now returns the time since the run's base.
	Now() time.Duration
}
