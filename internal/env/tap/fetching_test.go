package tap

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// fetchTalk makes a client fetch from a broker and returns the noted changes: "+1" begins to ask for partition 1,
// "-1" ceases.
type fetchTalk struct {
	*rig
	t     *testing.T
	noted int
	sent  int32
}

func (k *fetchTalk) fetch(subject, kafka *peer, session, epoch int32, named, forgotten []int32, answered int32) string {
	k.t.Helper()
	request := kmsg.NewPtrFetchRequest()
	request.SetVersion(11)
	request.SessionID, request.SessionEpoch = session, epoch
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = "t.input"
	for _, number := range named {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = number
		topic.Partitions = append(topic.Partitions, p)
	}
	foreign := topic
	foreign.Topic = "foreign"
	request.Topics = append(request.Topics, topic, foreign)
	f := kmsg.NewFetchRequestForgottenTopic()
	f.Topic, f.Partitions = "t.input", forgotten
	request.ForgottenTopics = append(request.ForgottenTopics, f)
	answer := request.ResponseKind().(*kmsg.FetchResponse)
	answer.SessionID = answered
	k.sent++
	subject.request(k.sent, request)
	kafka.receive()
	kafka.respond(k.sent, answer)
	subject.receive()
	return k.news()
}

func (k *fetchTalk) news() string {
	events := k.log.of(history.KindFetching)
	var words []string
	for _, e := range events[k.noted:] {
		words = append(words, fmt.Sprintf("%c%d", "-+"[e.N], e.Partition))
		if e.Topic != input || e.Instance != 0 {
			k.t.Errorf("noted %+v", e)
		}
	}
	k.noted = len(events)
	slices.Sort(words)
	return strings.Join(words, " ")
}

func (k *fetchTalk) expect(what, got, want string) {
	k.t.Helper()
	if got != want {
		k.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestWhatAnInstanceAsksFor(t *testing.T) {
	b := newBroker(t)
	r := newRig(t, b.upstreams(), nil)
	address := r.open(t, 0)
	a := dial(t, address)
	kafka := b.next()
	k := &fetchTalk{rig: r, t: t}
	k.expect("without a session", k.fetch(a, kafka, 0, -1, []int32{0, 1}, nil, 0), "+0 +1")
	k.expect("no change", k.fetch(a, kafka, 0, -1, []int32{1, 0}, nil, 0), "")
	k.expect("one left out", k.fetch(a, kafka, 0, -1, []int32{1}, nil, 0), "-0")
	k.expect("a session begins", k.fetch(a, kafka, 0, 0, []int32{0, 1, 2}, nil, 7), "+0 +2")
	k.expect("nothing is named", k.fetch(a, kafka, 7, 1, nil, nil, 7), "")
	k.expect("one is forgotten", k.fetch(a, kafka, 7, 2, nil, []int32{1}, 7), "-1")
	k.expect("and comes back", k.fetch(a, kafka, 7, 3, []int32{1}, nil, 7), "+1")
	k.expect("forgotten and named", k.fetch(a, kafka, 7, 4, []int32{2}, []int32{2}, 7), "")
	// Another consumer of the process, with its own connection: neither speaks for the other's partitions.
	other := dial(t, address)
	kafka2 := b.next()
	k.expect("another consumer", k.fetch(other, kafka2, 0, -1, []int32{5}, nil, 0), "+5")
	k.expect("the first goes on", k.fetch(a, kafka, 7, 5, nil, nil, 7), "")
	// A new connection takes over the session; only then does the old one end.
	again := dial(t, address)
	kafka3 := b.next()
	k.expect("the session on a new connection", k.fetch(again, kafka3, 7, 6, nil, nil, 7), "")
	_ = a.Close()
	_ = kafka.Close()
	wait.Until(t, "the old connection ended", func() bool { return len(openConns(r)) == 2 })
	k.expect("nothing has ceased", k.news(), "")
	k.expect("left out on the new one", k.fetch(again, kafka3, 7, 7, nil, []int32{0}, 7), "-0")
	_ = again.Close()
	_ = kafka3.Close()
	wait.Until(t, "the connection ended", func() bool { return len(openConns(r)) == 1 })
	k.expect("all that it asked for has ceased", k.news(), "-1 -2")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	k.expect("the end of the run says nothing", k.news(), "")
}

func openConns(r *rig) []*conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*conn
	for c := range r.instances[0].conns {
		all = append(all, c)
	}
	return all
}

// Requests that a client sends while one is held are stamped on arrival, wait behind the held one, and are each
// delayed once.
func TestDelayedRequestsKeepOrderAndStamps(t *testing.T) {
	healed := make(chan struct{})
	r, s, subject, kafka := scripted(t, map[int16]Action{keyProduce: {DelayRequest: time.Hour, Healed: healed}})
	dead, done := produce(9, -1, map[string][]string{"t.dlq": {"a"}}), commit(8, 5)
	subject.request(1, dead)
	subject.request(2, done)
	subject.request(3, dead)
	wait.Until(t, "all are noted", func() bool {
		return len(r.log.of(history.KindProduceRequest, history.KindCommitRequest)) == 3
	})
	noted := r.clock.Now()
	kafka.silent(20 * time.Millisecond)
	close(healed)
	for want := byte(1); want <= 3; want++ {
		if got := kafka.receive(); got[7] != want {
			t.Errorf("the broker got request %d when %d was due", got[7], want)
		}
	}
	kafka.respond(1, acknowledge(dead, 1))
	kafka.respond(2, committedAnswer(done, 0))
	kafka.respond(3, acknowledge(dead, 2))
	for range 3 {
		subject.receive()
	}
	for _, e := range r.log.of(history.KindProduceRequest, history.KindCommitRequest) {
		if e.Time > noted {
			t.Errorf("stamped at %s, it had come by %s", e.Time, noted)
		}
	}
	s.finished(t, EffectRequestDelayed, EffectRequestDelayed)
}

// Requests that a client sent before it left reach the broker, held or not.
func TestHeldRequestsOfAClientThatHasGone(t *testing.T) {
	for _, acks := range []int16{-1, 0} {
		_, s, subject, kafka := scripted(t,
			map[int16]Action{keyProduce: {DelayRequest: time.Hour, Healed: make(chan struct{})}})
		subject.request(1, produce(9, acks, map[string][]string{"t.dlq": {"a"}}))
		subject.request(2, commit(8, 5))
		_ = subject.Close()
		for want := byte(1); want <= 2; want++ {
			if got := kafka.receive(); got[7] != want {
				t.Errorf("acks %d: the broker got request %d when %d was due", acks, got[7], want)
			}
		}
		_ = kafka.Close()
		s.finished(t, EffectRequestDelayed)
	}
}

// When a client gives up and closes its connection, the fault did not close it, even if the fault is healed before
// the broker has closed its side.
func TestAClientThatGaveUpIsNotHungUpOn(t *testing.T) {
	healed := make(chan struct{})
	_, s, subject, kafka := scripted(t, map[int16]Action{keyProduce: {DropRequest: true, Healed: healed}})
	subject.request(1, produce(9, -1, map[string][]string{"t.dlq": {"a"}}))
	subject.silent(time.Millisecond)
	_ = subject.Close()
	if _, err := kafka.tryReceive(patience); !errors.Is(err, io.EOF) {
		t.Errorf("the broker sees %v", err)
	}
	close(healed)
	s.finished(t, EffectRequestDropped)
}

func TestHeldRequestsAreGivenBack(t *testing.T) {
	for name, action := range map[string]Action{"delay": {DelayRequest: time.Hour}, "drop": {DropRequest: true},
		"close": {Close: true}} {
		for _, acks := range []int16{-1, 0} {
			action.Healed = make(chan struct{})
			r, s, subject, _ := scripted(t, map[int16]Action{keyProduce: action})
			for range 3 {
				subject.request(1, produce(9, acks, map[string][]string{"t.dlq": {"a"}}))
			}
			wait.Until(t, name+" begins", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.begun > 0
			})
			r.BeginRun(0, 1)
			wait.Until(t, name+" is given back", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.done == s.begun
			})
		}
	}
}

