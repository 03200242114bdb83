package measure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/dlqbench/dlqbench/history"
)

func TestThresholdsOfAWholeRun(t *testing.T) {
	m := wholeRun().measure(t)
	for expression, want := range map[string]struct {
		met    bool
		actual string
	}{
		"latency.success.p50 < 500ms":                       {true, "460.031ms"},
		"latency.success.p99 < 1s150ms":                     {false, "1.150975s"},
		"latency.success.p99 < 1.152s":                      {true, "1.150975s"},
		"latency.success.warm_up.max <= 30.1ms":             {true, "30.015ms"},
		"latency.success.count == 3":                        {true, "3"},
		"latency.replay.p99 >= 50ms":                        {false, "40.031ms"},
		"latency.success.fault.p99 > latency.success.p50*2": {true, "1.150975s"},
		"throughput.processed >= 3":                         {true, "3"},
		"throughput.processed > 0.9 * throughput.offered":   {false, "3"},
		"lag.max <= 3":                                      {true, "3"},
		"lag.end == 0":                                      {true, "0"},
		"recovery.drain < 10s":                              {true, "200ms"},
		"recovery.drain < 200ms":                            {false, "200ms"},
		"count.dead_lettered == 1":                          {true, "1"},
		"count.attempts % 2 == 1":                           {true, "1"},
		"count.attempts%2==0":                               {false, "1"},
		"share.duplicates <= 20%":                           {true, "0.2"},
		"share.duplicates < 20%":                            {false, "0.2"},
		"share.duplicates<20% or share.succeeded>=80%":      {true, "share.duplicates = 0.2, share.succeeded = 0.8"},
		"not (share.dead_lettered > 2.5%)":                  {false, "0.2"},
		"lag.end == 0 and\n\tlag.max < 2":                   {false, "lag.end = 0, lag.max = 3"},
		"share.succeeded + share.dead_lettered >= 100%":     {true, "1"},
		"7%2 == count.logical":                              {true, "1"},
		"7%count.logical == 0":                              {true, "0"},
		"2 > count.logical":                                 {true, "2"},
	} {
		got := m.Evaluate([]string{expression})[0]
		if got.Error != "" || got.Met != want.met || got.Actual != want.actual || got.Expression != expression {
			t.Errorf("%s: %+v, want %+v", expression, got, want)
		}
		if err := CompileThreshold(expression); err != nil {
			t.Error(err)
		}
	}
}

func TestThresholdWithoutDataIsNeverMet(t *testing.T) {
	empty := newBuilder(3).measure(t)
	unseen := func() *Measurements {
		s := newBuilder(1)
		s.header.Contract().WireOnly = true
		s.sent(0, 0, 0, ms, 0, 0)
		return s.measure(t)
	}()
	unfinished := func() *Measurements {
		s := newBuilder(1)
		s.sent(0, 0, 0, ms, 0, 0)
		s.phase(10*ms, history.PhaseDrain)
		return s.measure(t)
	}()
	for _, c := range []struct {
		m          *Measurements
		expression string
		says       string
	}{
		{empty, "latency.success.p99 < 500ms", "latency.success.p99: no samples"},
		{unseen, "share.succeeded > 80%", "no calls that are seen"},
		{unseen, "share.duplicates < 2%", "no calls that are seen"},
		{unseen, "count.attempts == 0 and count.sent == 1", "no calls that are seen"},
		{wholeRun().measure(t), "latency.success.drain.p99 < 500ms", "latency.success.drain.p99: no samples"},
		{empty, "not (latency.success.p99 > 500ms)", "no samples"},
		{empty, "count.sent == 0 or latency.success.p99 < 500ms", "no samples"},
		{empty, "throughput.processed < 10", "no steady phase"},
		{empty, "lag.max < 10", "no record was acknowledged"},
		{empty, "share.duplicates < 2%", "no record was acknowledged"},
		{empty, "not (count.sent / count.attempts > 0.5)", "divides by zero"},
		{empty, "count.sent / count.attempts < 0.5 or true", "divides by zero"},
		{empty, "recovery.drain < 10s", "before every record was finished"},
		{unfinished, "recovery.drain < 10s", "before every record was finished"},
		{empty, "latency.succes.p99 < 500ms", "there is no latency.succes"},
	} {
		got := c.m.Evaluate([]string{c.expression})[0]
		if got.Met || !strings.Contains(got.Error, c.says) {
			t.Errorf("%s: %+v, want %q", c.expression, got, c.says)
		}
	}
	if got := empty.Evaluate([]string{"latency.success.count == 0"})[0]; !got.Met {
		t.Errorf("counting nothing is allowed: %+v", got)
	}
}

