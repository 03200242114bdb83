package tap

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
)

// memberID names a member of a group; the broker or the client makes it unique.
type memberID struct{ group, id string }

// member is one consumer of a process and its last assigned partitions. A process may have several members.
type member struct {
	memberID
	// generation is the group's generation, or the member's epoch (KIP-848).
	generation int32
	// assignor is the protocol that the group chose, for classic groups.
	assignor string
	// joins counts JoinGroup requests, so that the answer to a SyncGroup that arrives after a rejoin changes nothing.
	joins int
	// static is its group.instance.id (KIP-345), "" for a dynamic member.
	static string
	// reads are the topics of each part of its topology, by the part's id, for Kafka Streams' own groups (KIP-1071).
	reads map[string][]string
	held  []partition
	// session is the member's session timeout. due is when the session ends unless the member is heard from before.
	// silent says that it was not.
	session, due time.Duration
	silent       bool
}

// Why a partition was given up or lost, in the words of history.KindRevoked.
const (
	whyRejoin    = "rejoin"
	whyRebalance = "rebalance"
	whyLeave     = "leave"
	whyFenced    = "fenced"
	// only of history.KindMembership:
	whySilent = "silent"
	whySeeks  = "seeks"
)

// provesLoss reports whether an error code tells a member that it has lost its partitions, regardless of who made
// the answer. A withheld answer tells the member nothing. ILLEGAL_GENERATION is not proof: the member may still be
// in the group and only its commit be late. A member that takes it for a loss joins again, and its JoinGroup says
// which partitions it keeps.
func provesLoss(code int16) bool {
	return code == kerr.UnknownMemberID.Code || code == kerr.FencedInstanceID.Code || code == kerr.FencedMemberEpoch.Code
}

// eager reports whether members give up all partitions before they rejoin under this assignor. Under other assignors
// (cooperative-sticky, Kafka Streams', a user's own) the subscription says which partitions a member keeps; for an
// eager one it says none.
func eager(assignor string) bool {
	return assignor == "range" || assignor == "roundrobin" || assignor == "sticky"
}

// observeGroup notes the partitions that a group request gives up, and returns the observation that waits for its
// answer.
func (c *conn) observeGroup(at time.Duration, request kmsg.Request) observation {
	switch r := request.(type) {
	case *kmsg.JoinGroupRequest:
		if r.ProtocolType == "consumer" {
			c.process.join(at, r)
			return &joinSeen{r}
		}
	case *kmsg.SyncGroupRequest:
		id := memberID{r.Group, r.MemberID}
		return &syncSeen{id, r.Generation, c.process.syncing(id, at)}
	case *kmsg.HeartbeatRequest:
		id := memberID{r.Group, r.MemberID}
		c.process.beat(id, at)
		return &beatSeen{id}
	case *kmsg.LeaveGroupRequest:
		c.process.leave(memberID{r.Group, r.MemberID}, at)
		for _, gone := range r.Members {
			c.process.leave(memberID{r.Group, gone.MemberID}, at)
		}
	case *kmsg.ConsumerGroupHeartbeatRequest:
		return c.process.epochBeat(at, memberID{r.Group, r.MemberID}, r.MemberEpoch, nil)
	case *kmsg.StreamsGroupHeartbeatRequest:
		return c.process.epochBeat(at, memberID{r.Group, r.MemberID}, r.MemberEpoch, r.Topology)
	case *kmsg.FindCoordinatorRequest: // from version 4 on it may ask for several; type 0 is a group's
		if keys := append(r.CoordinatorKeys, r.CoordinatorKey); r.CoordinatorType == 0 &&
			slices.ContainsFunc(keys, c.tap.observesGroup) {
			return searchSeen{}
		}
	case *kmsg.ShareGroupHeartbeatRequest:
		if c.tap.observesGroup(r.GroupID) {
			return c.process.epochBeat(at, memberID{r.GroupID, r.MemberID}, r.MemberEpoch, nil)
		}
	}
	return nil
}

