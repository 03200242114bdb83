package kafka

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/tap"
	"github.com/dlqbench/dlqbench/internal/testkit/kafkatest"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
	"github.com/dlqbench/dlqbench/internal/units"
)

const patience = 20 * time.Second

// stage is an embedded Kafka that counts the requests it receives, a tap in front of it, and an injector on the tap.
type stage struct {
	t       *testing.T
	log     *eventLog
	clock   *history.RunClock
	in      *Injector
	kafka   *kfake.Cluster
	address string

	mu   sync.Mutex
	seen map[int16]int
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, log: &eventLog{}, clock: history.NewClock(), in: NewInjector(runTopics()), seen: map[int16]int{}}
	var err error
	s.kafka, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "r.input", "r.retry-1", "r.retry-2", "r.dlq"),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kafka.Close)
	s.kafka.Control(func(request kmsg.Request) (kmsg.Response, error, bool) {
		s.kafka.KeepControl()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen[request.Key()]++
		return nil, nil, false
	})
	var op atomic.Int64
	proxy := tap.New(tap.Config{
		Clock: s.clock, Sink: s.log, NextOp: func() int64 {
			return op.Add(1)
		}, IDs: history.NewIDs("r"), Topics: runTopics(), Group: "g",
		Upstreams: []tap.Upstream{{NodeID: 0, Dial: network.Upstream{Address: s.kafka.ListenAddrs()[0]}.Connect}},
		Log:       zerolog.Nop(), Interceptor: s.in, TopicIDs: kafkatest.TopicIDs(s.kafka),
	})
	t.Cleanup(func() { _ = proxy.Close() })
	if s.address, err = proxy.Open(2); err != nil {
		t.Fatal(err)
	}
	return s
}

// reached returns how many requests of the API the broker has received.
func (s *stage) reached(key int16) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[key]
}

func (s *stage) inject(spec Kafka) (heal func()) {
	s.t.Helper()
	undo, err := s.in.Inject(s.t.Context(), faults.NewActive(planned(spec, 1), s.log, s.clock))
	if err != nil {
		s.t.Fatal(err)
	}
	return func() {
		s.t.Helper()
		if err := undo(s.t.Context()); err != nil {
			s.t.Error(err)
		}
	}
}

// hit reports whether each fault in force has got a request.
func (s *stage) hit() bool {
	for _, r := range *s.in.rules.Load() {
		r.mu.Lock()
		matched := r.matched
		r.mu.Unlock()
		if matched == 0 {
			return false
		}
	}
	return true
}

// line is a client that sends the requests that the test specifies.
type line struct {
	net.Conn
	t    *testing.T
	from *bufio.Reader
	sent int32
}

func (s *stage) dial() *line {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return &line{Conn: conn, t: s.t, from: bufio.NewReader(conn)}
}

func (l *line) send(request kmsg.Request) {
	l.t.Helper()
	l.sent++
	if _, err := l.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("tester")).AppendRequest(nil, request,
		l.sent)); err != nil {
		l.t.Fatal(err)
	}
}

// answer reads the response to the n-th request.
func (l *line) answer(request kmsg.Request, n int32) (kmsg.Response, error) {
	return l.answerWithin(request, n, patience)
}

func (l *line) answerWithin(request kmsg.Request, n int32, limit time.Duration) (kmsg.Response, error) {
	_ = l.SetReadDeadline(time.Now().Add(limit))
	var size [4]byte
	if _, err := io.ReadFull(l.from, size[:]); err != nil {
		return nil, err
	}
	payload := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(l.from, payload); err != nil {
		return nil, err
	}
	if got := int32(binary.BigEndian.Uint32(payload)); got != n {
		return nil, fmt.Errorf("answer %d came when %d was due", got, n)
	}
	body, response := payload[4:], request.ResponseKind()
	if response.IsFlexible() {
		body = body[1:]
	}
	return response, response.ReadFrom(body)
}

