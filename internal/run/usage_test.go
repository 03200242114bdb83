package run

import (
	"runtime"
	"strings"
	"testing"
)

// A retry without backoff breaks no promise if the contract promises no waits; a limit on attempts detects it. The
// same runs measure the processes' resource usage.
func TestHotLoopsAndMemoryMeetTheirLimits(t *testing.T) {
	const limits = "expect.thresholds=[\"subject.attempts_per_second.max <= 4\", \"subject.rss.max < 4GiB\", " +
		"\"subject.rss.max < 1MiB\"]"
	for name, c := range map[string]struct {
		sets []string
		met  bool
	}{
		"with backoff": {[]string{limits}, true},
		"a hot loop": {[]string{
			limits, "subject.reference.max_retries=100", "subject.reference.retry_backoff_ms=1",
			"subject.reference.max_retry_backoff_ms=1",
			"subject.reference.retry_jitter_ms=0", "workload.outcomes={success: 97, exhausted: 3}",
		}, false},
	} {
		outcome, err := Run(t.Context(), small(t, append(c.sets, "faults=[]")...))
		if err != nil {
			t.Fatal(err)
		}
		thresholds := outcome.Verdict.Thresholds
		if loop := thresholds[0]; loop.Met != c.met || loop.Error != "" {
			t.Errorf("%s: %+v", name, loop)
		}
		if runtime.GOOS != "linux" {
			if len(outcome.Verdict.Usage.Instances) > 0 || thresholds[1].Met ||
				!strings.Contains(thresholds[1].Error, "not measured") {
				t.Errorf("%s: %+v, %+v", name, thresholds[1], outcome.Verdict.Usage)
			}
			continue
		}
		if len(outcome.Verdict.Usage.Instances) != 2 || !thresholds[1].Met || thresholds[2].Met || thresholds[2].Error != "" {
			t.Errorf("%s: %+v, %+v", name, thresholds, outcome.Verdict.Usage)
		}
	}
}
