package history

import (
	"time"

	"github.com/cespare/xxhash/v2"
)

// Kind is the type of an observation. The comment of each kind lists the fields that have a meaning for it. All other
// fields hold their "none" value (see None).
type Kind uint8

// The kinds of events. "Time" is always the moment of observation on the run's monotonic clock.
const (
	KindUnknown Kind = iota

	// Phase: the run entered a phase. Text = its name (PhaseSetup …).
	KindPhase
	// Stall: the harness (Instance = None) or a subject instance could not run. Aux = duration in ns, ending at Time.
	KindStall

	// Send: the workload handed a record to its producer. Record, Topic, Partition; Aux = the intended send time (ns
	// since the run's base); Outcome = the record's planned outcome; N = index of its key (None for a null key);
	// KeyHash, ValueHash, HeadersHash; HeaderCount; Flags Tombstone, Garbage, Refusable, Warmup.
	KindSend
	// Acked: the broker's answer to that produce. Record, Topic, Partition, Offset, Code (Kafka error code).
	// Code ≠ 0 means that the producer gave up: the record may or may not be in the topic.
	KindAcked

	// Fetched: records were delivered to an instance. Instance, Run, Topic, Partition, Offset = first, Aux = last
	// offset (inclusive). Time is before the bytes were written to the instance.
	KindFetched
	// Assigned: a partition was assigned to an instance (SyncGroup or ConsumerGroupHeartbeat response). Instance,
	// Run, Topic, Partition, N = generation or member epoch; Flags OtherGroup.
	KindAssigned
	// Revoked: an instance gave up or lost a partition. Same fields; Text = reason: "rejoin" (it sent JoinGroup under
	// an eager protocol, or under a cooperative one with metadata that no longer owns the partition), "rebalance" (a
	// new assignment without the partition), "leave" (LeaveGroup), "fenced" (the broker rejected the member).
	KindRevoked
	// CommitRequest: one partition of an OffsetCommit or TxnOffsetCommit, stamped after it was read from the
	// instance. Op, Instance, Run, Topic, Partition, Offset = the committed offset (all lower offsets are done), N =
	// generation; Flags OtherGroup, NotLibrdkafka; InTransaction, and then ProducerID, ProducerEpoch; Text = the commit's
	// metadata if the contract defines its format.
	KindCommitRequest
	// CommitResponse: the broker's response to a CommitRequest, stamped before it was written to the instance. Op,
	// Code; Flags Withheld if a fault kept it from the instance, Forged if a fault answered in the broker's place and
	// the broker never received the request. The fields of the request are repeated.
	KindCommitResponse
	// ProduceRequest: one record in a Produce request of an instance (or of the replayer: Instance = Replayer),
	// stamped after it was read. Op, Instance, Run, Topic, Partition, Record, KeyHash, ValueHash; ProducerID,
	// ProducerEpoch, Sequence (None without idempotence); Flags InTransaction, Unanswered. A client's retry is a new Op.
	// If the topic is a downstream (Topic.Downstream), it is a call there, and Text = the call.
	KindProduceRequest
	// ProduceResponse: the broker's response, stamped before it was written to the instance. Op, Code, Offset; Flags
	// Withheld, Forged as above, NotLibrdkafka, Unreplicated. The fields of the request are repeated. Of a downstream,
	// without Text; Code = HTTP status, or the one that stands for the outcome, if it refuses the call (IsStatus).
	KindProduceResponse

	// TxnEndRequest: an EndTxn request, stamped after it was read. It decides whether this producer's InTransaction
	// commits and writes since its previous EndTxn take effect. Op, Instance, Run, ProducerID, ProducerEpoch, N = 1
	// to commit, 0 to abort.
	KindTxnEndRequest
	// TxnEndResponse: the broker's response, stamped before it was written to the instance. Op, Code; Flags Withheld,
	// Forged as above. The fields of the request are repeated.
	KindTxnEndResponse

	// AttemptStart: the downstream stub has read a request. Op, Instance, Run, Record, N = number of attempts of this
	// record that the stub has received (from 1); Topic, Partition, Offset if the subject sent them; Text = the call
	// ("PUT /payments/{id}"), if the subject declares the calls it makes. If it is a write in a transaction: Flags
	// InTransaction, and ProducerID, ProducerEpoch. A call for several records is such a transaction of the stub, from
	// its starts to a TxnEndRequest and TxnEndResponse, with a ProducerID from FirstBatch. An attempt of several calls
	// starts with the first of them.
	KindAttemptStart
	// AttemptEnd: the downstream stub is about to answer, or abandons the connection. As AttemptStart, without Text, and
	// Outcome = the answer, Code = HTTP status (0: no answer), Aux = the Retry-After sent, in ns; Flags ClientGone if the
	// client closed the connection before the answer. The subject then stopped waiting at an unknown moment between
	// the start and Time. Flags Withheld if the attempt was carried out and its answer was lost on purpose. An attempt of
	// several calls ends with the answer to its last call, with one that is not a success, or as if the client had gone
	// when its process makes the first call again, or is replaced.
	KindAttemptEnd

	// InstanceStarting: a subject process was started, or is waited for where somebody else starts it. Instance, Run,
	// Aux = process id, 0 if it is not known.
	KindInstanceStarting
	// InstanceReady: the instance fetched from an assigned partition, stood by in its group while others owned every
	// partition, or met the readiness that its subject.yaml declares.
	KindInstanceReady
	// InstanceSignal: the harness sent the instance a signal. Code = signal number, Text = its name ("TERM"); N = 1
	// if this is the restart that the contract promises for an instance that turned unhealthy.
	KindInstanceSignal
	// InstanceExited: the instance's process ended, or is without connections for good where somebody else starts it.
	// Code = exit code (-1 if a signal ended it, then Text = its name, or if it is not known); Flags Expected if the
	// harness asked for it. Aux = how long before Time, in ns, the process was gone: the harness may be notified of its
	// end late.
	KindInstanceExited
	// SubjectError: the instance logged a line that reports an error. Text = the line, cut to 300 bytes. Code = the
	// Kafka error that the line names, if this name is the only sign that it reports an error; 0 otherwise.
	KindSubjectError

	// FaultStart: planned fault Op (index in Header.Faults) was injected. Text = exact description.
	KindFaultStart
	// FaultEffect: an effect of fault Op. N = count (connections cut, requests answered, …), Aux = held or delayed
	// time in ns or bytes, as Text says; Instance if it can be attributed. Code = FaultFailed: N is 0, and Text is what
	// the fault could not do, and why.
	KindFaultEffect
	// FaultEnd: fault Op was lifted, and the affected component was confirmed to work again.
	KindFaultEnd

	// AuditRecord: a record found in a topic when the audit read it to its end. Topic, Partition, Offset, Record
	// (None if it carries no id of this run), KeyHash, ValueHash, HeadersHash over the headers that the original also
	// has, HeaderCount, HeaderBytes, Claim (dead letters), Flags FailureHeaders, Repeated, Marker; Aux = the record's
	// timestamp (ms since 1970); Text = the service that a dead letter names as its owner, if the contract promises
	// one. Both the audit before a replay and the final audit write these events. A later AuditStart for the same
	// topic supersedes earlier ones.
	KindAuditRecord
	// AuditStart: the audit starts to read a topic. Topic.
	KindAuditStart
	// AuditOffsets: Topic, Partition, Offset = the log end offset, Aux = the committed offset of the subject's group
	// (None if none).
	KindAuditOffsets

	// ReplaySelected: the plan selects this dead letter for replay. Record, Topic, Partition, Offset of the dead
	// letter.
	KindReplaySelected

	// Sample: a periodic measurement of the harness, or of an instance (then Instance, Run). Text = the measured
	// quantity (SampleBacklog …), Aux = value.
	KindSample

	// Fetching: an instance started (N = 1) or stopped (N = 0) asking for a partition in its Fetch requests. Only
	// changes are recorded. Instance, Run, Topic, Partition. It stops when a Fetch on the connection that last asked
	// for the partition omits it (with the state of a fetch session resolved, KIP-227), or when that connection ends.
	// So N = 0 does not prove that the partition is paused: a client also omits a partition while it has records of
	// it that the application has not consumed yet, and resumes after it reconnects, perhaps to another broker.
	KindFetching

	// ShareAcquired: records of a share group (KIP-932) were delivered to an instance. It holds them until it
	// acknowledges them, its acquisition lock expires, or its share session ends. Instance, Run, Topic, Partition,
	// Offset = first, Aux = last offset (inclusive), N = delivery count, which the broker keeps. Time is before the
	// bytes were written to the instance. Records that a fault withheld are not included.
	KindShareAcquired
	// ShareAckRequest: a range of offsets that an instance acknowledges in the same way, in a ShareAcknowledge or a
	// ShareFetch request, stamped after it was read. Op, Instance, Run, Topic, Partition, Offset = first, Aux = last
	// offset (inclusive), N = acknowledgement type (AckGap …).
	KindShareAckRequest
	// ShareAckResponse: the broker's response to a ShareAckRequest, stamped before it was written to the instance.
	// Op, Code; Flags Withheld, Forged as above. The fields of the request are repeated.
	KindShareAckResponse
	// ShareSessionEnd: an instance closes its share session with a broker (share session epoch -1). This releases the
	// records that it acquired there and does not acknowledge in the same request. Instance, Run, Aux = the broker's
	// node id. The end of a connection has the same effect and is not recorded.
	KindShareSessionEnd

	// StoreChange: an entry of the dead-letter store was observed to change, from outside. Time is the moment of
	// observation, which is after the change. Op = the entry's number in the run, from 1; Record, if its payload
	// carries an id of this run; Topic, Partition, Offset = position of its dead letter; Claim = the origin that it
	// states for its record; Instance = the worker that has it locked, if it is one of the run's; N = its DLQ
	// retries, Sequence = its version, both after the change; Aux = time of the change by the database's clock,
	// converted to the run's clock (None if the table does not have it; see StoreClock); Text = a StoreChange; Flags
	// Polled.
	KindStoreChange
	// StoreClock: Aux = the maximum error in ns, in either direction, of the database times that StoreChange converts
	// to the run's clock. The largest value so far applies to all of them.
	KindStoreClock
	// StoreWatch: the state of the observation itself. Text = WatchBegins, WatchLost (no changes are seen from here
	// on), WatchResumed (missed changes are reported now), WatchEnds; Aux = the polling interval in ns.
	KindStoreWatch
	// StoreEntry: an entry that the audit found in the store, with the fields of StoreChange. Its Text gives the
	// current status, as a change from absent.
	KindStoreEntry
	// StoreAudited: the audit of the store is complete. N = number of entries found, Aux = the database's time of the
	// audit, as in StoreChange.
	KindStoreAudited
	// StoreProbe: a worker of the store called its health probe, stamped before the answer is written. Instance, N =
	// 1 if all conditions of a conditional retry are met, else 0; Text = the unmet conditions.
	KindStoreProbe

	// SubjectLog: the output of an instance's process has ended. Instance, Run, N = number of non-blank lines, Aux =
	// number of those that state a log level in a known form. A history without this event predates it.
	KindSubjectLog
	// SubjectHealth: the state of the health URL in the contract changed. Instance, Run, N = 1 healthy (answers 2xx),
	// 0 not (another status, or no answer), Code = the status (0: no answer), Text = the observation. Time is the
	// time of the request. The first event of a process has N = 1, because a process that never was healthy cannot
	// turn unhealthy.
	KindSubjectHealth

	// Unreadable: the downstream stub got a call with the ids of several records, and took it for an attempt at the
	// first (Code = None; Text = the call; N = the downstream, if it is one that does not decide; recorded once for each
	// process); or no call was an attempt at a record (Code and Instance = None, Text = why, and in a second line what to
	// do; empty if no call came); or the run's group read nothing, and another one an input topic (Code and Instance =
	// None, Topic, Text = that group); or the subject asked for topics that do not exist (Code and Instance = None, Topic
	// = the DLQ, Text = their names); or a request of an instance was rejected by closing its connection, as brokers do
	// with unknown requests: the tap does not support that API, or not that version of it. Instance, Run, Code = the API
	// key, N = the version, Aux = the newest version that the tap supports (None: it does not support the API), Text = the
	// API's name. Recorded once for each API and version that a process uses.
	KindUnreadable

	// Joining: an instance asks to join its consumer group, for the first time or with another session timeout than
	// the last time. Instance, Run, Aux = the session timeout in ns: how long the instance may be gone before the
	// group reassigns its partitions. Also for another group that reads retry topics, once it is assigned one.
	KindJoining

	// Membership: the number of members of the run's group in an instance changed. A JoinGroup was answered, or the first
	// heartbeat of a member that joins by heartbeats (KIP-848, KIP-932), or a member left, was rejected, or fell
	// silent. Instance, Run, N = the number of members now; Text = reason if a member is gone, as in Revoked, or
	// "silent": it sent no group request for longer than its session timeout. A silent member that sends one again
	// counts again. With N = 0, Text may also be "seeks": the instance is still in no group, but failed to find its
	// coordinator, failed to join, or waits for the answer. "seeks" is recorded at most once a second, and only if
	// the instance was a member before.
	KindMembership

	// EffectsRead: the harness starts to read the sink, where the effects of processed records are. Text = what it
	// reads ("topic results"); Code = 1 if it can't be read, and then Text = the reason. A later EffectsRead supersedes an
	// earlier one and its effects.
	KindEffectsRead
	// Effect: a record has effects in the sink. Record, N = the number of them (at least 1; a record without effects
	// has no event); Topic, Partition, Offset of the first if the sink is a topic; Text = where they are, in words, if
	// it is not.
	KindEffect

	// CallStart: a downstream that does not decide has read a call with a record's id. Op, Instance, Run, Record, N = the
	// downstream (index in Header.Downstreams), Sequence = number of calls of this record there (from 1); Text = the call.
	// N = 0: a call of the downstream that decides, where an attempt has several (Contract.LastCall); Sequence = its
	// number in the attempt, Aux = that of the attempt, both 0 if it is outside of one. Nothing is judged by it.
	KindCallStart
	// CallEnd: it is about to answer, or abandons the connection. As CallStart, without Text, and Outcome = the answer,
	// Code = HTTP status or Kafka error code (0: neither); Flags ClientGone as in AttemptEnd, Forged if a fault answered.
	KindCallEnd
)

