package tap

import (
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
)

// session names a fetch session (KIP-227). The broker remembers what a client asked for, and the client sends only
// changes. A session belongs to a broker, not to a connection.
type session struct {
	node int32
	id   int32
}

// fetchSession is the set of partitions that a session asks for. The map is never changed once it is stored, so it
// can be read without a lock.
type fetchSession struct {
	asked map[partition]int64
	by    *conn // the connection that used the session last
}

// maxSessions is the maximum number of sessions remembered for one process. A client has one session per broker and
// consumer.
const maxSessions = 1000

// fetchSeen is a Fetch that waits for its records.
type fetchSeen struct {
	id, epoch int32
	// offsets and forgotten are the partitions that the request names. asked is everything it asks for, including what
	// the session knows.
	offsets   map[partition]int64
	forgotten []partition
	asked     map[partition]int64
}

// observeFetch notes the offset from which each partition is fetched, the partitions that the process begins or
// ceases to ask for, and whether the process has become ready.
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

// fetches completes the request with what the session knows, notes changes, and checks whether the process is ready
// now.
func (p *process) fetches(c *conn, at time.Duration, s *fetchSeen) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.sessions[session{c.node, s.id}]
	switch {
	case s.epoch <= 0: // 0 begins a session, -1 uses none
		s.asked = s.offsets
		p.asksOnly(c, at, s)
	case known == nil: // forgotten here: only what the request names is known
		s.asked = s.offsets
		p.asksAlso(c, at, s)
	case known.by != c: // the session continues on another connection
		s.asked, known.by = s.changed(known.asked), c
		p.asksOnly(c, at, s)
	default:
		s.asked = s.changed(known.asked)
		p.asksAlso(c, at, s)
	}
	p.becomesReady(s.offsets)
}

// changed returns the session's partitions after the request.
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

// asksOnly notes that the connection asks for the partitions of the request and for no others; mu is held.
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

// asksAlso notes the changes that a request makes to its session; mu is held.
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

// hungUp notes that a connection does not ask for anything any more. If the tap itself is closed, the run is over,
// and nothing is noted.
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

// becomesReady checks whether the process is ready now; mu is held.
func (p *process) becomesReady(offsets map[partition]int64) {
	if p.ready {
		return
	}
	for at := range offsets {
		role := p.tap.Topics[at.topic].Role
		ours, others := p.holds(at)
		if ours || !p.grouped && !others && (role == history.RoleInput || role == history.RoleRetry) {
			p.ready = true
			close(p.fetching)
			return
		}
	}
}

// answered notes the records that the client receives. The offsets are those of the record batches, but not below
// the requested offset.
func (s *fetchSeen) answered(c *conn, response kmsg.Response, at time.Duration, flags history.Flags) {
	r := response.(*kmsg.FetchResponse)
	if r.ErrorCode != 0 || flags.Has(history.Forged) {
		return
	}
	c.process.keep(c, s, r.SessionID)
	if flags.Has(history.Withheld) {
		return // the client receives nothing
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

// keep remembers the partitions that the session asks for. It is called when the response arrives, because the
// response gives a new session its id, and a refused request changes no session.
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
	delete(p.sessions, old) // 0 begins a session, -1 uses none; both end the previous one
	if s.epoch == 0 && answered != 0 {
		if len(p.sessions) >= maxSessions {
			clear(p.sessions)
		}
		p.sessions[session{c.node, answered}] = &fetchSession{s.asked, c}
	}
}