func TestThresholdMistakesAreFoundWithTheirPlace(t *testing.T) {
	for expression, want := range map[string]string{
		"latency.succes.p99 < 500ms": "column 9: there is no latency.succes; there is backoff_error, " +
			"commit_delay",
		"latency.success.p95 < 500ms":   "column 17: there is no latency.success.p95; there is audit, count",
		"latency.success < 500ms":       "column 9: latency.success is no value; it has audit, count",
		"latency.success.p99.x < 500ms": "column 21: latency.success.p99 is a value and has no x",
		"tps > 5": "column 1: there is no tps; there is count, lag, latency, recovery, " +
			"share, subject, throughput",
		"500ms > 2s and latency.success.p90 < 10": "column 36: invalid operation: < (mismatched types duration and int): a " +
			"duration is compared with one that has a unit",
		"latency.success.p99 < 500":   "column 21: invalid operation",
		"lag.max < 5s":                "column 9: invalid operation",
		"lag.max":                     "column 1: expected bool",
		"lag.max + 1":                 "expected bool",
		"lag.max <":                   "unexpected token EOF",
		"500ms > 2s < lag.max)":       "unexpected token",
		"":                            "unexpected token EOF",
		"true":                        "names no measurement",
		"500ms < 600ms":               "names no measurement",
		`latency["success"].p99 < 1s`: "column 9: texts have no place",
		"lag.max in [1, 2]":           "column 9: there is no operator in",
		"abs(lag.max) < 3":            "column 1: there are no functions",
		"foo(lag.max) < 3":            "column 1: there are no functions",
		"let x = lag.max; x < 3":      "column 5: a threshold is made of",
		"lag.max < 3 ? true : false":  "a threshold is made of",
		"$env.lag.max < 3":            "column 1: there is no $env",
		"lag?.max < 3":                "a threshold is made of",
		"lag[0] < 3":                  "named like",
		"latency.success.p99 < 5 ms":  "column 25: unexpected token",
		"latency.success.p99 < 5min":  "column 23: there is no unit min: a duration is written like 500ms or 2m",
		"subject.rss.max < 200mb": "column 19: there is no unit mb: a duration is written like 500ms or " +
			"2m, a size like 64MiB or 200MB",
		"subject.rss.max < 1.5M":               "column 19: there is no unit M",
		"lag.max < 3 or subject.rss.max < 64M": "column 34: there is no unit M",
		"subject.rss.max < 200":                "column 17: a size is compared with one that has a unit, such as 64MiB",
		"subject.rss.growth <= 0":              "column 20: a size is compared with one that has a unit",
		"subject.rss.max < 500ms":              "column 17: a size is compared with one that has a unit",
		"subject.cpu.max < 64MiB":              "column 17: a size is compared with one that has a unit",
		"lag.max + 1 < 64MiB":                  "column 13: a size is compared with one that has a unit",
		"subject.rss.max + 1 < 64MiB":          "column 17: a size is compared with one that has a unit",
		"subject.rss.max / 64MiB < 2MiB":       "column 25: a size is compared with one that has a unit",
		"subject.rss < 64MiB":                  "column 9: subject.rss is no value; it has growth, max",
		"subject.attempts_per_second.max":      "expected bool",
		"64MiB < 65MiB":                        "names no measurement",
		"latency.success.p99 < duration(5)":    "column",
		"share.duplicates < 2% 3":              "unexpected token",
		"latency.success.p99 < 500ms ; true":   "a threshold is made of",
		"none(1..9, # > lag.max)":              "there are no functions",
	} {
		err := CompileThreshold(expression)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "struct") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v\nwant %s", expression, err, want)
		}
	}
}