func (l *line) ask(request kmsg.Request) kmsg.Response {
	l.t.Helper()
	l.send(request)
	response, err := l.answer(request, l.sent)
	if err != nil {
		l.t.Fatalf("asking a %s: %v", kmsg.NameForKey(request.Key()), err)
	}
	return response
}

// silent fails the test if anything arrives soon.
func (l *line) silent(what string) {
	l.t.Helper()
	_ = l.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	_, err := l.from.Peek(1)
	if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
		l.t.Errorf("%s: the client hears something (%v)", what, err)
	}
}

// ended waits until the tap has closed the connection.
func (l *line) ended(what string) {
	l.t.Helper()
	_ = l.SetReadDeadline(time.Now().Add(patience))
	if _, err := l.from.Peek(1); !errors.Is(err, io.EOF) {
		l.t.Errorf("%s: the client sees %v, want the end of the connection", what, err)
	}
}

// one returns a request of each API as a subject would send it, for one partition of the input topic (or the DLQ).
func one(api string) kmsg.Request {
	switch api {
	case "Produce":
		request := produceTo("r.dlq").(*kmsg.ProduceRequest)
		request.Acks, request.TimeoutMillis, request.Topics[0].Partitions[0].Records = -1, 1000, batchOfOne()
		return request
	case "Fetch":
		return fetchOf(12, 0, 0)
	case "OffsetCommit":
		request := commitOf("r.input").(*kmsg.OffsetCommitRequest)
		request.Group = "g"
		return request
	case "TxnOffsetCommit":
		request := kmsg.NewPtrTxnOffsetCommitRequest()
		request.SetVersion(3)
		request.Group, request.TransactionalID, request.ProducerID, request.ProducerEpoch = "g", "tx", 7, 3
		topic := kmsg.NewTxnOffsetCommitRequestTopic()
		topic.Topic, topic.Partitions = "r.input",
			[]kmsg.TxnOffsetCommitRequestTopicPartition{kmsg.NewTxnOffsetCommitRequestTopicPartition()}
		request.Topics = append(request.Topics, topic)
		return request
	case "Metadata":
		return metadataOf(9, "r.input")
	case "FindCoordinator":
		request := kmsg.NewPtrFindCoordinatorRequest()
		request.SetVersion(4)
		request.CoordinatorKeys = []string{"g"}
		return request
	case "JoinGroup":
		request := kmsg.NewPtrJoinGroupRequest()
		request.SetVersion(6)
		request.Group, request.ProtocolType, request.SessionTimeoutMillis, request.RebalanceTimeoutMillis = "g", "consumer",
			10000, 10000
		protocol := kmsg.NewJoinGroupRequestProtocol()
		protocol.Name = "range"
		request.Protocols = append(request.Protocols, protocol)
		return request
	case "SyncGroup":
		request := kmsg.NewPtrSyncGroupRequest()
		request.SetVersion(4)
		request.Group, request.MemberID, request.Generation = "g", "m", 1
		return request
	case "Heartbeat":
		request := kmsg.NewPtrHeartbeatRequest()
		request.SetVersion(4)
		request.Group, request.MemberID, request.Generation = "g", "m", 1
		return request
	case "ConsumerGroupHeartbeat":
		request := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		request.SetVersion(1)
		request.Group, request.MemberID, request.MemberEpoch = "g", "m", 3
		return request
	case "ShareGroupHeartbeat":
		request := kmsg.NewPtrShareGroupHeartbeatRequest()
		request.SetVersion(1)
		request.GroupID, request.MemberID, request.MemberEpoch = "g", "m", 3
		return request
	case "ShareFetch":
		request, group := kmsg.NewPtrShareFetchRequest(), "g"
		request.SetVersion(1)
		request.GroupID = &group
		return request
	case "ShareAcknowledge":
		request, group := kmsg.NewPtrShareAcknowledgeRequest(), "g"
		request.SetVersion(1)
		request.GroupID = &group
		return request
	case "EndTxn":
		request := kmsg.NewPtrEndTxnRequest()
		request.SetVersion(3)
		request.TransactionalID, request.ProducerID, request.ProducerEpoch, request.Commit = "tx", 7, 3, true
		return request
	case "AddPartitionsToTxn":
		request := kmsg.NewPtrAddPartitionsToTxnRequest()
		request.SetVersion(3)
		request.TransactionalID, request.ProducerID, request.ProducerEpoch = "tx", 7, 3
		topic := kmsg.NewAddPartitionsToTxnRequestTopic()
		topic.Topic, topic.Partitions = "r.dlq", []int32{0, 1}
		request.Topics = append(request.Topics, topic)
		return request
	case "AddOffsetsToTxn":
		request := kmsg.NewPtrAddOffsetsToTxnRequest()
		request.SetVersion(3)
		request.TransactionalID, request.ProducerID, request.ProducerEpoch, request.Group = "tx", 7, 3, "g"
		return request
	case "InitProducerId":
		request := kmsg.NewPtrInitProducerIDRequest()
		request.SetVersion(4)
		return request
	}
	panic(api)
}

