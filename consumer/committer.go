package consumer

import (
	"cmp"
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// Mark is the position to commit for a partition.
type Mark struct {
	// Offset is one past the last record of the finished prefix. Epoch is that record's leader epoch (-1: unknown).
	Offset int64
	Epoch  int32
	// Metadata is committed with the offset; "" unless Settings.OffsetMetadata is set.
	Metadata string
}

// Committer commits offsets to the consumer group.
type Committer interface {
	// Commit commits the marks and waits for the response. It returns the partitions whose commit was not accepted,
	// with the reason. The result of commits without a response is unknown. The consumer commits the returned
	// partitions again later if it still owns them.
	Commit(ctx context.Context, client *kgo.Client, marks map[TopicPartition]Mark) map[TopicPartition]error
}

// GroupCommitter commits with the member's generation, so the coordinator rejects the commit after the partition was
// assigned to another member.
type GroupCommitter struct{}

// Commit implements Committer.
func (GroupCommitter) Commit(ctx context.Context, client *kgo.Client,
	marks map[TopicPartition]Mark) map[TopicPartition]error {
	failed := make(map[TopicPartition]error, len(marks))
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for at, mark := range marks {
		failed[at] = errUnanswered
		if offsets[at.Topic] == nil {
			offsets[at.Topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[at.Topic][at.Partition] = kgo.EpochOffset{Epoch: mark.Epoch, Offset: mark.Offset}
	}
	ctx = kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		addMetadata(request, marks)
		return nil
	})
	client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, request *kmsg.OffsetCommitRequest,
		response *kmsg.OffsetCommitResponse, err error) {
		if err == nil {
			readAnswers(failed, request, response)
			return
		}
		for at := range marks {
			failed[at] = err
		}
	})
	return failed
}

func addMetadata(request *kmsg.OffsetCommitRequest, marks map[TopicPartition]Mark) {
	for i := range request.Topics {
		topic := &request.Topics[i]
		for j := range topic.Partitions {
			metadata := marks[TopicPartition{topic.Topic, topic.Partitions[j].Partition}].Metadata
			topic.Partitions[j].Metadata = &metadata
		}
	}
}

var errUnanswered = errors.New("the coordinator's answer doesn't mention the partition")

// readAnswers replaces the assumed results with the actual responses. From version 10, a response identifies topics
// by id, which the request knows.
func readAnswers(failed map[TopicPartition]error, request *kmsg.OffsetCommitRequest,
	response *kmsg.OffsetCommitResponse) {
	names := make(map[[16]byte]string, len(request.Topics))
	for _, topic := range request.Topics {
		names[topic.TopicID] = topic.Topic
	}
	for _, topic := range response.Topics {
		name := cmp.Or(topic.Topic, names[topic.TopicID])
		for _, partition := range topic.Partitions {
			at := TopicPartition{name, partition.Partition}
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				failed[at] = err
			} else {
				delete(failed, at)
			}
		}
	}
}
