package history

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Contract is what the subject promises (see docs/subjects.md); invariants hold a subject to its own contract.
type Contract struct {
	// MaxAttempts is the number of executions of a retryable record, the first included; 0 = no number is promised.
	MaxAttempts int `json:"max_attempts"`
	// Unlimited promises that a retryable record is executed until it succeeds, however often. MaxAttempts is then 0.
	Unlimited bool `json:"unlimited,omitempty"`
	// Calls is the largest number of calls that a client makes by itself within one attempt, sooner than Backoff.Initial
	// after a failure; 0 or 1: each call is an attempt.
	Calls int `json:"calls,omitempty"`
	// FirstCall and LastCall, if set, are the calls of the downstream with which an attempt of several calls begins and
	// ends, such as "GET /customers/*".
	FirstCall string `json:"first_call,omitempty"`
	LastCall  string `json:"last_call,omitempty"`
	// GroupType is how the subject shares its topics out among instances: GroupConsumer ("" likewise) or GroupShare.
	GroupType GroupType `json:"group_type,omitempty"`
	// Counter says where attempts are counted: memory, header, store or delivery.
	Counter Counter `json:"counter"`
	Backoff Backoff `json:"backoff"`
	// IgnoresRetryAfter: the time that a 429 gives in Retry-After is no promise to wait for it.
	IgnoresRetryAfter bool `json:"ignores_retry_after,omitempty"`
	// Retryable, Permanent and Logical say how outcomes of attempts are classed.
	Retryable []Outcome `json:"retryable"`
	Permanent []Outcome `json:"permanent"`
	Logical   []Outcome `json:"logical"`
	// LogicalDeadLetters: logical failures go to the DLQ; otherwise they end the record's processing.
	LogicalDeadLetters bool `json:"logical_dead_letters"`
	// LogicalEither: nothing is promised about logical failures, so both are right.
	LogicalEither bool     `json:"logical_either,omitempty"`
	Ordering      Ordering `json:"ordering"`
	Retry         Retry    `json:"retry"`
	// DeadLetters: what fails for good goes to a dead-letter topic; see HasDLQ.
	DeadLetters bool `json:"dead_letters,omitempty"`
	// Envelope is the dead letters' dialect, which governs their metadata and nothing else; "" = no metadata is
	// promised.
	Envelope string `json:"envelope"`
	// ChangesKey and ChangesValue take back the promise that a dead letter has the record's own key and value.
	ChangesKey   bool `json:"changes_key,omitempty"`
	ChangesValue bool `json:"changes_value,omitempty"`
	// Service is the name that the dead letters give as that of the service that wrote them; "" = they need not name
	// one.
	Service string `json:"service,omitempty"`
	// KeepsHeaders promises that dead letters keep the original headers.
	KeepsHeaders bool `json:"keeps_headers"`
	// BrokerLetters: the subject is a member of a share group whose broker writes the dead letters (KIP-1191): of what
	// a member rejects, and of what was delivered as often as the broker allows. A reject is then the request for a
	// dead letter, and whether there is one only the audit can tell.
	BrokerLetters bool `json:"broker_letters,omitempty"`
	// SamePartition promises that a dead letter goes to the source's partition number.
	SamePartition bool      `json:"same_partition"`
	OnFailure     OnFailure `json:"on_failure"`
	// SurfacedWithin is within what time the subject makes known that dead letters can't be written for a reason that
	// may pass; 0 = it need not before the longest delivery timeout that clients have by default.
	SurfacedWithin time.Duration `json:"surfaced_within_ns,omitempty"`
	// AutoCommit declares weaker promises: commits follow time, not outcomes.
	AutoCommit bool `json:"auto_commit"`
	// OffsetsOutside: the subject commits nothing to Kafka, because it keeps its offsets elsewhere. How far it is, its
	// outcomes show.
	OffsetsOutside bool `json:"offsets_outside,omitempty"`
	// CommitInterval is the longest time between two commits while there is something to commit.
	CommitInterval time.Duration `json:"commit_interval_ns,omitempty"`
	StopGrace      time.Duration `json:"stop_grace_ns"`
	// StopCodes are the exit codes with which a process may end that was told to stop, 128 + n for an end by signal n.
	// Without any it is 0, or 128 + the number of that signal where its end by it was an orderly one.
	StopCodes []int `json:"stop_codes,omitempty"`
	// ExitsOnError: an error that the process can't handle ends it with a code above 0, and a supervisor starts it
	// again.
	ExitsOnError bool `json:"exits_on_error,omitempty"`
	// RestartsUnhealthy: an instance whose health turns bad, and stays so, is ended with TERM and started again, as
	// Kubernetes' liveness probe has it.
	RestartsUnhealthy bool `json:"restarts_unhealthy,omitempty"`
	// SkipsTombstones: records with a null value are committed unprocessed, by design.
	SkipsTombstones bool `json:"skips_tombstones"`
	// Poison is what becomes of records with a value that can't be read; "" promises nothing but an end.
	Poison Poison `json:"poison,omitempty"`
	// OffsetMetadata says that commits carry the finished offsets beyond the committed one in their metadata, in this
	// format (MetadataRanges); "" = their metadata means nothing. A subject that promises it skips those offsets after
	// a restart or a rebalance.
	OffsetMetadata string `json:"offset_metadata,omitempty"`
	// Isolation is the share of the fault-free pace that records keep while others, which they need not wait for, fail
	// and back off, in (0, 1]; 0 promises nothing.
	Isolation float64 `json:"isolation,omitempty"`
	// ExitsExhausted: without a dead-letter topic, a record that fails for good ends the process that has it, which
	// commits nothing past it. Otherwise the record is given up, which is its end.
	ExitsExhausted bool `json:"exits_exhausted,omitempty"`
	// OrderOfAttempts: the next record of a key or partition may begin when the one before has had its last attempt,
	// also while its dead letter is outstanding.
	OrderOfAttempts bool `json:"order_of_attempts,omitempty"`
	// Effects is what is promised about the effects of records in the sink; nil promises nothing.
	Effects *Effects `json:"effects,omitempty"`
	// OutputAttempts: attempts are writes to an output topic.
	OutputAttempts bool `json:"output_attempts,omitempty"`
	// Database: attempts are transactions in a database. Their first statement about the record is what is seen of them.
	Database bool `json:"database,omitempty"`
	// WireOnly: the subject does not call the downstream; invariants that need attempts do not apply.
	WireOnly bool `json:"wire_only"`
	// ProcessUnseen: somebody else starts the subject. Neither its log nor an exit code is seen, and no end that the
	// harness did not ask for.
	ProcessUnseen bool `json:"process_unseen,omitempty"`
}

