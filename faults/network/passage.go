package network

// This file measures from outside what a toxiproxy server does to a connection. A passage is a connection's way through
// the server, seen at both of its ends. What goes in is compared with what comes out, and when.

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
)

// Tolerances of the measurement. Timers of the server may be early by clockNoise. A chunk that has not come out after
// gone, while its direction is silent, has been discarded.
const (
	clockNoise = time.Millisecond
	gone       = 50 * time.Millisecond
)

// passage is one connection through the server.
type passage struct {
	link *toxicLink
	// arrived is closed when the server's connection is at the exit. over is closed when the server has ended the
	// connection, or one of the far peers has.
	arrived, over chan struct{}
	// cut ends the connection at the entry.
	cut func()

	mu    sync.Mutex
	flows [stream.NumDirections]flow
	// farAt is when a far peer, the client or the upstream, was seen to be gone; wasReset that it was not a regular end.
	farAt    time.Time
	wasReset bool
	// closed: the server has ended the connection.
	closed bool
}

// flow is one direction of a passage.
type flow struct {
	entered, left int64
	// inside are the chunks that entered while a fault was in force and have not come out.
	inside []chunk
}

// chunk is data that entered at once.
type chunk struct {
	end, size int64 // the number of bytes that had entered with it, and its own
	at        time.Time
	pieces    int // the number of reads in which it came out so far
	swallowed bool
}

func newPassage(l *toxicLink) *passage {
	return &passage{link: l, arrived: make(chan struct{}), over: make(chan struct{}), cut: func() {}}
}

// entered notes data that goes into the server.
func (p *passage) entered(direction stream.Direction, size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	flow := &p.flows[direction]
	flow.entered += int64(size)
	if p.link.faults.Load() != nil {
		flow.inside = append(flow.inside, chunk{end: flow.entered, size: int64(size), at: time.Now()})
	}
}

// left notes data that came out of the server, and counts the effects on the chunks that are out with it.
func (p *passage) left(direction stream.Direction, size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	flow := &p.flows[direction]
	flow.left += int64(size)
	for i := range flow.inside {
		one := &flow.inside[i]
		if one.end-one.size >= flow.left {
			break
		}
		one.pieces++
	}
	for len(flow.inside) > 0 && flow.inside[0].end <= flow.left {
		p.felt(direction, &flow.inside[0])
		flow.inside = flow.inside[1:]
	}
}

// felt counts the effects of the faults in force on a chunk.
func (p *passage) felt(direction stream.Direction, one *chunk) {
	took := time.Since(one.at) + clockNoise
	for _, f := range members(p.link.faults.Load()) {
		if !f.directions[direction] {
			continue
		}
		switch {
		case f.kind == latency && took >= f.spec.Latency.D():
			f.ledger.add("bytes delayed", one.size)
		case f.kind == bandwidth && took-clockNoise >= transmission(one.size, f.spec.Bandwidth.Bytes()):
			f.ledger.add("bytes throttled", one.size)
		case f.kind == slicing && one.pieces > 1 && one.size > f.spec.Slicer.Size.Bytes():
			f.ledger.add("bytes sliced", one.size)
		}
	}
}

// transmission returns the time that a chunk takes at this rate, less a tenth, as the server makes up for a timer that
// was late.
func transmission(size, rate int64) time.Duration {
	return time.Duration(size * int64(time.Second) / rate * 9 / 10)
}

// sweep counts chunks that a silent server has discarded. It reports whether the connection has lost data.
func (p *passage) sweep(f *fault, older time.Duration) (lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for direction := range p.flows {
		if !f.directions[direction] {
			continue
		}
		inside := p.flows[direction].inside
		for i := range inside {
			if !inside[i].swallowed && time.Since(inside[i].at) >= older {
				inside[i].swallowed = true
				f.ledger.add("bytes swallowed", inside[i].size)
			}
			lost = lost || inside[i].swallowed
		}
	}
	return lost && !p.closed
}

// farEnded notes that the client or the upstream is gone.
func (p *passage) farEnded(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.farAt.IsZero() && !p.closed {
		p.farAt, p.wasReset = time.Now(), !errors.Is(err, io.EOF)
	}
}

// serverEnded notes that the server has ended the connection: because a far peer did, or else because of a fault. It
// reports whether the other peer is to see a reset. The server turns every reset into a regular end, and ends
// connections that existed before a reset_peer with one.
func (p *passage) serverEnded() (asReset bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return p.wasReset
	}
	p.closed = true
	close(p.over)
	for _, f := range members(p.link.faults.Load()) {
		switch {
		case p.farAt.IsZero() && (f.kind == down || f.kind == resets || f.kind == limit || f.kind == silence):
			f.ledger.add("connections cut", 0)
			p.wasReset = f.kind == resets
			return p.wasReset
		case !p.farAt.IsZero() && f.kind == slowClose && time.Since(p.farAt)+clockNoise >= f.spec.SlowClose.D():
			f.ledger.add("closes delayed", 0)
		}
	}
	return p.wasReset
}

// cutUnlessOver ends the connection if the server has not.
func (p *passage) cutUnlessOver() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.cut()
	}
}

// view is one end of a passage.
type view struct {
	*passage
	// inward is the direction of the data that enters here. The data of the other direction comes out here.
	inward stream.Direction
}

var _ observer = view{}

// passed implements observer.
func (v view) passed(direction stream.Direction, size int) {
	if direction == v.inward {
		v.entered(direction, size)
	} else {
		v.left(direction, size)
	}
}

// ended implements observer. At the entry, the server is the upstream; at the exit, it is the client.
func (v view) ended(atUpstream bool, err error) (asReset bool) {
	if atUpstream == (v.inward == stream.Upstream) {
		return v.serverEnded()
	}
	v.farEnded(err)
	return false
}
