package generate

import (
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// History is a whole run in memory.
type History struct {
	Header history.Header
	// Events are in the order in which they were recorded, which is also that of their times.
	Events []history.Event
	// Calm: nothing disturbed the run, so nothing excuses anything.
	Calm bool
}

// Source returns the history as the checkers read it.
func (h *History) Source() *history.Reader { return history.FromEvents(h.Header, h.Events) }

// Clone returns a copy that shares nothing that edits change.
func (h *History) Clone() *History {
	header := h.Header
	header.Consumers = slices.Clone(header.Consumers)
	return &History{Header: header, Events: slices.Clone(h.Events), Calm: h.Calm}
}

// role returns what a topic is for, "" for none of the run's.
func (h *History) role(topic int16) history.Role {
	if topic < 0 || int(topic) >= len(h.Header.Topics) {
		return ""
	}
	return h.Header.Topics[topic].Role
}

// sort restores the order of times after an edit; equal times keep their order.
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
