package tap

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// talk makes a client and a broker exchange numbered requests.
type talk struct {
	*rig
	broker         *broker
	t              *testing.T
	subject, kafka *peer
	correlation    int32
	noted          int
}

func newTalk(t *testing.T) *talk {
	t.Helper()
	b := newBroker(t)
	r := newRig(t, b.upstreams(), func(c *Config) { c.Group = "g" })
	subject := dial(t, r.open(t, 0))
	return &talk{rig: r, broker: b, t: t, subject: subject, kafka: b.next()}
}

// ask passes the request and its answer through the tap, and returns the noted assignments in short form.
func (k *talk) ask(request kmsg.Request, answer kmsg.Response) string {
	k.t.Helper()
	k.correlation++
	k.subject.request(k.correlation, request)
	k.kafka.receive()
	k.kafka.respond(k.correlation, answer)
	k.subject.receive()
	return k.news()
}

func (k *talk) news() string {
	events := k.log.of(history.KindAssigned, history.KindRevoked)
	var words []string
	for _, e := range events[k.noted:] {
		sign := "+"
		if e.Kind == history.KindRevoked {
			sign = "-"
		}
		words = append(words, strings.TrimSpace(fmt.Sprintf("%s%d.%d@%d %s", sign, e.Topic, e.Partition, e.N, e.Text)))
	}
	k.noted = len(events)
	return strings.Join(words, ", ")
}

