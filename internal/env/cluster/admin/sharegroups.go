package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
)

// The settings of a share group, and of its dead-letter queue.
const (
	// shareReset says where a share group (KIP-932) begins that has no offsets yet; by default at the ends of its
	// topics.
	shareReset = "share.auto.offset.reset"
	// shareDLQ is the topic to which the broker dead-letters for the group (KIP-1191), shareCopies whether a dead
	// letter has the record's key and value.
	shareDLQ    = "errors.deadletterqueue.topic.name"
	shareCopies = "errors.deadletterqueue.copy.record.enable"
	// TakesShareDLQ is the setting of a topic that takes dead letters which brokers write.
	TakesShareDLQ = "errors.deadletterqueue.group.enable"
	// shareDLQPrefix is the setting of a broker that says how the names of such topics begin; "" is any.
	shareDLQPrefix = "errors.deadletterqueue.topic.name.prefix"
)

// ErrNoShareDLQ is the cause where brokers are to write dead letters and don't.
var ErrNoShareDLQ = errors.New("its broker can't write the dead letters of share groups (KIP-1191)")

// BeginShareGroup makes a share group begin at the start of its topics, as a consumer group's members do by themselves:
// a client can't by its own configuration. With a DLQ topic the brokers dead-letter what its members reject, with the
// records' keys and values if they are to be copied. It returns when every one of the brokers knows: one that leads a
// partition and has not heard of it lets the group begin behind what is there, and those records would never be
// delivered.
func BeginShareGroup(ctx context.Context, client *kgo.Client, group, dlq string, copies bool,
	brokers []cluster.Broker) error {
	settings := map[string]string{shareReset: "earliest"}
	if dlq != "" {
		settings[shareDLQ], settings[shareCopies] = dlq, fmt.Sprint(copies)
	}
	if err := alterGroup(ctx, client, group, kmsg.IncrementalAlterConfigOpSet, settings); err != nil {
		return fmt.Errorf("setting %s of share group %s: %w", named(settings), group, err)
	}
	for _, broker := range brokers {
		if err := awaitSettings(ctx, client.Broker(int(broker.ID)), group, settings); err != nil {
			return fmt.Errorf("waiting until broker %d knows %s of share group %s: %w", broker.Number, named(settings),
				group, err)
		}
	}
	return nil
}

// ForgetShareGroup takes back what BeginShareGroup set: a group's settings outlive it.
func ForgetShareGroup(ctx context.Context, client *kgo.Client, group string) error {
	described, err := describe(ctx, client, kmsg.ConfigResourceTypeGroupConfig, group, nil)
	if err != nil {
		return fmt.Errorf("asking for the settings of share group %s: %w", group, err)
	}
	settings := map[string]string{shareReset: ""}
	if described[shareDLQ] != "" {
		settings[shareDLQ], settings[shareCopies] = "", ""
	}
	if err := alterGroup(ctx, client, group, kmsg.IncrementalAlterConfigOpDelete, settings); err != nil {
		return fmt.Errorf("removing the settings of share group %s: %w", group, err)
	}
	return nil
}

// CanDeadLetter tells whether the brokers write dead letters of share groups to a topic of this name.
func CanDeadLetter(ctx context.Context, client *kgo.Client, dlq string, brokers []cluster.Broker) error {
	for _, broker := range brokers {
		settings, err := describe(ctx, client.Broker(int(broker.ID)), kmsg.ConfigResourceTypeBroker, fmt.Sprint(broker.ID),
			[]string{shareDLQPrefix})
		if err != nil {
			return fmt.Errorf("asking broker %d for %s: %w", broker.Number, shareDLQPrefix, err)
		}
		switch prefix, known := settings[shareDLQPrefix]; {
		case !known:
			return fmt.Errorf("broker %d: %w, and the contract says dlq.written_by: broker: run it on Apache Kafka 4.4 or later",
				broker.Number, ErrNoShareDLQ)
		case !strings.HasPrefix(dlq, prefix):
			return fmt.Errorf("broker %d: %w to %s, as its %s is %q: set that to \"\"", broker.Number, ErrNoShareDLQ, dlq,
				shareDLQPrefix, prefix)
		}
	}
	return nil
}

func named(settings map[string]string) string {
	return strings.Join(slices.Sorted(maps.Keys(settings)), ", ")
}

func alterGroup(ctx context.Context, client *kgo.Client, group string, op kmsg.IncrementalAlterConfigOp,
	settings map[string]string) error {
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	for name, value := range settings {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Op = name, op
		if op == kmsg.IncrementalAlterConfigOpSet {
			config.Value = &value
		}
		resource.Configs = append(resource.Configs, config)
	}
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	for _, altered := range response.Resources {
		if err := kerr.ErrorForCode(altered.ErrorCode); err != nil {
			return err
		}
	}
	return nil
}

// describe returns settings of a group or a broker by their names, all of them where none are named.
func describe(ctx context.Context, to kmsg.Requestor, kind kmsg.ConfigResourceType, of string,
	names []string) (map[string]string, error) {
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kind, of, names
	request := kmsg.NewPtrDescribeConfigsRequest()
	request.Resources = append(request.Resources, resource)
	response, err := request.RequestWith(ctx, to)
	if err != nil {
		return nil, err
	}
	settings := map[string]string{}
	for _, described := range response.Resources {
		for _, config := range described.Configs {
			if config.Value != nil {
				settings[config.Name] = *config.Value
			}
		}
	}
	return settings, nil
}

// awaitSettings waits until the broker says that the group has them.
func awaitSettings(ctx context.Context, broker *kgo.Broker, group string, want map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	names := slices.Sorted(maps.Keys(want))
	for {
		have, err := describe(ctx, broker, kmsg.ConfigResourceTypeGroupConfig, group, names)
		if err != nil {
			return err
		}
		if maps.Equal(have, want) {
			return nil
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
