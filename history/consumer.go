package history

import "slices"

// Consumer is one consumer of a run: a group with instances and a contract of its own. A run has one, or several that
// share a dead-letter topic, or one for each node of a graph. Topics are indices in Header.Topics.
type Consumer struct {
	// Name tells it from the others; "" if it is the only one.
	Name  string `json:"name,omitempty"`
	Group string `json:"group"`
	// First is the number of its first instance, Instances how many it has.
	First     int `json:"first_instance"`
	Instances int `json:"instances"`
	// Input is the topic that it consumes, DLQ that of its dead letters.
	Input int16 `json:"input"`
	DLQ   int16 `json:"dlq,omitempty"`
	// ReplayTo is the name of the topic that its dead letters come back through; "": the source topic of each.
	ReplayTo string   `json:"replay_to,omitempty"`
	Contract Contract `json:"contract"`
	// Quarantine is the topic of what was replayed too often, Edges are where documents go on (none: they leave the
	// graph); both only in a graph.
	Quarantine int16  `json:"quarantine,omitempty"`
	Edges      []Edge `json:"edges,omitempty"`
}

// Contract returns the contract of the first (or only) consumer. The header must have at least one consumer.
func (h *Header) Contract() *Contract { return &h.Consumers[0].Contract }

// Group returns the consumer group of the first (or only) consumer. The header must have at least one consumer.
func (h *Header) Group() string { return h.Consumers[0].Group }

// Shared reports whether several consumers share the dead-letter topic. The workload then sends to each of them, and
// the replay returns each consumer's dead letters to that consumer.
func (h *Header) Shared() bool { return h.Graph == nil && len(h.Consumers) > 1 }

// ConsumerOf returns the index of the consumer that the instance belongs to, or None.
func (h *Header) ConsumerOf(instance int16) int {
	return slices.IndexFunc(h.Consumers, func(c Consumer) bool {
		return int(instance) >= c.First && int(instance) < c.First+c.Instances
	})
}

// ReaderOf returns the index of the consumer that reads the topic as its input or receives replayed dead letters
// through it, or None.
func (h *Header) ReaderOf(topic int16) int {
	if topic < 0 || int(topic) >= len(h.Topics) {
		return None
	}
	return slices.IndexFunc(h.Consumers, func(c Consumer) bool {
		return c.Input == topic || c.ReplayTo != "" && c.ReplayTo == h.Topics[topic].Name
	})
}
