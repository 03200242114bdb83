package reports

import (
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/assertions/measure"
)

func TestSizes(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 B", 1023: "1,023 B", 1024: "1.00 KiB", 53_600_000: "51.1 MiB", 187 << 20: "187 MiB", 5 << 30: "5.00 GiB",
		-28 << 20: "-28.0 MiB",
	} {
		if got := size(bytes); got != want {
			t.Errorf("%d is written %s, want %s", bytes, got, want)
		}
	}
}

func TestUsageIsDrawnByInstance(t *testing.T) {
	page := parsePage(t, render(t, withInstances(passRun(), 2), HTML))
	data := drawnIn(t, page)
	for name, want := range map[string]float64{"memory instance 0": 150, "processors instance 0": 0.1,
		"memory instance 1": 150, "processors instance 1": 0.2} {
		if v := data.curves[name][50]; v == nil || *v != want {
			t.Errorf("%s is not %v", name, want)
		}
	}
	if data.curves["memory instance 1"][105] != nil || data.curves["processors instance 1"][105] != nil ||
		data.curves["memory instance 0"][105] == nil {
		t.Error("there is a curve of a process that was not there, or none of one that was")
	}
	if !strings.Contains(page.words, "Memory of each instance (MiB)") ||
		!strings.Contains(page.words, "203 MiB") || !strings.Contains(page.words, "3.00 MiB") {
		t.Error("the memory is missing")
	}
	crowd := drawnIn(t, parsePage(t, render(t, withInstances(passRun(), 30), HTML)))
	if crowd.curves["memory instance 7"] == nil || crowd.curves["memory instance 8"] != nil {
		t.Error("not as many instances are drawn as there are colours")
	}
}

func TestUsageThatWasNotMeasured(t *testing.T) {
	run := passRun()
	run.Verdict.Usage = measure.Usage{}
	page := parsePage(t, render(t, run, HTML))
	if strings.Contains(page.words, "Memory of each instance") || !strings.Contains(page.words, "not measured") {
		t.Error("there is a chart of nothing, or nothing says why there is none")
	}
}

// A report remarks on a record that is attempted very often, and only then.
func TestHotLoopIsRemarkedOn(t *testing.T) {
	const remark = "was attempted 1,841 times within one second"
	plain := func(run Run) string { return strings.Join(strings.Fields(render(t, run, plainTerminal)), " ") }
	for name, text := range map[string]string{"terminal": plain(failRun()), "summary": render(t, failRun(), Markdown)} {
		if !strings.Contains(text, remark) {
			t.Errorf("%s says nothing of the loop", name)
		}
	}
	for name, text := range map[string]string{"terminal": plain(passRun()), "summary": render(t, passRun(), Markdown)} {
		if strings.Contains(text, "within one second") {
			t.Errorf("%s remarks on four attempts", name)
		}
	}
}

func TestOneOfAThing(t *testing.T) {
	for several, one := range map[string]string{"processes": "1 process", "records": "1 record"} {
		if got := counted(1, several); got != one {
			t.Errorf("one of %s is %q, want %q", several, got, one)
		}
	}
}

func TestUsageIsCompared(t *testing.T) {
	run, err := RunOfVerdict(passRun().Verdict, "a run")
	if err != nil {
		t.Fatal(err)
	}
	if run.Figures["subject.rss.max"] != 203<<20 || run.Figures["subject.cpu.mean"] != 0.41 {
		t.Errorf("%v", run.Figures)
	}
	v := *passRun().Verdict
	v.Usage = measure.Usage{}
	if run, err = RunOfVerdict(&v, "an older run"); err != nil {
		t.Fatal(err)
	}
	if _, known := run.Figures["subject.rss.max"]; known {
		t.Errorf("what was not measured is compared: %v", run.Figures)
	}
}
