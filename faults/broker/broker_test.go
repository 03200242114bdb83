package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
)

var (
	errBreak = errors.New("can't be broken")
	errMend  = errors.New("can't be mended")
)

// log records calls on brokers and reported effects in order.
type log struct {
	entries             []string
	breakFails          bool
	mendFails           bool
	idle                bool // no client uses the broker, so nothing changes
	interruptAfterBreak context.CancelFunc
	mendWasInterrupted  bool
}

func (l *log) breaks(what string, id int32, changed map[string]int) (map[string]int, error) {
	if l.breakFails {
		return nil, errBreak
	}
	l.entries = append(l.entries, fmt.Sprintf("%s %d", what, id))
	if l.interruptAfterBreak != nil {
		l.interruptAfterBreak()
	}
	if l.idle {
		return nil, nil
	}
	return changed, nil
}

func (l *log) mends(ctx context.Context, what string, id int32, changed map[string]int) (map[string]int, error) {
	if l.mendFails {
		return nil, errMend
	}
	l.mendWasInterrupted = ctx.Err() != nil
	l.entries = append(l.entries, fmt.Sprintf("%s %d", what, id))
	if l.idle {
		return nil, nil
	}
	return changed, nil
}

func (l *log) StopBroker(_ context.Context, id int32) (map[string]int, error) {
	return l.breaks("stop", id, map[string]int{"connections closed": 3, "leaders moved": 2})
}

func (l *log) KillBroker(_ context.Context, id int32) (map[string]int, error) {
	return l.breaks("kill", id, map[string]int{"connections reset": 3})
}

func (l *log) StartBroker(ctx context.Context, id int32) error {
	_, err := l.mends(ctx, "start", id, nil)
	return err
}

func (l *log) PauseBroker(_ context.Context, id int32) error {
	_, err := l.breaks("pause", id, nil)
	return err
}

func (l *log) ResumeBroker(ctx context.Context, id int32) (map[string]int, error) {
	return l.mends(ctx, "resume", id, map[string]int{"requests held": 5})
}

func (l *log) MoveLeaders(_ context.Context, id int32) (map[string]int, error) {
	return l.breaks("move leaders", id, map[string]int{"leaders moved": 2})
}

func (l *log) ReturnLeaders(ctx context.Context, id int32) (map[string]int, error) {
	return l.mends(ctx, "return leaders", id, map[string]int{"leaders moved": 2})
}

func (l *log) MoveCoordinator(_ context.Context, group string) (from, to int32, err error) {
	_, err = l.breaks("move coordinator of "+group, 0, nil)
	return 1, 2, err
}

func (l *log) Record(event history.Event) {
	if event.Instance != history.None {
		l.entries = append(l.entries, "a wrong instance")
	}
	l.entries = append(l.entries, fmt.Sprintf("%d %s", event.N, event.Text))
}

func (l *log) Now() time.Duration { return 0 }

func inject(ctx context.Context, l *log, spec *Broker, duration time.Duration) (faults.Heal, error) {
	planned := faults.Planned{Fault: spec, PlannedFault: history.PlannedFault{For: duration}}
	return NewInjector(l, "group").Inject(ctx, faults.NewActive(planned, l, l))
}

