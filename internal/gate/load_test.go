package gate

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/scenarios"
)

// anyKafka runs every scenario except those that need a real Kafka.
func anyKafka(scenarios.Provider) (func(*scenarios.Scenario) error, error) {
	return func(s *scenarios.Scenario) error {
		if !s.RunsOnEmbedded() {
			return errors.New("it needs a real Kafka")
		}
		return nil
	}, nil
}

// repository creates a folder with files, given as pairs of name and content, and returns the path of its
// dlqbench.yaml.
func repository(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(files[i+1]), 0o600)))
	}
	return filepath.Join(dir, ConfigFile)
}

const (
	goodSubject = "name: orders\nkind: process\ncommand: [orders]\ncontract: {dlq: {envelope: plain}}\n"
	poorSubject = "name: poor\nkind: process\ncommand: [poor]\ncontract: {dlq: {enabled: false}}\n"
	mine        = "# mine\nname: mine\ndescription: Mine.\nworkload: {rate: 10/s, duration: 3s, warm_up: 1s}\nexpect: " +
		"{thresholds: [\"count.succeeded > 1\"]}\n"
	other = "name: other\ndescription: Another.\nworkload: {rate: 10/s, duration: 3s}\n"
)

func load(t *testing.T, files ...string) *Suite {
	t.Helper()
	suite := must.Get(Load(repository(t, files...), anyKafka))(t)
	return suite
}

func labels(entries []Entry) string {
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Label())
	}
	return strings.Join(all, " | ")
}

func TestExpand(t *testing.T) {
	for _, test := range []struct{ name, config, want string }{
		{"one shipped", "scenarios: [smoke]", "smoke"},
		{"in their order", "scenarios: [smoke, consumer-kill, mine.yaml]", "smoke | consumer-kill | mine"},
		{"seeds", "scenarios: [smoke]\nseeds: [1, 18446744073709551615]",
			"smoke (seed 1) | smoke (seed 18446744073709551615)"},
		{"a selection's own seeds", "scenarios: [{scenario: smoke, seeds: [3]}, mine.yaml]\nseeds: [1]",
			"smoke (seed 3) | mine (seed 1)"},
		{"a subject", "subjects: good.yaml\nscenarios: [smoke]", "smoke (orders)"},
		{"subjects", "subjects: [good.yaml, poor.yaml]\nscenarios: [transient-downstream]\nseeds: [2]",
			"transient-downstream (orders, seed 2) | transient-downstream (poor, seed 2)"},
		{"files", "scenarios: [own/*.yaml]", "mine | other"},
		{"files and one of them by name", "scenarios: [own/*.yaml, {scenario: own/b.yaml, seeds: [5]}]",
			"mine | other (seed 5)"},
		{"a file by two patterns", "scenarios: [own/*.yaml, own/a*.yaml]", "mine | other"},
		{"two patterns with seeds", "scenarios: [{scenario: own/a*.yaml, seeds: [1, 2]}, {scenario: own/*.yaml, seeds: [3]}]",
			"mine (seed 1) | mine (seed 2) | other (seed 3)"},
		{"by name with two seeds, twice",
			"scenarios: [{scenario: smoke, seeds: [1]}, 'smok*', {scenario: smoke, seeds: [2]}]",
			"smoke (seed 1) | smoke (seed 2)"},
		{"shipped by a pattern", "scenarios: ['consumer-*']", "consumer-kill | consumer-rolling-restart"},
	} {
		t.Run(test.name, func(t *testing.T) {
			suite := load(t, ConfigFile, test.config, "mine.yaml", mine, "own/a.yaml", mine, "own/b.yaml", other, "good.yaml",
				goodSubject, "poor.yaml", poorSubject)
			if got := labels(suite.Entries); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			for i, entry := range suite.Entries {
				if entry.Number != i+1 {
					t.Errorf("%s has number %d", entry.Label(), entry.Number)
				}
			}
		})
	}
}

