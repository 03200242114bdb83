package consumer

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Committer commits offsets to the consumer group.
type Committer interface {
	// Commit commits one past the last finished record of each partition and waits for the answer. It returns the partitions
	// whose commit was not accepted, with the reason; what became of those that went unanswered is not known. The consumer
	// commits them again later, as far as it still owns them.
	Commit(ctx context.Context, client *kgo.Client, topic string, offsets map[int32]kgo.EpochOffset) map[int32]error
}

// GroupCommitter commits with the member's generation, so that the coordinator refuses it once the partition was given to another.
type GroupCommitter struct{}

// Commit implements Committer.
func (GroupCommitter) Commit(ctx context.Context, client *kgo.Client, topic string, offsets map[int32]kgo.EpochOffset) map[int32]error {
	failed := make(map[int32]error, len(offsets))
	client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{topic: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
			for partition := range offsets {
				failed[partition] = err
				if err == nil {
					failed[partition] = errUnanswered
				}
			}
			if err == nil {
				readAnswers(failed, response)
			}
		})
	return failed
}

var errUnanswered = errors.New("the coordinator's answer doesn't mention the partition")

// readAnswers replaces what was assumed by what was answered. One topic was asked for, so its name (or id) needn't be compared.
func readAnswers(failed map[int32]error, response *kmsg.OffsetCommitResponse) {
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				failed[partition.Partition] = err
			} else {
				delete(failed, partition.Partition)
			}
		}
	}
}
