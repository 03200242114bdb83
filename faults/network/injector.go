package network

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
)

// Injector makes network faults on links. It implements faults.Injector. Faults on the same link may overlap: latencies add up,
// the lowest bandwidth holds, and what breaks connections comes before what slows them down.
//
// Effects: "connections cut" and "connections refused" count connections (an attempt while the link is down counts as refused, a
// new connection that is reset as it sends counts as cut, and so does one that a timeout left with lost data, at heal); "bytes
// delayed", "bytes throttled" and "bytes swallowed" count chunks and carry bytes, both directions together. They are reported at once
// where connections are cut, otherwise about once a second and at heal. What did not happen is not reported.
type Injector struct{ links map[string][]*Link }

// NewInjector returns an injector for these links, by the names that faults use: "broker 1", "brokers", "dlq", "downstream".
func NewInjector(links map[string][]*Link) *Injector { return &Injector{links: links} }

// Inject breaks every link that goes by the fault's name, and returns when the fault is in force on all. Heal ends it and
// returns when the links let new connections through; connections that lost data are reset, the others go on.
func (i *Injector) Inject(_ context.Context, active faults.Active) (faults.Heal, error) {
	spec := active.Spec.Network
	if spec == nil {
		return nil, errors.New("breaking a link: the fault has no network part")
	}
	kind, err := kindOf(spec)
	if err != nil {
		return nil, fmt.Errorf("breaking link %q: %w", spec.Link, err)
	}
	links := i.links[spec.Link]
	if len(links) == 0 {
		known := strings.Join(slices.Sorted(maps.Keys(i.links)), ", ")
		return nil, fmt.Errorf("breaking link %q: there is none of that name, only %s", spec.Link, known)
	}
	injection := &injection{ledger: newLedger(active)}
	for n, link := range links {
		f := newFault(kind, *spec, active.Seed+uint64(n), injection.ledger)
		injection.broken = append(injection.broken, brokenLink{link, f})
		link.add(f)
	}
	injection.ledger.start()
	return injection.heal, nil
}

// injection is a fault that is in force.
type injection struct {
	broken []brokenLink
	ledger *ledger
}

type brokenLink struct {
	link  *Link
	fault *fault
}

func (i *injection) heal(ctx context.Context) error {
	var errs []error
	for _, broken := range i.broken {
		broken.link.remove(broken.fault)
	}
	i.ledger.close()
	for _, broken := range i.broken {
		if broken.fault.kind == down {
			errs = append(errs, broken.link.probe(ctx))
		}
	}
	return errors.Join(errs...)
}

// kind is what a fault does to a link.
type kind int

const (
	latency kind = iota
	bandwidth
	silence // Network.Timeout
	down
	resets
)

// kindOf returns what the fault does; exactly one thing must be asked for.
func kindOf(spec *faults.Network) (kind, error) {
	var kinds []kind
	for k, wanted := range []bool{
		latency: spec.Latency > 0, bandwidth: spec.Bandwidth > 0, silence: spec.Timeout, down: spec.Down, resets: spec.Reset,
	} {
		if wanted {
			kinds = append(kinds, kind(k))
		}
	}
	if len(kinds) != 1 {
		return 0, fmt.Errorf("exactly one of latency, bandwidth, timeout, down and reset must be given, found %d of them", len(kinds))
	}
	return kinds[0], nil
}

// fault is a fault as one link sees it.
type fault struct {
	kind   kind
	spec   faults.Network
	seed   uint64
	ledger *ledger
	pacers [stream.NumDirections]pacer
	// ctx ends when the fault has been healed.
	ctx context.Context
	end context.CancelFunc
}

func newFault(kind kind, spec faults.Network, seed uint64, ledger *ledger) *fault {
	f := &fault{kind: kind, spec: spec, seed: seed, ledger: ledger}
	for i := range f.pacers {
		f.pacers[i].rate = float64(spec.Bandwidth.Bytes())
	}
	f.ctx, f.end = context.WithCancel(context.Background())
	return f
}

// ledger adds up what a fault did and reports it from time to time: per chunk it would be more than the history is good for.
type ledger struct {
	active faults.Active

	mu      sync.Mutex
	entries map[string]entry

	stop context.CancelFunc
	wg   sync.WaitGroup
}

type entry struct {
	count int
	bytes int64
}

// reportEvery is how often effects are reported while the fault lasts.
const reportEvery = time.Second

func newLedger(active faults.Active) *ledger {
	return &ledger{active: active, entries: map[string]entry{}}
}

func (l *ledger) add(what string, count int, bytes int64) {
	if count == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[what]
	l.entries[what] = entry{e.count + count, e.bytes + bytes}
}

// start reports what there is, and then regularly until close.
func (l *ledger) start() {
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.report()
	l.wg.Go(func() {
		tick := time.NewTicker(reportEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				l.report()
			case <-ctx.Done():
				return
			}
		}
	})
}

// close reports what has not been reported. A chunk that is passing just now may be missed.
func (l *ledger) close() {
	l.stop()
	l.wg.Wait()
	l.report()
}

func (l *ledger) report() {
	l.mu.Lock()
	entries := l.entries
	l.entries = map[string]entry{}
	l.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(entries)) {
		l.active.Effect(what, entries[what].count, entries[what].bytes, history.None)
	}
}