// Effects promises that a record that succeeded has its effect in the sink, such as a record in an output topic, or
// rows of a database.
type Effects struct {
	// Once: a record has its effect at most once, whatever happens. Otherwise disruptions may repeat it.
	Once bool `json:"once,omitempty"`
	// PerCopy: a record has its effect at most once for each time it was produced, whatever else happens.
	PerCopy bool `json:"per_copy,omitempty"`
	// Atomic: a record that did not succeed left no effect.
	Atomic bool `json:"atomic,omitempty"`
}

// HasDLQ reports whether records that fail permanently go to a dead-letter topic. Otherwise the consumer gives them
// up, and that is their final state. Histories that predate DeadLetters express this by a non-empty Envelope.
func (c *Contract) HasDLQ() bool { return c.DeadLetters || c.Envelope != "" }

// NamesAllHeaders reports whether the envelope is a dialect, so that every header added to dead letters is known. Of
// custom headers only the listed ones are.
func (c *Contract) NamesAllHeaders() bool {
	return c.Envelope != "" && !strings.HasPrefix(c.Envelope, OwnHeadersPrefix)
}

// OwnHeadersPrefix is the prefix of the name of an envelope that lists the subject's custom headers.
const OwnHeadersPrefix = "headers:"

// Poison is what becomes of a record with a value that can't be read.
type Poison string

// PoisonDeadLetter: it is dead-lettered, with or without an attempt. PoisonSkip: it is committed unprocessed.
// PoisonHalt: the subject stops before it, and commits nothing past it. Whether only its partition stops, or the
// process ends or leaves its group, is left open.
const (
	PoisonDeadLetter Poison = "dead-letter"
	PoisonSkip       Poison = "skip"
	PoisonHalt       Poison = "halt"
)

// Skips reports whether records of the kind (Tombstone, Garbage) are committed unprocessed, by design.
func (c *Contract) Skips(kind Flags) bool {
	return c.SkipsTombstones && kind.Has(Tombstone) || c.Poison == PoisonSkip && kind.Has(Garbage)
}

// MustDeadLetter reports whether only a dead letter ends a record of the kind (Tombstone, Garbage).
func (c *Contract) MustDeadLetter(kind Flags) bool {
	return kind.Has(Garbage) && c.Poison == PoisonDeadLetter
}

