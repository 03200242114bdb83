package scenarios

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/faults/catalogue"
)

func TestShippedScenariosAreSound(t *testing.T) {
	names := Names()
	if len(names) < 14 {
		t.Fatalf("shipped are only %v", names)
	}
	for _, name := range names {
		_, data, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		scenario, err := Parse(name, data)
		if err != nil {
			t.Errorf("%s:\n%v", name, err)
			continue
		}
		if scenario.Name != name {
			t.Errorf("%s calls itself %s", name, scenario.Name)
		}
		if !strings.HasPrefix(string(data), "# yaml-language-server: $schema=") {
			t.Errorf("%s does not name its schema in the first line", name)
		}
		if !strings.Contains(scenario.Description, "Proves that ") {
			t.Errorf("%s does not say what it proves", name)
		}
		longest := 8 * time.Second
		if name == "dlq-long-outage" || name == "dlq-refused-for-good" || name == "registry-outage" {
			longest = 45 * time.Second // clients wait for up to thirty seconds by themselves, and the outage must outlast that
		}
		if !scenario.RunsOnEmbedded() {
			longest = 24 * time.Second // a real controller takes seconds to see that a broker is gone, and a broker to come back
		}
		if length := scenario.Workload.Duration.D(); length < 4*time.Second || length > longest {
			t.Errorf("%s has a steady phase of %s", name, length)
		}
	}
}

// fromLibrary returns the shipped scenario of this name.
func fromLibrary(t *testing.T, name string) *Scenario {
	t.Helper()
	_, data, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	scenario, err := Parse(name, data)
	if err != nil {
		t.Fatal(err)
	}
	return scenario
}

// Clients repeat a write by themselves after an error that may pass, so the code that handles a refusal is reached only
// after one that is final.
func TestRefusedWritesReachTheConsumer(t *testing.T) {
	for name, topic := range map[string]string{
		"dlq-publish-failure": "dlq", "stop-while-dlq-refuses": "dlq", "retry-topics": "retry",
	} {
		if !slices.ContainsFunc(fromLibrary(t, name).Faults, func(one catalogue.Spec) bool {
			refusal := one.Kafka
			return refusal != nil && refusal.API == "Produce" && refusal.Topic == topic &&
				slices.Contains([]string{"TOPIC_AUTHORIZATION_FAILED", "MESSAGE_TOO_LARGE"}, refusal.Error)
		}) {
			t.Errorf("%s refuses no write to %s for good", name, topic)
		}
	}
}

// A consumer may make a connection for each call, as curl's users in PHP do. A limit that a call does not reach breaks
// none of them, and the run is inconclusive.
func TestLimitsOfConnectionsBreakSingleCalls(t *testing.T) {
	const call = 300 // bytes of a small request, with its headers
	found := 0
	for _, name := range Names() {
		for _, fault := range fromLibrary(t, name).Faults {
			if n := fault.Network; n != nil && n.Link == "downstream" && n.LimitData > 0 {
				found++
				if n.LimitData.Bytes() > call {
					t.Errorf("%s lets %s pass on each connection to the downstream", name, n.LimitData)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no shipped scenario breaks connections to the downstream in the middle of a call")
	}
}
