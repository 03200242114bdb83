package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
)

// Kafka's own topics.
const (
	offsetsTopic      = "__consumer_offsets"
	transactionsTopic = "__transaction_state"
	shareTopic        = "__share_group_state"
)

// The partition counts of Kafka's own topics, as CreateTopics creates them. The brokers' settings must have the
// same numbers.
const (
	OffsetsPartitions      = 6
	TransactionsPartitions = 3
	ShareStatePartitions   = 3
)

// internal reports whether a topic is one of Kafka's own.
func internal(name string) bool { return strings.HasPrefix(name, "__") }

// internalTopics returns the topics in which Kafka keeps groups, transactions and (from 4.1 on) the state of share
// groups, with the settings that brokers give them. If they are created along with the first topics, they are placed
// on brokers that those leave free, and the first group need not wait.
func internalTopics(shareGroups bool) []cluster.Topic {
	topics := []cluster.Topic{
		{Name: offsetsTopic, Partitions: OffsetsPartitions, Configs: map[string]string{
			"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600",
		}},
		{Name: transactionsTopic, Partitions: TransactionsPartitions, Configs: map[string]string{
			"cleanup.policy": "compact", "compression.type": "uncompressed", "segment.bytes": "104857600",
			"unclean.leader.election.enable": "false",
		}},
	}
	if shareGroups {
		topics = append(topics, cluster.Topic{Name: shareTopic, Partitions: ShareStatePartitions, Configs: map[string]string{
			"cleanup.policy": "delete", "retention.ms": "-1", "compression.type": "uncompressed", "segment.bytes": "104857600",
		}})
	}
	return topics
}

// CreateTopics creates topics in their prescribed places; the first call also creates Kafka's own. It returns once
// every broker knows the preferred leader of each of their partitions as the leader. It moves topics created earlier
// off a broker that these topics reserve, and existing topics of Kafka's own to their prescribed places.
func (a *Admin) CreateTopics(ctx context.Context, topics []cluster.Topic) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, created := a.topics[offsetsTopic]; !created {
		topics = append(internalTopics(a.ShareGroups), topics...)
	}
	known := maps.Clone(a.topics)
	for _, topic := range topics {
		if err := validate(topic, a.numbers()); err != nil {
			return err
		}
		known[topic.Name] = topic
	}
	free := Shared(a.numbers(), maps.Values(known))
	moving, err := a.create(ctx, tolerant(topics, free), free)
	if err != nil {
		return err
	}
	if !slices.Equal(free, Shared(a.numbers(), maps.Values(a.topics))) {
		moving = append(moving, slices.Collect(maps.Values(a.topics))...)
	}
	if len(moving) > 0 {
		if err := a.moveTo(ctx, moving, free); err != nil {
			return fmt.Errorf("moving topics off reserved brokers: %w", err)
		}
	}
	a.topics = known
	return a.waitPlaced(ctx, topics, free)
}

// create creates topics and returns those that existed already.
func (a *Admin) create(ctx context.Context, topics []cluster.Topic,
	free []int32) (existing []cluster.Topic, err error) {
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = int32(settleLimit.Milliseconds())
	byName := map[string]cluster.Topic{}
	for _, topic := range topics {
		byName[topic.Name] = topic
		request.Topics = append(request.Topics, a.creation(topic, free))
	}
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	response, err := request.RequestWith(ctx, a.client)
	if err != nil {
		return nil, fmt.Errorf("creating topics: %w", err)
	}
	var errs []error
	for _, topic := range response.Topics {
		err := refusal(topic.ErrorCode, topic.ErrorMessage)
		switch {
		case isRefusal(err, kerr.TopicAlreadyExists) && internal(topic.Topic):
			existing = append(existing, byName[topic.Topic])
		case err != nil:
			errs = append(errs, fmt.Errorf("creating topic %s: %w", topic.Topic, err))
		}
	}
	return existing, errors.Join(errs...)
}

func (a *Admin) creation(topic cluster.Topic, free []int32) kmsg.CreateTopicsRequestTopic {
	placed := Place(topic, free)
	for p, replicas := range placed {
		placed[p] = a.ids(replicas)
	}
	return Creation(topic, placed)
}

// Creation is the request for a topic whose partitions lie on the brokers with these ids.
func Creation(topic cluster.Topic, placed [][]int32) kmsg.CreateTopicsRequestTopic {
	creation := kmsg.NewCreateTopicsRequestTopic()
	creation.Topic, creation.NumPartitions, creation.ReplicationFactor = topic.Name, -1, -1
	for p, replicas := range placed {
		assignment := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		assignment.Partition, assignment.Replicas = int32(p), replicas
		creation.ReplicaAssignment = append(creation.ReplicaAssignment, assignment)
	}
	for _, name := range slices.Sorted(maps.Keys(topic.Configs)) {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = name, kmsg.StringPtr(topic.Configs[name])
		creation.Configs = append(creation.Configs, config)
	}
	return creation
}

// moveTo moves existing topics to their prescribed places.
func (a *Admin) moveTo(ctx context.Context, topics []cluster.Topic, free []int32) error {
	assignments := map[partitionID][]int32{}
	for _, topic := range topics {
		for p, replicas := range Place(topic, free) {
			assignments[partitionID{topic.Name, int32(p)}] = replicas
		}
	}
	if err := a.reassign(ctx, assignments); err != nil {
		return err
	}
	return a.elect(ctx, assignments)
}

// waitPlaced waits until every broker says that each partition is led by its preferred leader. A broker that does
// not know a topic yet would tell a client that the topic does not exist.
func (a *Admin) waitPlaced(ctx context.Context, topics []cluster.Topic, free []int32) error {
	wanted := map[partitionID]int32{}
	var names []string
	for _, topic := range topics {
		names = append(names, topic.Name)
		for p, replicas := range Place(topic, free) {
			wanted[partitionID{topic.Name, int32(p)}] = replicas[0]
		}
	}
	return wait(ctx, "the new topics' leaders", func(ctx context.Context) string {
		for _, broker := range a.brokers {
			partitions, err := a.partitionsOf(ctx, broker.Number, names)
			if err != nil {
				return fmt.Sprintf("broker %d: %v", broker.Number, err)
			}
			led := 0
			for _, p := range partitions {
				if leader, asked := wanted[p.id()]; asked && p.Leader == leader {
					led++
				}
			}
			if led < len(wanted) {
				return fmt.Sprintf("broker %d knows the leaders of %d of %d partitions", broker.Number, led, len(wanted))
			}
		}
		return ""
	})
}