// The types of acknowledgement in a share group (KIP-932; AckRenew is from KIP-1222).
const (
	AckGap     = 0 // there is no record at the offset
	AckAccept  = 1
	AckRelease = 2 // deliver again
	AckReject  = 3 // do not deliver again
	AckRenew   = 4 // the acquisition lock is renewed
)

// None marks an integer field that has no value.
const None = -1

// IsStatus reports whether the Code of a ProduceResponse is an HTTP status, with which a downstream refuses a call, and
// not an error code of Kafka's.
func IsStatus(code int16) bool { return code >= 400 && code < 600 }

// Replayer is the Instance of the replay tool, which connects through its own tap.
const Replayer = -2

// The values of Text for KindStoreWatch.
const (
	WatchBegins  = "begins"
	WatchLost    = "lost"
	WatchResumed = "resumed"
	WatchEnds    = "ends"
)

// The values of Text for KindSample.
const (
	// events waiting to be written to the history; the recorder gives up at a million of them
	SampleBacklog = "recorder-backlog"
	SampleCPU     = "harness-cpu" // processor time used by the harness since it started, in ns

	// Totals over the processes of an instance: the started process, its process group, and all descendants. The
	// first is processor time since they started, in ns. It is too low if a process ended and its parent did not wait
	// for it; on macOS, if any process ended.
	SampleInstanceCPU = "instance-cpu"
	SampleInstanceRSS = "instance-rss" // resident memory in bytes; memory shared by processes counts once for each
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

// Flags are boolean properties of an event.
type Flags uint32

// The flags. The kinds that carry them define their meaning.
const (
	Tombstone Flags = 1 << iota
	Garbage         // a value without a readable id: random bytes, or a malformed value
	Warmup
	InTransaction
	Withheld
	Forged
	ClientGone
	Expected
	FailureHeaders
	// Polled: found by comparing rows, so changes between two polls are unknown.
	Polled
	// Repeated: a fault wrote this dead letter, not the subject; the workload sent this record before, with the same id.
	Repeated
	// Refusable: a value that carries its id, and that the subject may process or treat as one that it can't read, such as
	// one of an earlier schema. The history shows which of both it did.
	Refusable
	// OtherGroup: not of the run's group, but of one that reads a retry topic instead of it. Generations of different
	// groups can't be compared.
	OtherGroup
	// NotLibrdkafka: the client that wrote or committed is known not to be librdkafka, which may deny later writes to the
	// topic by itself, and sends a commit again whose connection was lost. Of writes, only set if the response is an
	// error.
	NotLibrdkafka
	// Marker: the dead letter of a transaction marker, which no consumer should be given (KIP-98).
	Marker
	// Unreplicated: a fault acknowledged the write as a leader does that alone has it (acks=1) and then fails. No broker
	// has it.
	Unreplicated
	// Unanswered: the client asks for no answer to the write (acks=0), so it is never told that one failed.
	Unanswered
)

// Has reports whether all flags in g are set.
func (f Flags) Has(g Flags) bool { return f&g == g }

// Outcome is the downstream's answer to an attempt, and the planned result of a record as a whole.
type Outcome uint8

// The outcomes of attempts. The comment is the downstream stub's answer.
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

// Claim is the origin that a dead letter states, decoded by the contract's dialect.
type Claim struct {
	// Topic is the claimed source topic (index in Header.Topics, None if absent or unknown there); Partition and Offset
	// are the claimed source position, Attempts the claimed number of executions; None where absent or not decodable.
	Topic     int16
	Partition int32
	Offset    int64
	Attempts  int32
	// Missing lists the fields that the dialect requires and the dead letter lacks or has in undecodable form,
	// comma-separated.
	Missing string
	// More is what else the audit found in the dead letter, a ClaimMore as JSON; "" if there is nothing else.
	More string
}

// Event is one observation, a row of the history's table. Its Kind defines which fields have a meaning. Events are
// copied more than anything else, so their fields are in an order without gaps.
type Event struct {
	// Time since the run's base, monotonic.
	Time time.Duration
	Kind Kind
	// Outcome, Flags, Code: see the kinds.
	Outcome Outcome
	// Instance is the subject instance (from 0), None for the harness, Replayer for the replay tool, and Router(n),
	// Worker(n) and Keeper(n) for the processes of the dead-letter store's service, which are not instances of the
	// subject.
	Instance int16
	// Run counts an instance's processes from 0: it grows with each restart.
	Run uint16
	// Topic is an index in Header.Topics.
	Topic int16
	Code  int16
	// ProducerEpoch, Sequence and ProducerID are those of an idempotent producer.
	ProducerEpoch int16
	Flags         Flags
	Partition     int32
	// Record is the sequence number of the workload record, dense from 0.
	Record   int32
	N        int32
	Sequence int32
	Offset   int64
	// Op links a request with its response; unique in a run, from 1; 0 means none. For faults: the index in
	// Header.Faults.
	Op  int64
	Aux int64
	// Hashes are xxHash64 of the bytes; a null key or value hashes to 0.
	KeyHash, ValueHash, HeadersHash uint64
	HeaderCount, HeaderBytes        int32
	ProducerID                      int64
	// Claim is nil unless the event is about a dead letter. Copies of the event share it, so it does not change.
	Claim *Claim
	Text  string
}

// FaultFailed is the Code of the effect that a fault could not have.
const FaultFailed = 1

// FirstBatch is the first ProducerID of calls for several records. Kafka's own count from 0.
const FirstBatch = 1 << 62

// InBatch reports whether the event belongs to a call for several records.
func (e *Event) InBatch() bool { return e.ProducerID >= FirstBatch }

// New returns an event of the kind at the time. Every field whose zero value could be taken for a real value is set
// to None.
func New(kind Kind, at time.Duration) Event {
	return Event{
		Time: at, Kind: kind, Instance: None, Topic: None, Partition: None, Record: None, Offset: None,
		N: None, ProducerID: None, ProducerEpoch: None, Sequence: None,
	}
}

// HashBytes returns the hash of a key or value that events have.
func HashBytes(data []byte) uint64 {
	if data == nil {
		return 0
	}
	return xxhash.Sum64(data)
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
