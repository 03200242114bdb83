package faults

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// meeting is an injector whose faults meet something at a given time after their injection.
type meeting struct{ after time.Duration }

func (m meeting) Inject(_ context.Context, active Active) (Heal, error) {
	timer := time.AfterFunc(m.after, func() { active.Effect("requests answered", 1, 0, history.None) })
	return func(context.Context) error { timer.Stop(); return nil }, nil
}

// times are the start and end times of faults.
type times struct {
	mu sync.Mutex
	of map[history.Kind][]time.Duration
}

func (t *times) Record(event history.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of[event.Kind] = append(t.of[event.Kind], event.Time.Round(time.Millisecond))
}

func TestWindowsFollowWhatTheyStrike(t *testing.T) {
	one := Planned{Index: 0, Patient: true,
		PlannedFault: history.PlannedFault{Kind: "kafka", At: time.Second, For: 2 * time.Second}}
	next := Planned{Index: 1, PlannedFault: history.PlannedFault{Kind: "broker", At: 4 * time.Second, For: time.Second}}
	optional := one
	optional.MayMiss = true
	for _, test := range []struct {
		what       string
		first      Planned
		met        time.Duration
		starts     []time.Duration
		ends       []time.Duration
		closing    time.Duration
		unattended bool
	}{
		{"what is met in time ends as planned", one, time.Second, []time.Duration{time.Second, 4 * time.Second},
			[]time.Duration{3 * time.Second, 5 * time.Second}, time.Minute, false},
		{
			"what meets nothing stays until it does, and what follows waits", one, 6 * time.Second,
			[]time.Duration{time.Second, 9 * time.Second}, []time.Duration{9 * time.Second, 10 * time.Second},
			time.Minute, false,
		},
		{
			"nothing further can come", one, time.Hour, []time.Duration{time.Second, 8 * time.Second},
			[]time.Duration{8 * time.Second, 9 * time.Second}, 8 * time.Second, false,
		},
		{
			"nothing hangs on its effect", optional, time.Hour, []time.Duration{time.Second, 4 * time.Second},
			[]time.Duration{3 * time.Second, 5 * time.Second}, time.Minute, false,
		},
		{
			"nobody says when nothing further can come", one, time.Hour, []time.Duration{time.Second, 4 * time.Second},
			[]time.Duration{3 * time.Second, 5 * time.Second}, 0, true,
		},
	} {
		t.Run(test.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := &times{of: map[history.Kind][]time.Duration{}}
				closing := make(chan struct{})
				nemesis := &Nemesis{
					Injectors: map[string]Injector{"kafka": meeting{test.met}, "broker": meeting{0}}, Sink: seen,
					Clock: history.NewClock(), Steady: 6 * time.Second,
				}
				if !test.unattended {
					nemesis.Closing = closing
					time.AfterFunc(test.closing, func() { close(closing) })
				}
				if err := nemesis.Run(t.Context(), 0, []Planned{test.first, next}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Minute)
				for kind, want := range map[history.Kind][]time.Duration{history.KindFaultStart: test.starts,
					history.KindFaultEnd: test.ends} {
					for i, at := range want {
						if got := seen.of[kind]; len(got) != len(want) || got[i] != at {
							t.Errorf("%s at %v, want %v", kind, got, want)
							break
						}
					}
				}
			})
		})
	}
}

// A fault that is late because of the previous one has not started when the next one is due. The next one waits all
// the same.
func TestLateFaultsKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var schedule []Planned
		for _, i := range []int{1, 0, 2} { // in any order
			schedule = append(schedule, Planned{Index: i, Patient: true, PlannedFault: history.PlannedFault{Kind: "kafka",
				At: time.Duration(1+3*i) * time.Second, For: 2 * time.Second}})
		}
		seen := &times{of: map[history.Kind][]time.Duration{}}
		nemesis := &Nemesis{Injectors: map[string]Injector{"kafka": meeting{20 * time.Second}}, Sink: seen,
			Clock: history.NewClock(), Steady: 10 * time.Second, Closing: make(chan struct{})}
		if err := nemesis.Run(t.Context(), 0, schedule); err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{time.Second, 23 * time.Second, 45 * time.Second}
		if got := seen.of[history.KindFaultStart]; !slices.Equal(got, want) {
			t.Errorf("faults began at %v, want %v", got, want)
		}
	})
}
