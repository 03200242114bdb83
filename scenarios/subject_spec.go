package scenarios

import (
	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/internal/samples"
	"github.com/dlqbench/dlqbench/internal/units"
)

// Kinds of subjects.
const (
	// KindProcess is a command that is run on this machine, KindContainer an image that is run by its container engine,
	// KindExternal a consumer that somebody else starts on this machine, KindDeployment one whose instances are pods.
	KindProcess    = "process"
	KindContainer  = "container"
	KindExternal   = "external"
	KindDeployment = "deployment"
)

// SubjectFile is a subject.yaml: how a consumer of the user's own is built and run, and what it promises. Text in
// Command, Build, Env, Files, Group, Topic, Topics and RetryTopics may hold templates such as {{.BootstrapServers}}.
type SubjectFile struct {
	Name string `json:"name" jsonschema:"required,pattern=^[a-z0-9][a-z0-9-]{0\\,63}$"`
	// Kind: process or container; external for a consumer that you start yourself; deployment for one whose instances
	// are pods of a Kubernetes cluster (dlqbench run --on kubernetes).
	Kind string `json:"kind" jsonschema:"required,enum=process,enum=container,enum=external,enum=deployment"`
	// Instances is how many can run at a time, such as 1 for a consumer that takes all partitions without a group;
	// default: as many as a scenario has. A scenario with more instances runs with these.
	Instances int `json:"instances,omitempty" jsonschema:"minimum=1,maximum=16"`
	// External is where a consumer of kind external finds Kafka and its downstream, and what acts on it.
	External *External `json:"external,omitempty"`
	// Listen are the ports at which it looks for Kafka and for what it calls, if it can't be given other addresses.
	Listen *Listen `json:"listen,omitempty"`
	// Deployment is the consumer's manifest, with kind: deployment. External then has the ports in its pods.
	Deployment *Deployment `json:"deployment,omitempty"`
	// Image is what a container is made of; it is pulled if the engine does not have it.
	Image string `json:"image,omitempty"`
	// Dir is where commands run: absolute, or relative to the file; default ".". {{.WorkDir}} is each instance's own work
	// folder, for a consumer that reads its settings from the folder that it is started in. Paths in command are then
	// written with {{.Folder}}, and build runs in the folder of the file.
	Dir string `json:"dir,omitempty"`
	// Build is run once before the first instance starts.
	Build []string `json:"build,omitempty"`
	// Command is what runs; in a container it takes the place of the image's own (its CMD; an ENTRYPOINT stays), and
	// may be left out.
	Command []string `json:"command,omitempty" jsonschema:"minItems=1"`
	// Args are appended to Command.
	Args []string          `json:"args,omitempty"`
	Env  map[string]string `json:"env,omitempty"`
	// Files are rendered before each start: path (relative to the instance's work folder, {{.WorkDir}}) to template
	// text.
	Files map[string]string `json:"files,omitempty"`
	Ready Ready             `json:"ready,omitempty"`
	// Needs are programs that it needs while it runs and that are not judged. They are started before it.
	Needs []Need `json:"needs,omitempty"`
	// RecordHeaders are headers without which the subject takes no record: each record carries them; {{.UUID}} in a
	// value is a fresh UUID of version 4.
	RecordHeaders map[string]string `json:"record_headers,omitempty"`
	// Input is what its records are made of; default: records of dlqbench's own.
	Input *Input `json:"input,omitempty"`
	// Downstreams are the services that it calls, and the output topics that it writes to; default: POST /v1/attempt with
	// the record's value. One of them decides what becomes of a record.
	Downstreams []Downstream `json:"downstreams,omitempty"`
	// Topics are further topics that the subject needs, such as those that it writes results to. They are created, and
	// what is read from them or written to them is recorded, but not judged.
	Topics TextList `json:"topics,omitempty"`
	// Observe: downstream (default) or wire (the subject does not call the downstream).
	Observe string `json:"observe,omitempty" jsonschema:"enum=downstream,enum=wire"`
	// Replay says how its dead letters go back.
	Replay   ReplayTool   `json:"replay,omitempty"`
	Contract ContractSpec `json:"contract,omitempty"`
	// Store is where the subject keeps dead letters in a database of its own, if it does.
	Store *OwnStore `json:"store,omitempty"`
	// Samples are what Input names, nil without it.
	Samples *samples.Set `json:"-"`
	// Made is what Samples consist of: one for all input topics, or one for each.
	Made []Made `json:"-"`
	// PortNames are those of the ports that its templates use, {{.Ports.NAME}}.
	PortNames []string `json:"-"`
}

