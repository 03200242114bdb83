package assertions

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The questions about stalls are answered as by a look at all of them: those that overlap the interval and concern the
// instance, or the harness.
func TestSpansAgreeWithALookAtAllOfThem(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		upTo := func(most int64, what string) time.Duration {
			return time.Duration(rapid.Int64Range(0, most).Draw(r, what))
		}
		var s spans
		at := time.Duration(0)
		for range rapid.IntRange(0, 12).Draw(r, "stalls") {
			at += upTo(20, "later")
			from := at - upTo(30, "long")
			s.add(span{
				from: from, to: at, lasted: at - from, instance: rapid.Int16Range(none, 1).Draw(r, "instance"),
				stopped: rapid.Bool().Draw(r, "stopped"),
			})
		}
		instance := rapid.Int16Range(0, 1).Draw(r, "asked of")
		from := upTo(120, "from")
		to := from + upTo(40, "for")

		var total, frozen time.Duration
		stopped, its, anyones := false, false, false
		for _, one := range s.list {
			overlaps := one.from <= to && one.to >= from
			anyones = anyones || overlaps
			if overlaps && one.instance == instance && one.stopped {
				frozen += min(one.to, to) - max(one.from, from)
			}
			if overlaps && (one.instance == instance || one.instance == none) {
				its, stopped, total = true, stopped || one.stopped, total+one.lasted
			}
		}
		yes := func(*span) bool { return true }
		if got := s.any(instance, from, to, yes); got != its {
			r.Errorf("a stall of instance %d between %d and %d: %v, want %v", instance, from, to, got, its)
		}
		if got := s.any(anyone, from, to, yes); got != anyones {
			r.Errorf("a stall of anyone between %d and %d: %v, want %v", from, to, got, anyones)
		}
		if got, held := s.stalled(instance, from, to); got != total || held != stopped {
			r.Errorf("instance %d stood still for %d (stopped: %v), want %d (%v)", instance, got, held, total, stopped)
		}
		if got := s.frozen(instance, from, to); got != frozen {
			r.Errorf("instance %d was stopped for %d, want %d", instance, got, frozen)
		}
	})
}

// What keeps an instance from stopping in time: its own stalls, and those of the harness that are longer than the usual
// noise.
func TestSpansThatKeepAnInstance(t *testing.T) {
	var s spans
	s.add(span{from: 0, to: 10, lasted: 10, instance: 0})
	s.add(span{from: 20, to: 30, lasted: 10, instance: 1, stopped: true})
	s.add(span{from: 40, to: 50, lasted: 10, instance: none})
	s.add(span{from: 60, to: 60 + harnessNoise, lasted: harnessNoise, instance: none})
	s.add(span{from: 70, to: 80 + harnessNoise, lasted: 10, instance: 0, stopped: true})
	s.add(span{from: 90, to: 90 + harnessNoise, lasted: 1, instance: 0})
	for _, one := range []struct {
		name    string
		from    time.Duration
		to      time.Duration
		want    time.Duration
		stopped bool
	}{
		{"its own stall", 5, 15, 10, false},
		{"another's stop, and noise", 20, 50, 0, false},
		{"a long stall of the harness", 55, 65, harnessNoise, false},
		{"it was stopped, and stalled after that", 80 + harnessNoise, 90 + harnessNoise, 11, true},
		{"between stalls", 11, 19, 0, false},
	} {
		if got, stopped := s.kept(0, one.from, one.to); got != one.want || stopped != one.stopped {
			t.Errorf("%s: kept for %d (stopped: %v), want %d (%v)", one.name, got, stopped, one.want, one.stopped)
		}
	}
}