func (k *talk) expect(what, got, want string) {
	k.t.Helper()
	if got != want {
		k.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func owned(numbers ...int32) kmsg.ConsumerMemberMetadataOwnedPartition {
	o := kmsg.NewConsumerMemberMetadataOwnedPartition()
	o.Topic, o.Partitions = "t.input", numbers
	return o
}

// join joins under the assignor and claims that the partitions are still owned.
func (k *talk) join(id, assignor string, generation int32, code int16, keeps ...int32) string {
	k.t.Helper()
	request := joinRequest(id, assignor, keeps...)
	answer := request.ResponseKind().(*kmsg.JoinGroupResponse)
	answer.ErrorCode, answer.Generation, answer.MemberID, answer.Protocol = code, generation, id, &assignor
	return k.ask(request, answer)
}

func joinRequest(id, assignor string, keeps ...int32) *kmsg.JoinGroupRequest {
	metadata := kmsg.NewConsumerMemberMetadata()
	metadata.Version, metadata.Topics = 1, []string{"t.input"}
	if len(keeps) > 0 {
		metadata.OwnedPartitions = append(metadata.OwnedPartitions, owned(keeps...))
	}
	request := kmsg.NewPtrJoinGroupRequest()
	request.SetVersion(5)
	request.Group, request.MemberID, request.ProtocolType = "g", id, "consumer"
	request.SessionTimeoutMillis, request.RebalanceTimeoutMillis = 45_000, 60_000
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = assignor, metadata.AppendTo(nil)
	request.Protocols = append(request.Protocols, protocol)
	return request
}

func syncRequest(id string, generation int32) *kmsg.SyncGroupRequest {
	request := kmsg.NewPtrSyncGroupRequest()
	request.SetVersion(3)
	request.Group, request.MemberID, request.Generation = "g", id, generation
	return request
}

func syncAnswer(code int16, numbers ...int32) *kmsg.SyncGroupResponse {
	answer := kmsg.NewPtrSyncGroupResponse()
	answer.SetVersion(3)
	answer.ErrorCode = code
	assignment := kmsg.NewConsumerMemberAssignment()
	for _, name := range []string{"t.input", "foreign"} {
		topic := kmsg.NewConsumerMemberAssignmentTopic()
		topic.Topic, topic.Partitions = name, numbers
		assignment.Topics = append(assignment.Topics, topic)
	}
	answer.MemberAssignment = assignment.AppendTo(nil)
	return answer
}

func (k *talk) sync(id string, generation int32, code int16, numbers ...int32) string {
	k.t.Helper()
	return k.ask(syncRequest(id, generation), syncAnswer(code, numbers...))
}

func (k *talk) beat(id string, code int16) string {
	k.t.Helper()
	request := kmsg.NewPtrHeartbeatRequest()
	request.SetVersion(3)
	request.Group, request.MemberID = "g", id
	answer := request.ResponseKind().(*kmsg.HeartbeatResponse)
	answer.ErrorCode = code
	return k.ask(request, answer)
}

func TestEagerMember(t *testing.T) {
	k := newTalk(t)
	k.expect("first join", k.join("m", "range", 1, 0), "")
	k.expect("first assignment", k.sync("m", 1, 0, 0, 1), "+0.0@1, +0.1@1")
	k.expect("same generation again", k.sync("m", 1, 0, 0, 1), "")
	k.expect("rebalance announced", k.beat("m", 27), "")
	// An eager client owns nothing when it rejoins, whatever its subscription says.
	k.expect("rejoin", k.join("m", "range", 2, 0, 0, 1), "-0.0@1 rejoin, -0.1@1 rejoin")
	k.expect("refused sync", k.sync("m", 2, 27, 1), "")
	k.expect("second assignment", k.sync("m", 2, 0, 1), "+0.1@2")
	k.expect("illegal generation proves no loss", k.beat("m", 22), "")
	k.expect("unknown member does", k.beat("m", kerr.UnknownMemberID.Code), "-0.1@2 fenced")
	k.expect("once only", k.beat("m", kerr.UnknownMemberID.Code), "")
}

func TestCooperativeMember(t *testing.T) {
	k := newTalk(t)
	k.join("m", "cooperative-sticky", 1, 0)
	k.expect("assignment", k.sync("m", 1, 0, 0, 1, 2), "+0.0@1, +0.1@1, +0.2@1")
	k.expect("rejoin keeps what it says it owns", k.join("m", "cooperative-sticky", 2, 0, 0, 1), "-0.2@1 rejoin")
	k.expect("less", k.sync("m", 2, 0, 1, 3), "-0.0@2 rebalance, +0.3@2")
	k.expect("fenced instead of joined", k.join("m", "cooperative-sticky", 0, kerr.FencedInstanceID.Code, 1, 3),
		"-0.1@2 fenced, -0.3@2 fenced")
}

// joined returns how often the member has joined again.
func joined(k *talk, id string) int {
	p := k.process(k.instances[0], 0)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.members[memberID{"g", id}].joins
}

// The answer to a SyncGroup that arrives after the member has joined again says nothing about the new generation.
func TestLateSyncIsNoAssignment(t *testing.T) {
	k := newTalk(t)
	k.join("m", "range", 1, 0)
	k.subject.request(90, syncRequest("m", 1))
	k.kafka.receive()
	other := dial(t, k.instances[0].listeners[1].Addr().String())
	rejoin := kmsg.NewPtrJoinGroupRequest()
	rejoin.Group, rejoin.MemberID, rejoin.ProtocolType = "g", "m", "consumer"
	other.request(91, rejoin)
	wait.Until(t, "the rejoin was seen", func() bool { return joined(k, "m") == 1 })
	k.kafka.respond(90, syncAnswer(0, 4))
	k.subject.receive()
	k.expect("late answer", k.news(), "")
}

// A second consumer of the same process is assigned partitions that an expelled one seemed to hold.
func TestExpelledMemberOfTheSameProcess(t *testing.T) {
	k := newTalk(t)
	k.join("a", "range", 1, 0)
	k.expect("first", k.sync("a", 1, 0, 0, 1), "+0.0@1, +0.1@1")
	k.join("b", "range", 2, 0)
	k.expect("second", k.sync("b", 2, 0, 1, 2), "-0.1@1 fenced, +0.1@2, +0.2@2")
	k.expect("the first hears of it", k.beat("a", kerr.UnknownMemberID.Code), "-0.0@1 fenced")
}

func TestLeaving(t *testing.T) {
	for version := range kmsg.NewPtrLeaveGroupRequest().MaxVersion() + 1 {
		k := newTalk(t)
		k.join("m", "range", 1, 0)
		k.sync("m", 1, 0, 3)
		k.news()
		request := kmsg.NewPtrLeaveGroupRequest()
		request.SetVersion(version)
		request.Group, request.MemberID = "g", "m"
		gone := kmsg.NewLeaveGroupRequestMember()
		gone.MemberID = "m"
		request.Members = append(request.Members, gone)
		k.expect(fmt.Sprintf("leave v%d", version), k.ask(request, request.ResponseKind()), "-0.3@1 leave")
	}
}

func TestCommitOfAnUnknownMember(t *testing.T) {
	k := newTalk(t)
	k.join("m-1", "range", 4, 0)
	k.sync("m-1", 4, 0, 0)
	k.news()
	request := commit(8, 5)
	k.expect("illegal generation", k.ask(request, committedAnswer(request, 22)), "")
	k.expect("unknown member", k.ask(request, committedAnswer(request, kerr.UnknownMemberID.Code)), "-0.0@4 fenced")
	request.Group = "other"
	before := len(k.log.of(history.KindCommitRequest))
	k.ask(request, committedAnswer(request, 0))
	if n := len(k.log.of(history.KindCommitRequest)); n != before || before != 2 {
		t.Errorf("%d commits recorded, then %d with another group's", before, n)
	}
}

// KIP-848: the assignment names topics by id. The tap queries an unknown id before it passes the assignment on.
func TestServerSideMember(t *testing.T) {
	b := newBroker(t)
	id, foreign := [16]byte{1}, [16]byte{2}
	asked := make(chan []string, 2) // one query for each id
	r := newRig(t, b.upstreams(), func(config *Config) {
		config.TopicIDs = func(_ context.Context, names []string) (map[string][16]byte, error) {
			asked <- names
			return map[string][16]byte{"t.input": id}, nil
		}
	})
	subject := dial(t, r.open(t, 0))
	k := &talk{rig: r, t: t, subject: subject, kafka: b.next()}
	beat := func(epoch int32, code int16, answered int32, numbers ...int32) string {
		request := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		request.Group, request.MemberID, request.MemberEpoch = "g", "m", epoch
		answer := request.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
		answer.ErrorCode, answer.MemberEpoch = code, answered
		if numbers != nil {
			answer.Assignment = &kmsg.ConsumerGroupHeartbeatResponseAssignment{}
			for _, topic := range [][16]byte{id, foreign} {
				answer.Assignment.Topics = append(answer.Assignment.Topics,
					kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{TopicID: topic, Partitions: numbers})
			}
		}
		return k.ask(request, answer)
	}
	k.expect("join", beat(0, 0, 1, 0, 1), "+0.0@1, +0.1@1")
	for range cap(asked) {
		if names := <-asked; !slices.Equal(names, []string{"t.input", "t.retry", "t.dlq"}) {
			t.Errorf("the tap asked for %v", names)
		}
	}
	k.expect("no change", beat(1, 0, 1), "")
	k.expect("shrinks", beat(1, 0, 2, 1), "-0.0@2 rebalance")
	k.expect("moves", beat(2, 0, 3, 4), "-0.1@3 rebalance, +0.4@3")
	k.expect("fenced", beat(3, kerr.FencedMemberEpoch.Code, 0), "-0.4@3 fenced")
	k.expect("joins again", beat(0, 0, 5, 2), "+0.2@5")
	k.expect("joins while it holds", beat(0, 0, 6, 2), "-0.2@5 rejoin, +0.2@6")
	k.expect("is given nothing", beat(6, 0, 7, []int32{}...), "-0.2@7 rebalance")
	k.expect("is given one", beat(7, 0, 8, 5), "+0.5@8")
	k.expect("leaves", beat(-1, 0, -1), "-0.5@8 leave")
}

// KIP-1071: a task is one partition of each topic that its part of the topology reads. A member names the topology when
// it joins, and only then.
func TestMemberOfKafkaStreams(t *testing.T) {
	k := newTalk(t)
	part := func(id string, internal string, topics ...string) kmsg.StreamsGroupHeartbeatRequestTopologySubtopology {
		one := kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{SubtopologyID: id, SourceTopics: topics}
		if internal != "" {
			one.RepartitionSourceTopics = []kmsg.TopicInfo{{Topic: internal}}
		}
		return one
	}
	first := []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{
		part("0", "", "t.input", "unknown"), part("1", "t.retry"),
	}
	task := func(id string, numbers ...int32) kmsg.TaskIDs {
		return kmsg.TaskIDs{SubtopologyID: id, Partitions: numbers}
	}
	beat := func(
		epoch int32, parts []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology, code int16, answered int32,
		tasks ...kmsg.TaskIDs,
	) string {
		request := kmsg.NewPtrStreamsGroupHeartbeatRequest()
		request.Group, request.MemberID, request.MemberEpoch = "g", "m", epoch
		if parts != nil {
			request.Topology = &kmsg.StreamsGroupHeartbeatRequestTopology{Subtopologies: parts}
		}
		answer := request.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
		answer.ErrorCode, answer.MemberID, answer.MemberEpoch, answer.ActiveTasks = code, "m", answered, tasks
		answer.StandbyTasks = []kmsg.TaskIDs{task("0", 5)}
		return k.ask(request, answer)
	}
	k.expect("joins", beat(0, first, 0, 1, task("0", 0, 1)), "+0.0@1, +0.1@1")
	k.expect("no change", beat(1, nil, 0, 1), "")
	k.expect("is given one more", beat(1, nil, 0, 2, task("0", 1), task("1", 3)), "-0.0@2 rebalance, +1.3@2")
	k.expect("is given nothing", beat(2, nil, 0, 3, []kmsg.TaskIDs{}...), "-0.1@3 rebalance, -1.3@3 rebalance")
	k.expect("is given both again", beat(3, nil, 0, 4, task("0", 1), task("1", 3)), "+0.1@4, +1.3@4")
	k.expect("joins again, with another topology",
		beat(0, []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{part("0", "", "t.retry")}, 0, 5, task("0", 2)),
		"-0.1@4 rejoin, -1.3@4 rejoin, +1.2@5")
	k.expect("is fenced", beat(5, nil, kerr.FencedMemberEpoch.Code, 0), "-1.2@5 fenced")
	k.expect("joins", beat(0, first, 0, 6, task("0", 0)), "+0.0@6")
	k.expect("leaves", beat(-1, nil, 0, -1), "-0.0@6 leave")
}

// Fetch sessions (KIP-227): a request names only changes, and fetching starts at the offset that the client named
// last. The answer to a heartbeat that was outstanding when the member left assigns nothing, even if the member
// rejoins under its id before the answer arrives.
func TestLateHeartbeatIsNoAssignment(t *testing.T) {
	for _, epoch := range []int32{0, 3} {
		k := newTalk(t)
		id := [16]byte{1}
		k.topics.learn(id, "t.input")
		beat := func(epoch int32) *kmsg.ConsumerGroupHeartbeatRequest {
			request := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			request.SetVersion(1)
			request.Group, request.MemberID, request.MemberEpoch = "g", "m", epoch
			return request
		}
		given := func(epoch int32, numbers ...int32) *kmsg.ConsumerGroupHeartbeatResponse {
			answer := beat(0).ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
			answer.MemberEpoch = epoch
			answer.Assignment = &kmsg.ConsumerGroupHeartbeatResponseAssignment{
				Topics: []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{{TopicID: id, Partitions: numbers}},
			}
			return answer
		}
		k.expect("joins", k.ask(beat(0), given(3, 0)), "+0.0@3")
		k.subject.request(90, beat(epoch))
		k.kafka.receive()
		k.news()
		k.subject.request(91, beat(-1))
		k.kafka.receive()
		k.subject.request(92, beat(0))
		k.kafka.receive()
		k.news()
		k.kafka.respond(90, given(4, 1))
		k.subject.receive()
		k.expect(fmt.Sprintf("late answer to epoch %d", epoch), k.news(), "")
		k.kafka.respond(91, beat(0).ResponseKind())
		k.subject.receive()
		k.kafka.respond(92, given(5, 2))
		k.subject.receive()
		k.expect("the new life", k.news(), "+0.2@5")
	}
}

func TestFetchSessions(t *testing.T) {
	r, subject, kafka := pair(t, nil)
	correlation := int32(0)
	fetch := func(session, epoch int32, offsets map[int32]int64, forgotten []int32, answered int32,
		bases map[int32]int64) string {
		t.Helper()
		request := kmsg.NewPtrFetchRequest()
		request.SetVersion(11)
		request.SessionID, request.SessionEpoch = session, epoch
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic = "t.input"
		for number, offset := range offsets {
			p := kmsg.NewFetchRequestTopicPartition()
			p.Partition, p.FetchOffset = number, offset
			topic.Partitions = append(topic.Partitions, p)
		}
		request.Topics = append(request.Topics, topic)
		if forgotten != nil {
			f := kmsg.NewFetchRequestForgottenTopic()
			f.Topic, f.Partitions = "t.input", forgotten
			request.ForgottenTopics = append(request.ForgottenTopics, f)
		}
		answer := request.ResponseKind().(*kmsg.FetchResponse)
		answer.SessionID = answered
		given := kmsg.NewFetchResponseTopic()
		given.Topic = "t.input"
		for number, base := range bases {
			p := kmsg.NewFetchResponseTopicPartition()
			p.Partition, p.RecordBatches = number, makeBatch(base, "a", "b", "c", "d")
			given.Partitions = append(given.Partitions, p)
		}
		answer.Topics = append(answer.Topics, given)
		before := len(r.log.of(history.KindFetched))
		correlation++
		subject.request(correlation, request)
		kafka.receive()
		kafka.respond(correlation, answer)
		subject.receive()
		var words []string
		for _, e := range r.log.of(history.KindFetched)[before:] {
			words = append(words, fmt.Sprintf("%d: %d to %d", e.Partition, e.Offset, e.Aux))
		}
		slices.Sort(words)
		return strings.Join(words, ", ")
	}
	expect := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	expect("begins", fetch(0, 0, map[int32]int64{0: 2, 1: 20}, nil, 7, map[int32]int64{0: 0}), "0: 2 to 3")
	expect("only one is named", fetch(7, 1, map[int32]int64{0: 5}, nil, 7, map[int32]int64{0: 4, 1: 18}),
		"0: 5 to 7, 1: 20 to 21")
	expect("none is named", fetch(7, 2, nil, nil, 7, map[int32]int64{1: 18}), "1: 20 to 21")
	expect("forgotten and back", fetch(7, 3, map[int32]int64{1: 30}, []int32{1}, 7, map[int32]int64{1: 28}), "1: 30 to 31")
	expect("forgotten", fetch(7, 4, nil, []int32{1}, 7, map[int32]int64{1: 28}), "1: 28 to 31")
	expect("without a session", fetch(0, -1, map[int32]int64{0: 9}, nil, 0, map[int32]int64{0: 8}), "0: 9 to 11")
	expect("the session is still there", fetch(7, 5, nil, nil, 7, map[int32]int64{0: 4}), "0: 5 to 7")
	expect("new session", fetch(7, 0, map[int32]int64{0: 50}, nil, 8, map[int32]int64{0: 48}), "0: 50 to 51")
	expect("nothing new", fetch(8, 1, nil, nil, 8, nil), "")
}

func TestWhichFetchShowsThatAProcessIsReady(t *testing.T) {
	for name, c := range map[string]struct {
		grouped bool
		held    []partition
		fetched partition
		ready   bool
	}{
		"an assigned partition":                 {true, []partition{{input, 1}}, partition{input, 1}, true},
		"another partition":                     {true, []partition{{input, 1}}, partition{input, 2}, false},
		"a group member without a partition":    {true, nil, partition{input, 1}, false},
		"no group protocol, the input topic":    {false, nil, partition{input, 1}, true},
		"no group protocol, a retry topic":      {false, nil, partition{retry, 0}, true},
		"no group protocol, the dead letters":   {false, nil, partition{dlq, 0}, false},
		"assigned before anything else is seen": {false, []partition{{dlq, 0}}, partition{dlq, 0}, true},
		"another group's partition":             {false, []partition{{retry, 0}}, partition{retry, 0}, false},
	} {
		p := newProcess(newRig(t, nil, func(config *Config) { config.Group = "g" }).Tap, 0, 0)
		p.grouped = c.grouped
		group := "g"
		if name == "another group's partition" {
			group = "g-retry"
		}
		p.assign(p.admit(memberID{group, "m"}, 1), 1, c.held)
		p.becomesReady(map[partition]int64{c.fetched: 0})
		ready := false
		select {
		case <-p.fetching:
			ready = true
		default:
		}
		if ready != c.ready {
			t.Errorf("%s: ready %v, want %v", name, ready, c.ready)
		}
		p.becomesReady(map[partition]int64{c.fetched: 0}) // must not close the channel twice
	}
}

// A forged answer has the same effect as a broker's, because the member accepts it. A withheld answer has none.
func TestForgedAndWithheldGroupAnswers(t *testing.T) {
	group := func(request kmsg.Request) kmsg.Request {
		switch r := request.(type) {
		case *kmsg.SyncGroupRequest:
			r.SetVersion(3)
			r.Group, r.MemberID = "g", "m"
		case *kmsg.HeartbeatRequest:
			r.SetVersion(3)
			r.Group, r.MemberID = "g", "m"
		case *kmsg.ConsumerGroupHeartbeatRequest:
			r.Group, r.MemberID, r.MemberEpoch = "g", "m", 3
		case *kmsg.StreamsGroupHeartbeatRequest:
			r.Group, r.MemberID, r.MemberEpoch = "g", "m", 3
		case *kmsg.ShareGroupHeartbeatRequest:
			r.GroupID, r.MemberID, r.MemberEpoch = "g", "m", 3
		}
		return request
	}
	for code, lost := range map[int16]bool{
		kerr.CoordinatorNotAvailable.Code: false, 16: false, 22: false, 27: false, kerr.UnknownMemberID.Code: true,
		kerr.FencedInstanceID.Code: true, kerr.FencedMemberEpoch.Code: true,
	} {
		for _, request := range []kmsg.Request{
			group(kmsg.NewPtrSyncGroupRequest()), group(kmsg.NewPtrHeartbeatRequest()),
			group(kmsg.NewPtrConsumerGroupHeartbeatRequest()), group(kmsg.NewPtrShareGroupHeartbeatRequest()),
			group(kmsg.NewPtrStreamsGroupHeartbeatRequest()),
		} {
			for _, withheld := range []bool{false, true} {
				actions := map[int16]Action{request.Key(): {Code: code}}
				if withheld {
					actions = map[int16]Action{request.Key(): {Drop: true, Healed: make(chan struct{})}}
				}
				r, s, subject, kafka := scripted(t, actions)
				p := r.process(r.instance(0), 0)
				p.mu.Lock()
				p.assign(p.admit(memberID{"g", "m"}, 1), 1, []partition{{input, 3}})
				p.mu.Unlock()
				subject.request(1, request)
				if withheld {
					kafka.receive()
					answer, _ := forge(request, code, nil)
					kafka.respond(1, answer)
					wait.Until(t, "the answer is withheld", func() bool {
						s.mu.Lock()
						defer s.mu.Unlock()
						return len(s.effects) == 1
					})
					subject.silent(time.Millisecond)
				} else {
					subject.receive()
				}
				if got := len(r.log.of(history.KindRevoked)) == 1; got != (lost && !withheld) {
					t.Errorf("%s answered %d, withheld %v: lost %v", apiName(request.Key()), code, withheld, got)
				}
			}
		}
	}
}

// Static members (KIP-345) leave without a request. The member that replaces one reveals it.
func TestStaticMember(t *testing.T) {
	k := newTalk(t)
	join := func(id, instance string, generation int32) string {
		request := kmsg.NewPtrJoinGroupRequest()
		request.SetVersion(5)
		request.Group, request.ProtocolType, request.InstanceID = "g", "consumer", &instance
		answer := request.ResponseKind().(*kmsg.JoinGroupResponse)
		answer.Generation, answer.MemberID, answer.Protocol = generation, id, kmsg.StringPtr("range")
		return k.ask(request, answer)
	}
	k.expect("joins", join("i-1", "i", 1), "")
	k.expect("is given", k.sync("i-1", 1, 0, 0, 1), "+0.0@1, +0.1@1")
	k.expect("another static member", join("j-1", "j", 2), "")
	k.expect("is given", k.sync("j-1", 2, 0, 4), "+0.4@2")
	k.expect("its consumer is closed and made again", join("i-2", "i", 2), "-0.0@1 fenced, -0.1@1 fenced")
	k.expect("is given what it had", k.sync("i-2", 2, 0, 0, 1), "+0.0@2, +0.1@2")
}

// members returns the number of members after each change, with the reason for the change.
func (k *talk) members() string {
	var words []string
	for _, e := range k.log.of(history.KindMembership) {
		words = append(words, strings.TrimSpace(fmt.Sprintf("%d %s", e.N, e.Text)))
	}
	return strings.Join(words, ", ")
}

// A member is silent when it has sent no group request for longer than its session timeout. While it waits for an
// answer to one, as it does for the others in a JoinGroup, its session stands still.
func TestSilentMember(t *testing.T) {
	k := newTalk(t)
	p, _ := k.present(k.only())
	after := func(session time.Duration, waits bool) string {
		t.Helper()
		p.expire(k.clock.Now()+session, waits)
		return k.members()
	}
	const session = 45 * time.Second
	k.expect("nobody", after(time.Hour, false), "")
	k.join("m", "range", 1, 0)
	k.sync("m", 1, 0, 0)
	k.expect("it has just joined", after(session-time.Second, false), "1")
	k.expect("its session is over", after(session, false), "1, 0 silent")
	k.expect("that is told once", after(session, false), "1, 0 silent")
	k.beat("m", 0)
	k.expect("it is heard of", k.members(), "1, 0 silent, 1")
	k.beat("m", kerr.UnknownMemberID.Code)
	k.expect("it is refused", k.members(), "1, 0 silent, 1, 0 fenced")
	k.expect("it is no member", after(time.Hour, false), "1, 0 silent, 1, 0 fenced")
	k.join("m", "range", 2, 0)
	const again = "1, 0 silent, 1, 0 fenced, 1"
	k.expect("it waits for the others", after(time.Minute, true), again)
	k.expect("it has its session from then on", after(time.Minute+session-time.Second, false), again)
	k.expect("and no more", after(time.Minute+session+time.Second, false), again+", 0 silent")
}

// only is the one instance of the talk.
func (k *talk) only() *instance {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.instance(0)
}

// find asks for coordinators, and is answered with the error code for each key.
func (k *talk) find(version int16, kind int8, code int16, keys ...string) {
	k.t.Helper()
	request := kmsg.NewPtrFindCoordinatorRequest()
	request.SetVersion(version)
	request.CoordinatorType, request.CoordinatorKey, request.CoordinatorKeys = kind, keys[0], keys
	answer := request.ResponseKind().(*kmsg.FindCoordinatorResponse)
	answer.NodeID, answer.ErrorCode = 1, code
	for _, key := range keys {
		one := kmsg.NewFindCoordinatorResponseCoordinator()
		one.Key, one.NodeID, one.ErrorCode = key, 1, code
		answer.Coordinators = append(answer.Coordinators, one)
	}
	k.ask(request, answer)
}

// Without a coordinator, members cannot show that they are alive. A member that looks for it in vain is not silent.
// A process that was removed from its group and is kept from returning has not given up.
func TestMembersSeekTheirCoordinator(t *testing.T) {
	const group, transaction = 0, 1
	refused := func(k *talk) { k.join("m", "range", 0, kerr.CoordinatorNotAvailable.Code) }
	beats := func(code int16) func(*talk) {
		return func(k *talk) {
			request := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			request.SetVersion(1)
			request.Group, request.MemberID = "g", "m"
			answer := request.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
			answer.ErrorCode = code
			k.ask(request, answer)
		}
	}
	for name, c := range map[string]struct {
		does  func(*talk)
		seeks bool
	}{
		"nothing":                 {func(*talk) {}, false},
		"there is no coordinator": {func(k *talk) { k.find(3, group, kerr.CoordinatorNotAvailable.Code, "g") }, true},
		"nor of several groups": {func(k *talk) { k.find(4, group, kerr.CoordinatorNotAvailable.Code, "h", "g") },
			true},
		"it is found":     {func(k *talk) { k.find(3, group, 0, "g") }, false},
		"another group's": {func(k *talk) { k.find(4, group, kerr.CoordinatorNotAvailable.Code, "h") }, false},
		"a producer's": {func(k *talk) { k.find(3, transaction, kerr.CoordinatorNotAvailable.Code, "g") },
			false},
		"it may not join yet":          {refused, true},
		"it may not join yet, KIP-848": {beats(kerr.CoordinatorNotAvailable.Code), true},
		"it is told that it is out":    {beats(kerr.UnknownMemberID.Code), false},
		"no broker answers":            {(*talk).hangUp, true},
	} {
		k := newTalk(t)
		p, _ := k.present(k.only())
		k.join("m", "range", 1, 0)
		due := p.members[memberID{"g", "m"}].due
		if c.does(k); p.members[memberID{"g", "m"}] != nil && p.members[memberID{"g", "m"}].due == due {
			want := map[bool]string{false: "1, 0 silent", true: "1"}[c.seeks]
			p.expire(due+1, false)
			k.expect(name+", as a member", k.members(), want)
		}
		k = newTalk(t)
		p, _ = k.present(k.only())
		k.join("m", "range", 1, 0)
		k.beat("m", kerr.UnknownMemberID.Code)
		c.does(k)
		want := map[bool]string{false: "1, 0 fenced", true: "1, 0 fenced, 0 seeks"}[c.seeks]
		for range 2 {
			p.expire(k.clock.Now(), false)
			k.expect(name+", as one that is out", k.members(), want)
		}
		k = newTalk(t)
		p, _ = k.present(k.only())
		c.does(k)
		p.expire(k.clock.Now(), false)
		k.expect(name+", as one that never was a member", k.members(), "")
	}
}

// hangUp opens another connection, which the broker closes without an answer.
func (k *talk) hangUp() {
	k.t.Helper()
	address := k.only().listeners[1].Addr().String()
	dial(k.t, address)
	one := k.broker.next()
	_ = one.Close()
	wait.Until(k.t, "the connection has ended", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.instance(0).conns) == 1
	})
}

