package tap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// produce creates a Produce of the values, one record batch per topic, to partition 0.
func produce(version, acks int16, values map[string][]string) *kmsg.ProduceRequest {
	request := kmsg.NewPtrProduceRequest()
	request.SetVersion(version)
	request.Acks, request.TimeoutMillis = acks, 1000
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic = name
		p := kmsg.NewProduceRequestTopicPartition()
		p.Records = makeBatch(0, values[name]...)
		topic.Partitions = append(topic.Partitions, p)
		request.Topics = append(request.Topics, topic)
	}
	return request
}

// makeBatch creates an uncompressed record batch.
func makeBatch(base int64, values ...string) []byte {
	var records []byte
	for i, value := range values {
		record := kmsg.NewRecord()
		record.OffsetDelta, record.Value = int32(i), []byte(value)
		record.Length = int32(len(record.AppendTo(nil)) - 1)
		for {
			full := record.AppendTo(nil)
			_, n := binary.Varint(full)
			if int(record.Length) == len(full)-n {
				records = append(records, full...)
				break
			}
			record.Length = int32(len(full) - n)
		}
	}
	b := kmsg.RecordBatch{
		FirstOffset: base, Magic: 2, LastOffsetDelta: int32(len(values) - 1), ProducerID: -1, ProducerEpoch: -1,
		FirstSequence: -1, NumRecords: int32(len(values)), Records: records,
	}
	b.Length = int32(len(b.AppendTo(nil)) - batchPrefix)
	return b.AppendTo(nil)
}

// acknowledge is the answer to produce, with every partition written at the offset.
func acknowledge(request *kmsg.ProduceRequest, offset int64) *kmsg.ProduceResponse {
	response := request.ResponseKind().(*kmsg.ProduceResponse)
	for _, topic := range request.Topics {
		t := kmsg.NewProduceResponseTopic()
		t.Topic, t.TopicID = topic.Topic, topic.TopicID
		for _, partition := range topic.Partitions {
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition, p.BaseOffset = partition.Partition, offset
			t.Partitions = append(t.Partitions, p)
		}
		response.Topics = append(response.Topics, t)
	}
	return response
}

func commit(version int16, offsets ...int64) *kmsg.OffsetCommitRequest {
	request := kmsg.NewPtrOffsetCommitRequest()
	request.SetVersion(version)
	request.Group, request.Generation, request.MemberID = "g", 4, "m-1"
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = "t.input"
	for i, offset := range offsets {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = int32(i), offset
		topic.Partitions = append(topic.Partitions, p)
	}
	request.Topics = append(request.Topics, topic)
	return request
}

func committedAnswer(request *kmsg.OffsetCommitRequest, code int16) *kmsg.OffsetCommitResponse {
	response := request.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, topic := range request.Topics {
		t := kmsg.NewOffsetCommitResponseTopic()
		t.Topic = topic.Topic
		for _, partition := range topic.Partitions {
			p := kmsg.NewOffsetCommitResponseTopicPartition()
			p.Partition, p.ErrorCode = partition.Partition, code
			t.Partitions = append(t.Partitions, p)
		}
		response.Topics = append(response.Topics, t)
	}
	return response
}

// The acknowledgement is stamped after the broker sent it and recorded before the client can read a byte of it.
func TestAcknowledgementIsStampedBeforeItIsWritten(t *testing.T) {
	recorded, release := make(chan history.Event), make(chan struct{})
	_, subject, kafka := pair(t, func(c *Config) {
		c.Sink.(*eventLog).hook = func(e history.Event) {
			if e.Kind == history.KindProduceResponse {
				recorded <- e
				<-release
			}
		}
	})
	request := produce(9, -1, map[string][]string{"t.dlq": {"a"}})
	subject.request(1, request)
	kafka.receive()
	kafka.respond(1, acknowledge(request, 5))
	if e := <-recorded; e.Offset != 5 || e.Code != 0 {
		t.Errorf("recorded %+v", e)
	}
	subject.silent(50 * time.Millisecond) // while the tap is still recording
	close(release)
	answer := decodeAnswer(t, subject.receive(), 1, kmsg.NewPtrProduceResponse(), 9)
	if answer.Topics[0].Partitions[0].BaseOffset != 5 {
		t.Errorf("the client was told %+v", answer)
	}
}

