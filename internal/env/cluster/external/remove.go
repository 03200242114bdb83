package external

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/cluster/admin"
)

const (
	// closeLimit bounds Close: a run that ends must not hang on a cluster that is gone.
	closeLimit = 3 * time.Second
	// sweepLimit bounds Sweep.
	sweepLimit = 15 * time.Second
	emptyPause = 100 * time.Millisecond
)

// Close removes everything that the run created: its topics, and the groups under its prefix. Members that a killed
// subject left in a group are removed first. With Config.Keep it removes nothing. Objects that could not be removed
// stay in the ledger, and the error names them. A second call does nothing.
func (k *Kafka) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil
	}
	k.closed = true
	defer k.client.Close()
	if k.config.Keep {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	if _, err := k.removeAll(ctx); err != nil {
		return fmt.Errorf("removing what the run created on the cluster (the next run tries again): %w", err)
	}
	return nil
}

// Sweep removes the remains on a cluster of a run that was killed, or could not clean up. The ledger lists them, and
// is removed when nothing is left. It returns a line for each removed object. Without a ledger there is nothing to
// do. The cluster must be the one that the ledger was written for. Sweep must not be called while that run is in
// progress.
func Sweep(ctx context.Context, config Config, ledgerPath string) (removed []string, err error) {
	ledger, err := readLedger(ledgerPath)
	if ledger == nil || err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	config.Prefix, config.Keep = ledger.Prefix, false
	k, err := open(ctx, config, Options{Ledger: ledgerPath})
	if err != nil {
		return nil, fmt.Errorf("removing what run %s left on its cluster: %w", ledger.Prefix, err)
	}
	defer k.client.Close()
	if k.id != ledger.Cluster {
		return nil, fmt.Errorf("removing what run %s left on its cluster: %w: it ran on cluster %q, and this one is %q",
			ledger.Prefix, ErrForeign, ledger.Cluster, k.id)
	}
	k.ledger = ledger
	if removed, err = k.removeAll(ctx); err != nil {
		err = fmt.Errorf("removing what run %s left on its cluster: %w", ledger.Prefix, err)
	}
	return removed, err
}

// removeAll removes groups and topics, and the ledger if nothing is left.
func (k *Kafka) removeAll(ctx context.Context) (removed []string, err error) {
	if len(k.ledger.Topics) == 0 {
		return nil, k.ledger.remove() // without topics no member could have joined anything
	}
	groups, groupErr := k.removeGroups(ctx)
	topics, topicErr := k.removeTopics(ctx)
	for _, name := range topics {
		delete(k.ledger.Topics, name)
		removed = append(removed, "topic "+name)
	}
	for _, name := range groups {
		removed = append(removed, "group "+name)
	}
	if err := errors.Join(groupErr, topicErr); err != nil {
		return removed, errors.Join(err, k.note())
	}
	return removed, k.ledger.remove()
}

// removeTopics deletes the topics of the ledger. A topic that has another id now was deleted and recreated by
// another user, and is kept.
func (k *Kafka) removeTopics(ctx context.Context) (removed []string, err error) {
	metadata, err := k.metadata(ctx, k.client, nil)
	if err != nil {
		return nil, err
	}
	var doomed, others []string
	for _, topic := range metadata.Topics {
		name := text(topic.Topic)
		id, ours := k.ledger.Topics[name]
		switch now := topicID(topic.TopicID); {
		case ours && (id == "" || now == "" || id == now):
			doomed = append(doomed, name)
		case under(k.config.Prefix, name):
			others = append(others, name)
		}
	}
	if len(others) > 0 {
		k.options.Log.Warn().Strs("topics", others).Msg("topics under the run's prefix that dlqbench did not create stay " +
			"on the cluster: the subject or somebody else made them")
	}
	for name := range k.ledger.Topics {
		if !slices.Contains(doomed, name) { // is gone, or was never created
			delete(k.ledger.Topics, name)
		}
	}
	if len(doomed) == 0 {
		return nil, nil
	}
	removed, err = k.deleteTopics(ctx, doomed)
	k.untilGone(ctx, removed)
	return removed, err
}

// untilGone returns when the answering broker does not list the topics any more, or ctx ends. The controller
// confirms a deletion once it is in its log; each broker lists the topic until it has fetched that (KRaft).
func (k *Kafka) untilGone(ctx context.Context, topics []string) {
	for {
		metadata, err := k.metadata(ctx, k.client, nil)
		listed := func(one kmsg.MetadataResponseTopic) bool { return slices.Contains(topics, text(one.Topic)) }
		if err != nil || !slices.ContainsFunc(metadata.Topics, listed) {
			return
		}
		if cluster.Sleep(ctx, emptyPause) != nil {
			return
		}
	}
}

