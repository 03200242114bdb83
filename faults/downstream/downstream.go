// Package downstream breaks what the subject calls: the oracle answers every attempt with 503 for a while. It knows the oracle only
// through its switch and its counter.
package downstream

import (
	"context"
	"errors"
	"sync"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
)

// Oracle is the downstream's switch.
type Oracle interface {
	// SetOutage starts or ends an outage.
	SetOutage(on bool)
	// OutageAnswered returns how many attempts outages have answered so far.
	OutageAnswered() int64
}

// Injector makes the faults of kind "downstream".
type Injector struct {
	oracle Oracle

	mu sync.Mutex
	// outages counts those in force: the first to be healed must not end the others.
	outages int
}

// NewInjector returns an injector for the oracle.
func NewInjector(oracle Oracle) *Injector { return &Injector{oracle: oracle} }

// Inject starts an outage; healing ends it and reports how many attempts it answered.
func (i *Injector) Inject(_ context.Context, active faults.Active) (faults.Heal, error) {
	if spec := active.Spec.Downstream; spec == nil || !spec.Outage {
		return nil, errors.New("a fault of the kind downstream needs outage: true")
	}
	before := i.oracle.OutageAnswered()
	i.change(1)
	return func(context.Context) error {
		i.change(-1)
		active.Effect("attempts answered 503", int(i.oracle.OutageAnswered()-before), 0, history.None)
		return nil
	}, nil
}

func (i *Injector) change(by int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.outages += by
	i.oracle.SetOutage(i.outages > 0)
}
