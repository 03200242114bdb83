package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/tap"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/internal/testkit/kafkatest"
	"github.com/dlqbench/dlqbench/scenarios"
)

type silentSink struct{}

func (silentSink) Record(history.Event) {}

// tapped is a tap in front of a broker, and a client of it.
func tapped(t *testing.T, broker string, topics []history.Topic) (*tap.Tap, *kadm.Client) {
	t.Helper()
	proxy := tap.New(tap.Config{Clock: history.NewClock(), Sink: silentSink{}, NextOp: func() int64 { return 1 },
		IDs: history.NewIDs("r"), Topics: topics,
		Upstreams: []tap.Upstream{{NodeID: 0, Dial: network.Upstream{Address: broker}.Connect}},
		Log:       zerolog.Nop(), Group: "g"})
	address, err := proxy.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	subject, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		subject.Close()
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	return proxy, kadm.NewClient(subject)
}

// keptEvents are the events that were recorded.
type keptEvents struct{ all []history.Event }

func (k *keptEvents) Record(e history.Event) { k.all = append(k.all, e) }

// A topic that the subject asked for in vain is told, and recorded with the dead-letter topic.
func TestMissingTopicsAreTold(t *testing.T) {
	topics := []history.Topic{{Name: "orders", Role: history.RoleInput}, {Name: "orders.dlq", Role: history.RoleDLQ}}
	fake, _ := kafkatest.Start(t, &kafkatest.Log{}, 1, []string{"orders"})
	proxy, subject := tapped(t, fake.ListenAddrs()[0], topics)
	var said strings.Builder
	var kept keptEvents
	header := history.Header{Topics: topics, Consumers: make([]history.Consumer, 1)}
	r := &run{
		options: Options{Log: zerolog.New(&said)}, header: header, clock: history.NewClock(),
		live: newLive(&kept, &header), stage: stage{tap: proxy}, plan: &plan.Plan{},
	}
	r.header.Expect.Patience = time.Minute
	failing := figures{retrying: 1}
	for _, asked := range []struct {
		topic string
		limit time.Duration
	}{{"orders", time.Minute}, {"outbox", lackingLeast}} {
		if _, err := subject.Metadata(t.Context(), asked.topic); err != nil {
			t.Fatal(err)
		}
		if got := r.standstill(failing, r.allow()); got != asked.limit {
			t.Errorf("after %s was asked for, the drain waits %v, want %v", asked.topic, got, asked.limit)
		}
		r.noteMissingTopics()
	}
	want := "do not exist: outbox; correct their names, or name them under topics in subject.yaml"
	if got := r.withMissing(errors.New("not ready")).Error(); !strings.HasSuffix(got, want) {
		t.Errorf("a consumer that does not get ready: %s", got)
	}
	failing.DeadLetters = 1
	for _, now := range []figures{{}, failing} {
		if got := r.standstill(now, r.allow()); got != time.Minute {
			t.Errorf("with %+v, the drain waits %v", now, got)
		}
	}
	if got := said.String(); strings.Contains(got, "orders") || !strings.Contains(got, "outbox") {
		t.Errorf("said %q", got)
	}
	if len(kept.all) != 1 || kept.all[0].Kind != history.KindUnreadable || kept.all[0].Topic != 1 ||
		kept.all[0].Code != history.None || kept.all[0].Instance >= 0 || kept.all[0].Text != "outbox" {
		t.Errorf("recorded %+v", kept.all)
	}
}

// strayStub is a downstream that was called in vain, or not at all.
type strayStub struct {
	called
	why    string
	unmade bool
}

func (s strayStub) Strays() (why, do string) { return s.why, "call another" }
func (s strayStub) Unmade() bool             { return s.unmade }

// It is recorded if no attempt was seen, with the reason if there is one, except where none is to be seen.
func TestRunsWithoutAnAttemptAreTold(t *testing.T) {
	ordinary, wireOnly := []history.Consumer{{}}, []history.Consumer{{Contract: history.Contract{WireOnly: true}}}
	for name, one := range map[string]struct {
		stub      strayStub
		consumers []history.Consumer
		recorded  []string
		said      bool
	}{
		"called elsewhere":        {strayStub{why: "404", unmade: true}, ordinary, []string{"404\ncall another"}, true},
		"not called":              {strayStub{unmade: true}, ordinary, []string{""}, false},
		"called there, too":       {strayStub{why: "404"}, ordinary, nil, true},
		"called":                  {strayStub{}, ordinary, nil, false},
		"nothing is to be called": {strayStub{unmade: true}, wireOnly, nil, false},
		"one of several nodes":    {strayStub{unmade: true}, make([]history.Consumer, 2), nil, false},
	} {
		var said strings.Builder
		var kept keptEvents
		header := history.Header{Consumers: one.consumers}
		r := &run{options: Options{Log: zerolog.New(&said)}, header: header, clock: history.NewClock(),
			live: newLive(&kept, &header), stage: stage{stubs: stubs{list: []called{one.stub}}}}
		r.noteStrays()
		var recorded []string
		for _, e := range kept.all {
			if recorded = append(recorded, e.Text); e.Kind != history.KindUnreadable || e.Instance >= 0 || e.Topic >= 0 {
				t.Errorf("%s: recorded %+v", name, e)
			}
		}
		if !slices.Equal(recorded, one.recorded) || (said.Len() > 0) != one.said {
			t.Errorf("%s: recorded %q, said %q", name, recorded, said.String())
		}
	}
}

