package run

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/scenarios"
)

func servicesOptions(t *testing.T) Options {
	t.Helper()
	options := small(t)
	path := filepath.Join("testdata", "services.yaml")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if options.Scenario, options.Source, err = scenarios.ParseForSubject(path, data, nil, ""); err != nil {
		t.Fatal(err)
	}
	return options
}

// Two services run side by side on one dead-letter topic. Each is judged separately, and judging the stored run
// again gives the same verdict.
func TestServicesThatShareADeadLetterTopic(t *testing.T) {
	t.Parallel()
	outcome, err := Run(t.Context(), servicesOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	if outcome.Verdict.Verdict != assertions.Pass {
		t.Errorf("the verdict is %s: %v", outcome.Verdict.Verdict, outcome.Verdict.Reasons)
	}
	for _, name := range []string{
		"service-separation", "orders/no-loss", "billing/no-loss", "orders/dlq-fidelity", "billing/dlq-fidelity",
		"orders/commit-after-dlq", "billing/dlq-once", "orders/replay-round-trip", "billing/replay-round-trip",
	} {
		if one := resultOf(t, outcome, name); one.Judged == 0 {
			t.Errorf("%s judged nothing", name)
		}
	}
	again, err := LoadRun(outcome.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.Verdict.Invariants, outcome.Verdict.Invariants) {
		t.Errorf("judged again it is %+v", again.Verdict.Invariants)
	}
	if outcome.Judged.Header.TopicIndex("retry-"+outcome.Judged.Header.RunID+".billing") < 0 {
		t.Errorf("there is no retry topic of billing's: %v", outcome.Judged.Header.Topics)
	}
	lookIntoServices(t, outcome.Dir)
}

// lookIntoServices checks what the verdict alone cannot show: the records were distributed, dead letters of both
// services are in the one topic and name their service, and both services had dead letters replayed.
func lookIntoServices(t *testing.T, dir string) {
	t.Helper()
	reader, err := history.Open(filepath.Join(dir, dirHistory))
	if err != nil {
		t.Fatal(err)
	}
	header, seen := reader.Header(), map[string]int{}
	err = reader.Each(func(e *history.Event) error {
		switch {
		case e.Kind == history.KindSend:
			seen["sent to "+header.Consumers[header.ReaderOf(e.Topic)].Name]++
		case e.Kind == history.KindAuditRecord && header.Topics[e.Topic].Role == history.RoleDLQ:
			seen["letters of "+strings.TrimPrefix(e.Text, header.RunID+".")]++
		case e.Kind == history.KindProduceRequest && e.Instance == history.Replayer:
			seen["back to "+header.Consumers[header.ReaderOf(e.Topic)].Name]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"letters of ", "back to ", "sent to "} {
		if seen[what+"orders"] == 0 || seen[what+"billing"] == 0 {
			t.Errorf("nothing was seen of %s: %v", what, seen)
		}
	}
	if seen["sent to orders"] != seen["sent to billing"] || len(seen) != 6 {
		t.Errorf("seen were %v", seen)
	}
}

// The run derives its requirements from all services of the subject.
func TestWhatServicesHaveInCommon(t *testing.T) {
	r, err := prepare(servicesOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.recorder.Close(); err != nil {
			t.Error(err)
		}
	})
	prefix := r.dir.id + "."
	for i, group := range []string{prefix + "orders", prefix + "billing"} {
		if have := r.header.Consumers[i].Group; have != group {
			t.Errorf("group %d is %s", i, have)
		}
	}
	if r.longestGrace() != 7*time.Second {
		t.Errorf("the slowest may take %s to end", r.longestGrace())
	}
	if first, last := r.consumerOf(1), r.consumerOf(2); first.Name != "orders" || last.Name != "billing" ||
		r.header.Instances != 3 {
		t.Errorf("of %d instances 1 is one of %s and 2 of %s", r.header.Instances, first.Name, last.Name)
	}
	for i, topic := range []string{prefix + "input.orders", "retry-" + prefix + "orders", prefix + "input.billing",
		"retry-" + prefix + "billing", prefix + "input.dlq"} {
		if i >= len(r.header.Topics) || r.header.Topics[i].Name != topic {
			t.Errorf("topic %d is not %s: %v", i, topic, r.header.Topics)
		}
	}
	if own := r.header.Consumers[1].Contract; own.Service != prefix+"billing" || own.MaxAttempts != 3 ||
		own.OffsetMetadata == "" {
		t.Errorf("billing promises %+v", own)
	}
	if r.scenario.Settings(1).MaxRetries != 3 || r.scenario.Settings(0).MaxRetries != 2 {
		t.Error("an instance has the settings of another service")
	}
}

// Generations of one service's group do not affect those of another's.
func TestRebalancesAreCountedByService(t *testing.T) {
	header := history.Header{
		Records: 1, Instances: 2, Topics: []history.Topic{{Name: "a", Role: history.RoleInput, Partitions: 1},
			{Name: "b", Role: history.RoleInput, Partitions: 1}},
		Consumers: []history.Consumer{{Name: "orders", Input: 0, Instances: 1},
			{Name: "billing", Input: 1, First: 1, Instances: 1}},
	}
	l := newLive(discarded{}, &header)
	for _, generation := range []int32{1, 2, 3} {
		for instance := range int16(2) {
			event := history.New(history.KindAssigned, 0)
			event.Instance, event.Topic, event.Partition, event.N = instance, instance, 0, generation+5*int32(instance)
			l.Record(event)
		}
	}
	if l.rebalances != 4 {
		t.Errorf("%d rebalances, want two of each service", l.rebalances)
	}
}
