package verify

// This file draws what a seed means in the soundness proof: a mode of the reference consumer (by itself, with a
// dead-letter store, or as the nodes of a graph), a load, and one or two faults. draw_store.go and draw_graph.go draw
// the store and the graph.

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Situation is the setting in which the correct consumer is run.
type Situation struct {
	Seed uint64
	// Mode is the consumer's ordering, retry strategy, group protocol and number of instances, or the mode of the store
	// or of the graph.
	Mode string
	// Faults are the names of the faults in the catalogue.
	Faults []string
	// Scenario is the text of the scenario.
	Scenario string
}

func (s Situation) String() string {
	return s.Mode + " under " + strings.Join(s.Faults, " and ")
}

// mode is a mode of the reference consumer.
type mode struct {
	ordering, retry, protocol string
	instances                 int
	transactions              bool
	// writes: its attempts are writes to an output topic, which can't be answered in every way.
	writes bool
	// never are the outcomes of records that would never come to their end.
	never []string
	// pace is that of a stranger, 0 for the reference consumer: faults and load last so many times as long, with the
	// same number of records.
	pace int
	// store is the mode of the dead-letter store's service that runs beside the consumer; graph is the mode of the
	// graph that the consumer forms. Either is nil for none.
	store *storeMode
	graph *graphMode
}

func (m mode) String() string {
	switch {
	case m.store != nil:
		return m.store.String()
	case m.graph != nil:
		return m.graph.String()
	}
	text := fmt.Sprintf("%s, %s, %s, %d", m.ordering, m.retry, m.protocol, m.instances)
	if m.transactions {
		text += ", transactions"
	}
	return text
}

// modes lists all modes. Stores and graphs are spread among the others, so that a few neighbouring seeds cover some of
// each.
func modes() []mode {
	var all []mode
	stores, graphs := storeModes(), graphModes()
	for i, alone := range aloneModes() {
		all = append(all, alone)
		switch {
		case i%4 == 1 && len(stores) > 0:
			all, stores = append(all, stores[0]), stores[1:]
		case i%4 == 3 && len(graphs) > 0:
			all, graphs = append(all, graphs[0]), graphs[1:]
		}
	}
	return slices.Concat(all, stores, graphs)
}

// aloneModes lists the modes of the consumer by itself.
func aloneModes() []mode {
	var all []mode
	for _, ordering := range []string{"none", "partition", "key"} {
		for _, retry := range []string{"in-place", "topics"} {
			for _, protocol := range []string{"classic", "consumer"} {
				for _, instances := range []int{1, 3} {
					all = append(all, mode{ordering: ordering, retry: retry, protocol: protocol, instances: instances})
				}
			}
		}
	}
	for _, retry := range []string{"in-place", "redelivery"} { // a share group guarantees no order
		for _, instances := range []int{1, 3} {
			all = append(all, mode{ordering: "none", retry: retry, protocol: "share", instances: instances})
		}
	}
	for _, protocol := range []string{"classic", "consumer"} {
		for _, instances := range []int{1, 3} {
			all = append(all, mode{ordering: "key", retry: "in-place", protocol: protocol, instances: instances,
				transactions: true})
		}
	}
	return all
}

func (m mode) stranger() bool { return m.pace > 0 }

func (m mode) shares() bool { return m.protocol == "share" }

// batches reports whether the consumer finishes a whole batch of records before it polls again.
func (m mode) batches() bool { return m.shares() || m.transactions }

// Draw returns the situation of a seed. Neighbouring seeds cover all modes, and every fault is drawn alone before it is
// drawn in a pair.
func Draw(seed uint64) Situation {
	all := modes()
	return draw(seed, all[seed%uint64(len(all))], seed%uint64(len(all)), seed/uint64(len(all)))
}

// draw returns a situation of a consumer in a mode. Rounds of modes alternate between one fault and two, so that half
// of the runs have a single fault. which, the mode's number, says with which fault its rounds begin.
func draw(seed uint64, of mode, which, round uint64) Situation {
	d := &drawing{random: rand.New(rand.NewPCG(seed, 0x646c7162656e6368)), mode: of}
	d.settings()
	s := Situation{Seed: seed, Mode: d.mode.String()}
	faults := d.possible()
	chosen := []template{faults[(round/2+which)%uint64(len(faults))]}
	if round%2 == 1 {
		var others []template
		for _, other := range slices.Concat(faults, d.beside()) {
			if other.name != chosen[0].name && !d.excludes(chosen[0], other) {
				others = append(others, other)
			}
		}
		if len(others) > 0 {
			chosen = append(chosen, others[d.random.IntN(len(others))])
		}
	}
	lines := ""
	for i, fault := range chosen {
		s.Faults = append(s.Faults, fault.name)
		name := strings.NewReplacer(".", "-", "_", "-").Replace(fault.name)
		lines += fmt.Sprintf("  - {name: %s-%d, %s}\n", name, i+1, fault.write(d))
		if fault.also != "" {
			lines += fmt.Sprintf("  - {%s}\n", fault.also)
		}
	}
	switch {
	case d.mode.store != nil:
		s.Scenario = d.storeScenario(lines)
	case d.mode.graph != nil:
		s.Scenario = d.graphScenario(lines)
	default:
		s.Scenario = d.scenario(lines)
	}
	return s
}

