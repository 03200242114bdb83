package faults

import (
	"encoding/json"
	"time"

	"github.com/dlqbench/dlqbench/internal/units"
)

// Spec is one fault as a scenario writes it: when, for how long, and exactly one of the kinds.
type Spec struct {
	// Name identifies the fault in reports; default: what breaks and how, such as produce-error or kill-instance-1.
	Name string `json:"name,omitempty"`
	// At is the offset from the start of the steady phase. With When it is from when on the event is waited for.
	At units.Duration `json:"at,omitempty"`
	// When waits for an event of the run in place of a time: "first-retry" (a record is tried for the second time),
	// "first-dead-letter" (the first dead letter was acknowledged by the broker; the subject has not read that yet),
	// "backoff" (an attempt has failed and another is due), "lag > N" (records sent and not yet covered by a commit),
	// "instance N assigned", "store-locked" (a worker of the dead-letter store has an entry), "store-republished" (the
	// broker has accepted what a worker writes back; the worker has not read that yet). An event that does not come by
	// the end of the load, when the subject has caught up with it, leaves the fault without effect.
	When string `json:"when,omitempty"`
	// After is how long after that event the fault starts; it goes with When.
	After units.Duration `json:"after,omitempty"`
	// For is how long it stays; 0 only for faults that are an instant (a signal, a restart).
	For units.Duration `json:"for,omitempty"`
	// MayMiss: a fault that was injected and did nothing is told of, and the run counts all the same. Without it such a
	// run is inconclusive: nobody can tell what it would have shown. What people break by hand may miss, so that nobody
	// has to be slow in healing it.
	MayMiss bool `json:"may_miss,omitempty"`

	Network    *Network    `json:"network,omitempty"`
	Kafka      *Kafka      `json:"kafka,omitempty"`
	Broker     *Broker     `json:"broker,omitempty"`
	Subject    *Subject    `json:"subject,omitempty"`
	Downstream *Downstream `json:"downstream,omitempty"`
	Store      *Store      `json:"store,omitempty"`
}

// LinkStore is the Network.Link of the dead-letter store's database.
const LinkStore = "store"

// The words of Network.Direction besides "both".
const (
	DirectionRequests  = "requests"
	DirectionResponses = "responses"
)

// Network breaks a TCP link through toxiproxy. Exactly one of Latency, Bandwidth, Timeout, SlowClose, Slicer,
// LimitData, HalfOpen, Down, Reset is set (Jitter goes with Latency).
type Network struct {
	// Link is "broker N" (N from 1), "brokers" (all of them), "dlq" (the broker that holds the DLQ topic; needs
	// topics.dlq.broker) or "downstream" (the oracle; in a graph the modules of all nodes, those of one node are
	// "downstream of NODE"), or "store" (the database of the dead-letter store, where it is a server).
	Link string `json:"link" jsonschema:"required"`
	// Direction limits latency, bandwidth, timeout, slicer and limit_data to what the subject sends (requests) or gets
	// (responses); default both.
	Direction string `json:"direction,omitempty" jsonschema:"enum=both,enum=requests,enum=responses"`
	// Toxicity is the share of the connections that is hit, drawn from the seed; default 100%.
	Toxicity units.Percent `json:"toxicity,omitempty"`
	// Latency delays every chunk; Jitter adds up to that much, at random.
	Latency units.Duration `json:"latency,omitempty"`
	Jitter  units.Duration `json:"jitter,omitempty"`
	// Bandwidth limits the link, in bytes per second ("64KiB" = 64 KiB/s).
	Bandwidth units.Size `json:"bandwidth,omitempty"`
	// Timeout: data is swallowed, connections stay open and silent.
	Timeout bool `json:"timeout,omitempty"`
	// SlowClose: when one side closes a connection the other learns of it this much later.
	SlowClose units.Duration `json:"slow_close,omitempty"`
	// Slicer cuts the data into small pieces.
	Slicer *Slicer `json:"slicer,omitempty"`
	// LimitData: each connection is closed once it has carried so many bytes in a direction, in the middle of a
	// message.
	LimitData units.Size `json:"limit_data,omitempty"`
	// HalfOpen: the far side of the existing connections is gone and the subject is not told; what it sends is
	// swallowed. New connections work.
	HalfOpen bool `json:"half_open,omitempty"`
	// Down: existing connections are closed, new ones refused.
	Down bool `json:"down,omitempty"`
	// Reset: existing connections are reset (a true RST), new ones are reset when they send.
	Reset bool `json:"reset,omitempty"`
}

// UnmarshalJSON fills in the defaults that are not the zero value.
func (n *Network) UnmarshalJSON(data []byte) error {
	type plain Network
	filled := plain{Toxicity: 1}
	if err := json.Unmarshal(data, &filled); err != nil {
		return err
	}
	*n = Network(filled)
	return nil
}

