package assertions

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// seenAt is an occurrence at an offset of a partition; the record's number is the offset, 100 more in each partition.
func seenAt(at time.Duration, partition int32, offset int64) Occurrence {
	return Occurrence{Record: 100*partition + int32(offset), Topic: "in", Partition: partition, Offset: offset, At: at}
}

// placeless is an occurrence without a record, as of a process.
func placeless(at time.Duration) Occurrence {
	return Occurrence{Record: none, Partition: none, Offset: none, At: at}
}

// broken returns a verdict with violations: "invariant: anomaly", and where they were seen.
func brokenVerdict(violations map[string][]Occurrence) *Verdict {
	v := &Verdict{Verdict: Fail, RunID: "run"}
	for _, invariant := range append(Names(), "parse/no-loss", "chunk/no-loss", "parse/commit-after-outcome") {
		r := Result{Name: invariant, Status: Pass}
		for _, what := range sortedKeysOf(violations) {
			of, name, _ := strings.Cut(what, ": ")
			if places := violations[what]; of == invariant {
				a := Anomaly{Name: name, Count: int64(len(places)), Records: places, First: &places[0]}
				for _, one := range places {
					w := Counterexample{Record: one.Record, Topic: one.Topic, Partition: one.Partition, Offset: one.Offset, At: one.At,
						Summary: name}
					if one.Record >= 0 {
						w.Command = fmt.Sprintf("dlqbench show-record run %d", one.Record)
					}
					a.Counterexamples = append(a.Counterexamples, w)
				}
				r.Status, r.Anomalies = Fail, append(r.Anomalies, a)
			}
		}
		v.Invariants = append(v.Invariants, r)
	}
	return v
}

func sortedKeysOf(m map[string][]Occurrence) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// outline writes roots briefly: "root <- consequence, consequence".
func outline(roots []Root) []string {
	var out []string
	for _, root := range roots {
		var follow []string
		for _, one := range root.Consequences {
			follow = append(follow, one.Invariant+": "+one.Anomaly)
		}
		out = append(out, strings.TrimSuffix(root.Invariant+": "+root.Anomaly+" <- "+strings.Join(follow, ", "), " <- "))
	}
	return out
}

// Of two anomalies of the same records the same ones are kept, in whatever order each was found; otherwise one of them
// would seem to have other records than the other, and both would be roots.
func TestKeepsTheEarliestPlaces(t *testing.T) {
	t.Parallel()
	var all []Occurrence
	for i := range MaxRecords + 60 {
		all = append(all, seenAt(time.Duration(i/3)*time.Millisecond, int32(i%5), int64(i)))
	}
	for seed := range uint64(4) {
		order := rand.New(rand.NewPCG(seed, 1)).Perm(len(all))
		var kept []Occurrence
		for _, i := range order {
			kept = amongEarliest(kept, all[i])
		}
		want := slices.SortedFunc(slices.Values(all), func(a, b Occurrence) int {
			return boolFirst(a.before(&b), b.before(&a))
		})
		if !slices.Equal(kept, want[:MaxRecords]) {
			t.Fatalf("found in the order of seed %d, others are kept", seed)
		}
	}
}

