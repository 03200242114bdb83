package external

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/procgroup"
)

const (
	// confirmLimit bounds the wait until a command's effect is observed.
	confirmLimit = 30 * time.Second
	confirmPause = 100 * time.Millisecond
	// stillLimit is how long a paused broker is given to answer.
	stillLimit = time.Second
)

// breakage is the broker's role in the run at the time when a fault was injected into it.
type breakage struct {
	// led are the partitions of the run's topics that the broker led.
	led map[partition]bool
	// coordinated says that the broker coordinated the run's group.
	coordinated bool
}

type partition struct {
	topic  string
	number int32
}

// CanBreak checks whether a fault can be injected into this cluster's brokers. action is the scenario's word (stop,
// kill, restart, pause, move_leaders, move_coordinator). The error matches ErrNotConfigured and says what to
// configure. It is meant to be called before anything is started.
func (k *Kafka) CanBreak(action string) error { return k.config.CanBreak(action) }

// CanBreak checks whether a fault can be injected. It needs no connection.
func (c Config) CanBreak(action string) error {
	commands := map[string]string{
		"stop": c.Commands.Stop, "kill": c.Commands.Kill, "start": c.Commands.Start, "pause": c.Commands.Pause,
		"resume": c.Commands.Resume,
	}
	needed, known := map[string][]string{
		"stop": {"stop", "start"}, "kill": {"kill", "start"}, "restart": {"stop", "start"}, "pause": {"pause", "resume"},
	}[action]
	if !known {
		return fmt.Errorf(
			"%w: %s is not done to a cluster that others use too; take a scenario without it, or another kind of cluster",
			ErrNotConfigured, action)
	}
	var missing []string
	for _, name := range needed {
		if commands[name] == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: to %s one, configure the command for %s as dlqbench.broker.%s in the settings file, such as "+
		"`systemctl --host kafka{{id}} %s kafka` ({{broker}}: its number from 1, {{id}}: its node id)",
		ErrNotConfigured, action, strings.Join(missing, " and for "), strings.Join(missing, " and dlqbench.broker."),
		missing[0])
}

// StopBroker runs the stop command and returns once the broker does not answer any more. The changes are the
// broker's former role in the run: the partitions that it led, by whether another broker leads them by now, and the
// coordinator of the run's group. Clients' connections cannot be observed from here.
func (k *Kafka) StopBroker(ctx context.Context, number int32) (changed map[string]int, err error) {
	return k.takeDown(ctx, number, "stop", k.config.Commands.Stop)
}

// KillBroker is StopBroker with the kill command.
func (k *Kafka) KillBroker(ctx context.Context, number int32) (changed map[string]int, err error) {
	return k.takeDown(ctx, number, "kill", k.config.Commands.Kill)
}

func (k *Kafka) takeDown(ctx context.Context, number int32, action, command string) (map[string]int, error) {
	broker, before, err := k.beginBreaking(ctx, number, action)
	if err == nil {
		err = k.run(ctx, action, command, broker, false, stepLimit)
	}
	if err != nil {
		return nil, fmt.Errorf("breaking broker %d (%s): %w", number, action, err)
	}
	return k.changes(ctx, broker, before), nil
}

// StartBroker runs the start command and returns once the broker answers.
func (k *Kafka) StartBroker(ctx context.Context, number int32) error {
	broker, err := k.byNumber(number)
	if err == nil {
		err = k.run(ctx, "start", k.config.Commands.Start, broker, true, stepLimit)
	}
	if err != nil {
		return fmt.Errorf("starting broker %d: %w", number, err)
	}
	k.forgetBreakage(number)
	return nil
}

