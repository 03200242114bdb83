package kafka

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/tap"
	"github.com/dlqbench/dlqbench/internal/testkit/kafkatest"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
	"github.com/dlqbench/dlqbench/internal/units"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func runTopics() []history.Topic {
	return []history.Topic{
		{Name: "r.input", Role: history.RoleInput}, {Name: "r.retry-1", Role: history.RoleRetry},
		{Name: "r.retry-2", Role: history.RoleRetry}, {Name: "r.dlq", Role: history.RoleDLQ},
		{Name: "r.again", Role: history.RoleInput, Retries: true},
	}
}

// eventLog collects events.
type eventLog struct {
	mu     sync.Mutex
	events []history.Event
}

func (l *eventLog) Record(e history.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *eventLog) effects() []history.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []history.Event
	for _, e := range l.events {
		if e.Kind == history.KindFaultEffect {
			found = append(found, e)
		}
	}
	return found
}

func planned(spec Kafka, seed uint64) faults.Planned {
	return faults.Planned{Index: 4, Seed: seed, Fault: &spec}
}

// inject puts a fault in force. heal is called when the test ends unless the test has called it.
func inject(t *testing.T, in *Injector, log *eventLog, spec Kafka, seed uint64) (heal func()) {
	t.Helper()
	undo, err := in.Inject(t.Context(), faults.NewActive(planned(spec, seed), log, history.NewClock()))
	if err != nil {
		t.Fatal(err)
	}
	heal = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := undo(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(heal)
	return heal
}

func produceTo(topics ...string) kmsg.Request {
	request := kmsg.NewPtrProduceRequest()
	request.SetVersion(9)
	for _, name := range topics {
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic, topic.Partitions = name, []kmsg.ProduceRequestTopicPartition{kmsg.NewProduceRequestTopicPartition()}
		request.Topics = append(request.Topics, topic)
	}
	return request
}

func commitOf(topic string) kmsg.Request {
	request := kmsg.NewPtrOffsetCommitRequest()
	request.SetVersion(8)
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.Partitions = topic, []kmsg.OffsetCommitRequestTopicPartition{kmsg.NewOffsetCommitRequestTopicPartition()}
	request.Topics = append(request.Topics, t)
	return request
}

func hit(in *Injector, instance int, request kmsg.Request) bool {
	action := in.Intercept(tap.NewExchange(instance, 0, request))
	if action.Done != nil {
		action.Done()
	}
	return action.Code != 0 || action.Delay > 0 || action.Drop
}

func TestWhatARuleMatches(t *testing.T) {
	one := 1
	for name, c := range map[string]struct {
		spec     Kafka
		instance int
		request  kmsg.Request
		want     bool
	}{
		"api":                      {Kafka{API: "Produce"}, 0, produceTo("r.dlq"), true},
		"api in other case":        {Kafka{API: "produce"}, 0, produceTo("r.dlq"), true},
		"other api":                {Kafka{API: "Produce"}, 0, commitOf("r.input"), false},
		"role":                     {Kafka{API: "Produce", Topic: "dlq"}, 0, produceTo("r.dlq"), true},
		"role of several":          {Kafka{API: "Produce", Topic: "retry"}, 0, produceTo("r.retry-2"), true},
		"an input with retries":    {Kafka{API: "Produce", Topic: "retry"}, 0, produceTo("r.again"), true},
		"an input without retries": {Kafka{API: "Produce", Topic: "retry"}, 0, produceTo("r.input"), false},
		"other role":               {Kafka{API: "Produce", Topic: "dlq"}, 0, produceTo("r.retry-1"), false},
		"one of several":           {Kafka{API: "Produce", Topic: "dlq"}, 0, produceTo("r.retry-1", "r.dlq"), true},
		"name":                     {Kafka{API: "OffsetCommit", Topic: "r.input"}, 0, commitOf("r.input"), true},
		"without topics":           {Kafka{API: "Heartbeat"}, 0, kmsg.NewPtrHeartbeatRequest(), true},
		"its instance":             {Kafka{API: "Produce", Instance: &one}, 1, produceTo("r.dlq"), true},
		"other instance":           {Kafka{API: "Produce", Instance: &one}, 0, produceTo("r.dlq"), false},
		"the replayer's own":       {Kafka{API: "Produce"}, history.Replayer, produceTo("r.dlq"), true},
	} {
		in := NewInjector(runTopics())
		if hit(in, c.instance, c.request) {
			t.Errorf("%s: hit without a rule", name)
		}
		c.spec.DelayResponse = units.Duration(time.Second)
		heal := inject(t, in, &eventLog{}, c.spec, 1)
		if got := hit(in, c.instance, c.request); got != c.want {
			t.Errorf("%s: hit %v, want %v", name, got, c.want)
		}
		heal()
		if hit(in, c.instance, c.request) {
			t.Errorf("%s: hit after heal", name)
		}
	}
}

func TestOnlyMatchingPartitionsAreRefused(t *testing.T) {
	in := NewInjector(runTopics())
	inject(t, in, &eventLog{}, Kafka{API: "Produce", Topic: "dlq", Error: "NOT_ENOUGH_REPLICAS"}, 1)
	action := in.Intercept(tap.NewExchange(0, 0, produceTo("r.retry-1", "r.dlq")))
	defer action.Done()
	if action.Code != kerr.NotEnoughReplicas.Code || !action.Matches(tap.Partition{Topic: "r.dlq"}) ||
		action.Matches(tap.Partition{Topic: "r.retry-1"}) {
		t.Errorf("action %+v", action)
	}
}

// The same seed gives the same decisions, another seed gives others, and the share is kept.
func TestChancesAreDrawnFromTheSeed(t *testing.T) {
	draw := func(seed uint64) (decisions []bool, share float64) {
		in := NewInjector(runTopics())
		inject(t, in, &eventLog{}, Kafka{API: "Produce", Topic: "dlq", DropResponse: true, Probability: 0.3}, seed)
		n := 0
		for range 4000 {
			if in.rules.Load() != nil && hit(in, 0, produceTo("r.input")) {
				t.Fatal("what does not match was hit")
			}
			decisions = append(decisions, hit(in, 0, produceTo("r.dlq")))
			if decisions[len(decisions)-1] {
				n++
			}
		}
		return decisions, float64(n) / 4000
	}
	first, share := draw(7)
	again, _ := draw(7)
	other, otherShare := draw(8)
	if !slices.Equal(first, again) || slices.Equal(first, other) {
		t.Error("decisions do not follow from the seed")
	}
	// Four standard deviations of a share of 30 % in 4000.
	if min(share, otherShare) < 0.27 || max(share, otherShare) > 0.33 {
		t.Errorf("shares %v and %v, want 0.3", share, otherShare)
	}
}

func TestTheFirstRuleDecides(t *testing.T) {
	in, log := NewInjector(runTopics()), &eventLog{}
	first := inject(t, in, log, Kafka{API: "Produce", Error: "NOT_ENOUGH_REPLICAS"}, 1)
	inject(t, in, log, Kafka{API: "Produce", DropResponse: true}, 1)
	check := func(code int16, drop bool) {
		t.Helper()
		action := in.Intercept(tap.NewExchange(0, 0, produceTo("r.dlq")))
		defer action.Done()
		if action.Code != code || action.Drop != drop {
			t.Errorf("action %+v", action)
		}
	}
	check(kerr.NotEnoughReplicas.Code, false)
	first()
	check(0, true)
}

func TestHealWaitsForWhatIsHeld(t *testing.T) {
	in := NewInjector(runTopics())
	hold := func() (faults.Heal, tap.Action) {
		active := faults.NewActive(planned(Kafka{API: "Produce", DropResponse: true}, 1), &eventLog{},
			history.NewClock())
		heal, err := in.Inject(t.Context(), active)
		if err != nil {
			t.Fatal(err)
		}
		return heal, in.Intercept(tap.NewExchange(0, 0, produceTo("r.dlq")))
	}
	heal, action := hold()
	healed := make(chan error, 1)
	go func() { healed <- heal(t.Context()) }()
	<-action.Healed // the tap is told to release it
	select {
	case err := <-healed:
		t.Fatalf("healed (%v) while a response was held", err)
	case <-time.After(20 * time.Millisecond):
	}
	action.Done()
	if err := <-healed; err != nil {
		t.Error(err)
	}
	heal, action = hold()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := heal(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 requests and responses") {
		t.Errorf("healed while a response was held: %v", err)
	}
	action.Done()
}

func TestBadFaultsAreExplained(t *testing.T) {
	for want, spec := range map[string]Kafka{
		`"Produse" is no Kafka request`: {API: "Produse", DropResponse: true},
		`"NOPE" is no Kafka error`:      {API: "Produce", Error: "NOPE"},
		`this fault does nothing`:       {API: "Produce"},
		`no topic of the run is "x"`:    {API: "Produce", Topic: "x", DropResponse: true},
	} {
		_, err := NewInjector(runTopics()).Inject(t.Context(), faults.NewActive(planned(spec, 1), &eventLog{},
			history.NewClock()))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", spec, err, want)
		}
	}
	if _, err := NewInjector(nil).Inject(t.Context(), faults.Active{}); err == nil {
		t.Error("a fault of another kind was accepted")
	}
}

