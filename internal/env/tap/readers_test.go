package tap

import (
	"maps"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
)

// of makes a member of the group join and get the partitions.
func (k *talk) of(group, id string, given ...partition) string {
	k.t.Helper()
	join := joinRequest(id, "range")
	join.Group = group
	answer := join.ResponseKind().(*kmsg.JoinGroupResponse)
	answer.Generation, answer.MemberID, answer.Protocol = 1, id, &join.Protocols[0].Name
	k.ask(join, answer)
	sync := syncRequest(id, 1)
	sync.Group = group
	assignment := kmsg.NewConsumerMemberAssignment()
	for _, one := range given {
		topic := kmsg.NewConsumerMemberAssignmentTopic()
		topic.Topic, topic.Partitions = k.Topics[one.topic].Name, []int32{one.number}
		assignment.Topics = append(assignment.Topics, topic)
	}
	assigned := syncAnswer(0)
	assigned.MemberAssignment = assignment.AppendTo(nil)
	k.subject.request(1000, sync)
	k.kafka.receive()
	k.kafka.respond(1000, assigned)
	k.subject.receive()
	return k.news()
}

// commits makes the member commit the first partition of the topic, and returns how many commits that recorded.
func (k *talk) commits(group, id, topic string) int {
	k.t.Helper()
	before := len(k.log.of(history.KindCommitRequest, history.KindCommitResponse))
	request := commit(7, 5)
	request.Group, request.MemberID, request.Topics[0].Topic = group, id, topic
	k.ask(request, committedAnswer(request, 0))
	return (len(k.log.of(history.KindCommitRequest, history.KindCommitResponse)) - before) / 2
}

func TestAnotherGroupCountsOnTheRetryTopicsThatItReads(t *testing.T) {
	k := newTalk(t)
	k.expect("the run's group", k.of("g", "m", partition{input, 0}), "+0.0@1")
	k.expect("the retries' group, which also reads the input and the dead letters",
		k.of("g-retry", "r", partition{input, 0}, partition{retry, 0}, partition{dlq, 0}), "+1.0@1")
	k.expect("a third group", k.of("audit", "a", partition{retry, 0}), "")
	for group, of := range map[string]struct {
		id    string
		count map[string]int
	}{
		"g":       {"m", map[string]int{"t.input": 1, "t.dlq": 1}},
		"g-retry": {"r", map[string]int{"t.input": 0, "t.retry": 1, "t.dlq": 0}},
		"audit":   {"a", map[string]int{"t.input": 0, "t.retry": 0, "t.dlq": 0}},
	} {
		for topic, want := range of.count {
			if got := k.commits(group, of.id, topic); got != want {
				t.Errorf("%d commits of %s by group %s recorded, want %d", got, topic, group, want)
			}
		}
	}
	if others := k.OtherGroups(); !maps.Equal(others, map[int16]string{retry: "g-retry"}) {
		t.Errorf("other groups: %v", others)
	}
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.SetVersion(3)
	beat.Group, beat.MemberID = "g-retry", "r"
	answer := beat.ResponseKind().(*kmsg.HeartbeatResponse)
	answer.ErrorCode = kerr.UnknownMemberID.Code
	k.expect("its member is fenced", k.ask(beat, answer), "-1.0@1 fenced")
	for _, e := range k.log.of(history.KindAssigned, history.KindRevoked, history.KindCommitRequest,
		history.KindCommitResponse) {
		if e.Flags.Has(history.OtherGroup) != (e.Topic == retry) {
			t.Errorf("%s of %s has the flags %q", e.Kind, k.Topics[e.Topic].Name, e.Flags)
		}
	}
}

func TestAGroupInsteadOfTheRunsGroup(t *testing.T) {
	k := newTalk(t)
	k.of("shop-retry", "r", partition{retry, 0})
	if instead := k.Instead(); len(instead) != 0 {
		t.Errorf("%v before any group reads the input", instead)
	}
	k.of("shop", "m", partition{input, 0})
	k.of("audit", "a", partition{input, 1})
	if instead := k.Instead(); !maps.Equal(instead, map[int16]string{input: "shop"}) {
		t.Errorf("%v instead of the run's group", instead)
	}
	k.of("g", "m", partition{input, 2})
	if instead := k.Instead(); len(instead) != 0 {
		t.Errorf("%v beside the run's group", instead)
	}
}

// A consumer that assigns itself the partitions of a retry topic joins no group, and commits in one all the same.
func TestAGroupWithoutMembersCountsByItsFirstCommit(t *testing.T) {
	k := newTalk(t)
	k.of("g", "m", partition{input, 0})
	for _, one := range []struct {
		group string
		want  int
	}{{"g-retry", 1}, {"audit", 0}, {"g", 1}, {"g-retry", 0}} {
		if got := k.commits(one.group, "", "t.retry"); got != one.want {
			t.Errorf("%d commits by group %s recorded, want %d", got, one.group, one.want)
		}
	}
}

func TestTheRunsGroupTakesARetryTopicOver(t *testing.T) {
	k := newTalk(t)
	k.expect("an audit is there first", k.of("audit", "a", partition{retry, 0}, partition{input, 0}), "+1.0@1")
	k.expect("the run's group", k.of("g", "m", partition{retry, 0}), "+1.0@1")
	k.expect("the audit joins again", k.of("audit", "a", partition{retry, 1}), "")
	if n := k.commits("audit", "a", "t.retry"); n != 0 || len(k.OtherGroups()) != 0 {
		t.Errorf("%d commits recorded of a group that is not the reader; other groups %v", n, k.OtherGroups())
	}
}

// The instance is a member as long as it is one of the run's group: dlqbench judges whether it stays up by that.
func TestMembersOfAnotherGroupAreNotCounted(t *testing.T) {
	k := newTalk(t)
	k.of("g-retry", "r", partition{retry, 0})
	if n := len(k.log.of(history.KindMembership)); n != 0 {
		t.Errorf("%d memberships noted before the run's group had a member", n)
	}
	k.of("g", "m", partition{input, 0})
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.SetVersion(1)
	leave.Group, leave.MemberID = "g", "m"
	k.ask(leave, leave.ResponseKind())
	all := k.log.of(history.KindMembership)
	if last := all[len(all)-1]; len(all) != 2 || last.N != 0 || last.Text != whyLeave {
		t.Errorf("%d memberships noted, the last %d %q", len(all), last.N, last.Text)
	}
}

// A wait may have to outlast the session of either group. A group that reads nothing of the run has no part in it.
func TestSessionsOfGroupsThatReadTheRunsTopics(t *testing.T) {
	k := newTalk(t)
	p := k.process(k.instances[0], 0)
	session := map[string]time.Duration{"g": 10 * time.Second, "g-retry": 45 * time.Second, "other": time.Minute}
	given := map[string]partition{"g": {input, 0}, "g-retry": {retry, 0}, "other": {input, 1}}
	for _, group := range []string{"g", "g-retry", "other", "g", "g-retry"} {
		request := joinRequest("m-"+group, "range")
		request.Group, request.SessionTimeoutMillis = group, int32(session[group].Milliseconds())
		p.join(1, request)
		p.mu.Lock()
		m := p.admit(memberID{group, "m-" + group}, 1)
		m.session = session[group]
		p.assign(m, 1, []partition{given[group]})
		p.mu.Unlock()
	}
	var asked []time.Duration
	for _, e := range k.log.of(history.KindJoining) {
		asked = append(asked, time.Duration(e.Aux))
	}
	if len(asked) != 2 || asked[0] != session["g"] || asked[1] != session["g-retry"] {
		t.Errorf("sessions asked for: %v", asked)
	}
}
