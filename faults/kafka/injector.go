package kafka

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/tap"
)

// Injector holds the rules in force. It implements faults.Injector for the nemesis and tap.Interceptor for the tap.
type Injector struct {
	topics []history.Topic

	mu    sync.Mutex // serialises changes of the rules
	rules atomic.Pointer[[]*rule]
}

// NewInjector returns an injector without rules. topics are the run's topics, used to resolve roles.
func NewInjector(topics []history.Topic) *Injector { return &Injector{topics: topics} }

// Inject puts the fault's rule in force. Heal removes it, releases what it holds, closes connections with a withheld
// response, and returns when that is done.
func (in *Injector) Inject(_ context.Context, active faults.Active) (faults.Heal, error) {
	spec, _, err := faults.Settings(active, actions())
	if err != nil {
		return nil, fmt.Errorf("making a Kafka fault: %w", err)
	}
	r, err := newRule(*spec, in.topics, active)
	if err != nil {
		return nil, fmt.Errorf("making a Kafka fault: %w", err)
	}
	in.change(func(rules []*rule) []*rule { return append(rules, r) })
	return func(ctx context.Context) error {
		in.change(func(rules []*rule) []*rule {
			return slices.DeleteFunc(rules, func(other *rule) bool { return other == r })
		})
		return r.heal(ctx)
	}, nil
}

// change replaces the rules with an altered copy.
func (in *Injector) change(alter func([]*rule) []*rule) {
	in.mu.Lock()
	defer in.mu.Unlock()
	var rules []*rule
	if old := in.rules.Load(); old != nil {
		rules = slices.Clone(*old)
	}
	rules = alter(rules)
	if len(rules) == 0 {
		in.rules.Store(nil)
		return
	}
	in.rules.Store(&rules)
}

// Intercept returns the action of the first rule in force that hits the request, in the order of injection.
func (in *Injector) Intercept(x *tap.Exchange) tap.Action {
	rules := in.rules.Load()
	if rules == nil {
		return tap.Action{}
	}
	for _, r := range *rules {
		if action, hit := r.act(x); hit {
			return action
		}
	}
	return tap.Action{}
}
