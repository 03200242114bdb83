package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/cluster"
)

// shareReset says where a share group (KIP-932) begins that has no offsets yet; by default at the ends of its topics.
const shareReset = "share.auto.offset.reset"

// BeginShareGroup makes a share group begin at the start of its topics, as a consumer group's members do by themselves: a client can't by its own
// configuration. It returns when every one of the brokers knows: one that leads a partition and has not heard of it lets the group begin behind what is there, and
// those records would never be delivered.
func BeginShareGroup(ctx context.Context, client *kgo.Client, group string, brokers []cluster.Broker) error {
	earliest := "earliest"
	if err := alterGroup(ctx, client, group, kmsg.IncrementalAlterConfigOpSet, &earliest); err != nil {
		return fmt.Errorf("setting %s of share group %s: %w", shareReset, group, err)
	}
	for _, broker := range brokers {
		if err := awaitReset(ctx, client.Broker(int(broker.ID)), group, earliest); err != nil {
			return fmt.Errorf("waiting until broker %d knows where share group %s begins: %w", broker.Number, group, err)
		}
	}
	return nil
}

// ForgetShareGroup takes back what BeginShareGroup set: a group's settings outlive it.
func ForgetShareGroup(ctx context.Context, client *kgo.Client, group string) error {
	if err := alterGroup(ctx, client, group, kmsg.IncrementalAlterConfigOpDelete, nil); err != nil {
		return fmt.Errorf("removing the settings of share group %s: %w", group, err)
	}
	return nil
}

func alterGroup(ctx context.Context, client *kgo.Client, group string, op kmsg.IncrementalAlterConfigOp, value *string) error {
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Op, config.Value = shareReset, op, value
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	resource.Configs = append(resource.Configs, config)
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

// awaitReset waits until the broker says that the group begins there.
func awaitReset(ctx context.Context, broker *kgo.Broker, group, value string) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeGroupConfig, group, []string{shareReset}
	request := kmsg.NewPtrDescribeConfigsRequest()
	request.Resources = append(request.Resources, resource)
	for {
		response, err := request.RequestWith(ctx, broker)
		if err != nil {
			return err
		}
		for _, described := range response.Resources {
			for _, config := range described.Configs {
				if config.Name == shareReset && config.Value != nil && *config.Value == value {
					return nil
				}
			}
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