func TestSlowBrokersAnswerIsStampedWhenItCame(t *testing.T) {
	r, subject, kafka := pair(t, nil)
	request := produce(9, -1, map[string][]string{"t.dlq": {"a"}})
	subject.request(1, request)
	kafka.receive()
	frame := responseFrame(1, acknowledge(request, 5))
	kafka.send(frame[:len(frame)-1])
	time.Sleep(10 * time.Millisecond) // gives a premature stamp time to appear
	sent := r.clock.Now()
	kafka.send(frame[len(frame)-1:])
	subject.receive()
	got := r.clock.Now()
	events := r.log.of(history.KindProduceRequest, history.KindProduceResponse)
	if len(events) != 2 || events[0].Time > sent || events[1].Time < sent || events[1].Time > got {
		t.Errorf("answer sent at %s and read at %s, events %+v", sent, got, events)
	}
}

// A commit is stamped when its last byte has been read, and recorded before the broker gets it.
func TestCommitIsStampedAfterItWasRead(t *testing.T) {
	r, subject, kafka := pair(t, nil)
	request := commit(8, 10, 20)
	frame := requestFrame(3, request)
	subject.send(frame[:len(frame)-1])
	kafka.silent(20 * time.Millisecond)
	sent := r.clock.Now()
	subject.send(frame[len(frame)-1:])
	if got := kafka.receive(); !bytes.Equal(got, frame[4:]) {
		t.Errorf("the broker got %x, want %x", got, frame[4:])
	}
	events := r.log.of(history.KindCommitRequest)
	if len(events) != 2 {
		t.Fatalf("when the broker has it, %d events are recorded", len(events))
	}
	for i, e := range events {
		if e.Time < sent || e.Partition != int32(i) || e.Offset != int64(10*(i+1)) || e.N != 4 || e.Topic != input {
			t.Errorf("sent at %s: %+v", sent, e)
		}
	}
	kafka.respond(3, committedAnswer(request, 22))
	subject.receive()
	answers := r.log.of(history.KindCommitResponse)
	if len(answers) != 2 || answers[1].Code != 22 || answers[1].Op != events[1].Op || answers[1].Offset != 20 {
		t.Errorf("answers %+v", answers)
	}
}

// A request that the broker never answered stays unanswered. So does a request whose client had left before the
// answer.
func TestLostAnswersAreNotRecorded(t *testing.T) {
	request := produce(9, -1, map[string][]string{"t.dlq": {"a"}})
	t.Run("broker gone", func(t *testing.T) {
		r, subject, kafka := pair(t, nil)
		subject.request(1, request)
		kafka.receive()
		_ = kafka.Close()
		if _, err := subject.tryReceive(patience); !errors.Is(err, io.EOF) {
			t.Errorf("the client sees %v", err)
		}
		if n := len(r.log.of(history.KindProduceResponse)); n != 0 {
			t.Errorf("%d answers recorded", n)
		}
	})
	t.Run("client gone", func(t *testing.T) {
		r, subject, kafka := pair(t, nil)
		subject.request(1, request)
		kafka.receive()
		_ = subject.Close()
		if _, err := kafka.tryReceive(patience); !errors.Is(err, io.EOF) {
			t.Errorf("the broker sees %v", err)
		}
		kafka.respond(1, acknowledge(request, 1))
		_ = kafka.Close()
		wait.Until(t, "the tap has read what the broker said to the end", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.instances[0].conns) == 0
		})
		if n := len(r.log.of(history.KindProduceResponse)); n != 0 {
			t.Errorf("%d answers recorded", n)
		}
	})
	t.Run("broker resets", func(t *testing.T) {
		_, subject, kafka := pair(t, nil)
		subject.request(1, request)
		kafka.receive()
		_ = kafka.Conn.(*net.TCPConn).SetLinger(0)
		_ = kafka.Close()
		if _, err := subject.tryReceive(patience); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the client sees %v, want a reset", err)
		}
	})
}

func TestLastRequestsOfAClientReachTheBroker(t *testing.T) {
	r, subject, kafka := pair(t, nil)
	for i := range int32(50) {
		subject.request(i, commit(8, int64(i)))
	}
	_ = subject.Close()
	for i := range 50 {
		if _, err := kafka.tryReceive(patience); err != nil {
			t.Fatalf("request %d of a client that is gone: %v", i, err)
		}
	}
	if n := len(r.log.of(history.KindCommitRequest)); n != 50 {
		t.Errorf("%d commits recorded", n)
	}
}

