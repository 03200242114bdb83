package verify

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/scenarios"
)

func TestStrangersMeetEverything(t *testing.T) {
	strangers := must.Get(FindStrangers("../../test/strangers"))(t)
	all := must.Get(encounters(strangers, (*scenarios.Scenario).RunsOnEmbedded))(t)
	seen, met := map[encounter]bool{}, map[string]int{}
	var protocol []string
	for i, one := range all {
		key := encounter{stranger: Stranger{File: one.stranger.File}, scenario: one.scenario}
		if seen[key] {
			t.Errorf("%s meets %s twice", one.stranger.File, one.scenario)
		}
		seen[key] = true
		met[one.scenario]++
		// Some faults can't be had with some downstreams, such as a rate limit of an output topic.
		if _, _, err := one.meeting().trial().parse(); err != nil {
			t.Errorf("%s is refused for %s: %v", one.scenario, one.stranger.File, err)
		}
		if one.scenario == "kip-848" {
			protocol = append(protocol, filepath.Base(one.stranger.File))
		}
		// The other scenarios apply to nearly all of them, so that two meetings in one of them can be kept apart.
		common := one.scenario != "kip-848" && one.scenario != "registry-outage"
		if i > 0 && common && (all[i-1].scenario == one.scenario || all[i-1].stranger.File == one.stranger.File) {
			t.Errorf("numbers %d and %d share consumer or scenario: %s, %s", i-1, i, one.stranger.File, one.scenario)
		}
	}
	for _, name := range []string{"smoke", "consumer-kill", "hostile-payloads", "dlq-publish-failure",
		"static-membership"} {
		if met[name] != len(strangers) {
			t.Errorf("%s is met by %d of %d strangers", name, met[name], len(strangers))
		}
	}
	for _, name := range []string{"transactions", "share-group", "store-lifecycle", "retry-topics", "spring-envelope",
		"hexkit-dlq", "pipestream-graph", "coordinator-reload"} {
		if met[name] > 0 {
			t.Errorf("%s is met by %d strangers, none of which can show what it is about", name, met[name])
		}
	}
	slices.Sort(protocol)
	if want := []string{"consumer-protocol.yaml", "consumer-protocol.yaml", "kip-848-range.yaml",
		"kip-848.yaml"}; !slices.Equal(protocol, want) {
		t.Errorf("kip-848 is met by %v, want %v", protocol, want)
	}
	// Dead letters that do not name their source cannot be replayed, nor those that go to a downstream.
	silent := scenarios.SubjectFile{Contract: scenarios.ContractSpec{DLQ: scenarios.DLQSpec{Envelope: scenarios.EnvelopeNone}}}
	elsewhere := 0
	for _, one := range strangers {
		if one.Subject.Letters() != "" {
			elsewhere++
		}
	}
	if replayable(&silent) || elsewhere == 0 || met["replay-round-trip"] != len(strangers)-elsewhere {
		t.Errorf("replay-round-trip is met by %d of %d strangers, of which %d have no dead-letter topic; by one whose dead "+
			"letters do not name their origin: %v", met["replay-round-trip"], len(strangers), elsewhere, replayable(&silent))
	}
}

