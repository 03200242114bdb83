package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// service keeps the change that a fault made.
type service struct {
	rule  func(byID, registers bool) int
	slow  time.Duration
	seen  func()
	ended int
}

func (s *service) end() { s.ended++ }

func (s *service) Answer(rule func(byID, registers bool) int) func() {
	s.rule = rule
	return s.end
}

func (s *service) Slow(by time.Duration, seen func()) func() {
	s.slow, s.seen = by, seen
	return s.end
}

type events []history.Event

func (e *events) Record(event history.Event) { *e = append(*e, event) }

// TestWhatFaultsAnswer asks twice for a schema by its id, registers one, and asks for something else.
func TestWhatFaultsAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		spec    Registry
		want    string
		effects string
	}{
		"error":        {Registry{Error: 503}, "[503 503 503 503]", "requests answered with an error 1 3"},
		"unknown id":   {Registry{UnknownID: true}, "[404 404 0 0]", "schemas not found 1 1"},
		"incompatible": {Registry{Incompatible: true}, "[0 0 409 0]", "registrations refused 1"},
	} {
		to, sink := &service{}, &events{}
		active := faults.NewActive(faults.Planned{Index: 3, Fault: &c.spec}, sink, history.NewClock())
		heal, err := (&Injector{Service: to}).Inject(t.Context(), active)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint([]int{to.rule(true, false), to.rule(true, false), to.rule(false, true), to.rule(false, false)})
		if err := heal(t.Context()); err != nil || to.ended != 1 || got != c.want {
			t.Errorf("%s: answered %s, want %s; ended %d times, %v", name, got, c.want, to.ended, err)
		}
		if got := told(*sink); got != c.effects {
			t.Errorf("%s: reported %q, want %q", name, got, c.effects)
		}
	}
}

// told are the effects as text: the name of the first, and the counts.
func told(of events) string {
	text := ""
	for i, one := range of {
		if i == 0 {
			text = one.Text
		}
		text += fmt.Sprint(" ", one.N)
	}
	return text
}

func TestSlow(t *testing.T) {
	to, sink := &service{}, &events{}
	active := faults.NewActive(faults.Planned{Fault: &Registry{Slow: units.Duration(time.Second)}}, sink,
		history.NewClock())
	heal, err := (&Injector{Service: to}).Inject(t.Context(), active)
	if err != nil || to.slow != time.Second {
		t.Fatalf("slow by %s, %v", to.slow, err)
	}
	to.seen()
	if err := heal(t.Context()); err != nil || told(*sink) != "answers delayed 1" || to.ended != 1 {
		t.Errorf("%v, reported %q", err, told(*sink))
	}
}

// A fault without an effect reports none, and without a registry there is nothing to break.
func TestNothingToBreak(t *testing.T) {
	sink := &events{}
	active := faults.NewActive(faults.Planned{Fault: &Registry{Error: 500}}, sink, history.NewClock())
	if _, err := (&Injector{}).Inject(t.Context(), active); err == nil {
		t.Error("a registry was broken that is not there")
	}
	heal, err := (&Injector{Service: &service{}}).Inject(t.Context(), active)
	if err != nil || heal(t.Context()) != nil || len(*sink) > 0 {
		t.Errorf("%v, reported %q", err, told(*sink))
	}
}

func TestValidate(t *testing.T) {
	asked := faults.Setting{Registry: true}
	skips := asked
	skips.SkipsUnread = true
	for _, c := range []struct {
		spec    Registry
		setting faults.Setting
		path    string
		defects int
	}{
		{Registry{Error: 503}, asked, "", 0}, {Registry{Error: 503}, faults.Setting{}, "", 1},
		{Registry{}, asked, "", 1}, {Registry{Error: 503, UnknownID: true}, asked, "/unknown_id", 1},
		{Registry{UnknownID: true}, asked, "", 0}, {Registry{UnknownID: true}, skips, "/unknown_id", 1},
		{Registry{Incompatible: true}, skips, "", 0},
	} {
		defects := c.spec.Validate(c.setting)
		if len(defects) != c.defects || len(defects) > 0 && defects[0].Path != c.path {
			t.Errorf("%+v: %+v", c.spec, defects)
		}
	}
}

// Only a registry that denies schemas makes good records look bad.
func TestTraits(t *testing.T) {
	for _, c := range []struct {
		spec  Registry
		name  string
		hides bool
	}{
		{Registry{Error: 500}, "registry-error", false}, {Registry{Slow: 1}, "registry-slow", false},
		{Registry{UnknownID: true}, "registry-unknown-id", true}, {Registry{Incompatible: true}, "registry-incompatible",
			false},
		{Registry{}, "", false},
	} {
		if traits := c.spec.Traits(); traits.Name != c.name || traits.HidesSchemas != c.hides {
			t.Errorf("%+v: %+v", c.spec, traits)
		}
	}
}
