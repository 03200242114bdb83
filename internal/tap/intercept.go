package tap

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Interceptor decides what becomes of a request. It is asked after the request was read and stamped, for every request of a known
// API and version, by many goroutines at once; it must not block.
type Interceptor interface {
	Intercept(*Exchange) Action
}

// Exchange is a request of a subject instance. It is valid during Intercept only.
type Exchange struct {
	// Instance is the subject instance (history.Replayer for the replay tool), Run its process.
	Instance int
	Run      uint16
	// APIKey and Version are Kafka's.
	APIKey, Version int16

	read    func() (kmsg.Request, error)
	names   func([16]byte) string
	request kmsg.Request
	err     error
}

// NewExchange returns the exchange of a decoded request.
func NewExchange(instance int, run uint16, request kmsg.Request) *Exchange {
	return &Exchange{
		Instance: instance, Run: run, APIKey: request.Key(), Version: request.GetVersion(), request: request,
		names: func([16]byte) string { return "" },
	}
}

// Request returns the decoded request; it is decoded when it is first asked for.
func (x *Exchange) Request() (kmsg.Request, error) {
	if x.request == nil && x.err == nil {
		x.request, x.err = x.read()
	}
	return x.request, x.err
}

// Partition is a partition that a request touches.
type Partition struct {
	// Topic is the topic's name; "" when the request gives an id that is not known.
	Topic  string
	Number int32
}

// Partitions returns what a Produce, Fetch, OffsetCommit or TxnOffsetCommit touches, nothing for other requests.
func (x *Exchange) Partitions() []Partition {
	request, err := x.Request()
	if err != nil {
		return nil
	}
	var all []Partition
	add := func(topic string, id [16]byte, number int32) {
		if topic == "" {
			topic = x.names(id)
		}
		all = append(all, Partition{topic, number})
	}
	switch r := request.(type) {
	case *kmsg.ProduceRequest:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(t.Topic, t.TopicID, p.Partition)
			}
		}
	case *kmsg.FetchRequest:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(t.Topic, t.TopicID, p.Partition)
			}
		}
	case *kmsg.OffsetCommitRequest:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(t.Topic, t.TopicID, p.Partition)
			}
		}
	case *kmsg.TxnOffsetCommitRequest:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(t.Topic, t.TopicID, p.Partition)
			}
		}
	}
	return all
}

// Effect is what an action did.
type Effect int

const (
	// EffectAnswered says that the request was answered with the code.
	EffectAnswered Effect = iota
	// EffectDelayed says that the response was held; the duration says for how long.
	EffectDelayed
	// EffectDropped says that the response was withheld.
	EffectDropped
	// EffectClosed says that a connection with a withheld response was closed because the fault is healed.
	EffectClosed
)

// Action is what becomes of a request. The zero Action passes it on. At most one of Code, Delay and Drop is set.
type Action struct {
	// Code answers with this Kafka error code in the broker's place; the broker never sees the request. It works for Produce,
	// OffsetCommit and TxnOffsetCommit, per partition, and for every API whose response has an error code of its own; other
	// requests pass. A request with acks=0 is swallowed, as nothing is answered to it.
	Code int16
	// Matches limits Code to some partitions of a Produce, OffsetCommit or TxnOffsetCommit: the others go to the broker, and its answer is
	// completed with those that match. nil matches all.
	Matches func(Partition) bool
	// Delay holds the response back, and with it everything behind it on the connection, as Kafka answers in order.
	Delay time.Duration
	// Drop withholds the response, and with it everything behind it on the connection, until the client closes it or the fault
	// is healed; then the connection is closed.
	Drop bool
	// Healed is closed when the fault is: what is held is let go, silenced connections are closed. Required with Delay and Drop.
	Healed <-chan struct{}
	// Effect, if set, is told what the action did, when it did it. It must not block.
	Effect func(effect Effect, held time.Duration)
	// Done, if set, is called once when the tap holds nothing on the action's account any more, also if it never took effect.
	Done func()
}

func (a *Action) took(effect Effect, held time.Duration) {
	if a.Effect != nil {
		a.Effect(effect, held)
	}
}

func (a *Action) done() {
	if a.Done != nil {
		a.Done()
		a.Done = nil
	}
}

