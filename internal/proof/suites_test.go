package proof

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/scaffold"
)

// suiteOf is a table in which so many bugs are named with both of two seeds by one of two scenarios, and the others with one.
func suiteOf(suite string, always, once int) *Completeness {
	c := &Completeness{Suite: suite, Wanted: 2}
	row := func(n int, scenario string, shown ...bool) {
		r := MutantRow{Mutant: fmt.Sprint("m", n), Scenario: scenario}
		for i, is := range shown {
			if r.Seeds++; is {
				r.Caught++
			}
			r.Runs = append(r.Runs, SeedRun{Seed: uint64(i + 1), Shown: is, Seconds: 3})
		}
		c.Mutants = append(c.Mutants, r)
	}
	for n := range always + once {
		row(n, "smoke", false, n < always)
		row(n, "mix", true, n < always)
	}
	return c
}

// The default suite names a bug with a seed if one of its scenarios does; the library's table is about one scenario.
func TestTogether(t *testing.T) {
	split := []*MutantRow{
		{Runs: []SeedRun{{Seed: 1, Shown: true}, {Seed: 2}, {Seed: 3}}}, {Runs: []SeedRun{{Seed: 2, Shown: true}, {Seed: 3}, {Seed: 4}}},
	}
	if named, tried := together(split); named != 2 || tried != 3 { // seed 4 was run in one scenario only, and not named
		t.Errorf("named with %d of %d seeds, want 2 of 3", named, tried)
	}
	text := (&Result{Completeness: suiteOf(SuiteDefault, 9, 1)}).Markdown()
	for _, want := range []string{"| completeness, default | 10 planted bugs in 40 runs", "90.0% (9 of 10) named with 2 of 2 seeds", "| 1/2   | mix 1/2 "} {
		if !strings.Contains(text, want) {
			t.Errorf("the tables lack %q:\n%s", want, text)
		}
	}
}

func TestApplies(t *testing.T) {
	for _, c := range []struct {
		suite, mutant string
		yes, no       []string
	}{
		{SuiteLibrary, "drop-on-term", []string{"smoke", "consumer-kill", "replay-round-trip"}, []string{"retry-topics", "share-group", "transactions", "store-lifecycle", "pipestream-graph", "spring-envelope", "min-isr-lost"}},
		{SuiteLibrary, "replay-drops", []string{"replay-round-trip"}, []string{"smoke", "spring-envelope", "pipestream-replay"}},
		{SuiteLibrary, "graph-replay-drops", []string{"pipestream-replay"}, []string{"pipestream-graph", "replay-round-trip"}},
		{SuiteLibrary, "copy-not-counted", []string{"retry-topics"}, []string{"smoke"}},
		{SuiteLibrary, "share-drop-on-term", []string{"share-group"}, []string{"share-redelivery", "smoke"}},
		{SuiteLibrary, "store-archives-early", []string{"store-retention"}, []string{"store-lifecycle"}},
		{SuiteLibrary, "store-probe-ignored", []string{"store-conditional"}, []string{"store-lifecycle"}},
		{SuiteLibrary, "store-republishes-twice", []string{"store-republish-crash"}, []string{"store-lifecycle"}},
		{SuiteLibrary, "names-another-service", []string{"hexkit-shared-dlq"}, []string{"smoke"}},
		{SuiteLibrary, "time-of-1970", []string{"management-envelope"}, []string{"smoke", "management-store"}},
		{SuiteDefault, "drop-on-term", scaffold.Suite(), nil},
	} {
		aim := Aim{Suite: c.suite, Mutants: []string{c.mutant}}
		if c.suite == SuiteDefault {
			aim.Scenarios = scaffold.Suite()
		}
		_, of, err := aim.aims()
		if err != nil {
			t.Fatal(err)
		}
		at := func(name string) bool {
			return slices.ContainsFunc(of[c.mutant], func(one target) bool { return one.name == name })
		}
		for _, name := range c.yes {
			if !at(name) {
				t.Errorf("%s does not apply to %s", name, c.mutant)
			}
		}
		for _, name := range c.no {
			if at(name) {
				t.Errorf("%s applies to %s", name, c.mutant)
			}
		}
	}
}

// What an earlier proof knows is taken over, unless the scenario was another one then.
func TestResume(t *testing.T) {
	aim := Aim{Suite: SuiteDefault, Mutants: []string{"drop-on-term"}, Scenarios: []string{"smoke", "consumer-kill"}, First: 1, Seeds: 1}
	bugs, of, err := aim.aims()
	if err != nil {
		t.Fatal(err)
	}
	made := func(earlier *Completeness) *matrix {
		aim.Earlier = earlier
		m := &matrix{Completeness: &Completeness{}, aim: aim, texts: map[string][]byte{}}
		m.rows(bugs, of)
		return m
	}
	first := made(nil)
	first.Mutants[0].count(1, 4, &assertions.Verdict{})
	first.Mutants[1].count(1, 4, &assertions.Verdict{})
	first.Mutants[1].Digest = "of another text"
	second := made(first.Completeness)
	if len(second.Mutants) != 2 || second.Mutants[0].Seeds != 1 || second.Mutants[1].Seeds != 0 {
		t.Errorf("taken over: %+v", second.Mutants)
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