// drawing draws the details of one situation.
type drawing struct {
	random *rand.Rand
	mode   mode
	// assignor is a line of the settings. static and metadata are drawn only where the mode supports them.
	assignor         string
	static, metadata bool
	brokers          int
	// dlqBroker is the broker that holds the DLQ topic alone; 0 means no separate broker.
	dlqBroker int
	// service describes the store's service, nodes the graph; nil for none.
	service *service
	nodes   []node
}

func (d *drawing) settings() {
	switch {
	case d.mode.store != nil:
		d.storeSettings()
		return
	case d.mode.graph != nil:
		d.graphSettings()
		return
	}
	if d.mode.protocol == "classic" {
		d.assignor = fmt.Sprintf("    assignor: %s\n", d.pick("cooperative-sticky", "cooperative-sticky", "range"))
	}
	d.static = d.random.IntN(5) == 0 && !d.mode.batches()
	d.metadata = d.random.IntN(4) == 0 && !d.mode.batches()
	d.brokers = []int{1, 3, 3}[d.random.IntN(3)]
	if d.brokers == 3 && d.random.IntN(2) == 0 {
		d.dlqBroker = 3
	}
}

func (d *drawing) scenario(faults string) string {
	topics := "topics: {input: {partitions: 6}}"
	if d.dlqBroker > 0 {
		topics = fmt.Sprintf("topics: {input: {partitions: 6}, dlq: {broker: %d}}", d.dlqBroker)
	}
	text := d.pick("plain", "non-ascii", "long", "hostile")
	extra := d.pick("", "", "  tombstones: 2%\n", "  garbage: 2%\n", "  large: {share: 1%, size: 200KiB}\n",
		"  bursts: {every: 700ms, records: 60}\n", "  keys: {count: 50, hot: 20%, null: 10%}\n", "  arrivals: poisson\n")
	// With partition ordering every failure blocks its partition. Failures are therefore fewer and shorter; otherwise
	// the correct consumer could not keep up.
	backoff, outcomes := []int{60, 150, 300}[d.random.IntN(3)],
		[]string{"success: 80", "transient: {weight: 8, failures: 2}", "exhausted: 4", "permanent: 3", "logical: 2"}
	if d.mode.ordering == "partition" {
		backoff, outcomes = 60, []string{"success: 90", "transient: {weight: 3, failures: 2}", "exhausted: 2",
			"permanent: 2", "logical: 1"}
	}
	outcomes = slices.DeleteFunc(outcomes, func(one string) bool {
		name, _, _ := strings.Cut(one, ":")
		return slices.Contains(d.mode.never, name)
	})
	rare := ", rate_limited: 1, timeout: 1, reset: 1"
	// a batch waits for its slowest record, and meanwhile the consumer sends no request that a fault could hit
	if d.mode.batches() {
		backoff, rare = 60, ", reset: 1"
	}
	if d.mode.writes { // nor do they show which record without an id they belong to
		rare, extra = "", ""
	}
	replay, pace := d.replay(), max(1, d.mode.pace)
	return fmt.Sprintf(`name: soundness
description: The correct consumer in one of its modes, under faults drawn from the seed.
cluster: {brokers: %d}
%s
subject:
  reference:
    instances: %d
    max_retries: 3
    retry_backoff_ms: %d
    max_retry_backoff_ms: 600
    retry_jitter_ms: 30
    ordering: %s
    retry: %s
    group_protocol: %s
%s    static_membership: %v
    offset_metadata: %v
    transactions: %v
workload:
  rate: %d/s
  duration: %ds
  warm_up: 300ms
  error_text: %s
%s%s  outcomes: {%s%s}
expect: {max_slip: 1s}
%sfaults:
%s`, d.brokers, topics, d.mode.instances, backoff, d.mode.ordering, d.mode.retry, d.mode.protocol, d.assignor,
		d.static, d.metadata, d.mode.transactions, (100+50*d.random.IntN(4))/pace, 4*pace, text, extra, d.repeated(replay),
		strings.Join(outcomes, ", "), rare, replay, faults)
}

// replay replays the dead letters in one situation of three, including those that a fault has duplicated.
func (d *drawing) replay() string {
	if d.random.IntN(3) > 0 {
		return ""
	}
	return fmt.Sprintf("replay: {healed: 80%%, fail_again: 20%%, rate: %d/s}\n", d.random.IntN(3)*200+100)
}

// repeated produces some records twice in one situation of three that replays nothing. A share group is not judged so.
func (d *drawing) repeated(replay string) string {
	if replay != "" || d.mode.shares() || d.random.IntN(3) > 0 {
		return ""
	}
	return fmt.Sprintf("  repeated: %d%%\n", 2+d.random.IntN(9))
}

func (d *drawing) pick(from ...string) string { return from[d.random.IntN(len(from))] }

// at draws when a fault begins and how long it lasts. It ends before the steady phase does.
func (d *drawing) at() string {
	return fmt.Sprintf("at: %dms", max(1, d.mode.pace)*(300+50*d.random.IntN(21)))
}

func (d *drawing) span() string {
	return fmt.Sprintf("%s, for: %dms", d.at(), max(1, d.mode.pace)*(900+100*d.random.IntN(13)))
}

func (d *drawing) instance() int { return d.random.IntN(d.mode.instances) }
