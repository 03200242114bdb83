package kafka

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/tap"
)

// rule is one fault in force: the requests that it hits, and what it does to them.
type rule struct {
	active faults.Active
	match  match
	action tap.Action // Matches, Effect and Done are set for each request
	name   string     // of the error
	// leaderLoss: the action depends on the acknowledgement that the client waits for.
	leaderLoss bool

	healed chan struct{}

	mu      sync.Mutex
	matched uint64 // requests so far
	over    bool
	held    int           // actions that the tap has not finished
	idle    chan struct{} // closed when over and held is 0
	closed  bool
}

func newRule(spec Kafka, topics []history.Topic, active faults.Active) (*rule, error) {
	healed := make(chan struct{})
	r := &rule{
		active: active, name: spec.Error, leaderLoss: spec.LeaderLoss, healed: healed, idle: make(chan struct{}),
		action: tap.Action{
			DelayRequest: spec.DelayRequest.D(), Delay: spec.DelayResponse.D(), DropRequest: spec.DropRequest,
			Drop: spec.DropResponse, Close: spec.Close, Throttle: spec.Throttle.D(), Healed: healed,
		},
	}
	var err error
	if spec.Error != "" {
		if r.action.Code, err = ErrorCode(spec.Error); err != nil {
			return nil, err
		}
	}
	if r.match, err = newMatch(spec, topics); err != nil {
		return nil, err
	}
	return r, nil
}

// act decides what happens to one request.
func (r *rule) act(x *tap.Exchange) (action tap.Action, hit bool) {
	if !r.match.fits(x) || !r.begin() {
		return tap.Action{}, false
	}
	instance := x.Instance
	action = r.action
	if r.leaderLoss {
		switch x.Acks() {
		case 0:
			action.DropRequest = true
		case 1:
			action.Lose = true
		default:
			action.Close = true
		}
	}
	action.Done = r.end
	action.Effect = func(effect tap.Effect, held time.Duration) { r.note(effect, held, instance) }
	if r.match.topics != nil {
		action.Matches = r.match.touches
	}
	return action, true
}

// note reports an effect of the fault when it is complete. A delay is reported when it ends, which is at the latest
// when the fault is lifted.
func (r *rule) note(effect tap.Effect, held time.Duration, instance int) {
	what := map[tap.Effect]string{
		tap.EffectAnswered:       "requests answered " + r.name,
		tap.EffectRequestDelayed: "requests delayed",
		tap.EffectDelayed:        "responses delayed",
		tap.EffectRequestDropped: "requests dropped",
		tap.EffectDropped:        "responses dropped",
		tap.EffectLost:           "writes acknowledged and lost",
		tap.EffectClosed:         "connections closed",
		tap.EffectThrottled:      "responses throttled",
	}[effect]
	r.active.Effect(what, 1, held.Nanoseconds(), instance)
}

// begin counts a matching request, draws whether it is hit and, if so, counts it as held. A rule that is over hits
// nothing.
func (r *rule) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false
	}
	k := r.matched
	r.matched++
	if !r.match.counts(k+1) || !hits(r.active.Seed, k, r.match.share) {
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

// finish closes idle when the rule is over and nothing is held; mu is held.
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
		return fmt.Errorf("letting go of what the fault holds, %d requests and responses: %w", r.held, ctx.Err())
	}
}

// hits returns the k-th decision of a fault: true for the given share of all k. It depends only on its arguments
// (splitmix64, Steele et al. 2014), so the same seed gives the same decisions however requests interleave.
func hits(seed, k uint64, share float64) bool {
	z := seed + (k+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float64(z>>11)/(1<<53) < share
}

// match defines which requests a fault hits. All of its conditions must hold.
type match struct {
	key       int16
	instance  *int
	version   *int
	client    string   // "": any
	group     string   // "": any, and requests without a group
	topics    []string // nil: all requests, including those without a topic
	partition *int     // of those topics
	share     float64
	nth       uint64 // 0: all
	everyNth  uint64 // 0: all
}

func newMatch(spec Kafka, topics []history.Topic) (match, error) {
	m := match{
		instance: spec.Instance, version: spec.Version, client: spec.ClientID, group: spec.Group, partition: spec.Partition,
		share: spec.Probability.Share(), nth: uint64(spec.Nth), everyNth: uint64(spec.EveryNth),
	}
	var err error
	if m.key, err = apiKey(spec.API); err != nil {
		return match{}, err
	}
	m.share = cmp.Or(m.share, 1)
	if spec.Topic != "" {
		if m.topics = named(spec.Topic, topics); len(m.topics) == 0 {
			return match{}, fmt.Errorf("no topic of the run is %q: write input, retry, dlq or a topic's full name", spec.Topic)
		}
	}
	return m, nil
}

// named returns the names of the topics with the role, or the topic with the name.
func named(roleOrName string, topics []history.Topic) []string {
	var names []string
	for _, topic := range topics {
		if topic.Is(roleOrName) {
			names = append(names, topic.Name)
		}
	}
	return names
}

// fits reports whether the request matches and is to be counted. It checks the cheapest conditions first.
func (m *match) fits(x *tap.Exchange) bool {
	switch {
	case x.APIKey != m.key,
		m.instance != nil && *m.instance != x.Instance,
		m.version != nil && *m.version != int(x.Version),
		m.client != "" && m.client != x.ClientID(),
		m.group != "" && !m.inGroup(x),
		m.topics != nil && !slices.ContainsFunc(x.Partitions(), m.touches):
		return false
	}
	return true
}

func (m *match) inGroup(x *tap.Exchange) bool {
	if m.group == ownGroup {
		return x.InGroup(x.Group)
	}
	return x.InGroup(m.group)
}

func (m *match) touches(p tap.Partition) bool {
	return slices.Contains(m.topics, p.Topic) && (m.partition == nil || *m.partition == int(p.Number))
}

// counts reports whether the n-th matching request (from 1) is one that the fault hits.
func (m *match) counts(n uint64) bool {
	return (m.nth == 0 || n == m.nth) && (m.everyNth == 0 || n%m.everyNth == 0)
}