// Halts reports whether nothing ends a record of the kind (Tombstone, Garbage), because the subject stops before it.
func (c *Contract) Halts(kind Flags) bool {
	return kind.Has(Garbage) && c.Poison == PoisonHalt
}

// NoAttemptEnds reports whether a record of the kind (Tombstone, Garbage) is not finished by an attempt.
func (c *Contract) NoAttemptEnds(kind Flags) bool { return c.MustDeadLetter(kind) || c.Halts(kind) }

// LogicalEnds reports whether a logical failure may be the end of a record's processing.
func (c *Contract) LogicalEnds() bool { return c.LogicalEither || !c.LogicalDeadLetters }

// LogicalNeverDeadLetters reports whether a dead letter after a logical failure breaks the contract.
func (c *Contract) LogicalNeverDeadLetters() bool { return !c.LogicalEither && !c.LogicalDeadLetters }

// WritesDLQ reports whether the subject itself writes the dead letters.
func (c *Contract) WritesDLQ() bool { return c.HasDLQ() && !c.BrokerLetters }

// Backoff is the promised wait before attempt k+1: min(Cap, Initial·Multiplier^(k−1)), plus up to Jitter, plus at most
// Late for scheduling. Initial 0 promises no wait.
type Backoff struct {
	Initial    time.Duration `json:"initial_ns"`
	Multiplier float64       `json:"multiplier"`
	Cap        time.Duration `json:"cap_ns"`
	Jitter     time.Duration `json:"jitter_ns"`
	Late       time.Duration `json:"late_ns"`
	// Usual is by how much, at least, half of the waits may be longer than promised, where Late is a default, wide
	// enough for a pause that hits one wait or another; half of the promised wait may always be. 0: Late is the
	// contract's own, and all that is promised.
	Usual time.Duration `json:"usual_ns,omitempty"`
}

// Wait returns the promised wait after the k-th failed attempt (k ≥ 1), without jitter.
func (b Backoff) Wait(k int) time.Duration {
	if b.Initial <= 0 || k < 1 {
		return 0
	}
	m := b.Multiplier
	if m < 1 {
		m = 1
	}
	wait := float64(b.Initial) * math.Pow(m, float64(k-1))
	if b.Cap > 0 && wait > float64(b.Cap) {
		return b.Cap
	}
	if wait > float64(math.MaxInt64/2) {
		return math.MaxInt64 / 2
	}
	return time.Duration(wait)
}

// GroupType is the type of the group that a subject joins.
type GroupType string

// Counter is where a subject counts attempts. It determines which events justify a restarted count.
type Counter string

// Ordering is the promised order of processing.
type Ordering string

// Retry is how a failed record is tried again.
type Retry string

// OnFailure is the subject's reaction when a dead letter cannot be written.
type OnFailure string

// The values that a contract can have. The YAML words are the same.
const (
	// GroupConsumer is a consumer group: partitions are assigned to members, and offsets are committed. GroupShare is
	// a share group (KIP-932): records are delivered to members and acknowledged one by one.
	GroupConsumer GroupType = "consumer"
	GroupShare    GroupType = "share"

	CounterMemory Counter = "memory"
	CounterHeader Counter = "header"
	CounterStore  Counter = "store"
	// CounterDelivery: the count is the broker's delivery count in a share group. Each delivery is one attempt.
	CounterDelivery Counter = "delivery"

	OrderingNone      Ordering = "none"
	OrderingPartition Ordering = "partition"
	OrderingKey       Ordering = "key"

	RetryInPlace    Retry = "in-place"
	RetryRedelivery Retry = "redelivery"
	RetryTopics     Retry = "topics"

	// MetadataRanges encodes finished offsets as comma-separated ascending ranges, relative to the committed offset
	// and with both ends included: "1-3,7".
	MetadataRanges = "ranges"

	OnFailureHalt  OnFailure = "halt"
	OnFailureCrash OnFailure = "crash"
	OnFailureRetry OnFailure = "retry"
)

