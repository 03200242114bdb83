package external

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/cluster/admin"
)

const (
	// replicationFactor of topics that reserve no broker, limited by the number of brokers.
	replicationFactor = 3
	// createLimit bounds CreateTopics.
	createLimit = 20 * time.Second
	leaderPause = 50 * time.Millisecond
	// recordOverhead is larger than the overhead of a batch with a single record.
	recordOverhead = 128

	configMaxMessage = "max.message.bytes"
	configMinInSync  = "min.insync.replicas"
)

// CreateTopics creates topics that do not exist yet, under the run's prefix. It returns when every broker knows a
// leader of each partition. It creates nothing if the cluster would refuse any of them, or accepts only smaller
// records than the run has. If a topic reserves a broker, all are placed explicitly as cluster.Topic says; otherwise
// the cluster places them. The coordinators of groups stay where the cluster placed them, even on a reserved broker.
// The error matches ErrForeign, ErrForbidden or ErrLimit in these cases.
func (k *Kafka) CreateTopics(ctx context.Context, topics []cluster.Topic) error {
	ctx, cancel := context.WithTimeout(ctx, createLimit)
	defer cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return fmt.Errorf("creating topics: %w", ErrClosed)
	}
	if len(topics) == 0 {
		return nil
	}
	for _, step := range []func(context.Context, []cluster.Topic) error{k.mayCreate, k.tryCreating, k.create,
		k.awaitLeaders} {
		if err := step(ctx, topics); err != nil {
			return fmt.Errorf("creating topics: %w", err)
		}
	}
	k.warnOfReserved(ctx, topics)
	return nil
}

// mayCreate rejects topics that the run may not create.
func (k *Kafka) mayCreate(ctx context.Context, topics []cluster.Topic) error {
	var errs []error
	var names []string
	for _, topic := range topics {
		names = append(names, topic.Name)
		switch _, noBroker := k.byNumber(topic.Broker); {
		case !under(k.config.Prefix, topic.Name):
			errs = append(errs, fmt.Errorf("topic %s: %w: on a cluster that others use too, every topic of a run must begin "+
				"with its id (%s): let the subject take its topics from what it is given",
				topic.Name, ErrForeign, k.config.Prefix))
		case topic.Partitions < 1:
			errs = append(errs, fmt.Errorf("topic %s: %d partitions were asked for: 1 or more are possible", topic.Name,
				topic.Partitions))
		case topic.Broker != 0 && noBroker != nil:
			errs = append(errs, fmt.Errorf("topic %s is to lie on broker %d: %w", topic.Name, topic.Broker, noBroker))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	metadata, err := k.metadata(ctx, k.client, names)
	if err != nil {
		return err
	}
	for _, topic := range metadata.Topics {
		switch topic.ErrorCode {
		case kerr.UnknownTopicOrPartition.Code:
		case 0, kerr.LeaderNotAvailable.Code:
			errs = append(errs, fmt.Errorf("topic %s: %w: it exists already, and nothing that exists is touched", *topic.Topic,
				ErrForeign))
		default:
			errs = append(errs, fmt.Errorf("topic %s: %w", *topic.Topic,
				explainTopic(topic.ErrorCode, "", "DESCRIBE on the topic")))
		}
	}
	return errors.Join(errs...)
}

// requester is the whole client, or one broker of the client.
type requester interface {
	Request(context.Context, kmsg.Request) (kmsg.Response, error)
}

// metadata asks for topics by name, or for all of them. The request creates none.
func (k *Kafka) metadata(ctx context.Context, from requester, names []string) (*kmsg.MetadataResponse, error) {
	request := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		request.Topics = append(request.Topics, topic)
	}
	response, err := from.Request(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("asking about topics: %w", err)
	}
	return response.(*kmsg.MetadataResponse), nil
}

// tryCreating lets the cluster check everything without creating anything.
func (k *Kafka) tryCreating(ctx context.Context, topics []cluster.Topic) error {
	answers, err := k.sendCreate(ctx, topics, true)
	if err != nil {
		return err
	}
	var errs []error
	for _, answer := range answers {
		at := slices.IndexFunc(topics, func(t cluster.Topic) bool { return t.Name == answer.Topic })
		if at < 0 {
			continue
		}
		err := explainTopic(answer.ErrorCode, text(answer.ErrorMessage),
			"CREATE on topics with the run's prefix, or on the cluster")
		if err == nil {
			err = k.takesRecords(topics[at], answer.Configs)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("topic %s with %d partitions: %w", answer.Topic, topics[at].Partitions, err))
		}
	}
	return errors.Join(errs...)
}

