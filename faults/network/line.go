package network

import (
	"context"
	"sync"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// line is the path of the chunks of one direction while faults shape it: a sequence of toxics, then a writer.
//
// Nothing in it can hang. Every stub ends when its input ends, which the pump ensures. A waiting toxic is interrupted
// when its fault is lifted or the pair is closed. A toxic that cannot pass on its chunk waits for the writer. The
// writer waits for a peer to read, like a plain write, but discards everything after a failed write. Closing the pair
// makes writes fail.
type line struct {
	input chan *stream.StreamChunk
	wg    sync.WaitGroup
	stop  []func() bool
}

// onTheWay is the number of chunks that a line with latency holds, so that a slow link continues to accept data.
// toxiproxy's latency holds the same number.
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
		// Without a variation of the size, the slicer is deterministic. It halves a chunk until the pieces are small
		// enough.
		slicer := &toxics.SlicerToxic{AverageSize: int(f.spec.Slicer.Size.Bytes()),
			Delay: int(f.spec.Slicer.Delay.D().Microseconds())}
		output = l.stage(m.pair, output, slicer, f)
	}
	l.wg.Go(func() { m.write(output) })
	return l
}

// stage runs a fault's toxic until its input ends. When the fault has been lifted, or the pair closed, data under way
// and all further data pass at once.
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

// write writes the output of the toxics. After a failure it continues to read, so that no toxic blocks. If the
// direction has fallen silent, data that was on its way is discarded like the data after it.
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

// gone ends the connection because its receiver is gone, unless a fault hides that. It reports whether it ended it.
func (m *pump) gone(size int) bool {
	if m.pair.silencer(m.direction) != nil && m.pair.swallow(m.direction, size) {
		return false
	}
	m.pair.linger()
	m.pair.close(nil, true)
	return true
}

// finish closes the line's input and waits until the line is empty.
func (l *line) finish() {
	close(l.input)
	l.wg.Wait()
	for _, stop := range l.stop {
		stop()
	}
}
