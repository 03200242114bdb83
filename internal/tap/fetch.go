package tap

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
)

// session names a fetch session (KIP-227): a broker remembers what a client asked for, and the client sends only what has changed.
// A session belongs to a broker, not to a connection.
type session struct {
	node int32
	id   int32
}

// maxSessions bounds what is remembered of one process; a client has one session per broker and consumer.
const maxSessions = 1000

// fetchSeen is a Fetch that waits for its records.
type fetchSeen struct {
	id, epoch int32
	offsets   map[partition]int64
	forgotten []partition
}

// observeFetch notes from where each partition is fetched, and whether the process has become ready by it.
func (c *conn) observeFetch(r *kmsg.FetchRequest) observation {
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
	c.process.fetches(seen.offsets)
	return seen
}

// fetches looks whether the process is ready now.
func (p *process) fetches(offsets map[partition]int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
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

// answered notes which records are handed to the client: the offsets are those of the record batches, but not below what was asked for.
func (s *fetchSeen) answered(c *conn, response kmsg.Response, at time.Duration, flags history.Flags) {
	r := response.(*kmsg.FetchResponse)
	if r.ErrorCode != 0 || flags.Has(history.Forged) {
		return
	}
	asked := c.process.session(c.node, s, r.SessionID)
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
			from, known := asked[partition{index, answer.Partition}]
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

// session brings what the process asked this broker for up to date and returns it. It is called when the response comes, as a session begins
// with its id. A map is never changed once it is stored, so the one returned can be read without a lock.
func (p *process) session(node int32, s *fetchSeen, answered int32) map[partition]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := session{node, s.id}
	if s.epoch <= 0 { // 0 begins a session, -1 does without; both end the one that was
		delete(p.sessions, old)
		if s.epoch == 0 && answered != 0 {
			if len(p.sessions) >= maxSessions {
				clear(p.sessions)
			}
			p.sessions[session{node, answered}] = s.offsets
		}
		return s.offsets
	}
	asked := map[partition]int64{}
	for at, from := range p.sessions[old] {
		asked[at] = from
	}
	for _, at := range s.forgotten {
		delete(asked, at)
	}
	for at, from := range s.offsets {
		asked[at] = from
	}
	p.sessions[old] = asked
	return asked
}