// The time that a consumer may need in addition to its contract before a lack of progress means that it is stuck.
const (
	// patienceMargin covers a rejoin, a fetch that waits for records, and a commit in flight.
	patienceMargin = 5 * time.Second
	// patienceAttempt is added per attempt, besides its backoff: a client that seeks back waits for its next fetch
	// (fetch.max.wait.ms, 500 ms by default).
	patienceAttempt = time.Second
	// patienceUnsaid is the longest wait between two attempts if the contract does not specify one.
	patienceUnsaid = 30 * time.Second
	// patienceShare is Kafka's default share session timeout (group.share.session.timeout.ms). Records delivered to a
	// dead member are redelivered sooner than that.
	patienceShare = 45 * time.Second
	// patienceUnhealthy is the time from when an instance turns unhealthy until it is asked to stop, and again from
	// its exit until the next process starts, if the contract promises that restart.
	patienceUnhealthy = 5 * time.Second
	// patienceSeries is the maximum number of waits that are summed.
	patienceSeries = 64
)

// generous is the factor by which a record may exceed its promised number of attempts before further attempts count
// as an endless loop. Redeliveries and copies that a disruption justifies have attempts of their own.
const generous = 8

// LeastAttempts is the number of executions, all of them retryable failures, before which no record may be given up;
// 0 = no number is promised.
func (c *Contract) LeastAttempts() int {
	if c.Unlimited {
		return math.MaxInt
	}
	return c.MaxAttempts
}

// NeverEnds reports whether a record whose attempts all have the outcome never comes to its end.
func (c *Contract) NeverEnds(outcome Outcome) bool {
	again := slices.Contains(c.Retryable, outcome)
	return c.Unlimited && again || c.ExitsExhausted && (again || slices.Contains(c.Permanent, outcome))
}

// MayCrash reports whether a process may end by itself. A supervisor then starts it again.
func (c *Contract) MayCrash() bool {
	return c.OnFailure == OnFailureCrash || c.ExitsExhausted || c.ExitsOnError || c.Poison == PoisonHalt
}

// Progress reports whether the n-th attempt of a record (n ≥ 1) can still lead to a final state. Beyond that the
// consumer is in an endless loop.
func (c *Contract) Progress(n int32) bool {
	return c.MaxAttempts == 0 || int(n) <= generous*c.MaxAttempts*max(c.Calls, 1)
}

// circles is the number of attempts after which a run stops waiting for a record if the contract specifies no
// maximum.
const circles = 100

// Endless reports whether a run stops waiting for a record after its n-th attempt. Either the attempt is no progress
// (see Progress), or the contract sets no maximum and n exceeds circles, so it is unknown whether the attempts will
// end. The second case violates no promise, so a run that ends because of it proves nothing.
func (c *Contract) Endless(n int32) bool {
	return !c.Progress(n) || c.MaxAttempts == 0 && n > circles
}

// LongestWait returns how long a record that has had the number of attempts may wait for its next one, at most an hour:
// if a number is promised, the wait before the last.
func (c *Contract) LongestWait(attempts int) time.Duration {
	if c.MaxAttempts > 0 {
		attempts = c.MaxAttempts - 1
	}
	wait := c.Backoff.Wait(max(attempts, 1))
	if c.Backoff.Initial <= 0 && c.MaxAttempts != 1 {
		wait = patienceUnsaid
	}
	return min(wait, time.Hour) + c.Backoff.Jitter + c.Backoff.Late
}

// Patience returns how long a consumer may show no activity before it counts as stuck, if no record fails more than the
// given number of times: the sum of all promised waits of a record, its commit interval, and the usual latency of
// clients. If no number of attempts is promised, each of them is progress, and only the longest wait counts. The
// session timeouts observed in a run are added by the caller.
func (c *Contract) Patience(failures int) time.Duration {
	total := patienceMargin + c.CommitInterval
	if c.MaxAttempts == 0 {
		total += c.LongestWait(failures) + patienceAttempt
	} else if c.Backoff.Initial <= 0 {
		total += patienceUnsaid
	}
	for k := 1; c.MaxAttempts > 0 && k < min(max(c.MaxAttempts, 2), patienceSeries) && total < time.Hour; k++ {
		total += min(c.Backoff.Wait(k), time.Hour) + c.Backoff.Jitter + c.Backoff.Late + patienceAttempt
	}
	if c.GroupType == GroupShare {
		total += patienceShare
	}
	if c.RestartsUnhealthy {
		total += patienceUnhealthy + c.StopGrace
	}
	return total
}

// AttemptsWithin returns the number of attempts that fit into the time by the promised waits, at most patienceSeries.
func (c *Contract) AttemptsWithin(limit time.Duration) int {
	attempts := 1
	for waited := c.Backoff.Wait(1); waited <= limit && attempts < patienceSeries; attempts++ {
		waited += c.Backoff.Wait(attempts + 1)
	}
	return attempts
}