// takesRecords compares the run's largest record with the topic's limit, as far as the cluster reports it. A limit
// that the scenario itself sets is intentional.
func (k *Kafka) takesRecords(topic cluster.Topic, configs []kmsg.CreateTopicsResponseTopicConfig) error {
	if _, meant := topic.Configs[configMaxMessage]; meant || k.options.LargestRecord == 0 {
		return nil
	}
	for _, config := range configs {
		if config.Name != configMaxMessage || config.Value == nil {
			continue
		}
		limit, err := strconv.Atoi(*config.Value)
		if err == nil && k.options.LargestRecord+recordOverhead > limit {
			return fmt.Errorf("%w: it takes messages of up to %d bytes (%s), and the largest record of the scenario has %d: "+
				"make the scenario's records smaller, or raise the cluster's message.max.bytes",
				ErrLimit, limit, configMaxMessage, k.options.LargestRecord)
		}
	}
	return nil
}

// create records the topics, creates them and records their ids.
func (k *Kafka) create(ctx context.Context, topics []cluster.Topic) error {
	for _, topic := range topics {
		k.ledger.Topics[topic.Name] = ""
	}
	if err := k.note(); err != nil {
		return err
	}
	answers, err := k.sendCreate(ctx, topics, false)
	if err != nil {
		return err // their state is not known, so they stay in the ledger
	}
	var errs []error
	for _, answer := range answers {
		err := explainTopic(answer.ErrorCode, text(answer.ErrorMessage),
			"CREATE on topics with the run's prefix, or on the cluster")
		switch {
		case err == nil:
			k.ledger.Topics[answer.Topic] = topicID(answer.TopicID)
			continue
		case errors.Is(err, ErrForeign): // another user was faster
			delete(k.ledger.Topics, answer.Topic)
		}
		errs = append(errs, fmt.Errorf("topic %s: %w", answer.Topic, err))
	}
	return errors.Join(append(errs, k.note())...)
}

// note writes the ledger, unless everything is to be kept.
func (k *Kafka) note() error {
	if k.config.Keep {
		return nil
	}
	return k.ledger.write()
}

func (k *Kafka) sendCreate(ctx context.Context, topics []cluster.Topic,
	only bool) ([]kmsg.CreateTopicsResponseTopic, error) {
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = int32(createLimit.Milliseconds() / 2)
	request.ValidateOnly = only
	for _, topic := range topics {
		request.Topics = append(request.Topics, k.createRequest(topic, topics))
	}
	response, err := k.client.Request(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("asking the cluster to create them: %w", err)
	}
	return response.(*kmsg.CreateTopicsResponse).Topics, nil
}

func (k *Kafka) createRequest(topic cluster.Topic, all []cluster.Topic) kmsg.CreateTopicsRequestTopic {
	placed := k.placement(topic, all)
	request := admin.Creation(topic, placed)
	if placed == nil {
		request.NumPartitions = int32(topic.Partitions)
		request.ReplicationFactor = int16(min(replicationFactor, len(k.brokers)))
	}
	// A single replica never fulfils a cluster-wide minimum of two, which brokers before 3.7 enforce all the same.
	if _, set := topic.Configs[configMinInSync]; topic.Broker != 0 && !set {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = configMinInSync, kmsg.StringPtr("1")
		request.Configs = append(request.Configs, config)
	}
	return request
}

// placement returns the node ids of each partition's replicas, the leader first. nil leaves the placement to the
// cluster; this is the case if no topic reserves a broker.
func (k *Kafka) placement(topic cluster.Topic, all []cluster.Topic) [][]int32 {
	if !slices.ContainsFunc(all, func(one cluster.Topic) bool { return one.Broker != 0 }) {
		return nil
	}
	var numbers []int32
	for _, broker := range k.brokers {
		numbers = append(numbers, broker.Number)
	}
	placed := admin.Place(topic, admin.Shared(numbers, slices.Values(all)))
	for _, replicas := range placed {
		for i, number := range replicas {
			replicas[i] = k.brokers[number-1].ID
		}
	}
	return placed
}