// A pattern selects what can be run: other matches are left out and reported. A named scenario that cannot be run is an
// error.
func TestLeftOut(t *testing.T) {
	suite := load(t, ConfigFile, "subjects: poor.yaml\nscenarios: ['replay-*', 'min-isr-*', transient-downstream]",
		"poor.yaml",
		poorSubject)
	if got := labels(suite.Entries); got != "transient-downstream (poor)" {
		t.Errorf("it would run %s", got)
	}
	var told []string
	for _, left := range suite.LeftOut {
		told = append(told, left.Scenario+": "+left.Why)
	}
	if got := strings.Join(told, "\n"); !strings.Contains(got, "replay-round-trip: nothing to replay") ||
		!strings.Contains(got, "min-isr-lost: it needs a real Kafka") {
		t.Errorf("left out are:\n%s", got)
	}
	if _, err := Load(repository(t, ConfigFile, "scenarios: ['min-isr-*']"), anyKafka); err == nil ||
		!strings.Contains(err.Error(), "nothing can be run") {
		t.Errorf("with everything left out: %v", err)
	}
}

func TestOverrides(t *testing.T) {
	suite := load(t, ConfigFile, `
allow: {duplicates: 2%}
thresholds: ["recovery.drain < 10s", "count.succeeded > 1"]
scenarios:
  - mine.yaml
  - {scenario: other.yaml, allow: {duplicates: 0.5%}, thresholds: ["count.attempts > 3"]}
`, "mine.yaml", mine, "other.yaml", other)
	for i, want := range []string{
		`expect.allow.duplicates=2% expect.thresholds[1]="recovery.drain < 10s"`,
		"expect.allow.duplicates=0.5% expect.thresholds=[\"recovery.drain < 10s\"] expect.thresholds[1]=\"count.succeeded " +
			"> 1\" expect.thresholds[2]=\"count.attempts > 3\"",
	} {
		if got := strings.Join(suite.Entries[i].Sets, " "); got != want {
			t.Errorf("entry %d sets\n%s, want\n%s", i+1, got, want)
		}
	}
	_, data, err := scenarios.Find(suite.Entries[1].Arg)
	if err != nil {
		t.Fatal(err)
	}
	scenario, _, err := scenarios.ParseForSubject("other.yaml", data, suite.Entries[1].Sets, "")
	if err != nil {
		t.Fatalf("what it sets can't be set: %v", err)
	}
	if len(scenario.Expect.Thresholds) != 3 || *scenario.Expect.Allow.Duplicates != 0.005 {
		t.Errorf("the scenario expects %+v", scenario.Expect)
	}
	if at := suite.Entries[0].Where; filepath.Base(at.File) != "mine.yaml" || at.Line != 2 || at.Column != 1 {
		t.Errorf("mine is at %v", at)
	}
}

