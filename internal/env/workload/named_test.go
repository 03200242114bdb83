package workload

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
)

func named(headers ...string) []NamedHeader {
	var all []NamedHeader
	for i := 0; i < len(headers); i += 2 {
		all = append(all, NamedHeader{Name: headers[i], Pieces: strings.Split(headers[i+1], "*")})
	}
	return all
}

func valueOf(t *testing.T, record *kgo.Record, name string) string {
	t.Helper()
	for _, header := range record.Headers {
		if header.Key == name {
			return string(header.Value)
		}
	}
	t.Fatalf("the record has no header %s: %v", name, record.Headers)
	return ""
}

func TestNamedHeaders(t *testing.T) {
	ids, planned := history.NewIDs("run"), plan.Record{Size: 256}
	headers := named("type", "order_placed", "correlation_id", "*", "event_id", "*", "pair", "<*|*>")
	build := func(seed uint64, seq int32) *kgo.Record {
		return &newBuilder(ids, seed, "orders", 1, headers...).build(seq, &planned, time.Unix(1, 0)).Record
	}
	pair := regexp.MustCompile(`^<([0-9a-f-]{36})\|([0-9a-f-]{36})>$`)
	rapid.Check(t, func(r *rapid.T) {
		seed, seq := rapid.Uint64().Draw(r, "seed"), rapid.Int32Range(0, 1<<30).Draw(r, "seq")
		record := build(seed, seq)
		if len(record.Headers) != 6 || valueOf(t, record, "type") != "order_placed" {
			r.Fatalf("the headers are %v", record.Headers)
		}
		both := pair.FindStringSubmatch(valueOf(t, record, "pair"))
		if both == nil {
			r.Fatalf("the pair is %q", valueOf(t, record, "pair"))
		}
		seen := map[string]bool{}
		for _, text := range append(both[1:], valueOf(t, record, "correlation_id"), valueOf(t, record, "event_id"),
			valueOf(t, build(seed, seq^1), "event_id"), valueOf(t, build(seed+1, seq), "event_id")) {
			id, err := uuid.Parse(text)
			if err != nil || id.Version() != 4 || id.Variant() != uuid.RFC4122 || id.String() != text {
				r.Fatalf("%q is no UUID of version 4: %v", text, err)
			}
			if seen[text] {
				r.Fatalf("the UUID %s is there twice", text)
			}
			seen[text] = true
		}
		if again := build(seed, seq); valueOf(t, again, "event_id") != valueOf(t, record, "event_id") {
			r.Fatal("the same seed and record give another UUID")
		}
	})
}

// A named header counts as the record's own.
func TestNamedHeadersAreOriginal(t *testing.T) {
	keep := OriginalHeaders(1, named("type", "x"))
	for name, want := range map[string]bool{"type": true, "trace-1": true, "dlqbench-id": true, "types": false,
		"trace-2": false, "exc_msg": false} {
		if keep(name) != want {
			t.Errorf("%q: original = %v, want %v", name, !want, want)
		}
	}
}
