package network

import (
	"context"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// line is the way that the chunks of one direction take while faults are in force: toxics one after the other, then a writer.
//
// Nothing in it can hang. Every stub ends when its input ends, which the pump sees to. A toxic that waits is interrupted when its
// fault is healed or the pair closed. One that can't hand on waits for the writer, which waits for a peer to read, as a
// plain write would, but after a failed write swallows everything; and closing the pair makes writes fail.
type line struct {
	input chan *stream.StreamChunk
	// silent: everything given to the line is dropped.
	silent bool
	wg     sync.WaitGroup
	stop   []func() bool
}

func newLine(m *pump, faults []*fault) *line {
	l := &line{input: make(chan *stream.StreamChunk, new(toxics.LatencyToxic).GetBufferSize())}
	var delay time.Duration
	var delaying, throttling []*fault
	for _, f := range faults {
		switch f.kind {
		case silence:
			l.silent = true
		case latency:
			// One toxic for all latencies: toxiproxy's passes the shift of a timestamp on, the next would wait it again.
			delay += f.spec.Latency.D().Truncate(time.Millisecond)
			delaying = append(delaying, f)
		case bandwidth:
			throttling = append(throttling, f)
		}
	}
	var output <-chan *stream.StreamChunk = l.input
	if l.silent {
		output = l.stage(m.pair, output, &toxics.TimeoutToxic{}, nil)
	} else {
		if len(delaying) > 0 {
			output = l.stage(m.pair, output, &toxics.LatencyToxic{Latency: delay.Milliseconds()}, delaying)
		}
		for _, f := range throttling {
			output = l.stage(m.pair, output, &throttle{pacer: &f.pacers[m.direction]}, []*fault{f})
		}
	}
	l.wg.Go(func() { write(m, output) })
	return l
}

// stage runs a toxic until its input ends; when one of its faults has been healed, or the pair closed, what is still under way
// and what follows passes at once.
func (l *line) stage(p *pair, input <-chan *stream.StreamChunk, toxic toxics.Toxic, faults []*fault) <-chan *stream.StreamChunk {
	output := make(chan *stream.StreamChunk)
	stub := toxics.NewToxicStub(input, output)
	over, cancel := context.WithCancel(p.ctx)
	for _, f := range faults {
		l.stop = append(l.stop, context.AfterFunc(f.ctx, cancel))
	}
	l.stop = append(l.stop, func() bool { cancel(); return true })
	ended := make(chan struct{})
	l.wg.Go(func() {
		defer close(ended)
		stub.Run(&toxics.ToxicWrapper{Toxic: toxic, Toxicity: 1})
	})
	l.wg.Go(func() {
		select {
		case <-over.Done():
		case <-ended:
			return
		}
		if stub.InterruptToxic() {
			stub.Run(&toxics.ToxicWrapper{Toxic: new(toxics.NoopToxic), Toxicity: 1})
		}
	})
	return output
}

// write writes what comes out of the toxics. It reads on after a failure, so that nobody waits for it.
func write(m *pump, output <-chan *stream.StreamChunk) {
	failed := false
	for chunk := range output {
		if failed || m.pair.holed.Load() {
			continue
		}
		if _, err := m.to.Write(chunk.Data); err != nil {
			failed = true
			m.pair.close(true)
		}
	}
}

// finish gives the line nothing more and waits until it is empty.
func (l *line) finish() {
	close(l.input)
	l.wg.Wait()
	for _, stop := range l.stop {
		stop()
	}
}
