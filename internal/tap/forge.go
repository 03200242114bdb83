package tap

import (
	"bytes"
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// forge makes a broker's refusal of a request: forged answers the partitions that match with the code, rest is the request with the
// others, nil when there are none. forged is nil when nothing matches or the API's response has no error code.
func forge(request kmsg.Request, code int16, matches func(topic string, id [16]byte, number int32) bool) (forged kmsg.Response, rest kmsg.Request) {
	switch r := request.(type) {
	case *kmsg.ProduceRequest:
		return forgeProduce(r, code, matches)
	case *kmsg.OffsetCommitRequest:
		return forgeCommit(r, code, matches)
	case *kmsg.TxnOffsetCommitRequest:
		return forgeTxnCommit(r, code, matches)
	}
	return forgeWhole(request, code), nil
}

func forgeProduce(r *kmsg.ProduceRequest, code int16, matches func(string, [16]byte, int32) bool) (kmsg.Response, kmsg.Request) {
	answer := kmsg.NewPtrProduceResponse()
	answer.SetVersion(r.Version)
	rest := *r
	rest.Topics = nil
	for _, topic := range r.Topics {
		refused := kmsg.NewProduceResponseTopic()
		refused.Topic, refused.TopicID = topic.Topic, topic.TopicID
		kept := topic
		kept.Partitions = nil
		for _, p := range topic.Partitions {
			if !matches(topic.Topic, topic.TopicID, p.Partition) {
				kept.Partitions = append(kept.Partitions, p)
				continue
			}
			one := kmsg.NewProduceResponseTopicPartition()
			one.Partition, one.ErrorCode, one.BaseOffset = p.Partition, code, -1
			refused.Partitions = append(refused.Partitions, one)
		}
		if len(refused.Partitions) > 0 {
			answer.Topics = append(answer.Topics, refused)
		}
		if len(kept.Partitions) > 0 {
			rest.Topics = append(rest.Topics, kept)
		}
	}
	return parts(answer, len(answer.Topics), &rest, len(rest.Topics))
}

func forgeCommit(r *kmsg.OffsetCommitRequest, code int16, matches func(string, [16]byte, int32) bool) (kmsg.Response, kmsg.Request) {
	answer := kmsg.NewPtrOffsetCommitResponse()
	answer.SetVersion(r.Version)
	rest := *r
	rest.Topics = nil
	for _, topic := range r.Topics {
		refused := kmsg.NewOffsetCommitResponseTopic()
		refused.Topic, refused.TopicID = topic.Topic, topic.TopicID
		kept := topic
		kept.Partitions = nil
		for _, p := range topic.Partitions {
			if !matches(topic.Topic, topic.TopicID, p.Partition) {
				kept.Partitions = append(kept.Partitions, p)
				continue
			}
			one := kmsg.NewOffsetCommitResponseTopicPartition()
			one.Partition, one.ErrorCode = p.Partition, code
			refused.Partitions = append(refused.Partitions, one)
		}
		if len(refused.Partitions) > 0 {
			answer.Topics = append(answer.Topics, refused)
		}
		if len(kept.Partitions) > 0 {
			rest.Topics = append(rest.Topics, kept)
		}
	}
	return parts(answer, len(answer.Topics), &rest, len(rest.Topics))
}

func forgeTxnCommit(r *kmsg.TxnOffsetCommitRequest, code int16, matches func(string, [16]byte, int32) bool) (kmsg.Response, kmsg.Request) {
	answer := kmsg.NewPtrTxnOffsetCommitResponse()
	answer.SetVersion(r.Version)
	rest := *r
	rest.Topics = nil
	for _, topic := range r.Topics {
		refused := kmsg.NewTxnOffsetCommitResponseTopic()
		refused.Topic, refused.TopicID = topic.Topic, topic.TopicID
		kept := topic
		kept.Partitions = nil
		for _, p := range topic.Partitions {
			if !matches(topic.Topic, topic.TopicID, p.Partition) {
				kept.Partitions = append(kept.Partitions, p)
				continue
			}
			one := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			one.Partition, one.ErrorCode = p.Partition, code
			refused.Partitions = append(refused.Partitions, one)
		}
		if len(refused.Partitions) > 0 {
			answer.Topics = append(answer.Topics, refused)
		}
		if len(kept.Partitions) > 0 {
			rest.Topics = append(rest.Topics, kept)
		}
	}
	return parts(answer, len(answer.Topics), &rest, len(rest.Topics))
}

// parts returns nil, as an interface, for the part of a split request that is empty.
func parts(answer kmsg.Response, answered int, rest kmsg.Request, left int) (kmsg.Response, kmsg.Request) {
	if answered == 0 {
		return nil, nil
	}
	if left == 0 {
		return answer, nil
	}
	return answer, rest
}

// forgeWhole sets the error code of a response that has one for the whole request. Whether a version of it has one is seen by
// encoding it: a code that leaves no trace in the bytes would tell the client that all went well.
func forgeWhole(request kmsg.Request, code int16) kmsg.Response {
	answer := request.ResponseKind()
	if fill, ok := answer.(interface{ Default() }); ok {
		fill.Default()
	}
	answer.SetVersion(request.GetVersion())
	field := reflect.ValueOf(answer).Elem().FieldByName("ErrorCode")
	if !field.IsValid() || field.Kind() != reflect.Int16 {
		return nil
	}
	before := answer.AppendTo(nil)
	field.SetInt(int64(code))
	if bytes.Equal(before, answer.AppendTo(nil)) {
		return nil
	}
	return answer
}

// CanAnswer reports whether requests of the API can be answered with an error code in the broker's place, at least in the newest version.
func CanAnswer(key int16) bool {
	switch key {
	case keyProduce, keyOffsetCommit, keyTxnOffsetCommit:
		return true
	}
	request := kmsg.RequestForKey(key)
	if request == nil {
		return false
	}
	request.SetVersion(request.MaxVersion())
	return forgeWhole(request, -1) != nil
}

// merge completes the broker's response with the partitions that were answered here.
func merge(response, forged kmsg.Response) {
	switch r := response.(type) {
	case *kmsg.ProduceResponse:
	next:
		for _, topic := range forged.(*kmsg.ProduceResponse).Topics {
			for i := range r.Topics {
				if r.Topics[i].Topic == topic.Topic && r.Topics[i].TopicID == topic.TopicID {
					r.Topics[i].Partitions = append(r.Topics[i].Partitions, topic.Partitions...)
					continue next
				}
			}
			r.Topics = append(r.Topics, topic)
		}
	case *kmsg.OffsetCommitResponse:
		r.Topics = append(r.Topics, forged.(*kmsg.OffsetCommitResponse).Topics...)
	case *kmsg.TxnOffsetCommitResponse:
		r.Topics = append(r.Topics, forged.(*kmsg.TxnOffsetCommitResponse).Topics...)
	}
}
