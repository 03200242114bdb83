package network

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/internal/units"
)

// The waits of chunks are tested with a fake clock, to the nanosecond.

func testFault(spec Network, seed uint64) *fault {
	return newFault(spec, seed, newLedger(faults.NewActive(faults.Planned{}, &effects{}, clock{})))
}

func testPump(number uint64, direction stream.Direction) *pump {
	p := &pair{number: number}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return newPump(p, direction, nil, nil)
}

func TestLatencyToxicWaitsTheLatencyAndTheSeededJitter(t *testing.T) {
	run := func(seed, number uint64, direction stream.Direction) []time.Duration {
		var waits []time.Duration
		synctest.Test(t, func(t *testing.T) {
			m := testPump(number, direction)
			spec := Network{Latency: units.Duration(20*time.Millisecond + 300*time.Microsecond),
				Jitter: units.Duration(7 * time.Millisecond)}
			f := testFault(spec, seed)
			l := &line{input: make(chan *stream.StreamChunk, 10)}
			output := l.stage(m.pair, l.input, newDelay(f, m.jitter(f)), f)
			for range 20 {
				start := time.Now()
				l.input <- &stream.StreamChunk{Timestamp: start}
				<-output
				wait := time.Since(start)
				if wait < spec.Latency.D() || wait >= spec.Latency.D()+spec.Jitter.D() {
					t.Fatalf("waited %v, latency %v, jitter up to %v", wait, spec.Latency, spec.Jitter)
				}
				waits = append(waits, wait)
			}
			l.finish()
			m.pair.cancel()
			f.end()
		})
		return waits
	}
	same := func(a, b []time.Duration) bool {
		for i := range a {
			if a[i] != b[i] {
				return false
			}
		}
		return true
	}
	first := run(1, 1, stream.Upstream)
	if !same(first, run(1, 1, stream.Upstream)) {
		t.Error("the same seed gives other jitter")
	}
	for _, other := range [][]time.Duration{run(2, 1, stream.Upstream), run(1, 2, stream.Upstream),
		run(1, 1, stream.Downstream)} {
		if same(first, other) {
			t.Error("another seed, connection or direction gives the same jitter")
		}
	}
}

// For any chunks and any rate, including rates below 1 kB/s, the last byte leaves exactly when the link has had the
// time for all of them.
func TestThrottleKeepsTheRate(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rate := rapid.Int64Range(1, 10<<20).Draw(r, "rate")
		sizes := rapid.SliceOfN(rapid.IntRange(1, int(min(rate, 64<<10))), 1, 8).Draw(r, "sizes")
		synctest.Test(t, func(*testing.T) {
			m := testPump(1, stream.Upstream)
			f := testFault(Network{Bandwidth: units.Size(rate)}, 1)
			l := &line{input: make(chan *stream.StreamChunk, len(sizes))}
			output := l.stage(m.pair, l.input, &throttle{pacer: &f.pacers[0]}, f)
			start, total := time.Now(), 0
			for _, size := range sizes {
				l.input <- &stream.StreamChunk{Data: make([]byte, size)}
				total += size
			}
			for got := 0; got < total; {
				got += len((<-output).Data)
			}
			took, exact := time.Since(start), time.Duration(float64(total)/float64(rate)*float64(time.Second))
			if diff := (took - exact).Abs(); diff > time.Microsecond+exact/1e6 {
				r.Errorf("%d bytes at %d bytes/s took %v, want %v", total, rate, took, exact)
			}
			l.finish()
			m.pair.cancel()
			f.end()
		})
	})
}

// Two latencies add up exactly, and lifting one removes exactly its own delay, also from data on its way.
func TestLatenciesAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testPump(1, stream.Upstream)
		first := testFault(Network{Latency: units.Duration(30 * time.Millisecond)}, 1)
		second := testFault(Network{Latency: units.Duration(20 * time.Millisecond)}, 2)
		l := &line{input: make(chan *stream.StreamChunk, 10)}
		output := l.stage(m.pair, l.stage(m.pair, l.input, newDelay(first, nil), first), newDelay(second, nil), second)
		pass := func(meanwhile func(), want time.Duration) {
			start := time.Now()
			l.input <- &stream.StreamChunk{Timestamp: start}
			meanwhile()
			<-output
			if took := time.Since(start); took != want {
				t.Errorf("waited %v, want %v", took, want)
			}
		}
		pass(func() {}, 50*time.Millisecond)
		pass(func() {
			time.Sleep(5 * time.Millisecond)
			first.end()
		}, 20*time.Millisecond)
		pass(func() {}, 20*time.Millisecond)
		l.finish()
		m.pair.cancel()
		second.end()
	})
}
