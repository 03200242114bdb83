package generate

// Corruptions: what is done to a correct history so that it shows one anomaly, and what must then be found. Each is
// minimal, and applies only where no disruption excuses what it does.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// Promise is an invariant and one way in which it is broken.
type Promise struct{ Invariant, Anomaly string }

// Finding is a broken promise and the record that it is about; None where it is about a partition or the run.
type Finding struct {
	Promise
	Record int32
}

// Corruption is one way to damage a correct history.
type Corruption struct {
	// Name says what is done.
	Name string
	Promise
	// Also are the promises that the same fact necessarily breaks as well; About says why.
	Also  []Promise
	About string
	// apply edits the history; it returns the record that the anomaly is about and whether there was a place for it.
	apply func(*view) (int32, bool)
}

// Apply returns a damaged copy of the history and what must be found in it; nil where there is no place for the
// corruption.
func (c *Corruption) Apply(h *History, choices Choices) (*History, []Finding) {
	damaged := h.Clone()
	record, applied := c.apply(look(damaged, choices))
	if !applied {
		return nil, nil
	}
	damaged.sort()
	found := []Finding{{c.Promise, record}}
	for _, also := range c.Also {
		found = append(found, Finding{also, record})
	}
	return damaged, found
}

// Corruptions lists them, those of one invariant together.
func Corruptions() []Corruption {
	return slices.Concat(commitCorruptions(), lossCorruptions(), attemptCorruptions(), backoffCorruptions(),
		letterCorruptions(),
		outageCorruptions(), replayCorruptions(), refusedCorruptions(), groupCorruptions(), lifeCorruptions())
}

// about turns a record, nil for no place, into what apply returns.
func about(f *facts) (int32, bool) {
	if f == nil {
		return none, false
	}
	return f.number, true
}

// remove takes events out, and invalidates all that is known of places.
func (v *view) remove(gone ...int) {
	slices.Sort(gone)
	for _, i := range slices.Backward(slices.Compact(gone)) {
		v.Events = slices.Delete(v.Events, i, i+1)
	}
}

// add puts events in; the caller has given them their times.
func (v *view) add(events ...history.Event) { v.Events = append(v.Events, events...) }

// again returns a copy of the event at another time.
func (v *view) again(i int, at time.Duration) history.Event {
	e := v.Events[i]
	e.Time = at
	return e
}

// freshOp returns an operation number that is not in use.
func (v *view) freshOp() int64 {
	op := int64(0)
	for i := range v.Events {
		op = max(op, v.Events[i].Op)
	}
	return op + 1
}

// phase returns when the run entered a phase.
func (v *view) phase(name string) time.Duration {
	for i := range v.Events {
		if v.Events[i].Kind == history.KindPhase && v.Events[i].Text == name {
			return v.Events[i].Time
		}
	}
	return 0
}

// dilate lets the time from a moment on begin later.
func (v *view) dilate(from, by time.Duration) {
	for i := range v.Events {
		if v.Events[i].Time >= from {
			v.Events[i].Time += by
		}
	}
}

// offsets returns the audit's event about a partition.
func (v *view) offsets(at spot) *history.Event {
	for i := range v.Events {
		e := &v.Events[i]
		if e.Kind == history.KindAuditOffsets && e.Topic == at.topic && e.Partition == at.partition {
			return e
		}
	}
	return nil
}