// How far the subject is in a topic is what the group says that reads it: the contract's, or another one for a retry
// topic. What other groups commit elsewhere does not count.
func TestEachTopicHasTheOffsetsOfTheGroupThatReadsIt(t *testing.T) {
	fake, client := kafkatest.Start(t, &kafkatest.Log{}, 1, []string{"in", "retry-1", "retry-2", "retry-3"})
	topics := []history.Topic{{Name: "in", Role: history.RoleInput, Partitions: 1}}
	for number := range 3 {
		topics = append(topics, history.Topic{Name: fmt.Sprintf("retry-%d", number+1), Role: history.RoleRetry,
			Partitions: 1})
	}
	proxy, subject := tapped(t, fake.ListenAddrs()[0], topics)
	for _, one := range []struct {
		group, topic string
		offset       int64
	}{
		{"g", "in", 5}, {"audit", "in", 9}, {"g-retry-1", "retry-1", 6}, {"audit", "retry-1", 9},
		{"g-retry-2", "retry-2", 7}, {"audit", "retry-3", 9}, {"g", "retry-3", 8},
	} {
		offsets := kadm.Offsets{}
		offsets.AddOffset(one.topic, 0, one.offset, -1)
		if err := subject.CommitAllOffsets(t.Context(), one.group, offsets); err != nil {
			t.Fatal(err)
		}
	}
	r := &run{header: history.Header{Consumers: []history.Consumer{{Group: "g"}}, Topics: topics},
		stage: stage{admin: kadm.NewClient(client), tap: proxy}}
	committed, err := r.committed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[string]int64{"in": 5, "retry-1": 6, "retry-2": 7, "retry-3": 8} {
		if at, known := committed.Lookup(topic, 0); !known || at.At != want {
			t.Errorf("%s is committed up to %d (known: %v), want %d", topic, at.At, known, want)
		}
	}
}

// A consumer that writes to the number of its record's partition finds that partition in each topic that it writes to.
func TestTopicsHaveThePartitionsOfTheRecord(t *testing.T) {
	for same, want := range map[bool][]int{false: {6, 4, 3}, true: {6, 6, 6}} {
		r := &run{scenario: &scenarios.Scenario{Topics: scenarios.Topics{Input: scenarios.InputTopic{Partitions: 6},
			Retry: scenarios.RetryTopic{Partitions: 3}, DLQ: scenarios.DLQTopic{Partitions: 4}}}}
		r.header.Consumers = []history.Consumer{{Contract: history.Contract{SamePartition: same}}}
		r.writeTopics(scenarios.TopicNames{Inputs: []string{"in"}, DeadLetters: []string{"dead"}, Retries: []string{"retry"}},
			nil)
		var got []int
		for _, topic := range r.header.Topics {
			got = append(got, topic.Partitions)
		}
		if !slices.Equal(got, want) {
			t.Errorf("partition: same is %v: the topics have %v partitions, want %v", same, got, want)
		}
	}
}

// A record that failed may go to the end of the input.
func TestTopicsOfRetries(t *testing.T) {
	r := &run{scenario: &scenarios.Scenario{}}
	r.header.Consumers = []history.Consumer{{}}
	r.writeTopics(scenarios.TopicNames{Inputs: []string{"eu", "us"}, DeadLetters: []string{"dead"},
		Retries: []string{"us", "late"}}, nil)
	want := []history.Topic{{Name: "eu", Role: history.RoleInput}, {Name: "dead", Role: history.RoleDLQ},
		{Name: "late", Role: history.RoleRetry}, {Name: "us", Role: history.RoleInput, Retries: true}}
	if !slices.Equal(r.header.Topics, want) {
		t.Errorf("the topics are %+v, want %+v", r.header.Topics, want)
	}
}

// The tap is told the ids of the topics that exist.
func TestTopicIDs(t *testing.T) {
	fake, client := kafkatest.Start(t, &kafkatest.Log{}, 1, []string{"orders"})
	r := &run{stage: stage{admin: kadm.NewClient(client)}}
	ids, err := r.topicIDs(t.Context(), []string{"orders", "absent"})
	if err != nil {
		t.Fatal(err)
	}
	if want := fake.TopicInfo("orders").TopicID; len(ids) != 1 || ids["orders"] != want {
		t.Errorf("ids %v, want %v", ids, want)
	}
}
