package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// diary plays all parts around the nemesis: the injector, the sink and the source of triggers. It records what
// happens when.
type diary struct {
	history.Clock
	// comes is the time of the event that faults wait for; 0 means never.
	comes time.Duration
	// heals is how long it takes to lift a fault if it is not cut short.
	heals time.Duration

	mu      sync.Mutex
	entries []string
	awaited Trigger
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, fmt.Sprintf("%v ", d.Now())+fmt.Sprintf(format, args...))
}

func (d *diary) Inject(_ context.Context, active Active) (Heal, error) {
	d.note("inject %s", active.Name)
	return func(ctx context.Context) error {
		if !SleepUntil(ctx, d, d.Now()+d.heals) {
			d.note("healing cut short")
			return ctx.Err()
		}
		d.note("heal %s", active.Name)
		return nil
	}, nil
}

func (d *diary) Record(event history.Event) { d.note("%v", event.Kind) }

func (d *diary) Await(ctx context.Context, trigger Trigger) bool {
	d.mu.Lock()
	d.awaited = trigger
	d.mu.Unlock()
	if d.comes == 0 {
		<-ctx.Done()
		return false
	}
	return SleepUntil(ctx, d, d.comes)
}

func TestNemesis(t *testing.T) {
	const steady = time.Second
	for _, test := range []struct {
		name        string
		trigger     TriggerEvent
		after       time.Duration
		comes       time.Duration
		interrupted time.Duration
		want        string
	}{
		{"by the clock", "", 0, 0, 0, "2s fault-start, 2s inject one, 5s heal one, 5s fault-end"},
		{"interrupted while in force", "", 0, 0, 3 * time.Second,
			"2s fault-start, 2s inject one, 3s heal one, 3s fault-end"},
		{"interrupted before its time", "", 0, 0, 1500 * time.Millisecond, ""},
		{"an event", "first-retry", 0, 4 * time.Second, 0,
			"4s fault-start, 4s inject one, 7s heal one, 7s fault-end"},
		{"a while after an event", "first-retry", time.Second, 4 * time.Second, 0,
			"5s fault-start, 5s inject one, 8s heal one, 8s fault-end"},
		{"an event so late that the fault outlasts the steady phase", "backoff", 0, 10 * time.Second, 0,
			"10s fault-start, 10s inject one, 13s heal one, 13s fault-end"},
		{"an event after the steady phase", "first-retry", 0, 12 * time.Second, 0, ""},
		{"an event that never comes", "first-retry", 0, 0, 0, ""},
		{"interrupted while it waits", "first-retry", 0, 4 * time.Second, 3 * time.Second, ""},
		{"interrupted after the event", "first-retry", time.Minute, 4 * time.Second,
			5 * time.Second, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &diary{Clock: history.NewClock(), comes: test.comes}
				nemesis := Nemesis{Injectors: map[string]Injector{"network": d}, Sink: d, Clock: d, Triggers: d,
					Steady: 10 * time.Second}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.interrupted > 0 {
					time.AfterFunc(test.interrupted, cancel)
				}
				planned := Planned{After: test.after, PlannedFault: history.PlannedFault{Name: "one", Kind: "network",
					At: time.Second, For: 3 * time.Second}}
				if test.trigger != "" {
					planned.Trigger = &Trigger{Event: test.trigger}
				}
				if err := nemesis.Run(ctx, steady, []Planned{planned}); err != nil {
					t.Error(err)
				}
				if got := strings.Join(d.entries, ", "); got != test.want {
					t.Errorf("it did\n%s, want\n%s", got, test.want)
				}
				if limit := steady + nemesis.Steady + 5*time.Second; d.Now() > limit {
					t.Errorf("it took until %v", d.Now())
				}
			})
		})
	}
}

// After an interruption, a few seconds are left to lift a fault, however much time it had before.
func TestHealingIsShortenedByAnInterruption(t *testing.T) {
	for _, test := range []struct {
		interrupted time.Duration
		want        string
	}{
		{time.Hour, "1m43s healing cut short"},
		{8 * time.Second, "12s healing cut short"}, // while the fault is being lifted
		{time.Second, "5s healing cut short"},      // before
	} {
		synctest.Test(t, func(t *testing.T) {
			d := &diary{Clock: history.NewClock(), heals: time.Hour}
			nemesis := Nemesis{Injectors: map[string]Injector{"network": d}, Sink: d, Clock: d}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			defer time.AfterFunc(test.interrupted, cancel).Stop()
			planned := Planned{PlannedFault: history.PlannedFault{Name: "one", Kind: "network", For: 3 * time.Second}}
			err := nemesis.Run(ctx, 0, []Planned{planned})
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if late := strings.Contains(fmt.Sprint(err), "not seen to be back within 1m40s"); late != (ctx.Err() == nil) {
				t.Errorf("interrupted: %v; the error is %v", ctx.Err(), err)
			}
			if last := d.entries[len(d.entries)-1]; last != test.want {
				t.Errorf("it ended with %q, want %q", last, test.want)
			}
		})
	}
}

func TestNemesisErrors(t *testing.T) {
	d := &diary{Clock: history.NewClock()}
	for want, planned := range map[string]Planned{
		`no injector for kind "magic"`: {PlannedFault: history.PlannedFault{Kind: "magic"}},
		`"backoff" is not available in this run`: {Trigger: &Trigger{Event: TriggerBackoff},
			PlannedFault: history.PlannedFault{Kind: "network", When: "backoff"}},
	} {
		nemesis := Nemesis{Injectors: map[string]Injector{"network": d}, Sink: d, Clock: d}
		if err := nemesis.Run(t.Context(), 0, []Planned{planned}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
	if len(d.entries) > 0 {
		t.Errorf("it did %q", d.entries)
	}
}

func TestParseTrigger(t *testing.T) {
	for text, want := range map[string]Trigger{
		"first-retry":          {Event: TriggerFirstRetry, Instance: history.None},
		" first-dead-letter ":  {Event: TriggerFirstDeadLetter, Instance: history.None},
		"backoff":              {Event: TriggerBackoff, Instance: history.None},
		"lag > 100":            {Event: TriggerLag, Lag: 100, Instance: history.None},
		"lag>0":                {Event: TriggerLag, Instance: history.None},
		"instance 0 assigned":  {Event: TriggerAssigned, Instance: 0},
		"instance 12 assigned": {Event: TriggerAssigned, Instance: 12},
	} {
		if got, err := ParseTrigger(text); err != nil || got != want {
			t.Errorf("%q is %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "lag", "lag > ", "lag > -1", "lag < 5", "lag > 9999999999", "assigned",
		"instance assigned", "instance -1 assigned", "first", "First-Retry", "backoff now", "first-retry\nlag > 1"} {
		_, err := ParseTrigger(text)
		if err == nil {
			t.Errorf("%q is accepted", text)
			continue
		}
		for _, form := range []string{"first-retry", "first-dead-letter", "backoff", "lag > N", "instance N assigned"} {
			if !strings.Contains(err.Error(), form) {
				t.Errorf("%q: the error %q does not name %q", text, err, form)
			}
		}
	}
}
