package embedded

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// Members that must not be expelled have a session that outlasts every test, and so does every rebalance timeout:
// these tests wait only for the end of a mortal member's session. That session is longer than the shortest possible
// one, because these tests must survive a machine that stands still for a second.
const (
	immortal             = 4 * patience // kfake allows 5 minutes
	mortal               = 2 * minSessionTimeout
	testRebalanceTimeout = 10 * patience
)

// member is a member of the group "group", with its own connection.
type member struct {
	rawConn
	e          *Kafka
	session    time.Duration
	id         string
	instance   *string
	owns       string // its metadata
	generation int32
}

// dialMember connects to the group's coordinator.
func dialMember(t *testing.T, e *Kafka, session time.Duration) *member {
	t.Helper()
	return &member{rawConn: dialCoordinator(t, e), e: e, session: session}
}

// newMember connects to the group's coordinator and gets a member id.
func newMember(t *testing.T, e *Kafka, session time.Duration) *member {
	t.Helper()
	m := dialMember(t, e, session)
	response := m.request(t, m.join(), 9).(*kmsg.JoinGroupResponse)
	if m.id = response.MemberID; response.ErrorCode != kerr.MemberIDRequired.Code {
		t.Fatalf("joining without a member id: error code %d", response.ErrorCode)
	}
	return m
}

func dialCoordinator(t *testing.T, e *Kafka) rawConn {
	t.Helper()
	node := must.Get(e.CoordinatorFor("group"))(t)
	return dialRaw(t, e.Brokers()[node-1].Address)
}

// elsewhere returns the same member on another connection.
func (m *member) elsewhere(t *testing.T) *member {
	t.Helper()
	other := *m
	other.rawConn = dialCoordinator(t, m.e)
	return &other
}

func (m *member) join() *kmsg.JoinGroupRequest {
	request := kmsg.NewPtrJoinGroupRequest()
	request.Version, request.Group, request.MemberID, request.InstanceID = 9, "group", m.id, m.instance
	request.SessionTimeoutMillis, request.RebalanceTimeoutMillis = int32(m.session.Milliseconds()),
		int32(testRebalanceTimeout.Milliseconds())
	request.ProtocolType = "consumer"
	request.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte(m.owns)}}
	return request
}

// parkJoin sends a JoinGroup that is answered only after others join, and returns when it has arrived.
func (m *member) parkJoin(t *testing.T) {
	t.Helper()
	m.park(t, m.join(), 9)
}

// joins makes a member join, where only members that already wait for it are outstanding. It returns the members
// that a leader is told.
func (m *member) joins(t *testing.T) []string {
	t.Helper()
	m.send(t, m.join(), 9)
	return m.joined(t)
}

// joined waits for the answer to JoinGroup.
func (m *member) joined(t *testing.T) []string {
	t.Helper()
	response := m.receive(t, m.join()).(*kmsg.JoinGroupResponse)
	if response.ErrorCode != 0 {
		t.Fatalf("joining: %v", kerr.ErrorForCode(response.ErrorCode))
	}
	m.id, m.generation = response.MemberID, response.Generation
	var ids []string
	for _, listed := range response.Members {
		ids = append(ids, listed.MemberID)
	}
	slices.Sort(ids)
	return ids
}

// sync returns the request of a leader that assigns a part to each of the members, or of a follower if there are
// none.
func (m *member) sync(assigned ...*member) *kmsg.SyncGroupRequest {
	request := kmsg.NewPtrSyncGroupRequest()
	request.Version, request.Group, request.MemberID, request.InstanceID, request.Generation = 5, "group", m.id,
		m.instance, m.generation
	for _, a := range assigned {
		request.GroupAssignment = append(request.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{
			MemberID: a.id, MemberAssignment: []byte("part of " + a.id),
		})
	}
	return request
}

// parkSync sends the SyncGroup of a follower and returns when it has arrived.
func (m *member) parkSync(t *testing.T) {
	t.Helper()
	m.park(t, m.sync(), 5)
}

func (m *member) park(t *testing.T, request kmsg.Request, version int16) {
	t.Helper()
	m.send(t, request, version)
	wait.Until(t, "the request", func() bool {
		return slices.ContainsFunc(m.e.connections(), func(c *brokerConn) bool {
			return c.RemoteAddr().String() == m.LocalAddr().String() && c.unanswered() != nil
		})
	})
}

func (m *member) synced(t *testing.T) *kmsg.SyncGroupResponse {
	t.Helper()
	return m.receive(t, m.sync()).(*kmsg.SyncGroupResponse)
}