func TestRoots(t *testing.T) {
	t.Parallel()
	const (
		without, before, past = "commit-after-dlq: commit-without-dlq", "commit-after-dlq: commit-before-dlq",
			"commit-after-outcome: commit-past-unfinished"
		lost, stalled, behind, crashed = "no-loss: lost", "no-loss: stalled", "liveness: stalled", "stays-up: crashed"
	)
	one := []Occurrence{seenAt(time.Second, 0, 7)}
	many := []Occurrence{seenAt(time.Second, 0, 7), seenAt(2*time.Second, 1, 3)}
	for _, test := range []struct {
		name       string
		violations map[string][]Occurrence
		want       []string
	}{
		{"nothing", nil, nil},
		{"one", map[string][]Occurrence{lost: one}, []string{lost}},
		{"a chain", map[string][]Occurrence{without: many, lost: many,
			"halt-on-dlq-failure: failure-not-surfaced": {placeless(3 * time.Second)}},
			[]string{without + " <- " + lost + ", halt-on-dlq-failure: failure-not-surfaced"}},
		{"independent violations", map[string][]Occurrence{"dlq-fidelity: payload-changed": one,
			"ordering: reordered": {seenAt(500*time.Millisecond, 0, 7)}},
			[]string{"ordering: reordered", "dlq-fidelity: payload-changed"}},
		{"a consequence before its would-be cause", map[string][]Occurrence{crashed: {placeless(5 * time.Second)},
			"duplicates: duplicate": many}, []string{"duplicates: duplicate", crashed}},
		{"a consequence after it", map[string][]Occurrence{crashed: {placeless(time.Second)},
			"duplicates: duplicate": many}, []string{crashed + " <- duplicates: duplicate"}},
		{"another record was lost", map[string][]Occurrence{without: one, lost: many}, []string{lost, without}},
		{"two causes explain it together", map[string][]Occurrence{without: many[:1], past: many[1:], lost: many},
			[]string{without + " <- " + lost, past}},
		{"a stop that commits too far", map[string][]Occurrence{"graceful-stop: lost": many, past: many, lost: many},
			[]string{"graceful-stop: lost <- " + lost + ", " + past}},
		{"commits that go too far, also at a stop",
			map[string][]Occurrence{"graceful-stop: lost": one, past: many, lost: many},
			[]string{past + " <- " + lost + ", graceful-stop: lost"}},
		{"commits past all, also past dead letters", map[string][]Occurrence{past: many, before: one},
			[]string{past + " <- " + before}},
		{"dead letters not awaited, and then lost", map[string][]Occurrence{before: many,
			past: {seenAt(4*time.Second, 1, 9)}, lost: {seenAt(4*time.Second, 1, 9)}},
			[]string{before + " <- " + lost + ", " + past}},
		{"a record that is never finished", map[string][]Occurrence{stalled: many,
			behind: {seenAt(2*time.Second, 0, 8), seenAt(2*time.Second, 1, 4)}}, []string{stalled + " <- " + behind}},
		{"a partition that is not read", map[string][]Occurrence{stalled: one,
			behind: {seenAt(time.Second, 0, 7), seenAt(time.Second, 2, 4)}}, []string{behind + " <- " + stalled}},
		{"a commit for another's partition, past its end", map[string][]Occurrence{
			"commit-after-outcome: commit-wrong-partition": one, "commit-after-outcome: commit-past-end": one},
			[]string{"commit-after-outcome: commit-wrong-partition <- commit-after-outcome: commit-past-end"}},
		{"attempts counted by partition", map[string][]Occurrence{"bounded-retries: under-retried": many,
			"classification: premature-dead-letter": one, "bounded-retries: over-retried": {seenAt(3*time.Second, 0, 9)},
			"backoff: backoff-not-growing": {seenAt(4*time.Second, 1, 9)}},
			[]string{"bounded-retries: under-retried <- bounded-retries: over-retried, classification: premature-dead-letter, " +
				"backoff: backoff-not-growing"}},
		{"the number of the attempt is lost", map[string][]Occurrence{"backoff: backoff-not-growing": many,
			"bounded-retries: over-retried": {seenAt(3*time.Second, 0, 7)}, "dlq-fidelity: metadata-wrong": {
				seenAt(4*time.Second, 0, 7)}},
			[]string{"backoff: backoff-not-growing <- bounded-retries: over-retried, dlq-fidelity: metadata-wrong"}},
		{"failures that are not retried", map[string][]Occurrence{"bounded-retries: under-retried": many,
			"classification: premature-dead-letter": many},
			[]string{"classification: premature-dead-letter <- bounded-retries: under-retried"}},
		{"given up too early, some of it at a stop", map[string][]Occurrence{"bounded-retries: under-retried": many,
			"classification: premature-dead-letter": many, "graceful-stop: premature-dead-letter": one},
			[]string{"classification: premature-dead-letter <- bounded-retries: under-retried, " +
				"graceful-stop: premature-dead-letter"}},
		{"the nodes of a graph", map[string][]Occurrence{"graph-conservation: wrong-node-dlq": many,
			"parse/commit-after-outcome: commit-past-unfinished": many[:1], "chunk/no-loss: lost": many[1:]},
			[]string{"graph-conservation: wrong-node-dlq <- chunk/no-loss: lost, parse/" + past}},
		{"two nodes", map[string][]Occurrence{"parse/commit-after-outcome: commit-past-unfinished": one,
			"chunk/no-loss: lost": one}, []string{"chunk/no-loss: lost", "parse/" + past}},
		{"services", map[string][]Occurrence{"service-separation: another-services-record": one,
			"chunk/no-loss: lost": many}, []string{"service-separation: another-services-record <- chunk/no-loss: lost"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := outline(Roots(brokenVerdict(test.violations))); !slices.Equal(got, test.want) {
				t.Errorf("the roots are %q, want %q", got, test.want)
			}
		})
	}
}

