package scenarios

import (
	"slices"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/internal/samples"
	"github.com/dlqbench/dlqbench/internal/units"
)

// The words of Workload.Arrivals and Workload.ErrorText.
const (
	ArrivalsConstant = "constant"
	ArrivalsPoisson  = "poisson"

	ErrorTextPlain    = "plain"
	ErrorTextNonASCII = "non-ascii"
	ErrorTextLong     = "long"
	ErrorTextHostile  = "hostile"
	ErrorTextOutage   = "outage"
	ErrorTextPage     = "page"
)

// Scenario is one scenario file, decoded, with every default filled in.
type Scenario struct {
	// Name is short and file-name safe: lower-case letters, digits, dashes.
	Name string `json:"name" jsonschema:"required,pattern=^[a-z0-9][a-z0-9-]{0\\,63}$"`
	// Group is the heading under which dlqbench list shows the scenario.
	Group Group `json:"group,omitempty" jsonschema:"enum=start,enum=dead-letters,enum=retries,enum=brokers,enum=groups,enum=stores,enum=systems"`
	// Description says what the scenario proves.
	Description string `json:"description" jsonschema:"required"`
	// Seed, unless given on the command line; every random choice of the run follows from it.
	Seed    uint64  `json:"seed,omitempty"`
	Cluster Cluster `json:"cluster,omitempty"`
	Topics  Topics  `json:"topics,omitempty"`
	Subject Subject `json:"subject,omitempty"`
	Graph   *Graph  `json:"graph,omitempty"`
	// Services, two to eight, are the subject where several of them share one dead-letter topic.
	Services []Service        `json:"services,omitempty" jsonschema:"minItems=1,maxItems=8"`
	Workload Workload         `json:"workload" jsonschema:"required"`
	Faults   []catalogue.Spec `json:"faults,omitempty"`
	Drill    *Drill           `json:"drill,omitempty"`
	Store    *Store           `json:"store,omitempty"`
	Replay   *Replay          `json:"replay,omitempty"`
	Expect   Expect           `json:"expect,omitempty"`
}

// Cluster is the Kafka that is started.
type Cluster struct {
	// Brokers is 1 to 9; default 1.
	Brokers int `json:"brokers,omitempty" jsonschema:"minimum=1,maximum=9"`
	// Real, when set, is why only a real Kafka shows what the scenario is about: it is not run on the embedded one.
	Real string `json:"real,omitempty"`
}

// RunsOnEmbedded reports whether the embedded Kafka shows what the scenario is about.
func (s *Scenario) RunsOnEmbedded() bool { return s.Cluster.Real == "" }

// Topics are the run's topics; their names get the run's prefix.
type Topics struct {
	Input InputTopic `json:"input,omitempty"`
	// Retry are the retry topics, if the subject has any.
	Retry RetryTopic `json:"retry,omitempty"`
	DLQ   DLQTopic   `json:"dlq,omitempty"`
}

// RetryTopic says how the retry topics are made.
type RetryTopic struct {
	// Partitions of each, 1 to 256; default: as many as the input has.
	Partitions int `json:"partitions,omitempty" jsonschema:"minimum=1,maximum=256"`
}

// InputTopic is the source topic.
type InputTopic struct {
	// Partitions, 1 to 256; default 6.
	Partitions int `json:"partitions,omitempty" jsonschema:"minimum=1,maximum=256"`
}

// DLQTopic is the dead-letter topic.
type DLQTopic struct {
	// Partitions, 1 to 256; default: as many as the input has.
	Partitions int `json:"partitions,omitempty" jsonschema:"minimum=1,maximum=256"`
	// Broker, from 1, holds all of its partitions and none of the input's, so that the link "dlq" is this broker's.
	Broker int `json:"broker,omitempty" jsonschema:"minimum=1,maximum=9"`
	// Foreign is how many dead letters of another service lie in it from the start, as in a topic that several services
	// share. Nobody may put them back.
	Foreign int `json:"foreign,omitempty" jsonschema:"minimum=0,maximum=10000"`
	// Downstream is the downstream that takes the subject's dead letters in its place, "" if none does.
	Downstream string `json:"-"`
}

// Subject is the consumer under test: the reference consumer, a subject.yaml, or one written in place. Exactly one of
// Reference and File is set; default: Reference with its defaults and one instance.
type Subject struct {
	Reference *Reference `json:"reference,omitempty"`
	// File is a subject.yaml, relative to the scenario file.
	File string `json:"file,omitempty"`
	// Instances of a subject from a file, 1 to 16; default 2. (The reference has its own.)
	Instances int `json:"instances,omitempty" jsonschema:"minimum=1,maximum=16"`
}

// Reference is the reference consumer's settings and the number of its processes.
type Reference struct {
	// Instances, 1 to 16; default 1.
	Instances int `json:"instances,omitempty" jsonschema:"minimum=1,maximum=16"`
	consumer.Settings
}