// heartbeat sends a heartbeat and returns the error in the answer.
func (m *member) heartbeat(t *testing.T) error {
	t.Helper()
	request := kmsg.NewPtrHeartbeatRequest()
	request.Group, request.MemberID, request.InstanceID, request.Generation = "group", m.id, m.instance, m.generation
	return kerr.ErrorForCode(m.request(t, request, 4).(*kmsg.HeartbeatResponse).ErrorCode)
}

// heartbeatUntil sends heartbeats until the answer is want; before that it must be before.
func (m *member) heartbeatUntil(t *testing.T, want, before error) {
	t.Helper()
	wait.Until(t, fmt.Sprintf("a heartbeat to be answered with %v", want), func() bool {
		err := m.heartbeat(t)
		if !errors.Is(err, want) && !errors.Is(err, before) {
			t.Fatalf("a heartbeat was answered with %v, want %v or %v", err, want, before)
		}
		return errors.Is(err, want)
	})
}

// heartbeatFor sends heartbeats for some time and expects the same answer every time.
func (m *member) heartbeatFor(t *testing.T, long time.Duration, want error) {
	t.Helper()
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(mortal / 40) {
		if err := m.heartbeat(t); !errors.Is(err, want) {
			t.Fatalf("a heartbeat was answered with %v, want %v", err, want)
		}
	}
}

// leave sends a LeaveGroup and waits for its answer.
func (m *member) leave(t *testing.T) {
	t.Helper()
	if response := m.request(t, m.leaving(), 5).(*kmsg.LeaveGroupResponse); response.ErrorCode != 0 ||
		response.Members[0].ErrorCode != 0 {
		t.Fatalf("leaving: %v", response)
	}
}

func (m *member) leaving() *kmsg.LeaveGroupRequest {
	request := kmsg.NewPtrLeaveGroupRequest()
	request.Version, request.Group, request.Members = 5, "group",
		[]kmsg.LeaveGroupRequestMember{{MemberID: m.id, InstanceID: m.instance}}
	return request
}

// die ends the connection and returns when the broker has noticed it.
func (m *member) die(t *testing.T) {
	t.Helper()
	before := len(m.e.live())
	_ = m.Close()
	wait.Until(t, "the end of a connection", func() bool { return len(m.e.live()) < before })
}

// connections returns the connections that kfake knows, including those whose clients have gone.
func (e *Kafka) connections() []*brokerConn {
	var all []*brokerConn
	for _, gate := range e.gates {
		gate.mu.Lock()
		for conn := range gate.conns {
			all = append(all, conn)
		}
		gate.mu.Unlock()
	}
	return all
}

// live returns the connections whose clients are not known to have gone.
func (e *Kafka) live() []*brokerConn {
	return slices.DeleteFunc(e.connections(), func(c *brokerConn) bool { return c.SetDeadline(time.Time{}) != nil })
}

// nothingHeld waits until kfake has learned of the end of every ended connection.
func nothingHeld(t *testing.T, e *Kafka) {
	t.Helper()
	wait.Until(t, "ended connections to be given up", func() bool { return len(e.live()) == len(e.connections()) })
}

// inGroup waits until the group has that number of members.
func inGroup(t *testing.T, e *Kafka, count int) {
	t.Helper()
	wait.Until(t, fmt.Sprintf("%d members", count), func() bool {
		info := e.kafka.GroupInfo("group")
		return info != nil && len(info.Members) == count
	})
}

// stable forms a group of one.
func stable(t *testing.T, e *Kafka, session time.Duration) *member {
	t.Helper()
	m := newMember(t, e, session)
	m.joins(t)
	if response := m.request(t, m.sync(m), 5).(*kmsg.SyncGroupResponse); response.ErrorCode != 0 {
		t.Fatalf("syncing: %v", kerr.ErrorForCode(response.ErrorCode))
	}
	return m
}

// completing forms a group of a leader and a mortal follower in which JoinGroup is answered to both and neither has
// sent SyncGroup.
func completing(t *testing.T, e *Kafka, session time.Duration, instance *string) (leader, follower *member) {
	t.Helper()
	leader = stable(t, e, session)
	if instance == nil {
		follower = newMember(t, e, mortal)
	} else {
		follower = dialMember(t, e, mortal)
		follower.instance = instance
	}
	follower.parkJoin(t)
	inGroup(t, e, 2)
	if members := leader.joins(t); len(members) != 2 {
		t.Fatalf("the leader is told of members %v", members)
	}
	follower.joined(t)
	return leader, follower
}

