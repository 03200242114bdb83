package network

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/faults"
)

// Injector makes network faults on links. It implements faults.Injector.
//
// Faults on the same link may overlap, and healing one leaves the others in force: latencies and slow closes add up,
// the lowest bandwidth holds, the smallest limit_data cuts, a connection is silent as long as one fault keeps it so,
// and what breaks connections comes before what slows them down. Which connections a share of them (toxicity) hits is
// drawn from the fault's seed and the connection's number on its link; jitter from the seed, the number and the
// direction.
//
// Effects: "connections cut" (by down, reset, limit_data; by timeout and half_open when they are healed, for what was
// lost can't be mended), "connections refused" (by down) and "connections half-opened" count connections, "closes
// delayed" counts closes, each side's by itself. "bytes delayed", "bytes throttled", "bytes sliced" and "bytes
// swallowed" count bytes, both directions together, and carry the number of chunks that they came in. They are reported
// at once where connections are cut as the fault begins, otherwise about once a second and at heal. What did not happen
// is not reported, so a fault that selected no connection reports nothing.
type Injector struct{ links map[string][]*Link }

// NewInjector returns an injector for these links, by the names that faults use: "broker 1", "brokers", "dlq",
// "downstream".
func NewInjector(links map[string][]*Link) *Injector { return &Injector{links: links} }

// Inject breaks every link that goes by the fault's name, and returns when the fault is in force on all. Heal ends it
// and returns when the links carry data as if it had not been; connections that lost data are reset, the others go on.
// Neither waits for a connection.
func (i *Injector) Inject(_ context.Context, active faults.Active) (faults.Heal, error) {
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
		injection.broken = append(injection.broken, brokenLink{link, f})
	}
	for _, broken := range injection.broken {
		broken.link.add(broken.fault)
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

// heal ends the fault. The ports were open all the time, so there is nothing to be confirmed: what is accepted from now
// on is served.
func (i *injection) heal(context.Context) error {
	for _, broken := range i.broken {
		broken.link.remove(broken.fault)
	}
	i.ledger.close()
	return nil
}
