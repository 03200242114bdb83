package downstream

import (
	"testing"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
)

// oracle counts like the real one.
type oracle struct {
	on       bool
	answered int64
}

func (o *oracle) SetOutage(on bool)     { o.on = on }
func (o *oracle) OutageAnswered() int64 { return o.answered }

// attempt makes one attempt and reports whether it was answered 503.
func (o *oracle) attempt() bool {
	if o.on {
		o.answered++
	}
	return o.on
}

type events []history.Event

func (e *events) Record(event history.Event) { *e = append(*e, event) }

func outage(index int, sink history.Sink) faults.Active {
	return faults.NewActive(
		faults.Planned{Index: index, Spec: faults.Spec{Downstream: &faults.Downstream{Outage: true}}}, sink, history.NewClock())
}

func TestOutage(t *testing.T) {
	o, sink := &oracle{answered: 5}, &events{}
	injector := NewInjector(o)
	heal, err := injector.Inject(t.Context(), outage(3, sink))
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if !o.attempt() {
			t.Error("an attempt in the outage was answered as planned")
		}
	}
	if err := heal(t.Context()); err != nil || o.attempt() {
		t.Errorf("healed with %v, the outage is still on: %v", err, o.on)
	}
	if len(*sink) != 1 {
		t.Fatalf("effects: %+v", *sink)
	}
	effect := (*sink)[0]
	if effect.Kind != history.KindFaultEffect || effect.Op != 3 || effect.N != 4 || effect.Text != "attempts answered 503" || effect.Instance != history.None {
		t.Errorf("the effect is %+v", effect)
	}
}

func TestOverlappingOutagesEndWithTheLast(t *testing.T) {
	o, sink := &oracle{}, &events{}
	injector := NewInjector(o)
	first, err := injector.Inject(t.Context(), outage(0, sink))
	if err != nil {
		t.Fatal(err)
	}
	second, err := injector.Inject(t.Context(), outage(1, sink))
	if err != nil {
		t.Fatal(err)
	}
	if err := first(t.Context()); err != nil || !o.on {
		t.Errorf("the first to be healed ended both: %v", err)
	}
	if err := second(t.Context()); err != nil || o.on {
		t.Errorf("the outage goes on: %v", err)
	}
}

func TestOutageNeedsItsSetting(t *testing.T) {
	o := &oracle{}
	for _, spec := range []*faults.Downstream{nil, {}} {
		active := faults.NewActive(faults.Planned{Spec: faults.Spec{Downstream: spec}}, &events{}, history.NewClock())
		if _, err := NewInjector(o).Inject(t.Context(), active); err == nil || o.on {
			t.Errorf("%+v was injected", spec)
		}
	}
}
