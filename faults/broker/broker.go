// Package broker defines the broker faults: brokers are stopped, killed, paused and restarted, and the partitions
// they lead and the groups they coordinate are moved. The package defines how these faults are written, checked,
// described and explained, and injects them. Stopping a broker is left to the cluster that the injector is given.
package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
)

// Broker acts on a broker. Exactly one of Stop, Kill, Pause, Restart, MoveLeaders, MoveCoordinator is set.
type Broker struct {
	// Broker is its number, from 1; not for MoveCoordinator, which finds the one that coordinates the subject's group.
	Broker int `json:"broker,omitempty" jsonschema:"minimum=1"`
	// Stop: it is stopped in order (its leaderships move first, where it has followers), and started again with its
	// data after For.
	Stop bool `json:"stop,omitempty"`
	// Kill: it is gone at once, its connections are reset; it is started again with its data after For.
	Kill bool `json:"kill,omitempty"`
	// Pause: it stands still with its connections open, and goes on after For.
	Pause bool `json:"pause,omitempty"`
	// Restart: it is stopped and started at once.
	Restart bool `json:"restart,omitempty"`
	// MoveLeaders: the partitions that it leads get other leaders; they come back after For, if that is set.
	MoveLeaders bool `json:"move_leaders,omitempty"`
	// MoveCoordinator: the subject's group gets another coordinator.
	MoveCoordinator bool `json:"move_coordinator,omitempty"`
}

// action is one broker fault.
type action = faults.Action[Broker, act]

// actions returns all broker faults.
func actions() []action { return append(outages(), moves()...) }

const numbered = " Brokers are numbered from 1."

// effects returns the effects of a fault that takes a broker away, which are reported if clients were connected to
// it.
func effects(ended string) []string {
	return []string{"broker stopped", "broker started", ended, "partitions led by another broker",
		"partitions without a leader", "coordinators moved"}
}

// outages returns the faults that take a broker away. A restart does not set Blocks: the broker may be back before
// anything else happens.
func outages() []action {
	return []action{{
		Blocks: true,
		What:   func(b *Broker) string { return b.target() + " stopped" },
		Do:     stop("broker stopped", Brokers.StopBroker),
		Entry: faults.Entry{Name: "broker.stop", Summary: "A broker is stopped in an orderly way and started again.",
			Does: "Its connections end. Partitions with followers get new leaders, the others have none. After for, the " +
				"broker returns with its data.",
			Made: "The broker is stopped and started again on the same data." + numbered,
			Shows: "A correct consumer finds the new leaders and coordinator. Bugs: commits that fail once and are never " +
				"repeated, dead letters lost with their leader, records processed again without reason.",
			Effects: effects("connections closed"), Keys: []string{"broker.broker", "broker.stop"},
			Example: "{at: 1s, for: 2s, broker: {broker: 2, stop: true}}"},
	}, {
		Blocks: true,
		What:   func(b *Broker) string { return b.target() + " killed" },
		Do:     stop("broker killed", Brokers.KillBroker),
		Entry: faults.Entry{Name: "broker.kill", Summary: "A broker is killed.",
			Does: "Its connections are reset; its leaderships move when the other brokers notice. After for, it returns " +
				"with its data.",
			Made: "The broker is ended without a shutdown and started again on the same data." + numbered,
			Shows: "A correct consumer repeats unanswered requests. Bugs: an acknowledgement by the leader alone (acks=1), " +
				"which is lost with it.",
			Effects: effects("connections reset"), Keys: []string{"broker.broker", "broker.kill"},
			Example: "{at: 1s, for: 2s, broker: {broker: 2, kill: true}}"},
	}, {
		Blocks: true,
		What:   func(b *Broker) string { return b.target() + " paused: connections open, nothing answered" },
		Do:     (*Injector).pause,
		Entry: faults.Entry{Name: "broker.pause", Summary: "A broker freezes.",
			Does: "Its connections stay open and nothing is answered, as in a long garbage collection. After for, it " +
				"continues where it was.",
			Made: "Traffic to and from the broker is held back; nothing is lost." + numbered,
			Shows: "A correct consumer waits and repeats requests after its timeouts. Bugs: timeouts longer than the " +
				"session, so that the group removes the member.",
			Effects: []string{"requests held", "answers held"}, Keys: []string{"broker.broker", "broker.pause"},
			Example: "{at: 1s, for: 2s, broker: {broker: 1, pause: true}}"},
	}, {
		Instant: "a restart",
		What:    func(b *Broker) string { return b.target() + " restarted" },
		Do:      (*Injector).restart,
		Entry: faults.Entry{Name: "broker.restart", Summary: "A broker restarts.",
			Does: "Its connections end, and it returns as soon as it has started.",
			Made: "The broker is stopped and started at once on the same data. This fault is instantaneous and takes no for." +
				numbered,
			Shows:   "A correct consumer hardly notices. Bugs: one failed request that ends the consumer.",
			Effects: effects("connections closed"), Keys: []string{"broker.broker", "broker.restart"},
			Example: "{at: 1s, broker: {broker: 1, restart: true}}"},
	}}
}

