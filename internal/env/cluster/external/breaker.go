package external

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/procgroup"
)

const (
	// commandLimit bounds a command that the user configured.
	commandLimit = 60 * time.Second
	// confirmLimit bounds the wait until what the command was for is seen.
	confirmLimit = 30 * time.Second
	confirmPause = 100 * time.Millisecond
	// stillLimit is how long a broker that stands still is given to answer.
	stillLimit = time.Second
	// keptOutput is how much of a command's output an error shows.
	keptOutput = 2 << 10
)

// breakage is what a broker was to the run when it was broken.
type breakage struct {
	// led are the partitions of the run's topics that it led.
	led map[partition]bool
	// coordinated: it coordinated the run's group.
	coordinated bool
}

type partition struct {
	topic  string
	number int32
}

// CanBreak says whether a fault can be carried out on this cluster's brokers; the action is the word of the scenario
// (stop, kill, restart, pause, move_leaders, move_coordinator). The error matches ErrNotConfigured and says what to
// configure. It is meant to be asked before anything is started.
func (k *Kafka) CanBreak(action string) error { return k.config.CanBreak(action) }

// CanBreak says whether a fault can be carried out; it needs no connection.
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

// StopBroker runs the command for it and returns once the broker answers nobody any more, with what it was to the run
// until then: the partitions that it led, by whether another leads them by now, and the coordinator of the run's group.
// Connections of clients are not seen from here.
func (k *Kafka) StopBroker(ctx context.Context, number int32) (changed map[string]int, err error) {
	return k.takeDown(ctx, number, "stop", k.config.Commands.Stop)
}

// KillBroker is StopBroker with another command.
func (k *Kafka) KillBroker(ctx context.Context, number int32) (changed map[string]int, err error) {
	return k.takeDown(ctx, number, "kill", k.config.Commands.Kill)
}

func (k *Kafka) takeDown(ctx context.Context, number int32, action, command string) (map[string]int, error) {
	broker, before, err := k.beginBreaking(ctx, number, action)
	if err == nil {
		err = k.run(ctx, action, command, broker)
	}
	if err == nil {
		err = k.confirm(ctx, "it still answers at "+broker.Address, func(ctx context.Context) bool {
			return !k.answers(ctx, broker, stepLimit)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("breaking broker %d (%s): %w", number, action, err)
	}
	return k.changes(ctx, broker, before), nil
}

// StartBroker runs the command for it and returns once the broker answers.
func (k *Kafka) StartBroker(ctx context.Context, number int32) error {
	broker, err := k.byNumber(number)
	if err == nil {
		err = k.run(ctx, "start", k.config.Commands.Start, broker)
	}
	if err == nil {
		err = k.confirm(ctx, "it does not answer at "+broker.Address, func(ctx context.Context) bool {
			return k.answers(ctx, broker, stepLimit)
		})
	}
	if err != nil {
		return fmt.Errorf("starting broker %d: %w", number, err)
	}
	k.forgetBreakage(number)
	return nil
}

// PauseBroker runs the command for it and returns once the broker takes connections but does not answer.
func (k *Kafka) PauseBroker(ctx context.Context, number int32) error {
	broker, before, err := k.beginBreaking(ctx, number, "pause")
	if err == nil {
		err = k.run(ctx, "pause", k.config.Commands.Pause, broker)
	}
	if err == nil {
		err = k.confirm(ctx, "it still answers at "+broker.Address, func(ctx context.Context) bool {
			return !k.answers(ctx, broker, stillLimit)
		})
	}
	if err != nil {
		return fmt.Errorf("pausing broker %d: %w", number, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broken[number] = before
	return nil
}

// ResumeBroker runs the command for it, returns once the broker answers, and counts what it was to the run when it was
// paused: what it was asked meanwhile is not seen from here.
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
	err = k.run(ctx, "resume", k.config.Commands.Resume, broker)
	if err == nil {
		err = k.confirm(ctx, "it does not answer at "+broker.Address, func(ctx context.Context) bool {
			return k.answers(ctx, broker, stepLimit)
		})
	}
	if err != nil {
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

// beginBreaking finds a broker that is up and what it is to the run. A broker that is down already would make a fault
// that does nothing.
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

// MoveCoordinator is refused: a coordinator belongs to groups of others too.
func (k *Kafka) MoveCoordinator(context.Context, string) (from, to int32, err error) {
	return 0, 0, k.CanBreak("move_coordinator")
}

// changes compares what a broker was to the run with what it is now. What it led has no leader that could be asked
// until the cluster has noticed.
func (k *Kafka) changes(ctx context.Context, broker cluster.Broker, before *breakage) map[string]int {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepLimit)
	defer cancel()
	leaders, _ := k.leaders(limited) // when nobody answers, nobody leads
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

// leaders returns the node ids that lead the partitions of the run's topics; −1 for nobody.
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

// answers says whether a broker answers a question that needs no credentials. A balancer before it may accept
// connections for a broker that is gone, so that its port is open proves nothing.
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

// confirm waits until something is seen. What is seen when the time is over does not count: a question that was cut off
// then has no answer either.
func (k *Kafka) confirm(ctx context.Context, otherwise string, seen func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, confirmLimit)
	defer cancel()
	for {
		if seen(ctx) && ctx.Err() == nil {
			return nil
		}
		select {
		case <-time.After(confirmPause):
		case <-ctx.Done():
			return fmt.Errorf("the command has run, but %s after %s: does it do that to the right broker?", otherwise,
				confirmLimit)
		}
	}
}

// run runs a command of the user's for a broker. It gets no credentials of dlqbench, and none is in the error. What it
// starts and leaves behind goes on.
func (k *Kafka) run(ctx context.Context, action, command string, broker cluster.Broker) error {
	if command == "" {
		return k.CanBreak(action)
	}
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	// A file, not a pipe: a broker that the command leaves running may go on writing to it.
	output, err := os.CreateTemp("", "dlqbench-command-*")
	if err != nil {
		return fmt.Errorf("keeping the output of the command for %s: %w", action, err)
	}
	defer func() { _, _ = output.Close(), os.Remove(output.Name()) }()
	line := strings.NewReplacer("{{broker}}", strconv.Itoa(int(broker.Number)), "{{id}}", strconv.Itoa(int(broker.ID))).
		Replace(command)
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return name == EnvPassword || strings.HasPrefix(name, "DLQBENCH_") && strings.HasSuffix(name, "_TOKEN")
	})
	procgroup.KillOnCancel(cmd)
	cmd.Stdout, cmd.Stderr = output, output
	if err = cmd.Run(); err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("it did not end within %s", commandLimit)
	}
	return fmt.Errorf("the command for %s failed: %w; it said: %s", action, err, k.said(output.Name()))
}

// said returns the end of what a command wrote, without secrets.
func (k *Kafka) said(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	text := strings.TrimSpace(k.config.redact(string(data)))
	if text == "" {
		return "nothing"
	}
	return text[max(0, len(text)-keptOutput):]
}