// Whatever is violated, and wherever: each violation is told once, as a root or as a consequence of one. Before a cause
// was chosen last of all, a violation could follow from one that followed from it, and the search for its root did not
// end: dead letters at a stop, fewer of them than of records that were given up too early.
func TestRootsAreFoundOfAnyViolations(t *testing.T) {
	t.Parallel()
	var names []string
	for _, invariant := range catalogue() {
		for _, a := range invariant.Anomalies {
			names = append(names, invariant.Name+": "+a.Name)
		}
	}
	place := rapid.Custom(func(t *rapid.T) Occurrence {
		at := time.Duration(rapid.IntRange(1, 3).Draw(t, "second")) * time.Second
		if rapid.IntRange(0, 4).Draw(t, "placeless") == 0 {
			return placeless(at)
		}
		return seenAt(at, int32(rapid.IntRange(0, 1).Draw(t, "partition")), int64(rapid.IntRange(0, 1).Draw(t, "offset")))
	})
	rapid.Check(t, func(t *rapid.T) {
		violations, places := map[string][]Occurrence{}, rapid.SliceOfN(place, 1, 4).Draw(t, "places")
		rows := rapid.SliceOfN(rapid.SampledFrom(links()), 1, 3).Draw(t, "rows")
		near := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return !slices.ContainsFunc(rows, func(row link) bool {
				return slices.ContainsFunc(append(row.effects, row.cause), func(one string) bool {
					return strings.HasSuffix(": "+name, ": "+one)
				})
			})
		})
		for _, name := range near {
			if n := rapid.IntRange(0, len(places)).Draw(t, name); n > 0 {
				violations[name] = places[:n]
			}
		}
		told := map[string]int{}
		for _, root := range Roots(brokenVerdict(violations)) {
			told[root.Invariant+": "+root.Anomaly]++
			for _, one := range root.Consequences {
				told[one.Invariant+": "+one.Anomaly]++
			}
		}
		for name := range violations {
			if told[name] != 1 {
				t.Fatalf("%s is told %d times", name, told[name])
			}
		}
	})
}

// Noise of the clocks comes last, a record that the consequences share first, then the largest margin, then the
// earliest.
func TestRootExample(t *testing.T) {
	t.Parallel()
	v := brokenVerdict(map[string][]Occurrence{
		"commit-after-dlq: commit-before-dlq": {seenAt(1*time.Second, 0, 1), seenAt(2*time.Second, 0, 2),
			seenAt(3*time.Second, 0, 3), seenAt(4*time.Second, 0, 4), seenAt(5*time.Second, 0, 5)},
		"no-loss: lost": {seenAt(3*time.Second, 0, 3), seenAt(4*time.Second, 0, 4)},
	})
	list := v.Invariants[slices.Index(Names(), "commit-after-dlq")].Anomalies[0].Counterexamples
	for i, margin := range []time.Duration{900 * ms, 2 * ms, 1 * ms, 300 * ms, 900 * ms} {
		list[i].Margin = margin
	}
	example := func() int32 { return Roots(v)[0].Example.Record }
	if got := example(); got != 4 {
		t.Errorf("with a consequence the example is record %d, want 4: it is lost, and 3 looks like noise", got)
	}
	v.Invariants[0] = Result{Name: "no-loss", Status: Pass}
	if got := example(); got != 1 {
		t.Errorf("without consequences the example is record %d, want 1, the earliest of the largest margin", got)
	}
	list[4].Margin = 0
	if got := example(); got != 5 {
		t.Errorf("the example is record %d, want 5, for which it never came", got)
	}
}