// These tests mostly wait for sessions to end, each in its own cluster, so they run in parallel.
func TestMembersThatWaitForARebalance(t *testing.T) {
	tests := map[string]func(*testing.T){
		"killed in JoinGroup, then leads":                       killedInJoinGroupThenLeads,
		"killed in JoinGroup with another":                      killedInJoinGroupWithAnother,
		"in SyncGroup for longer than its session":              longInSyncGroup,
		"in JoinGroup for longer than its session":              longInJoinGroup,
		"killed in SyncGroup, the leader goes on":               killedInSyncGroup,
		"killed in SyncGroup, the leader as well":               killedInSyncGroupWithTheLeader,
		"sends nonsense":                                        sendsNonsense,
		"removed by an administrator":                           removedInJoinGroup,
		"leaves from SyncGroup":                                 actsElsewhere(nil, false, leaves),
		"rejoins from SyncGroup, owning something else":         actsElsewhere(nil, true, rejoins),
		"rejoins from SyncGroup twice":                          actsElsewhere(nil, true, rejoinsTwice),
		"killed in SyncGroup and started anew, if it is static": actsElsewhere(kmsg.StringPtr("instance"), true, startsAnew),
	}
	for _, phase := range []string{"JoinGroup", "SyncGroup", "another connection's SyncGroup"} {
		tests["the broker stops, then all, in "+phase] = stopAndClose(phase, false)
		tests["killed, the broker stops, then all, in "+phase] = stopAndClose(phase, true)
	}
	var wg sync.WaitGroup
	for name, test := range tests {
		wg.Go(func() { t.Run(name, test) })
	}
	wg.Wait()
}

// A member that is killed in the join barrier is expelled when its session ends, not when the rebalance timeout
// does.
func killedInJoinGroupThenLeads(t *testing.T) {
	e := start(t, 1)
	first, killed := stable(t, e, immortal), newMember(t, e, mortal)
	killed.parkJoin(t)
	inGroup(t, e, 2)
	killed.die(t)
	first.leave(t)
	next := newMember(t, e, immortal)
	if members := next.joins(t); len(members) != 1 || members[0] != next.id {
		t.Errorf("the next member is told of members %v, want itself alone", members)
	}
	nothingHeld(t, e)
}

func killedInJoinGroupWithAnother(t *testing.T) {
	e := start(t, 1)
	first, killed, next := stable(t, e, immortal), newMember(t, e, mortal), newMember(t, e, immortal)
	killed.parkJoin(t)
	inGroup(t, e, 2)
	next.parkJoin(t)
	inGroup(t, e, 3)
	killed.die(t)
	first.leave(t)
	if members := next.joined(t); len(members) != 2 {
		t.Fatalf("the next member is told of members %v, want two", members)
	}
	next.outlives(t, killed)
	if members := next.joins(t); len(members) != 1 {
		t.Errorf("after the killed member was expelled the members are %v", members)
	}
	nothingHeld(t, e)
}

// outlives takes a member whose JoinGroup was answered to the point at which another member of that generation,
// possibly its leader, is expelled.
func (m *member) outlives(t *testing.T, other *member) {
	t.Helper()
	switch response := m.request(t, m.sync(m, other), 5).(*kmsg.SyncGroupResponse); response.ErrorCode {
	case 0:
		m.heartbeatUntil(t, kerr.RebalanceInProgress, nil)
	case kerr.RebalanceInProgress.Code: // the other one was the designated leader
	default:
		t.Fatalf("syncing: %v", kerr.ErrorForCode(response.ErrorCode))
	}
}

// A member that waits in SyncGroup cannot send heartbeats, but is alive.
func longInSyncGroup(t *testing.T) {
	e := start(t, 1)
	leader, follower := completing(t, e, immortal, nil)
	follower.parkSync(t)
	leader.heartbeatFor(t, 3*mortal/2, nil)
	leader.request(t, leader.sync(leader, follower), 5)
	if response := follower.synced(t); response.ErrorCode != 0 || string(response.MemberAssignment) != "part of "+
		follower.id {
		t.Errorf("the follower got %q, error code %d", response.MemberAssignment, response.ErrorCode)
	}
	if err := follower.heartbeat(t); err != nil {
		t.Errorf("the follower's first heartbeat was answered with %v", err)
	}
}

