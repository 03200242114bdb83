// Package catalogue combines the kinds of faults. It defines what a scenario can write and how it is explained. It
// knows a kind only through its field in Spec. Everything else about a fault is in the package of its kind.
package catalogue

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/broker"
	"github.com/dlqbench/dlqbench/faults/downstream"
	"github.com/dlqbench/dlqbench/faults/kafka"
	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/faults/registry"
	"github.com/dlqbench/dlqbench/faults/store"
	"github.com/dlqbench/dlqbench/faults/subject"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// Spec is one fault as a scenario writes it: when, for how long, and exactly one of the kinds.
type Spec struct {
	// Name identifies the fault in reports; default: what breaks and how, such as produce-error or kill-instance-1.
	Name string `json:"name,omitempty"`
	// At is the offset from the start of the steady phase. With When it is from when on the event is waited for.
	At units.Duration `json:"at,omitempty"`
	// When waits for an event of the run in place of a time: "first-retry" (a record is tried for the second time),
	// "first-dead-letter" (the first dead letter was acknowledged by the broker; the subject has not read that yet),
	// "backoff" (an attempt has failed and another is due), "lag > N" (records sent and not yet covered by a commit),
	// "instance N assigned", "store-locked" (a worker of the dead-letter store has an entry), "store-republished" (the
	// broker has accepted what a worker writes back; the worker has not read that yet). An event that does not come by
	// the end of the load, when the subject has caught up with it, leaves the fault without effect.
	When string `json:"when,omitempty"`
	// After is how long after that event the fault starts; it goes with When.
	After units.Duration `json:"after,omitempty"`
	// For is how long it stays; 0 only for faults that are an instant (a signal, a restart).
	For units.Duration `json:"for,omitempty"`
	// MayMiss: a fault that was injected and did nothing is told of, and the run counts all the same. Without it such a
	// run is inconclusive: nobody can tell what it would have shown. What people break by hand may miss, so that nobody
	// has to be slow in healing it.
	MayMiss bool `json:"may_miss,omitempty"`

	// The fields from here on are the list of all kinds: whatever is a faults.Fault is one, by its key.

	Network    *network.Network       `json:"network,omitempty"`
	Kafka      *kafka.Kafka           `json:"kafka,omitempty"`
	Broker     *broker.Broker         `json:"broker,omitempty"`
	Subject    *subject.Subject       `json:"subject,omitempty"`
	Downstream *downstream.Downstream `json:"downstream,omitempty"`
	Store      *store.Store           `json:"store,omitempty"`
	Registry   *registry.Registry     `json:"registry,omitempty"`
}

// kind is a kind of fault: its key and a scenario's settings for it.
type kind struct {
	key string
	faults.Fault
	// set reports whether the scenario has settings of the kind.
	set bool
}

// kinds returns all kinds, in the order of Spec's fields.
func (s Spec) kinds() []kind {
	var all []kind
	for field, value := range reflect.ValueOf(s).Fields() {
		if fault, is := value.Interface().(faults.Fault); is {
			key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			all = append(all, kind{key, fault, !value.IsNil()})
		}
	}
	return all
}

// written returns the kinds that s sets; a valid spec has exactly one.
func (s Spec) written() []kind {
	return slices.DeleteFunc(s.kinds(), func(k kind) bool { return !k.set })
}

// Kind returns the key of the fault's kind, "" when s has none.
func (s Spec) Kind() string {
	for _, one := range s.written() {
		return one.key
	}
	return ""
}

// Fault returns the fault's settings, or nil if s has none.
func (s Spec) Fault() faults.Fault {
	for _, one := range s.written() {
		return one.Fault
	}
	return nil
}

// Traits returns the fault's traits, whatever its kind. They are zero if s has no settings.
func (s Spec) Traits() faults.Traits {
	if fault := s.Fault(); fault != nil {
		return fault.Traits()
	}
	return faults.Traits{}
}

// Length returns how long the fault lasts in a run with that many instances: For, or the duration given by its own
// settings (a restart after a delay, a round of restarts).
func (s Spec) Length(instances int) time.Duration {
	traits := s.Traits()
	return max(s.For.D(), traits.Lasts) + traits.Every*time.Duration(max(instances-1, 0))
}

