package tap

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
)

// Interceptor decides what happens to a request. It is called for every request of a known API and version, after
// the request was read and stamped, by many goroutines concurrently. While it blocks, its connection stands still.
type Interceptor interface {
	Intercept(*Exchange) Action
}

// Exchange is a request of a subject instance. It is valid only during Intercept.
type Exchange struct {
	// Instance is the subject instance (history.Replayer for the replay tool), Run its process.
	Instance int
	Run      uint16
	// Group is the run's consumer group (Config.Group).
	Group string
	// Broker is the node id of the broker that the request was sent to; 0 for an exchange made by NewExchange.
	Broker int32
	// APIKey and Version are Kafka's.
	APIKey, Version int16

	conn    *conn // nil, as frame is, for an exchange made by NewExchange
	frame   *frame
	header  header
	fetch   *fetchSeen
	produce *produceSeen
	readAt  time.Duration
	request kmsg.Request
	err     error
}

// NewExchange returns the exchange of a decoded request that came over no connection.
func NewExchange(instance int, run uint16, request kmsg.Request) *Exchange {
	return &Exchange{Instance: instance, Run: run, APIKey: request.Key(), Version: request.GetVersion(), request: request}
}

// Request returns the decoded request. It decodes on the first call.
func (x *Exchange) Request() (kmsg.Request, error) {
	if x.request == nil && x.err == nil {
		x.request, x.err = decodeRequest(x.header, x.frame)
	}
	return x.request, x.err
}

// ClientID returns the client id in the request's header, "" if there is none.
func (x *Exchange) ClientID() string {
	if x.frame == nil {
		return ""
	}
	const before = 8 // API key, version, correlation id
	w := wire{rest: x.frame.payload()[before:]}
	return string(w.nullableString())
}

// InGroup reports whether the request concerns the consumer group: a request by a member, a commit of its offsets,
// or a query for its coordinator.
func (x *Exchange) InGroup(group string) bool {
	request, err := x.Request()
	return err == nil && concerns(request, group)
}

func concerns(request kmsg.Request, group string) bool {
	switch r := request.(type) {
	case *kmsg.OffsetCommitRequest:
		return r.Group == group
	case *kmsg.TxnOffsetCommitRequest:
		return r.Group == group
	case *kmsg.JoinGroupRequest:
		return r.Group == group
	case *kmsg.SyncGroupRequest:
		return r.Group == group
	case *kmsg.HeartbeatRequest:
		return r.Group == group
	case *kmsg.ConsumerGroupHeartbeatRequest:
		return r.Group == group
	case *kmsg.StreamsGroupHeartbeatRequest:
		return r.Group == group
	case *kmsg.ShareGroupHeartbeatRequest:
		return r.GroupID == group
	case *kmsg.ShareFetchRequest:
		return r.GroupID != nil && *r.GroupID == group
	case *kmsg.ShareAcknowledgeRequest:
		return r.GroupID != nil && *r.GroupID == group
	case *kmsg.FindCoordinatorRequest: // from version 4 on it may ask for several; type 0 is a group's
		return r.CoordinatorType == 0 && (r.CoordinatorKey == group || slices.Contains(r.CoordinatorKeys, group))
	}
	return false
}

// Partition is a partition that a request touches.
type Partition struct {
	// Topic is the topic's name; "" if the request gives an unknown id.
	Topic string
	// Number is history.None in a request for whole topics (Metadata).
	Number int32
}

// Writes returns the records that a Produce writes to topics whose writes are recorded, as the events of its request,
// and whether it asks for an answer.
func (x *Exchange) Writes() (writes []history.Event, answered bool) {
	if x.produce == nil {
		return nil, true
	}
	for i := range x.produce.partitions {
		x.produce.eachEvent(x.conn, history.KindProduceRequest, x.readAt, &x.produce.partitions[i],
			func(e *history.Event, _ int) { writes = append(writes, *e) })
	}
	return writes, x.produce.acks != 0
}

// Acks returns how many replicas a Produce waits for: 0 for none, 1 for the leader, -1 for all that are in sync.
func (x *Exchange) Acks() int16 {
	request, err := x.Request()
	if produce, ok := request.(*kmsg.ProduceRequest); err == nil && ok {
		return produce.Acks
	}
	return -1
}

// Partitions returns the partitions or topics of a Produce, Fetch, OffsetCommit, TxnOffsetCommit or Metadata,
// nothing for other requests. A Fetch in a session (KIP-227) names only changes. For it, Partitions returns
// everything that the broker will answer for, as far as it belongs to the run's topics.
func (x *Exchange) Partitions() []Partition {
	request, err := x.Request()
	if err != nil {
		return nil
	}
	var all []Partition
	if x.fetch != nil {
		for at := range x.fetch.asked {
			all = append(all, Partition{x.conn.tap.Topics[at.topic].Name, at.number})
		}
		return all
	}
	if metadata, ok := request.(*kmsg.MetadataRequest); ok && asksForAll(metadata) && x.conn != nil {
		for i := range x.conn.tap.Topics {
			all = append(all, Partition{x.conn.tap.Topics[i].Name, history.None})
		}
		return all
	}
	eachPartition(request, func(topic string, id [16]byte, number int32) {
		all = append(all, Partition{x.name(topic, id), number})
	})
	return all
}

