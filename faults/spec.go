package faults

import (
	"encoding/json"

	"github.com/dlqbench/dlqbench/internal/units"
)

// Spec is one fault as a scenario writes it: when, for how long, and exactly one of the kinds.
type Spec struct {
	// Name identifies the fault in reports; default: its kind and position.
	Name string `json:"name,omitempty"`
	// At is the offset from the start of the steady phase.
	At units.Duration `json:"at" jsonschema:"required"`
	// For is how long it stays; 0 only for faults that are an instant (a signal, a broker restart).
	For units.Duration `json:"for,omitempty"`

	Network    *Network    `json:"network,omitempty"`
	Kafka      *Kafka      `json:"kafka,omitempty"`
	Broker     *Broker     `json:"broker,omitempty"`
	Subject    *Subject    `json:"subject,omitempty"`
	Downstream *Downstream `json:"downstream,omitempty"`
}

// Network breaks a TCP link through toxiproxy. Exactly one of Latency, Bandwidth, Timeout, Down, Reset is set
// (Jitter goes with Latency).
type Network struct {
	// Link is "broker N" (N from 1), "brokers" (all of them), "dlq" (the broker that holds the DLQ topic; needs topics.dlq.broker)
	// or "downstream" (the oracle).
	Link string `json:"link" jsonschema:"required"`
	// Latency delays every chunk, both ways; Jitter adds up to that much, at random.
	Latency units.Duration `json:"latency,omitempty"`
	Jitter  units.Duration `json:"jitter,omitempty"`
	// Bandwidth limits the link, in bytes per second ("64KiB" = 64 KiB/s).
	Bandwidth units.Size `json:"bandwidth,omitempty"`
	// Timeout: data is swallowed, connections stay open and silent.
	Timeout bool `json:"timeout,omitempty"`
	// Down: existing connections are closed, new ones refused.
	Down bool `json:"down,omitempty"`
	// Reset: existing connections are reset (a true RST), new ones are reset when they send.
	Reset bool `json:"reset,omitempty"`
}

// Kafka acts on requests that the tap sees. Exactly one of Error, Delay, DropResponse is set.
type Kafka struct {
	// API is Kafka's name of the request: Produce, OffsetCommit.
	API string `json:"api" jsonschema:"required,enum=Produce,enum=OffsetCommit"`
	// Topic limits it to requests that touch the topic: "input", "dlq" or a topic's name.
	Topic string `json:"topic,omitempty"`
	// Instance limits it to one instance.
	Instance *int `json:"instance,omitempty" jsonschema:"minimum=0"`
	// Probability is the share of matching requests that is hit, drawn from the seed; default 100%.
	Probability units.Percent `json:"probability,omitempty"`

	// Error is Kafka's name of an error code (NOT_ENOUGH_REPLICAS) answered in the broker's place.
	Error string `json:"error,omitempty"`
	// Delay holds the broker's answer back for this long.
	Delay units.Duration `json:"delay,omitempty"`
	// DropResponse: the broker does it, the answer never reaches the client.
	DropResponse bool `json:"drop_response,omitempty"`
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

// Broker acts on a broker. Exactly one of Stop, Restart is set.
type Broker struct {
	// Broker is its number, from 1.
	Broker int `json:"broker" jsonschema:"required,minimum=1"`
	// Stop: it is stopped, and started again with its data after For.
	Stop bool `json:"stop,omitempty"`
	// Restart: it is stopped and started at once.
	Restart bool `json:"restart,omitempty"`
}

// Subject acts on the consumer's processes. Exactly one of Signal, Restart is set.
type Subject struct {
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
}

// Downstream changes what the oracle answers. Exactly one field is set.
type Downstream struct {
	// Outage: every attempt is answered 503.
	Outage bool `json:"outage,omitempty"`
}