func moves() []action {
	return []action{{
		What: func(b *Broker) string { return "the partitions of " + b.target() + " get other leaders" },
		Do:   (*Injector).moveLeaders,
		Entry: faults.Entry{Name: "broker.move_leaders", Summary: "Partitions get new leaders.",
			Does: "The broker keeps running but leads nothing: requests to it are answered NOT_LEADER_FOR_PARTITION until " +
				"the client refreshes its metadata. If for is set, the leaders return after it.",
			Made: "Leaderships are moved to other brokers. It needs two brokers that hold more than the DLQ topic." +
				numbered,
			Shows: "A correct consumer follows the leaders. Bugs: metadata that is never refreshed, a retriable error that " +
				"is treated as final.",
			Effects: []string{"partitions led by another broker"}, Keys: []string{"broker.broker", "broker.move_leaders"},
			Example: "{at: 1s, for: 2s, broker: {broker: 1, move_leaders: true}}"},
	}, {
		Instant: "this move",
		What:    func(*Broker) string { return "the subject's group gets another coordinator" },
		Do:      (*Injector).moveCoordinator,
		Entry: faults.Entry{Name: "broker.move_coordinator", Summary: "The consumer group gets a new coordinator.",
			Does: "Requests of the group to the old coordinator are answered NOT_COORDINATOR; members, generations and " +
				"committed offsets are unchanged. This fault is instantaneous and takes no for.",
			Made: "Another broker becomes the group's coordinator. It needs two brokers that hold more than the DLQ topic.",
			Shows: "A correct consumer finds the coordinator, commits there and continues without a rebalance. Bugs: a " +
				"commit that failed once and is not repeated, offsets that go back.",
			Effects: []string{"coordinator moved from broker 1 to broker 2"}, Keys: []string{"broker.move_coordinator"},
			Example: "{at: 1s, broker: {move_coordinator: true}}"},
	}}
}

// Entries implements faults.Fault.
func (*Broker) Entries() []faults.Entry { return faults.Entries(actions()) }

// Action returns the scenario's word for the action.
func (b *Broker) Action() string {
	chosen, _ := faults.Chosen(actions(), b)
	return chosen.Key()
}

func (b *Broker) target() string { return fmt.Sprintf("broker %d", b.Broker) }

// Traits implements faults.Fault.
func (b *Broker) Traits() faults.Traits {
	chosen, found := faults.Chosen(actions(), b)
	if !found {
		return faults.Traits{}
	}
	traits := chosen.Traits(b)
	traits.Target, traits.Name = b.target(), faults.Dashed(b.target()+" "+chosen.Key())
	if b.MoveCoordinator {
		traits.Target, traits.Name = "coordinator", "move-coordinator"
	}
	traits.Lasting = b.MoveLeaders
	traits.Idle.Why = "no connection and no leader was there to notice it; hit a broker that leads partitions or holds " +
		"connections"
	if chosen.Blocks {
		traits.Blocks = b.Broker
	}
	return traits
}