// Names returns the topics that a request names, also those that are none of the run's. A Fetch in a session (KIP-227)
// names only changes. A topic whose id no answer has revealed is "".
func (x *Exchange) Names() []string {
	request, err := x.Request()
	if err != nil {
		return nil
	}
	var all []string
	eachPartition(request, func(topic string, id [16]byte, _ int32) {
		if name := x.name(topic, id); !slices.Contains(all, name) {
			all = append(all, name)
		}
	})
	return all
}

// asksForAll reports whether a Metadata asks for every topic: version 0 with an empty list, later versions without a
// list.
func asksForAll(r *kmsg.MetadataRequest) bool {
	return r.Topics == nil || r.Version == 0 && len(r.Topics) == 0
}

// name returns the name of a topic that the request gives by name or by id.
func (x *Exchange) name(topic string, id [16]byte) string {
	if topic != "" || x.conn == nil {
		return topic
	}
	return x.conn.nameOf(id)
}

// eachPartition calls take for the partitions that the request names, with topics by name or by id.
func eachPartition(request kmsg.Request, take func(topic string, id [16]byte, number int32)) {
	switch r := request.(type) {
	case *kmsg.ProduceRequest:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				take(t.Topic, t.TopicID, p.Partition)
			}
		}
	case *kmsg.FetchRequest:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				take(t.Topic, t.TopicID, p.Partition)
			}
		}
	case *kmsg.ShareFetchRequest:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				take("", t.TopicID, p.Partition)
			}
		}
	case *kmsg.OffsetCommitRequest:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				take(t.Topic, t.TopicID, p.Partition)
			}
		}
	case *kmsg.TxnOffsetCommitRequest:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				take(t.Topic, t.TopicID, p.Partition)
			}
		}
	case *kmsg.MetadataRequest:
		for _, t := range r.Topics {
			name := ""
			if t.Topic != nil {
				name = *t.Topic
			}
			take(name, t.TopicID, history.None)
		}
	}
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
	// EffectLost says that the write was acknowledged and lost.
	EffectLost
	// EffectClosed says that the connection was closed: either instead of passing the request on, or because a request
	// or response on it had been lost and the fault is now healed.
	EffectClosed
	// EffectRequestDelayed says that the request was held before the broker saw it; the duration says for how long.
	EffectRequestDelayed
	// EffectRequestDropped says that the request was lost.
	EffectRequestDropped
	// EffectThrottled says that the answer asked the client to wait, or was held for that; the duration says how long.
	EffectThrottled
)

// Action sets what happens to a request. The zero Action passes it on. At most one of Code, Lose, DelayRequest, Delay,
// DropRequest, Drop, Close and Throttle is set.
type Action struct {
	// Code answers with this Kafka error code in the broker's place: Produce, Fetch, OffsetCommit and TxnOffsetCommit
	// for each partition, Metadata for each topic, other requests as a whole if their response has an error code for
	// the whole request. The broker does not see a refused Produce, OffsetCommit, TxnOffsetCommit or any other request
	// that could change state. It does see a Fetch and a Metadata, so that fetch sessions stay intact and the answer
	// can name brokers; the tap then alters the answer. A request with acks=0 is swallowed, because it gets no answer.
	// Requests that cannot be refused in their version pass.
	Code int16
	// Lose answers a Produce as if it was stored. The broker does not see it.
	Lose bool
	// Matches limits Code and Lose to some partitions of a Produce, Fetch, OffsetCommit or TxnOffsetCommit, or to some
	// topics of a Metadata. The others get the broker's answer. nil matches all.
	Matches func(Partition) bool
	// DelayRequest holds the request before the broker sees it, together with all later requests on the connection.
	DelayRequest time.Duration
	// Delay holds the response, together with all later responses on the connection, because Kafka answers in order.
	Delay time.Duration
	// DropRequest loses the request and everything after it on the connection, as on a dead line. Earlier requests are
	// answered. The connection stays open until the client closes it or the fault is healed; then it is closed. A
	// request with acks=0 is lost alone.
	DropRequest bool
	// Drop withholds the response, and all later responses on the connection, until the client closes it or the fault
	// is healed. Then the connection is closed.
	Drop bool
	// Close closes the connection instead of passing the request on, once all earlier requests are answered.
	Close bool
	// Throttle is written into the broker's answer as throttle_time_ms, in the versions in which clients wait that long
	// (KIP-219). In earlier versions the response is held, as brokers did then.
	Throttle time.Duration
	// Healed is closed when the fault is healed. Held requests and responses are then released, and silenced
	// connections are closed. It is required for actions that delay, drop or close.
	Healed <-chan struct{}
	// Effect, if set, is called with the effect of the action when it occurs. It must not block.
	Effect func(effect Effect, held time.Duration)
	// Done, if set, is called once when the tap holds nothing for the action any more, even if the action never took
	// effect.
	Done func()
}

