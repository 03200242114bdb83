package tap

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
)

const (
	readBuffer = 64 << 10
	// dialLimit bounds connecting to a link. Links are local, so the limit is generous.
	dialLimit = 5 * time.Second
	// lingerLimit is how long the answers to a departed client are still read (and discarded), so that closing does not
	// reset a link that has not yet passed on the client's last requests.
	lingerLimit = 5 * time.Second
)

// conn is one connection of a client with its connection to the broker. Two goroutines serve it: one reads requests,
// one reads responses. Kafka answers in order, so the requests without an answer form a queue. Only the goroutine
// that put or left a request at the head of the queue writes to the client. That is the response side, except when a
// locally answered request arrives at an empty queue.
type conn struct {
	tap      *Tap
	instance *instance
	process  *process
	node     int32
	to       Upstream
	log      zerolog.Logger

	client, upstream net.Conn
	stop             chan struct{} // closed when the connection is torn down
	stopOnce         sync.Once
	gone             chan struct{} // closed when the client has closed its side
	helpers          sync.WaitGroup

	mu    sync.Mutex
	queue []*pending

	// Owned by the goroutine that reads requests:
	deaf    bool      // a request was lost, or the connection is to be closed: later ones are only noted
	backlog chan held // set once a request was held: from then on all go through it, in order
	passed  chan struct{}
	asked   bool // it has asked for the broker's versions
	other   bool // its client is known not to be librdkafka

	spoken bool // the broker has answered something; owned by the goroutine that reads responses

	// Owned by the head of the queue:
	silenced  bool          // a dropped response: nothing more is written
	heldUntil time.Duration // when the last delayed response was released

	rawTokens atomic.Bool // between SaslHandshake v0 and the first Kafka request after it
}

// pending is a request that waits for its answer.
type pending struct {
	header
	raw    bool // a SASL token without a Kafka header
	readAt time.Duration
	seen   observation
	// ofGroup says that the answer tells a member whether it is in its group, or which broker to ask about that.
	ofGroup bool
	// local says that the broker never sees the request; forged is then the whole answer. Otherwise forged, if set, is
	// the part of the answer for the partitions that were taken out of the request.
	local  bool
	forged kmsg.Response
	// alter, if set, changes the broker's answer as the action demands. It returns false if there was nothing to
	// change.
	alter   func(kmsg.Response) bool
	altered bool
	// turn is for a request that is lost, or at which the connection is closed. It is closed when all earlier requests
	// are answered.
	turn   chan struct{}
	action Action
}

// observation completes the events of a request with its response.
type observation interface {
	// answered notes the response right before it is written to the client (or withheld from it).
	answered(c *conn, response kmsg.Response, at time.Duration, flags history.Flags)
}

func newConn(t *Tap, upstream Upstream, in *instance, client net.Conn) *conn {
	return &conn{
		tap: t, instance: in, node: upstream.NodeID, to: upstream, client: client,
		stop: make(chan struct{}), gone: make(chan struct{}),
		log: t.Log.With().Int("instance", in.number).Int32("broker", upstream.NodeID).Logger(),
	}
}

// serve runs the connection to its end.
func (c *conn) serve() {
	defer c.tap.forget(c)
	defer c.close()
	if err := c.connect(); err != nil {
		c.log.Debug().Err(err).Msg("the link to the broker refused a connection")
		c.reset()
		c.process.seeks(c.tap.Clock.Now())
		return
	}
	var pumps sync.WaitGroup
	pumps.Go(c.pumpRequests)
	pumps.Go(c.pumpResponses)
	pumps.Wait()
	c.close()
	c.helpers.Wait()
	for _, p := range c.queue {
		p.action.done()
	}
	c.forgetHeld()
	c.process.hungUp(c)
	if !c.spoken {
		c.process.seeks(c.tap.Clock.Now())
	}
}

// connect opens the connection to the broker.
func (c *conn) connect() error {
	ctx, cancel := context.WithTimeout(context.Background(), dialLimit)
	defer cancel()
	link, err := c.to.Dial(ctx)
	if err != nil {
		return err
	}
	if c.to.TLS == nil {
		return c.use(link)
	}
	secured := tls.Client(link, c.to.TLS)
	if err := c.use(secured); err != nil {
		return err
	}
	err = secured.HandshakeContext(ctx) // close breaks it off, as it knows the connection already
	if wrong := (*tls.CertificateVerificationError)(nil); errors.As(err, &wrong) {
		c.log.Error().Err(err).Msg("the broker's certificate is not accepted, so no connection of the subject gets through")
	}
	return err
}

