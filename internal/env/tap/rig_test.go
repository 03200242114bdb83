package tap

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/testkit/kafkatest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const patience = 20 * time.Second

// The topics of every test, by index.
const (
	input = int16(iota)
	retry
	dlq
)

func runTopics() []history.Topic {
	return []history.Topic{
		{Name: "t.input", Role: history.RoleInput, Partitions: 6},
		{Name: "t.retry", Role: history.RoleRetry, Partitions: 2},
		{Name: "t.dlq", Role: history.RoleDLQ, Partitions: 3},
	}
}

// log collects events.
type eventLog struct {
	mu     sync.Mutex
	events []history.Event
	hook   func(history.Event)
}

func (l *eventLog) Record(e history.Event) {
	if l.hook != nil {
		l.hook(e)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *eventLog) of(kinds ...history.Kind) []history.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []history.Event
	for _, e := range l.events {
		for _, kind := range kinds {
			if e.Kind == kind {
				found = append(found, e)
			}
		}
	}
	return found
}

// rig is a tap with its log.
type rig struct {
	*Tap
	log   *eventLog
	clock *history.RunClock
	ids   *history.IDs
}

type intercept func(*Exchange) Action

func (f intercept) Intercept(x *Exchange) Action { return f(x) }

func newRig(t testing.TB, upstreams []Upstream, adapt func(*Config)) *rig {
	t.Helper()
	var op atomic.Int64
	r := &rig{log: &eventLog{}, clock: history.NewClock(), ids: history.NewIDs("test-run")}
	config := Config{
		Clock: r.clock, Sink: r.log, NextOp: func() int64 { return op.Add(1) }, IDs: r.ids, Topics: runTopics(),
		Upstreams: upstreams, Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel),
		TopicIDs: func(context.Context, []string) (map[string][16]byte, error) {
			return nil, errors.New("no id but those in answers is known")
		},
	}
	if os.Getenv("TAP_LOG") != "" {
		config.Log = zerolog.New(os.Stderr)
	}
	if adapt != nil {
		adapt(&config)
	}
	r.Tap = New(config)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) open(t testing.TB, instance int) string {
	t.Helper()
	bootstrap, err := r.Open(instance)
	if err != nil {
		t.Fatal(err)
	}
	return bootstrap
}

// cluster starts an embedded Kafka with the topics, and a tap in front of it.
func cluster(t testing.TB, brokers int, adapt func(*Config), options ...kfake.Opt) (*kfake.Cluster, *rig) {
	t.Helper()
	options = append(options, kfake.NumBrokers(brokers),
		kfake.BrokerConfigs(map[string]string{"group.consumer.heartbeat.interval.ms": "50",
			"group.initial.rebalance.delay.ms": "0"}))
	for _, topic := range runTopics() {
		options = append(options, kfake.SeedTopics(int32(topic.Partitions), topic.Name))
	}
	c, err := kfake.NewCluster(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var upstreams []Upstream
	for node, address := range c.ListenAddrs() {
		upstreams = append(upstreams, Upstream{NodeID: int32(node), Dial: network.Upstream{Address: address}.Connect})
	}
	return c, newRig(t, upstreams, func(config *Config) {
		config.TopicIDs = kafkatest.TopicIDs(c)
		if adapt != nil {
			adapt(config)
		}
	})
}

func client(t testing.TB, bootstrap string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	options = append([]kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.MetadataMinAge(50 * time.Millisecond), kgo.DisableClientMetrics(),
	}, options...)
	cl, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// broker is a broker under the test's control: it does exactly what the test says.
type broker struct {
	t        testing.TB
	listener net.Listener
	conns    chan *peer
}

// peer is one end of a connection that exchanges frames.
type peer struct {
	net.Conn
	t    testing.TB
	from *bufio.Reader
	pool frames
}

func newPeer(t testing.TB, conn net.Conn) *peer {
	return &peer{Conn: conn, t: t, from: bufio.NewReader(conn)}
}

func newBroker(t testing.TB) *broker {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{t: t, listener: listener, conns: make(chan *peer, 16)}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			b.conns <- newPeer(t, conn)
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		accepting.Wait()
		close(b.conns)
		for p := range b.conns {
			_ = p.Close()
		}
	})
	return b
}

func (b *broker) upstreams() []Upstream {
	return []Upstream{{NodeID: 1, Dial: network.Upstream{Address: b.listener.Addr().String()}.Connect}}
}

func (b *broker) next() *peer {
	b.t.Helper()
	select {
	case p := <-b.conns:
		b.t.Cleanup(func() { _ = p.Close() })
		return p
	case <-time.After(patience):
		b.t.Fatal("no connection came to the broker")
		return nil
	}
}

// pair connects a raw client through the tap to a broker of the test's own.
func pair(t testing.TB, adapt func(*Config)) (r *rig, subject, kafka *peer) {
	t.Helper()
	b := newBroker(t)
	r = newRig(t, b.upstreams(), adapt)
	address := r.open(t, 0)
	return r, dial(t, address), b.next()
}

func dial(t testing.TB, address string) *peer {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return newPeer(t, conn)
}

// receive returns the payload of the next frame.
func (p *peer) receive() []byte {
	p.t.Helper()
	payload, err := p.tryReceive(patience)
	if err != nil {
		p.t.Fatalf("waiting for a frame: %v", err)
	}
	return payload
}

func (p *peer) tryReceive(limit time.Duration) ([]byte, error) {
	_ = p.SetReadDeadline(time.Now().Add(limit))
	fr, err := p.pool.read(p.from)
	if err != nil {
		return nil, err
	}
	return fr.payload(), nil
}

// silent fails the test if anything arrives before the limit.
func (p *peer) silent(limit time.Duration) {
	p.t.Helper()
	if payload, err := p.tryReceive(limit); err == nil {
		p.t.Fatalf("received %d bytes, expected silence", len(payload))
	} else if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
		p.t.Fatalf("expected silence: %v", err)
	}
}

func (p *peer) send(frame []byte) {
	p.t.Helper()
	if _, err := p.Write(frame); err != nil {
		p.t.Fatalf("sending a frame: %v", err)
	}
}

func (p *peer) request(correlation int32, request kmsg.Request) {
	p.t.Helper()
	p.send(requestFrame(correlation, request))
}

func requestFrame(correlation int32, request kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("tester")).AppendRequest(nil, request, correlation)
}

// respond sends the response with the header form that Kafka uses.
func (p *peer) respond(correlation int32, response kmsg.Response) {
	p.t.Helper()
	p.send(responseFrame(correlation, response))
}

func responseFrame(correlation int32, response kmsg.Response) []byte {
	out := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(correlation))
	if response.IsFlexible() && response.Key() != 18 {
		out = append(out, 0)
	}
	out = response.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}

// decodeAnswer decodes a response of the version.
func decodeAnswer[R kmsg.Response](t testing.TB, payload []byte, correlation int32, response R, version int16) R {
	t.Helper()
	response.SetVersion(version)
	if got := int32(binary.BigEndian.Uint32(payload)); got != correlation {
		t.Fatalf("correlation id %d, want %d", got, correlation)
	}
	body := payload[4:]
	if response.IsFlexible() && response.Key() != 18 {
		body = body[1:]
	}
	if err := response.ReadFrom(body); err != nil {
		t.Fatalf("decoding the answer: %v", err)
	}
	return response
}