func (a *Action) took(effect Effect, held time.Duration) {
	if a.Effect != nil {
		a.Effect(effect, held)
	}
}

// answered reports that the request was answered in the broker's place.
func (a *Action) answered() {
	if a.Lose {
		a.took(EffectLost, 0)
		return
	}
	a.took(EffectAnswered, 0)
}

func (a *Action) done() {
	if a.Done != nil {
		a.Done()
		a.Done = nil
	}
}

// intercept asks the interceptor and prepares its action. It returns the frame to forward, nil if there is none.
func (c *conn) intercept(p *pending, fr *frame, request kmsg.Request) []byte {
	x := &Exchange{
		Instance: c.instance.number, Run: c.process.run, Group: c.tap.Group, Broker: c.node, APIKey: p.key,
		Version: p.version, conn: c, frame: fr, header: p.header, request: request, readAt: p.readAt,
	}
	x.fetch, _ = p.seen.(*fetchSeen)
	x.produce, _ = p.seen.(*produceSeen)
	p.action = c.tap.Interceptor.Intercept(x)
	switch {
	case p.action.Code != 0, p.action.Lose:
		return c.refuse(p, fr, x)
	case p.action.Throttle > 0 && waitsIfTold(p.key, p.version):
		p.alter = throttle(p.action.Throttle)
	case p.action.Throttle > 0:
		p.action.Delay = p.action.Throttle
	}
	return fr.data
}

// refuse prepares the answer with an error code, or with none to a write that is lost.
func (c *conn) refuse(p *pending, fr *frame, x *Exchange) []byte {
	decoded, err := x.Request()
	if err != nil {
		return c.leave(p, fr)
	}
	code, matches := p.action.Code, func(topic string, id [16]byte, number int32) bool {
		return p.action.Matches == nil || p.action.Matches(Partition{x.name(topic, id), number})
	}
	switch r := decoded.(type) {
	case *kmsg.MetadataRequest:
		p.alter = refuseTopics(code, p.action.Matches, c.nameOf)
		return fr.data
	case *kmsg.FetchRequest:
		if x.fetch != nil && !endsSession(code) {
			p.alter = c.refuseFetch(code, p.action.Matches, x.fetch.asked)
			at := *r
			at.MaxWaitMillis, at.MinBytes = 0, 0 // a refusing broker does not wait for records
			return encodeRequest(fr, p.header, &at)
		}
	}
	forged, rest := forge(decoded, code, matches)
	if forged == nil {
		return c.leave(p, fr)
	}
	p.forged = forged
	if rest == nil {
		p.local = true
		return nil
	}
	return encodeRequest(fr, p.header, rest)
}

// leave passes on a request that cannot be refused.
func (c *conn) leave(p *pending, fr *frame) []byte {
	p.action.done()
	p.action = Action{}
	return fr.data
}

// observesForged is implemented by observations whose events say for each partition who answered.
type observesForged interface {
	observation
	// forge notes the partitions of a locally made answer.
	forge(c *conn, forged kmsg.Response)
}

// examine observes a decoded request and asks the interceptor. out is the frame to forward. answered is false for a
// request that gets no answer.
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
	return out, answered, nil
}

// observe notes a decoded request and returns the observation that waits for its response.
func (c *conn) observe(p *pending, request kmsg.Request) observation {
	switch r := request.(type) {
	case *kmsg.FetchRequest:
		return c.observeFetch(p.readAt, r)
	case *kmsg.OffsetCommitRequest:
		return c.observeCommit(p.readAt, r)
	case *kmsg.TxnOffsetCommitRequest:
		return c.observeTxnCommit(p.readAt, r)
	case *kmsg.EndTxnRequest:
		return c.observeEndTxn(p.readAt, r)
	case *kmsg.ShareFetchRequest:
		return c.observeShareFetch(p.readAt, r)
	case *kmsg.ShareAcknowledgeRequest:
		return c.observeShareAcknowledge(p.readAt, r)
	}
	seen := c.observeGroup(p.readAt, request)
	p.ofGroup = seen != nil && (c.tap.Group == "" || concerns(request, c.tap.Group))
	return seen
}

// decodeRequest decodes the request of a frame.
func decodeRequest(h header, fr *frame) (kmsg.Request, error) {
	payload := fr.payload()
	request := kmsg.RequestForKey(h.key)
	request.SetVersion(h.version)
	if h.key != keyProduce && len(payload) > maxDecoded {
		return nil, fmt.Errorf("a %s request has %d bytes; the limit for what must be decoded is %d", apiName(h.key),
			len(payload), maxDecoded)
	}
	if err := request.ReadFrom(payload[h.body:]); err != nil {
		return nil, fmt.Errorf("decoding a %s v%d request: %w", apiName(h.key), h.version, err)
	}
	return request, nil
}

// encodeRequest creates a frame with the original header and another body.
func encodeRequest(fr *frame, h header, request kmsg.Request) []byte {
	out := append([]byte{}, fr.data[:sizeLen+h.body]...)
	out = request.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-sizeLen))
	return out
}