// brokerSession is the session timeout of a group whose broker sets it (KIP-848, KIP-932, KIP-1071): the default of
// group.consumer.session.timeout.ms, group.share.session.timeout.ms and group.streams.session.timeout.ms.
const brokerSession = 45 * time.Second

// joining notes the session timeout that a member of the group asks for, if it differs from the previous one; mu is
// held.
func (p *process) joining(at time.Duration, group string, session time.Duration) {
	if session == p.asked[group] {
		return
	}
	p.asked[group] = session
	e := p.event(history.KindJoining, at)
	e.Aux = int64(session)
	p.tap.Sink.Record(e)
}

// join notes a JoinGroup. Partitions that the member does not claim to keep are given up.
func (p *process) join(at time.Duration, r *kmsg.JoinGroupRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tap.observesGroup(r.Group) {
		p.grouped = true
		p.joining(at, r.Group, time.Duration(r.SessionTimeoutMillis)*time.Millisecond)
	}
	m := p.members[memberID{r.Group, r.MemberID}]
	if m == nil {
		return
	}
	m.joins++
	p.heard(m, at)
	var keeps []partition
	if !eager(m.assignor) {
		keeps = p.tap.owned(r, m.assignor)
	}
	p.revoke(m, at, whyRejoin, func(held partition) bool { return !slices.Contains(keeps, held) })
}

// owned returns the partitions that the member keeps according to the subscription for the assignor.
func (t *Tap) owned(r *kmsg.JoinGroupRequest, assignor string) []partition {
	for _, protocol := range r.Protocols {
		if protocol.Name != assignor {
			continue
		}
		var metadata kmsg.ConsumerMemberMetadata
		if metadata.ReadFrom(protocol.Metadata) != nil {
			return nil
		}
		var all []partition
		for _, topic := range metadata.OwnedPartitions {
			for _, number := range topic.Partitions {
				all = append(all, partition{t.topics.named(topic.Topic), number})
			}
		}
		return all
	}
	return nil
}

// Subscribed returns the topics that the member subscribes to.
func Subscribed(r *kmsg.JoinGroupRequest) (topics []string) {
	for _, protocol := range r.Protocols {
		var metadata kmsg.ConsumerMemberMetadata
		if metadata.ReadFrom(protocol.Metadata) != nil {
			continue
		}
		for _, topic := range metadata.Topics {
			if !slices.Contains(topics, topic) {
				topics = append(topics, topic)
			}
		}
	}
	return topics
}

type joinSeen struct{ request *kmsg.JoinGroupRequest }

func (s *joinSeen) answered(c *conn, response kmsg.Response, at time.Duration, flags history.Flags) {
	r := response.(*kmsg.JoinGroupResponse)
	if flags.Has(history.Withheld) {
		return
	}
	if provesLoss(r.ErrorCode) {
		c.process.fence(memberID{s.request.Group, s.request.MemberID}, at)
	}
	if r.ErrorCode != 0 {
		c.process.joinsInVain(s.request.Group, at)
		return
	}
	p := c.process
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.admit(memberID{s.request.Group, r.MemberID}, at)
	if s.request.InstanceID != nil {
		p.replace(m, *s.request.InstanceID, at)
	}
	m.session = time.Duration(s.request.SessionTimeoutMillis) * time.Millisecond
	p.heard(m, at)
	m.generation = r.Generation
	if r.Protocol != nil {
		m.assignor = *r.Protocol
	}
}

type syncSeen struct {
	id         memberID
	generation int32
	joins      int
}

// syncing notes a SyncGroup. It returns how often the member has joined, -1 if it has not.
func (p *process) syncing(id memberID, at time.Duration) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.members[id]; m != nil {
		p.heard(m, at)
		return m.joins
	}
	return -1
}

