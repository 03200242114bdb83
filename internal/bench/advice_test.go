package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/reports"
)

// cellOf makes a cell with the given latencies of its repetitions.
func cellOf(number int, settings string, p99s ...int) reports.BenchCell {
	cell := reports.BenchCell{Number: number, Name: settings, State: reports.BenchOK}
	for setting := range strings.FieldsSeq(settings) {
		path, value, _ := strings.Cut(setting, "=")
		cell.Settings = append(cell.Settings, reports.BenchSetting{Path: "subject.reference." + path, Value: value})
	}
	for i, p99 := range p99s {
		cell.Repetitions = append(cell.Repetitions, reports.BenchRepetition{Number: i + 1, Run: reports.BenchRun{
			Verdict: assertions.Pass, Elapsed: time.Second, Throughput: measure.Throughput{Offered: 600, Sent: 600,
				Processed: 600},
			Latency: map[string]reports.BenchLatency{measure.LatencySuccess: {
				Quantiles: measure.Quantiles{Count: 4000, P99: time.Duration(p99) * time.Millisecond}}},
			Ledger: measure.Ledger{Planned: 4000, Acknowledged: 4000}, Drain: 300 * time.Millisecond, Drained: true,
		}})
	}
	return cell
}

func crossed(cells ...reports.BenchCell) reports.Bench {
	bench := reports.Bench{Mode: reports.BenchFixed, Repetitions: 5, Cells: cells}
	for _, setting := range cells[0].Settings {
		bench.Axes = append(bench.Axes, reports.BenchAxis{Path: setting.Path})
	}
	for i := range bench.Axes {
		for _, cell := range cells {
			value := cell.Setting(bench.Axes[i].Path)
			if !strings.Contains(strings.Join(bench.Axes[i].Values, " "), value) {
				bench.Axes[i].Values = append(bench.Axes[i].Values, value)
			}
		}
	}
	return bench
}

func state(cell reports.BenchCell, state reports.BenchState, why ...string) reports.BenchCell {
	cell.State, cell.Why, cell.Command = state, why, "dlqbench run smoke"
	return cell
}

// behind makes the first repetitions of a cell fall behind.
func behind(cell reports.BenchCell, repetitions int) reports.BenchCell {
	for i := range repetitions {
		cell.Repetitions[i].Run.Behind = "the backlog grew by 40.0/s: 600/s were sent, 560/s were finished"
	}
	return cell
}

func duplicates(cell reports.BenchCell, n int64) reports.BenchCell {
	for i := range cell.Repetitions {
		cell.Repetitions[i].Run.Ledger.Duplicates = n + int64(i)
	}
	return cell
}

