package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/drill"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/reports"
)

// secret must never reach a responder while the drill goes on. All texts of the fake about faults contain it.
const secret = "s3cret-fault"

// fake is a session that runs nothing. Its figures follow the clock and the faults.
type fake struct {
	mu     sync.Mutex
	began  time.Time
	dir    string
	faults []drill.Fault
	log    []drill.Entry
	result *drill.Result
	ending string
	// down holds the killed instances, held the paused ones.
	down, held map[int]bool
	instances  int
	hostile    string
	store      bool
	registry   bool
	// unbreakable is the reason why no fault may be injected.
	unbreakable string
	people      []drill.Participant
	stall       chan struct{}
	here, came  atomic.Int64
	states      atomic.Int64
}

func newFake(t testing.TB) *fake {
	t.Helper()
	f := &fake{began: time.Now().Add(-97 * time.Second), dir: t.TempDir(), down: map[int]bool{}, held: map[int]bool{},
		instances: 3}
	for _, name := range []string{"debrief.html", "report.html"} {
		must.Do(t, os.WriteFile(filepath.Join(f.dir, name), []byte("<!doctype html><title>"+name+"</title><h1>"+name+"</h1>"),
			0o644))
	}
	f.say(nil, "phase", "", "The load is steady: 400/s")
	return f
}

func (f *fake) at() time.Duration { return time.Since(f.began) }

// say adds a line to the log. The caller holds f.mu or has the only reference to f.
func (f *fake) say(who *drill.Actor, action, fault, text string) {
	f.log = append(f.log, drill.Entry{Number: len(f.log) + 1, At: f.at(), Who: who, Action: action, Fault: fault,
		Text: text})
}

func (f *fake) State(role drill.Role) drill.State {
	f.states.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	state := drill.State{
		Role: role, Stage: drill.StageOpen, Scenario: "orders: the downstream fails", At: f.at(), Until: 10 * time.Minute,
		Instances: 8, Live: f.live(), Ending: f.ending,
		Result: f.result, Participants: slices.Clone(f.people), Faults: slices.Clone(f.faults), Log: slices.Clone(f.log),
		Unbreakable: f.unbreakable,
		May: []string{drill.ActionBreak, drill.ActionHeal, drill.ActionHealAll, drill.ActionKill, drill.ActionPause,
			drill.ActionResume, drill.ActionScale, drill.ActionReplay, drill.ActionNotice, drill.ActionNote, drill.ActionStop},
	}
	if f.hostile != "" {
		state.Scenario = f.hostile
	}
	if f.unbreakable != "" {
		state.May = slices.DeleteFunc(state.May, func(a string) bool { return a == drill.ActionBreak })
	}
	if f.result != nil {
		state.Stage, state.May = drill.StageOver, nil
	}
	if role != drill.RoleResponder || f.result != nil {
		return state
	}
	state.Scenario = ""
	state.May = slices.DeleteFunc(state.May, func(a string) bool {
		return a == drill.ActionBreak || a == drill.ActionHeal
	})
	state.Faults = slices.DeleteFunc(state.Faults, func(x drill.Fault) bool { return x.By == nil || x.By.Role != role })
	state.Log = slices.DeleteFunc(state.Log, func(e drill.Entry) bool { return e.Fault != "" })
	live := state.Live.WithoutFaults()
	state.Live = &live
	return state
}

// live makes figures like those of a run. The caller holds f.mu.
func (f *fake) live() *reports.Snapshot {
	at := f.at().Seconds()
	wave := 1 + 0.06*math.Sin(at*1.3) + 0.03*math.Sin(at*4.1)
	broken := float64(len(f.inForce()))
	live := &reports.Snapshot{
		Scenario: "orders", RunID: "run-1", Phase: "steady", SentRate: 400 * wave, ProcessedRate: 388 * wave / (1 + broken),
		AttemptRate: 460 * wave, DeadLetterRate: 4 * (1 + 6*broken),
		Lag: int64(40*wave + 900*broken), DeadLetters: int64(at * 4), RetriesInFlight: int64(12*wave + 80*broken),
		Latency: reports.LiveLatency{Success: reports.LiveLatencies{Count: 1000,
			P50: time.Duration(8 * wave * float64(time.Millisecond)),
			P99: time.Duration((120*wave + 900*broken) * float64(time.Millisecond))}},
	}
	for i := range 6 {
		live.Partitions = append(live.Partitions, reports.PartitionState{Topic: "orders", Partition: int32(i),
			Lag: int64(6*wave) + int64(broken)*int64(60*(i+1)), Instance: i % f.instances})
	}
	for i := range f.instances {
		state := reports.InstanceState{Kind: "instance", Number: i, Name: fmt.Sprintf("instance %d", i),
			Status: reports.InstanceRunning, Partitions: 2, FetchRate: 130, AttemptRate: 150 * wave}
		if f.down[i] {
			state.Status, state.Partitions, state.AttemptRate, state.FetchRate = reports.InstanceKilled, 0, 0, 0
		}
		if f.held[i] {
			state.Status = reports.InstancePaused
		}
		live.Instances = append(live.Instances, state)
	}
	if f.store {
		live.Store = &reports.StoreFigures{}
	}
	if f.registry {
		live.Registry = &reports.RegistryFigures{Requests: 12}
	}
	return live
}

