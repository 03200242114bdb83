package run

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/cluster/admin"
	"github.com/dlqbench/dlqbench/scenarios"
)

// Share groups (KIP-932): where the run's share group begins, and how far it has progressed.

// shareFetchKey is ShareFetch's API key. shareFetchPreview is its first version that is not reserved for Kafka's own
// developers.
const shareFetchKey, shareFetchPreview = 78, 1

// ErrNoProtocol is the cause when the subject joins its group by a protocol that the cluster does not have.
var ErrNoProtocol = errors.New("the group protocol is not there")

// sharing reports whether the subject consumes through a share group.
func (r *run) sharing() bool { return r.header.Contract().GroupType == history.GroupShare }

// beginGroup makes the run's share group begin at the start of its topics. The error is ErrNoProtocol if the cluster
// does not support the protocol by which the subject joins its group.
func (r *run) beginGroup(ctx context.Context, client *kgo.Client) error {
	if !r.sharing() {
		return r.canAssign(ctx, client)
	}
	if err := r.canShare(ctx); err != nil {
		return err
	}
	contract, dlq := r.header.Contract(), ""
	if contract.BrokerLetters {
		dlq = r.topic(history.RoleDLQ)
	}
	return admin.BeginShareGroup(ctx, client, r.header.Group(), dlq, !contract.ChangesKey || !contract.ChangesValue,
		r.cluster.Brokers())
}

// takesDeadLetters returns the settings of the DLQ topic. A topic to which brokers write dead letters must permit that.
func (r *run) takesDeadLetters(ctx context.Context, client *kgo.Client, dlq string) (map[string]string, error) {
	if !r.header.Contract().BrokerLetters {
		return nil, nil
	}
	return map[string]string{admin.TakesShareDLQ: "true"}, admin.CanDeadLetter(ctx, client, dlq, r.cluster.Brokers())
}

// canShare checks that the brokers support share groups and have them turned on.
func (r *run) canShare(ctx context.Context) error {
	lacks, err := r.lacks(ctx, shareFetchKey, shareFetchPreview)
	if err == nil && lacks {
		return fmt.Errorf("%w (share groups, KIP-932), and the subject's contract says group_type: share: run it on "+
			"Apache Kafka 4.1 or later, with share.version=1", ErrNoProtocol)
	}
	return err
}

// lacks reports whether a broker does not list the API, or only older versions of it.
func (r *run) lacks(ctx context.Context, key, version int16) (bool, error) {
	versions, err := r.admin.ApiVersions(ctx)
	if err != nil {
		return false, fmt.Errorf("asking the brokers for their versions: %w", err)
	}
	return slices.ContainsFunc(versions.Sorted(), func(of kadm.BrokerApiVersions) bool {
		newest, known := of.KeyMaxVersion(key)
		return !known || newest < version
	}), nil
}

// canAssign fails with ErrNoProtocol if the subject relies on the brokers to assign partitions, and they do not. Their
// request versions prove little: Kafka 3.9 lists ConsumerGroupDescribe and refuses it by default, and 4.1 does so with
// StreamsGroupDescribe. Errors other than that refusal do not answer the question: the run will show them.
func (r *run) canAssign(ctx context.Context, client *kgo.Client) error {
	switch group := r.header.Group(); r.groupProtocol() {
	case consumer.ProtocolConsumer:
		described, err := r.admin.DescribeConsumerGroups(ctx, group)
		if err == nil {
			err = described[group].Err
		}
		if errors.Is(err, kerr.UnsupportedVersion) {
			return fmt.Errorf("%w (KIP-848), and the subject's settings say group_protocol: consumer: run it on Apache "+
				"Kafka 4.0 or later, with group.version=1", ErrNoProtocol)
		}
	case scenarios.ProtocolStreams:
		request := kmsg.NewPtrStreamsGroupDescribeRequest()
		request.Groups = []string{group}
		lacks, err := r.lacks(ctx, request.Key(), 0)
		if err != nil {
			return err
		}
		described, err := request.RequestWith(ctx, client)
		if lacks || err == nil && slices.ContainsFunc(described.Groups, func(g kmsg.StreamsGroupDescribeResponseGroup) bool {
			return g.ErrorCode == kerr.UnsupportedVersion.Code
		}) {
			return fmt.Errorf("%w (KIP-1071), and the subject's contract says group_protocol: streams: run it on Apache "+
				"Kafka 4.2 or later (--cluster process)", ErrNoProtocol)
		}
	}
	return nil
}

func (r *run) groupProtocol() string {
	switch {
	case r.options.Subject != nil:
		return r.options.Subject.Contract.GroupProtocol
	case r.scenario.Subject.Reference != nil:
		return r.scenario.Subject.Reference.GroupProtocol
	}
	return ""
}

// progress returns the progress of the subject's group: its committed offsets or, in a share group, the offsets
// before which every record is settled. The broker's own answer lags behind: Kafka 4.1 writes down the new start of
// a partition with the next acknowledgement, which may never come. So progress adds later acknowledgements that the
// tap saw. A group that does not exist, or is of the other kind, has made no progress; the checkers report that.
func (r *run) progress(ctx context.Context) (kadm.OffsetResponses, error) {
	if !r.sharing() {
		return r.committed(ctx)
	}
	group := r.header.Group()
	described, err := r.admin.DescribeShareGroupOffsets(ctx, group)
	if err == nil {
		err = described[group].Err
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		return kadm.OffsetResponses{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking how far share group %s is: %w", group, err)
	}
	offsets := kadm.OffsetResponses{}
	for topic, partitions := range described[group].Offsets {
		offsets[topic] = map[int32]kadm.OffsetResponse{}
		for number, one := range partitions {
			offsets[topic][number] = kadm.OffsetResponse{
				Offset: kadm.Offset{Topic: topic, Partition: number, At: r.shareReached(topic, number, one.StartOffset),
					LeaderEpoch: one.LeaderEpoch}, Err: one.Err,
			}
		}
	}
	return offsets, nil
}

func (r *run) shareReached(topic string, partition int32, start int64) int64 {
	index := r.header.TopicIndex(topic)
	if index < 0 || r.header.Topics[index].Role != history.RoleInput {
		return start
	}
	return r.live.partitions.takenFrom(index, partition, start)
}