// TestAdvice checks that only differences above the noise give advice, and that a broken cell is never preferred.
func TestAdvice(t *testing.T) {
	slow, fast, same := []int{100, 101, 102, 103, 104}, []int{40, 41, 42, 43, 44}, []int{100, 103, 101, 104, 102}
	for _, test := range []struct {
		name  string
		bench reports.Bench
		// want holds the beginnings of the advice, in order.
		want []string
	}{
		{"a setting that is faster", crossed(cellOf(1, "n=1", slow...), cellOf(2, "n=8", fast...)),
			[]string{"Prefer n=8 to n=1: it has better success p99, and nothing that was compared is worse."}},
		{"a setting that is slower", crossed(cellOf(1, "n=1", fast...), cellOf(2, "n=8", slow...)),
			[]string{"Prefer n=1 to n=8: that has worse success p99"}},
		{"a setting that is faster at a price",
			crossed(cellOf(1, "n=1", slow...), duplicates(cellOf(2, "n=8", fast...), 400)),
			[]string{"Choose between n=8 and n=1: the first has better success p99, the second better duplicates."}},
		{"no difference", crossed(cellOf(1, "n=1", slow...), cellOf(2, "n=8", same...)), nil},
		{"less than the noise", crossed(cellOf(1, "n=1", 80, 100, 120, 140, 160), cellOf(2, "n=8", 81, 90, 118, 135, 150)),
			nil},
		{"too few repetitions", repeated(crossed(cellOf(1, "n=1", 100, 101, 102), cellOf(2, "n=8", 40, 41, 42)), 3),
			[]string{"n=8 looks 2.5 times better than n=1 in success p99; 3 repetitions can't prove it: run 5 of each cell " +
				"(repetitions: 5)."}},
		{"too few repetitions of equals",
			repeated(crossed(cellOf(1, "n=1", 100, 101, 102), cellOf(2, "n=8", 100, 101, 102)), 3),
			[]string{"3 repetitions can't prove a difference: run 5 of each cell"}},
		{"one that can't keep up",
			crossed(behind(cellOf(1, "n=1", slow...), 3), cellOf(2, "n=8", fast...)),
			[]string{"Lower the load, or leave out n=1: it can't keep up", "Prefer n=8 to n=1"}},
		{"one that fell behind in fewer than half of its runs",
			crossed(behind(cellOf(1, "n=1", slow...), 2), cellOf(2, "n=8", fast...)), []string{"Prefer n=8 to n=1"}},
		{"too few repetitions that prove something", crossed(unproven(cellOf(1, "n=1", slow...)), cellOf(2, "n=8", fast...)),
			[]string{"Prefer n=8 to n=1", "Give the machine less to do beside the bench"}},
		{"the faster one is broken",
			crossed(cellOf(1, "n=1", slow...), state(cellOf(2, "n=8", fast...), reports.BenchBroken,
				"no-loss was violated: 3 × lost")),
			[]string{"Don't use n=8: it breaks a promise, however fast it is."}},
		{"the slower one is broken", crossed(state(cellOf(1, "n=1", slow...), reports.BenchBroken,
			"no-loss was violated: 3 × lost"),
			cellOf(2, "n=8", fast...)),
			[]string{"Don't use n=1: it breaks a promise"}},
		{"the faster one is inconclusive",
			crossed(cellOf(1, "n=1", slow...), state(cellOf(2, "n=8", fast...), reports.BenchInconclusive)), nil},
		{"in every context", crossed(cellOf(1, "n=1 o=a", slow...), cellOf(2, "n=1 o=b", slow...),
			cellOf(3, "n=8 o=a", fast...), cellOf(4, "n=8 o=b", fast...)),
			[]string{"Prefer n=8"}},
		{"in one context of two", crossed(cellOf(1, "n=1 o=a", slow...), cellOf(2, "n=1 o=b", slow...),
			cellOf(3, "n=8 o=a", fast...), cellOf(4, "n=8 o=b", same...)), nil},
		{"one way here and the other there", crossed(cellOf(1, "n=1 o=a", slow...), cellOf(2, "n=1 o=b", fast...),
			cellOf(3, "n=8 o=a", fast...), cellOf(4, "n=8 o=b", slow...)), nil},
		{"listed cells", reports.Bench{Mode: reports.BenchFixed, Repetitions: 5,
			Cells: []reports.BenchCell{called(cellOf(1, "n=1", slow...), "careful"), called(cellOf(2, "n=8", fast...), "bold")}},
			[]string{"Prefer bold to careful: it has better success p99"}},
		{"nobody chooses the weather", reports.Bench{Mode: reports.BenchFixed, Repetitions: 5,
			Workloads: []string{"calm", "storm"},
			Cells:     []reports.BenchCell{under(cellOf(1, "", fast...), "calm"), under(cellOf(2, "", slow...), "storm")}}, nil},
		{"a run that becomes slower", drifting(200), []string{"Look for what grows in soak"}},
		{"a run that stays as it is", drifting(0), nil},
		{"a run that becomes faster", drifting(-50), nil},
		{"a search: only the rate counts", searching(crossed(cellOf(1, "n=1", slow...), cellOf(2, "n=8", fast...)), 500, 900),
			[]string{"Prefer n=8 to n=1: it has better highest rate held, and"}},
		{"a search of equals", searching(crossed(cellOf(1, "n=1", slow...), cellOf(2, "n=8", fast...)), 500, 500), nil},
		{"the harness was the limit", limited(), []string{"Take these rates for lower bounds"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, advice := range Advise(test.bench) {
				got = append(got, advice.Text)
				if len(advice.Evidence) == 0 {
					t.Errorf("%s: there is no evidence", advice.Text)
				}
			}
			if len(got) != len(test.want) {
				t.Fatalf("got %q, want %q", got, test.want)
			}
			for i, want := range test.want {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("got %q, want %q", got[i], want)
				}
			}
		})
	}
}

func repeated(b reports.Bench, repetitions int) reports.Bench { b.Repetitions = repetitions; return b }

func unproven(cell reports.BenchCell) reports.BenchCell {
	cell.Repetitions[1].Run.Verdict = assertions.Inconclusive
	return cell
}

func called(cell reports.BenchCell, name string) reports.BenchCell { cell.Name = name; return cell }

func under(cell reports.BenchCell, workload string) reports.BenchCell {
	cell.Name, cell.Workload = workload, workload
	return cell
}