func TestCommitMetadataAndTransactions(t *testing.T) {
	for _, keep := range []bool{false, true} {
		want := ""
		if keep {
			want = "1-3,7"
		}
		r, subject, kafka := pair(t, func(c *Config) { c.KeepMetadata = keep })
		plain := commit(8, 5)
		plain.Topics[0].Partitions[0].Metadata = kmsg.StringPtr("1-3,7")
		subject.request(1, plain)
		kafka.receive()
		kafka.respond(1, committedAnswer(plain, 0))
		subject.receive()
		within := kmsg.NewPtrTxnOffsetCommitRequest()
		within.SetVersion(3)
		within.Group, within.ProducerID, within.ProducerEpoch, within.Generation = "g", 7, 3, 4
		topic, p := kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
		p.Offset, p.Metadata = 5, kmsg.StringPtr("1-3,7")
		topic.Topic, topic.Partitions = "t.input", append(topic.Partitions, p)
		within.Topics = append(within.Topics, topic)
		answer := within.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
		answer.Topics = append(answer.Topics, kmsg.TxnOffsetCommitResponseTopic{
			Topic: "t.input", Partitions: []kmsg.TxnOffsetCommitResponseTopicPartition{{}},
		})
		subject.request(2, within)
		kafka.receive()
		kafka.respond(2, answer)
		subject.receive()
		events := r.log.of(history.KindCommitRequest, history.KindCommitResponse)
		if len(events) != 4 {
			t.Fatalf("recorded %+v", events)
		}
		for i, e := range events {
			producer, epoch, flags := int64(history.None), int16(history.None), history.Flags(0)
			if i >= 2 {
				producer, epoch, flags = 7, 3, history.InTransaction
			}
			if e.Text != want || e.Offset != 5 || e.ProducerID != producer || e.ProducerEpoch != epoch || e.Flags != flags {
				t.Errorf("keep %v: recorded %+v", keep, e)
			}
		}
	}
}