// use sets the connection to the broker.
func (c *conn) use(upstream net.Conn) error {
	c.mu.Lock()
	c.upstream = upstream
	c.mu.Unlock()
	select {
	case <-c.stop: // closed while dialling: close did not see the upstream connection
		_ = upstream.Close()
		return net.ErrClosed
	default:
		return nil
	}
}

// close ends the connection at once.
func (c *conn) close() {
	c.stopOnce.Do(func() {
		close(c.stop)
		c.mu.Lock()
		defer c.mu.Unlock()
		_ = c.client.Close()
		if c.upstream != nil {
			_ = c.upstream.Close()
		}
	})
}

// awaitsGroup reports whether a request to the process's group is unanswered.
func (c *conn) awaitsGroup() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.queue, func(p *pending) bool { return p.ofGroup })
}

// reset ends the connection so that the client sees a reset, as if from the broker.
func (c *conn) reset() {
	if tcp, ok := c.client.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.close()
}

// pumpRequests reads requests until the client closes the connection or sends something that cannot be passed on.
func (c *conn) pumpRequests() {
	from := bufio.NewReaderSize(c.client, readBuffer)
	for {
		fr, err := c.tap.frames.read(from)
		if err != nil && isEnd(err) {
			close(c.gone)
			c.passRest()
			c.linger()
			return
		}
		if err == nil {
			err = c.request(fr)
			c.tap.frames.put(fr)
		}
		if err != nil {
			c.complain(err, "a connection of the subject was closed")
			c.close()
			return
		}
	}
}

// linger tells the broker that no more requests come, and lets the response side continue to read and discard for a
// while.
func (c *conn) linger() {
	_ = c.upstream.SetReadDeadline(time.Now().Add(lingerLimit))
	if half, ok := c.upstream.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		c.close()
	}
}

// request observes one request and passes it on, or answers it.
func (c *conn) request(fr *frame) error {
	at := c.tap.Clock.Now()
	p, err := c.parse(fr.payload(), at)
	if err != nil {
		return err
	}
	p.readAt = at
	if p.key == keyAPIVersions && !c.asked {
		c.asked, c.other = true, notLibrdkafka(p.header, fr.payload())
	}
	out := fr.data
	answered := true // acks=0 is the only request without an answer
	if p.known && !authenticates(p.key) && (decodesRequest(p.key) || c.tap.Interceptor != nil) {
		if out, answered, err = c.examine(p, fr); err != nil {
			return err
		}
	}
	if lost, err := c.lose(p, answered); lost {
		return err
	}
	delay := p.takeDelay()
	if !answered {
		c.unanswered(p)
	} else if err := c.enqueue(p); err != nil {
		return err
	}
	if p.local {
		return nil
	}
	return c.pass(p, out, delay)
}

// unanswered settles the action on a request that gets no response to hold, drop or change.
func (c *conn) unanswered(p *pending) {
	if p.forged != nil {
		p.action.answered()
	}
	p.action.done()
}

// parse makes the pending entry of a request.
func (c *conn) parse(payload []byte, at time.Duration) (*pending, error) {
	if c.rawTokens.Load() {
		h, err := c.tap.apis.parseHeader(payload)
		if err != nil || !h.known {
			return &pending{raw: true}, nil //nolint:nilerr // without a Kafka header it is a token
		}
		c.rawTokens.Store(false)
		return &pending{header: h}, nil
	}
	h, err := c.tap.apis.parseHeader(payload)
	if err != nil {
		return nil, err
	}
	if h.known || h.key == keyAPIVersions {
		return &pending{header: h}, nil
	}
	c.refuseUnreadable(h, at)
	return nil, errUnreadable
}

// errUnreadable ends a connection on which the client sent a request that the tap does not read. The request has
// been reported already.
var errUnreadable = errors.New("the tap does not read the request")

// refuseUnreadable notes a request and refuses it by closing its connection, as a broker does with unknown requests.
// Passed on unread, the request would leave the history incomplete, and its answer might name brokers that bypass
// the tap. A client that heeds ApiVersions sends no such request.
func (c *conn) refuseUnreadable(h header, at time.Duration) {
	if !c.process.firstUnreadable(h.key, h.version) {
		return
	}
	e := c.event(history.KindUnreadable, at)
	e.Code, e.N, e.Aux, e.Text = h.key, int32(h.version), int64(c.tap.apis.maxVersion(h.key)), apiName(h.key)
	c.tap.Sink.Record(e)
	c.log.Error().Str("api", apiName(h.key)).Int16("version", h.version).Int16("newest_read",
		c.tap.apis.maxVersion(h.key)).
		Msg("a request of the subject was refused by closing its connection: dlqbench does not read this API, or not in " +
			"this version, and did not offer it; have the client ask for versions (ApiVersions), or use a newer dlqbench")
}