func TestUnreachableBrokerResetsTheClient(t *testing.T) {
	r := newRig(t, []Upstream{{NodeID: 1, Dial: network.Upstream{Address: closedPort(t)}.Connect}}, nil)
	conn, err := net.Dial("tcp", r.open(t, 0))
	if err == nil { // otherwise the reset came even earlier
		defer func() { _ = conn.Close() }()
		_, err = newPeer(t, conn).tryReceive(patience)
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client sees %v, want a reset", err)
	}
}

func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	return listener.Addr().String()
}

func TestBeginRunDropsConnectionsOfTheProcessBefore(t *testing.T) {
	b := newBroker(t)
	r := newRig(t, b.upstreams(), nil)
	address := r.open(t, 0)
	r.BeginRun(0, 0)
	old := dial(t, address)
	b.next()
	r.BeginRun(0, 1)
	if _, err := old.tryReceive(patience); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("the old connection: %v", err)
	}
	fresh := dial(t, address)
	kafka := b.next()
	fresh.request(1, commit(8, 7))
	kafka.receive()
	r.BeginRun(0, 1) // again, for the same process: its connections stay
	fresh.request(2, commit(8, 8))
	kafka.receive()
	for _, e := range r.log.of(history.KindCommitRequest) {
		if e.Run != 1 {
			t.Errorf("recorded for process %d", e.Run)
		}
	}
}