// All problems are reported with their places in one pass.
func TestProblems(t *testing.T) {
	for _, test := range []struct {
		name, config string
		want         []string
	}{
		{"nothing", "", []string{"dlqbench.yaml:1:1: the file is empty"}},
		{"no scenarios", "budget: 5m", []string{"dlqbench.yaml:1:1: scenarios is missing"}},
		{"an empty list", "scenarios: []", []string{"dlqbench.yaml:1:12: scenarios needs at least one entry"}},
		{"unknown keys", "scenarios: [smoke]\nretries: 3\nbugdet: 5m",
			[]string{":2:1: unknown key retries", ":3:1: unknown key bugdet", "did you mean budget?"}},
		{"an unknown scenario", "scenarios:\n  - smoek",
			[]string{":2:5: there is no scenario \"smoek\": did you mean smoke?"}},
		{"a file that is not there", "scenarios: [a.yaml]", []string{":1:13: reading the scenario", "no such file"}},
		{"a pattern of nothing", "scenarios: ['x/*.yaml', 'zzz-*']",
			[]string{":1:13: nothing matches x/*.yaml", ":1:25: nothing matches zzz-*"}},
		{"no pattern", "scenarios: ['smok[']", []string{":1:13: \"smok[\" is no pattern"}},
		{"one twice", "scenarios: [smoke, consumer-kill, smoke]",
			[]string{":1:35: smoke is here twice: line 1 names it already"}},
		{"a seed twice", "scenarios: [smoke]\nseeds: [4, 4]", []string{"smoke (seed 4) is here twice"}},
		{"an unknown invariant is required", "scenarios: [smoke]\nrequire: [no-los, ordering, ordering]",
			[]string{":2:11: there is no invariant \"no-los\"", "did you mean no-loss?", ":2:29: ordering is here twice"}},
		{"no seed", "scenarios: [smoke]\nseeds: [-1, x]", []string{":2:9: seeds[0] must be at least 0",
			":2:13: \"x\" is not written right"}},
		{"a subject that is not there", "scenarios: [smoke]\nsubjects: [good.yaml, none.yaml]",
			[]string{":2:23: there is no file", "none.yaml"}},
		{"a subject twice", "scenarios: [smoke]\nsubjects: [good.yaml, ./good.yaml]",
			[]string{":2:23: ./good.yaml is here twice"}},
		{"no subject", "scenarios: [smoke]\nsubjects: []", []string{":2:11: no subject is named"}},
		{"a bad subject", "scenarios: [smoke, smoke-not]\nsubjects: bad.yaml",
			[]string{"bad.yaml:1:1: kind is missing", "bad.yaml:2:1: unknown key komand",
				"dlqbench.yaml:1:20: there is no scenario"}},
		{"a bad scenario of one's own", "scenarios: [bad.yaml]", []string{"bad.yaml:"}},
		{"a scenario that does not fit", "scenarios: [min-isr-lost]",
			[]string{":1:13: min-isr-lost can't be run: it needs a real Kafka"}},
		{"one that does not fit the subject", "scenarios:\n  - scenario: replay-round-trip\nsubjects: poor.yaml",
			[]string{":2:15: replay-round-trip can't be run with", "poor.yaml: nothing to replay"}},
		{"a budget of nothing", "scenarios: [smoke]\nbudget: 0s", []string{":2:9: in no time nothing can be run"}},
		{"a threshold",
			"scenarios: [{scenario: smoke, thresholds: [\"latency.sucess.p99 < 1s\"]}]\nthresholds: [\"count.succeeded\"]",
			[]string{":1:", "this threshold can't be evaluated", ":2:", "2 problems"}},
		{"a provider", "scenarios: [smoke]\ncluster: {provider: kubernetes}",
			[]string{":2:21: provider is embedded, process, docker or external"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := repository(t, ConfigFile, test.config, "good.yaml", goodSubject, "poor.yaml", poorSubject, "bad.yaml",
				"name: bad\nkomand: [x]\n")
			suite, err := Load(path, anyKafka)
			if err == nil {
				t.Fatalf("it would run %s", labels(suite.Entries))
			}
			if _, ok := errors.AsType[*scenarios.Problems](err); !ok {
				t.Errorf("the error is a %T", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("it does not say %q:\n%v", want, err)
				}
			}
		})
	}
}

func TestWaiverProblems(t *testing.T) {
	const ok = `invariant: no-loss, reason: "T-1", until: 2030-01-01`
	for _, test := range []struct{ name, waiver, want string }{
		{"without a reason", "{invariant: no-loss, until: 2030-01-01}", ":3:5: reason is missing in waive[0]"},
		{"with an empty reason", "{invariant: no-loss, reason: ' ', until: 2030-01-01}",
			":3:34: a failure is waived for a reason"},
		{"without an end", "{invariant: no-loss, reason: x}", ":3:5: until is missing in waive[0]"},
		{"no date", "{invariant: no-loss, reason: x, until: soon}", `:3:44: "soon" is no date`},
		{"a day that there is not", "{invariant: no-loss, reason: x, until: 2026-02-30}", `"2026-02-30" is no date`},
		{"of nothing", "{reason: x, until: 2030-01-01}", ":3:5: it does not say what is waived"},
		{"an unknown invariant", "{invariant: no-los, reason: x, until: 2030-01-01}", "did you mean no-loss?"},
		{"an unknown anomaly", "{anomaly: lsot, reason: x, until: 2030-01-01}", "did you mean lost?"},
		{"an anomaly of another invariant", "{invariant: no-loss, anomaly: payload-changed, reason: x, until: 2030-01-01}",
			":3:35: payload-changed is no anomaly of no-loss: it violates dlq-fidelity"},
		{"an unknown scenario", "{scenario: smoek, " + ok + "}", `:3:16: the suite runs no scenario "smoek"`},
		{"one that the suite does not run", "{scenario: consumer-kill, " + ok + "}",
			`:3:16: the suite runs no scenario "consumer-kill"`},
		{"an unknown key", "{invariants: no-loss, " + ok + "}", "did you mean invariant?"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Load(repository(t, ConfigFile, "scenarios: [smoke]\nwaive:\n  - "+test.waiver), anyKafka)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("it does not say %q:\n%v", test.want, err)
			}
		})
	}
	suite := load(t, ConfigFile, "scenarios: [smoke]\nwaive:\n  - {scenario: smoke, "+ok+"}")
	if len(suite.Waivers) != 1 || suite.Waivers[0].Where.Line != 3 {
		t.Errorf("a good waiver is read as %+v", suite.Waivers)
	}
}