func TestInject(t *testing.T) {
	stopped := []string{"stop 2", "1 broker stopped", "3 connections closed", "2 leaders moved"}
	for _, test := range []struct {
		name           string
		log            log
		spec           Broker
		duration       time.Duration
		injected, ends []string
	}{
		{name: "stop", spec: Broker{Broker: 2, Stop: true}, duration: time.Second, injected: stopped,
			ends: []string{"start 2", "1 broker started"}},
		{name: "kill", spec: Broker{Broker: 2, Kill: true}, duration: time.Second,
			injected: []string{"kill 2", "1 broker killed", "3 connections reset"},
			ends:     []string{"start 2", "1 broker started"}},
		{name: "restart", spec: Broker{Broker: 2, Restart: true}, injected: append(slices.Clone(stopped), "start 2",
			"1 broker started")},
		{name: "pause", spec: Broker{Broker: 2, Pause: true}, duration: time.Second, injected: []string{"pause 2"},
			ends: []string{"resume 2", "5 requests held"}},
		{name: "move leaders for a while", spec: Broker{Broker: 2, MoveLeaders: true}, duration: time.Second,
			injected: []string{"move leaders 2", "2 leaders moved"}, ends: []string{"return leaders 2", "2 leaders moved"}},
		{name: "move leaders for good", spec: Broker{Broker: 2, MoveLeaders: true},
			injected: []string{"move leaders 2", "2 leaders moved"}},
		{name: "move coordinator", spec: Broker{MoveCoordinator: true},
			injected: []string{"move coordinator of group 0", "1 coordinator moved from broker 1 to broker 2"}},
		// A fault that changed nothing for any client has no effect.
		{name: "stop an idle one", log: log{idle: true}, spec: Broker{Broker: 2, Stop: true}, duration: time.Second,
			injected: []string{"stop 2"}, ends: []string{"start 2"}},
		{name: "pause an idle one", log: log{idle: true}, spec: Broker{Broker: 2, Pause: true}, duration: time.Second,
			injected: []string{"pause 2"}, ends: []string{"resume 2"}},
		{name: "move no leaders", log: log{idle: true}, spec: Broker{Broker: 2, MoveLeaders: true},
			duration: time.Second, injected: []string{"move leaders 2"}, ends: []string{"return leaders 2"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			heal, err := inject(t.Context(), &test.log, &test.spec, test.duration)
			if err != nil || !slices.Equal(test.log.entries, test.injected) {
				t.Fatalf("injecting did %q, %v, want %q", test.log.entries, err, test.injected)
			}
			if err := heal(t.Context()); err != nil {
				t.Error(err)
			}
			if ends := test.log.entries[len(test.injected):]; !slices.Equal(ends, test.ends) {
				t.Errorf("healing did %q, want %q", ends, test.ends)
			}
		})
	}
}

func TestInjectFails(t *testing.T) {
	for name, spec := range map[string]*Broker{
		"of another kind": nil, "this fault does nothing": {Broker: 2},
		"pause and stop exclude each other": {Broker: 2, Stop: true, Pause: true},
	} {
		l := &log{}
		if _, err := inject(t.Context(), l, spec, time.Second); err == nil ||
			!strings.Contains(err.Error(), name) || len(l.entries) > 0 {
			t.Errorf("%+v did %q, %v, want an error with %q", spec, l.entries, err, name)
		}
	}
	for _, spec := range []Broker{{Stop: true}, {Kill: true}, {Restart: true}, {Pause: true}, {MoveLeaders: true},
		{MoveCoordinator: true}} {
		l := &log{breakFails: true}
		if _, err := inject(t.Context(), l, &spec, time.Second); !errors.Is(err, errBreak) || len(l.entries) > 0 {
			t.Errorf("%+v did %q, %v, want the broker's error", spec, l.entries, err)
		}
		if spec.MoveCoordinator || spec.Restart {
			continue
		}
		l = &log{}
		heal, err := inject(t.Context(), l, &spec, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		injected := len(l.entries)
		l.mendFails = true
		if err := heal(t.Context()); !errors.Is(err, errMend) || len(l.entries) > injected {
			t.Errorf("%+v healed: %q, %v, want the broker's error and no effect", spec, l.entries[injected:], err)
		}
	}
	if _, err := inject(t.Context(), &log{mendFails: true}, &Broker{Broker: 1, Restart: true}, 0); !errors.Is(err,
		errMend) {
		t.Errorf("a restart that does not start: got %v", err)
	}
}

// An interrupt (Ctrl-C) between stop and start of a restart must not leave the broker stopped.
func TestRestartIsFinishedWhenInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := &log{interruptAfterBreak: cancel}
	if _, err := inject(ctx, l, &Broker{Broker: 1, Restart: true}, 0); err != nil {
		t.Fatal(err)
	}
	if l.mendWasInterrupted || !slices.Contains(l.entries, "start 1") {
		t.Errorf("did %q, start interrupted: %v", l.entries, l.mendWasInterrupted)
	}
}