// awaitLeaders waits until every broker reports a leader of every partition: a client may ask any of them.
func (k *Kafka) awaitLeaders(ctx context.Context, topics []cluster.Topic) error {
	partitions := map[string]int{}
	var names []string
	for _, topic := range topics {
		partitions[topic.Name] = topic.Partitions
		names = append(names, topic.Name)
	}
	for _, broker := range k.brokers {
		for {
			missing := "no answer"
			metadata, err := k.metadata(ctx, k.client.Broker(int(broker.ID)), names)
			if err == nil {
				if missing = leaderless(metadata, partitions); missing == "" {
					break
				}
			}
			if cluster.Sleep(ctx, leaderPause) != nil {
				return fmt.Errorf("waiting until broker %d knows the leaders of all partitions: %s: %w", broker.ID, missing,
					errors.Join(ctx.Err(), err))
			}
		}
	}
	return nil
}

// leaderless names a topic in which some partition has no leader, "" if there is none.
func leaderless(metadata *kmsg.MetadataResponse, partitions map[string]int) string {
	for _, topic := range metadata.Topics {
		led := 0
		for _, partition := range topic.Partitions {
			if partition.ErrorCode == 0 && partition.Leader >= 0 {
				led++
			}
		}
		if want := partitions[text(topic.Topic)]; topic.ErrorCode != 0 || led != want {
			return fmt.Sprintf("%d of %d partitions of topic %s have one", led, want, text(topic.Topic))
		}
	}
	return ""
}

// warnOfReserved warns if the coordinator of the run's group is on a broker that a topic reserves. It cannot be
// moved, because it also coordinates other users' groups.
func (k *Kafka) warnOfReserved(ctx context.Context, topics []cluster.Topic) {
	for _, topic := range topics {
		if topic.Broker == 0 {
			continue
		}
		if node, err := k.coordinator(ctx, k.config.Prefix); err == nil && node == k.brokers[topic.Broker-1].ID {
			k.options.Log.Warn().Msgf("the coordinator of the run's group is on broker %d, which is meant for topic %s alone: "+
				"a fault on it will hit commits too; another run has another group, and likely another coordinator", topic.Broker,
				topic.Name)
		}
	}
}

// coordinator returns the node id of a group's coordinator.
func (k *Kafka) coordinator(ctx context.Context, group string) (int32, error) {
	found := k.admin.FindGroupCoordinators(ctx, group)[group]
	return found.NodeID, found.Err
}

// explainTopic explains the cluster's answer about a topic; nil for no error. needed is the ACL whose absence
// forbids the request.
func explainTopic(code int16, said, needed string) error {
	if said != "" {
		said = ": " + strings.TrimRight(said, ". ")
	}
	switch code {
	case 0:
		return nil
	case kerr.TopicAlreadyExists.Code:
		return fmt.Errorf("%w: it exists already, and nothing that exists is touched", ErrForeign)
	case kerr.TopicAuthorizationFailed.Code, kerr.ClusterAuthorizationFailed.Code:
		return fmt.Errorf("%w%s: dlqbench's user needs %s", ErrForbidden, said, needed)
	case kerr.PolicyViolation.Code:
		return fmt.Errorf("%w: a policy of the cluster (create.topic.policy) is against it%s", ErrForbidden, said)
	case kerr.InvalidPartitions.Code:
		return fmt.Errorf("%w: that number of partitions is not possible there%s", ErrLimit, said)
	case kerr.InvalidReplicationFactor.Code:
		return fmt.Errorf("%w: the replication factor is not possible there%s", ErrLimit, said)
	case kerr.ThrottlingQuotaExceeded.Code:
		return fmt.Errorf("%w: the quota for creating partitions (controller_mutation_rate) is used up%s: try again later, "+
			"or with fewer partitions", ErrLimit, said)
	case kerr.InvalidConfig.Code:
		return fmt.Errorf("%w: a setting of the topic is not possible there%s", ErrLimit, said)
	}
	return fmt.Errorf("the cluster answers %s%s", codeName(code), said)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
