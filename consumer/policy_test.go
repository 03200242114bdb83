package consumer

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

const ms = time.Millisecond

func most(limit time.Duration) time.Duration { return limit }
func none(time.Duration) time.Duration       { return 0 }

func TestBackoffWaits(t *testing.T) {
	for _, c := range []struct {
		backoff Backoff
		random  func(time.Duration) time.Duration
		want    []time.Duration
	}{
		{Backoff{Initial: 100 * ms, Cap: 1000 * ms, Exponential: true}, none, []time.Duration{100 * ms, 200 * ms, 400 * ms,
			800 * ms, 1000 * ms, 1000 * ms}},
		{Backoff{Initial: 100 * ms, Cap: 400 * ms, Exponential: true, Jitter: 20 * ms}, most,
			[]time.Duration{120 * ms, 220 * ms, 420 * ms, 420 * ms}},
		{Backoff{Initial: 100 * ms, Cap: 1000 * ms}, none, []time.Duration{100 * ms, 100 * ms, 100 * ms}},
		{Backoff{Initial: 100 * ms, Cap: 30 * ms, Exponential: true}, none, []time.Duration{30 * ms, 30 * ms}},
		{Backoff{Initial: 100 * ms, Exponential: true}, none, []time.Duration{100 * ms, 200 * ms, 400 * ms}},
		{Backoff{Cap: 100 * ms, Exponential: true, Jitter: 5 * ms}, most, []time.Duration{5 * ms, 5 * ms}},
	} {
		for i, want := range c.want {
			if got := c.backoff.Wait(i+1, c.random); got != want {
				t.Errorf("%+v: wait %d is %s, want %s", c.backoff, i+1, got, want)
			}
		}
	}
}

func TestBackoffGrowsToItsCapAndNeverOverflows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Backoff{
			Initial: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "initial")), Exponential: true,
			Cap: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "cap")),
		}
		n := rapid.IntRange(1, 10_000).Draw(t, "n")
		now, next := b.Wait(n, none), b.Wait(n+1, none)
		if now < 0 || next < now || (b.Cap > 0 && next > b.Cap) || next > 2*now && now > 0 {
			t.Fatalf("%+v: wait %d is %s, wait %d is %s", b, n, now, n+1, next)
		}
	})
}

func TestUniformStaysInItsRange(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := Uniform(3)
		if d < 0 || d > 3 {
			t.Fatalf("drew %d from 0..3", d)
		}
		seen[d] = true
	}
	if len(seen) != 4 {
		t.Errorf("drew only %v in 1000 draws from 0..3", seen)
	}
}

func TestBoundedDecides(t *testing.T) {
	policy := Bounded{MaxAttempts: 3, Backoff: Backoff{Initial: 100 * ms, Cap: time.Second, Exponential: true},
		Random: none}
	plain := errors.New("down")
	limited := &Error{Class: Retryable, RetryAfter: 5 * time.Second, Err: plain}
	for _, c := range []struct {
		attempts int
		err      error
		want     Decision
	}{
		{1, nil, Decision{Action: Finish}},
		{3, nil, Decision{Action: Finish}},
		{1, plain, Decision{Retry, 100 * ms}},
		{2, fmt.Errorf("calling: %w", plain), Decision{Retry, 200 * ms}},
		{3, plain, Decision{Action: DeadLetter}},
		{4, plain, Decision{Action: DeadLetter}},
		{1, &Error{Class: Permanent, Err: plain}, Decision{Action: DeadLetter}},
		{1, fmt.Errorf("calling: %w", &Error{Class: Permanent, Err: plain}), Decision{Action: DeadLetter}},
		{1, &Error{Class: Logical, Err: plain}, Decision{Action: Finish}},
		{3, &Error{Class: Logical, Err: plain}, Decision{Action: Finish}},
		{1, limited, Decision{Retry, 5 * time.Second}},
		{1, &Error{RetryAfter: ms, Err: plain}, Decision{Retry, 100 * ms}},
		{3, limited, Decision{Action: DeadLetter}},
	} {
		if got := policy.Decide(&kgo.Record{}, c.attempts, c.err); got != c.want {
			t.Errorf("after %d attempts and %v: %+v, want %+v", c.attempts, c.err, got, c.want)
		}
	}
	if got := (Bounded{Random: none}).Republish(1); got != minRepublish {
		t.Errorf("without a backoff a dead letter is republished after %s, want %s", got, minRepublish)
	}
	if got := policy.Republish(10); got != time.Second {
		t.Errorf("a dead letter refused ten times is republished after %s, want the cap", got)
	}
}

// TestRetriesAreDueWhenThePolicySays drives the scheduler with a fake clock. Attempts that take no time must be
// exactly the policy's waits apart, whatever else is going on, and other lanes must not be delayed.
func TestRetriesAreDueWhenThePolicySays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := Bounded{MaxAttempts: 4, Backoff: Backoff{Initial: 100 * ms, Cap: 300 * ms, Exponential: true}, Random: none}
		s := newScheduler()
		home := &partition{}
		begun := time.Now()
		const tasks = 30
		for i := range tasks {
			s.add(&task{home: home, slot: uint64(i)}, uint64(i%10), true)
		}
		at := map[uint64][]time.Duration{}
		for finished := 0; finished < tasks; {
			for next := s.next(); next != nil; next = s.next() {
				next.attempts++
				at[next.slot] = append(at[next.slot], time.Since(begun))
				var err error
				if next.slot%10 == 0 {
					err = errors.New("down") // all of lane 0
				}
				if decision := policy.Decide(nil, next.attempts, err); decision.Action == Retry {
					s.later(next, waiting, time.Now().Add(decision.Wait))
					continue
				}
				finished++
				s.release(next)
			}
			due, ok := s.wake()
			if !ok {
				break
			}
			time.Sleep(time.Until(due))
			for next := s.expired(time.Now()); next != nil; next = s.expired(time.Now()) {
				s.ready(next)
			}
		}
		for slot := range uint64(tasks) {
			want := []time.Duration{0}
			if slot%10 == 0 {
				first := time.Duration(slot/10) * 600 * ms // 100 + 200 + 300 for each before it in its lane
				want = []time.Duration{first, first + 100*ms, first + 300*ms, first + 600*ms}
			}
			if fmt.Sprint(at[slot]) != fmt.Sprint(want) {
				t.Errorf("task %d was tried at %v, want %v", slot, at[slot], want)
			}
		}
	})
}