// Workload is the open-loop load.
type Workload struct {
	// Rate is constant; Steps replaces it by several rates one after another.
	Rate  units.Rate `json:"rate,omitempty"`
	Steps []Step     `json:"steps,omitempty"`
	// Duration of the steady phase (all faults lie within it); with Steps it is their sum.
	Duration units.Duration `json:"duration,omitempty"`
	// WarmUp before the steady phase, at the first rate, all successes; default 500ms.
	WarmUp units.Duration `json:"warm_up,omitempty"`
	// Bursts adds records on top of the rate.
	Bursts *Bursts `json:"bursts,omitempty"`
	// Arrivals is constant or poisson.
	Arrivals string `json:"arrivals,omitempty" jsonschema:"enum=constant,enum=poisson"`
	Keys     Keys   `json:"keys,omitempty"`
	// ValueSize of a record, at least 128B; default 256B.
	ValueSize units.Size `json:"value_size,omitempty"`
	// Headers each record carries besides dlqbench-id; default 1.
	Headers int `json:"headers,omitempty" jsonschema:"minimum=0,maximum=100"`
	// RecordHeaders are headers of these names that each record carries beside them; {{.UUID}} in a value is a fresh
	// UUID of version 4.
	RecordHeaders map[string]string `json:"record_headers,omitempty"`
	Outcomes      Outcomes          `json:"outcomes,omitempty"`
	// Failing makes several partitions fail at once for a while, whatever Outcomes says.
	Failing []FailingPartitions `json:"failing,omitempty"`
	// Tombstones is the share of the records with a null value; Garbage of those whose value is no message at all:
	// random bytes, not UTF-8, without an id.
	Tombstones units.Percent `json:"tombstones,omitempty"`
	Garbage    units.Percent `json:"garbage,omitempty"`
	// Malformed makes a share of the records ones that their consumer can't read, or need not.
	Malformed *Malformed `json:"malformed,omitempty"`
	// Large makes a share of the records much larger, up to the broker's limit of 1 MiB.
	Large *Large `json:"large,omitempty"`
	// Repeated produces a share of the records twice, one right after the other, as a producer does that sends a record
	// again after its acknowledgement was lost: with the same key, value, headers and id, at two offsets of a partition.
	Repeated units.Percent `json:"repeated,omitempty"`
	// TransactionMarkers is the time between two markers on each partition of the input, as the transactions of an
	// upstream producer leave them: each takes an offset, and no record has it. At least 10ms; default none.
	TransactionMarkers units.Duration `json:"transaction_markers,omitempty"`
	// OddHeaders gives a share of the records headers that careless code breaks.
	OddHeaders *OddHeaders `json:"odd_headers,omitempty"`
	// ErrorText is what the downstream's failures say: plain (default), non-ascii, long (4 KiB), hostile (CR LF, NUL,
	// quotes, markup), outage (a circuit breaker is open), page (a gateway answers 503 and 429 with a page of HTML).
	ErrorText string `json:"error_text,omitempty" jsonschema:"enum=plain,enum=non-ascii,enum=long,enum=hostile,enum=outage,enum=page"`
}

// Step is one stretch of a stepped load.
type Step struct {
	Rate units.Rate     `json:"rate" jsonschema:"required"`
	For  units.Duration `json:"for" jsonschema:"required"`
}

// Bursts sends Records at once, Every so long, from the start of the steady phase plus Every.
type Bursts struct {
	Every   units.Duration `json:"every" jsonschema:"required"`
	Records int            `json:"records" jsonschema:"required,minimum=1,maximum=1000000"`
}

// FailingPartitions gives every record that is sent to these partitions of the input, in this stretch of the steady
// phase, one outcome.
type FailingPartitions struct {
	// Partitions are their numbers, from 0.
	Partitions []int          `json:"partitions" jsonschema:"required,minItems=1"`
	At         units.Duration `json:"at,omitempty"`
	For        units.Duration `json:"for" jsonschema:"required"`
	// Outcome is transient (fails twice), exhausted, permanent or logical.
	Outcome string `json:"outcome" jsonschema:"required,enum=transient,enum=exhausted,enum=permanent,enum=logical"`
}

// Large are records of Size bytes, at most 1000KiB.
type Large struct {
	Share units.Percent `json:"share" jsonschema:"required"`
	Size  units.Size    `json:"size" jsonschema:"required"`
}

// Malformed are records of the usual kind whose value has a fault.
type Malformed struct {
	Share units.Percent `json:"share" jsonschema:"required"`
	// How: truncated, not-json, wrong-type (of the id), missing-field (the id's), unknown-schema-id; no id can be read
	// from these. old-schema (an earlier version of the schema, without a field) and oversized-field keep the id: a
	// consumer may process such a record, or treat it as one that it can't read. Default: all of the first five that the
	// format of the subject's records has; dlqbench's own are JSON.
	How []string `json:"how,omitempty" jsonschema:"minItems=1,enum=truncated,enum=not-json,enum=wrong-type,enum=missing-field,enum=unknown-schema-id,enum=old-schema,enum=oversized-field"`
}

// sendsUnreadable reports whether some records have a value that a consumer can't read, or may refuse.
func (s *Scenario) sendsUnreadable() bool {
	return s.Workload.Garbage > 0 || s.Workload.Malformed != nil
}