func batchOfOne() []byte {
	record := kmsg.NewRecord()
	record.Value = []byte("x")
	record.Length = int32(len(record.AppendTo(nil)) - 1)
	batch := kmsg.RecordBatch{Magic: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1,
		Records: record.AppendTo(nil)}
	const prefix = 12
	batch.Length = int32(len(batch.AppendTo(nil)) - prefix)
	const summed = 21 // the checksum covers the bytes after it
	batch.CRC = int32(crc32.Checksum(batch.AppendTo(nil)[summed:], crc32.MakeTable(crc32.Castagnoli)))
	return batch.AppendTo(nil)
}

func fetchOf(version int16, session, epoch int32, numbers ...int32) *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	request.SetVersion(version)
	request.ReplicaID, request.MaxWaitMillis, request.MinBytes, request.MaxBytes, request.SessionID,
		request.SessionEpoch = -1, 5, 1, 1<<20, session, epoch
	if epoch == 0 && len(numbers) == 0 {
		numbers = []int32{0}
	}
	if len(numbers) == 0 {
		return request
	}
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = "r.input"
	for _, number := range numbers {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes = number, 1<<20
		topic.Partitions = append(topic.Partitions, p)
	}
	request.Topics = append(request.Topics, topic)
	return request
}

func metadataOf(version int16, names ...string) *kmsg.MetadataRequest {
	request := kmsg.NewPtrMetadataRequest()
	request.SetVersion(version)
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		request.Topics = append(request.Topics, topic)
	}
	return request
}

// codes returns every error code in a response, at any depth.
func codes(v reflect.Value) (found []int16) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return codes(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			found = append(found, codes(v.Index(i))...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name == "ErrorCode" {
				found = append(found, int16(v.Field(i).Int()))
				continue
			}
			found = append(found, codes(v.Field(i))...)
		}
	}
	return found
}

func throttleOf(response kmsg.Response) int32 {
	millis, _ := response.(kmsg.ThrottleResponse).Throttle()
	return millis
}

// kindsOf returns the kinds of the events that record an API's requests and responses, none for APIs that are not
// recorded.
func kindsOf(api string) [2]history.Kind {
	switch api {
	case "Produce":
		return [2]history.Kind{history.KindProduceRequest, history.KindProduceResponse}
	case "OffsetCommit", "TxnOffsetCommit":
		return [2]history.Kind{history.KindCommitRequest, history.KindCommitResponse}
	case "EndTxn":
		return [2]history.Kind{history.KindTxnEndRequest, history.KindTxnEndResponse}
	}
	return [2]history.Kind{}
}

func (l *eventLog) of(kind history.Kind) []history.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []history.Event
	for _, e := range l.events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

const longDelay = time.Hour