func (s *syncSeen) answered(c *conn, response kmsg.Response, at time.Duration, flags history.Flags) {
	r := response.(*kmsg.SyncGroupResponse)
	if flags.Has(history.Withheld) {
		return
	}
	if provesLoss(r.ErrorCode) {
		c.process.fence(s.id, at)
	}
	if r.ErrorCode != 0 || s.joins < 0 {
		return
	}
	var assignment kmsg.ConsumerMemberAssignment
	if len(r.MemberAssignment) > 0 {
		if err := assignment.ReadFrom(r.MemberAssignment); err != nil {
			c.log.Error().Err(err).Str("group", s.id.group).Msg(
				"an assignment can't be decoded: what the instance was given is not recorded")
			return
		}
	}
	var given []partition
	for _, topic := range assignment.Topics {
		for _, number := range topic.Partitions {
			given = append(given, partition{c.tap.topics.named(topic.Topic), number})
		}
	}
	p := c.process
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.members[s.id]; m != nil && m.joins == s.joins {
		p.heard(m, at)
		m.generation = s.generation
		p.assign(m, at, given)
	}
}

type beatSeen struct{ id memberID }

func (s *beatSeen) answered(c *conn, response kmsg.Response, at time.Duration, flags history.Flags) {
	if !flags.Has(history.Withheld) && provesLoss(response.(*kmsg.HeartbeatResponse).ErrorCode) {
		c.process.fence(s.id, at)
	}
}