// sends reports whether records are asked for that are malformed in the way.
func (m *Malformed) sends(how samples.How) bool {
	return m != nil && m.Share > 0 && slices.Contains(m.How, how.String())
}

// Ways are those in which records of the shape are malformed. Missing is one that is asked for and which the shape does
// not have.
func (m *Malformed) Ways(shape samples.Shape) (ways []samples.How, missing string) {
	if m == nil {
		return nil, ""
	}
	ways = shape.Hows()
	if m.How == nil {
		return slices.DeleteFunc(ways, samples.How.Refusable), ""
	}
	for _, name := range m.How {
		if !slices.ContainsFunc(ways, func(how samples.How) bool { return how.String() == name }) {
			missing = name
		}
	}
	return slices.DeleteFunc(ways, func(how samples.How) bool { return !slices.Contains(m.How, how.String()) }), missing
}

// OddHeaders are a header whose value is not UTF-8, one with a null value, one with an empty value, and two of one
// name.
type OddHeaders struct {
	Share units.Percent `json:"share" jsonschema:"required"`
	// OwnNames adds headers that the application has given names which the dead letters' envelope uses, too.
	OwnNames bool `json:"own_names,omitempty"`
}

// Keys says how records are keyed.
type Keys struct {
	// Count of distinct keys, default 1000.
	Count int `json:"count,omitempty" jsonschema:"minimum=1,maximum=10000000"`
	// Skew is Zipf's s: 0 (default) is uniform, 1 is strong.
	Skew float64 `json:"skew,omitempty" jsonschema:"minimum=0,maximum=10"`
	// Hot is the share of records that have one and the same key.
	Hot units.Percent `json:"hot,omitempty"`
	// Null is the share of records without a key.
	Null units.Percent `json:"null,omitempty"`
	// Binary is the share of the keyed records whose key is not UTF-8.
	Binary units.Percent `json:"binary,omitempty"`
}

// Outcomes are the weights of what the plan makes of records; at least one is positive. Default: success 100.
type Outcomes struct {
	Success int `json:"success,omitempty" jsonschema:"minimum=0,maximum=1000000"`
	// Transient records fail (503) Failures times, then succeed.
	Transient Failing `json:"transient,omitempty"`
	// Exhausted records fail (503) every time, until they were replayed (see Replay.Healed).
	Exhausted int `json:"exhausted,omitempty" jsonschema:"minimum=0,maximum=1000000"`
	// Permanent records are answered 400, Logical ones 422.
	Permanent int `json:"permanent,omitempty" jsonschema:"minimum=0,maximum=1000000"`
	Logical   int `json:"logical,omitempty" jsonschema:"minimum=0,maximum=1000000"`
	// RateLimited records are answered 429 with RetryAfter once, then succeed. Timeout records hang until the subject
	// gives up, Reset records have their connection reset: once, then they succeed.
	RateLimited Failing `json:"rate_limited,omitempty"`
	Timeout     Failing `json:"timeout,omitempty"`
	Reset       Failing `json:"reset,omitempty"`
}

// Failing is an outcome that ends well after some failures. In YAML a bare number is the weight.
type Failing struct {
	Weight int `json:"weight"`
	// Failures before the success; default 1.
	Failures int `json:"failures,omitempty"`
	// RetryAfter goes with rate_limited; default 1s.
	RetryAfter units.Duration `json:"retry_after,omitempty"`
}

// Replay is the phase in which dead letters go back, after the first drain.
type Replay struct {
	// Healed is the share of dead-lettered records whose cause is planned to be gone; they are selected and succeed;
	// default 100%.
	Healed units.Percent `json:"healed,omitempty"`
	// FailAgain is the share of the selected that fail again, and must make one new dead letter each; default 0%.
	FailAgain units.Percent `json:"fail_again,omitempty"`
	// Rounds, of a graph: what fails again is replayed again, so many times in all; default 1.
	Rounds int `json:"rounds,omitempty" jsonschema:"minimum=1,maximum=20"`
	// Rate of the replay; default 500/s.
	Rate units.Rate `json:"rate,omitempty"`
}

// Expect is what must hold beyond the subject's contract.
type Expect struct {
	// Invariants to judge; default: all that apply.
	Invariants []string `json:"invariants,omitempty"`
	Allow      Allow    `json:"allow,omitempty"`
	// Thresholds are expressions over measurements: "latency.success.p99 < 500ms".
	Thresholds []string `json:"thresholds,omitempty"`
	// MaxSlip bounds the p99 of (sent − intended); above it the run is inconclusive; default 250ms.
	MaxSlip units.Duration `json:"max_slip,omitempty"`
	// Drain bounds the time from heal until everything is finished and committed, as the threshold "recovery.drain <=
	// DRAIN" does; default: no such bound. However long it takes, the run waits until everything is finished, or until
	// the subject stands still for longer than its contract explains.
	Drain units.Duration `json:"drain,omitempty"`
}

// Allow holds allowances.
type Allow struct {
	// Duplicates is the largest share of records that may succeed more than once; default: no such limit.
	Duplicates *units.Percent `json:"duplicates,omitempty"`
}
