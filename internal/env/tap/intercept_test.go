package tap

import (
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

const refused = 19 // NOT_ENOUGH_REPLICAS

// script is an interceptor with fixed actions for each API. It counts their effects.
type script struct {
	mu      sync.Mutex
	actions map[int16]Action
	effects []Effect
	held    time.Duration
	begun   int
	done    int
}

func (s *script) Intercept(x *Exchange) Action {
	s.mu.Lock()
	defer s.mu.Unlock()
	action, ok := s.actions[x.APIKey]
	if !ok {
		return Action{}
	}
	s.begun++
	action.Effect = func(effect Effect, held time.Duration) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.effects, s.held = append(s.effects, effect), max(s.held, held)
	}
	action.Done = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.done++
	}
	return action
}

func (s *script) set(actions map[int16]Action) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actions = actions
}

// finished waits until every action is done and compares the effects.
func (s *script) finished(t *testing.T, want ...Effect) {
	t.Helper()
	wait.Until(t, "every action is done", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.begun > 0 && s.done == s.begun
	})
	if !slices.Equal(s.effects, want) {
		t.Errorf("effects %v, want %v", s.effects, want)
	}
}

func scripted(t *testing.T, actions map[int16]Action) (r *rig, s *script, subject, kafka *peer) {
	t.Helper()
	s = &script{actions: actions}
	r, subject, kafka = pair(t, func(c *Config) { c.Interceptor = s })
	return r, s, subject, kafka
}

func onDLQ(p Partition) bool { return p.Topic == "t.dlq" }

func TestProduceIsRefused(t *testing.T) {
	for _, version := range []int16{3, 8, 9, 12} {
		r, s, subject, kafka := scripted(t, map[int16]Action{keyProduce: {Code: refused, Matches: onDLQ}})
		subject.request(1, produce(version, -1, map[string][]string{"t.dlq": {"a", "b"}}))
		answer := decodeAnswer(t, subject.receive(), 1, kmsg.NewPtrProduceResponse(), version)
		got := answer.Topics[0].Partitions[0]
		if answer.Topics[0].Topic != "t.dlq" || got.ErrorCode != refused || got.BaseOffset != -1 {
			t.Errorf("v%d: the client was told %+v", version, answer)
		}
		s.finished(t, EffectAnswered)
		kafka.silent(10 * time.Millisecond)
		events := r.log.of(history.KindProduceResponse)
		if len(events) != 2 || events[1].Code != refused || events[1].Flags != history.Forged ||
			events[1].Offset != history.None {
			t.Errorf("v%d: %+v", version, events)
		}
	}
}

// The first ApiVersions request of a connection shows whether its client may be librdkafka.
func TestClientsOtherThanLibrdkafka(t *testing.T) {
	for _, c := range []struct {
		version int16
		name    string
		other   bool
	}{
		{0, "", true}, {2, "", true}, {3, "apache-kafka-java", true}, {4, "sarama", true},
		{3, "librdkafka", false}, {4, "karafka", false},
	} {
		r, _, subject, kafka := scripted(t, map[int16]Action{keyProduce: {Code: refused, Matches: onDLQ}})
		asking := kmsg.NewPtrApiVersionsRequest()
		for id, version := range []int16{c.version, 0} {
			asking.SetVersion(version)
			asking.ClientSoftwareName, asking.ClientSoftwareVersion = c.name, "1"
			subject.request(int32(id), asking)
			kafka.receive()
			kafka.respond(int32(id), asking.ResponseKind())
			subject.receive()
		}
		subject.request(2, produce(9, -1, map[string][]string{"t.dlq": {"a"}, "t.retry": {"b"}}))
		rest := produce(9, -1, map[string][]string{"t.retry": {"b"}})
		kafka.receive()
		kafka.respond(2, acknowledge(rest, 40))
		subject.receive()
		for _, e := range r.log.of(history.KindProduceResponse) {
			if e.Flags.Has(history.NotLibrdkafka) != (c.other && e.Topic == dlq) {
				t.Errorf("ApiVersions v%d of %q: recorded %+v", c.version, c.name, e)
			}
		}
		if n := len(r.log.of(history.KindProduceResponse)); n != 2 {
			t.Errorf("%d answers recorded", n)
		}
		subject.request(3, commit(3, 1))
		kafka.receive()
		commits := r.log.of(history.KindCommitRequest)
		if len(commits) != 1 || commits[0].Flags.Has(history.NotLibrdkafka) != c.other {
			t.Errorf("ApiVersions v%d of %q: recorded %+v", c.version, c.name, commits)
		}
	}
}

