package reports

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// The snapshot for a person on call reveals no faults: neither their names nor that there are any.
func TestWithoutFaults(t *testing.T) {
	whole := Snapshot{
		Phase: history.PhaseFault, FaultsInjected: 2, ActiveFaults: []FaultState{{Name: "secret-fault", Kind: "network"}},
		Lag: 7, Instances: []InstanceState{
			{Name: "instance 0", Status: InstancePaused, Since: 9 * time.Second, Ready: 2 * time.Second},
			{Name: "instance 1", Status: InstanceKilled, Since: 8 * time.Second},
			{Name: "instance 2", Status: InstanceRunning, Since: 3 * time.Second},
		},
		Events: []LiveEvent{
			{Sequence: 1, Kind: EventPhase, Text: history.PhaseSteady},
			{Sequence: 2, Kind: EventPhase, Text: history.PhaseFault}, {Sequence: 3, Kind: EventFault, Text: "secret-fault"},
			{Sequence: 4, Kind: EventFault, Text: "instance 1 was sent KILL"},
			{Sequence: 5, Kind: EventInstance, Text: "instance 1 ended"},
			{Sequence: 6, Kind: EventPhase, Text: history.PhaseHeal},
		},
	}
	before := must.Get(json.Marshal(whole))(t)
	seen := whole.WithoutFaults()
	text := must.Get(json.Marshal(seen))(t)
	for _, secret := range []string{"secret", "KILL", `"paused"`, `"killed"`, `"fault"`, `"heal"`} {
		if strings.Contains(string(text), secret) {
			t.Errorf("it tells %q: %s", secret, text)
		}
	}
	if seen.Phase != history.PhaseSteady || seen.FaultsInjected != 0 || len(seen.Events) != 2 || seen.Lag != 7 {
		t.Errorf("it is %+v", seen)
	}
	if one := seen.Instances[0]; one.Status != InstanceRunning || one.Since != 2*time.Second {
		t.Errorf("a paused instance is %s since %v", one.Status, one.Since)
	}
	if seen.Instances[1].Status.Up() || seen.Instances[2] != whole.Instances[2] {
		t.Errorf("the instances are %+v", seen.Instances)
	}
	if after, _ := json.Marshal(whole); string(after) != string(before) {
		t.Error("the snapshot itself was changed, and others have it, too")
	}
}

func TestEventsAfter(t *testing.T) {
	s := Snapshot{Events: []LiveEvent{{Sequence: 5}, {Sequence: 6}, {Sequence: 7}}}
	for after, want := range map[int64]int{0: 3, 4: 3, 5: 2, 7: 0, 100: 0} {
		if got := len(s.EventsAfter(after)); got != want {
			t.Errorf("after %d there are %d", after, got)
		}
	}
}

// Seeds exceed the range of exact integers in JavaScript.
func TestSnapshotSeed(t *testing.T) {
	text, err := json.Marshal(Snapshot{Seed: 1<<63 + 1})
	if err != nil || !strings.Contains(string(text), `"seed":"9223372036854775809"`) {
		t.Errorf("%s, %v", text, err)
	}
}