// ReplayTool is how the dead letters of a subject go back.
type ReplayTool struct {
	// To is the topic that they go to, which the subject consumes as if it were the input; default: the input topic.
	To string `json:"to,omitempty"`
	// Command is the subject's own tool; default: dlqbench replay. It finds the addresses of an instance in its
	// environment, the ids of the records to put back in the file {{.IDsFile}}, one per line, and how many it may write
	// per second as {{.ReplayRate}}. It ends when it is done.
	Command []string `json:"command,omitempty" jsonschema:"minItems=1"`
}

// Ready says when an instance counts as ready; without it: when the tap has seen it fetch from an assigned partition.
type Ready struct {
	// Log is a regular expression that a line of its output matches; Port a TCP port that accepts; URL one that answers
	// 2xx.
	Log  string `json:"log,omitempty"`
	Port int    `json:"port,omitempty" jsonschema:"minimum=1,maximum=65535"`
	URL  string `json:"url,omitempty"`
	// Timeout, default 30s, or 5m for a person who starts it (kind external). A member of a group may take longer: until
	// the sessions of others that are gone have ended.
	Timeout units.Duration `json:"timeout,omitempty"`
}

// ProtocolStreams is the group protocol of Kafka Streams (KIP-1071).
const ProtocolStreams = "streams"

// ContractSpec is the contract as written; defaults promise the least that anyone would still call correct.
type ContractSpec struct {
	Group string `json:"group,omitempty"`
	// GroupType: consumer (default), or share for a share group (KIP-932).
	GroupType string `json:"group_type,omitempty" jsonschema:"enum=consumer,enum=share"`
	// GroupProtocol of its consumer group: classic, consumer (KIP-848), or streams (KIP-1071). It decides which scenarios
	// can be run, and must be what the client is configured for.
	GroupProtocol string `json:"group_protocol,omitempty" jsonschema:"enum=classic,enum=consumer,enum=streams"`
	// Transactions, if dead letters and offsets are written in one transaction.
	Transactions bool         `json:"transactions,omitempty"`
	Attempts     AttemptsSpec `json:"attempts,omitempty"`
	Backoff      BackoffSpec  `json:"backoff,omitempty"`
	Classes      ClassesSpec  `json:"classes,omitempty"`
	// Logical: terminal, if a business failure ends the record's processing; dead-letter, if it is dead-lettered. Both
	// are right where this is left out.
	Logical  string `json:"logical,omitempty" jsonschema:"enum=terminal,enum=dead-letter"`
	Ordering string `json:"ordering,omitempty" jsonschema:"enum=none,enum=partition,enum=key"`
	// OrderOf: outcomes (default), if the next record begins when the one before has come to its end; attempts, if
	// already when it has had its last attempt, also while its dead letter is outstanding.
	OrderOf string `json:"order_of,omitempty" jsonschema:"enum=outcomes,enum=attempts"`
	// OnExhausted, without a dead-letter topic: finish (default), if a record that fails for good is given up and its
	// offset committed; exit, if the process ends with an error and commits nothing past it. It is then started again,
	// as by a supervisor.
	OnExhausted string `json:"on_exhausted,omitempty" jsonschema:"enum=finish,enum=exit"`
	// OnError: stay (default), or exit, if an error that the process can't handle ends it with a code above 0. It is
	// then started again, as by a supervisor.
	OnError string `json:"on_error,omitempty" jsonschema:"enum=stay,enum=exit"`
	// OnUnhealthy: stay (default), or restart, if an instance whose Health turns bad, and stays so for 3s, is ended with
	// TERM and started again, as by Kubernetes' liveness probe.
	OnUnhealthy string `json:"on_unhealthy,omitempty" jsonschema:"enum=stay,enum=restart"`
	Retry       string `json:"retry,omitempty" jsonschema:"enum=in-place,enum=redelivery,enum=topics"`
	// RetryAfter: honoured, if no attempt begins before the time that a 429 gave in Retry-After; ignored (default), if
	// that is not promised.
	RetryAfter string `json:"retry_after,omitempty" jsonschema:"enum=honoured,enum=ignored"`
	// RetryTopics are those that retries go through, in order. With {{.InputTopic}}, they go to the end of the input.
	RetryTopics TextList `json:"retry_topics,omitempty"`
	DLQ         DLQSpec  `json:"dlq,omitempty"`
	Commits     Commits  `json:"commits,omitempty"`
	// OffsetMetadata: ranges, if commits carry the finished offsets beyond the committed one in their metadata
	// ("1-3,7", relative to it).
	OffsetMetadata string `json:"offset_metadata,omitempty" jsonschema:"enum=ranges"`
	// Isolation is the share of the fault-free pace that records keep while others, which they need not wait for, back
	// off; without it nothing is promised.
	Isolation units.Percent `json:"isolation,omitempty"`
	Stop      StopSpec      `json:"stop,omitempty"`
	// Health is a URL of each instance that answers 2xx while all is well, such as http://127.0.0.1:{{.Port}}/health:
	// one that turns unhealthy has made a failure known.
	Health string `json:"health,omitempty" jsonschema:"pattern=^https?://"`
	// Skips: "tombstone".
	Skips []string `json:"skips,omitempty" jsonschema:"enum=tombstone"`
	// Effects promises that each record that succeeded has its effect in a sink, which dlqbench reads at the end. Without
	// it nothing is promised.
	Effects *EffectsSpec `json:"effects,omitempty"`
	// Poison says what becomes of a record whose value can't be read (garbage, malformed): dead-letter; skip, which
	// commits it unprocessed; or halt, if nothing is committed past it. The consumer may then pause the partition, stop
	// altogether, leave its group or end, and is started again. Without it, an attempt may end such a record, too.
	Poison string `json:"poison,omitempty" jsonschema:"enum=dead-letter,enum=skip,enum=halt"`
}