// Slicer sends data on in pieces of Size bytes, Delay apart.
type Slicer struct {
	Size  units.Size     `json:"size" jsonschema:"required"`
	Delay units.Duration `json:"delay,omitempty"`
}

// Kafka acts on requests that the tap sees. Exactly one of Error, DelayRequest, DelayResponse, DropRequest,
// DropResponse, Close, Throttle is set; the other fields say which requests match, and all of them must.
type Kafka struct {
	// API is Kafka's name of the request.
	API string `json:"api" jsonschema:"required,enum=Produce,enum=Fetch,enum=OffsetCommit,enum=TxnOffsetCommit,enum=EndTxn,enum=Metadata,enum=FindCoordinator,enum=JoinGroup,enum=SyncGroup,enum=Heartbeat,enum=ConsumerGroupHeartbeat,enum=InitProducerId,enum=ShareGroupHeartbeat,enum=ShareFetch,enum=ShareAcknowledge"`
	// Topic limits it to requests that touch the topic: "input", "retry", "dlq" or a topic's name; Partition to those
	// that touch that partition of it.
	Topic     string `json:"topic,omitempty"`
	Partition *int   `json:"partition,omitempty" jsonschema:"minimum=0"`
	// Group limits it to requests of that consumer group, "subject" being the subject's own; ClientID to those with
	// that client id.
	Group    string `json:"group,omitempty"`
	ClientID string `json:"client_id,omitempty"`
	// Instance limits it to one instance, Version to requests of that version.
	Instance *int `json:"instance,omitempty" jsonschema:"minimum=0"`
	Version  *int `json:"version,omitempty" jsonschema:"minimum=0"`
	// Nth hits only the nth matching request, EveryNth every nth, both counted from 1 from the start of the fault.
	Nth      int `json:"nth,omitempty" jsonschema:"minimum=1"`
	EveryNth int `json:"every_nth,omitempty" jsonschema:"minimum=1"`
	// Probability is the share of matching requests that is hit, drawn from the seed; default 100%.
	Probability units.Percent `json:"probability,omitempty"`

	// Error is Kafka's name of an error code (NOT_ENOUGH_REPLICAS) answered in the broker's place, for the partitions
	// that match where the API has partitions.
	Error string `json:"error,omitempty"`
	// DelayRequest holds the request back before the broker sees it, DelayResponse the broker's answer before the
	// client sees it.
	DelayRequest  units.Duration `json:"delay_request,omitempty"`
	DelayResponse units.Duration `json:"delay_response,omitempty"`
	// DropRequest: neither does the broker see the request nor the client an answer. DropResponse: the broker does it,
	// the answer never reaches the client.
	DropRequest  bool `json:"drop_request,omitempty"`
	DropResponse bool `json:"drop_response,omitempty"`
	// Close closes the client's connection in place of passing the request on.
	Close bool `json:"close,omitempty"`
	// Throttle is written into the answer's throttle_time_ms, as a broker does that enforces a quota (KIP-219: the
	// client waits).
	Throttle units.Duration `json:"throttle,omitempty"`
}

// UnmarshalJSON fills in the default of Probability, which is not the zero value.
func (k *Kafka) UnmarshalJSON(data []byte) error {
	type plain Kafka
	filled := plain{Probability: 1}
	if err := json.Unmarshal(data, &filled); err != nil {
		return err
	}
	*k = Kafka(filled)
	return nil
}

// Broker acts on a broker. Exactly one of Stop, Kill, Pause, Restart, MoveLeaders, MoveCoordinator is set.
type Broker struct {
	// Broker is its number, from 1; not for MoveCoordinator, which finds the one that coordinates the subject's group.
	Broker int `json:"broker,omitempty" jsonschema:"minimum=1"`
	// Stop: it is stopped in order (its leaderships move first, where it has followers), and started again with its
	// data after For.
	Stop bool `json:"stop,omitempty"`
	// Kill: it is gone at once, its connections are reset; it is started again with its data after For.
	Kill bool `json:"kill,omitempty"`
	// Pause: it stands still with its connections open, and goes on after For.
	Pause bool `json:"pause,omitempty"`
	// Restart: it is stopped and started at once.
	Restart bool `json:"restart,omitempty"`
	// MoveLeaders: the partitions that it leads get other leaders; they come back after For, if that is set.
	MoveLeaders bool `json:"move_leaders,omitempty"`
	// MoveCoordinator: the subject's group gets another coordinator.
	MoveCoordinator bool `json:"move_coordinator,omitempty"`
}