// broken returns inForce, for a test.
func (f *fake) broken() []drill.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inForce()
}

func (f *fake) inForce() []drill.Fault {
	return slices.DeleteFunc(slices.Clone(f.faults), func(x drill.Fault) bool { return x.Healed != nil })
}

func (f *fake) Catalogue() []drill.Breakable {
	return []drill.Breakable{{
		Name: "downstream.outage", Kind: "downstream", Summary: "What the subject calls is out of order.",
		Does: "Every attempt is answered 503.", Shows: "A correct consumer retries as often as it says.",
		Parameters: []drill.Parameter{{Path: "for", Type: drill.TypeDuration},
			{Path: "downstream.outage", Type: drill.TypeFlag, Fixed: true}},
		Spec: map[string]any{"downstream": map[string]any{"outage": true}},
	}, {
		Name: "network.latency", Kind: "network", Summary: "A link is slow.", Does: "Every chunk of data is delayed, by " +
			"latency plus up to jitter.", Shows: "A correct consumer is slower and nothing else.",
		Parameters: []drill.Parameter{
			{Path: "network.link", Type: drill.TypeChoice, Choices: []string{"downstream", "brokers", "broker 1", "broker 2",
				"broker 3"}, Default: "downstream", Required: true},
			{Path: "network.latency", Type: drill.TypeDuration, Default: "200ms", Required: true},
			{Path: "network.jitter", Type: drill.TypeDuration, Default: "50ms"},
			{Path: "for", Type: drill.TypeDuration}, {Path: "network.toxicity", Type: drill.TypePercent},
		},
		Spec: map[string]any{"network": map[string]any{"link": "downstream", "latency": "200ms", "jitter": "50ms"}},
	}, {
		Name: "kafka.error", Kind: "kafka", Summary: "The broker refuses a request.",
		Does: "The request is answered with a Kafka error.", Shows: "A correct consumer tries again.",
		Parameters: []drill.Parameter{
			{Path: "kafka.api", Type: drill.TypeChoice, Choices: []string{"Produce", "Fetch", "OffsetCommit"},
				Default: "Produce", Required: true},
			{Path: "kafka.topic", Type: drill.TypeText, Choices: []string{"input", "dlq"}, Default: "dlq"},
			{Path: "kafka.error", Type: drill.TypeText, Choices: []string{"NOT_ENOUGH_REPLICAS"}, Default: "NOT_ENOUGH_REPLICAS",
				Required: true},
			{Path: "kafka.nth", Type: drill.TypeNumber, Min: 1},
		},
		Spec: map[string]any{"kafka": map[string]any{"api": "Produce", "topic": "dlq", "error": "NOT_ENOUGH_REPLICAS"}},
	}, {
		Name: "broker.move_leaders", Kind: "broker", Summary: "Partitions get other leaders.", Does: "Leaders move.",
		Shows: "A correct consumer follows.", Refused: "it needs two brokers that hold more than the DLQ topic",
	}, {
		Name: "broker.stop", Kind: "broker", Summary: "A broker is gone for a while, in order.", Does: "Its connections end.",
		Shows:      "A correct consumer finds the new leaders.",
		Parameters: []drill.Parameter{{Path: "broker.broker", Type: drill.TypeNumber, Default: 2, Min: 1, Required: true}},
		Spec:       map[string]any{"broker": map[string]any{"broker": 2, "stop": true}},
	}}
}

func (f *fake) Break(_ context.Context, who drill.Actor, spec map[string]any) (drill.Fault, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if who.Role == drill.RoleResponder {
		return drill.Fault{}, errors.New("a responder breaks nothing")
	}
	if len(spec) == 0 {
		return drill.Fault{}, errors.New("a fault needs exactly one kind")
	}
	fault := drill.Fault{ID: fmt.Sprintf("f%d", len(f.faults)+1), By: &who, Spec: spec, Injected: f.at(), ToNotice: true,
		Effects: 321}
	fault.Name, fault.Kind, fault.What, fault.Target = "downstream-outage "+secret, "downstream",
		"downstream answers 503 "+secret, "downstream"
	if network, ok := spec["network"].(map[string]any); ok {
		fault.Name, fault.Kind, fault.What, fault.Target = "downstream-latency", "network",
			fmt.Sprintf("%v delayed by %v", network["link"], network["latency"]), fmt.Sprint(network["link"])
	}
	if kafka, ok := spec["kafka"].(map[string]any); ok {
		fault.Name, fault.Kind, fault.What, fault.Target = "produce-error", "kafka",
			fmt.Sprintf("%v to dlq answered %v", kafka["api"], kafka["error"]), "dlq"
	}
	f.faults = append(f.faults, fault)
	f.say(&who, drill.ActionBreak, fault.ID, fault.What)
	return fault, nil
}