// In a Produce to several topics, only the matching part is refused. The broker gets the rest, and its answer is
// completed.
func TestMixedProduceIsSplit(t *testing.T) {
	r, s, subject, kafka := scripted(t, map[int16]Action{keyProduce: {Code: refused, Matches: onDLQ}})
	whole := produce(9, -1, map[string][]string{"t.dlq": {"a"}, "t.retry": {"b"}, "foreign": {"c"}})
	subject.request(1, whole)
	rest := kmsg.NewPtrProduceRequest()
	rest.SetVersion(9)
	forwarded := kafka.receive()
	head, err := newAPIs().parseHeader(forwarded)
	if err != nil || rest.ReadFrom(forwarded[head.body:]) != nil {
		t.Fatalf("the broker can't read what it got: %v", err)
	}
	if len(rest.Topics) != 2 || rest.Topics[0].Topic != "foreign" || rest.Topics[1].Topic != "t.retry" || rest.Acks != -1 {
		t.Fatalf("the broker got %+v", rest)
	}
	kafka.respond(1, acknowledge(rest, 40))
	answer := decodeAnswer(t, subject.receive(), 1, kmsg.NewPtrProduceResponse(), 9)
	codes := map[string]int16{}
	for _, topic := range answer.Topics {
		codes[topic.Topic] = topic.Partitions[0].ErrorCode
	}
	if len(codes) != 3 || codes["t.dlq"] != refused || codes["t.retry"] != 0 || codes["foreign"] != 0 {
		t.Errorf("the client was told %v", codes)
	}
	s.finished(t, EffectAnswered)
	for _, e := range r.log.of(history.KindProduceResponse) {
		want := e.Topic == dlq
		if e.Flags.Has(history.Forged) != want || (e.Code == refused) != want || (e.Offset == 40) == want {
			t.Errorf("recorded %+v", e)
		}
	}
	if n := len(r.log.of(history.KindProduceResponse)); n != 2 {
		t.Errorf("%d answers recorded", n)
	}
}

// The same through a client, against an embedded Kafka that speaks topic ids (Produce v13).
func TestRefusedThroughAClient(t *testing.T) {
	s := &script{actions: map[int16]Action{keyProduce: {Code: 10, Matches: onDLQ}}} // MESSAGE_TOO_LARGE: not retried
	c, r := cluster(t, 1, func(config *Config) { config.Interceptor = s })
	cl := client(t, r.open(t, 0), kgo.ProducerLinger(50*time.Millisecond))
	results := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t.dlq", Value: []byte("a")},
		&kgo.Record{Topic: "t.retry", Value: []byte("b")})
	for _, result := range results {
		if (result.Record.Topic == "t.dlq") != (result.Err != nil) {
			t.Errorf("%s: %v", result.Record.Topic, result.Err)
		}
	}
	for topic, want := range map[string]int64{"t.dlq": 0, "t.retry": 1} {
		var n int64
		for _, p := range c.PartitionInfos(topic) {
			n += p.HighWatermark
		}
		if n != want {
			t.Errorf("%s has %d records, want %d", topic, n, want)
		}
	}
}

func TestRefusedWithoutAcksIsSwallowed(t *testing.T) {
	r, s, subject, kafka := scripted(t, map[int16]Action{keyProduce: {Code: refused, Matches: onDLQ}})
	subject.request(1, produce(9, 0, map[string][]string{"t.dlq": {"a"}}))
	subject.request(2, produce(9, 0, map[string][]string{"t.dlq": {"a"}, "t.retry": {"b"}}))
	last := commit(8, 1)
	subject.request(3, last)
	if got := kafka.receive(); got[7] != 2 {
		t.Errorf("the broker got request %d first", got[7])
	}
	if got := kafka.receive(); got[7] != 3 {
		t.Errorf("the broker got request %d second", got[7])
	}
	kafka.respond(3, committedAnswer(last, 0))
	decodeAnswer(t, subject.receive(), 3, kmsg.NewPtrOffsetCommitResponse(), 8)
	s.finished(t, EffectAnswered, EffectAnswered)
	if n := len(r.log.of(history.KindProduceResponse)); n != 0 {
		t.Errorf("%d answers recorded, none was given", n)
	}
}