// Trigger returns the event that the fault waits for, or nil if it starts at a fixed time.
func (s Spec) Trigger() (*faults.Trigger, error) {
	if s.When == "" {
		return nil, nil
	}
	trigger, err := faults.ParseTrigger(s.When)
	if err != nil {
		return nil, err
	}
	trigger = trigger.Of(s.Traits())
	return &trigger, nil
}

// HitsLetters reports whether the fault acts on the downstream letters, which takes the dead letters; "" for none.
func (s Spec) HitsLetters(letters string) bool {
	return letters != "" && s.Traits().Target == history.TargetOther+letters
}

// StopsDeadLetters reports whether no dead letter can be acknowledged to any instance while the fault is in force.
// brokers is the number of brokers, and dlqBroker (0: none) the one that holds the DLQ topic alone. letters is the
// downstream that takes the dead letters in the place of a topic, if it is not "".
func (s Spec) StopsDeadLetters(brokers, dlqBroker int, letters string) bool {
	blocked := s.Traits().Blocks
	if letters != "" {
		return blocked == faults.Here && s.HitsLetters(letters)
	}
	switch blocked {
	case 0, faults.Here:
		return false
	case faults.EveryBroker:
		return true
	case faults.DLQBroker:
		return dlqBroker > 0
	default: // it leads all of the DLQ topic's partitions, and no other broker can
		return blocked == dlqBroker || brokers == 1
	}
}

// Validate returns all defects of s in the setting. A defect is reported at the key that has to change. Validate
// cannot see whether At was written at all; a fault needs At or When.
func (s Spec) Validate(setting faults.Setting) []faults.Defect {
	var known, written []string
	for _, one := range s.kinds() {
		known = append(known, one.key)
		if one.set {
			written = append(written, one.key)
		}
	}
	if len(written) != 1 {
		last := len(known) - 1
		message := fmt.Sprintf("a fault needs exactly one kind: %s or %s", strings.Join(known[:last], ", "), known[last])
		if len(written) > 1 {
			message = fmt.Sprintf("this fault has several kinds (%s): write one fault for each", strings.Join(written, ", "))
		}
		return append(s.outside(setting), faults.Defect{Message: message})
	}
	defects := s.Fault().Validate(setting)
	for i := range defects {
		defects[i].Path = "/" + written[0] + defects[i].Path
	}
	return slices.Concat(s.trigger(setting), s.length(), s.outside(setting), defects)
}

// trigger checks the event that the fault waits for.
func (s Spec) trigger(setting faults.Setting) []faults.Defect {
	trigger, err := s.Trigger()
	switch {
	case err != nil:
		return []faults.Defect{{Path: "/when", Message: err.Error(), Got: s.When, Known: []string{
			string(faults.TriggerFirstRetry), string(faults.TriggerFirstDeadLetter), string(faults.TriggerBackoff),
			"lag > 1000", "instance 0 assigned"}}}
	case trigger != nil:
		return trigger.Check(setting)
	case s.After > 0:
		return faults.At("/after", "after counts from the event of when, and there is none: add when, such as when: "+
			"first-retry, or use at")
	}
	return nil
}

// length checks For. A fault that ends by itself must not have it. Nearly every other fault needs it.
func (s Spec) length() []faults.Defect {
	switch traits := s.Traits(); {
	case traits.EndsItself != "" && s.For > 0:
		return faults.At("/for", "%s", traits.EndsItself)
	case traits.EndsItself == "" && !traits.Lasting && s.For == 0:
		return faults.At("", "this fault needs a duration: add for, such as for: 2s")
	}
	return nil
}

// outside checks that the fault lies within the run. With When, only the time from which the trigger is considered is
// known, not the time of the fault.
func (s Spec) outside(setting faults.Setting) []faults.Defect {
	if setting.Steady == 0 {
		return nil
	}
	if s.At.D() >= setting.Steady {
		return faults.At("/at", "the fault lies outside the run: it starts at %s, the steady phase lasts %s", s.At,
			setting.Steady)
	}
	if end := s.At.D() + s.Length(setting.Instances); s.When == "" && end > setting.Steady {
		path := "/at"
		if s.For > 0 {
			path = "/for"
		}
		return faults.At(path, "the fault lasts beyond the run: it ends at %s, the steady phase lasts %s", end,
			setting.Steady)
	}
	return nil
}
