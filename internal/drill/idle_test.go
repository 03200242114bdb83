package drill

import (
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// nobody is a fault that is in force for a moment and hits nothing.
func nobody() map[string]any {
	return map[string]any{"for": "50ms", "kafka": map[string]any{"api": "Produce", "client_id": "nobody",
		"error": "NOT_ENOUGH_REPLICAS"}}
}

// TestWhatDidNothing checks that a manual fault without effect is reported, and invalidates neither the drill nor its
// recording. A fault with an effect must have one in the recording, too.
func TestWhatDidNothing(t *testing.T) {
	g := start(t, load, nil)
	_, err := g.Break(t.Context(), ada, nobody())
	must.Do(t, err)
	g.until("it has ended by itself", func(s State) bool { return s.Faults[0].Healed != nil })
	_, err = g.Break(t.Context(), ada, refusal())
	must.Do(t, err)
	g.hit()
	g.stays()
	must.Do(t, g.HealAll(t.Context(), ada))
	g.until("there is something to judge", func(s State) bool { return s.Live.Totals.Processed > 300 })
	must.Do(t, g.Stop(ada))
	verdict := g.finish()
	wantVerdict(t, verdict, assertions.Pass)
	idle, effective := verdict.Faults[0], verdict.Faults[1]
	if !idle.MayMiss || idle.Observed.Idle == "" || len(idle.Observed.Effects) > 0 || effective.MayMiss ||
		effective.Observed.Idle != "" {
		t.Errorf("the verdict has %+v and %+v", idle, effective)
	}
	state := g.State(RoleInjector)
	if state.Faults[0].Idle == "" || state.Faults[1].Idle != "" || state.Result.Figures.Faults != 1 {
		t.Errorf("the page has %+v, %+v", state.Faults, state.Result.Figures)
	}
	for _, name := range []string{FileMarkdown, FileHTML} {
		if _, told, found := strings.Cut(string(g.file(name)), "Faults without effect"); !found ||
			!strings.Contains(told, idle.Name+": no request matched") {
			t.Errorf("%s does not tell of %s", name, idle.Name)
		}
	}
	if summary := string(g.file("summary.md")); !strings.Contains(summary,
		"no effect: no request matched") || !strings.Contains(summary, "1 fault took effect and 1 had none") {
		t.Errorf("the summary does not tell what did nothing:\n%s", summary)
	}
	if recorded := string(g.file("recorded.yaml")); strings.Count(recorded, "may_miss: true") != 1 {
		t.Errorf("recorded:\n%s", recorded)
	}
	again := g.rerun()
	wantVerdict(t, again.Verdict, assertions.Pass)
	if again.Verdict.Faults[0].Observed.Idle == "" {
		t.Errorf("the recorded run does not tell what did nothing: %+v", again.Verdict.Faults[0])
	}
}

// TestTheScenariosFaultsHaveToDoSomething checks that the scenario's faults must have an effect, in a drill as in any
// run, unless people have lifted them early.
func TestTheScenariosFaultsHaveToDoSomething(t *testing.T) {
	const client = "{api: Produce, client_id: nobody, error: NOT_ENOUGH_REPLICAS}"
	g := start(t, load+`
faults:
  - {name: lasted, at: 0s, for: 100ms, kafka: `+client+`}
  - {name: cut-short, at: 0s, for: 4m, kafka: `+client+`}
  - {name: ended, at: 0s, for: 4m, kafka: `+client+`}
`, nil)
	state := g.until("one has lasted its time", func(s State) bool {
		for _, f := range s.Faults {
			if f.Name == "lasted" && f.Healed != nil {
				return len(s.Faults) == 3
			}
		}
		return false
	})
	for _, f := range state.Faults {
		if f.Name == "cut-short" {
			must.Do(t, g.Heal(t.Context(), ada, f.ID))
		}
	}
	must.Do(t, g.Stop(ada))
	verdict := g.finish()
	wantVerdict(t, verdict, assertions.Inconclusive)
	reasons := strings.Join(verdict.Reasons, "\n")
	if !strings.Contains(reasons, "fault lasted (") || strings.Contains(reasons, "cut-short") ||
		strings.Contains(reasons, "fault ended") {
		t.Errorf("reasons:\n%s", reasons)
	}
	for _, f := range verdict.Faults {
		if f.Observed.Idle == "" || f.MayMiss != (f.Name != "lasted") {
			t.Errorf("the verdict has %+v", f)
		}
	}
}