func TestCommitIsRefused(t *testing.T) {
	second := func(p Partition) bool { return p.Topic == "t.input" && p.Number == 1 }
	r, s, subject, kafka := scripted(t, map[int16]Action{keyOffsetCommit: {Code: 14, Matches: second},
		keyTxnOffsetCommit: {Code: 14}})
	subject.request(1, commit(8, 10, 20))
	rest := commit(8, 10)
	if got := kafka.receive(); string(got) != string(requestFrame(1, rest)[4:]) {
		t.Errorf("the broker got %x", got)
	}
	kafka.respond(1, committedAnswer(rest, 0))
	answer := decodeAnswer(t, subject.receive(), 1, kmsg.NewPtrOffsetCommitResponse(), 8)
	codes := map[int32]int16{}
	for _, topic := range answer.Topics {
		for _, p := range topic.Partitions {
			codes[p.Partition] = p.ErrorCode
		}
	}
	if len(codes) != 2 || codes[0] != 0 || codes[1] != 14 {
		t.Errorf("the client was told %v", codes)
	}
	for _, e := range r.log.of(history.KindCommitResponse) {
		if forged := e.Partition == 1; e.Flags.Has(history.Forged) != forged || (e.Code == 14) != forged {
			t.Errorf("recorded %+v", e)
		}
	}
	transactional := kmsg.NewPtrTxnOffsetCommitRequest()
	transactional.SetVersion(3)
	transactional.Group = "g"
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic, topic.Partitions = "t.input",
		[]kmsg.TxnOffsetCommitRequestTopicPartition{kmsg.NewTxnOffsetCommitRequestTopicPartition()}
	transactional.Topics = append(transactional.Topics, topic)
	subject.request(2, transactional)
	told := decodeAnswer(t, subject.receive(), 2, kmsg.NewPtrTxnOffsetCommitResponse(), 3)
	if told.Topics[0].Partitions[0].ErrorCode != 14 {
		t.Errorf("the client was told %+v", told)
	}
	s.finished(t, EffectAnswered, EffectAnswered)
}

// A request whose response has an error code for the whole is answered. Others pass, and their action is done.
func TestOtherRequestsAreRefused(t *testing.T) {
	r, s, subject, kafka := scripted(t, map[int16]Action{keyHeartbeat: {Code: kerr.UnknownMemberID.Code}, 22: {Code: 14},
		2: {Code: 14}})
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.SetVersion(4)
	beat.Group, beat.MemberID = "g", "m-1"
	p := r.process(r.instance(0), 0)
	p.mu.Lock()
	p.assign(p.admit(memberID{"g", "m-1"}, 1), 1, []partition{{input, 3}})
	p.mu.Unlock()
	subject.request(1, beat)
	if got := decodeAnswer(t, subject.receive(), 1, kmsg.NewPtrHeartbeatResponse(), 4); got.ErrorCode !=
		kerr.UnknownMemberID.Code {
		t.Errorf("the client was told %+v", got)
	}
	if lost := r.log.of(history.KindRevoked); len(lost) != 1 || lost[0].Text != whyFenced || lost[0].Partition != 3 {
		t.Errorf("a member that is told it is unknown has lost its partitions: %+v", lost)
	}
	pid := kmsg.NewPtrInitProducerIDRequest()
	pid.SetVersion(4)
	subject.request(2, pid)
	if got := decodeAnswer(t, subject.receive(), 2, kmsg.NewPtrInitProducerIDResponse(), 4); got.ErrorCode !=
		14 || got.ProducerID != -1 {
		t.Errorf("the client was told %+v", got)
	}
	list := kmsg.NewPtrListOffsetsRequest()
	list.SetVersion(7)
	subject.request(3, list)
	kafka.receive()
	kafka.respond(3, list.ResponseKind())
	subject.receive()
	s.finished(t, EffectAnswered, EffectAnswered)
}

