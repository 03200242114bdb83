package tap

import (
	"bytes"
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// matching reports whether a partition of a request is selected; topics come by name or by id.
type matching func(topic string, id [16]byte, number int32) bool

// forge creates a broker's refusal of a request. forged answers the matching partitions with the code. rest is the
// request with the other partitions, nil if there are none. forged is nil if nothing matches or the API's response
// has no error code in that version.
func forge(request kmsg.Request, code int16, matches matching) (forged kmsg.Response, rest kmsg.Request) {
	switch r := request.(type) {
	case *kmsg.ProduceRequest:
		return forgeProduce(r, code, matches)
	case *kmsg.OffsetCommitRequest:
		return forgeCommit(r, code, matches)
	case *kmsg.TxnOffsetCommitRequest:
		return forgeTxnCommit(r, code, matches)
	case *kmsg.AddPartitionsToTxnRequest:
		return forgeAddPartitions(r, code), nil
	case *kmsg.FindCoordinatorRequest:
		return forgeCoordinator(r, code), nil
	}
	return forgeWhole(request, code), nil
}

// split separates the topics of a request by whether their partitions match.
func split[T, P any](topics []T, matches matching, open func(*T) (name string, id [16]byte, all *[]P),
	number func(*P) int32) (hit, kept []T) {
	for _, topic := range topics {
		var in, out []P
		name, id, all := open(&topic)
		for _, p := range *all {
			if matches(name, id, number(&p)) {
				in = append(in, p)
			} else {
				out = append(out, p)
			}
		}
		if len(in) > 0 {
			*all = in
			hit = append(hit, topic)
		}
		if len(out) > 0 {
			*all = out
			kept = append(kept, topic)
		}
	}
	return hit, kept
}

func forgeProduce(r *kmsg.ProduceRequest, code int16, matches matching) (kmsg.Response, kmsg.Request) {
	hit, kept := split(r.Topics, matches,
		func(t *kmsg.ProduceRequestTopic) (string, [16]byte, *[]kmsg.ProduceRequestTopicPartition) {
			return t.Topic, t.TopicID, &t.Partitions
		}, func(p *kmsg.ProduceRequestTopicPartition) int32 { return p.Partition })
	answer, rest := r.ResponseKind().(*kmsg.ProduceResponse), *r
	for _, topic := range hit {
		refused := kmsg.ProduceResponseTopic{Topic: topic.Topic, TopicID: topic.TopicID}
		for _, p := range topic.Partitions {
			one := kmsg.NewProduceResponseTopicPartition()
			one.Partition, one.ErrorCode, one.BaseOffset = p.Partition, code, -1
			refused.Partitions = append(refused.Partitions, one)
		}
		answer.Topics = append(answer.Topics, refused)
	}
	rest.Topics = kept
	return parts(answer, len(hit), &rest, len(kept))
}

func forgeCommit(r *kmsg.OffsetCommitRequest, code int16, matches matching) (kmsg.Response, kmsg.Request) {
	hit, kept := split(r.Topics, matches,
		func(t *kmsg.OffsetCommitRequestTopic) (string, [16]byte, *[]kmsg.OffsetCommitRequestTopicPartition) {
			return t.Topic, t.TopicID, &t.Partitions
		}, func(p *kmsg.OffsetCommitRequestTopicPartition) int32 { return p.Partition })
	answer, rest := r.ResponseKind().(*kmsg.OffsetCommitResponse), *r
	for _, topic := range hit {
		refused := kmsg.OffsetCommitResponseTopic{Topic: topic.Topic, TopicID: topic.TopicID}
		for _, p := range topic.Partitions {
			refused.Partitions = append(refused.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition,
				ErrorCode: code})
		}
		answer.Topics = append(answer.Topics, refused)
	}
	rest.Topics = kept
	return parts(answer, len(hit), &rest, len(kept))
}

func forgeTxnCommit(r *kmsg.TxnOffsetCommitRequest, code int16, matches matching) (kmsg.Response, kmsg.Request) {
	hit, kept := split(r.Topics, matches,
		func(t *kmsg.TxnOffsetCommitRequestTopic) (string, [16]byte, *[]kmsg.TxnOffsetCommitRequestTopicPartition) {
			return t.Topic, t.TopicID, &t.Partitions
		}, func(p *kmsg.TxnOffsetCommitRequestTopicPartition) int32 { return p.Partition })
	answer, rest := r.ResponseKind().(*kmsg.TxnOffsetCommitResponse), *r
	for _, topic := range hit {
		refused := kmsg.TxnOffsetCommitResponseTopic{Topic: topic.Topic, TopicID: topic.TopicID}
		for _, p := range topic.Partitions {
			refused.Partitions = append(refused.Partitions, kmsg.TxnOffsetCommitResponseTopicPartition{Partition: p.Partition,
				ErrorCode: code})
		}
		answer.Topics = append(answer.Topics, refused)
	}
	rest.Topics = kept
	return parts(answer, len(hit), &rest, len(kept))
}