// Subject acts on the consumer's processes. Exactly one of Signal, Restart, ScaleUp, ScaleDown is set.
type Subject struct {
	// Node is the node of a graph whose instance is meant; its instances are numbered from 0.
	Node string `json:"node,omitempty"`
	// Process is a router or a worker of the dead-letter store in place of an instance: "worker 0", "router 0".
	Process string `json:"process,omitempty"`
	// Instance is its number, from 0; All takes every one in turn (a rolling restart), Every apart.
	Instance *int           `json:"instance,omitempty" jsonschema:"minimum=0"`
	All      bool           `json:"all,omitempty"`
	Every    units.Duration `json:"every,omitempty"`
	// Signal is TERM, KILL or STOP (continued after For).
	Signal string `json:"signal,omitempty" jsonschema:"enum=TERM,enum=KILL,enum=STOP"`
	// Restart: TERM, wait for the end (KILL after the contract's grace), start again.
	Restart bool `json:"restart,omitempty"`
	// RestartAfter starts an ended instance again this long after it ended; without it the instance comes back at heal.
	RestartAfter units.Duration `json:"restart_after,omitempty"`
	// ScaleUp starts so many further instances, which are ended (TERM) after For; ScaleDown ends (TERM) so many of the
	// last ones, which are started again after For.
	ScaleUp   int `json:"scale_up,omitempty" jsonschema:"minimum=1,maximum=16"`
	ScaleDown int `json:"scale_down,omitempty" jsonschema:"minimum=1,maximum=16"`
}

// Downstream changes what the oracle answers. Exactly one field is set, beside Node.
type Downstream struct {
	// Node is the node of a graph whose module is meant; default: the modules of all nodes.
	Node string `json:"node,omitempty"`
	// Outage: every attempt is answered 503.
	Outage bool `json:"outage,omitempty"`
	// Slow: every attempt is answered as planned, this much later.
	Slow units.Duration `json:"slow,omitempty"`
	// Hang: no attempt is answered until the fault is over; connections stay open.
	Hang bool `json:"hang,omitempty"`
	// RateLimit answers 429 with Retry-After to what exceeds a rate.
	RateLimit *RateLimit `json:"rate_limit,omitempty"`
	// Errors answers shares of the attempts with errors, drawn from the seed by record and attempt; the rest is
	// answered as planned.
	Errors *Errors `json:"errors,omitempty"`
	// ErrorText makes the failures say something else: non-ascii, long (4 KiB), hostile (CR LF, NUL, quotes, markup),
	// outage (a circuit breaker is open).
	ErrorText string `json:"error_text,omitempty" jsonschema:"enum=non-ascii,enum=long,enum=hostile,enum=outage"`
}

// RateLimit lets Rate attempts pass, over all instances; the others are answered 429 with RetryAfter (whole seconds on
// the wire; default 1s).
type RateLimit struct {
	Rate       units.Rate     `json:"rate" jsonschema:"required"`
	RetryAfter units.Duration `json:"retry_after,omitempty"`
}

// Errors are shares of the attempts; their sum is at most 100%.
type Errors struct {
	Transient units.Percent `json:"transient,omitempty"`
	Permanent units.Percent `json:"permanent,omitempty"`
	Logical   units.Percent `json:"logical,omitempty"`
	Timeout   units.Percent `json:"timeout,omitempty"`
	Reset     units.Percent `json:"reset,omitempty"`
}

// Store acts on the dead-letter store that the scenario brings. Exactly one of Restart, Crash, ClockAhead, ClockBehind,
// Unhealthy, RepeatLetters is set.
type Store struct {
	// Restart: its database is stopped in order and started at once on the same data. Like Crash it needs a private
	// server: engine postgres without a url.
	Restart bool `json:"restart,omitempty"`
	// Crash: its database ends without a goodbye; after For it is started again and recovers what was committed.
	Crash bool `json:"crash,omitempty"`
	// Process is the worker whose machine has a wrong clock: "worker 0". ClockAhead and ClockBehind say by how much, in
	// real time; it is right again after For.
	Process     string         `json:"process,omitempty"`
	ClockAhead  units.Duration `json:"clock_ahead,omitempty"`
	ClockBehind units.Duration `json:"clock_behind,omitempty"`
	// Unhealthy is what the workers' health probe (store.probe) says is wrong: circuit-breaker (OPEN), cpu (80 %),
	// memory (85 %), connections (none is available), or probe (it answers 503).
	Unhealthy string `json:"unhealthy,omitempty" jsonschema:"enum=circuit-breaker,enum=cpu,enum=memory,enum=connections,enum=probe"`
	// RepeatLetters is the share of the dead letters in their topic by then that is written there once more, in another
	// order.
	RepeatLetters units.Percent `json:"repeat_letters,omitempty"`
}

// The words of Store.Unhealthy.
const (
	UnhealthyBreaker     = "circuit-breaker"
	UnhealthyCPU         = "cpu"
	UnhealthyMemory      = "memory"
	UnhealthyConnections = "connections"
	UnhealthyProbe       = "probe"
)

// Offset is how far the clock is ahead, negative behind.
func (s Store) Offset() time.Duration { return s.ClockAhead.D() - s.ClockBehind.D() }