// The same holds for a member that waits in JoinGroup for one that sends heartbeats and does not join yet.
func longInJoinGroup(t *testing.T) {
	e := start(t, 1)
	leader, follower := completing(t, e, immortal, nil)
	follower.parkSync(t)
	leader.request(t, leader.sync(leader, follower), 5)
	follower.synced(t)
	follower.owns = "something else"
	follower.parkJoin(t)
	leader.heartbeatUntil(t, kerr.RebalanceInProgress, nil)
	leader.heartbeatFor(t, 3*mortal/2, kerr.RebalanceInProgress)
	if members := leader.joins(t); len(members) != 2 {
		t.Errorf("the leader is told of members %v, want two", members)
	}
	follower.joined(t)
}

// A member that is killed in SyncGroup is expelled one session after the answer that it does not receive, and the
// next rebalance does not wait for it.
func killedInSyncGroup(t *testing.T) {
	e := start(t, 1)
	leader, killed := completing(t, e, immortal, nil)
	killed.parkSync(t)
	killed.die(t)
	leader.heartbeatFor(t, 3*mortal/2, nil) // as in Kafka, which does not look at connections
	leader.request(t, leader.sync(leader, killed), 5)
	leader.heartbeatUntil(t, kerr.RebalanceInProgress, nil)
	if members := leader.joins(t); len(members) != 1 {
		t.Errorf("after the killed member was expelled the members are %v", members)
	}
	nothingHeld(t, e)
}

func killedInSyncGroupWithTheLeader(t *testing.T) {
	e := start(t, 1)
	leader, killed := completing(t, e, mortal, nil)
	killed.parkSync(t)
	killed.die(t)
	leader.die(t)
	next := newMember(t, e, immortal)
	if members := next.joins(t); len(members) != 1 || members[0] != next.id {
		t.Errorf("the next member is told of members %v, want itself alone", members)
	}
	nothingHeld(t, e)
}

// kfake never answers a member that another connection made leave. Its client's connection is closed, so that the
// client asks again.
func removedInJoinGroup(t *testing.T) {
	e := start(t, 1)
	leader, removed, killed := stable(t, e, immortal), newMember(t, e, mortal), newMember(t, e, mortal)
	removed.parkJoin(t)
	inGroup(t, e, 2)
	killed.parkJoin(t)
	inGroup(t, e, 3)
	killed.die(t)
	request := leader.leaving()
	request.Members = []kmsg.LeaveGroupRequestMember{{MemberID: removed.id}, {MemberID: killed.id}}
	leader.request(t, request, 5)
	leader.joins(t)
	if _, err := removed.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("reading the answer: %v, want the end of the connection", err)
	}
	nothingHeld(t, e)
}

// sendsNonsense makes kfake close the connection by sending a JoinGroup of an unknown version.
func sendsNonsense(t *testing.T) {
	e := start(t, 1)
	m := newMember(t, e, immortal)
	m.send(t, m.join(), 99)
	if _, err := m.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("reading the answer: %v, want the end of the connection", err)
	}
	wait.Until(t, "the connection to be given up", func() bool { return len(e.connections())+len(e.parked.groups()) == 0 })
}

// A member that is not in its group is given up, but not before kfake has had time to handle its request.
func TestAbsentMemberIsGivenUpInTheEnd(t *testing.T) {
	e := start(t, 1)
	unkept := &Kafka{kafka: e.kafka, gates: e.gates, parked: newParkedRequests()} // its keeper must not interfere
	near, far := net.Pipe()
	t.Cleanup(func() { _ = far.Close() })
	absent := parkedBy(newBrokerConn(near, e.gates[1]), &kmsg.JoinGroupRequest{Group: "group", MemberID: "absent"})[0]
	unkept.parked.add(absent)
	for times := range absentLimit {
		if absent.isOver() || near.SetDeadline(time.Time{}) != nil {
			t.Fatalf("given up after %d times, want %d", times, absentLimit)
		}
		must.Do(t, unkept.keepGroup("group", []*parked{absent}))
	}
	if !absent.isOver() || near.SetDeadline(time.Time{}) == nil {
		t.Error("it is not given up")
	}
}

// actsElsewhere tests that an action on another connection by a member in SyncGroup changes the group once the
// leader has synced, and that the next rebalance then waits for no absent member. act returns a function that waits
// for the final state and returns the members that remain besides the leader.
func actsElsewhere(instance *string, dies bool, act func(*testing.T, *member) func() []string) func(*testing.T) {
	return func(t *testing.T) {
		e := start(t, 1)
		leader, follower := completing(t, e, immortal, instance)
		follower.parkSync(t)
		if dies {
			follower.die(t)
		}
		result := act(t, follower)
		leader.heartbeatFor(t, mortal/10, nil)
		leader.request(t, leader.sync(leader, follower), 5)
		leader.heartbeatUntil(t, kerr.RebalanceInProgress, nil)
		members, want := leader.joins(t), append(result(), leader.id)
		slices.Sort(want)
		if !slices.Equal(members, want) {
			t.Errorf("the leader is told of members %v, want %v", members, want)
		}
		nothingHeld(t, e)
	}
}