// promise is the expected result of an action on a request.
type promise struct {
	spec    Kafka
	effects []string
	// seen: the broker receives the request before the fault is lifted; seenAfterHeal: when it is lifted.
	seen, seenAfterHeal bool
	// answered: a response arrives before the fault is lifted; answeredAfterHeal: when it is lifted.
	answered, answeredAfterHeal bool
	// recorded: a response is recorded, with the flags.
	recorded bool
	flags    history.Flags
}

func everyAction() map[string]promise {
	return map[string]promise{
		"error": {
			spec:     Kafka{Error: "COORDINATOR_LOAD_IN_PROGRESS"},
			effects:  []string{"requests answered COORDINATOR_LOAD_IN_PROGRESS"},
			answered: true, recorded: true, flags: history.Forged,
		},
		"delay_request": {
			spec: Kafka{DelayRequest: units.Duration(longDelay)}, effects: []string{"requests delayed"},
			seenAfterHeal: true, answeredAfterHeal: true, recorded: true,
		},
		"delay_response": {
			spec: Kafka{DelayResponse: units.Duration(longDelay)}, effects: []string{"responses delayed"},
			seen: true, answeredAfterHeal: true, recorded: true,
		},
		"drop_request": {spec: Kafka{DropRequest: true}, effects: []string{"requests dropped", "connections closed"}},
		"drop_response": {
			spec: Kafka{DropResponse: true}, effects: []string{"responses dropped", "connections closed"},
			seen: true, recorded: true, flags: history.Withheld,
		},
		"close": {spec: Kafka{Close: true}, effects: []string{"connections closed"}},
		"throttle": {
			spec: Kafka{Throttle: units.Duration(1500 * time.Millisecond)}, effects: []string{"responses throttled"},
			seen: true, answered: true, recorded: true,
		},
	}
}

// Every action on every request: the client's response, the broker's view, the history, and the reported effects.
func TestEveryActionOnEveryRequest(t *testing.T) {
	for _, api := range []string{
		"Produce", "Fetch", "OffsetCommit", "TxnOffsetCommit", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn",
		"Metadata", "FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat",
		"ConsumerGroupHeartbeat", "InitProducerId", "ShareGroupHeartbeat", "ShareFetch", "ShareAcknowledge",
	} {
		t.Run(api, func(t *testing.T) {
			s := newStage(t)
			for name, want := range everyAction() {
				key := one(api).Key()
				what := api + " " + name
				seen, effects, kinds := s.reached(key), len(s.log.effects()), kindsOf(api)
				requests, answers := len(s.log.of(kinds[0])), len(s.log.of(kinds[1]))
				want.spec.API = api
				heal := s.inject(want.spec)
				client := s.dial()
				client.send(one(api))
				switch {
				case want.answered:
					response, err := client.answer(one(api), 1)
					if err != nil {
						t.Fatalf("%s: %v", what, err)
					}
					checkAnswer(t, what, name, response)
				case name == "close":
					client.ended(what)
				default:
					client.silent(what)
					// On a busy machine, the tap may not have read the request yet. Lifted before that, the fault hits nothing.
					wait.Until(t, what+" to begin", s.hit)
				}
				passed := want.seen || name == "error" && (api == "Fetch" || api == "Metadata")
				wait.Until(t, what+" at the broker", func() bool { return s.reached(key) > seen == passed })
				heal()
				if want.answeredAfterHeal {
					if _, err := client.answer(one(api), 1); err != nil {
						t.Errorf("%s, after heal: %v", what, err)
					}
				} else if !want.answered {
					client.ended(what)
				}
				if got := s.reached(key) > seen; got != (passed || want.seenAfterHeal) {
					t.Errorf("%s: reached the broker %v", what, got)
				}
				checkEffects(t, what, s.log.effects()[effects:], want.effects)
				if kinds[0] != history.KindUnknown {
					s.checkRecorded(what, kinds, requests, answers, want.recorded, want.flags)
				}
				s.dial().ask(one(api)) // everything works again
			}
		})
	}
}