func (k *Kafka) deleteTopics(ctx context.Context, names []string) (removed []string, err error) {
	slices.Sort(names)
	request := kmsg.NewPtrDeleteTopicsRequest()
	request.TimeoutMillis = int32(closeLimit.Milliseconds())
	request.TopicNames = names // up to version 5
	for _, name := range names {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		request.Topics = append(request.Topics, topic)
	}
	response, err := k.client.Request(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("deleting topics: %w", err)
	}
	var errs []error
	for _, topic := range response.(*kmsg.DeleteTopicsResponse).Topics {
		switch topic.ErrorCode {
		case 0, kerr.UnknownTopicOrPartition.Code:
			removed = append(removed, text(topic.Topic))
		default:
			errs = append(errs, fmt.Errorf("deleting topic %s: %w", text(topic.Topic),
				explainTopic(topic.ErrorCode, text(topic.ErrorMessage), "DELETE on topics with the run's prefix")))
		}
	}
	return removed, errors.Join(errs...)
}

// removeGroups deletes the groups under the run's prefix. A group can be deleted when it has no members.
func (k *Kafka) removeGroups(ctx context.Context) (removed []string, err error) {
	listed, err := k.admin.ListGroups(ctx)
	var groups []string
	for _, group := range listed.Groups() {
		if under(k.config.Prefix, group) {
			groups = append(groups, group)
		}
	}
	if err != nil {
		// a broker did not answer; the groups that others named are removed
		err = fmt.Errorf("looking for the run's groups: %w", err)
	}
	errs := []error{err}
	for _, group := range groups {
		shared, _ := k.admin.DescribeShareGroups(ctx, group) // brokers before 4.1 do not know the request
		if err := k.removeGroup(ctx, group); err != nil {
			errs = append(errs, fmt.Errorf("deleting group %s: %w", group, err))
			continue
		}
		if described, known := shared[group]; known && described.Err == nil {
			errs = append(errs, admin.ForgetShareGroup(ctx, k.client, group))
		}
		removed = append(removed, group)
	}
	return removed, errors.Join(errs...)
}

func (k *Kafka) removeGroup(ctx context.Context, group string) error {
	for {
		_, err := k.admin.DeleteGroup(ctx, group)
		switch {
		case err == nil, errors.Is(err, kerr.GroupIDNotFound):
			return nil
		case errors.Is(err, kerr.GroupAuthorizationFailed):
			return fmt.Errorf("%w: dlqbench's user needs DELETE on groups with the run's prefix", ErrForbidden)
		case !errors.Is(err, kerr.NonEmptyGroup):
			return err
		}
		evicting := k.evict(ctx, group)
		if cluster.Sleep(ctx, emptyPause) != nil {
			return errors.Join(errors.New("it still has members: is the subject still running?"), evicting)
		}
	}
}

// evict removes all members from a group of any kind. Only a killed subject leaves members behind, and they would
// stay until their session times out.
func (k *Kafka) evict(ctx context.Context, group string) error {
	var errs []error
	if described := k.classicMembers(ctx, group); len(described.Members) > 0 {
		described.Group = group
		_, err := k.client.Request(ctx, described)
		errs = append(errs, err)
	}
	if described, err := k.admin.DescribeConsumerGroups(ctx, group); err == nil {
		for _, member := range described[group].Members {
			leave := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			leave.Group, leave.MemberID, leave.MemberEpoch = group, member.MemberID, leavingEpoch
			_, err := k.client.Request(ctx, leave)
			errs = append(errs, err)
		}
	}
	if described, err := k.admin.DescribeShareGroups(ctx, group); err == nil {
		for _, member := range described[group].Members {
			leave := kmsg.NewPtrShareGroupHeartbeatRequest()
			leave.GroupID, leave.MemberID, leave.MemberEpoch = group, member.MemberID, leavingEpoch
			_, err := k.client.Request(ctx, leave)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// leavingEpoch in a heartbeat says that the member leaves (KIP-848, KIP-932).
const leavingEpoch = -1

// classicMembers returns the request that makes all members leave a group of the classic protocol (KIP-345).
func (k *Kafka) classicMembers(ctx context.Context, group string) *kmsg.LeaveGroupRequest {
	leave := kmsg.NewPtrLeaveGroupRequest()
	described, err := k.admin.DescribeGroups(ctx, group)
	if err != nil {
		return leave
	}
	for _, each := range described[group].Members {
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID, member.InstanceID = each.MemberID, each.InstanceID
		leave.Members = append(leave.Members, member)
	}
	return leave
}

// topicID returns a topic's id in Kafka's form, "" for none.
func topicID(id [16]byte) string {
	if id == ([16]byte{}) {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(id[:])
}