// A coordinator adds all partitions to a transaction or none, and answers each up to version 3.
func TestAddPartitionsToTxnIsRefusedAsAWhole(t *testing.T) {
	request := kmsg.NewPtrAddPartitionsToTxnRequest()
	request.SetVersion(3)
	topic := kmsg.NewAddPartitionsToTxnRequestTopic()
	topic.Topic, topic.Partitions = "in", []int32{0, 2}
	request.Topics = append(request.Topics, topic)
	code := kerr.ConcurrentTransactions.Code
	forged, rest := forge(request, code, nil)
	answer := forged.(*kmsg.AddPartitionsToTxnResponse)
	if rest != nil || answer.Version != 3 || len(answer.Topics) != 1 || answer.Topics[0].Topic != "in" ||
		!reflect.DeepEqual(answer.Topics[0].Partitions, []kmsg.AddPartitionsToTxnResponseTopicPartition{
			{Partition: 0, ErrorCode: code}, {Partition: 2, ErrorCode: code}}) {
		t.Errorf("the client is told %+v, and the broker %+v", answer, rest)
	}
	request.SetVersion(4)
	if forged, _ := forge(request, code, nil); forged.(*kmsg.AddPartitionsToTxnResponse).ErrorCode != code {
		t.Errorf("in version 4 the client is told %+v", forged)
	}
}

// A locally answered request waits for the answers to earlier requests on its connection.
func TestLocalAnswersKeepTheOrder(t *testing.T) {
	_, s, subject, kafka := scripted(t, map[int16]Action{keyOffsetCommit: {Code: 14}})
	first := produce(9, -1, map[string][]string{"t.dlq": {"a"}})
	subject.request(1, first)
	subject.request(2, commit(8, 1))
	subject.request(3, commit(8, 2))
	subject.request(4, first)
	subject.request(5, commit(8, 3))
	kafka.receive()
	kafka.receive()
	subject.silent(20 * time.Millisecond)
	kafka.respond(1, acknowledge(first, 0))
	kafka.respond(4, acknowledge(first, 1))
	for want := byte(1); want <= 5; want++ {
		if got := subject.receive(); got[3] != want {
			t.Fatalf("answer %d came when %d was due", got[3], want)
		}
	}
	s.finished(t, EffectAnswered, EffectAnswered, EffectAnswered)
}

func TestDelayHoldsAnswersInOrder(t *testing.T) {
	const delay = 60 * time.Millisecond
	r, s, subject, kafka := scripted(t, map[int16]Action{keyProduce: {Delay: delay, Healed: make(chan struct{})}})
	request := produce(9, -1, map[string][]string{"t.dlq": {"a"}})
	for i := range int32(3) {
		subject.request(i, request)
		kafka.receive()
	}
	last := commit(8, 1)
	subject.request(3, last)
	kafka.receive()
	sent := r.clock.Now()
	for i := range int32(3) {
		kafka.respond(i, acknowledge(request, int64(i)))
	}
	kafka.respond(3, committedAnswer(last, 0))
	for want := range byte(4) {
		if got := subject.receive(); got[3] != want {
			t.Fatalf("answer %d came when %d was due", got[3], want)
		}
	}
	answers := r.log.of(history.KindProduceResponse, history.KindCommitResponse)
	if len(answers) != 4 || answers[0].Time < sent+delay || answers[3].Kind != history.KindCommitResponse {
		t.Errorf("sent at %s: %+v", sent, answers)
	}
	s.finished(t, EffectDelayed, EffectDelayed, EffectDelayed)
	if s.held < delay {
		t.Errorf("held %s", s.held)
	}
}

