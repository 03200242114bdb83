package embedded

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file follows the members of classic groups that wait for a rebalance: their JoinGroup or SyncGroup is parked,
// that is, read and not answered yet. Kafka lets such a member live, whatever becomes of its connection: it can't
// heartbeat while it waits (ClassicGroupMember.hasSatisfiedHeartbeat: isAwaitingJoin || isAwaitingSync), and its
// session begins anew with the answer (GroupMetadataManager.completeClassicGroupJoin and propagateAssignment call
// rescheduleClassicGroupMemberHeartbeat). So one that died meanwhile is expelled one session after the answer that it
// did not get. kfake differs, and then the others wait for the rebalance timeout, which is 5 minutes for librdkafka and
// the Java client:
//
//  1. It begins the session only if the member still has a connection to answer on. The sequence that shows it: a new
//     member sends JoinGroup, is killed, the last of the others joins; the dead one is in the new generation, maybe as
//     its leader, and nothing ever expels it. Mended in brokerConn.Read: kfake hears that a connection has ended, or
//     that its broker was stopped, when what is parked on it is answered.
//  2. It lets sessions run out while their members wait: a follower in SyncGroup for a slow leader, a member of the
//     last generation in JoinGroup. It removes them and never answers. Mended in keeper.go, which heartbeats for them;
//     for the dead ones too, as Kafka does not tell them apart, and because of 3.
//  3. It takes a member that is removed while in SyncGroup for one that waited in JoinGroup, and does not count one
//     that goes from SyncGroup to JoinGroup (removeMember and updateMemberAndRebalance of its groups.go: nJoining), so
//     that in the next rebalance one JoinGroup is always missing. The sequences: a consumer that waits in SyncGroup is
//     closed and sends LeaveGroup on another connection; its connection breaks and it joins again with what it owns by
//     now, or, if it is static, as a new process. Mended in brokerConn.awaitTurn: what such a member sends on another
//     connection is passed on when its SyncGroup is answered. That takes as long as the leader takes, or, if that died,
//     as its session; in Kafka, too, the next generation would have to wait for it.

// parked is a request of a member: a JoinGroup or SyncGroup that is not answered yet, or a LeaveGroup on its way in.
type parked struct {
	conn  *brokerConn
	key   kmsg.Key
	group string
	// member is empty in the first JoinGroup, instance for members that are not static.
	member, instance string
	// over is closed when the request is answered, or never will be.
	over chan struct{}
	// absent is how often in a row the keeper did not find the member in its group.
	absent int
}

// parkedBy returns what a request says of its members: one for a JoinGroup or SyncGroup, any number for a LeaveGroup.
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

// sameMember tells whether two requests on different connections come from, or are about, one member.
func (p *parked) sameMember(other *parked) bool {
	return p.conn != other.conn && p.group == other.group &&
		(p.member != "" && p.member == other.member || p.instance != "" && p.instance == other.instance)
}

// isOver tells whether it is answered, or never will be.
func (p *parked) isOver() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// parkedRequests are those of all brokers: a group's coordinator may move while its members wait.
type parkedRequests struct {
	mu  sync.Mutex
	all map[*parked]struct{}
	// joined are the members that JoinGroup was answered to, and that have a session since.
	joined map[memberOfGroup]struct{}
}

type memberOfGroup struct{ group, member string }

func newParkedRequests() *parkedRequests {
	return &parkedRequests{all: map[*parked]struct{}{}, joined: map[memberOfGroup]struct{}{}}
}

// add enters a JoinGroup or SyncGroup. An older one of the same kind and member is over: kfake, like Kafka, answers the
// newer only.
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

// end notes that a request is answered, or never will be. Ending it again does nothing.
func (r *parkedRequests) end(p *parked) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(p)
}

// enter notes that a member was answered by JoinGroup.
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

// before returns a SyncGroup that must be answered before this request of the same member is passed on; nil if there is
// none.
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

// groups returns all that are parked, by group.
func (r *parkedRequests) groups() map[string][]*parked {
	r.mu.Lock()
	defer r.mu.Unlock()
	groups := map[string][]*parked{}
	for p := range r.all {
		groups[p.group] = append(groups[p.group], p)
	}
	return groups
}