// A waiver is valid to the end of its last day in UTC.
func TestExpired(t *testing.T) {
	suite := load(t, ConfigFile, "scenarios: [smoke]\nwaive: [{invariant: no-loss, reason: x, until: 2026-02-28}]")
	for at, want := range map[string]bool{
		"2026-02-28T00:00:00Z": false, "2026-02-28T23:59:59.999Z": false, "2026-03-01T00:00:00Z": true,
		"2026-03-01T01:00:00+02:00": false, "2026-02-28T23:30:00-02:00": true,
	} {
		now := must.Get(time.Parse(time.RFC3339Nano, at))(t)
		if got := suite.Waivers[0].Expired(now); got != want {
			t.Errorf("at %s it has ended: %v, want %v", at, got, want)
		}
	}
}

func TestNoFile(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), ConfigFile), anyKafka); err == nil ||
		!strings.Contains(err.Error(), "dlqbench init writes one") {
		t.Errorf("without a file: %v", err)
	}
}

// Every scenario is run with each of the named settings and with each seed of a range, in the order of the file.
func TestSettingsAndRanges(t *testing.T) {
	suite := load(t, ConfigFile, "scenarios: [mine.yaml, {scenario: other.yaml, seeds: [9]}]\nseeds: [1, 3-4]\n"+
		"settings:\n  b: {workload.rate: 5/s, expect.thresholds: ['count.late < 9']}\n  a: {}\n"+
		"thresholds: ['count.succeeded > 2']\n", "mine.yaml", mine, "other.yaml", other)
	want := "mine (b, seed 1) | mine (b, seed 3) | mine (b, seed 4) | mine (a, seed 1) | mine (a, seed 3) | mine (a, " +
		"seed 4) | " +
		"other (b, seed 9) | other (a, seed 9)"
	if got := labels(suite.Entries); got != want {
		t.Errorf("runs %s\nwant %s", got, want)
	}
	sets := `expect.thresholds=["count.late \u003c 9"] workload.rate=5/s expect.thresholds[1]="count.succeeded > 2"`
	got := slices.Clone(suite.Entries[0].Sets)
	slices.Sort(got[:2])
	if strings.Join(got, " ") != sets {
		t.Errorf("settings %q, want %s", got, sets)
	}
	keys := map[string]bool{}
	for _, entry := range suite.Entries {
		keys[entry.Key()] = true
	}
	if len(keys) != len(suite.Entries) {
		t.Errorf("%d keys for %d runs", len(keys), len(suite.Entries))
	}
	for _, test := range []struct{ text, want string }{
		{"scenarios: [mine.yaml]\nseeds: [1, 4-3]\n", ConfigFile + ":2:12: the range 4-3 ends before it begins"},
		{"scenarios: [mine.yaml]\nseeds: [1-10000, 7]\n", ConfigFile + ":2:18: the range 7-7 makes more than 10000"},
		{"scenarios: [{scenario: mine.yaml, seeds: [5-1]}]\n", ":1:43: the range 5-1 ends"},
		{"scenarios: [mine.yaml]\nsettings: {}\n", ":2:11: there is nothing in it"},
		{"scenarios: [mine.yaml]\nsettings:\n  a b: {}\n", ":3:8: a name has letters"},
		{"scenarios: [mine.yaml]\nsettings:\n  a: {workload.rat: 1/s}\n", ":3:"},
	} {
		_, err := Load(repository(t, ConfigFile, test.text, "mine.yaml", mine), anyKafka)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.text, err, test.want)
		}
	}
}