// EffectsSpec says where the effects of records are, and what is promised of them.
type EffectsSpec struct {
	// Topic is the output topic, in which a record that succeeded has a record with its id; default: that of the
	// downstream, if it is one.
	Topic string `json:"topic,omitempty" jsonschema:"minLength=1"`
	// SQL is a statement that reads the effects from the database among the downstreams: rows with a record's id in the
	// first column and, if there is a second one, the number of its effects there. It takes the place of Topic.
	SQL string `json:"sql,omitempty" jsonschema:"minLength=1,maxLength=10000"`
	// Repeats: disrupted (default), if a record may have its effect again after a disruption; produced, if it has it
	// again only if it was produced again (workload.repeated, a replay), as with Kafka's transactions; never, if it has it
	// once, whatever happens, as with a key by which a repeat is recognised.
	Repeats string `json:"repeats,omitempty" jsonschema:"enum=disrupted,enum=produced,enum=never"`
	// Atomic: true, if a record that did not succeed leaves no effect, dead-lettered or not.
	Atomic bool `json:"atomic,omitempty"`
}

// The words of EffectsSpec.Repeats.
const (
	RepeatsDisrupted = "disrupted"
	RepeatsProduced  = "produced"
	RepeatsNever     = "never"
)

// AttemptsSpec promises Max executions, the first included (0, the default: no promise); Counter is memory, header,
// store or delivery (the delivery count of a share group).
type AttemptsSpec struct {
	Max AttemptLimit `json:"max,omitempty"`
	// Calls is how often the client of the downstream may call within one attempt, where it repeats a call by itself:
	// sooner than backoff.initial after a failure. Default 1.
	Calls   int    `json:"calls,omitempty" jsonschema:"minimum=1,maximum=20"`
	Counter string `json:"counter,omitempty" jsonschema:"enum=memory,enum=header,enum=store,enum=delivery"`
}

// AttemptLimit is a number of executions, 0 for no promise, or Unlimited.
type AttemptLimit int

// Unlimited promises that a retryable record is executed until it succeeds, and never given up before.
const Unlimited AttemptLimit = -1

