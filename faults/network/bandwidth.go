package network

import (
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// throttle is a toxic that limits the bandwidth of a link: all its connections share the rate, separately for each
// direction. toxiproxy's own limits each connection by itself, counts in whole kB/s, takes less than one for no limit,
// and logs through a global logger.
type throttle struct{ pacer *pacer }

var _ toxics.Toxic = (*throttle)(nil)

// pieceTime is the time after which part of a large chunk is handed on, so that data trickles rather than comes in
// bursts.
const pieceTime = 20 * time.Millisecond

// Pipe hands on each piece when the link has had the time to carry it.
func (t *throttle) Pipe(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return
			}
			if !t.carry(stub, chunk) {
				return
			}
		}
	}
}

// carry reports false when it was interrupted; then the rest of the chunk has been handed on.
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

// pacer shares out the time of a link that carries rate bytes per second.
type pacer struct {
	rate float64
	mu   sync.Mutex
	free time.Time // when the link has carried all that was reserved
}

// size is how much the link carries in d, at least one byte.
func (p *pacer) size(d time.Duration) int { return max(1, int(p.rate*d.Seconds())) }

// reserve returns when the link will have carried n more bytes.
func (p *pacer) reserve(n int) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	return p.free
}
