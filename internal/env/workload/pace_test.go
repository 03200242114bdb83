package workload

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

func TestPaceSendsEveryRecordAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := history.NewClock()
		const base = 100 * time.Millisecond
		// Dense, then a gap, then a burst at one instant.
		var times []time.Duration
		for i := range 1000 {
			times = append(times, time.Duration(i)*50*time.Microsecond)
		}
		for range 100 {
			times = append(times, 3*time.Second)
		}
		next := 0
		err := pace(t.Context(), clock, base, len(times), func(i int) time.Duration { return times[i] }, func(i int) {
			if i != next {
				t.Errorf("record %d came when %d was due", i, next) // not Fatal: a waker calls this
			}
			next++
			if slip := clock.Now() - base - times[i]; slip < 0 || slip > restBetweenWakes {
				t.Errorf("record %d was sent %v after its time", i, slip)
			}
		})
		if err != nil || next != len(times) {
			t.Fatalf("sent %d of %d: %v", next, len(times), err)
		}
	})
}

// When the system holds up one waker's thread, the other keeps the pace by itself.
func TestOneWakerAloneKeepsThePace(t *testing.T) {
	for held := range wakers {
		synctest.Test(t, func(t *testing.T) {
			clock := history.NewClock()
			at := func(i int) time.Duration { return time.Duration(i) * 70 * time.Microsecond }
			sent := 0
			p := &pacer{clock: clock, count: 1000, at: at, send: func(i int) {
				sent++
				if slip := clock.Now() - at(i); slip < 0 || slip > restBetweenWakes {
					t.Errorf("with waker %d held up, record %d was sent %v after its time", held, i, slip)
				}
			}}
			p.wake(t.Context(), time.Duration(wakers-1-held)*restBetweenWakes/wakers)
			if sent != 1000 {
				t.Errorf("with waker %d held up, %d of 1000 records were sent", held, sent)
			}
		})
	}
}

// A target that blocks delays the records due meanwhile. It must neither delay the later records nor drop any.
func TestPaceIsNotSlowedDownByASlowTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := history.NewClock()
		const gap, block = time.Millisecond, 200 * time.Millisecond
		late := 0
		err := pace(t.Context(), clock, 0, 1000, func(i int) time.Duration { return time.Duration(i) * gap }, func(i int) {
			slip := clock.Now() - time.Duration(i)*gap
			if slip > gap {
				late++
			}
			if i > 401 && slip > restBetweenWakes {
				t.Errorf("record %d is still %v late, long after the target was freed", i, slip)
			}
			if i == 200 {
				time.Sleep(block)
			}
		})
		if err != nil || late < 150 || late > 200 {
			t.Fatalf("%d records were late, want the about 200 of the blocked stretch; %v", late, err)
		}
	})
}

func TestPaceEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		sent := 0
		err := pace(ctx, history.NewClock(), 0, 1000, func(i int) time.Duration {
			return time.Duration(i) * time.Second
		}, func(i int) {
			sent++
			if i == 5 {
				cancel(stop)
			}
		})
		if !errors.Is(err, stop) || sent != 6 {
			t.Fatalf("sent %d, then %v; want 6 and the cause", sent, err)
		}
	})
}

// jumpingClock can be moved forward, as if the whole program had not run meanwhile.
type jumpingClock struct {
	history.Clock
	jump atomic.Int64
}

func (c *jumpingClock) Now() time.Duration { return c.Clock.Now() + time.Duration(c.jump.Load()) }

func TestMonitorStallsNotesOnlyStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		clock, sink := &jumpingClock{Clock: history.NewClock()}, &events{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			MonitorStalls(ctx, clock, sink)
		}()
		sleepJump := func(jump time.Duration) {
			time.Sleep(101 * time.Millisecond)
			synctest.Wait()
			clock.jump.Add(int64(jump))
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		sleepJump(0)
		sleepJump(9 * time.Millisecond)
		if got := sink.of(history.KindStall); len(got) != 0 {
			t.Fatalf("noted %v without a stall", got)
		}
		sleepJump(40 * time.Millisecond)
		cancel()
		<-done
		got := sink.of(history.KindStall)
		if len(got) != 1 || got[0].Instance != history.None || got[0].Aux != int64(40*time.Millisecond) {
			t.Fatalf("noted %+v, want one stall of 40ms of the harness", got)
		}
	})
}
