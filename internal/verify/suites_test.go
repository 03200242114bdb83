package verify

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/scaffold"
)

// suiteOf returns a table in which always bugs are named with both of two seeds by one of two scenarios, and once bugs
// with one seed.
func suiteOf(suite string, always, once int) *Completeness {
	c := &Completeness{Suite: suite, Wanted: 2}
	row := func(n int, scenario string, shown ...bool) {
		r := BugRow{Bug: fmt.Sprint("m", n), Scenario: scenario}
		for i, is := range shown {
			if r.Seeds++; is {
				r.Caught++
			}
			r.Runs = append(r.Runs, SeedRun{Seed: uint64(i + 1), Shown: is, Seconds: 3})
		}
		c.Bugs = append(c.Bugs, r)
	}
	for n := range always + once {
		row(n, "smoke", false, n < always)
		row(n, "mix", true, n < always)
	}
	return c
}

// The default suite names a bug with a seed if one of its scenarios does. The library's table judges each scenario
// separately.
func TestTogether(t *testing.T) {
	split := []*BugRow{
		{Runs: []SeedRun{{Seed: 1, Shown: true}, {Seed: 2}, {Seed: 3}}},
		{Runs: []SeedRun{{Seed: 2, Shown: true}, {Seed: 3}, {Seed: 4}}},
	}
	if named, tried := together(split); named != 2 || tried != 3 { // seed 4 was run in one scenario only, and not named
		t.Errorf("named with %d of %d seeds, want 2 of 3", named, tried)
	}
	text := (&Result{Completeness: suiteOf(SuiteDefault, 9, 1)}).Markdown()
	for _, want := range []string{"| completeness, default | 10 planted bugs in 40 runs",
		"90.0% (9 of 10) named with 2 of 2 seeds", "| 1/2   | mix 1/2 "} {
		if !strings.Contains(text, want) {
			t.Errorf("the tables lack %q:\n%s", want, text)
		}
	}
}

func TestApplies(t *testing.T) {
	for _, c := range []struct {
		suite, bug string
		yes, no    []string
	}{
		{SuiteLibrary, "drop-on-term", []string{"smoke", "consumer-kill", "replay-round-trip"},
			[]string{"retry-topics", "share-group", "transactions", "store-lifecycle", "pipestream-graph", "spring-envelope",
				"min-isr-lost"}},
		{SuiteLibrary, "replay-drops", []string{"replay-round-trip"},
			[]string{"smoke", "spring-envelope", "pipestream-replay"}},
		{SuiteLibrary, "graph-replay-drops", []string{"pipestream-replay"},
			[]string{"pipestream-graph", "replay-round-trip"}},
		{SuiteLibrary, "copy-not-counted", []string{"retry-topics"}, []string{"smoke"}},
		{SuiteLibrary, "share-drop-on-term", []string{"share-group"}, []string{"share-redelivery", "smoke"}},
		{SuiteLibrary, "store-archives-early", []string{"store-retention"}, []string{"store-lifecycle"}},
		{SuiteLibrary, "store-probe-ignored", []string{"store-conditional"}, []string{"store-lifecycle"}},
		{SuiteLibrary, "store-republishes-twice", []string{"store-republish-crash"}, []string{"store-lifecycle"}},
		{SuiteLibrary, "names-another-service", []string{"hexkit-shared-dlq"}, []string{"smoke"}},
		{SuiteLibrary, "ends-as-if-all-were-well", []string{"dlq-refused-for-good"}, []string{"smoke", "dlq-long-outage"}},
		{SuiteLibrary, "halts-where-it-promised-to-retry", []string{"dlq-long-outage"},
			[]string{"smoke", "dlq-refused-for-good"}},
		{SuiteLibrary, "time-of-1970", []string{"management-envelope"}, []string{"smoke", "management-store"}},
		{SuiteDefault, "drop-on-term", scaffold.Suite(), nil},
	} {
		aim := Aim{Suite: c.suite, Bugs: []string{c.bug}}
		if c.suite == SuiteDefault {
			aim.Scenarios = scaffold.Suite()
		}
		_, of, err := aim.aims()
		if err != nil {
			t.Fatal(err)
		}
		at := func(name string) bool {
			return slices.ContainsFunc(of[c.bug], func(one target) bool { return one.name == name })
		}
		for _, name := range c.yes {
			if !at(name) {
				t.Errorf("%s does not apply to %s", name, c.bug)
			}
		}
		for _, name := range c.no {
			if at(name) {
				t.Errorf("%s applies to %s", name, c.bug)
			}
		}
	}
}

// A bug to which no scenario of the default suite applies is reported and counted, but the suite has not missed it. The
// suite that init writes is for ordinary consumers, so bugs of other subjects do not count against it.
func TestBugsOfOrdinaryConsumers(t *testing.T) {
	aim := Aim{Suite: SuiteDefault, Scenarios: []string{"smoke"}}
	bugs, _, err := aim.aims()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]bool{}
	for _, bug := range bugs {
		counted[bug.Name] = true
	}
	for name, want := range map[string]bool{
		"commit-before-dlq-ack": true, "falls-silent": true, "share-accept-at-once": false, "copy-not-counted": false,
		"replay-drops": false, "store-two-rows": false, "forward-dropped": false,
	} {
		if counted[name] != want {
			t.Errorf("%s counts as a bug of an ordinary consumer: %v, want %v", name, counted[name], want)
		}
	}
}

func TestHoldsLeavesOutUntriedBugs(t *testing.T) {
	for _, c := range []struct {
		suite                 string
		always, once, untried int
		holds                 bool
	}{
		{SuiteDefault, 18, 2, 0, true}, {SuiteDefault, 18, 2, 5, true}, {SuiteDefault, 18, 3, 0, false},
		// Untried bugs do not excuse missed ones: of 21 tried bugs, two may be missed; of 31, three.
		{SuiteDefault, 18, 3, 10, false},
		{SuiteDefault, 0, 0, 3, false}, // nothing was tried
		{SuiteLibrary, 5, 0, 0, true}, {SuiteLibrary, 5, 0, 1, false},
	} {
		table := suiteOf(c.suite, c.always, c.once)
		for n := range c.untried {
			table.Untried = append(table.Untried, fmt.Sprint("untried", n))
		}
		if table.Holds() != c.holds {
			t.Errorf("%s with %d bugs named, %d missed and %d untried: it holds: %v", c.suite, c.always, c.once, c.untried,
				!c.holds)
		}
		if _, all := table.named(); all != c.always+c.once+c.untried {
			t.Errorf("%d bugs are counted, want %d", all, c.always+c.once+c.untried)
		}
	}
}

func TestSameName(t *testing.T) {
	for _, c := range []struct {
		got, want string
		same      bool
	}{
		{"no-loss", "no-loss", true}, {"no-loss", "backoff", false}, {"chunk/classification", "parse/classification", true},
		{"classification", "parse/classification", false}, {"chunk/no-loss", "parse/classification", false},
	} {
		if sameName(c.got, c.want) != c.same {
			t.Errorf("%s for %s: want %v", c.got, c.want, c.same)
		}
	}
}
