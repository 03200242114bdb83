package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
)

// The settings of a share group, and of its dead-letter queue.
const (
	// shareReset sets where a share group (KIP-932) without offsets begins; by default at the ends of its topics.
	shareReset = "share.auto.offset.reset"
	// shareDLQ is the topic to which the broker dead-letters for the group (KIP-1191). shareCopies sets whether a dead
	// letter contains the record's key and value.
	shareDLQ    = "errors.deadletterqueue.topic.name"
	shareCopies = "errors.deadletterqueue.copy.record.enable"
	// TakesShareDLQ is the setting of a topic that permits brokers to write dead letters to it.
	TakesShareDLQ = "errors.deadletterqueue.group.enable"
	// shareDLQPrefix is the broker setting for the prefix of such topics' names; "" permits any name.
	shareDLQPrefix = "errors.deadletterqueue.topic.name.prefix"
)

// ErrNoShareDLQ is the cause when brokers should write dead letters and do not.
var ErrNoShareDLQ = errors.New("its broker can't write the dead letters of share groups (KIP-1191)")

// BeginShareGroup makes a share group begin at the start of its topics, as a consumer group's members do by
// themselves; a share group's clients cannot set this in their own configuration. With a DLQ topic, the brokers
// dead-letter the records that members reject, with keys and values if copies is set. It returns when every one of
// the brokers knows the settings. Otherwise a leader that does not know them yet would let the group begin behind
// the existing records, which would then never be delivered.
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

// ForgetShareGroup removes the settings that BeginShareGroup made: a group's settings outlive the group.
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

// CanDeadLetter checks that the brokers write dead letters of share groups to a topic with this name.
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

// describe returns the named settings of a group or a broker, or all of them if none are named.
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

// awaitSettings waits until the broker reports these settings of the group.
func awaitSettings(ctx context.Context, broker *kgo.Broker, group string, want map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	names := slices.Sorted(maps.Keys(want))
	for {
		have, err := describe(ctx, broker, kmsg.ConfigResourceTypeGroupConfig, group, names)
		if err != nil || maps.Equal(have, want) {
			return err
		}
		if err := cluster.Sleep(ctx, poll); err != nil {
			return err
		}
	}
}
