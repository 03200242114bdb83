package assertions

import (
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
)

// experimentally judges by a catalogue in which the named invariant is experimental.
func experimentally(t *testing.T, name string, source history.Source) *Verdict {
	t.Helper()
	all := decisive()
	at := slices.IndexFunc(all, func(one Invariant) bool { return one.Name == name })
	all[at].Experimental = true
	if slices.Contains(deciding(all), name) || len(deciding(all)) != len(all)-1 {
		t.Errorf("of the invariants, %v decide", deciding(all))
	}
	v, _, err := judgeBy(all, source)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The findings of an experimental invariant are in the verdict, with their counterexamples, and change nothing else in
// it.
func TestExperimentalDecidesNothing(t *testing.T) {
	example := func() history.Source {
		b := newBuilder()
		b.h.Contract().Ordering = history.OrderingNone
		return b.begin().send(0).success(0).success(0).commit(1).drain().done()
	}
	firm := judged(t, example())
	if firm.Verdict != Fail || resultOf(t, firm, "duplicates").Status != Fail {
		t.Fatalf("without experiments it is %s: %v", firm.Verdict, firm.Reasons)
	}
	v := experimentally(t, "duplicates", example())
	if v.Verdict != Pass || len(v.Reasons) > 0 {
		t.Errorf("the verdict is %s: %v", v.Verdict, v.Reasons)
	}
	if len(v.Experimental) != 1 || v.Experimental[0].Name != "duplicates" || v.Experimental[0].Status != Fail {
		t.Fatalf("experimental are %+v", v.Experimental)
	}
	checkCounterexamples(t, &v.Experimental[0])
	if have, want := v.Coverage().Promises, firm.Coverage().Promises-1; have != want || len(v.Invariants) != len(
		firm.Invariants)-1 {
		t.Errorf("it is about %d promises, not %d", have, want)
	}
	if text := (Explanation{Invariant: Invariant{Name: "x", Experimental: true,
		Anomalies: []AnomalyNote{{}}}}).String(); !strings.HasPrefix(text, "x (experimental") {
		t.Error(text)
	}
}

// An invariant whose name ends like that of an experimental one decides all the same.
func TestExperimentalByTheWholeName(t *testing.T) {
	all := []Invariant{{Name: "once", Experimental: true}, {Name: "dlq-once"}}
	for name, want := range map[string]bool{"once": true, "node/once": true, "dlq-once": false, "node/dlq-once": false} {
		if got := experimental(all, name); got != want {
			t.Errorf("%s: experimental is %v, want %v", name, got, want)
		}
	}
}

// forwardedTwice is a graph in which a node processes a document twice and passes it on twice.
func forwardedTwice() history.Source {
	g := newGraphBuilder()
	g.phase(history.PhaseSteady).send(0)
	for range 2 {
		g.attempt(parse, 0, history.OutcomeSuccess).forward(parse, 0)
	}
	g.commits(parse)
	return history.FromEvents(g.h, g.events)
}

// The same holds if results are prefixed with the name of a node.
func TestExperimentalOfANodeDecidesNothing(t *testing.T) {
	for _, name := range []string{"duplicates", graphConservation} {
		v := experimentally(t, name, forwardedTwice())
		if len(v.Experimental) == 0 {
			t.Errorf("%s: nothing is experimental", name)
		}
		for _, r := range v.Experimental {
			if !strings.HasSuffix(r.Name, name) {
				t.Errorf("%s is experimental", r.Name)
			}
		}
		for _, r := range v.Invariants {
			if strings.HasSuffix(r.Name, name) {
				t.Errorf("%s decides", r.Name)
			}
		}
	}
}