// An outstanding group request is a sign of life, whatever becomes of it.
func TestWaitingForTheGroup(t *testing.T) {
	k := newTalk(t)
	waits := func() bool {
		_, waits := k.present(k.only())
		return waits
	}
	search := kmsg.NewPtrFindCoordinatorRequest()
	search.CoordinatorKey = "g"
	for _, request := range []kmsg.Request{joinRequest("m", "range"), search} {
		k.correlation++
		k.subject.request(k.correlation, request)
		k.kafka.receive()
		if !waits() {
			t.Errorf("a %s is on its way, and nobody waits", kmsg.NameForKey(request.Key()))
		}
		k.kafka.respond(k.correlation, request.ResponseKind())
		k.subject.receive()
		wait.Until(t, "nobody waits any more", func() bool { return !waits() })
	}
}

// KIP-848: epoch -2 leaves as a static member, -1 as a dynamic one. A member's owned partitions, its subscription
// and its regex say nothing about its assignment. A partition is revoked when the member is told, before the member
// confirms: until then it may finish and commit.
func TestServerSideEpochs(t *testing.T) {
	for _, leave := range []int32{-1, -2} {
		k := newTalk(t)
		id := [16]byte{1}
		k.topics.learn(id, "t.input")
		beat := func(epoch int32, code int16, answered int32, owns, given []int32) string {
			t.Helper()
			request := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			request.SetVersion(1)
			request.Group, request.MemberID, request.MemberEpoch = "g", "m", epoch
			request.SubscribedTopicRegex = kmsg.StringPtr("t.*")
			if owns != nil {
				request.Topics = append(request.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: id, Partitions: owns})
			}
			answer := request.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
			answer.ErrorCode, answer.MemberEpoch = code, answered
			if given != nil {
				answer.Assignment = &kmsg.ConsumerGroupHeartbeatResponseAssignment{
					Topics: []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{{TopicID: id, Partitions: given}},
				}
			}
			return k.ask(request, answer)
		}
		k.expect("joins", beat(0, 0, 1, nil, nil), "")
		k.expect("is given", beat(1, 0, 2, nil, []int32{0, 1, 2}), "+0.0@2, +0.1@2, +0.2@2")
		k.expect("owns it", beat(2, 0, 2, []int32{0, 1, 2}, nil), "")
		k.expect("is to give one up", beat(2, 0, 2, nil, []int32{0, 1}), "-0.2@2 rebalance")
		k.expect("confirms", beat(2, 0, 3, []int32{0, 1}, nil), "")
		k.expect("is given another", beat(3, 0, 4, nil, []int32{0, 1, 5}), "+0.5@4")
		k.expect("no coordinator", beat(4, kerr.CoordinatorNotAvailable.Code, 0, nil, nil), "")
		k.expect("fenced", beat(4, kerr.FencedMemberEpoch.Code, 0, nil, nil), "-0.0@4 fenced, -0.1@4 fenced, -0.5@4 fenced")
		k.expect("joins again", beat(0, 0, 6, nil, []int32{1}), "+0.1@6")
		k.expect("unknown", beat(6, kerr.UnknownMemberID.Code, 0, nil, nil), "-0.1@6 fenced")
		k.expect("joins again", beat(0, 0, 8, nil, []int32{1}), "+0.1@8")
		k.expect(fmt.Sprintf("leaves with %d", leave), beat(leave, 0, leave, nil, nil), "-0.1@8 leave")
	}
}