// All places show the same record: those of the root, of its consequences and the command.
func TestOneRecordIsTheExample(t *testing.T) {
	t.Parallel()
	places := []Occurrence{seenAt(time.Second, 0, 1), seenAt(2*time.Second, 0, 2)}
	v := brokenVerdict(map[string][]Occurrence{"stays-up: crashed": {placeless(500 * ms)},
		"no-loss: stalled": places, "liveness: stalled": {places[1]}})
	v.Roots = Roots(v)
	v.exampleFirst()
	if got, want := v.Roots[0].Command, "dlqbench show-record run 1"; got != want {
		t.Errorf("the command is %q, want %q", got, want)
	}
	if got := v.Reason(v.Roots[0]); got != "stays-up is violated: crashed, once: crashed. That was at 0.500 s, with no "+
		"fault in force. Follows from it: no-loss: stalled × 2, liveness: stalled × 1." {
		t.Error(got)
	}
	v = brokenVerdict(map[string][]Occurrence{"commit-after-dlq: commit-without-dlq": {places[1]},
		"no-loss: lost": places[1:]})
	v.Invariants[0].Anomalies[0].Counterexamples = append([]Counterexample{{Record: 9, Summary: "another"}},
		v.Invariants[0].Anomalies[0].Counterexamples...)
	v.Roots = Roots(v)
	v.exampleFirst()
	if got := v.Invariants[0].Anomalies[0].Counterexamples[0].Record; got != 2 {
		t.Errorf("the first counterexample of the consequence is of record %d, want 2", got)
	}
}

// alwaysRoots are the anomalies that follow from no other: each is told as a cause of its own.
func alwaysRoots() []string {
	return []string{
		"commit-wrong-partition", "crashed", "permanent-retried", "no-jitter", "quarantine-missed",
		"quarantined-early", "wrong-node-dlq", "replayed-to-wrong-node", "selected-wrong", "committed-before-stored",
		"double-lock", "doubled-in-store", "orphaned-lock", "retry-early", "retry-while-unhealthy",
		"resolved-without-success", "retention-early", "retention-late", "dropped-by-ack",
		"effect-missing", "effect-partial", "marker-dead-lettered", "never-given-up",
	}
}

// Every anomaly follows from another in the table, or is deliberately a root; and the table names nothing else.
func TestConsequencesCoverTheCatalogue(t *testing.T) {
	t.Parallel()
	var effects, causes []string
	for _, row := range links() {
		causes = append(causes, row.cause)
		effects = append(effects, row.effects...)
		if row.why == "" || strings.ToLower(row.why[:1]) != row.why[:1] || strings.HasSuffix(row.why, ".") {
			t.Errorf("the reason of %s is no clause: %q", row.cause, row.why)
		}
	}
	known := map[string]bool{}
	for _, invariant := range catalogue() {
		for _, a := range invariant.Anomalies {
			full := invariant.Name + ": " + a.Name
			known[a.Name], known[full] = true, true
			follows := slices.Contains(effects, a.Name) || slices.Contains(effects, full)
			if root := slices.Contains(alwaysRoots(), a.Name) || slices.Contains(alwaysRoots(), full); root == follows {
				t.Errorf("%s: in the table as an effect %v, deliberately a root %v", full, follows, root)
			}
		}
	}
	named := slices.Concat(effects, causes, alwaysRoots())
	for what := range catalogueCauses() {
		named = append(named, what)
	}
	for _, name := range named {
		if !known[name] {
			t.Errorf("there is no anomaly %q", name)
		}
	}
}