// clamp reduces the broker's offer to the APIs and versions that the tap reads, and reports once what it leaves out.
func (c *conn) clamp(versions *kmsg.ApiVersionsResponse) {
	taken := c.tap.apis.clamp(versions)
	if len(taken) > 0 {
		c.tap.clamped.Do(func() {
			c.log.Info().Strs("not_offered",
				taken).Msg("the brokers know more than dlqbench reads: the subject is not offered it")
		})
	}
}

// enqueue puts the request into the queue. It answers a local request at once if the queue is empty.
func (c *conn) enqueue(p *pending) error {
	if p.key == keyAPIVersions && !p.known {
		p.version, p.local, p.forged = 0, true, c.tap.apis.unsupported()
	}
	c.mu.Lock()
	c.queue = append(c.queue, p)
	first := len(c.queue) == 1
	c.mu.Unlock()
	if !p.local || !first {
		return nil
	}
	if on, err := c.atHead(p); !on || err != nil {
		return err
	}
	return c.advance()
}

// atHead answers a local request once everything before it is answered. on is false for a request that gets no
// answer; nothing follows such a request.
func (c *conn) atHead(p *pending) (on bool, err error) {
	if p.turn != nil {
		close(p.turn)
		return false, nil
	}
	return true, c.answerLocally(p)
}

// advance takes the answered head off the queue and answers the local requests that come to the head.
func (c *conn) advance() error {
	for {
		var next *pending
		c.mu.Lock()
		c.queue[0] = nil
		if c.queue = c.queue[1:]; len(c.queue) > 0 && c.queue[0].local {
			next = c.queue[0]
		}
		c.mu.Unlock()
		if next == nil {
			return nil
		}
		if on, err := c.atHead(next); !on || err != nil {
			return err
		}
	}
}

func (c *conn) answerLocally(p *pending) error {
	out := encodeResponse(p.header, p.forged)
	p.action.answered()
	defer p.action.done()
	return c.deliver(p, p.forged, out, history.Forged)
}

// pumpResponses reads responses until the broker closes the connection.
func (c *conn) pumpResponses() {
	from := bufio.NewReaderSize(c.upstream, readBuffer)
	for {
		fr, err := c.tap.frames.read(from)
		if err == nil {
			err = c.response(fr)
			c.tap.frames.put(fr)
		}
		if err == nil {
			continue
		}
		c.complain(err, "a connection to the broker was closed")
		if errors.Is(err, syscall.ECONNRESET) {
			c.reset()
		}
		c.close()
		return
	}
}

// response passes one response on: decode and rewrite, hold, stamp, write.
func (c *conn) response(fr *frame) error {
	c.spoken = true
	c.mu.Lock()
	var p *pending
	if len(c.queue) > 0 {
		p = c.queue[0]
	}
	c.mu.Unlock()
	if p == nil {
		return errors.New("the broker sent a response that nothing asked for")
	}
	response, out, err := c.prepare(p, fr)
	if err != nil {
		return err
	}
	if !c.hold(p) {
		return net.ErrClosed
	}
	switch {
	case p.altered && p.action.Throttle > 0:
		p.action.took(EffectThrottled, p.action.Throttle)
	case p.altered, p.forged != nil:
		p.action.answered()
	}
	if p.action.Drop {
		c.silence(p)
	}
	if err := c.deliver(p, response, out, 0); err != nil {
		return err
	}
	if !p.action.Drop {
		p.action.done()
	}
	return c.advance()
}

// prepare decodes a response as far as needed; response is nil if it was not decoded. out is the frame to write.
func (c *conn) prepare(p *pending, fr *frame) (response kmsg.Response, out []byte, err error) {
	if p.raw {
		return nil, fr.data, nil
	}
	payload := fr.payload()
	if len(payload) < 4 || int32(binary.BigEndian.Uint32(payload)) != p.correlation {
		return nil, nil, fmt.Errorf("the broker's answer to a %s has the wrong correlation id", apiName(p.key))
	}
	if !p.known || !decodesResponse(p.key) && p.forged == nil && p.alter == nil {
		return nil, fr.data, nil
	}
	body, err := p.responseHeader(payload)
	if err != nil {
		return nil, nil, err
	}
	response = kmsg.ResponseForKey(p.key)
	response.SetVersion(answerVersion(p.header, payload[body:]))
	if err := readUnsafe(response, payload[body:]); err != nil {
		return nil, nil, fmt.Errorf("decoding the response to a %s v%d: %w", apiName(p.key), p.version, err)
	}
	changed := c.rewriteAddresses(response)
	c.tap.topics.learnTopics(response)
	if versions, ok := response.(*kmsg.ApiVersionsResponse); ok {
		c.clamp(versions)
		changed = true
	}
	if p.forged != nil {
		merge(response, p.forged)
		changed = true
	}
	if p.alter != nil && p.alter(response) {
		p.altered, changed = true, true
	}
	if changed {
		return response, encodeResponse(p.header, response), nil
	}
	return response, fr.data, nil
}

