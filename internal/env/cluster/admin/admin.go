package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
)

const (
	// poll is the interval at which the cluster is asked whether a change has taken effect.
	poll = 20 * time.Millisecond
	// answerLimit bounds one request; a paused broker answers none.
	answerLimit = 5 * time.Second
	// settleLimit bounds the wait for changes that a healthy cluster makes in well under a second.
	settleLimit = 30 * time.Second
)

// Admin administers one cluster. It is safe for concurrent use.
type Admin struct {
	// ShareGroups says that the brokers have share groups, whose state is in one of Kafka's own topics.
	ShareGroups bool

	client   *kgo.Client
	requests *kadm.Client
	brokers  []cluster.Broker

	mu sync.Mutex
	// topics are the topics that were created here, by name.
	topics map[string]cluster.Topic
	// homes are the replicas of partitions before their leaders were moved.
	homes map[partitionID][]int32
}

type partitionID struct {
	topic     string
	partition int32
}

// Partition is a partition as the cluster describes it, with brokers by number.
type Partition struct {
	Topic     string
	Partition int32
	// Leader is 0 when the partition has no leader.
	Leader        int32
	Replicas, ISR []int32
}

func (p Partition) id() partitionID { return partitionID{p.Topic, p.Partition} }

// New returns an Admin for the cluster of these brokers. The client remains the caller's. It should not retry for
// long, because every wait here repeats its request.
func New(client *kgo.Client, brokers []cluster.Broker) *Admin {
	requests := kadm.NewClient(client)
	requests.SetTimeoutMillis(int32(settleLimit.Milliseconds()))
	return &Admin{client: client, requests: requests, brokers: brokers, topics: map[string]cluster.Topic{},
		homes: map[partitionID][]int32{}}
}

func (a *Admin) numbers() (numbers []int32) {
	for _, broker := range a.brokers {
		numbers = append(numbers, broker.Number)
	}
	return numbers
}

// id returns the node id of a broker's number.
func (a *Admin) id(number int32) int32 {
	for _, broker := range a.brokers {
		if broker.Number == number {
			return broker.ID
		}
	}
	return -1
}

// number returns the number of a node id, 0 if the id is not in the cluster.
func (a *Admin) number(id int32) int32 {
	for _, broker := range a.brokers {
		if broker.ID == id {
			return broker.Number
		}
	}
	return 0
}

func (a *Admin) ids(numbers []int32) []int32 { return mapped(numbers, a.id) }

func mapped(from []int32, to func(int32) int32) []int32 {
	result := make([]int32, 0, len(from))
	for _, one := range from {
		result = append(result, to(one))
	}
	return result
}

// WaitBrokers returns once each of the brokers with these numbers (all, if there are none) answers and says that all
// of them are present.
func (a *Admin) WaitBrokers(ctx context.Context, numbers ...int32) error {
	if len(numbers) == 0 {
		numbers = a.numbers()
	}
	return wait(ctx, "the brokers to find each other", func(ctx context.Context) string {
		for _, number := range numbers {
			metadata, err := a.metadata(ctx, number, []string{})
			if err != nil {
				return fmt.Sprintf("broker %d does not answer: %v", number, err)
			}
			for _, other := range numbers {
				if !slices.ContainsFunc(metadata.Brokers, func(b kmsg.MetadataResponseBroker) bool {
					return b.NodeID == a.id(other)
				}) {
					return fmt.Sprintf("broker %d does not know broker %d", number, other)
				}
			}
		}
		return ""
	})
}

// metadata asks one broker, or any if number is 0, for topics: all if topics is nil, none if it is empty.
func (a *Admin) metadata(ctx context.Context, number int32, topics []string) (*kmsg.MetadataResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	request := kmsg.NewPtrMetadataRequest()
	if topics != nil {
		request.Topics = []kmsg.MetadataRequestTopic{}
	}
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		request.Topics = append(request.Topics, topic)
	}
	if number == 0 {
		return request.RequestWith(ctx, a.client)
	}
	return request.RequestWith(ctx, a.client.Broker(int(a.id(number))))
}

// Partitions returns, in order, the partitions of the topics that were created here, without Kafka's own, as the
// broker with this number (any, if it is 0) knows them. Brokers learn of changes one after the other.
func (a *Admin) Partitions(ctx context.Context, number int32) ([]Partition, error) {
	a.mu.Lock()
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(a.topics)), internal)
	a.mu.Unlock()
	return a.partitionsOf(ctx, number, names)
}

// partitionsOf asks one broker, or any if number is 0.
func (a *Admin) partitionsOf(ctx context.Context, number int32, names []string) ([]Partition, error) {
	if len(names) == 0 {
		return nil, nil
	}
	metadata, err := a.metadata(ctx, number, names)
	if err != nil {
		return nil, fmt.Errorf("asking for the topics: %w", err)
	}
	var partitions []Partition
	for _, topic := range metadata.Topics {
		name := *topic.Topic // was requested by name
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			return nil, fmt.Errorf("asking for topic %s: %w", name, err)
		}
		for _, p := range topic.Partitions {
			partitions = append(partitions, Partition{
				Topic: name, Partition: p.Partition, Leader: a.number(p.Leader), Replicas: mapped(p.Replicas, a.number),
				ISR: mapped(p.ISR, a.number),
			})
		}
	}
	slices.SortFunc(partitions, func(x, y Partition) int {
		return cmp.Or(cmp.Compare(x.Topic, y.Topic), cmp.Compare(x.Partition, y.Partition))
	})
	return partitions, nil
}

// wait calls ask until nothing is left to wait for. When it gives up, the error says what was left.
func wait(ctx context.Context, what string, ask func(context.Context) (left string)) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	var last string
	for {
		left := ask(ctx)
		if left == "" {
			return nil
		}
		if ctx.Err() == nil || last == "" {
			last = left
		}
		if err := cluster.Sleep(ctx, poll); err != nil {
			return fmt.Errorf("waiting for %s: %s (%w)", what, last, err)
		}
	}
}

// refusal turns an error code and its message into an error; nil if the code reports none.
func refusal(code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err != nil && message != nil && *message != "" {
		return fmt.Errorf("%w: %s", err, *message)
	}
	return err
}

// isRefusal reports whether an error is one of the given Kafka errors.
func isRefusal(err error, one ...*kerr.Error) bool {
	return slices.ContainsFunc(one, func(e *kerr.Error) bool { return errors.Is(err, e) })
}