// Validate implements faults.Fault.
func (b *Broker) Validate(setting faults.Setting) []faults.Defect {
	asked, defects := faults.CheckActions(actions(), b)
	switch {
	case b.MoveCoordinator && b.Broker > 0:
		defects = append(defects, faults.At("/broker", "move_coordinator finds the coordinator of the subject's group by "+
			"itself: leave out broker")...)
	case !b.MoveCoordinator && b.Broker == 0 && len(asked) > 0:
		defects = append(defects, faults.At("", "%s needs the number of a broker: add broker, such as broker: 1",
			asked[0])...)
	case setting.Brokers > 0 && b.Broker > setting.Brokers:
		defects = append(defects, faults.At("/broker", "%s", setting.NoBroker(b.Broker))...)
	}
	if setting.Brokers == 0 {
		return defects
	}
	return append(defects, b.move(setting)...)
}

// move checks that there is another broker to move to.
func (b *Broker) move(setting faults.Setting) []faults.Defect {
	shared := setting.Brokers
	if setting.DLQBroker > 0 {
		shared--
	}
	key := map[bool]string{true: "/move_coordinator", false: "/move_leaders"}[b.MoveCoordinator]
	switch {
	case !b.MoveLeaders && !b.MoveCoordinator:
		return nil
	case b.MoveLeaders && b.Broker > 0 && b.Broker == setting.DLQBroker:
		return faults.At("/broker", "broker %d holds the DLQ topic alone (topics.dlq.broker), so no other can lead "+
			"its partitions", b.Broker)
	case shared < 2 && setting.DLQBroker > 0:
		return faults.At(key, "there is nowhere to move to: beside the DLQ topic's own broker the cluster has one; set "+
			"cluster.brokers to 3 or more")
	case shared < 2:
		return faults.At(key, "there is nowhere to move to: the cluster has 1 broker; set cluster.brokers to 2 or more")
	}
	return nil
}

// Stopper stops and starts brokers. StopBroker and KillBroker return when the broker's port is confirmed to refuse
// connections, and StartBroker when it is confirmed to accept them. Stopping returns the changes for clients,
// counted.
type Stopper interface {
	StopBroker(ctx context.Context, id int32) (changed map[string]int, err error)
	KillBroker(ctx context.Context, id int32) (changed map[string]int, err error)
	StartBroker(ctx context.Context, id int32) error
}

// Pauser suspends brokers and keeps their connections open. ResumeBroker returns what was held back, counted.
type Pauser interface {
	PauseBroker(ctx context.Context, id int32) error
	ResumeBroker(ctx context.Context, id int32) (changed map[string]int, err error)
}

// Mover moves the partitions that brokers lead and the groups that they coordinate. It returns what was moved,
// counted.
type Mover interface {
	MoveLeaders(ctx context.Context, id int32) (changed map[string]int, err error)
	ReturnLeaders(ctx context.Context, id int32) (changed map[string]int, err error)
	MoveCoordinator(ctx context.Context, group string) (from, to int32, err error)
}

// Brokers is a cluster in which broker faults can be injected.
type Brokers interface {
	Stopper
	Pauser
	Mover
}

// Injector injects broker faults. It implements faults.Injector.
//
// Effects: the changes for clients that the cluster reports ("connections closed", "leaders moved", "requests held").
// A fault on a broker that no client used has no effects, even if the broker was stopped. If there are any, the
// injector also reports "broker stopped" or "broker killed", and "broker started", each with the time until
// confirmation, in ns.
type Injector struct {
	brokers Brokers
	group   string
}

