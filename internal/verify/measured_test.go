package verify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/scaffold"
	"github.com/dlqbench/dlqbench/internal/testkit/golden"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

const (
	measuredFile = "../../docs/data/completeness.json"
	podsDocument = "../../docs/kubernetes.md"
)

func measuredAt(t *testing.T, path string) *Measured {
	t.Helper()
	measured := must.Get(ReadMeasured(path))(t)
	return measured
}

func written(t *testing.T, measured *Measured) string {
	t.Helper()
	var b strings.Builder
	must.Get(measured.WriteTo(&b))(t)
	return b.String()
}

// New measurements of some bugs are merged with known ones of others and are not repeated. They are dropped when the
// bug or the scenario changes.
func TestMeasuredRunsAreGoneOnFrom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "measured.json")
	aim := Aim{Suite: SuiteDefault, Bugs: []string{"drop-on-term"}, Scenarios: []string{"smoke", "consumer-kill"},
		Seeds: 2}
	measured := measuredAt(t, path)
	table, err := measured.Table(aim)
	if err != nil {
		t.Fatal(err)
	}
	table.Bugs[0].count(2, 4, &assertions.Verdict{})
	table.Bugs[0].count(1, 5, &assertions.Verdict{Invariants: []assertions.Result{{
		Name: table.Bugs[0].Invariant, Anomalies: []assertions.Anomaly{{Name: table.Bugs[0].Anomaly}},
	}}})
	table.Controls[1].Runs = []SeedRun{{Seed: 1, Shown: true, Seconds: 3}}
	measured.Add(table)

	other := aim
	other.Bugs = []string{"duplicate"}
	if table, err = measured.Table(other); err != nil {
		t.Fatal(err)
	}
	if table.Controls[1].Passed != 1 || table.Controls[1].Seeds != 1 {
		t.Errorf("the correct consumer's run is not known: %+v", table.Controls[1])
	}
	table.Bugs[1].count(1, 4, &assertions.Verdict{})
	measured.Add(table)
	text := written(t, measured)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	if got := written(t, measuredAt(t, path)); got != text || strings.Count(got, "\n{") != 3 {
		t.Errorf("written and read again, it is\n%s, was\n%s", got, text)
	}

	if table, err = measuredAt(t, path).Table(aim); err != nil {
		t.Fatal(err)
	}
	if row := table.Bugs[0]; row.Caught != 1 || row.Seeds != 2 || meanSeconds(row.Runs) != 4.5 ||
		table.Bugs[1].Seeds != 0 {
		t.Errorf("taken over: %+v", table.Bugs)
	}
	changed := strings.Replace(text, `"digest":"`+table.Bugs[0].Digest, `"digest":"of another`, 1)
	must.Do(t, os.WriteFile(path, []byte(changed), 0o600))
	if left := measuredAt(t, path); len(left.Bugs) != 1 || left.Bugs[0].Bug != "duplicate" || len(left.Correct) != 1 {
		t.Errorf("left after the bug has changed: %+v", left)
	}
}

// Runs across pods are written by hand, and dropped like the others.
func TestMeasuredAcrossPods(t *testing.T) {
	path := filepath.Join(t.TempDir(), "measured.json")
	text := `{"pods": [{"bug": "duplicate", "scenario": "smoke", "shown": [1], "not": [2], "seconds": 4},
		{"bug": "duplicate", "scenario": "poison-mix", "digest": "of another", "shown": [1], "seconds": 4},
		{"scenario": "smoke", "shown": [1], "seconds": 4}]}`
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	measured := measuredAt(t, path)
	want := "| smoke | the reference consumer | passed 1/1 |\n| smoke | planted bug duplicate | named 1/2 |\n"
	if again := written(t, measured); strings.Contains(again, `"digest":""`) ||
		!strings.HasSuffix(measured.PodsTable(), want) {
		t.Errorf("it is %s\n%s", again, measured.PodsTable())
	}
}

// The tables of docs/proof must match docs/data, and no row there may belong to a bug or a scenario that has changed
// since, or there are new runs: UPDATE_GOLDEN=1 writes the tables again, and drops what does not hold any more.
func TestTheDocumentSaysWhatWasMeasured(t *testing.T) {
	measured := measuredAt(t, measuredFile)
	want := map[string]string{measuredFile: written(t, measured)}
	for document, aim := range map[string]Aim{
		"../../docs/proof/init-suite.md": {Suite: SuiteDefault, Scenarios: scaffold.Suite(), Seeds: 5},
		"../../docs/proof/library.md":    {Suite: SuiteLibrary, Seeds: 20},
	} {
		table := must.Get(measured.Table(aim))(t)
		want[document] = withMeasured(t, document, aim.Suite, table.suiteTables())
	}
	want[podsDocument] = withMeasured(t, podsDocument, "pods", measured.PodsTable())
	for path, text := range want {
		golden.Check(t, path, text)
	}
}

// withMeasured is a document with a table put into its place for the runs of a suite.
func withMeasured(t *testing.T, document, suite, table string) string {
	t.Helper()
	mark := "<!-- measured: " + suite + " -->\n"
	before, after, found := strings.Cut(fileText(t, document), mark)
	_, after, closed := strings.Cut(after, "<!-- end -->")
	if !found || !closed {
		t.Fatalf("%s has no place for the suite %s", document, suite)
	}
	return before + mark + "\n" + table + "\n<!-- end -->" + after
}

func fileText(t *testing.T, path string) string {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	return string(data)
}
