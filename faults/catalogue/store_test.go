package catalogue

import (
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/faults/subject"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func TestProcessesOfTheStoreCanBeHit(t *testing.T) {
	setting := faults.Setting{Steady: time.Minute, Instances: 1, MaxInstances: 1, Brokers: 1, Stub: true,
		StoreProcesses: map[string]int{"router": 1, "worker": 2}, StoreLink: true}
	spec := Spec{At: units.Duration(time.Second), When: "store-locked",
		Subject: &subject.Subject{Process: "worker 1", Signal: "KILL"}}
	if defects := spec.Validate(setting); len(defects) > 0 {
		t.Errorf("a good fault: %+v", defects)
	}
	trigger, err := spec.Trigger()
	if err != nil || trigger.Event != faults.TriggerStoreLocked || trigger.Instance != int(history.Worker(1)) {
		t.Errorf("it waits for %+v, %v", trigger, err)
	}
	if traits := spec.Traits(); traits.What != "KILL to worker 1" || traits.Target != "worker 1" ||
		traits.Name != "kill-worker-1" {
		t.Errorf("it is described as %+v", traits)
	}
	link := Spec{At: 1, For: 1, Network: &network.Network{Link: network.LinkStore, Down: true, Toxicity: 1}}
	if defects := link.Validate(setting); len(defects) > 0 {
		t.Errorf("the link: %+v", defects)
	}
	none := setting
	none.StoreProcesses, none.StoreLink = nil, false
	for name, one := range map[string]struct {
		spec    Spec
		setting faults.Setting
		want    string
	}{
		"no such worker": {Spec{At: 1, Subject: &subject.Subject{Process: "worker 2", Signal: "KILL"}}, setting,
			"there is no worker 2: the store has 2 workers"},
		"no such kind": {Spec{At: 1, Subject: &subject.Subject{Process: "waiter 2", Signal: "KILL"}}, setting,
			"write worker N or router N"},
		"no store": {Spec{At: 1, Subject: &subject.Subject{Process: "worker 0", Signal: "KILL"}}, none,
			"has no dead-letter store"},
		"no event": {Spec{At: 1, When: "store-locked", Subject: &subject.Subject{Process: "worker 0", Signal: "KILL"}}, none,
			"this event never comes"},
		"no link": {link, none, `there is no link "store"`},
		"two at once": {Spec{At: 1, Subject: &subject.Subject{Process: "worker 0", All: true, Signal: "KILL"}}, setting,
			"process"},
	} {
		var said []string
		for _, defect := range one.spec.Validate(one.setting) {
			said = append(said, defect.Message)
		}
		if !strings.Contains(strings.Join(said, "; "), one.want) {
			t.Errorf("%s: %q does not say %q", name, said, one.want)
		}
	}
}

func TestWhatIsWrongWithFaultsOfTheStore(t *testing.T) {
	setting := faults.Setting{Steady: time.Minute, Instances: 1, Brokers: 1, Stub: true,
		StoreProcesses: map[string]int{"router": 1, "worker": 2}}
	fixed := setting
	fixed.StoreFixed = "the database is a file"
	for name, one := range map[string]struct {
		text    string
		setting faults.Setting
		want    string // "": nothing is wrong
	}{
		"restart": {"{at: 1s, store: {restart: true}}", setting, ""},
		"crash":   {"{at: 1s, for: 1s, store: {crash: true}}", setting, ""},
		"clock": {"{at: 1s, for: 1s, when: store-locked, store: {process: worker 1, clock_behind: 1m}}",
			setting, ""},
		"letters":          {"{at: 1s, store: {repeat_letters: 10%}}", setting, ""},
		"a file restarted": {"{at: 1s, store: {restart: true}}", fixed, "the database is a file"},
		"a file crashed":   {"{at: 1s, for: 1s, store: {crash: true}}", fixed, "the database is a file"},
		"a clock, a file":  {"{at: 1s, for: 1s, store: {process: worker 1, clock_ahead: 1m}}", fixed, ""},
		"no probe":         {"{at: 1s, for: 1s, store: {unhealthy: cpu}}", setting, "the workers ask no health probe"},
		"no store":         {"{at: 1s, store: {restart: true}}", faults.Setting{}, "no dead-letter store of its own"},
		"nothing":          {"{at: 1s, store: {}}", setting, "this fault does nothing"},
		"two": {"{at: 1s, for: 1s, store: {crash: true, process: worker 0, clock_ahead: 1s}}", setting,
			"exclude each other"},
		"both ways": {"{at: 1s, for: 1s, store: {process: worker 0, clock_ahead: 1s, clock_behind: 2s}}", setting,
			"exclude each other"},
		"whose clock": {"{at: 1s, for: 1s, store: {clock_ahead: 1s}}", setting, "say whose clock is wrong"},
		"a router's": {"{at: 1s, for: 1s, store: {process: router 0, clock_ahead: 1s}}", setting,
			"a router does not use a clock"},
		"no such worker": {"{at: 1s, for: 1s, store: {process: worker 2, clock_ahead: 1s}}", setting,
			"there is no worker 2"},
		"nobody's":         {"{at: 1s, store: {process: worker 0, restart: true}}", setting, "leave it out"},
		"for ever":         {"{at: 1s, store: {crash: true}}", setting, "needs a duration"},
		"too long":         {"{at: 1s, for: 1s, store: {restart: true}}", setting, "is an instant"},
		"writing for long": {"{at: 1s, for: 1s, store: {repeat_letters: 1%}}", setting, "is an instant"},
	} {
		spec := parse(t, one.text)
		var said []string
		for _, defect := range spec.Validate(one.setting) {
			said = append(said, defect.Message)
		}
		if got := strings.Join(said, "; "); (one.want == "") != (got == "") || !strings.Contains(got, one.want) {
			t.Errorf("%s: %q does not say %q", name, got, one.want)
		}
	}
	trigger, err := parse(t, "{at: 1s, for: 1s, when: store-locked, store: {process: worker 1, clock_behind: 1m}}").
		Trigger()
	if err != nil || trigger.Instance != int(history.Worker(1)) {
		t.Errorf("it waits for %+v, %v", trigger, err)
	}
}
