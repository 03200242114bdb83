package assertions

// State: writes to an output topic, where they are the attempts.

import "github.com/dlqbench/dlqbench/history"

// outputs knows which instances write several results side by side. A client that is refused one may fail others of the
// same partition with it, in its own memory: franz-go fails all that it has buffered, to keep the sequence numbers of
// an idempotent producer right. Such a failed attempt is never written, and one whose answer is on its way may have
// failed before it arrives.
type outputs struct {
	open    map[int64]outputOf // by operation
	count   map[outputOf]int
	crowded map[int16]bool
}

// outputOf is a partition of an output topic that an instance writes to.
type outputOf struct {
	instance, topic int16
	partition       int32
}

// crowdedExcuse is the reason that answersHidden gives for results that are written side by side.
const crowdedExcuse = "results written side by side, which clients may fail together"

func newOutputs() *outputs {
	return &outputs{open: map[int64]outputOf{}, count: map[outputOf]int{}, crowded: map[int16]bool{}}
}

// crowded reports whether the instance writes several results side by side.
func (w *state) crowded(instance int16) bool { return w.outputs != nil && w.outputs.crowded[instance] }

// observe notes a write to an output topic or its answer. A write that is never answered stays open.
func (o *outputs) observe(e *history.Event) {
	switch {
	case e.Instance < 0:
	case e.Kind == history.KindProduceRequest:
		at := outputOf{e.Instance, e.Topic, e.Partition}
		if o.count[at]++; o.count[at] > 1 {
			o.crowded[e.Instance] = true
		}
		o.open[e.Op] = at
	default:
		if at, known := o.open[e.Op]; known {
			o.count[at]--
			delete(o.open, e.Op)
		}
	}
}