// The tap refuses a request that it does not read by closing the connection, and reports it once for each API and
// version. No part of the request reaches the broker.
func TestWhatIsNotReadIsRefused(t *testing.T) {
	var said bytes.Buffer
	for _, one := range []struct {
		name         string
		key, version int16
		newest       int64
		api          string
	}{
		{"an API that nobody knows yet", 200, 9, history.None, "API key 200"},
		{"an API of a vendor", 10006, 0, history.None, "API key 10006"},
		{"a version to come of what is observed", keyFetch, 99, int64(kmsg.NewPtrFetchRequest().MaxVersion()), "Fetch"},
		{"a version to come of what only passes", 2, 99, int64(kmsg.NewPtrListOffsetsRequest().MaxVersion()), "ListOffsets"},
		{"a version that can't be", keyProduce, -1, int64(kmsg.NewPtrProduceRequest().MaxVersion()), "Produce"},
	} {
		t.Run(one.name, func(t *testing.T) {
			said.Reset()
			b := newBroker(t)
			r := newRig(t, b.upstreams(), func(c *Config) { c.Log = zerolog.New(zerolog.SyncWriter(&said)) })
			address := r.open(t, 0)
			for range 2 { // the client reconnects, as clients do
				subject := dial(t, address)
				kafka := b.next()
				frame := []byte{0, 0, 0, 12, byte(one.key >> 8), byte(one.key), byte(one.version >> 8), byte(one.version), 0, 0, 0,
					77, 1, 2, 3, 4}
				subject.send(frame)
				if _, err := subject.tryReceive(patience); err == nil || strings.Contains(err.Error(), "timeout") {
					t.Errorf("the client sees %v", err)
				}
				if got, err := kafka.tryReceive(patience); err == nil || strings.Contains(err.Error(), "timeout") {
					t.Errorf("the broker gets %x, %v", got, err)
				}
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			events := r.log.of(history.KindUnreadable)
			if len(events) != 1 || events[0].Code != one.key || events[0].N != int32(one.version) ||
				events[0].Aux != one.newest || events[0].Text != one.api {
				t.Errorf("recorded %+v", events)
			}
			if strings.Count(said.String(), "was refused by closing its connection") != 1 ||
				!strings.Contains(said.String(), one.api) {
				t.Errorf("said %s", &said)
			}
		})
	}
}

func TestBigFramesPass(t *testing.T) {
	r, subject, kafka := pair(t, nil)
	big := strings.Repeat("x", 24<<20)
	request := produce(9, -1, map[string][]string{"t.dlq": {big}})
	frame := requestFrame(1, request)
	var sending sync.WaitGroup
	sending.Go(func() { subject.send(frame) })
	if got := kafka.receive(); !bytes.Equal(got, frame[4:]) {
		t.Error("the broker got something else")
	}
	sending.Wait()
	if n := len(r.log.of(history.KindProduceRequest)); n != 1 {
		t.Errorf("%d events", n)
	}
	// Also a response of that size, for an API that is not decoded.
	list := kmsg.NewPtrListOffsetsRequest()
	kafka.respond(1, acknowledge(request, 0))
	subject.receive()
	subject.request(2, list)
	kafka.receive()
	answer := append([]byte{1, 0x80, 0, 4, 0, 0, 0, 2}, []byte(big)...)
	answer = answer[:4+4+len(big)]
	binary.BigEndian.PutUint32(answer, uint32(4+len(big)))
	sending.Go(func() { kafka.send(answer) })
	if got := subject.receive(); !bytes.Equal(got, answer[4:]) {
		t.Error("the client got something else")
	}
	sending.Wait()
}

// A peer that does not speak Kafka is cut off; the tap serves the others.
func TestNonsenseClosesTheConnection(t *testing.T) {
	for name, sent := range map[string][]byte{
		"http":        []byte("GET / HTTP/1.1\r\nHost: kafka\r\n\r\n"),
		"negative":    {0xff, 0xff, 0xff, 0xff, 0},
		"no header":   {0, 0, 0, 2, 0, 0},
		"no body":     {0, 0, 0, 10, 0, 8, 0, 8, 0, 0, 0, 1, 0xff, 0xff},
		"too new":     {0, 0, 0, 10, 0, 8, 0, 99, 0, 0, 0, 1, 0xff, 0xff},
		"fetch array": append([]byte{0, 0, 0, 31, 0, 1, 0, 4, 0, 0, 0, 1, 0xff, 0xff}, bytes.Repeat([]byte{0x7f}, 21)...),
	} {
		t.Run(name, func(t *testing.T) {
			r, subject, kafka := pair(t, func(c *Config) { c.Log = c.Log.Level(5) })
			subject.send(sent)
			if _, err := subject.tryReceive(patience); err == nil || strings.Contains(err.Error(), "timeout") {
				t.Errorf("the client sees %v", err)
			}
			if _, err := kafka.tryReceive(patience); err == nil || strings.Contains(err.Error(), "timeout") {
				t.Errorf("the broker sees %v", err)
			}
			if n := len(r.log.of(history.KindCommitRequest)); n != 0 {
				t.Errorf("%d commits recorded", n)
			}
		})
	}
}

func TestWrongAnswersCloseTheConnection(t *testing.T) {
	for name, answer := range map[string][]byte{
		"other correlation id": {0, 0, 0, 4, 0, 0, 0, 99},
		"undecodable":          {0, 0, 0, 5, 0, 0, 0, 1, 0xff},
	} {
		t.Run(name, func(t *testing.T) {
			_, subject, kafka := pair(t, func(c *Config) { c.Log = c.Log.Level(5) })
			request := kmsg.NewPtrMetadataRequest()
			subject.request(1, request)
			kafka.receive()
			kafka.send(answer)
			if _, err := subject.tryReceive(patience); err == nil || strings.Contains(err.Error(), "timeout") {
				t.Errorf("the client sees %v", err)
			}
		})
	}
}

func TestAPIVersionsAreClamped(t *testing.T) {
	_, subject, kafka := pair(t, nil)
	request := kmsg.NewPtrApiVersionsRequest()
	request.SetVersion(4)
	request.ClientSoftwareName, request.ClientSoftwareVersion = "test", "1"
	subject.request(1, request)
	kafka.receive()
	answer := request.ResponseKind().(*kmsg.ApiVersionsResponse)
	for _, api := range [][3]int16{{0, 0, 99}, {3, 0, 2}, {99, 0, 1}, {200, 0, 1}, {8, 90, 99}} {
		one := kmsg.NewApiVersionsResponseApiKey()
		one.ApiKey, one.MinVersion, one.MaxVersion = api[0], api[1], api[2]
		answer.ApiKeys = append(answer.ApiKeys, one)
	}
	answer.FinalizedFeaturesEpoch = 7
	kafka.respond(1, answer)
	got := decodeAnswer(t, subject.receive(), 1, kmsg.NewPtrApiVersionsResponse(), 4)
	if len(got.ApiKeys) != 2 || got.ApiKeys[0].MaxVersion != kmsg.NewPtrProduceRequest().MaxVersion() ||
		got.ApiKeys[1].MaxVersion != 2 ||
		got.FinalizedFeaturesEpoch != 7 {
		t.Errorf("got %+v", got)
	}
	// A broker older than the request answers in version 0.
	subject.request(2, request)
	kafka.receive()
	old := kmsg.NewPtrApiVersionsResponse()
	old.ErrorCode = kerr.UnsupportedVersion.Code
	kafka.respond(2, old)
	if got := decodeAnswer(t, subject.receive(), 2, kmsg.NewPtrApiVersionsResponse(), 0); got.ErrorCode !=
		kerr.UnsupportedVersion.Code {
		t.Errorf("got %+v", got)
	}
	// A request newer than the tap is answered by it, as a broker would.
	frame := requestFrame(3, request)
	frame[7] = 99
	subject.send(frame)
	newest := decodeAnswer(t, subject.receive(), 3, kmsg.NewPtrApiVersionsResponse(), 0)
	if newest.ErrorCode != kerr.UnsupportedVersion.Code || len(newest.ApiKeys) != 1 ||
		newest.ApiKeys[0].MaxVersion != request.MaxVersion() {
		t.Errorf("got %+v", newest)
	}
	kafka.silent(20 * time.Millisecond)
}

// An answer that the tap rewrites keeps unknown fields. Newer brokers add such fields as tags, without a new
// version.
func TestTagsThatAreNotKnownStay(t *testing.T) {
	_, subject, kafka := pair(t, nil)
	request := kmsg.NewPtrMetadataRequest()
	request.SetVersion(request.MaxVersion())
	subject.request(1, request)
	kafka.receive()
	answer := request.ResponseKind().(*kmsg.MetadataResponse)
	own := kmsg.NewMetadataResponseBroker()
	own.NodeID, own.Host, own.Port = 1, "kafka", 9092
	own.UnknownTags.Set(900, []byte("of the broker"))
	answer.Brokers = append(answer.Brokers, own)
	answer.UnknownTags.Set(901, []byte("of the answer"))
	kafka.respond(1, answer)
	got := decodeAnswer(t, subject.receive(), 1, kmsg.NewPtrMetadataResponse(), request.GetVersion())
	if len(got.Brokers) != 1 || got.Brokers[0].Host != "127.0.0.1" {
		t.Fatalf("the brokers are %+v", got.Brokers)
	}
	tags := map[uint32]string{}
	for _, of := range []*kmsg.Tags{&got.UnknownTags, &got.Brokers[0].UnknownTags} {
		of.Each(func(tag uint32, value []byte) { tags[tag] = string(value) })
	}
	if !maps.Equal(tags, map[uint32]string{900: "of the broker", 901: "of the answer"}) {
		t.Errorf("the tags are %v", tags)
	}
}

// After SaslHandshake v0 come tokens without any Kafka header, then requests again.
func TestBareSASLTokensPass(t *testing.T) {
	_, subject, kafka := pair(t, nil)
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Mechanism = "PLAIN"
	subject.request(1, handshake)
	kafka.receive()
	kafka.respond(1, kmsg.NewPtrSASLHandshakeResponse())
	subject.receive()
	for _, token := range [][]byte{[]byte("\x00a\x00secret"), []byte("n,,n=user,r=nonce"), {}, {0x60, 0x82}} {
		frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(token))), token...)
		subject.send(frame)
		if got := kafka.receive(); !bytes.Equal(got, token) {
			t.Errorf("the broker got %q, want %q", got, token)
		}
		kafka.send([]byte{0, 0, 0, 1, 42})
		if got := subject.receive(); !bytes.Equal(got, []byte{42}) {
			t.Errorf("the client got %q", got)
		}
	}
	request := commit(8, 1)
	subject.request(2, request)
	kafka.receive()
	kafka.respond(2, committedAnswer(request, 0))
	decodeAnswer(t, subject.receive(), 2, kmsg.NewPtrOffsetCommitResponse(), 8)
}

func TestSASLPasses(t *testing.T) {
	for name, option := range map[string]kgo.Opt{
		"plain": kgo.SASL(plain.Auth{User: "u", Pass: "p"}.AsMechanism()),
		"scram": kgo.SASL(scram.Auth{User: "u", Pass: "p"}.AsSha256Mechanism()),
	} {
		t.Run(name, func(t *testing.T) {
			_, r := cluster(t, 1, nil, kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "p"),
				kfake.Superuser("SCRAM-SHA-256", "u", "p"))
			cl := client(t, r.open(t, 0), option)
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t.dlq", Value: []byte("x")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if n := len(r.log.of(history.KindProduceResponse)); n != 1 {
				t.Errorf("%d events", n)
			}
		})
	}
}