func leaves(t *testing.T, m *member) func() []string {
	m = m.elsewhere(t)
	m.send(t, m.leaving(), 5)
	return func() []string { m.receive(t, m.leaving()); return nil }
}

func rejoins(t *testing.T, m *member) func() []string {
	m = m.elsewhere(t)
	m.owns = "something else"
	m.parkJoin(t)
	return func() []string { m.joined(t); return []string{m.id} }
}

// rejoinsTwice gives up the first of two requests: it must not reach kfake after the second.
func rejoinsTwice(t *testing.T, m *member) func() []string {
	first := m.elsewhere(t)
	first.parkJoin(t)
	result := rejoins(t, m.elsewhere(t))
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("reading the first answer: %v, want the end of the connection", err)
	}
	return result
}

func startsAnew(t *testing.T, m *member) func() []string {
	m.id = ""
	return rejoins(t, m)
}

// stopAndClose tests that stopping a broker and closing the cluster end connections at once, whether members wait on
// them or were killed.
func stopAndClose(phase string, killed bool) func(*testing.T) {
	return func(t *testing.T) {
		e := start(t, 2)
		waiting := waitIn(t, e, phase)
		if killed {
			_ = waiting.Close()
		}
		node, err := e.CoordinatorFor("group")
		if err == nil {
			_, err = e.StopBroker(testContext(t), node)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := waiting.Read(make([]byte, 1)); !killed && !errors.Is(err, io.EOF) {
			t.Errorf("reading from the stopped broker: %v, want the end of the connection", err)
		}
		// The group continues at the other broker. No earlier member comes there, so all of them are expelled.
		next := newMember(t, e, immortal)
		for members := next.joins(t); len(members) > 1; members = next.joins(t) {
			next.outlives(t, waiting)
		}
		nothingHeld(t, e)
		next.leave(t)
		waitIn(t, e, phase)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		wait.Until(t, "all connections to be given up",
			func() bool { return len(e.connections())+len(e.parked.groups()) == 0 })
	}
}

// waitIn brings a member to the point at which it waits for another one that does nothing. Both are mortal.
func waitIn(t *testing.T, e *Kafka, phase string) *member {
	t.Helper()
	if phase == "JoinGroup" {
		stable(t, e, mortal)
		var m *member
		for range 4 { // whether kfake begins the session of a member that it cannot answer is random
			m = newMember(t, e, mortal)
			m.parkJoin(t)
		}
		return m
	}
	_, m := completing(t, e, mortal, nil)
	m.parkSync(t)
	if phase != "SyncGroup" {
		m = m.elsewhere(t)
		m.owns = "something else"
		m.parkJoin(t)
	}
	return m
}

// Members that join with version 0 of JoinGroup, which has no rebalance timeout, are given the time of their session.
func TestVersionZeroWaitsForTheSession(t *testing.T) {
	t.Parallel()
	e := start(t, 1)
	join := func(m *member) *kmsg.JoinGroupRequest {
		request := m.join()
		request.RebalanceTimeoutMillis = kmsg.NewJoinGroupRequest().RebalanceTimeoutMillis
		request.SetVersion(0)
		return request
	}
	joined := func(m *member) int {
		response := m.receive(t, join(m)).(*kmsg.JoinGroupResponse)
		if response.ErrorCode != 0 {
			t.Fatalf("joining: %v", kerr.ErrorForCode(response.ErrorCode))
		}
		m.id, m.generation = response.MemberID, response.Generation
		return len(response.Members)
	}
	first, second := dialMember(t, e, immortal), dialMember(t, e, immortal)
	first.send(t, join(first), 0)
	joined(first)
	first.request(t, first.sync(first), 5)
	second.park(t, join(second), 0)
	first.heartbeatUntil(t, kerr.RebalanceInProgress, nil)
	first.send(t, join(first), 0)
	if told := joined(first) + joined(second); told != 2 || first.generation != second.generation {
		t.Errorf("the leader is told of %d members, the generations are %d and %d", told, first.generation,
			second.generation)
	}
}
