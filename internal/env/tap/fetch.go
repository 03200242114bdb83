package tap

import (
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
)

// session names a fetch session (KIP-227): a broker remembers what a client asked for, and the client sends only what
// has changed. A session belongs to a broker, not to a connection.
type session struct {
	node int32
	id   int32
}

// fetchSession is what a session asks for. The map is never changed once it is stored, so it can be read without a
// lock.
type fetchSession struct {
	asked map[partition]int64
	by    *conn // the connection that spoke last in it
}

// maxSessions bounds what is remembered of one process; a client has one session per broker and consumer.
const maxSessions = 1000

// fetchSeen is a Fetch that waits for its records.
type fetchSeen struct {
	id, epoch int32
	// offsets and forgotten are what the request names, asked is all that it asks for with what the session knows.
	offsets   map[partition]int64
	forgotten []partition
	asked     map[partition]int64
}

// observeFetch notes from where each partition is fetched, which ones the process begins or ceases to ask for, and
// whether it has become ready by it.
func (c *conn) observeFetch(at time.Duration, r *kmsg.FetchRequest) observation {
	seen := &fetchSeen{id: r.SessionID, epoch: r.SessionEpoch, offsets: map[partition]int64{}}
	if r.Version < 7 {
		seen.epoch = -1
	}
	for i := range r.Topics {
		topic := &r.Topics[i]
		index := c.topicOf(topic.Topic, topic.TopicID)
		if index == history.None {
			continue
		}
		for j := range topic.Partitions {
			seen.offsets[partition{index, topic.Partitions[j].Partition}] = topic.Partitions[j].FetchOffset
		}
	}
	for i := range r.ForgottenTopics {
		topic := &r.ForgottenTopics[i]
		index := c.topicOf(topic.Topic, topic.TopicID)
		for _, number := range topic.Partitions {
			seen.forgotten = append(seen.forgotten, partition{index, number})
		}
	}
	c.process.fetches(c, at, seen)
	return seen
}

// fetches completes what is asked for with what the session knows, notes what has changed, and looks whether the
// process is ready now.
func (p *process) fetches(c *conn, at time.Duration, s *fetchSeen) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.sessions[session{c.node, s.id}]
	switch {
	case s.epoch <= 0: // 0 begins a session, -1 does without
		s.asked = s.offsets
		p.asksOnly(c, at, s)
	case known == nil: // forgotten here: what the request names is all that is known of it
		s.asked = s.offsets
		p.asksAlso(c, at, s)
	case known.by != c: // the session goes on on another connection
		s.asked, known.by = s.changed(known.asked), c
		p.asksOnly(c, at, s)
	default:
		s.asked = s.changed(known.asked)
		p.asksAlso(c, at, s)
	}
	p.becomesReady(s.offsets)
}

// changed is what a session asks for after the request.
func (s *fetchSeen) changed(before map[partition]int64) map[partition]int64 {
	if len(s.offsets) == 0 && len(s.forgotten) == 0 {
		return before
	}
	asked := make(map[partition]int64, len(before)+len(s.offsets))
	maps.Copy(asked, before)
	for _, at := range s.forgotten {
		delete(asked, at)
	}
	maps.Copy(asked, s.offsets)
	return asked
}

// asksOnly notes that the connection asks for what the request says and for nothing else; mu is held.
func (p *process) asksOnly(c *conn, at time.Duration, s *fetchSeen) {
	for where, by := range p.asking {
		if _, still := s.asked[where]; by == c && !still {
			p.ceases(at, where)
		}
	}
	for where := range s.asked {
		p.asks(c, at, where)
	}
}

// asksAlso notes what a request changes in its session; mu is held.
func (p *process) asksAlso(c *conn, at time.Duration, s *fetchSeen) {
	for _, where := range s.forgotten {
		if _, still := s.asked[where]; p.asking[where] == c && !still {
			p.ceases(at, where)
		}
	}
	for where := range s.offsets {
		p.asks(c, at, where)
	}
}

func (p *process) asks(c *conn, at time.Duration, where partition) {
	by := p.asking[where]
	if by == c {
		return
	}
	p.asking[where] = c
	if by == nil {
		p.noteFetching(at, where, 1)
	}
}

func (p *process) ceases(at time.Duration, where partition) {
	delete(p.asking, where)
	p.noteFetching(at, where, 0)
}

func (p *process) noteFetching(at time.Duration, where partition, n int32) {
	e := p.event(history.KindFetching, at)
	e.Topic, e.Partition, e.N = where.topic, where.number, n
	p.tap.Sink.Record(e)
}

// hungUp notes that a connection asks for nothing any more. When the tap itself is closed the run is over, and nothing
// is noted.
func (p *process) hungUp(c *conn) {
	if p.tap.isClosed() {
		return
	}
	at := p.tap.Clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for where, by := range p.asking {
		if by == c {
			p.ceases(at, where)
		}
	}
}

// becomesReady looks whether the process is ready now; mu is held.
func (p *process) becomesReady(offsets map[partition]int64) {
	if p.ready {
		return
	}
	for at := range offsets {
		role := p.tap.Topics[at.topic].Role
		if p.holds(at) || !p.grouped && (role == history.RoleInput || role == history.RoleRetry) {
			p.ready = true
			close(p.fetching)
			return
		}
	}
}

// answered notes which records are handed to the client: the offsets are those of the record batches, but not below
// what was asked for.
func (s *fetchSeen) answered(c *conn, response kmsg.Response, at time.Duration, flags history.Flags) {
	r := response.(*kmsg.FetchResponse)
	if r.ErrorCode != 0 || flags.Has(history.Forged) {
		return
	}
	c.process.keep(c, s, r.SessionID)
	if flags.Has(history.Withheld) {
		return // nothing is handed to the client
	}
	for i := range r.Topics {
		topic := &r.Topics[i]
		if len(topic.Partitions) == 0 {
			continue
		}
		index := c.topicOf(topic.Topic, topic.TopicID)
		if index == history.None {
			continue
		}
		for j := range topic.Partitions {
			answer := &topic.Partitions[j]
			from, known := s.asked[partition{index, answer.Partition}]
			if !known {
				from = history.None
			}
			first, last, found := offsets(answer.RecordBatches, from)
			if !found {
				continue
			}
			e := c.event(history.KindFetched, at)
			e.Topic, e.Partition, e.Offset, e.Aux = index, answer.Partition, first, last
			c.tap.Sink.Record(e)
		}
	}
}

// keep remembers what the session asks for. It is called when the response comes, as a session begins with its id, and
// a request that the broker refused changes none.
func (p *process) keep(c *conn, s *fetchSeen, answered int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := session{c.node, s.id}
	if s.epoch > 0 {
		if known := p.sessions[old]; known != nil {
			known.asked, known.by = s.asked, c
		}
		return
	}
	delete(p.sessions, old) // 0 begins a session, -1 does without; both end the one that was
	if s.epoch == 0 && answered != 0 {
		if len(p.sessions) >= maxSessions {
			clear(p.sessions)
		}
		p.sessions[session{c.node, answered}] = &fetchSession{s.asked, c}
	}
}