func TestNames(t *testing.T) {
	for _, api := range []string{"Produce", "OffsetCommit", "JoinGroup", "ConsumerGroupHeartbeat", "SaslHandshake"} {
		if _, err := apiKey(api); err != nil {
			t.Error(err)
		}
	}
	for _, api := range []string{"", "Produc", "0"} {
		if _, err := apiKey(api); err == nil {
			t.Errorf("%q is accepted", api)
		}
	}
	for name, want := range map[string]int16{
		"UNKNOWN_SERVER_ERROR": -1, "OFFSET_OUT_OF_RANGE": 1, "NOT_ENOUGH_REPLICAS": 19, "REBALANCE_IN_PROGRESS": 27,
		"FENCED_MEMBER_EPOCH": 110,
	} {
		if got, err := ErrorCode(name); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", name, got, err, want)
		}
	}
	for _, name := range []string{"", "not_enough_replicas", "NONE"} {
		if _, err := ErrorCode(name); err == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}

// A complete fault on an embedded Kafka: a client's dead letters are rejected, held or lost, and go through again
// after each fault is lifted.
func TestFaultsOnTheWire(t *testing.T) {
	log, in := &eventLog{}, NewInjector(runTopics())
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "r.dlq"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	var op atomic.Int64
	proxy := tap.New(tap.Config{
		Clock: history.NewClock(), Sink: log, NextOp: func() int64 {
			return op.Add(1)
		}, IDs: history.NewIDs("r"), Topics: runTopics(),
		Upstreams: []tap.Upstream{{NodeID: 0, Dial: network.Upstream{Address: kafka.ListenAddrs()[0]}.Connect}},
		Log:       zerolog.Nop(), Interceptor: in, TopicIDs: kafkatest.TopicIDs(kafka),
	})
	t.Cleanup(func() { _ = proxy.Close() })
	bootstrap, err := proxy.Open(2)
	if err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	written := int64(0)
	for what, spec := range map[string]Kafka{
		"requests answered NOT_ENOUGH_REPLICAS": {API: "Produce", Topic: "dlq", Error: "NOT_ENOUGH_REPLICAS"},
		"responses delayed":                     {API: "Produce", Topic: "dlq", DelayResponse: units.Duration(time.Hour)},
		"responses dropped":                     {API: "Produce", Topic: "dlq", DropResponse: true},
	} {
		before := len(log.effects())
		heal := inject(t, in, log, spec, 1)
		acked := make(chan error, 1)
		cl.Produce(t.Context(), &kgo.Record{Topic: "r.dlq", Value: []byte("x")}, func(_ *kgo.Record, err error) {
			acked <- err
		})
		wait.Until(t, what, func() bool {
			if spec.DelayResponse > 0 { // its effect is known only when the response is released: wait until it is held
				return kafka.PartitionInfo("r.dlq", 0).HighWatermark > written
			}
			return len(log.effects()) > before
		})
		select {
		case err := <-acked:
			t.Errorf("%s: acknowledged during the fault (%v)", what, err)
		default:
		}
		heal()
		if err := <-acked; err != nil {
			t.Errorf("%s: after heal: %v", what, err)
		}
		written++
		if n := kafka.PartitionInfo("r.dlq", 0).HighWatermark; n != written {
			t.Errorf("%s: %d dead letters, want %d", what, n, written)
		}
		effect := log.effects()[before]
		if effect.Text != what || effect.N != 1 || effect.Op != 4 || effect.Instance != 2 ||
			(effect.Aux > 0) != (spec.DelayResponse > 0) {
			t.Errorf("%s: effect %+v", what, effect)
		}
	}
}