func drifting(by int) reports.Bench {
	bench := reports.Bench{Mode: reports.BenchSoak, Repetitions: 5,
		Cells: []reports.BenchCell{called(cellOf(1, "", 100, 101, 102, 103, 104), "soak")}}
	for i := range bench.Cells[0].Repetitions {
		part := func(p99 int) reports.BenchPart {
			out := reports.BenchPart{}
			out.Success.P99 = time.Duration(p99+i) * time.Millisecond
			return out
		}
		bench.Cells[0].Repetitions[i].Drift = &reports.BenchDrift{Parts: []reports.BenchPart{part(100), part(100),
			part(100 + by)}}
	}
	return bench
}

func searching(bench reports.Bench, rates ...float64) reports.Bench {
	bench.Mode = reports.BenchMaxThroughput
	for i := range bench.Cells {
		for j := range bench.Cells[i].Repetitions {
			bench.Cells[i].Repetitions[j].Search = &reports.BenchSearch{Rate: rates[i] + float64(j), Above: 1.1 * rates[i],
				Limit: reports.BenchLimitConsumer}
		}
	}
	return bench
}

func limited() reports.Bench {
	bench := reports.Bench{Mode: reports.BenchMaxThroughput, Repetitions: 5,
		Cells: []reports.BenchCell{cellOf(1, "", 100, 101, 102, 103, 104)}}
	for i := range bench.Cells[0].Repetitions {
		bench.Cells[0].Repetitions[i].Search = &reports.BenchSearch{Rate: 1000, Above: 1050, Limit: reports.BenchLimitHarness,
			Probes: []reports.BenchProbe{
				{Rate: 1050, Hold: reports.BenchUnproven, Why: []string{"the machine was slow"}},
				{Rate: 1000, Hold: reports.BenchUnproven, Why: []string{"the first try"}},
			}}
	}
	return bench
}

// TestLimitsAreTold checks that the reason given is the one why the next higher rate proved nothing, not the result of
// another probe.
func TestLimitsAreTold(t *testing.T) {
	advice := Advise(limited())
	if len(advice) != 1 || !strings.Contains(advice[0].Evidence[0], "at least 1,000/s: at 1,050/s the machine was slow") {
		t.Errorf("the advice is %+v", advice)
	}
}

// TestEvidence checks the figures, the noise between identical repetitions, and the confidence.
func TestEvidence(t *testing.T) {
	advice := Advise(crossed(cellOf(1, "n=1 o=a", 100, 101, 102, 103, 104), cellOf(2, "n=8 o=a", 40, 41, 42, 43, 44)))
	want := "success p99: 42 ms with n=8, 102 ms with n=1, both with o=a (-59 %; identical repetitions " +
		"differ by 4.8 %; p = 0.0079; 5 against 5 repetitions)"
	if len(advice) != 1 || advice[0].Evidence[0] != want || len(advice[0].Cells) != 2 {
		t.Errorf("got %+v\nwant %q", advice, want)
	}
	// If identical repetitions differ much, change and noise are factors. In absolute terms, 1.2 s of noise beside a
	// change of 1 s would look like no change.
	advice = Advise(crossed(cellOf(1, "n=1 o=a", 660, 1180, 1230, 1130, 1290),
		cellOf(2, "n=8 o=a", 97, 98, 200, 294, 312)))
	if len(advice) != 1 || !strings.Contains(advice[0].Evidence[0], "(÷ 5.90; identical repetitions differ by × 2.") {
		t.Errorf("far apart, and much noise: %+v", advice)
	}
	advice = Advise(crossed(cellOf(1, "n=1 o=a", 100, 101, 102, 103, 104), cellOf(2, "n=1 o=b", 100, 101, 102, 103, 104),
		cellOf(3, "n=8 o=a", 40, 41, 42, 43, 44), cellOf(4, "n=8 o=b", 40, 41, 42, 43, 44)))
	if len(advice) != 1 || len(advice[0].Evidence) != 1 || !strings.HasSuffix(advice[0].Evidence[0], ", likewise in 1 "+
		"other pair of cells") || len(advice[0].Cells) != 4 {
		t.Errorf("of two pairs of cells: %+v", advice)
	}
}

// FuzzAdvise checks that any file of results yields advice or none, without a panic.
func FuzzAdvise(f *testing.F) {
	for _, text := range []string{`{"schema":1,"cells":[]}`,
		`{"schema":1,"cells":[{"repetitions":[{"search":{"probes":[{}]}}]}]}`,
		`{"schema":1,"cells":[{}],"axes":[{}],"advice":[{}]}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		bench, err := reports.ReadBench(strings.NewReader(text))
		if err != nil {
			return
		}
		if got := Advise(bench); len(got) > mostAdvice {
			t.Errorf("%d pieces of advice", len(got))
		}
	})
}
