package history

import "time"

// FormatVersion is the version of the on-disk format. Readers reject newer versions. In version 2 the header lists
// the run's consumers; segments are unchanged from format 1.
const FormatVersion = 2

// Role is the purpose of a topic.
type Role string

// The roles of topics.
const (
	RoleInput Role = "input"
	RoleRetry Role = "retry"
	RoleDLQ   Role = "dlq"
)

// Topic is one topic of the run; events refer to it by its index in Header.Topics.
type Topic struct {
	Name       string `json:"name"`
	Role       Role   `json:"role"`
	Partitions int    `json:"partitions"`
	// Retries: it is an input topic that the subject writes its retry copies to.
	Retries bool `json:"retries,omitempty"`
	// Downstream: it is not a topic, but the downstream with this name, which takes the dead letters. Each call there is
	// a write.
	Downstream bool `json:"downstream,omitempty"`
}

// TakesRetries reports whether the subject writes retry copies to the topic.
func (t Topic) TakesRetries() bool { return t.Role == RoleRetry || t.Retries }

// Is reports whether a fault refers to the topic by the word: its role, or its name. An input topic that takes retry
// copies is a retry topic, too.
func (t Topic) Is(word string) bool {
	return string(t.Role) == word || t.Name == word || t.Retries && word == string(RoleRetry)
}

// PlannedFault is one fault of the plan, as far as judging and reporting need it.
type PlannedFault struct {
	// Name is the scenario's name for it, or one made from its kind and position.
	Name string `json:"name"`
	// Kind is network, kafka, broker, subject, downstream, store or registry.
	Kind string `json:"kind"`
	// What says in words what is broken, e.g. "Produce to dlq answered NOT_ENOUGH_REPLICAS".
	What string `json:"what"`
	// Link or Target names what is hit: "broker 1", "brokers", "dlq", "downstream", "downstream ledger", "instance 1".
	Target string `json:"target"`
	// API is the request that a fault of Kafka's protocol acts on; "" where only some of those of its Target match, by
	// their client, version, partition or group.
	API string `json:"api,omitempty"`
	// StopsDeadLetters: while it is in force no instance can get a dead letter acknowledged. Delays and limits don't
	// stop them, and neither does what hits only a share of the requests.
	StopsDeadLetters bool `json:"stops_dead_letters,omitempty"`
	// HidesSchemas: while it is in force, the subject may take good records for ones that it can't read.
	HidesSchemas bool `json:"hides_schemas,omitempty"`
	// When is the event that it waits for ("first-dead-letter"); "" where it follows the clock.
	When string `json:"when,omitempty"`
	// At is the offset from the start of the steady phase (with When: from when on the event counts); For the duration
	// (0: an instant).
	At  time.Duration `json:"at_ns"`
	For time.Duration `json:"for_ns"`
	// MayMiss: nothing hangs on its effect; that it had none is still to be seen.
	MayMiss bool `json:"may_miss,omitempty"`
	// Idle explains the fault if it has no effect. Histories from before this field have none.
	Idle Idle `json:"idle,omitzero" jsonschema:"-"`
	// By is the person who injected it by hand; "" where the scenario did.
	By string `json:"by,omitempty"`
	// Refused says why it could not be injected, where that did not end the run: somebody wanted to break what can't be
	// broken. Nothing hangs on its effect.
	Refused string `json:"refused,omitempty"`
}

// Idle is what the kind of a fault knows in advance about the reasons for having no effect.
type Idle struct {
	// Needs is what the fault depends on.
	Needs Need `json:"needs,omitempty"`
	// Why is the reason if nothing came that the fault acts on, Passed the reason if something came; "" stands for Why.
	// InForce stands for the time that the fault was in force. Do is the remedy, which older histories have in Why.
	Why    string `json:"why"`
	Passed string `json:"passed,omitempty"`
	Do     string `json:"do,omitempty"`
}

// InForce stands in the texts of Idle for the time that the fault was in force.
const InForce = "{in force}"

// Need is what must take place so that a fault can have an effect.
type Need string

const (
	// NeedNothing means that the fault does not depend on the activity of the subject.
	NeedNothing Need = ""
	// NeedMember is a member of the group that owns a partition. The needs below include it.
	NeedMember Need = "member"
	// NeedRecord is a record that is handed to the subject.
	NeedRecord Need = "record"
	// NeedAttempt is a call of the downstream.
	NeedAttempt Need = "attempt"
	// NeedDeadLetter is a dead letter that is written to the fault's target.
	NeedDeadLetter Need = "dead-letter"
)

