package network

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/faults"
)

// Injector injects network faults into links. It implements faults.Injector.
//
// Faults on the same link may overlap, and lifting one leaves the others in force. Latencies and slow closes add up.
// The lowest bandwidth applies, the smallest limit_data cuts, and a connection is silent as long as one fault keeps
// it so. Faults that end connections take precedence over faults that slow them down. The connections hit by a share
// (toxicity) are drawn from the fault's seed and the connection's number on its link, and jitter from the seed, the
// number and the direction.
//
// Effects: "connections cut" (by down, reset, limit_data; by timeout and half_open when they are lifted, because lost
// data cannot be restored), "connections refused" (by down) and "connections half-opened" count connections. "closes
// delayed" counts closes, each side separately. "bytes delayed", "bytes throttled", "bytes sliced" and "bytes
// swallowed" count bytes, both directions together, and carry the number of chunks. Connections cut at the start of a
// fault are reported at once, everything else about once a second and when the fault is lifted. Zero counts are not
// reported, so a fault that selected no connection reports nothing.
type Injector struct{ links map[string][]Link }

// NewInjector returns an injector for these links, by the names that faults use: "broker 1", "brokers", "dlq",
// "downstream".
func NewInjector(links map[string][]Link) *Injector { return &Injector{links: links} }

// Inject injects the fault into every link with the fault's target name, and returns when it is in force on all of
// them. Heal lifts it and returns when the links carry data as before. Connections that lost data are cut, the others
// continue. In links of this process, neither waits for a connection.
func (i *Injector) Inject(ctx context.Context, active faults.Active) (faults.Heal, error) {
	spec, _, err := faults.Settings(active, actions())
	if err != nil {
		return nil, fmt.Errorf("breaking a link: %w", err)
	}
	links := i.links[spec.Link]
	if len(links) == 0 {
		known := strings.Join(slices.Sorted(maps.Keys(i.links)), ", ")
		return nil, fmt.Errorf("breaking link %q: there is none of that name, only %s", spec.Link, known)
	}
	injection := &injection{ledger: newLedger(active)}
	for n, link := range links {
		f := newFault(*spec, active.Seed+uint64(n), injection.ledger)
		if err := link.inject(ctx, f); err != nil {
			return nil, errors.Join(err, injection.lift(ctx))
		}
		injection.broken = append(injection.broken, brokenLink{link, f})
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
	link  Link
	fault *fault
}

// heal ends the fault.
func (i *injection) heal(ctx context.Context) error {
	err := i.lift(ctx)
	i.ledger.close()
	return err
}

func (i *injection) lift(ctx context.Context) error {
	var errs []error
	for _, broken := range i.broken {
		errs = append(errs, broken.link.lift(ctx, broken.fault))
	}
	return errors.Join(errs...)
}
