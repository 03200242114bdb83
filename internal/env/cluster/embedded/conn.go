package embedded

import (
	"encoding/binary"
	"net"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// editor corrects statements about brokers in an answer. request is nil unless the answer cannot be understood
// without it.
type editor interface {
	edit(request kmsg.Request, response kmsg.Response)
}

// brokerConn is a connection as kfake sees it. It follows the incoming requests, and edits the answers that name
// brokers: Metadata, DescribeCluster, FindCoordinator, OffsetForLeaderEpoch and some versions of Fetch; and those that
// differ from Kafka's, such as ApiVersions in version 3 and OffsetFetch. Everything else passes unchanged.
// The connections of members that wait for a rebalance outlive the end of the client's side (see parked.go).
type brokerConn struct {
	net.Conn
	gate *gate

	// The request being read: its first bytes, or the whole request if it is kept.
	head   [12]byte // size, key, version, correlation id
	have   int
	skip   int
	body   []byte
	keep   bool
	broken bool

	// closed is closed when kfake has closed the connection, possibly later than the client.
	closed  chan struct{}
	onClose sync.Once
	// gone is closed when the connection to the client has been closed on our side.
	gone   chan struct{}
	onGone sync.Once

	mu      sync.Mutex
	pending []pendingAnswer
}

// pendingAnswer is a request whose answer is to be edited or waited for.
type pendingAnswer struct {
	key, version int16
	correlation  int32
	request      kmsg.Request
	parked       *parked // nil unless it is a JoinGroup or SyncGroup
}

func newBrokerConn(conn net.Conn, gate *gate) *brokerConn {
	return &brokerConn{Conn: conn, gate: gate, closed: make(chan struct{}), gone: make(chan struct{})}
}

// hangUp closes the connection to the client; first is false if it was closed before. kfake learns of the closing
// when no request of a waiting member is left on the connection.
func (c *brokerConn) hangUp() (first bool) {
	c.onGone.Do(func() {
		first = true
		close(c.gone)
		_ = c.Conn.Close()
	})
	return first
}

// unlinger makes hangUp reset the connection: unsent data is lost, and the client reads ECONNRESET.
func (c *brokerConn) unlinger() {
	if conn, ok := c.Conn.(interface{ SetLinger(seconds int) error }); ok {
		_ = conn.SetLinger(0) // fails on a closed connection, which cannot be reset any more
	}
}

// Close is called by kfake, more than once, when it does not use the connection any more.
func (c *brokerConn) Close() error {
	c.onClose.Do(func() {
		close(c.closed)
		c.hangUp()
		c.gate.forget(c)
		for p := c.unanswered(); p != nil; p = c.unanswered() {
			c.gate.parked.end(p)
		}
	})
	return nil
}

// Read fails if the client has closed the connection and no request of a waiting member is left, or if a request
// must not be passed on.
func (c *brokerConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && c.gate.hold(heldRequests, c.gone) && c.follow(p[:n]) {
		return n, nil
	}
	c.hangUp()
	for waiting := c.unanswered(); waiting != nil; waiting = c.unanswered() {
		<-waiting.over // also when kfake closes the connection
	}
	if err == nil {
		err = net.ErrClosed
	}
	return 0, err
}

// unanswered returns a JoinGroup or SyncGroup that is still parked, nil when there is none.
func (c *brokerConn) unanswered() *parked {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, answer := range c.pending {
		if answer.parked != nil && !answer.parked.isOver() {
			return answer.parked
		}
	}
	return nil
}

// follow notes the requests in a part of the stream. It returns false if the part must not be passed on.
func (c *brokerConn) follow(p []byte) bool {
	for len(p) > 0 && !c.broken {
		if c.skip > 0 {
			n := min(c.skip, len(p))
			if c.keep {
				c.body = append(c.body, p[:n]...)
			}
			p, c.skip = p[n:], c.skip-n
		} else {
			n := copy(c.head[c.have:], p)
			p, c.have = p[n:], c.have+n
			if c.have < len(c.head) {
				return true
			}
			size := int32(binary.BigEndian.Uint32(c.head[:]))
			c.skip, c.broken = int(size)-8, size < 8
			c.keep = kept(c.key())
		}
		if c.skip == 0 && !c.arrived() {
			return false
		}
	}
	return true
}

// kept reports whether a request must be read to understand its answer, or to know which member waits for the
// answer.
func kept(key int16) bool {
	switch kmsg.Key(key) {
	case kmsg.FindCoordinator, kmsg.OffsetForLeaderEpoch, kmsg.OffsetFetch, kmsg.JoinGroup, kmsg.SyncGroup,
		kmsg.LeaveGroup:
		return true
	}
	return false
}

func (c *brokerConn) key() int16 { return int16(binary.BigEndian.Uint16(c.head[4:])) }

// arrived notes the request that has been read completely. It returns false if the request must not be passed on.
func (c *brokerConn) arrived() bool {
	answer := pendingAnswer{
		key: c.key(), version: int16(binary.BigEndian.Uint16(c.head[6:])),
		correlation: int32(binary.BigEndian.Uint32(c.head[8:])),
	}
	if c.keep {
		// The answers do not repeat what was asked for: the key (up to version 3), the epoch, the partitions, the member.
		answer.request = decodeRequest(answer.key, answer.version, c.body)
		c.broken = answer.request == nil
	}
	c.have, c.body = 0, nil
	if c.broken {
		return true
	}
	switch kmsg.Key(answer.key) {
	case kmsg.Metadata, kmsg.DescribeCluster, kmsg.DescribeTopicPartitions, kmsg.FindCoordinator,
		kmsg.OffsetForLeaderEpoch, kmsg.CreateTopics, kmsg.OffsetFetch:
		c.expect(answer)
	case kmsg.Fetch:
		if namesLeaderTooEarly(answer.version) {
			c.expect(answer)
		}
	case kmsg.ApiVersions:
		if failsAtLevelZero(answer.version) {
			c.expect(answer)
		}
	case kmsg.JoinGroup, kmsg.SyncGroup:
		answer.parked = parkedBy(c, answer.request)[0]
		c.gate.parked.add(answer.parked)
		c.expect(answer)
		return c.awaitTurn(answer.parked)
	case kmsg.LeaveGroup:
		return !slices.ContainsFunc(parkedBy(c, answer.request), func(p *parked) bool { return !c.awaitTurn(p) })
	}
	return true
}

func (c *brokerConn) expect(answer pendingAnswer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = append(c.pending, answer)
}

// awaitTurn waits until kfake can take a request of a member that sent a SyncGroup on another connection (see
// parked.go). It returns false if the request must not be passed on any more: its client has sent a newer request on
// another connection, which must remain the newer one, or kfake has closed the connection.
func (c *brokerConn) awaitTurn(p *parked) bool {
	for before := c.gate.parked.before(p); before != nil && !p.isOver(); before = c.gate.parked.before(p) {
		select {
		case <-before.over:
		case <-p.over:
		}
	}
	select {
	case <-c.closed: // since p was added, so Close may have missed it
		c.gate.parked.end(p)
	default:
	}
	return !p.isOver()
}

// decodeRequest decodes the part after the correlation id. It returns nil if that fails; then kfake cannot decode it
// either.
func decodeRequest(key, version int16, body []byte) kmsg.Request {
	request := kmsg.RequestForKey(key)
	request.SetVersion(version)
	reader := kbin.Reader{Src: body}
	reader.NullableString() // the client id
	if request.IsFlexible() {
		kmsg.SkipTags(&reader)
	}
	if !reader.Ok() || request.ReadFrom(reader.Src) != nil {
		return nil
	}
	return request
}

// Write is called by kfake once per answer, with the whole frame.
func (c *brokerConn) Write(frame []byte) (int, error) {
	// on a closed connection the answer cannot be written anyway
	c.gate.hold(heldAnswers, c.gone)
	if len(frame) >= 8 {
		answer, found := c.take(int32(binary.BigEndian.Uint32(frame[4:])))
		switch {
		case found && answer.parked != nil:
			c.answered(answer, frame)
		case found:
			if _, err := c.Conn.Write(c.rewrite(answer, frame)); err != nil {
				return 0, err
			}
			return len(frame), nil
		}
	}
	return c.Conn.Write(frame)
}

// answered notes that a member's wait is over.
func (c *brokerConn) answered(answer pendingAnswer, frame []byte) {
	if response, ok := decodeResponse(answer, frame).(*kmsg.JoinGroupResponse); ok && response.ErrorCode == 0 {
		c.gate.parked.enter(answer.parked.group, response.MemberID)
	}
	c.gate.parked.end(answer.parked)
}

func (c *brokerConn) take(correlation int32) (pendingAnswer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, answer := range c.pending {
		if answer.correlation == correlation {
			c.pending = append(c.pending[:i], c.pending[i+1:]...)
			return answer, true
		}
	}
	return pendingAnswer{}, false
}

// rewrite returns the frame with its answer edited, or unchanged if it cannot be decoded.
func (c *brokerConn) rewrite(answer pendingAnswer, frame []byte) []byte {
	response := decodeResponse(answer, frame)
	if response == nil {
		return frame
	}
	c.gate.editor.edit(answer.request, response)
	edited := append(make([]byte, 0, len(frame)+64), frame[:bodyStart(response)]...)
	edited = response.AppendTo(edited)
	binary.BigEndian.PutUint32(edited, uint32(len(edited)-4))
	return edited
}

// decodeResponse decodes a frame. It returns nil if that fails.
func decodeResponse(answer pendingAnswer, frame []byte) kmsg.Response {
	response := kmsg.ResponseForKey(answer.key)
	response.SetVersion(answer.version)
	start := bodyStart(response)
	if len(frame) < start || response.ReadFrom(frame[start:]) != nil {
		return nil
	}
	return response
}

// bodyStart returns where the body of a response begins: after the size, the correlation id and the tags, if there
// are any. kfake's header contains no tags. The header of ApiVersions never has any (KIP-511).
func bodyStart(response kmsg.Response) int {
	if response.IsFlexible() && response.Key() != int16(kmsg.ApiVersions) {
		return 9
	}
	return 8
}