// Downstream is a service that the subject calls while it processes a record, or a topic that it writes to.
type Downstream struct {
	Name string `json:"name"`
	// Optional: a record may succeed although its call there failed.
	Optional bool `json:"optional,omitempty"`
	// Topic: it is an output topic, which is reached over the links of the brokers.
	Topic bool `json:"topic,omitempty"`
}

// TargetOther begins PlannedFault.Target for a downstream that does not decide; its name follows.
const TargetOther = "downstream "

// Expect is what the scenario demands beyond the contract.
type Expect struct {
	// Invariants limits judging to these (empty: all that apply).
	Invariants []string `json:"invariants,omitempty"`
	// DuplicateShare, when ≥ 0, is the largest allowed share of records with more than one success.
	DuplicateShare float64 `json:"duplicate_share"`
	// Thresholds are expressions over measurements, such as "latency.success.p99 < 500ms".
	Thresholds []string `json:"thresholds,omitempty"`
	// MaxSlip is the largest p99 schedule slip at which the load still counts as open loop; MinLoad the
	// smallest share of the planned records that must have been sent and acknowledged.
	MaxSlip time.Duration `json:"max_slip_ns"`
	MinLoad float64       `json:"min_load"`
	// Patience is how long nothing may move, beside the session timeouts that are seen, before standing still is
	// proven; 0: DrainLimit.
	Patience time.Duration `json:"patience_ns,omitempty"`
	// DrainLimit is set in histories from before Patience: how long the drain lasted at most.
	DrainLimit time.Duration `json:"drain_limit_ns,omitempty"`
}

// Header is what must be known to judge a run's events. It is written before the first event; it holds no secrets.
type Header struct {
	Format   int       `json:"format"`
	RunID    string    `json:"run_id"`
	Scenario string    `json:"scenario"`
	Seed     uint64    `json:"seed"`
	Started  time.Time `json:"started"`
	// Rerun is the command that runs the same plan again.
	Rerun       string            `json:"rerun"`
	Environment map[string]string `json:"environment"`
	Subject     string            `json:"subject"`
	// Instances is how many all consumers have.
	Instances int            `json:"instances"`
	Records   int            `json:"records"`
	Topics    []Topic        `json:"topics"`
	Faults    []PlannedFault `json:"faults"`
	Expect    Expect         `json:"expect"`
	// Consumers are those that are judged; at least one.
	Consumers []Consumer `json:"consumers"`
	// IDForm is how the records' ids are written; "" stands for text.
	IDForm IDForm `json:"id_form,omitempty"`
	// Keys are the keys of the subject's own samples; see AppendKey.
	Keys []string `json:"keys,omitempty"`
	// Replay tells that the run has a replay phase.
	Replay bool `json:"replay"`
	// Refusable tells that there are records with the flag Refusable.
	Refusable bool `json:"refusable,omitempty"`
	// Foreign is how many dead letters of another service were in the dead-letter topic before the subject began. They
	// carry no id of the run's.
	Foreign int `json:"foreign,omitempty"`
	// Downstreams are what the subject calls, the one that decides first; nil if there is only that one.
	Downstreams []Downstream `json:"downstreams,omitempty"`
	// Graph is set where the consumers are the nodes of a graph, the entry first. Without it, several consumers share one
	// dead-letter topic.
	Graph *Graph `json:"graph,omitempty"`
	// Store is what the dead-letter store and its service promise; nil if the run has none.
	Store *StoreContract `json:"store,omitempty"`
	// Failure is why the run could not be carried out to its end, where the reason lies outside the subject.
	Failure string `json:"failure,omitempty"`
	// Disturbed: what ended the run also disturbed the subject, in ways that the history does not show. What the subject
	// did is therefore not held against it.
	Disturbed bool `json:"disturbed,omitempty"`
}

// IDs returns the ids of the run's records.
func (h *Header) IDs() *IDs { return NewIDsAs(h.RunID, h.IDForm, h.Records) }

// TopicIndex returns the index of the named topic, or None.
func (h *Header) TopicIndex(name string) int16 {
	for i := range h.Topics {
		if h.Topics[i].Name == name {
			return int16(i)
		}
	}
	return None
}
