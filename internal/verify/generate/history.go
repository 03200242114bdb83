package generate

import (
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// History is a whole run in memory.
type History struct {
	Header history.Header
	// Events are in the order of recording, which is also the order of time.
	Events []history.Event
	// Calm reports whether nothing disturbed the run, so that nothing excuses an anomaly.
	Calm bool
}

// Source returns the history as the checkers read it.
func (h *History) Source() *history.Reader { return history.FromEvents(h.Header, h.Events) }

// claimOf returns the event's claim to be changed: no other event has it. That of an event without one is lost.
func claimOf(e *history.Event) *history.Claim {
	claim := e.Stated()
	if e.Claim != nil {
		e.Claim = &claim
	}
	return &claim
}

// Clone returns a copy that shares no data that edits change.
func (h *History) Clone() *History {
	header := h.Header
	header.Consumers = slices.Clone(header.Consumers)
	return &History{Header: header, Events: slices.Clone(h.Events), Calm: h.Calm}
}

// role returns the role of a topic, or "" if it is not one of the run's.
func (h *History) role(topic int16) history.Role {
	if topic < 0 || int(topic) >= len(h.Header.Topics) {
		return ""
	}
	return h.Header.Topics[topic].Role
}

// sort restores the order of time after an edit. Events of equal times keep their order.
func (h *History) sort() {
	slices.SortStableFunc(h.Events, func(a, b history.Event) int {
		switch {
		case a.Time < b.Time:
			return -1
		case a.Time > b.Time:
			return 1
		}
		return 0
	})
}
