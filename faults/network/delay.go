package network

import (
	"math/rand/v2"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// delay is a toxic that holds each chunk for a time after it was read. toxiproxy's own toxic counts in whole
// milliseconds and draws its jitter from a global source, and two of them on one link do not add up correctly.
type delay struct {
	latency, jitter time.Duration
	source          *rand.Rand
}

var _ toxics.Toxic = (*delay)(nil)

func newDelay(f *fault, source *rand.Rand) *delay {
	return &delay{latency: f.spec.Latency.D(), jitter: f.spec.Jitter.D(), source: source}
}

// Pipe passes on each chunk when it is due, stamped with that time, from which a further delay counts. When
// interrupted, it passes chunks on at once with their original stamp.
func (d *delay) Pipe(stub *toxics.ToxicStub) {
	eachChunk(stub, func(chunk *stream.StreamChunk) bool {
		due := chunk.Timestamp.Add(d.next())
		select {
		case <-time.After(time.Until(due)):
			stub.Output <- &stream.StreamChunk{Data: chunk.Data, Timestamp: due}
			return true
		case <-stub.Interrupt:
			stub.Output <- chunk
			return false
		}
	})
}

// next draws the wait of the next chunk.
func (d *delay) next() time.Duration {
	if d.jitter <= 0 {
		return d.latency
	}
	return d.latency + time.Duration(d.source.Int64N(int64(d.jitter)))
}
