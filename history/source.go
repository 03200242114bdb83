package history

import (
	"math"
	"slices"
)

// Source is the input of checkers and measurements: a header and its events. Reader is its one implementation, over
// files or memory.
type Source interface {
	Header() Header
	// Each calls the function for every event, sorted by time. Events with the same time come in the order in which
	// they were recorded. The event is valid until the function returns. If the function returns an error, Each stops
	// and returns that error unchanged.
	Each(func(*Event) error) error
}

// FromEvents returns a reader over events in memory: a whole, sealed history. The events are copied and sorted stably
// by time.
func FromEvents(header Header, events []Event) *Reader {
	sorted := slices.Clone(events)
	slices.SortStableFunc(sorted, func(a, b Event) int { return compareTimes(a.Time, b.Time) })
	return &Reader{header: header, sealed: true, hole: math.MaxInt, memory: sorted}
}
