package tap

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// shareWords writes share-group events in short form: topic.partition[first-last]×deliveries, and the type of each
// acknowledgement.
func shareWords(events []history.Event) string {
	var words []string
	for _, e := range events {
		at := fmt.Sprintf("%d.%d[%d-%d]", e.Topic, e.Partition, e.Offset, e.Aux)
		switch e.Kind {
		case history.KindShareAcquired:
			at += fmt.Sprintf("×%d", e.N)
		case history.KindShareAckRequest:
			at = fmt.Sprintf("%s as %d?", at, e.N)
		case history.KindShareAckResponse:
			at = strings.TrimSpace(fmt.Sprintf("%s as %d: %d %s", at, e.N, e.Code, e.Flags))
		case history.KindShareSessionEnd:
			at = fmt.Sprintf("end at %d", e.Aux)
		}
		words = append(words, at)
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

func (l *eventLog) shares() []history.Event {
	return l.of(history.KindShareAcquired, history.KindShareAckRequest, history.KindShareAckResponse,
		history.KindShareSessionEnd)
}

// shareTalk is a talk with known topic ids whose short form shows share-group events.
type shareTalk struct {
	*talk
	id      [16]byte
	foreign [16]byte
}

func newShareTalk(t *testing.T) *shareTalk {
	t.Helper()
	k := &shareTalk{talk: newTalk(t), id: [16]byte{1}, foreign: [16]byte{2}}
	k.topics.learn(k.id, "t.input")
	k.topics.learn(k.foreign, "somebody.elses")
	return k
}

func (k *shareTalk) exchange(request kmsg.Request, answer kmsg.Response) string {
	k.t.Helper()
	before := len(k.log.shares())
	k.ask(request, answer)
	return shareWords(k.log.shares()[before:])
}

// ackBatch is a batch of acknowledgements.
type ackBatch struct {
	first, last int64
	types       []int8
}

func (k *shareTalk) fetch(epoch int32, topic [16]byte, batches ...ackBatch) *kmsg.ShareFetchRequest {
	request := kmsg.NewPtrShareFetchRequest()
	request.SetVersion(1)
	group, member := "g", "m"
	request.GroupID, request.MemberID, request.ShareSessionEpoch = &group, &member, epoch
	asked := kmsg.NewShareFetchRequestTopic()
	asked.TopicID = topic
	of := kmsg.NewShareFetchRequestTopicPartition()
	of.Partition = 3
	for _, b := range batches {
		one := kmsg.NewShareFetchRequestTopicPartitionAcknowledgementBatch()
		one.FirstOffset, one.LastOffset, one.AcknowledgeTypes = b.first, b.last, b.types
		of.AcknowledgementBatches = append(of.AcknowledgementBatches, one)
	}
	asked.Partitions = append(asked.Partitions, of)
	request.Topics = append(request.Topics, asked)
	return request
}

// fetched answers a ShareFetch; each of acquired is first, last, delivery count.
func (k *shareTalk) fetched(topic [16]byte, code, ackCode int16, acquired ...[3]int64) *kmsg.ShareFetchResponse {
	answer := kmsg.NewPtrShareFetchResponse()
	answer.SetVersion(1)
	of := kmsg.NewShareFetchResponseTopic()
	of.TopicID = topic
	p := kmsg.NewShareFetchResponseTopicPartition()
	p.Partition, p.ErrorCode, p.AcknowledgeErrorCode = 3, code, ackCode
	for _, a := range acquired {
		one := kmsg.NewShareFetchResponseTopicPartitionAcquiredRecord()
		one.FirstOffset, one.LastOffset, one.DeliveryCount = a[0], a[1], int16(a[2])
		p.AcquiredRecords = append(p.AcquiredRecords, one)
	}
	of.Partitions = append(of.Partitions, p)
	answer.Topics = append(answer.Topics, of)
	return answer
}

func (k *shareTalk) acknowledge(epoch int32, batches ...ackBatch) *kmsg.ShareAcknowledgeRequest {
	request := kmsg.NewPtrShareAcknowledgeRequest()
	request.SetVersion(1)
	group, member := "g", "m"
	request.GroupID, request.MemberID, request.ShareSessionEpoch = &group, &member, epoch
	of := kmsg.NewShareAcknowledgeRequestTopic()
	of.TopicID = k.id
	p := kmsg.NewShareAcknowledgeRequestTopicPartition()
	p.Partition = 3
	for _, b := range batches {
		one := kmsg.NewShareAcknowledgeRequestTopicPartitionAcknowledgementBatch()
		one.FirstOffset, one.LastOffset, one.AcknowledgeTypes = b.first, b.last, b.types
		p.AcknowledgementBatches = append(p.AcknowledgementBatches, one)
	}
	of.Partitions = append(of.Partitions, p)
	request.Topics = append(request.Topics, of)
	return request
}

func (k *shareTalk) acknowledged(whole, code int16) *kmsg.ShareAcknowledgeResponse {
	answer := kmsg.NewPtrShareAcknowledgeResponse()
	answer.SetVersion(1)
	answer.ErrorCode = whole
	if whole != 0 {
		return answer
	}
	of := kmsg.NewShareAcknowledgeResponseTopic()
	of.TopicID = k.id
	p := kmsg.NewShareAcknowledgeResponseTopicPartition()
	p.Partition, p.ErrorCode = 3, code
	of.Partitions = append(of.Partitions, p)
	answer.Topics = append(answer.Topics, of)
	return answer
}

func TestShareFetch(t *testing.T) {
	k := newShareTalk(t)
	ready := k.Fetching(0, 0)
	k.expect("nothing there", k.exchange(k.fetch(0, k.id), k.fetched(k.id, 0, 0)), "")
	select {
	case <-ready:
	default:
		t.Error("a process that asks for records of a share group is not ready")
	}
	k.expect("acquired, with delivery counts",
		k.exchange(k.fetch(1, k.id), k.fetched(k.id, 0, 0, [3]int64{5, 9, 1}, [3]int64{10, 10, 3})),
		"0.3[10-10]×3, 0.3[5-9]×1")
	k.expect("acknowledged with the next fetch", k.exchange(k.fetch(2, k.id, ackBatch{5, 7, []int8{1}}),
		k.fetched(k.id, 0, 0, [3]int64{11, 11, 1})),
		"0.3[11-11]×1, 0.3[5-7] as 1: 0, 0.3[5-7] as 1?")
	k.expect("an error of the fetch is none of the acknowledgement",
		k.exchange(k.fetch(3, k.id, ackBatch{8, 8, []int8{2}}), k.fetched(k.id, 6, 0, [3]int64{12, 12, 1})),
		"0.3[8-8] as 2: 0, 0.3[8-8] as 2?")
	k.expect("an error of the acknowledgement is none of the fetch",
		k.exchange(k.fetch(4, k.id, ackBatch{9, 9, []int8{3}}), k.fetched(k.id, 0, 121, [3]int64{13, 13, 1})),
		"0.3[13-13]×1, 0.3[9-9] as 3: 121, 0.3[9-9] as 3?")
	k.expect("another's topic", k.exchange(k.fetch(5, k.foreign, ackBatch{1, 1, []int8{1}}),
		k.fetched(k.foreign, 0, 0, [3]int64{0, 0, 1})), "")
	refused := k.fetched(k.id, 0, 0)
	refused.ErrorCode, refused.Topics = 122, nil
	k.expect("refused as a whole", k.exchange(k.fetch(6, k.id, ackBatch{10, 10, []int8{1}}), refused),
		"0.3[10-10] as 1: 122, 0.3[10-10] as 1?")
}

func TestShareAcknowledge(t *testing.T) {
	k := newShareTalk(t)
	k.expect("a type for each offset", k.exchange(k.acknowledge(1, ackBatch{20, 25, []int8{1, 1, 2, 0, 3, 3}}),
		k.acknowledged(0, 0)),
		"0.3[20-21] as 1: 0, 0.3[20-21] as 1?, 0.3[22-22] as 2: 0, 0.3[22-22] as 2?, 0.3[23-23] as 0: 0, 0.3[23-23] as 0?, "+
			"0.3[24-25] as 3: 0, 0.3[24-25] as 3?")
	k.expect("refused for the partition", k.exchange(k.acknowledge(2, ackBatch{26, 30, []int8{1}}),
		k.acknowledged(0, 121)),
		"0.3[26-30] as 1: 121, 0.3[26-30] as 1?")
	k.expect("refused as a whole", k.exchange(k.acknowledge(3, ackBatch{31, 31, []int8{2}}), k.acknowledged(122, 0)),
		"0.3[31-31] as 2: 122, 0.3[31-31] as 2?")
	k.expect("malformed batches",
		k.exchange(k.acknowledge(4, ackBatch{40, 41, []int8{1, 1, 1, 2}}, ackBatch{50, 49, []int8{1}}, ackBatch{60, 61, nil}),
			k.acknowledged(0, 42)), "0.3[40-41] as 1: 42, 0.3[40-41] as 1?")
	k.expect("the session is closed", k.exchange(k.acknowledge(finalShareEpoch, ackBatch{32, 32, []int8{1}}),
		k.acknowledged(0, 0)),
		"0.3[32-32] as 1: 0, 0.3[32-32] as 1?, end at 1")
}

// The request and answer of a range share one operation, and each range has its own.
func TestShareAcknowledgeOperations(t *testing.T) {
	k := newShareTalk(t)
	k.exchange(k.acknowledge(1, ackBatch{1, 3, []int8{1, 2, 1}}), k.acknowledged(0, 0))
	asked, answered := k.log.of(history.KindShareAckRequest), k.log.of(history.KindShareAckResponse)
	if len(asked) != 3 || len(answered) != 3 {
		t.Fatalf("%d requests and %d answers, want 3 and 3", len(asked), len(answered))
	}
	for i := range asked {
		if asked[i].Op == 0 || asked[i].Op != answered[i].Op || asked[i].Offset != answered[i].Offset ||
			answered[i].Time < asked[i].Time {
			t.Errorf("answer %+v does not belong to %+v", answered[i], asked[i])
		}
		if i > 0 && asked[i].Op == asked[i-1].Op {
			t.Errorf("two ranges have the operation %d", asked[i].Op)
		}
	}
}

func TestShareGroupOfOthers(t *testing.T) {
	k := newShareTalk(t)
	other := "other"
	fetch := k.fetch(1, k.id, ackBatch{5, 7, []int8{1}})
	fetch.GroupID = &other
	k.expect("a fetch of another group", k.exchange(fetch, k.fetched(k.id, 0, 0, [3]int64{1, 2, 1})), "")
	acknowledge := k.acknowledge(1, ackBatch{5, 7, []int8{1}})
	acknowledge.GroupID = &other
	k.expect("an acknowledgement of another group", k.exchange(acknowledge, k.acknowledged(0, 0)), "")
}

// Records that a fault withholds do not reach the client. The acknowledgements in the same request may have counted.
func TestWithheldShareFetch(t *testing.T) {
	r, subject, kafka := pair(t, func(c *Config) {
		c.Group = "g"
		c.Interceptor = intercept(func(*Exchange) Action { return Action{Drop: true} })
	})
	k := &shareTalk{talk: &talk{rig: r, t: t, subject: subject, kafka: kafka}, id: [16]byte{1}}
	k.topics.learn(k.id, "t.input")
	subject.request(1, k.fetch(1, k.id, ackBatch{5, 7, []int8{1}}))
	kafka.receive()
	kafka.respond(1, k.fetched(k.id, 0, 0, [3]int64{8, 9, 1}))
	wait.Until(t, "the answer was seen", func() bool { return len(r.log.of(history.KindShareAckResponse)) == 1 })
	k.expect("withheld", shareWords(r.log.shares()), "0.3[5-7] as 1: 0 withheld, 0.3[5-7] as 1?")
}

func TestShareRequestsAreOfTheGroup(t *testing.T) {
	k := newShareTalk(t)
	beat := kmsg.NewPtrShareGroupHeartbeatRequest()
	beat.GroupID = "g"
	for _, request := range []kmsg.Request{k.fetch(0, k.id), k.acknowledge(1), beat} {
		x := NewExchange(0, 0, request)
		if !x.InGroup("g") || x.InGroup("other") {
			t.Errorf("%s is not taken for a request of its share group", kmsg.NameForKey(request.Key()))
		}
	}
}

// A real share consumer with the embedded broker: it acquires records, releases them, acquires them again and
// accepts them.
func TestShareConsumer(t *testing.T) {
	_, r := cluster(t, 2, func(c *Config) { c.Group = "shared" })
	bootstrap := r.open(t, 0)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	consumer := client(t, bootstrap, kgo.ShareGroup("shared"), kgo.ConsumeTopics("t.input"))
	producer := client(t, bootstrap)
	setGroupToEarliest(ctx, t, producer, "shared")
	for i := range int32(10) {
		record := &kgo.Record{Topic: "t.input", Value: []byte(r.ids.Token(i))}
		if err := producer.ProduceSync(ctx, record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	accepted := map[string]bool{}
	for len(accepted) < 10 {
		fetches := consumer.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("%d records accepted: %v", len(accepted), err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if record.DeliveryCount() < 2 {
				record.Ack(kgo.AckRelease)
				return
			}
			record.Ack(kgo.AckAccept)
			accepted[string(record.Value)] = true
		})
		if err := consumer.FlushAcks(ctx); err != nil {
			t.Fatal(err)
		}
	}
	consumer.Close()
	expectShareTrace(t, r, 10)
	k := &talk{rig: r}
	if got := k.members(); got != "1, 0 leave" {
		t.Errorf("how many members of the group the process was: %q", got)
	}
}

// KIP-932: members of a share group show by heartbeats that they are alive, like those of KIP-848's groups.
func TestShareMember(t *testing.T) {
	k := newShareTalk(t)
	p, _ := k.present(k.only())
	beat := func(group string, epoch int32, code int16, answered int32) string {
		t.Helper()
		request := kmsg.NewPtrShareGroupHeartbeatRequest()
		request.SetVersion(1)
		request.GroupID, request.MemberID, request.MemberEpoch = group, "m", epoch
		answer := request.ResponseKind().(*kmsg.ShareGroupHeartbeatResponse)
		answer.ErrorCode, answer.MemberEpoch = code, answered
		answer.Assignment = &kmsg.ShareGroupHeartbeatResponseAssignment{
			TopicPartitions: []kmsg.ShareGroupHeartbeatResponseAssignmentTopicPartition{
				{TopicID: k.id, Partitions: []int32{3}},
			},
		}
		if held := k.ask(request, answer); held != "" {
			t.Errorf("members of a share group have partitions in common, and one is noted as its own: %s", held)
		}
		return k.members()
	}
	k.expect("of another group", beat("other", 0, 0, 1), "")
	k.expect("joins", beat("g", 0, 0, 1), "1")
	k.expect("is there", beat("g", 1, 0, 1), "1")
	if asked := k.log.of(history.KindJoining); len(asked) != 1 || time.Duration(asked[0].Aux) != brokerSession {
		t.Errorf("the session timeouts asked for are %v", asked)
	}
	p.expire(k.clock.Now()+brokerSession-time.Second, false)
	k.expect("its session goes on", k.members(), "1")
	p.expire(k.clock.Now()+brokerSession, false)
	k.expect("its session is over", k.members(), "1, 0 silent")
	k.expect("it is heard of", beat("g", 1, 0, 1), "1, 0 silent, 1")
	k.expect("fenced", beat("g", 1, kerr.FencedMemberEpoch.Code, 0), "1, 0 silent, 1, 0 fenced")
	k.expect("joins again", beat("g", 0, 0, 4), "1, 0 silent, 1, 0 fenced, 1")
	k.expect("leaves", beat("g", -1, 0, -1), "1, 0 silent, 1, 0 fenced, 1, 0 leave")
}

func setGroupToEarliest(ctx context.Context, t *testing.T, cl *kgo.Client, group string) {
	t.Helper()
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	earliest := "earliest"
	config.Name, config.Value = "share.auto.offset.reset", &earliest
	resource.Configs = append(resource.Configs, config)
	request.Resources = append(request.Resources, resource)
	if response, err := request.RequestWith(ctx, cl); err != nil || response.Resources[0].ErrorCode != 0 {
		t.Fatalf("setting where the group begins: %v %+v", err, response)
	}
}

// expectShareTrace checks that every offset was acquired once with each of the delivery counts 1 and 2, released,
// and accepted.
func expectShareTrace(t *testing.T, r *rig, records int) {
	t.Helper()
	type offset struct {
		partition int32
		at        int64
	}
	counts, how := map[offset][]int32{}, map[offset][]int32{}
	each := func(e history.Event, note map[offset][]int32) {
		for at := e.Offset; at <= e.Aux; at++ {
			note[offset{e.Partition, at}] = append(note[offset{e.Partition, at}], e.N)
		}
	}
	for _, e := range r.log.of(history.KindShareAcquired) {
		each(e, counts)
	}
	var last time.Duration
	for _, e := range r.log.of(history.KindShareAckResponse) {
		if e.Code != 0 || e.Time < last {
			t.Errorf("an acknowledgement was refused, or is out of order: %+v", e)
		}
		last = e.Time
		each(e, how)
	}
	if len(counts) != records {
		t.Errorf("%d offsets were acquired, want %d", len(counts), records)
	}
	for at := range counts {
		if !slices.Equal(counts[at], []int32{1, 2}) ||
			!slices.Equal(how[at], []int32{history.AckRelease, history.AckAccept}) {
			t.Errorf("partition %d offset %d: delivery counts %v, acknowledged as %v", at.partition, at.at, counts[at], how[at])
		}
	}
	if len(r.log.of(history.KindShareSessionEnd)) == 0 {
		t.Error("the consumer was closed and no end of a share session was noted")
	}
}