// Clients that use a version from before KIP-219 do not wait, so the tap holds the answer as brokers did then.
func TestThrottledAnswersOfOldVersionsAreHeld(t *testing.T) {
	s := newStage(t)
	heal := s.inject(Kafka{API: "Produce", Throttle: units.Duration(longDelay)})
	client, request := s.dial(), one("Produce")
	request.SetVersion(5)
	client.send(request)
	client.silent("Produce 5")
	wait.Until(t, "the fault to begin", s.hit)
	heal()
	response, err := client.answer(request, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := throttleOf(response); got != 0 {
		t.Errorf("the client was told to wait %d ms more", got)
	}
	checkEffects(t, "Produce 5", s.log.effects(), []string{"responses throttled"})
}

// What becomes of a write whose leader fails depends on the acknowledgement that its client waits for.
func TestWritesAreLostWithTheirLeader(t *testing.T) {
	for acks, want := range map[int16]string{-1: "connections closed", 0: "requests dropped",
		1: "writes acknowledged and lost"} {
		s := newStage(t)
		heal := s.inject(Kafka{API: "Produce", Topic: "dlq", LeaderLoss: true})
		client, request := s.dial(), one("Produce").(*kmsg.ProduceRequest)
		what := fmt.Sprintf("acks=%d", acks)
		request.Acks = acks
		client.send(request)
		answers := s.log.of(history.KindProduceResponse)
		switch acks {
		case -1:
			client.ended(what)
		case 0:
			client.silent(what)
			wait.Until(t, "the fault to begin", s.hit)
		case 1:
			response, err := client.answer(request, 1)
			if err != nil {
				t.Fatal(err)
			}
			got := response.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
			if answers = s.log.of(history.KindProduceResponse); got.ErrorCode != 0 || got.BaseOffset != -1 ||
				len(answers) != 1 || answers[0].Flags != history.Unreplicated || answers[0].Offset != history.None {
				t.Errorf("the client was told %+v, recorded is %+v", got, answers)
			}
		}
		if acks != 1 && len(answers) > 0 {
			t.Errorf("%s: an answer was recorded: %+v", what, answers)
		}
		heal()
		if s.reached(request.Key()) > 0 {
			t.Errorf("%s: the broker saw the write", what)
		}
		checkEffects(t, what, s.log.effects(), []string{want})
	}
}

func checkAnswer(t *testing.T, what, action string, response kmsg.Response) {
	t.Helper()
	refused := false
	for _, code := range codes(reflect.ValueOf(response)) {
		refused = refused || code == 14
	}
	if refused != (action == "error") {
		t.Errorf("%s: the client was told %+v", what, response)
	}
	if got := throttleOf(response); (got == 1500) != (action == "throttle") {
		t.Errorf("%s: throttled %d ms", what, got)
	}
}

func checkEffects(t *testing.T, what string, got []history.Event, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: effects %+v, want %v", what, got, want)
		return
	}
	for i, e := range got {
		timed := want[i] == "requests delayed" || want[i] == "responses delayed" || want[i] == "responses throttled"
		if e.Text != want[i] || e.Instance != 2 || e.N != 1 || e.Op != 4 || (e.Aux > 0) != timed {
			t.Errorf("%s: effect %+v, want %v", what, e, want[i])
		}
	}
}

// checkRecorded checks that the request was recorded once, and so was the response if there was one, with its origin.
func (s *stage) checkRecorded(what string, kinds [2]history.Kind, requests, answers int, recorded bool,
	flags history.Flags) {
	s.t.Helper()
	asked, got := s.log.of(kinds[0])[requests:], s.log.of(kinds[1])[answers:]
	if len(asked) != 1 || (len(got) == 1) != recorded {
		s.t.Errorf("%s: recorded %d requests and %d answers", what, len(asked), len(got))
		return
	}
	if !recorded {
		return
	}
	if own := got[0].Flags &^ history.InTransaction; own != flags || got[0].Op != asked[0].Op ||
		(flags == history.Forged) != (got[0].Code == 14) {
		s.t.Errorf("%s: recorded %+v", what, got[0])
	}
}