func TestAnyThresholdIsSurvived(t *testing.T) {
	m := wholeRun().measure(t)
	pieces := rapid.SampledFrom([]string{
		"latency", ".", "success", "p99", "<", ">=", "==", "500ms", "2%", "7", " ", "lag.max", "and", "not ", "(", ")",
		"share.duplicates", "%", "\n",
		"subject.rss.max", "64MiB", "1.5GB", "5x", "subject.attempts_per_second.max", "*", "+",
		"é", "\xff", "count.sent", "/", "0", "-", "1e309", "9999999999999999999h",
	})
	rapid.Check(t, func(t *rapid.T) {
		expression := strings.Join(rapid.SliceOfN(pieces, 0, 12).Draw(t, "pieces"), "")
		result := m.Evaluate([]string{expression})[0]
		if err := CompileThreshold(expression); err != nil && (result.Met || result.Error == "") {
			t.Fatalf("%q does not compile (%v) and gives %+v", expression, err, result)
		}
	})
}

func TestHDRLogIsReadBack(t *testing.T) {
	m := wholeRun().measure(t)
	dir := t.TempDir()
	if err := WriteHDR(dir, m); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(filepath.Join(dir, "success.hlog"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	type line struct {
		tag        string
		count, max int64
		from, to   time.Duration
	}
	var lines []line
	reader := hdrhistogram.NewHistogramLogReader(file)
	for {
		h, err := reader.NextIntervalHistogram()
		if err != nil {
			t.Fatal(err)
		}
		if h == nil {
			break
		}
		from, to := time.Duration(h.StartTimeMs())*ms, time.Duration(h.EndTimeMs())*ms
		start := time.Duration(m.Started.UnixMilli()) * ms
		lines = append(lines, line{h.Tag(), h.TotalCount(), h.Max(), (from - start).Round(2 * ms),
			(to - start).Round(2 * ms)})
		phase := h.Tag()
		if phase == "" {
			phase = PhaseAll
		}
		want := m.Histograms[LatencySuccess][phase]
		for _, percent := range []float64{0, 50, 90, 99, 100} {
			if got := h.ValueAtPercentile(percent); got != want.ValueAtPercentile(percent) {
				t.Errorf("%s: p%v is %d, was %d", phase, percent, got, want.ValueAtPercentile(percent))
			}
		}
	}
	want := []line{
		{"", 3, 1150975, 0, 2200 * ms},
		{history.PhaseWarmup, 1, 30015, 100 * ms, 200 * ms},
		{history.PhaseSteady, 2, 460031, 200 * ms, 700 * ms},
		{history.PhaseFault, 1, 1150975, 700 * ms, 1200 * ms},
	}
	if len(lines) != len(want) {
		t.Fatalf("lines %+v", lines)
	}
	for i := range want {
		if lines[i] != want[i] {
			t.Errorf("line %d: %+v, want %+v", i, lines[i], want[i])
		}
	}
}

func TestHDRLogsOnlyWhereThereAreSamples(t *testing.T) {
	dir := t.TempDir()
	if err := WriteHDR(dir, newBuilder(1).measure(t)); err != nil {
		t.Fatal(err)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(files) != 0 {
		t.Fatal(files, err)
	}
	if err := WriteHDR(filepath.Join(dir, "absent"), wholeRun().measure(t)); err == nil ||
		!strings.Contains(err.Error(), "writing the histograms") {
		t.Fatal(err)
	}
}
