package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/tap"
)

// rule is one fault in force: which requests it hits, and what it does to them.
type rule struct {
	active   faults.Active
	key      int16
	instance *int
	topics   []string // nil: all requests, also those that touch no topic
	share    float64

	code  int16
	name  string // of the error
	delay time.Duration
	drop  bool

	healed chan struct{}

	mu     sync.Mutex
	drawn  uint64 // requests that matched so far
	over   bool
	held   int           // actions that the tap has not finished
	idle   chan struct{} // closed when over and held is 0
	closed bool
}

func newRule(spec faults.Kafka, topics []history.Topic, active faults.Active) (*rule, error) {
	r := &rule{
		active: active, instance: spec.Instance, share: spec.Probability.Share(), name: spec.Error, delay: spec.DelayResponse.D(),
		drop: spec.DropResponse, healed: make(chan struct{}), idle: make(chan struct{}),
	}
	if r.share == 0 {
		r.share = 1
	}
	var err error
	if r.key, err = apiKey(spec.API); err != nil {
		return nil, err
	}
	if spec.Error != "" {
		if err := ValidError(spec.API); err != nil {
			return nil, err
		}
		if r.code, err = ErrorCode(spec.Error); err != nil {
			return nil, err
		}
	}
	if r.code == 0 && r.delay <= 0 && !r.drop {
		return nil, errors.New("it does nothing: give error, delay_response or drop_response")
	}
	if spec.Topic != "" {
		if r.topics = named(spec.Topic, topics); len(r.topics) == 0 {
			return nil, fmt.Errorf("no topic of the run is %q: write input, retry, dlq or a topic's full name", spec.Topic)
		}
	}
	return r, nil
}

// named returns the names of the topics with the role, or the topic with the name.
func named(roleOrName string, topics []history.Topic) []string {
	var names []string
	for _, topic := range topics {
		if string(topic.Role) == roleOrName || topic.Name == roleOrName {
			names = append(names, topic.Name)
		}
	}
	return names
}

// act decides about one request.
func (r *rule) act(x *tap.Exchange) (action tap.Action, hit bool) {
	if x.APIKey != r.key || r.instance != nil && *r.instance != x.Instance {
		return tap.Action{}, false
	}
	if r.topics != nil && !slices.ContainsFunc(x.Partitions(), r.touches) {
		return tap.Action{}, false
	}
	if !r.begin() {
		return tap.Action{}, false
	}
	instance := x.Instance
	action = tap.Action{
		Code: r.code, Delay: r.delay, Drop: r.drop, Healed: r.healed, Done: r.end,
		Effect: func(effect tap.Effect, held time.Duration) { r.note(effect, held, instance) },
	}
	if r.topics != nil {
		action.Matches = r.touches
	}
	return action, true
}

func (r *rule) touches(p tap.Partition) bool { return slices.Contains(r.topics, p.Topic) }

// note reports what the fault did.
func (r *rule) note(effect tap.Effect, held time.Duration, instance int) {
	what := map[tap.Effect]string{
		tap.EffectAnswered: "requests answered " + r.name,
		tap.EffectDelayed:  "responses delayed",
		tap.EffectDropped:  "responses dropped",
		tap.EffectClosed:   "connections closed",
	}[effect]
	r.active.Effect(what, 1, held.Nanoseconds(), instance)
}

// begin draws whether this matching request is hit and, if so, counts it as held. A rule that is over hits nothing.
func (r *rule) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false
	}
	k := r.drawn
	r.drawn++
	if !hits(r.active.Seed, k, r.share) {
		return false
	}
	r.held++
	return true
}

func (r *rule) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held--
	r.finish()
}

// finish closes idle when all is over; mu is held.
func (r *rule) finish() {
	if r.over && r.held == 0 && !r.closed {
		r.closed = true
		close(r.idle)
	}
}

// heal ends the rule and waits until the tap holds nothing for it.
func (r *rule) heal(ctx context.Context) error {
	r.mu.Lock()
	r.over = true
	r.finish()
	r.mu.Unlock()
	close(r.healed)
	select {
	case <-r.idle:
		return nil
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		return fmt.Errorf("letting go %d responses that the fault held: %w", r.held, ctx.Err())
	}
}

// hits is the k-th decision of a fault: true for the given share of all k. It depends on nothing but its arguments (splitmix64, Steele et
// al. 2014), so the same seed decides the same way however requests interleave.
func hits(seed, k uint64, share float64) bool {
	z := seed + (k+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float64(z>>11)/(1<<53) < share
}