// intercept asks the interceptor and prepares what it wants. It returns the frame to forward, nil when nothing is.
func (c *conn) intercept(p *pending, fr *frame, request kmsg.Request) []byte {
	x := &Exchange{
		Instance: c.instance.number, Run: c.process.run, APIKey: p.key, Version: p.version, request: request,
		read: func() (kmsg.Request, error) { return decodeRequest(p.header, fr) },
		names: func(id [16]byte) string {
			name, _ := c.tap.topics.name(id)
			return name
		},
	}
	p.action = c.tap.Interceptor.Intercept(x)
	if p.action.Code == 0 {
		return fr.data
	}
	decoded, err := x.Request()
	if err != nil {
		p.action.done()
		p.action = Action{}
		return fr.data
	}
	matches := p.action.Matches
	if matches == nil {
		matches = func(Partition) bool { return true }
	}
	byID := func(name string, id [16]byte, number int32) bool {
		if name == "" {
			name = x.names(id)
		}
		return matches(Partition{name, number})
	}
	forged, rest := forge(decoded, p.action.Code, byID)
	if forged == nil {
		p.action.done()
		p.action = Action{}
		return fr.data
	}
	p.forged = forged
	if rest == nil {
		p.local = true
		return nil
	}
	return encodeRequest(fr, p.header, rest)
}

// observesForged is implemented by observations whose events say per partition who answered.
type observesForged interface {
	observation
	// forge notes the partitions of an answer that was made here.
	forge(c *conn, forged kmsg.Response)
}

// examine observes a request that is decoded and asks the interceptor. out is what to forward; answered is false for a request that no
// answer follows.
func (c *conn) examine(p *pending, fr *frame) (out []byte, answered bool, err error) {
	answered = true
	var request kmsg.Request
	switch {
	case p.key == keyProduce:
		produced, acks, err := c.observeProduce(p, fr.payload()[p.body:])
		if err != nil {
			return nil, false, err
		}
		answered = acks != 0
		if produced != nil {
			p.seen = produced
		}
	case decodesRequest(p.key):
		if request, err = decodeRequest(p.header, fr); err != nil {
			return nil, false, err
		}
		p.seen = c.observe(p, request)
	}
	if c.tap.Interceptor == nil {
		return fr.data, answered, nil
	}
	out = c.intercept(p, fr, request)
	if seen, ok := p.seen.(observesForged); ok && p.forged != nil && !p.local {
		seen.forge(c, p.forged)
	}
	if !answered && !p.local {
		// No response will come that an action could hold or drop; what was taken out of the request is gone already.
		if p.forged != nil {
			p.action.took(EffectAnswered, 0)
		}
		p.action.done()
	}
	return out, answered, nil
}

// observe notes a decoded request and returns what waits for its response.
func (c *conn) observe(p *pending, request kmsg.Request) observation {
	switch r := request.(type) {
	case *kmsg.FetchRequest:
		return c.observeFetch(r)
	case *kmsg.OffsetCommitRequest:
		return c.observeCommit(p.readAt, r)
	case *kmsg.TxnOffsetCommitRequest:
		return c.observeTxnCommit(p.readAt, r)
	case *kmsg.EndTxnRequest:
		return c.observeEndTxn(p.readAt, r)
	}
	return c.observeGroup(p.readAt, request)
}

// decodeRequest decodes the request of a frame.
func decodeRequest(h header, fr *frame) (kmsg.Request, error) {
	payload := fr.payload()
	request := kmsg.RequestForKey(h.key)
	request.SetVersion(h.version)
	if h.key != keyProduce && len(payload) > maxDecoded {
		return nil, fmt.Errorf("a %s request has %d bytes; the limit for what must be decoded is %d", apiName(h.key), len(payload), maxDecoded)
	}
	if err := request.ReadFrom(payload[h.body:]); err != nil {
		return nil, fmt.Errorf("decoding a %s v%d request: %w", apiName(h.key), h.version, err)
	}
	return request, nil
}

// encodeRequest makes a frame with the original header and another body.
func encodeRequest(fr *frame, h header, request kmsg.Request) []byte {
	out := append([]byte{}, fr.data[:sizeLen+h.body]...)
	out = request.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-sizeLen))
	return out
}
