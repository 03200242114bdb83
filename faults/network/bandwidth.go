package network

import (
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// throttle is a toxic that limits the bandwidth of a link. All connections of the link share the rate, separately for
// each direction. toxiproxy's own toxic limits each connection separately, counts in whole kB/s, treats a rate below
// 1 kB/s as no limit, and logs through a global logger.
type throttle struct{ pacer *pacer }

var _ toxics.Toxic = (*throttle)(nil)

// pieceTime is the time after which part of a large chunk is passed on, so that data trickles instead of arriving in
// bursts.
const pieceTime = 20 * time.Millisecond

// Pipe passes on each piece when the link has had the time to carry it.
func (t *throttle) Pipe(stub *toxics.ToxicStub) {
	eachChunk(stub, func(chunk *stream.StreamChunk) bool { return t.carry(stub, chunk) })
}

// eachChunk calls carry with each chunk, until it returns false because it was interrupted.
func eachChunk(stub *toxics.ToxicStub, carry func(*stream.StreamChunk) bool) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return
			}
			if !carry(chunk) {
				return
			}
		}
	}
}

// carry returns false if it was interrupted. It then has passed on the rest of the chunk.
func (t *throttle) carry(stub *toxics.ToxicStub, chunk *stream.StreamChunk) bool {
	for data := chunk.Data; len(data) > 0; {
		n := min(len(data), t.pacer.size(pieceTime))
		select {
		case <-time.After(time.Until(t.pacer.reserve(n))):
			stub.Output <- &stream.StreamChunk{Data: data[:n], Timestamp: chunk.Timestamp}
			data = data[n:]
		case <-stub.Interrupt:
			stub.Output <- &stream.StreamChunk{Data: data, Timestamp: chunk.Timestamp}
			return false
		}
	}
	return true
}

// pacer allocates the time of a link that carries rate bytes per second.
type pacer struct {
	rate float64
	mu   sync.Mutex
	free time.Time // when the link has carried everything that was reserved
}

// size returns how many bytes the link carries in d, at least one.
func (p *pacer) size(d time.Duration) int { return max(1, int(p.rate*d.Seconds())) }

// reserve returns the time when the link will have carried n more bytes.
func (p *pacer) reserve(n int) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	return p.free
}
