package embedded

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file follows the members of classic groups that wait for a rebalance. Their JoinGroup or SyncGroup is parked,
// that is, read and not answered yet. Kafka keeps such a member alive, whatever happens to its connection: it can't
// heartbeat while it waits (ClassicGroupMember.hasSatisfiedHeartbeat: isAwaitingJoin || isAwaitingSync), and its
// session begins anew with the answer (GroupMetadataManager.completeClassicGroupJoin and propagateAssignment call
// rescheduleClassicGroupMemberHeartbeat). So a member that died meanwhile is expelled one session after the answer that
// it did not get. kfake differs in three ways. With each, the other members wait for the rebalance timeout, which is
// 5 minutes for librdkafka and the Java client:
//
//  1. kfake begins the session only if the member still has a connection to answer on. This happens in the following
//     sequence: a new member sends JoinGroup and is killed, and the last of the others joins. The dead member is in the
//     new generation, possibly as its leader, and nothing ever expels it. The correction is in brokerConn.Read: kfake
//     learns that a connection has ended, or that its broker was stopped, when the requests parked on it are answered.
//  2. kfake lets sessions expire while their members wait: a follower in SyncGroup for a slow leader, or a member of
//     the last generation in JoinGroup. It removes them and never answers. The correction is in keeper.go, which sends
//     heartbeats for them. It does so for dead members too, because Kafka does not distinguish them, and because of 3.
//  3. kfake treats a member that is removed while in SyncGroup as one that waited in JoinGroup, and does not count a
//     member that goes from SyncGroup to JoinGroup (removeMember and updateMemberAndRebalance of its groups.go:
//     nJoining). So in the next rebalance one JoinGroup is always missing. This happens in two sequences. A consumer
//     that waits in SyncGroup is closed and sends LeaveGroup on another connection. Or its connection breaks, and it
//     joins again with the partitions that it owns by now or, if it is static, as a new process. The correction is in
//     brokerConn.awaitTurn: a request of such a member on another connection is passed on when its SyncGroup is
//     answered. That takes as long as the leader takes or, if the leader died, as long as the leader's session. In
//     Kafka, too, the next generation would have to wait for it.

// parked is a request of a member: a JoinGroup or SyncGroup that is not answered yet, or a LeaveGroup that is being
// received.
type parked struct {
	conn  *brokerConn
	key   kmsg.Key
	group string
	// member is empty in the first JoinGroup, instance for dynamic members.
	member, instance string
	// over is closed when the request is answered, or will never be.
	over chan struct{}
	// absent is the number of consecutive times that the keeper did not find the member in its group.
	absent int
}

// parkedBy returns an entry for each member in a request: one for a JoinGroup or SyncGroup, any number for a
// LeaveGroup.
func parkedBy(conn *brokerConn, request kmsg.Request) []*parked {
	one := func(group, member string, instance *string) *parked {
		p := &parked{conn: conn, key: kmsg.Key(request.Key()), group: group, member: member, over: make(chan struct{})}
		if instance != nil {
			p.instance = *instance
		}
		return p
	}
	switch request := request.(type) {
	case *kmsg.JoinGroupRequest:
		return []*parked{one(request.Group, request.MemberID, request.InstanceID)}
	case *kmsg.SyncGroupRequest:
		return []*parked{one(request.Group, request.MemberID, request.InstanceID)}
	case *kmsg.LeaveGroupRequest:
		leaving := []*parked{one(request.Group, request.MemberID, nil)} // up to version 2
		for _, m := range request.Members {
			leaving = append(leaving, one(request.Group, m.MemberID, m.InstanceID))
		}
		return leaving
	}
	return nil
}

// sameMember reports whether two requests on different connections come from, or concern, the same member.
func (p *parked) sameMember(other *parked) bool {
	return p.conn != other.conn && p.group == other.group &&
		(p.member != "" && p.member == other.member || p.instance != "" && p.instance == other.instance)
}

// isOver reports whether the request is answered, or will never be.
func (p *parked) isOver() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// parkedRequests are the parked requests at all brokers: a group's coordinator may move while its members wait.
type parkedRequests struct {
	mu  sync.Mutex
	all map[*parked]struct{}
	// joined are the members whose JoinGroup was answered, and that have had a session since.
	joined map[memberOfGroup]struct{}
}

type memberOfGroup struct{ group, member string }

func newParkedRequests() *parkedRequests {
	return &parkedRequests{all: map[*parked]struct{}{}, joined: map[memberOfGroup]struct{}{}}
}

// add adds a JoinGroup or SyncGroup. An older request of the same kind and member is then over: kfake, like Kafka,
// answers only the newer one.
func (r *parkedRequests) add(p *parked) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for other := range r.all {
		if other.key == p.key && other.sameMember(p) {
			r.remove(other)
		}
	}
	r.all[p] = struct{}{}
}

// end notes that a request is answered, or will never be. A second call does nothing.
func (r *parkedRequests) end(p *parked) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(p)
}

// enter notes that a member's JoinGroup was answered.
func (r *parkedRequests) enter(group, member string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.joined[memberOfGroup{group, member}] = struct{}{}
}

func (r *parkedRequests) hasSession(group, member string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, found := r.joined[memberOfGroup{group, member}]
	return found
}

func (r *parkedRequests) remove(p *parked) {
	if _, found := r.all[p]; found {
		delete(r.all, p)
		close(p.over)
	}
}

// before returns a SyncGroup that must be answered before this request of the same member is passed on; nil if there
// is none.
func (r *parkedRequests) before(p *parked) *parked {
	if p.key == kmsg.SyncGroup {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for other := range r.all {
		if other.key == kmsg.SyncGroup && other.sameMember(p) {
			return other
		}
	}
	return nil
}

// groups returns all parked requests, by group.
func (r *parkedRequests) groups() map[string][]*parked {
	r.mu.Lock()
	defer r.mu.Unlock()
	groups := map[string][]*parked{}
	for p := range r.all {
		groups[p.group] = append(groups[p.group], p)
	}
	return groups
}