func TestPipelinedAnswersAreDelayedOnce(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ delay, request, arrived, heldUntil, want time.Duration }{
		{100 * ms, 0, 0, 0, 100 * ms},
		{100 * ms, 10 * ms, 70 * ms, 0, 100 * ms},          // the broker was slow: the delay is added
		{100 * ms, 10 * ms, 101 * ms, 101 * ms, 9 * ms},    // it arrived while the previous one was held
		{100 * ms, 10 * ms, 301 * ms, 101 * ms, 0},         // and is overdue
		{100 * ms, 150 * ms, 151 * ms, 101 * ms, 100 * ms}, // it was requested after the previous one was released
	} {
		if got := holdFor(c.delay, c.request, c.arrived, c.heldUntil); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestHealLetsDelayedAnswersGo(t *testing.T) {
	healed := make(chan struct{})
	_, s, subject, kafka := scripted(t, map[int16]Action{keyProduce: {Delay: time.Hour, Healed: healed}})
	request := produce(9, -1, map[string][]string{"t.dlq": {"a"}})
	subject.request(1, request)
	kafka.receive()
	kafka.respond(1, acknowledge(request, 1))
	subject.silent(10 * time.Millisecond)
	close(healed)
	subject.receive()
	s.finished(t, EffectDelayed)
}

// A dropped response silences its connection. The broker carried out the request, but the client receives nothing
// until the fault is healed and the connection closed.
func TestDroppedResponseSilencesTheConnection(t *testing.T) {
	healed := make(chan struct{})
	r, s, subject, kafka := scripted(t, map[int16]Action{keyProduce: {Drop: true, Healed: healed}})
	request, later := produce(9, -1, map[string][]string{"t.dlq": {"a"}}), commit(8, 5)
	subject.request(1, request)
	kafka.receive()
	kafka.respond(1, acknowledge(request, 77))
	s.set(map[int16]Action{keyHeartbeat: {Code: 14}})
	subject.request(2, later)
	kafka.receive()
	kafka.respond(2, committedAnswer(later, 0))
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.SetVersion(4)
	subject.request(3, beat)
	subject.silent(20 * time.Millisecond)
	wait.Until(t, "the withheld answers are recorded", func() bool {
		return len(r.log.of(history.KindProduceResponse, history.KindCommitResponse)) == 2
	})
	for _, e := range r.log.of(history.KindProduceResponse, history.KindCommitResponse) {
		if e.Flags != history.Withheld || e.Code != 0 || e.Kind == history.KindProduceResponse && e.Offset != 77 {
			t.Errorf("recorded %+v", e)
		}
	}
	close(healed)
	if _, err := subject.tryReceive(patience); !errors.Is(err, io.EOF) {
		t.Errorf("the client sees %v", err)
	}
	s.finished(t, EffectDropped, EffectAnswered, EffectClosed)
}

// Actions that hold something are done when the connection ends first.
func TestActionsAreGivenBack(t *testing.T) {
	for name, end := range map[string]func(*rig, *peer, *peer){
		"client": func(_ *rig, subject, kafka *peer) { _ = subject.Close(); _ = kafka.Close() },
		"broker": func(_ *rig, _, kafka *peer) { _ = kafka.Close() },
		"run":    func(r *rig, _, _ *peer) { r.BeginRun(0, 1) },
		"close":  func(r *rig, _, _ *peer) { _ = r.Close() },
	} {
		for what, action := range map[string]Action{"delay": {Delay: time.Hour}, "drop": {Drop: true}} {
			if name == "broker" && what == "delay" {
				continue // an answer that has arrived is held and delivered, whatever happens to the broker
			}
			t.Run(name+" "+what, func(t *testing.T) {
				action.Healed = make(chan struct{})
				r, s, subject, kafka := scripted(t, map[int16]Action{keyProduce: action})
				request := produce(9, -1, map[string][]string{"t.dlq": {"a"}})
				subject.request(1, request)
				subject.request(2, request)
				kafka.receive()
				kafka.receive()
				kafka.respond(1, acknowledge(request, 77))
				end(r, subject, kafka)
				wait.Until(t, "both actions are given back", func() bool {
					s.mu.Lock()
					defer s.mu.Unlock()
					return s.begun == 2 && s.done == 2
				})
			})
		}
	}
}

func TestExchangeNamesPartitions(t *testing.T) {
	var got []Partition
	c, r := cluster(t, 1, func(config *Config) {
		config.Interceptor = intercept(func(x *Exchange) Action {
			if x.APIKey == keyProduce && x.Version >= 13 {
				got = append(got, x.Partitions()...)
			}
			return Action{}
		})
	})
	cl := client(t, r.open(t, 0), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t.dlq", Partition: 2}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	cl.Close()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if !slices.Equal(got, []Partition{{"t.dlq", 2}}) {
		t.Errorf("got %v: a topic id (Produce v13) is not named", got)
	}
}

func TestExchangeNamesTheBroker(t *testing.T) {
	const brokers = 3
	var mu sync.Mutex
	got := map[int32]bool{}
	_, r := cluster(t, brokers, func(config *Config) {
		config.Interceptor = intercept(func(x *Exchange) Action {
			if x.APIKey == keyProduce {
				mu.Lock()
				defer mu.Unlock()
				got[x.Broker] = true
			}
			return Action{}
		})
	})
	cl := client(t, r.open(t, 0), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	leaders := map[int32]bool{}
	for p := range int32(3) {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t.dlq", Partition: p}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		leader, _, err := cl.PartitionLeader("t.dlq", p)
		if err != nil {
			t.Fatal(err)
		}
		leaders[leader] = true
	}
	mu.Lock()
	defer mu.Unlock()
	if !maps.Equal(got, leaders) {
		t.Errorf("records went to the brokers %v, and the tap says %v", leaders, got)
	}
}

// A version of a response without an error code for the whole request would report success.
func TestNoSuccessIsForged(t *testing.T) {
	for _, c := range []struct {
		key, version int16
		can          bool
	}{{keyFindCoordinator, 3, true}, {keyFindCoordinator, 4, false}, {keyFetch, 6, false}, {keyFetch, 7, true},
		{24, 3, false}, {24, 4, true}, {9, 1, false}, {9, 2, true}} {
		request := kmsg.RequestForKey(c.key)
		request.SetVersion(c.version)
		forged, rest := forge(request, 14, nil)
		if (forged != nil) != c.can || rest != nil {
			t.Errorf("%s v%d: forged %v", apiName(c.key), c.version, forged)
		}
	}
}

// A topic that is partly refused is one topic in the completed answer.
func TestPartitionsOfOneTopicAreMerged(t *testing.T) {
	request := produce(9, -1, map[string][]string{"t.dlq": {"a"}})
	second := request.Topics[0].Partitions[0]
	second.Partition = 1
	request.Topics[0].Partitions = append(request.Topics[0].Partitions, second)
	forged, rest := forge(request, refused, func(_ string, _ [16]byte, number int32) bool { return number == 1 })
	answer := acknowledge(rest.(*kmsg.ProduceRequest), 9)
	merge(answer, forged)
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 2 ||
		answer.Topics[0].Partitions[1].ErrorCode != refused ||
		answer.Topics[0].Partitions[1].Partition != 1 || answer.Topics[0].Partitions[0].BaseOffset != 9 {
		t.Errorf("the answer is %+v", answer)
	}
}

// So is one of a commit. From version 10 on, or 6 in a transaction, topics have an id and no name.
func TestPartitionsOfOneCommittedTopicAreMerged(t *testing.T) {
	second := func(_ string, id [16]byte, number int32) bool { return id == [16]byte{7} && number == 1 }
	request := commit(10, 5, 6)
	request.Topics[0].Topic, request.Topics[0].TopicID = "", [16]byte{7}
	forged, rest := forge(request, refused, second)
	if left := rest.(*kmsg.OffsetCommitRequest).Topics; len(left) != 1 || len(left[0].Partitions) != 1 {
		t.Errorf("the broker gets %+v", left)
	}
	answer := &kmsg.OffsetCommitResponse{Version: 10, Topics: []kmsg.OffsetCommitResponseTopic{
		{TopicID: [16]byte{7}, Partitions: []kmsg.OffsetCommitResponseTopicPartition{{Partition: 0}}}}}
	merge(answer, forged)
	if want := []kmsg.OffsetCommitResponseTopic{{TopicID: [16]byte{7},
		Partitions: []kmsg.OffsetCommitResponseTopicPartition{{Partition: 0}, {Partition: 1, ErrorCode: refused}}},
	}; !reflect.DeepEqual(answer.Topics, want) {
		t.Errorf("the answer is %+v, want %+v", answer.Topics, want)
	}

	inTransaction := &kmsg.TxnOffsetCommitRequest{Version: 6, Topics: []kmsg.TxnOffsetCommitRequestTopic{
		{TopicID: [16]byte{7}, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Partition: 0}, {Partition: 1}}}}}
	forged, _ = forge(inTransaction, refused, second)
	transacted := &kmsg.TxnOffsetCommitResponse{Version: 6, Topics: []kmsg.TxnOffsetCommitResponseTopic{
		{TopicID: [16]byte{7}, Partitions: []kmsg.TxnOffsetCommitResponseTopicPartition{{Partition: 0}}}}}
	merge(transacted, forged)
	if want := []kmsg.TxnOffsetCommitResponseTopic{{TopicID: [16]byte{7},
		Partitions: []kmsg.TxnOffsetCommitResponseTopicPartition{{Partition: 0}, {Partition: 1, ErrorCode: refused}}},
	}; !reflect.DeepEqual(transacted.Topics, want) {
		t.Errorf("the answer in a transaction is %+v, want %+v", transacted.Topics, want)
	}
}
