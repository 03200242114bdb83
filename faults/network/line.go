package network

import (
	"context"
	"sync"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// line is the way that the chunks of one direction take while faults shape it: toxics one after the other, then a
// writer.
//
// Nothing in it can hang. Every stub ends when its input ends, which the pump sees to. A toxic that waits is
// interrupted when its fault is healed or the pair closed. One that can't hand on waits for the writer, which waits for
// a peer to read, as a plain write would, but after a failed write swallows everything; and closing the pair makes
// writes fail.
type line struct {
	input chan *stream.StreamChunk
	wg    sync.WaitGroup
	stop  []func() bool
}

// onTheWay is how many chunks a line with latency holds: a slow link goes on taking data. toxiproxy's latency holds as
// many.
const onTheWay = 1024

// newLine returns a line with a stage for each of the faults: latencies, then bandwidths, then slicers.
func newLine(m *pump, shapers []*fault) *line {
	l := &line{}
	var delays, throttles, slicers []*fault
	for _, f := range shapers {
		switch f.kind {
		case latency:
			delays = append(delays, f)
		case bandwidth:
			throttles = append(throttles, f)
		default:
			slicers = append(slicers, f)
		}
	}
	room := 0
	if len(delays) > 0 {
		room = onTheWay
	}
	l.input = make(chan *stream.StreamChunk, room)
	var output <-chan *stream.StreamChunk = l.input
	for _, f := range delays {
		output = l.stage(m.pair, output, newDelay(f, m.jitter(f)), f)
	}
	for _, f := range throttles {
		output = l.stage(m.pair, output, &throttle{pacer: &f.pacers[m.direction]}, f)
	}
	for _, f := range slicers {
		// Without a variation of the size nothing in it is random. It halves what is too large until the pieces are
		// not.
		slicer := &toxics.SlicerToxic{AverageSize: int(f.spec.Slicer.Size.Bytes()),
			Delay: int(f.spec.Slicer.Delay.D().Microseconds())}
		output = l.stage(m.pair, output, slicer, f)
	}
	l.wg.Go(func() { m.write(output) })
	return l
}

// stage runs a fault's toxic until its input ends; when the fault has been healed, or the pair closed, what is still
// under way and what follows passes at once.
func (l *line) stage(p *pair, input <-chan *stream.StreamChunk, toxic toxics.Toxic,
	f *fault) <-chan *stream.StreamChunk {
	output := make(chan *stream.StreamChunk)
	stub := toxics.NewToxicStub(input, output)
	over, cancel := context.WithCancel(p.ctx)
	l.stop = append(l.stop, context.AfterFunc(f.ctx, cancel), func() bool { cancel(); return true })
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

// write writes what comes out of the toxics. It reads on after a failure, so that nobody waits for it. What was on its
// way when the direction fell silent is swallowed like what follows.
func (m *pump) write(output <-chan *stream.StreamChunk) {
	failed := false
	for chunk := range output {
		switch {
		case failed:
		case m.pair.silencer(m.direction) != nil:
			if failed = !m.pair.swallow(m.direction, len(chunk.Data)); failed {
				m.pair.close(nil, true)
			}
		case m.pair.holed[m.direction].Load():
		default:
			if _, err := m.to.Write(chunk.Data); err != nil {
				failed = m.gone(len(chunk.Data))
			}
		}
	}
}

// gone ends the connection because its receiver is gone, unless a fault hides that; it reports whether it did.
func (m *pump) gone(size int) bool {
	if m.pair.silencer(m.direction) != nil && m.pair.swallow(m.direction, size) {
		return false
	}
	m.pair.linger()
	m.pair.close(nil, true)
	return true
}

// finish gives the line nothing more and waits until it is empty.
func (l *line) finish() {
	close(l.input)
	l.wg.Wait()
	for _, stop := range l.stop {
		stop()
	}
}
