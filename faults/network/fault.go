package network

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"

	"github.com/dlqbench/dlqbench/faults"
)

// kind is what a fault does to a link.
type kind int

const (
	latency kind = iota
	bandwidth
	slicing
	limit
	slowClose
	silence // Network.Timeout
	halfOpen
	down
	resets
)

// kindOf returns what the fault does; exactly one thing must be asked for.
func kindOf(spec *faults.Network) (kind, error) {
	all := []struct {
		name   string
		wanted bool
	}{
		latency: {"latency", spec.Latency > 0}, bandwidth: {"bandwidth", spec.Bandwidth > 0},
		slicing: {"slicer", spec.Slicer != nil},
		limit:   {"limit_data", spec.LimitData > 0}, slowClose: {"slow_close", spec.SlowClose > 0},
		silence:  {"timeout", spec.Timeout},
		halfOpen: {"half_open", spec.HalfOpen}, down: {"down", spec.Down}, resets: {"reset", spec.Reset},
	}
	var names []string
	var found []kind
	for k, one := range all {
		names = append(names, one.name)
		if one.wanted {
			found = append(found, kind(k))
		}
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("exactly one of %s must be given, found %d of them", strings.Join(names, ", "), len(found))
	}
	return found[0], nil
}

// fault is a fault as one link sees it.
type fault struct {
	kind kind
	spec faults.Network
	// share of the connections that is hit.
	share float64
	// directions that are hit.
	directions [stream.NumDirections]bool
	seed       uint64
	ledger     *ledger
	pacers     [stream.NumDirections]pacer
	// existing is the number of the last connection that the link had accepted when the fault came into force; where none
	// was open then that it hits, that of the first one after.
	existing atomic.Uint64
	// missed: it hits connections that exist, and has found none so far. The link's lock guards it.
	missed bool
	// ctx ends when the fault has been healed.
	ctx context.Context
	end context.CancelFunc
}

// newFault returns the fault of one link. What a Direction or a Toxicity does not apply to is hit as a whole.
func newFault(spec faults.Network, seed uint64, ledger *ledger) (*fault, error) {
	kind, err := kindOf(&spec)
	if err != nil {
		return nil, err
	}
	f := &fault{kind: kind, spec: spec, share: spec.Toxicity.Share(), seed: seed, ledger: ledger}
	switch {
	case f.share == 0:
		f.share = 1
	case f.share < 0 || f.share > 1:
		return nil, fmt.Errorf("a toxicity of %s is no share: it must lie between 0%% and 100%%", spec.Toxicity)
	}
	if spec.Slicer != nil && spec.Slicer.Size < 1 {
		return nil, fmt.Errorf("a slicer needs a size of at least 1 byte, found %s", spec.Slicer.Size)
	}
	if f.directions, err = directionsOf(kind, spec.Direction); err != nil {
		return nil, err
	}
	for i := range f.pacers {
		f.pacers[i].rate = float64(spec.Bandwidth.Bytes())
	}
	f.ctx, f.end = context.WithCancel(context.Background())
	return f, nil
}

func directionsOf(kind kind, name string) ([stream.NumDirections]bool, error) {
	both := [stream.NumDirections]bool{stream.Upstream: true, stream.Downstream: true}
	switch {
	case name == "" || name == "both" || kind == slowClose || kind == halfOpen || kind == down || kind == resets:
		return both, nil
	case name == "requests":
		return [stream.NumDirections]bool{stream.Upstream: true}, nil
	case name == "responses":
		return [stream.NumDirections]bool{stream.Downstream: true}, nil
	}
	return both, fmt.Errorf("%q is no direction: write requests, responses or both", name)
}

// selects reports whether the connection with this number on its link is among those that are hit. It is drawn from the
// fault's seed and the number alone, so the same seed hits the same connections, in whatever order they are asked for.
func (f *fault) selects(number uint64) bool {
	return f.share >= 1 || rand.New(rand.NewPCG(f.seed, ^number)).Float64() < f.share
}

// touches reports whether one direction of a connection is hit.
func (f *fault) touches(p *pair, direction stream.Direction) bool {
	return f.directions[direction] && f.selects(p.number)
}

// silences reports whether nothing may pass in one direction of a connection while the fault is in force.
func (f *fault) silences(p *pair, direction stream.Direction) bool {
	switch f.kind {
	case silence:
		return f.touches(p, direction)
	case halfOpen:
		return p.number <= f.existing.Load() && f.touches(p, direction)
	}
	return false
}

// shapes reports whether data takes another way because of the fault, see line.
func (f *fault) shapes() bool { return f.kind == latency || f.kind == bandwidth || f.kind == slicing }

// jitter returns the source of what a direction of a connection waits beyond the latency.
func (f *fault) jitter(p *pair, direction stream.Direction) *rand.Rand {
	return rand.New(rand.NewPCG(f.seed, p.number<<1|uint64(direction)))
}

// impeded counts a chunk that the fault shapes.
func (f *fault) impeded(size int) {
	switch {
	case f.kind == latency:
		f.ledger.add("bytes delayed", 1, int64(size))
	case f.kind == bandwidth:
		f.ledger.add("bytes throttled", 1, int64(size))
	case int64(size) > f.spec.Slicer.Size.Bytes():
		f.ledger.add("bytes sliced", 1, int64(size))
	}
}

// wait waits for d, or until the fault is healed or ctx ends.
func (f *fault) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.ctx.Done():
	case <-ctx.Done():
	}
}
