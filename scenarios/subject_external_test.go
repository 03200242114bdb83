package scenarios

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestExternalDefaults(t *testing.T) {
	subject := loadSubject(t, "external")
	if e := subject.External; e == nil || e.Instances != 1 || e.KafkaPort(2) != 19112 || e.DownstreamPort(2) != 18082 {
		t.Errorf("the addresses are %+v", e)
	}
	if subject.Ready.Timeout.D() != 5*time.Minute {
		t.Errorf("a person has %v to start it", subject.Ready.Timeout)
	}
	values := subject.StableNames(Values{RunID: "20260101-1", GroupID: "20260101-1"})
	if values.GroupID != "orders" || values.InputTopic != "orders.input" || values.DLQTopic != "orders.input.dlq" {
		t.Errorf("the names are %+v", values)
	}
	if other := loadSubject(t, "least").StableNames(Values{GroupID: "g"}); !reflect.DeepEqual(other,
		Values{GroupID: "g"}) {
		t.Errorf("another subject has the names %+v", other)
	}
	contract, err := subject.HistoryContract()
	if text, described := subject.Describe(); err != nil || described != nil || !contract.ProcessUnseen ||
		!strings.Contains(text.Promises[0], "127.0.0.1:19092") {
		t.Errorf("the contract is %+v, %v", contract, err)
	}
}

// A scenario whose faults the user has no command for is refused before anything starts. One with more instances runs
// with as many as there are.
func TestExternalFaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "subject.yaml")
	for _, one := range []struct {
		external, fault, says string
		instances             int
	}{
		{"{}", "", "", 1},
		{"{instances: 4}", "", "", 2},
		{"{instances: 2}", "{instance: 0, signal: KILL}", "external.signals.kill and external.signals.start", 0},
		{"{instances: 2, signals: {kill: [k]}}", "{instance: 0, signal: KILL}", "write external.signals.start in", 0},
		{"{instances: 2, signals: {kill: [k], start: [s]}}", "{instance: 0, signal: KILL}", "", 2},
		{"{signals: {stop: [k]}}", "{instance: 0, signal: STOP}", "write external.signals.cont in", 0},
		{"{signals: {start: [s]}}", "{all: true, restart: true}", "write external.signals.term in", 0},
		{"{signals: {kill: [k], start: [s]}}", "{instance: 1, signal: KILL}", "", 1},
		{"{signals: {kill: [k], start: [s]}}", "{instance: 2, signal: KILL}", "there is no instance 2", 0},
		{"{instances: 2, signals: {term: [k], start: [s]}}", "{scale_up: 1}", "external.instances is 2", 0},
		{"{instances: 3, signals: {term: [k], start: [s]}}", "{scale_up: 1}", "", 2},
	} {
		subject := "name: orders\nkind: external\nexternal: " + one.external + "\n"
		if err := os.WriteFile(file, []byte(subject), 0o600); err != nil {
			t.Fatal(err)
		}
		text := "name: x\ndescription: x.\nsubject: {reference: {instances: 2}}\nworkload: {rate: 10/s, duration: 5s}\n"
		if one.fault != "" {
			text += "faults: [{at: 1s, for: 1s, subject: " + one.fault + "}]\n"
			if strings.Contains(one.fault, "restart") {
				text = strings.Replace(text, "for: 1s, ", "", 1)
			}
		}
		scenario, _, err := ParseForSubject("x.yaml", []byte(text), nil, file)
		switch {
		case one.says == "" && (err != nil || scenario.InstanceCount() != one.instances):
			t.Errorf("%s with %s: %v", one.external, one.fault, err)
		case one.says != "" && (err == nil || !strings.Contains(err.Error(), one.says)):
			t.Errorf("%s with %s: want %q, have %v", one.external, one.fault, one.says, err)
		}
	}
}
