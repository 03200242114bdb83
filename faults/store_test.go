package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func TestProcessesOfTheStoreCanBeHit(t *testing.T) {
	setting := Setting{Steady: time.Minute, Instances: 1, MaxInstances: 1, Brokers: 1, Oracle: true, StoreProcesses: map[string]int{"router": 1, "worker": 2}, StoreLink: true}
	spec := Spec{At: units.Duration(time.Second), When: "store-locked", Subject: &Subject{Process: "worker 1", Signal: "KILL"}}
	if defects := spec.Validate(setting); len(defects) > 0 {
		t.Errorf("a good fault: %+v", defects)
	}
	trigger, waits, err := spec.Trigger()
	if err != nil || !waits || trigger.Event != TriggerStoreLocked || trigger.Instance != int(history.Worker(1)) {
		t.Errorf("it waits for %+v, %v, %v", trigger, waits, err)
	}
	if what, target := spec.Describe(); what != "KILL to worker 1" || target != "worker 1" || spec.DefaultName() != "kill-worker-1" {
		t.Errorf("it is called %q of %q, %q", what, target, spec.DefaultName())
	}
	link := Spec{At: 1, For: 1, Network: &Network{Link: LinkStore, Down: true, Toxicity: 1}}
	if defects := link.Validate(setting); len(defects) > 0 {
		t.Errorf("the link: %+v", defects)
	}
	none := setting
	none.StoreProcesses, none.StoreLink = nil, false
	for name, one := range map[string]struct {
		spec    Spec
		setting Setting
		want    string
	}{
		"no such worker": {Spec{At: 1, Subject: &Subject{Process: "worker 2", Signal: "KILL"}}, setting, "there is no worker 2: the store has 2 workers"},
		"no such kind":   {Spec{At: 1, Subject: &Subject{Process: "waiter 2", Signal: "KILL"}}, setting, "write worker N or router N"},
		"no store":       {Spec{At: 1, Subject: &Subject{Process: "worker 0", Signal: "KILL"}}, none, "has no dead-letter store"},
		"no event":       {Spec{At: 1, When: "store-locked", Subject: &Subject{Process: "worker 0", Signal: "KILL"}}, none, "this event never comes"},
		"no link":        {link, none, `there is no link "store"`},
		"two at once":    {Spec{At: 1, Subject: &Subject{Process: "worker 0", All: true, Signal: "KILL"}}, setting, "process"},
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