// epochBeat notes a ConsumerGroupHeartbeat (KIP-848), a ShareGroupHeartbeat (KIP-932) or a StreamsGroupHeartbeat
// (KIP-1071). Epoch -1 leaves. Epoch -2 leaves as a static member that will return. Epoch 0 joins, with the topology in
// a group of Kafka Streams, and the member's earlier partitions are gone.
func (p *process) epochBeat(
	at time.Duration, id memberID, epoch int32, topology *kmsg.StreamsGroupHeartbeatRequestTopology,
) observation {
	if epoch < 0 {
		p.leave(id, at)
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tap.observesGroup(id.group) {
		p.grouped = true
		if epoch == 0 {
			p.joining(at, id.group, brokerSession)
		}
	}
	seen := &epochBeatSeen{id: id, leaves: p.leaves[id]}
	if m := p.members[id]; m != nil {
		p.heard(m, at)
		if epoch == 0 {
			p.revoke(m, at, whyRejoin, func(partition) bool { return true })
		}
		seen.reads = m.reads
	}
	if topology != nil {
		seen.reads = topicsRead(topology)
	}
	return seen
}

// topicsRead returns the topics that each part of a topology reads, by the part's id.
func topicsRead(topology *kmsg.StreamsGroupHeartbeatRequestTopology) map[string][]string {
	read := map[string][]string{}
	for _, part := range topology.Subtopologies {
		read[part.SubtopologyID] = slices.Clone(part.SourceTopics)
		for _, internal := range part.RepartitionSourceTopics {
			read[part.SubtopologyID] = append(read[part.SubtopologyID], internal.Topic)
		}
	}
	return read
}

// epochBeatSeen waits for the answer to such a heartbeat. A client that closes abandons its outstanding heartbeat
// and announces that it leaves. If the answer to the heartbeat arrives after that (over another connection, or
// pipelined on the same one), no member receives it, so it assigns nothing.
type epochBeatSeen struct {
	id     memberID
	leaves int
	// reads is as in member.
	reads map[string][]string
}

// epochAnswer is the part of a heartbeat's answer about the member. Members of a share group share their partitions,
// so none is assigned to a single member.
type epochAnswer struct {
	code     int16
	memberID *string
	epoch    int32
	// given is the member's whole assignment, if assigned says that the answer contains one.
	given    []partition
	assigned bool
}

func (s *epochBeatSeen) read(c *conn, response kmsg.Response) epochAnswer {
	switch r := response.(type) {
	case *kmsg.ShareGroupHeartbeatResponse:
		return epochAnswer{code: r.ErrorCode, memberID: r.MemberID, epoch: r.MemberEpoch}
	case *kmsg.StreamsGroupHeartbeatResponse:
		return s.readTasks(c, r)
	}
	r := response.(*kmsg.ConsumerGroupHeartbeatResponse)
	a := epochAnswer{code: r.ErrorCode, memberID: r.MemberID, epoch: r.MemberEpoch, assigned: r.Assignment != nil}
	if a.code != 0 || !a.assigned {
		return a
	}
	for _, topic := range r.Assignment.Topics {
		index := c.topicOf("", topic.TopicID) // may ask the broker, so before taking the lock
		for _, number := range topic.Partitions {
			a.given = append(a.given, partition{index, number})
		}
	}
	return a
}

// readTasks reads the active tasks, each of which is one partition of every topic that its part of the topology reads.
// Standby and warm-up tasks only restore state.
func (s *epochBeatSeen) readTasks(c *conn, r *kmsg.StreamsGroupHeartbeatResponse) epochAnswer {
	a := epochAnswer{code: r.ErrorCode, memberID: &r.MemberID, epoch: r.MemberEpoch, assigned: r.ActiveTasks != nil}
	for _, task := range r.ActiveTasks {
		for _, topic := range s.reads[task.SubtopologyID] {
			for _, number := range task.Partitions {
				a.given = append(a.given, partition{c.tap.topics.named(topic), number})
			}
		}
	}
	return a
}

func (s *epochBeatSeen) answered(c *conn, response kmsg.Response, at time.Duration, flags history.Flags) {
	if flags.Has(history.Withheld) {
		return
	}
	a := s.read(c, response)
	switch {
	case provesLoss(a.code):
		c.process.fence(s.id, at)
		return
	case a.code != 0:
		c.process.joinsInVain(s.id.group, at)
		return
	}
	id := s.id
	if a.memberID != nil && *a.memberID != "" {
		id.id = *a.memberID
	}
	p := c.process
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leaves[s.id] != s.leaves {
		return
	}
	m := p.admit(id, at)
	m.session = brokerSession
	p.heard(m, at)
	m.generation, m.reads = a.epoch, s.reads
	if a.assigned {
		p.assign(m, at, a.given)
	}
}

// admit returns the member and creates it if it is not known; mu is held.
func (p *process) admit(id memberID, at time.Duration) *member {
	m := p.members[id]
	if m == nil {
		m = &member{memberID: id}
		p.members[id] = m
		p.noteMembership(m, at, "")
	}
	return m
}

// noteMembership notes the current number of members of the process after m has changed; mu is held.
func (p *process) noteMembership(m *member, at time.Duration, why string) {
	if p.tap.observesGroup(m.group) {
		p.recount(at, why)
	}
}

func (p *process) recount(at time.Duration, why string) {
	p.count, p.counted = 0, at
	for _, m := range p.members {
		if !m.silent && p.tap.observesGroup(m.group) {
			p.count++
		}
	}
	e := p.event(history.KindMembership, at)
	e.N, e.Text = p.count, why
	p.tap.Sink.Record(e)
}

// beat notes a Heartbeat.
func (p *process) beat(id memberID, at time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.members[id]; m != nil {
		p.heard(m, at)
	}
}

// heard notes a sign of life from the member. The group accepts it as valid for a session; mu is held.
func (p *process) heard(m *member, at time.Duration) {
	m.due = at + m.session
	if m.silent {
		m.silent = false
		p.noteMembership(m, at, "")
	}
}

// expire notes the members not heard from for longer than their sessions. The group has given them up, or will, and
// they may never ask again. Such a member still considers its partitions its own. While the process waits for an
// answer from its group, or looks for its coordinator in vain, members cannot show that they are alive, so sessions
// stand still. A process that is out of its group is then noted as seeking it.
func (p *process) expire(at time.Duration, waits bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if waits {
		p.sought = at
	}
	for _, m := range p.members {
		if !m.silent && at > max(m.due, p.sought+m.session) {
			m.silent = true
			p.noteMembership(m, at, whySilent)
		}
	}
	if p.counted > 0 && p.count == 0 && p.sought > p.counted {
		p.recount(p.sought, whySeeks)
	}
}

// seeks notes that the process looks for its group, or asks to join it, in vain.
func (p *process) seeks(at time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sought = max(p.sought, at)
}

// joinsInVain notes that the process asked in vain to join a group.
func (p *process) joinsInVain(group string, at time.Duration) {
	if p.tap.observesGroup(group) {
		p.seeks(at)
	}
}

// searchSeen waits for the answer to a FindCoordinator.
type searchSeen struct{}

func (searchSeen) answered(c *conn, response kmsg.Response, at time.Duration, flags history.Flags) {
	r := response.(*kmsg.FindCoordinatorResponse)
	vain := r.ErrorCode != 0
	for _, one := range r.Coordinators {
		vain = vain || one.ErrorCode != 0 && c.tap.observesGroup(one.Key)
	}
	if vain && !flags.Has(history.Withheld) {
		c.process.seeks(at)
	}
}

// replace notes that a static member takes the place of the previous member with its group.instance.id; mu is held.
// The previous member leaves without a request (KIP-345): its consumer was closed, or lost its connection and forgot
// its member id.
func (p *process) replace(m *member, static string, at time.Duration) {
	m.static = static
	for id, other := range p.members {
		if static != "" && other != m && other.group == m.group && other.static == static {
			p.revoke(other, at, whyFenced, func(partition) bool { return true })
			delete(p.members, id)
			p.noteMembership(other, at, whyFenced)
		}
	}
}

// holds reports whether a member of the process was assigned the partition, one of the run's group or one of another;
// mu is held.
func (p *process) holds(at partition) (ours, others bool) {
	for _, m := range p.members {
		if slices.Contains(m.held, at) {
			ours = ours || p.tap.observesGroup(m.group)
			others = others || !p.tap.observesGroup(m.group)
		}
	}
	return ours, others
}

// assign sets the member's whole assignment to given. It first revokes partitions that the member held and that are
// not in given; mu is held. If another member of the same process still seems to hold a partition, the group has
// expelled that member and the member does not know it yet.
func (p *process) assign(m *member, at time.Duration, given []partition) {
	given = slices.DeleteFunc(given, func(g partition) bool {
		return g.topic == history.None || !p.tap.readers.claims(m.group, g.topic)
	})
	if len(given) > 0 && !p.tap.observesGroup(m.group) {
		p.joining(at, m.group, m.session)
	}
	p.revoke(m, at, whyRebalance, func(held partition) bool { return !slices.Contains(given, held) })
	for _, other := range p.members {
		if other != m && other.group == m.group {
			p.revoke(other, at, whyFenced, func(held partition) bool { return slices.Contains(given, held) })
		}
	}
	for _, g := range given {
		if slices.Contains(m.held, g) {
			continue
		}
		m.held = append(m.held, g)
		p.note(history.KindAssigned, m, at, g, "")
	}
}

// revoke takes the matching partitions from the member; mu is held.
func (p *process) revoke(m *member, at time.Duration, why string, matches func(partition) bool) {
	kept := m.held[:0]
	for _, held := range m.held {
		if !matches(held) {
			kept = append(kept, held)
			continue
		}
		if p.tap.readers.has(m.group, held.topic) {
			p.note(history.KindRevoked, m, at, held, why)
		}
	}
	m.held = kept
}

func (p *process) note(kind history.Kind, m *member, at time.Duration, where partition, why string) {
	e := p.event(kind, at)
	e.Topic, e.Partition, e.N, e.Flags, e.Text = where.topic, where.number, m.generation, p.tap.flagsOf(m.group), why
	p.tap.Sink.Record(e)
}

// leave notes that the member leaves its group.
func (p *process) leave(id memberID, at time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaves[id]++
	p.drop(id, at, whyLeave)
}

// fence notes that the broker refused the member.
func (p *process) fence(id memberID, at time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(id, at, whyFenced)
}

// drop forgets the member; mu is held.
func (p *process) drop(id memberID, at time.Duration, why string) {
	if m := p.members[id]; m != nil {
		p.revoke(m, at, why, func(partition) bool { return true })
		delete(p.members, id)
		p.noteMembership(m, at, why)
	}
}