// PauseBroker runs the pause command and returns once the broker accepts connections but does not answer.
func (k *Kafka) PauseBroker(ctx context.Context, number int32) error {
	broker, before, err := k.beginBreaking(ctx, number, "pause")
	if err == nil {
		err = k.run(ctx, "pause", k.config.Commands.Pause, broker, false, stillLimit)
	}
	if err != nil {
		return fmt.Errorf("pausing broker %d: %w", number, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broken[number] = before
	return nil
}

// ResumeBroker runs the resume command, returns once the broker answers, and counts the broker's role in the run at
// the time of the pause. Requests sent to it meanwhile cannot be observed from here.
func (k *Kafka) ResumeBroker(ctx context.Context, number int32) (changed map[string]int, err error) {
	broker, err := k.byNumber(number)
	if err != nil {
		return nil, fmt.Errorf("resuming broker %d: %w", number, err)
	}
	k.mu.Lock()
	before := k.broken[number]
	k.mu.Unlock()
	if before != nil {
		changed = k.changes(ctx, broker, before) // before it can take its leaders back
	}
	if err := k.run(ctx, "resume", k.config.Commands.Resume, broker, true, stepLimit); err != nil {
		return changed, fmt.Errorf("resuming broker %d: %w", number, err)
	}
	k.forgetBreakage(number)
	return changed, nil
}

func (k *Kafka) forgetBreakage(number int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.broken, number)
}

// beginBreaking finds a running broker and its role in the run. With a broker that is already down, the fault would
// do nothing.
func (k *Kafka) beginBreaking(ctx context.Context, number int32,
	action string) (broker cluster.Broker, before *breakage, err error) {
	if err := k.CanBreak(action); err != nil {
		return broker, nil, err
	}
	if broker, err = k.byNumber(number); err != nil {
		return broker, nil, err
	}
	if !k.answers(ctx, broker, stepLimit) {
		return broker, nil, fmt.Errorf("it does not answer at %s as it is: is it stopped or paused already?", broker.Address)
	}
	before = &breakage{led: map[partition]bool{}}
	leaders, err := k.leaders(ctx)
	if err != nil {
		return broker, nil, err
	}
	for at, leader := range leaders {
		if leader == broker.ID {
			before.led[at] = true
		}
	}
	node, err := k.coordinator(ctx, k.config.Prefix)
	before.coordinated = err == nil && node == broker.ID
	return broker, before, nil
}

// MoveLeaders is refused: see CanBreak.
func (k *Kafka) MoveLeaders(context.Context, int32) (changed map[string]int, err error) {
	return nil, k.CanBreak("move_leaders")
}

// ReturnLeaders is refused: see CanBreak.
func (k *Kafka) ReturnLeaders(context.Context, int32) (changed map[string]int, err error) {
	return nil, k.CanBreak("move_leaders")
}

// MoveCoordinator is refused: a coordinator also serves other users' groups.
func (k *Kafka) MoveCoordinator(context.Context, string) (from, to int32, err error) {
	return 0, 0, k.CanBreak("move_coordinator")
}

// changes compares a broker's former role in the run with its present one. Its partitions have no leader to ask
// until the cluster has detected the change.
func (k *Kafka) changes(ctx context.Context, broker cluster.Broker, before *breakage) map[string]int {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepLimit)
	defer cancel()
	leaders, _ := k.leaders(limited) // if no broker answers, there is no leader
	changed := map[string]int{}
	for at := range before.led {
		if now, known := leaders[at]; known && now >= 0 && now != broker.ID {
			changed[cluster.ChangeMoved]++
		} else {
			changed[cluster.ChangeLeaderless]++
		}
	}
	if before.coordinated {
		changed[cluster.ChangeCoordinators]++
	}
	return changed
}

// leaders returns the node ids of the leaders of the run's partitions; −1 stands for none.
func (k *Kafka) leaders(ctx context.Context) (map[partition]int32, error) {
	k.mu.Lock()
	names := slices.Sorted(maps.Keys(k.ledger.Topics))
	k.mu.Unlock()
	if len(names) == 0 {
		return nil, nil
	}
	metadata, err := k.metadata(ctx, k.client, names)
	if err != nil {
		return nil, err
	}
	leaders := map[partition]int32{}
	for _, topic := range metadata.Topics {
		for _, p := range topic.Partitions {
			leaders[partition{text(topic.Topic), p.Partition}] = p.Leader
		}
	}
	return leaders, nil
}

// answers reports whether a broker answers a request that needs no credentials. A load balancer in front of it may
// accept connections for a broker that is gone, so an open port proves nothing.
func (k *Kafka) answers(ctx context.Context, broker cluster.Broker, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	p := &probe{config: k.config, address: broker.Address}
	if p.dial(ctx) != nil {
		return false
	}
	defer p.closeWith(ctx)()
	defer p.close()
	return p.secure(ctx) == nil && p.ask(kmsg.NewPtrApiVersionsRequest(), new(kmsg.ApiVersionsResponse)) == nil
}

// confirm waits until seen returns true. An observation after the time is over does not count: a request that was
// cut off then has no answer either.
func (k *Kafka) confirm(ctx context.Context, otherwise string, seen func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, confirmLimit)
	defer cancel()
	for {
		if seen(ctx) && ctx.Err() == nil {
			return nil
		}
		if cluster.Sleep(ctx, confirmPause) != nil {
			return fmt.Errorf("the command has run, but %s after %s: does it do that to the right broker?", otherwise,
				confirmLimit)
		}
	}
}

// run runs the user's command for a broker, and waits until the broker answers within limit, or does not, as up says.
// The command gets no credentials of dlqbench, and the error contains none. Processes that it leaves behind continue.
func (k *Kafka) run(ctx context.Context, action, command string, broker cluster.Broker, up bool,
	limit time.Duration) error {
	if command == "" {
		return k.CanBreak(action)
	}
	line := strings.NewReplacer("{{broker}}", strconv.Itoa(int(broker.Number)), "{{id}}", strconv.Itoa(int(broker.ID))).
		Replace(command)
	environment := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return name == EnvPassword || strings.HasPrefix(name, "DLQBENCH_") && strings.HasSuffix(name, "_TOKEN")
	})
	run := procgroup.Command{Args: []string{"sh", "-c", line}, Env: environment, Redact: k.config.redact}
	if err := run.Run(ctx); err != nil {
		return fmt.Errorf("the command for %s failed: %w", action, err)
	}
	otherwise := "it still answers at "
	if up {
		otherwise = "it does not answer at "
	}
	return k.confirm(ctx, otherwise+broker.Address, func(ctx context.Context) bool {
		return k.answers(ctx, broker, limit) == up
	})
}