// parts returns a nil interface for an empty part of a split request.
func parts(answer kmsg.Response, answered int, rest kmsg.Request, left int) (kmsg.Response, kmsg.Request) {
	if answered == 0 {
		return nil, nil
	}
	if left == 0 {
		return answer, nil
	}
	return answer, rest
}

// forgeCoordinator refuses a FindCoordinator: the old form as a whole, the new form (from version 4 on) key by key.
func forgeCoordinator(r *kmsg.FindCoordinatorRequest, code int16) kmsg.Response {
	answer := r.ResponseKind().(*kmsg.FindCoordinatorResponse)
	answer.ErrorCode, answer.NodeID, answer.Port = code, -1, -1
	for _, key := range r.CoordinatorKeys {
		answer.Coordinators = append(answer.Coordinators, kmsg.FindCoordinatorResponseCoordinator{Key: key, NodeID: -1,
			Port: -1, ErrorCode: code})
	}
	if r.Version >= 4 && len(r.CoordinatorKeys) == 0 {
		return nil
	}
	return answer
}

// forgeAddPartitions refuses an AddPartitionsToTxn. The coordinator adds all of its partitions or none: up to version
// 3, each is answered with the code; later versions, which only brokers send, have one for the whole request.
func forgeAddPartitions(r *kmsg.AddPartitionsToTxnRequest, code int16) kmsg.Response {
	if r.Version > 3 || len(r.Topics) == 0 {
		return forgeWhole(r, code)
	}
	answer := r.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
	for _, topic := range r.Topics {
		refused := kmsg.AddPartitionsToTxnResponseTopic{Topic: topic.Topic}
		for _, partition := range topic.Partitions {
			refused.Partitions = append(refused.Partitions, kmsg.AddPartitionsToTxnResponseTopicPartition{
				Partition: partition, ErrorCode: code})
		}
		answer.Topics = append(answer.Topics, refused)
	}
	return answer
}

// forgeWhole sets the error code of a response that has one for the whole request. To find out whether a version of
// the response has one, it encodes the response: a code that leaves no trace in the bytes would report success to
// the client.
func forgeWhole(request kmsg.Request, code int16) kmsg.Response {
	answer := request.ResponseKind()
	field := reflect.ValueOf(answer).Elem().FieldByName("ErrorCode")
	if !field.IsValid() || field.Kind() != reflect.Int16 {
		return nil
	}
	if join, ok := answer.(*kmsg.JoinGroupResponse); ok { // a broker returns the member id
		join.MemberID = request.(*kmsg.JoinGroupRequest).MemberID
	}
	before := answer.AppendTo(nil)
	field.SetInt(int64(code))
	if bytes.Equal(before, answer.AppendTo(nil)) {
		return nil
	}
	return answer
}

// merge adds the locally answered partitions to the broker's response.
func merge(response, forged kmsg.Response) {
	switch r := response.(type) {
	case *kmsg.ProduceResponse:
		r.Topics = join(r.Topics, forged.(*kmsg.ProduceResponse).Topics,
			func(t *kmsg.ProduceResponseTopic) (string, [16]byte, *[]kmsg.ProduceResponseTopicPartition) {
				return t.Topic, t.TopicID, &t.Partitions
			})
	case *kmsg.OffsetCommitResponse:
		r.Topics = join(r.Topics, forged.(*kmsg.OffsetCommitResponse).Topics,
			func(t *kmsg.OffsetCommitResponseTopic) (string, [16]byte, *[]kmsg.OffsetCommitResponseTopicPartition) {
				return t.Topic, t.TopicID, &t.Partitions
			})
	case *kmsg.TxnOffsetCommitResponse:
		r.Topics = join(r.Topics, forged.(*kmsg.TxnOffsetCommitResponse).Topics,
			func(t *kmsg.TxnOffsetCommitResponseTopic) (string, [16]byte, *[]kmsg.TxnOffsetCommitResponseTopicPartition) {
				return t.Topic, t.TopicID, &t.Partitions
			})
	}
}

// join adds partitions to the topics that they belong to. A broker answers each topic once, and clients rely on it: kgo
// ignores an answer with more topics than it named, and sarama the first of two entries for one topic.
func join[T, P any](topics, more []T, open func(*T) (name string, id [16]byte, all *[]P)) []T {
next:
	for _, one := range more {
		name, id, added := open(&one)
		for i := range topics {
			if topic, number, all := open(&topics[i]); topic == name && number == id {
				*all = append(*all, *added...)
				continue next
			}
		}
		topics = append(topics, one)
	}
	return topics
}
