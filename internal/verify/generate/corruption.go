package generate

// A corruption changes a correct history so that it shows one anomaly, and says what must then be found. Each is
// minimal and applies only where no disturbance excuses the change.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// Promise is an invariant and one anomaly of it.
type Promise struct{ Invariant, Anomaly string }

// Finding is a broken promise and the record concerned. The record is None if the finding concerns a partition or the
// run.
type Finding struct {
	Promise
	Record int32
}

// Corruption is one way to damage a correct history.
type Corruption struct {
	// Name describes the change.
	Name string
	Promise
	// Also lists the promises that the same change necessarily breaks as well. About gives the reason.
	Also  []Promise
	About string
	// apply edits the history. It returns the record that the anomaly is about, and whether the corruption applied.
	apply func(*view) (int32, bool)
}

// Apply returns a damaged copy of the history and the findings that it must produce, or nil if the corruption does not
// apply.
func (c *Corruption) Apply(h *History, choices Choices) (*History, []Finding) {
	damaged := h.Clone()
	v := look(damaged, choices)
	record, applied := c.apply(v)
	if !applied {
		return nil, nil
	}
	damaged.sort()
	if slices.ContainsFunc(append(slices.Clone(c.Also), c.Promise), Promise.ofProcess) {
		damaged.Header.Contract().ProcessUnseen = false
	}
	found := append([]Finding{{c.Promise, record}}, v.also...)
	for _, also := range c.Also {
		found = append(found, Finding{also, record})
	}
	return damaged, found
}

// ofProcess reports whether only the log or the end of a process shows that the promise is broken.
func (p Promise) ofProcess() bool {
	return p.Invariant == "stays-up" || p.Invariant == "graceful-stop" || p.Anomaly == "failure-not-surfaced"
}

// Corruptions lists all corruptions, grouped by invariant.
func Corruptions() []Corruption {
	return slices.Concat(commitCorruptions(), lossCorruptions(), attemptCorruptions(), backoffCorruptions(),
		deadLetterCorruptions(),
		outageCorruptions(), replayCorruptions(), refusedCorruptions(), groupCorruptions(), lifeCorruptions())
}

// about converts a record, nil for none, into the results of apply.
func about(f *facts) (int32, bool) {
	if f == nil {
		return none, false
	}
	return f.number, true
}

// remove removes events and invalidates all known indexes.
func (v *view) remove(gone ...int) {
	slices.Sort(gone)
	for _, i := range slices.Backward(slices.Compact(gone)) {
		v.Events = slices.Delete(v.Events, i, i+1)
	}
}

// add inserts events, whose times the caller has set.
func (v *view) add(events ...history.Event) { v.Events = append(v.Events, events...) }

// again returns a copy of the event at another time.
func (v *view) again(i int, at time.Duration) history.Event {
	e := v.Events[i]
	e.Time = at
	return e
}

// freshOp returns an unused operation number.
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

// dilate shifts all events from a moment on to later times.
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