// Something can be drawn for every stranger, the same each time; it applies, and each fault comes up.
func TestDrawnFaultsApplyToStrangers(t *testing.T) {
	strangers := must.Get(FindStrangers("../../test/strangers"))(t)
	met, pairs := map[string]int{}, 0
	for number := range uint64(2 * len(strangers)) {
		one, err := drawnFor(strangers, number)
		if err != nil {
			t.Error(err)
			continue
		}
		again, _ := drawnFor(strangers, number)
		if one.stranger.File != strangers[number%uint64(len(strangers))].File || string(again.text) != string(one.text) {
			t.Errorf("number %d is not the next stranger in the situation that it was in before", number)
		}
		scenario, _, err := scenarios.ParseForSubject(one.scenario, one.text, nil, one.stranger.File)
		if err != nil {
			t.Errorf("what was drawn for %s is refused: %v", one.stranger.File, err)
		} else if len(scenario.Faults) < len(one.faults) {
			t.Errorf("number %d has the faults %v, but there are only %d in its scenario", number, one.faults,
				len(scenario.Faults))
		}
		if len(one.faults) > 1 {
			pairs++
		} else if one.faults[0] == "kafka.error Metadata" {
			t.Errorf("number %d has only a fault that most clients never notice", number)
		}
		for _, fault := range one.faults {
			met[fault]++
		}
		if strings.Contains(string(one.text), "link: downstream, limit_data: ") {
			met["limited calls"]++
		}
		if strings.Contains(string(one.text), "link: downstream, limit_data: 1KiB") {
			t.Errorf("number %d has a limit that a connection for each call does not reach", number)
		}
	}
	// A fault that hides all others, such as one that closes connections slowly, stays alone.
	if n := len(strangers); pairs < n*3/4 || pairs > n {
		t.Errorf("%d of %d situations have two faults", pairs, 2*n)
	}
	for _, name := range []string{"network.half_open", "kafka.error Produce", "kafka.error Metadata", "broker.kill",
		"subject.signal KILL", "downstream.outage", "limited calls"} {
		if met[name] == 0 {
			t.Errorf("no stranger meets %s: %v", name, met)
		}
	}
}

// Something can be drawn for the applications of examples/apps, too, one of which writes in transactions.
func TestDrawnFaultsApplyToApplications(t *testing.T) {
	apps := must.Get(FindStrangers("../../examples/apps"))(t)
	for number := range uint64(8 * len(apps)) {
		if _, err := drawnFor(apps, number); err != nil {
			t.Error(err)
		}
	}
}

// A missing prerequisite is distinguished from a broken build.
func TestBuildsOfStrangers(t *testing.T) {
	folder := t.TempDir()
	stranger := func(words ...string) Stranger {
		return Stranger{File: filepath.Join(folder, "subject.yaml"), Subject: &scenarios.SubjectFile{Build: words}}
	}
	b := &builds{done: map[string]func() error{}}
	for range 2 {
		must.Do(t, b.build(context.Background(), stranger("sh", "-c", "echo x >>built")))
	}
	if built, err := os.ReadFile(filepath.Join(folder, "built")); err != nil || string(built) != "x\n" {
		t.Errorf("built %q times (%v), not once", built, err)
	}
	var absent absentError
	if err := b.build(context.Background(), stranger("sh", "-c", "echo no JDK; exit 77")); !errors.As(err,
		&absent) || !strings.HasSuffix(absent.what, "no JDK") {
		t.Errorf("code 77 is told as %v", err)
	}
	if err := b.build(context.Background(), stranger("no-such-program")); !errors.As(err, &absent) {
		t.Errorf("a program that is not there is told as %v", err)
	}
	if err := b.build(context.Background(), stranger("sh", "-c", "echo broken; exit 1")); err == nil ||
		errors.As(err, &absent) {
		t.Errorf("a build that fails is told as %v", err)
	}
}

// TestSelectedStrangers: names select strangers; the four that make strangers-slow names are there, and meet each
// scenario that is for all.
func TestSelectedStrangers(t *testing.T) {
	all := must.Get(FindStrangers("../../test/strangers"))(t)
	selected, err := Selected(all, []string{"stranger-eager-range", "stranger-slow-start", "stranger-commits-every-5s",
		"stranger-patient"})
	if err != nil || len(selected) != 4 || selected[3].Subject.Name != "stranger-patient" {
		t.Fatalf("%d selected, %v", len(selected), err)
	}
	met, err := encounters(selected, (*scenarios.Scenario).RunsOnEmbedded)
	if err != nil || len(met) != 164 {
		t.Errorf("they meet %d scenarios, and make strangers-slow runs 164: %v", len(met), err)
	}
	if _, err := Selected(all, []string{"stranger-nowhere"}); err == nil {
		t.Error("a stranger that is not there was selected")
	}
}
