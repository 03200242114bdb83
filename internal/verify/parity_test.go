package verify

import (
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
)

// Every run must pass. A scenario that applies only to a real Kafka must not be run on the embedded one.
func TestParityHolds(t *testing.T) {
	pass, absent := ParityCell{Verdict: assertions.Pass}, ParityCell{}
	for name, test := range map[string]struct {
		cells []ParityCell
		want  bool
	}{
		"all pass":             {[]ParityCell{pass, pass}, true},
		"one does not apply":   {[]ParityCell{absent, pass}, true},
		"one fails":            {[]ParityCell{pass, {Verdict: assertions.Fail, Why: []string{"lost"}}}, false},
		"one is inconclusive":  {[]ParityCell{pass, {Verdict: assertions.Inconclusive}}, false},
		"one can't be run":     {[]ParityCell{pass, {Why: []string{"no Java"}}}, false},
		"one is refused":       {[]ParityCell{pass, {Refused: "toxiproxy cannot do half_open"}}, true},
		"nothing was compared": {nil, false},
	} {
		p := &Parity{On: []string{"embedded", "process"}}
		if test.cells != nil {
			p.Rows = []ParityRow{{Scenario: "smoke", Cells: test.cells}}
		}
		if p.Holds() != test.want {
			t.Errorf("%s: %v", name, p.Holds())
		}
	}
	found, missed := ParityCell{Verdict: assertions.Fail, Found: "lost"}, ParityCell{Verdict: assertions.Fail}
	for name, test := range map[string]struct {
		cells []ParityCell
		want  bool
	}{
		"found by all": {[]ParityCell{found, found}, true}, "one is refused": {[]ParityCell{found, absent}, true},
		"passes": {[]ParityCell{found, pass}, false}, "fails by something else": {[]ParityCell{found, missed}, false},
	} {
		p := &Parity{Rows: []ParityRow{{Scenario: "smoke", Bug: "drop-on-term", Cells: test.cells}}}
		if p.Holds() != test.want {
			t.Errorf("with a planted bug, %s: %v", name, p.Holds())
		}
	}
}

func TestParityPage(t *testing.T) {
	p := &Parity{On: []string{"embedded", "process-4.1.0"}, Rows: []ParityRow{
		{Scenario: "smoke", Cells: []ParityCell{
			{Verdict: assertions.Pass, Elapsed: 7_440 * time.Millisecond, SetUp: 210 * time.Millisecond,
				Load: 4_500 * time.Millisecond},
			{Verdict: assertions.Fail, Elapsed: 9 * time.Second, SetUp: 2 * time.Second, Load: 5 * time.Second,
				Why: []string{"no-loss is violated:\nlost", "kept in runs/x"}},
		}},
		{Scenario: "frozen-broker", Cells: []ParityCell{{}, {Why: []string{"starting the brokers: no Java"}}}},
		{Scenario: "half-open-link", Bug: "duplicate", Cells: []ParityCell{
			{Verdict: assertions.Fail, Found: "dual-terminal"}, {Refused: "toxiproxy cannot do half_open"}}},
	}}
	page := p.Page("dlqbench parity --on embedded --on process:4.1.0")
	for _, part := range []string{
		"`dlqbench parity --on embedded --on process:4.1.0`", "| scenario ", "pass, 7.4 s (tax 2.9 s, set-up 0.2 s of it)",
		"fail, 9.0 s (tax 4.0 s, set-up 2.0 s of it): no-loss is violated: lost; kept in runs/x", "| – ",
		"| half-open-link, duplicate ", "fail, 0.0 s (tax 0.0 s, set-up 0.0 s of it): dual-terminal ",
		"– (toxiproxy cannot do half_open)", "could not be run: starting the brokers: no Java",
	} {
		if !strings.Contains(page, part) {
			t.Errorf("%q is missing in\n%s", part, page)
		}
	}
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "|") && strings.Count(line, "|") != 4 {
			t.Errorf("a row of other than three columns: %s", line)
		}
	}
}