// answerVersion returns the version of a response's body. It is the request's version, except that a broker answers
// a too new ApiVersions in version 0.
func answerVersion(h header, body []byte) int16 {
	if h.key == keyAPIVersions && len(body) >= 2 && int16(binary.BigEndian.Uint16(body)) == kerr.UnsupportedVersion.Code {
		return 0
	}
	return h.version
}

// readUnsafe decodes without copying strings, because a response is processed completely before its buffer is
// reused. Metadata is the exception: its names are kept.
func readUnsafe(response kmsg.Response, body []byte) error {
	switch response.Key() {
	case keyProduce, keyFetch, keyOffsetCommit, keyTxnOffsetCommit:
		return response.(kmsg.UnsafeReadFrom).UnsafeReadFrom(body)
	}
	return response.ReadFrom(body)
}

// encodeResponse encodes the whole frame of a response.
func encodeResponse(h header, response kmsg.Response) []byte {
	out := binary.BigEndian.AppendUint32(make([]byte, sizeLen, 256), uint32(h.correlation))
	if h.flexible && h.key != keyAPIVersions {
		out = append(out, 0)
	}
	out = response.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-sizeLen))
	return out
}

// hold delays a response. It returns false if the connection ended meanwhile. Kafka answers in order, so all later
// responses wait as well.
func (c *conn) hold(p *pending) bool {
	if p.action.Delay <= 0 {
		return true
	}
	defer p.action.done()
	arrived := c.tap.Clock.Now()
	ended := false
	select {
	case <-time.After(holdFor(p.action.Delay, p.readAt, arrived, c.heldUntil)):
	case <-p.action.Healed:
	case <-c.gone:
	case <-c.stop:
		ended = true
	}
	c.heldUntil = c.tap.Clock.Now()
	effect := EffectDelayed
	if p.action.Throttle > 0 {
		effect = EffectThrottled
	}
	p.action.took(effect, c.heldUntil-arrived)
	return !ended
}

// holdFor returns how long a response is held. Normally the delay counts from the response's arrival. If the request
// came before the previous response was released (heldUntil), the response may have arrived long before it was read,
// so the delay counts from the request. Pipelined requests are thus each delayed once, not by the sum of the delays.
func holdFor(delay, request, arrived, heldUntil time.Duration) time.Duration {
	if heldUntil > request {
		return max(0, request+delay-arrived)
	}
	return delay
}

// silence begins to withhold. Nothing more is written on this connection, which is closed once the fault is healed.
// A client that is answered out of order closes the connection, so no response behind a lost one could be delivered
// anyway.
func (c *conn) silence(p *pending) {
	p.action.took(EffectDropped, 0)
	if c.silenced {
		p.action.done()
		return
	}
	c.silenced = true
	action := p.action
	p.action.Done = nil
	c.helpers.Go(func() {
		defer action.done()
		select {
		case <-action.Healed:
			action.took(EffectClosed, 0)
			c.close()
		case <-c.stop:
		}
	})
}

// deliver stamps the response and writes it. A response that a departed client does not receive is not an answer:
// its request stays unanswered.
func (c *conn) deliver(p *pending, response kmsg.Response, out []byte, flags history.Flags) error {
	select {
	case <-c.gone:
		return nil
	default:
	}
	if c.silenced {
		flags |= history.Withheld
	}
	if p.seen != nil && response != nil {
		p.seen.answered(c, response, c.tap.Clock.Now(), flags)
	}
	if handshake, ok := response.(*kmsg.SASLHandshakeResponse); ok && p.version == 0 && handshake.ErrorCode == 0 {
		c.rawTokens.Store(true)
	}
	if c.silenced {
		return nil
	}
	if _, err := c.client.Write(out); err != nil {
		return fmt.Errorf("writing to the subject: %w", err)
	}
	return nil
}

// event returns an event of this connection's process.
func (c *conn) event(kind history.Kind, at time.Duration) history.Event {
	return c.process.event(kind, at)
}

// complain logs what ended the connection, unless it ended in an ordinary way.
func (c *conn) complain(err error, what string) {
	select {
	case <-c.stop:
		return
	default:
	}
	var timeout net.Error
	if isEnd(err) || errors.Is(err, errUnreadable) || errors.As(err, &timeout) && timeout.Timeout() {
		c.log.Debug().Err(err).Msg(what)
		return
	}
	c.log.Error().Err(err).Msg(what)
}

// isEnd reports whether an error only says that a peer closed the connection.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