// NewInjector returns an injector for the brokers of a cluster. group is the subject's consumer group, whose
// coordinator can be moved.
func NewInjector(brokers Brokers, group string) *Injector {
	return &Injector{brokers: brokers, group: group}
}

// startLimit is the maximum time to start a broker again in Inject. The broker must also be started if the run is
// interrupted.
const startLimit = 45 * time.Second

// Inject injects a broker fault. The returned Heal starts a stopped or killed broker again, resumes a paused one, and
// returns moved leaders to it if the fault has a duration. A restart is complete before Inject returns. A coordinator
// stays where it was moved.
func (i *Injector) Inject(ctx context.Context, active faults.Active) (faults.Heal, error) {
	spec, chosen, err := faults.Settings(active, actions())
	if err != nil {
		return nil, fmt.Errorf("breaking a broker: %w", err)
	}
	return chosen.Do(i, ctx, active, int32(spec.Broker))
}

// act injects a fault into a broker and returns the function that lifts it.
type act func(i *Injector, ctx context.Context, active faults.Active, id int32) (faults.Heal, error)

// stop stops a broker until the fault is lifted.
func stop(what string, down func(Brokers, context.Context, int32) (map[string]int, error)) act {
	return func(i *Injector, ctx context.Context, active faults.Active, id int32) (faults.Heal, error) {
		start := time.Now()
		changed, err := down(i.brokers, ctx, id)
		if err != nil {
			return nil, err
		}
		if len(changed) > 0 {
			active.Effect(what, 1, time.Since(start).Nanoseconds(), history.None)
		}
		report(active, changed)
		return func(ctx context.Context) error {
			start := time.Now()
			if err := i.brokers.StartBroker(ctx, id); err != nil {
				return err
			}
			if len(changed) > 0 {
				active.Effect("broker started", 1, time.Since(start).Nanoseconds(), history.None)
			}
			return nil
		}, nil
	}
}

func (i *Injector) restart(ctx context.Context, active faults.Active, id int32) (faults.Heal, error) {
	start, err := stop("broker stopped", Brokers.StopBroker)(i, ctx, active, id)
	if err != nil {
		return nil, err
	}
	starting, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	if err := start(starting); err != nil {
		return nil, err
	}
	return stays, nil
}

// pause reports what was held back when the pause is over, because it is not known earlier.
func (i *Injector) pause(ctx context.Context, active faults.Active, id int32) (faults.Heal, error) {
	if err := i.brokers.PauseBroker(ctx, id); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		held, err := i.brokers.ResumeBroker(ctx, id)
		report(active, held)
		return err
	}, nil
}

func (i *Injector) moveLeaders(ctx context.Context, active faults.Active, id int32) (faults.Heal, error) {
	moved, err := i.brokers.MoveLeaders(ctx, id)
	if err != nil {
		return nil, err
	}
	report(active, moved)
	if active.For == 0 {
		return stays, nil
	}
	return func(ctx context.Context) error {
		// The return of leaders is a change like their move and is counted with it. But only a broker that gave
		// leaders away can get them back.
		returned, err := i.brokers.ReturnLeaders(ctx, id)
		if len(moved) > 0 {
			report(active, returned)
		}
		return err
	}, nil
}

func (i *Injector) moveCoordinator(ctx context.Context, active faults.Active, _ int32) (faults.Heal, error) {
	from, to, err := i.brokers.MoveCoordinator(ctx, i.group)
	if err != nil {
		return nil, err
	}
	active.Effect(fmt.Sprintf("coordinator moved from broker %d to broker %d", from, to), 1, 0, history.None)
	return stays, nil
}

// stays lifts a fault that needs no action to lift it.
func stays(context.Context) error { return nil }

// report reports the changes in a fixed order.
func report(active faults.Active, changed map[string]int) {
	for _, what := range slices.Sorted(maps.Keys(changed)) {
		active.Effect(what, changed[what], 0, history.None)
	}
}