func (f *fake) Heal(_ context.Context, who drill.Actor, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.faults {
		if f.faults[i].ID == id && f.faults[i].Healed == nil {
			at := f.at()
			f.faults[i].Healed, f.faults[i].HealedBy, f.faults[i].Drained = &at, &who, &at
			f.faults[i].Lifted = drill.LiftedByHand
			f.say(&who, drill.ActionHeal, id, f.faults[i].Name)
			return nil
		}
	}
	return errors.New("there is no such fault in force")
}

func (f *fake) HealAll(ctx context.Context, who drill.Actor) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stall != nil {
		f.mu.Unlock()
		<-f.stall
		<-f.stall
		f.mu.Lock()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	at := f.at()
	for i := range f.faults {
		if f.faults[i].Healed == nil {
			f.faults[i].Healed, f.faults[i].HealedBy, f.faults[i].Drained = &at, &who, &at
			f.faults[i].Lifted = drill.LiftedByHand
		}
	}
	f.down, f.held = map[int]bool{}, map[int]bool{}
	f.say(&who, drill.ActionHealAll, "", "everything")
	return nil
}

func (f *fake) Kill(_ context.Context, who drill.Actor, i int) error {
	return f.process(who, drill.ActionKill, func() { f.down[i] = true }, i)
}
func (f *fake) Pause(_ context.Context, who drill.Actor, i int) error {
	return f.process(who, drill.ActionPause, func() { f.held[i] = true }, i)
}
func (f *fake) Resume(_ context.Context, who drill.Actor, i int) error {
	return f.process(who, drill.ActionResume, func() { delete(f.held, i) }, i)
}
func (f *fake) Restart(_ context.Context, who drill.Actor, i int) error {
	return f.process(who, drill.ActionRestart, func() { delete(f.down, i) }, i)
}

func (f *fake) Attend() func() {
	f.here.Add(1)
	return func() { f.here.Add(-1) }
}

func (f *fake) Arrive() { f.came.Add(1) }

func (f *fake) Scale(_ context.Context, who drill.Actor, n int) error {
	return f.process(who, drill.ActionScale, func() { f.instances = n }, n)
}

func (f *fake) process(who drill.Actor, action string, do func(), n int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	f.say(&who, action, "", fmt.Sprintf("instance %d", n))
	return nil
}

func (f *fake) Replay(_ context.Context, who drill.Actor) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.say(&who, drill.ActionReplay, "", "42 dead letters written back")
	return nil
}

func (f *fake) Notice(who drill.Actor, text string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.at()
	for i := range f.faults {
		if f.faults[i].Noticed == nil && f.faults[i].Healed == nil {
			f.faults[i].Noticed, f.faults[i].NoticedBy = &at, &who
		}
	}
	f.say(&who, drill.ActionNotice, "", text)
	return nil
}

func (f *fake) Note(who drill.Actor, text string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.say(&who, drill.ActionNote, "", text)
	return nil
}

func (f *fake) Join(who drill.Actor) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.people = append(f.people, drill.Participant{Actor: who, Joined: f.at()})
	return nil
}

func (f *fake) Stop(who drill.Actor) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.say(&who, drill.ActionStop, "", "the drill ends")
	f.ending = "stopped by " + who.Name
	f.result = &drill.Result{
		Verdict: assertions.Pass, Dir: f.dir, Replay: "dlqbench run runs/latest/recorded.yaml",
		Figures: drill.Figures{Faults: len(f.faults), Noticed: 1, Healed: 1, Drained: 1,
			ToNotice: drill.Spread{Median: 8 * time.Second, Max: 8 * time.Second},
			ToHeal:   drill.Spread{Median: 21 * time.Second}, ToDrain: drill.Spread{Median: 3200 * time.Millisecond,
				Max: 5 * time.Second}},
	}
	return nil
}

// serve serves a session until the test ends.
func serve(t testing.TB, session Session, options Options) *Server {
	t.Helper()
	if options.Address == "" {
		options.Address = "127.0.0.1:0"
	}
	server := must.Get(Listen(options))(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, session) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	return server
}
