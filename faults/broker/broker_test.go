package broker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
)

var (
	errStop  = errors.New("can't stop")
	errStart = errors.New("can't start")
)

// log notes calls on brokers and reported effects in the order they happen.
type log struct {
	entries             []string
	stopFails           bool
	startFails          bool
	stopped             int32
	interruptAfterStop  context.CancelFunc
	startWasInterrupted bool
}

func (l *log) StopBroker(_ context.Context, id int32) error {
	if l.stopFails {
		return errStop
	}
	l.stopped = id
	l.entries = append(l.entries, "stop")
	if l.interruptAfterStop != nil {
		l.interruptAfterStop()
	}
	return nil
}

func (l *log) StartBroker(ctx context.Context, id int32) error {
	if l.startFails || id != l.stopped {
		return errStart
	}
	l.startWasInterrupted = ctx.Err() != nil
	l.entries = append(l.entries, "start")
	return nil
}

func (l *log) Record(event history.Event) {
	if event.N != 1 || event.Instance != history.None {
		l.entries = append(l.entries, "a wrong count or instance")
	}
	l.entries = append(l.entries, "reported "+event.Text)
}

func (l *log) Now() time.Duration { return 0 }

func inject(ctx context.Context, l *log, spec *faults.Broker) (faults.Heal, error) {
	planned := faults.Planned{Spec: faults.Spec{Broker: spec}}
	return NewInjector(l).Inject(ctx, faults.NewActive(planned, l, l))
}

func TestInject(t *testing.T) {
	for _, test := range []struct {
		name           string
		log            log
		spec           *faults.Broker
		injected, ends []string
		fails          error
		says           string
	}{
		{name: "stop", spec: &faults.Broker{Broker: 2, Stop: true},
			injected: []string{"stop", "reported broker stopped"}, ends: []string{"start", "reported broker started"}},
		{name: "restart", spec: &faults.Broker{Broker: 2, Restart: true},
			injected: []string{"stop", "reported broker stopped", "start", "reported broker started"}},
		{name: "can't stop", log: log{stopFails: true}, spec: &faults.Broker{Broker: 2, Stop: true}, fails: errStop},
		{name: "can't start", log: log{startFails: true}, spec: &faults.Broker{Broker: 2, Restart: true},
			injected: []string{"stop", "reported broker stopped"}, fails: errStart},
		{name: "no part", says: "no broker part"},
		{name: "nothing", spec: &faults.Broker{Broker: 2}, says: "exactly one"},
		{name: "both", spec: &faults.Broker{Broker: 2, Stop: true, Restart: true}, says: "exactly one"},
	} {
		t.Run(test.name, func(t *testing.T) {
			heal, err := inject(context.Background(), &test.log, test.spec)
			if !slices.Equal(test.log.entries, test.injected) {
				t.Errorf("injecting did %q, want %q", test.log.entries, test.injected)
			}
			if test.fails != nil || test.says != "" {
				if err == nil || (test.fails != nil && !errors.Is(err, test.fails)) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("got error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := heal(context.Background()); err != nil {
				t.Error(err)
			}
			if ends := test.log.entries[len(test.injected):]; !slices.Equal(ends, test.ends) {
				t.Errorf("healing did %q, want %q", ends, test.ends)
			}
		})
	}
}

func TestHealReportsThatTheBrokerDidNotStart(t *testing.T) {
	l := &log{}
	heal, err := inject(context.Background(), l, &faults.Broker{Broker: 1, Stop: true})
	if err != nil {
		t.Fatal(err)
	}
	l.startFails = true
	if err := heal(context.Background()); !errors.Is(err, errStart) {
		t.Errorf("healing: got %v", err)
	}
	if slices.Contains(l.entries, "reported broker started") {
		t.Error("a start that failed was reported as an effect")
	}
}

// Ctrl-C between stop and start of a restart must not leave the broker stopped.
func TestRestartIsFinishedWhenInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	l := &log{interruptAfterStop: cancel}
	if _, err := inject(ctx, l, &faults.Broker{Broker: 1, Restart: true}); err != nil {
		t.Fatal(err)
	}
	if l.startWasInterrupted || !slices.Contains(l.entries, "start") {
		t.Errorf("did %q, start interrupted: %v", l.entries, l.startWasInterrupted)
	}
}
