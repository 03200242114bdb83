package plan

import (
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/samples"
)

// Records that a consumer may process or refuse have the outcome that was drawn for them, and no replay selects them.
func TestRefusableRecords(t *testing.T) {
	const load = "workload: {rate: 500/s, duration: 4s, outcomes: {success: 1, exhausted: 1}"
	usual := planOf(t, scenario(t, load+"}\nreplay: {}"), 7)
	p := planOf(t, scenario(t, load+", malformed: {share: 20%, how: [oversized-field]}}\nreplay: {}"), 7)
	outcomes := map[history.Outcome]int{}
	for i := range p.Records {
		r, was := &p.Records[i], &usual.Records[i]
		if r.Malformed == 0 {
			continue
		}
		outcomes[r.Outcome]++
		if r.Malformed != samples.OversizedField || r.Size != was.Size+samples.Oversize || r.Outcome != was.Outcome ||
			r.Unidentified() || r.Healed || r.Warmup {
			t.Fatalf("record %d is %+v", i, r)
		}
	}
	if outcomes[history.OutcomeSuccess] < 100 || outcomes[history.OutcomeExhausted] < 100 {
		t.Errorf("the outcomes are %v", outcomes)
	}
	if !p.Refusable() || usual.Refusable() || p.LargestRecord() < samples.Oversize {
		t.Errorf("refusable %v, and %v; the largest record has %d bytes", p.Refusable(), usual.Refusable(), p.LargestRecord())
	}
	again := planOf(t, scenario(t, load+", repeated: 50%, malformed: {share: 50%, how: [oversized-field]}}"), 7)
	for i := range again.Records {
		if r := &again.Records[i]; r.Repeated && r.Malformed != 0 {
			t.Fatalf("record %d is produced twice: %+v", i, r)
		}
	}
	for _, how := range []string{"old-schema", "unknown-schema-id"} {
		_, err := Make(scenario(t, load+", malformed: {share: 20%, how: ["+how+"]}}"), 7, nil, false)
		if err == nil || !strings.Contains(err.Error(), "malformed.how has "+how) {
			t.Errorf("%s without a schema: %v", how, err)
		}
	}
}
