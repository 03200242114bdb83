package network

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"
	"github.com/Shopify/toxiproxy/v2/stream"

	"github.com/dlqbench/dlqbench/faults"
)

// fault is the part of a fault that concerns one link.
type fault struct {
	kind kind
	spec Network
	// share is the share of connections that is hit.
	share float64
	// directions are the directions that are hit.
	directions [stream.NumDirections]bool
	seed       uint64
	ledger     *ledger
	pacers     [stream.NumDirections]pacer
	// toxics are what a toxiproxy server has of the fault.
	toxics []toxiproxy.Toxic
	// existing is the number of the last connection that the link had accepted when the fault came into force. If the
	// fault hit none of the connections open then, it is the number of the first connection after that.
	existing atomic.Uint64
	// missed: the fault hits existing connections and has found none so far. The link's lock guards it.
	missed bool
	// ctx ends when the fault has been lifted.
	ctx context.Context
	end context.CancelFunc
}

// newFault returns the fault of one link. A kind of fault without a Direction hits both directions.
func newFault(spec Network, seed uint64, ledger *ledger) *fault {
	chosen, _ := faults.Chosen(actions(), &spec)
	f := &fault{kind: chosen.Do, spec: spec, share: cmp.Or(spec.Toxicity.Share(), 1), seed: seed, ledger: ledger}
	either := spec.Direction != directionRequests && spec.Direction != directionResponses || !spec.directed()
	f.directions = [stream.NumDirections]bool{
		stream.Upstream:   either || spec.Direction == directionRequests,
		stream.Downstream: either || spec.Direction == directionResponses,
	}
	for i := range f.pacers {
		f.pacers[i].rate = float64(spec.Bandwidth.Bytes())
	}
	f.ctx, f.end = context.WithCancel(context.Background())
	return f
}

// selects reports whether the fault hits the connection with this number on its link. The choice depends only on the
// fault's seed and the number, so the same seed hits the same connections in any order of calls.
func (f *fault) selects(number uint64) bool {
	return f.share >= 1 || rand.New(rand.NewPCG(f.seed, ^number)).Float64() < f.share
}

// touches reports whether the fault hits one direction of a connection.
func (f *fault) touches(p *pair, direction stream.Direction) bool {
	return f.directions[direction] && f.selects(p.number)
}

// silences reports whether no data may pass in one direction of a connection while the fault is in force.
func (f *fault) silences(p *pair, direction stream.Direction) bool {
	switch f.kind {
	case silence:
		return f.touches(p, direction)
	case halfOpen:
		return p.number <= f.existing.Load() && f.touches(p, direction)
	}
	return false
}

// shapes reports whether data takes the path through a line because of the fault; see line.
func (f *fault) shapes() bool { return f.kind == latency || f.kind == bandwidth || f.kind == slicing }

// jitter returns the source of the wait that a direction of a connection has in addition to the latency.
func (f *fault) jitter(p *pair, direction stream.Direction) *rand.Rand {
	return rand.New(rand.NewPCG(f.seed, p.number<<1|uint64(direction)))
}

// impeded counts a chunk that the fault shapes.
func (f *fault) impeded(size int) {
	switch {
	case f.kind == latency:
		f.ledger.add("bytes delayed", int64(size))
	case f.kind == bandwidth:
		f.ledger.add("bytes throttled", int64(size))
	case int64(size) > f.spec.Slicer.Size.Bytes():
		f.ledger.add("bytes sliced", int64(size))
	}
}

// wait waits for d, or until the fault is lifted or ctx ends.
func (f *fault) wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-f.ctx.Done():
	case <-ctx.Done():
	}
}