// BackoffSpec promises the waits between attempts; without Initial nothing is promised.
type BackoffSpec struct {
	Initial    units.Duration `json:"initial,omitempty"`
	Multiplier float64        `json:"multiplier,omitempty" jsonschema:"minimum=1"`
	Cap        units.Duration `json:"cap,omitempty"`
	Jitter     units.Duration `json:"jitter,omitempty"`
	Late       units.Duration `json:"late,omitempty"`
}

// ClassesSpec classes outcomes: HTTP status codes or SQLSTATEs, "timeout", "reset".
type ClassesSpec struct {
	Retryable []StatusOrName `json:"retryable,omitempty"`
	Permanent []StatusOrName `json:"permanent,omitempty"`
	Logical   []StatusOrName `json:"logical,omitempty"`
}

// StatusOrName is 503, 40001 or "timeout".
type StatusOrName string

// TextList is a list of texts, or one comma-joined text.
type TextList []string

// DLQSpec promises where dead letters go and what happens when they can't be written.
type DLQSpec struct {
	// Enabled: false, if there is no dead-letter topic: what fails for good is given up by design, and that is its end.
	Enabled bool   `json:"enabled,omitempty"`
	Topic   string `json:"topic,omitempty"`
	// Downstream is the name of the downstream that takes the dead letters in the place of a topic. Each call there with
	// a record's id is a dead letter, which is written when the call is answered with a success.
	Downstream string `json:"downstream,omitempty" jsonschema:"minLength=1"`
	// Envelope governs the metadata of the dead letters, and nothing else.
	Envelope Envelope `json:"envelope,omitempty"`
	// WrittenBy: consumer (default), or broker: a share group whose broker writes the dead letters, of what is rejected
	// or was delivered too often (KIP-1191).
	WrittenBy string `json:"written_by,omitempty" jsonschema:"enum=consumer,enum=broker"`
	// Partition: any (default) or same.
	Partition string `json:"partition,omitempty" jsonschema:"enum=any,enum=same"`
	// OnFailure: halt, crash or retry.
	OnFailure string `json:"on_failure,omitempty" jsonschema:"enum=halt,enum=crash,enum=retry"`
	// SurfacedWithin is within what time it is made known (log, exit code, health) that dead letters can't be written
	// for a reason that may pass, such as NOT_ENOUGH_REPLICAS, or for which nobody answers. Without it 5m: librdkafka
	// tries for that long by itself, silently.
	SurfacedWithin units.Duration `json:"surfaced_within,omitempty"`
	// KeepsKey, KeepsValue and KeepsHeaders: false, if a dead letter does not carry the record's own key, value or
	// headers.
	KeepsKey     bool `json:"keeps_key,omitempty"`
	KeepsValue   bool `json:"keeps_value,omitempty"`
	KeepsHeaders bool `json:"keeps_headers,omitempty"`
}

// Envelope is the name of a dialect (see docs/envelopes.md), or that of one made from places of the subject's own; ""
// for none.
type Envelope string

// Who writes dead letters.
const (
	WrittenByConsumer = consumer.WrittenByConsumer
	WrittenByBroker   = consumer.WrittenByBroker
)

// namesTopic reports whether dead letters say which topic their record came from.
func (e Envelope) namesTopic() bool {
	dialect, err := deadletter.Named(string(e))
	return err == nil && !dialect.Traits().NoTopic
}

// EnvelopeNone says that no metadata is promised.
const EnvelopeNone = "none"

// Commits says when offsets are committed: by a word (after-outcome, the default, auto, or never, if the subject keeps
// its offsets outside Kafka), or by a mapping.
type Commits struct {
	// After: outcome (default) or time; never, if the word says so.
	After string `json:"after,omitempty"`
	// Interval is the longest time between two commits while there is something to commit; default 30s, the longest
	// that client libraries have.
	Interval units.Duration `json:"interval,omitempty"`
}

// StopSpec promises how long an orderly stop takes at most.
type StopSpec struct {
	Grace units.Duration `json:"grace,omitempty"`
	// Codes are the exit codes of an orderly end after TERM; an end by the signal itself is 143. Default: 0 or 143, and
	// an end by the signal after the group was left.
	Codes []int `json:"codes,omitempty"`
}
