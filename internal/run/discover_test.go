package run

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/tap"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/scenarios"
)

// created is a Kafka that notes the topics that are created, and has one from the beginning.
type created struct {
	kafka
	topics []cluster.Topic
}

const there = "there-already"

func (c *created) CreateTopics(_ context.Context, topics []cluster.Topic) error {
	if topics[0].Name == there {
		return fmt.Errorf("creating topic %s: %w", there, kerr.TopicAlreadyExists)
	}
	c.topics = append(c.topics, topics...)
	return nil
}

type passing struct{}

func (passing) Intercept(*tap.Exchange) tap.Action { return tap.Action{} }

// discover lets a Discovery see requests of an instance, and returns it with the topics that it created.
func discover(provider string, looks bool, instance int, requests ...kmsg.Request) (*Discovery, []cluster.Topic) {
	kafka := &created{}
	scenario := &scenarios.Scenario{}
	scenario.Topics.Input.Partitions = 3
	r := &run{scenario: scenario, options: Options{Cluster: ClusterOptions{Provider: provider}, Log: zerolog.Nop(),
		namesOnly: looks},
		header: history.Header{Topics: []history.Topic{{Name: "r.input"}}}, stage: stage{cluster: &provided{kafka: kafka}}}
	d := &Discovery{Likely: []string{"orders-dlq"}}
	for _, request := range requests {
		discovering{d, r, passing{}}.Intercept(tap.NewExchange(instance, 1, request))
	}
	return d, kafka.topics
}

func asking(topics ...string) *kmsg.MetadataRequest {
	request := kmsg.NewPtrMetadataRequest()
	for _, name := range topics {
		request.Topics = append(request.Topics, kmsg.MetadataRequestTopic{Topic: &name})
	}
	return request
}

func fetching(topics ...string) *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	for _, name := range topics {
		request.Topics = append(request.Topics, kmsg.FetchRequestTopic{Topic: name,
			Partitions: []kmsg.FetchRequestTopicPartition{{}, {Partition: 1}}})
	}
	return request
}

func TestWhatASubjectShows(t *testing.T) {
	joining := kmsg.NewPtrJoinGroupRequest()
	joining.Group, joining.ProtocolType, joining.SessionTimeoutMillis = "shop", "consumer", 45000
	connecting := kmsg.NewPtrJoinGroupRequest()
	connecting.Group, connecting.ProtocolType = "connect-cluster", "connect"
	metadata := kmsg.NewConsumerMemberMetadata()
	metadata.Topics = []string{"orders", "orders-retry"}
	for _, assignor := range []string{"range", "cooperative-sticky"} {
		protocol := kmsg.NewJoinGroupRequestProtocol()
		protocol.Name, protocol.Metadata = assignor, metadata.AppendTo(nil)
		joining.Protocols = append(joining.Protocols, protocol)
	}
	sharing := kmsg.NewPtrShareGroupHeartbeatRequest()
	sharing.GroupID, sharing.SubscribedTopicNames = "shared", []string{"orders"}
	d, topics := discover("", true, 0, asking("orders", "__consumer_offsets", "app-store-changelog", "app-x-repartition",
		"r.input"), asking("orders"), fetching("orders", "r.input"), fetching("orders-retry"), joining, joining,
		connecting, sharing)
	want := Sighting{Read: []string{"orders", "r.input", "orders-retry"},
		Groups: []JoinedGroup{{Name: "shop", Session: 45 * time.Second, Topics: metadata.Topics},
			{Name: "shared", Share: true, Topics: []string{"orders"}}}, Others: nil}
	if seen := d.Seen(); !reflect.DeepEqual(seen, want) {
		t.Errorf("seen %+v, want %+v", seen, want)
	}
	if want := []cluster.Topic{{Name: "orders", Partitions: 3}}; !reflect.DeepEqual(topics, want) {
		t.Errorf("created %v, want %v", topics, want)
	}
}

// A topic that the consumer has created is one that the run does not know, too.
// A client that asks for all topics may never ask for the one that it writes to.
func TestLikelyTopics(t *testing.T) {
	none := asking()
	none.Version, none.Topics = 1, []kmsg.MetadataRequestTopic{}
	oldest := asking()
	oldest.Version, oldest.Topics = 0, []kmsg.MetadataRequestTopic{}
	for _, one := range []struct {
		request *kmsg.MetadataRequest
		looks   bool
		want    int
	}{{asking(), true, 1}, {oldest, true, 1}, {none, true, 0}, {asking(), false, 0}} {
		if _, topics := discover("", one.looks, 0, one.request); len(topics) != one.want {
			t.Errorf("%+v of a first look (%v) creates %v", one.request, one.looks, topics)
		}
	}
}

func TestATopicThatIsThereAlready(t *testing.T) {
	d, topics := discover("", true, 0, asking(there, "orders"))
	if !d.made[there] || !d.made["orders"] || len(topics) != 1 {
		t.Errorf("known %v, created %v", d.made, topics)
	}
}

// What the replay tool does says nothing of the subject. On a cluster that others use nothing is created, nor in a run
// after the first look, in which a topic that the file does not name must be missing as it is later.
func TestWhatIsLeftAlone(t *testing.T) {
	if d, topics := discover("", true, history.Replayer, asking("orders"), fetching("orders")); d.Seen().Read != nil ||
		topics != nil {
		t.Errorf("the replay tool: %+v, created %v", d.Seen(), topics)
	}
	if _, topics := discover(ClusterExternal, true, 0, asking("orders")); topics != nil {
		t.Errorf("created %v on somebody's cluster", topics)
	}
	if d, topics := discover("", false, 0, asking("orders"), fetching("orders")); topics != nil ||
		len(d.Seen().Read) != 1 {
		t.Errorf("created %v after the first look, seen %+v", topics, d.Seen())
	}
}

// The calls are kept with their downstream; only who looks answers those without an id.
func TestCallsAreKept(t *testing.T) {
	if (*Discovery)(nil).observer("x") != nil {
		t.Error("calls are told without a Discovery")
	}
	d := &Discovery{}
	if _, answered := d.observer("bank")(workload.Called{Path: "/a"}); answered {
		t.Error("a call is answered")
	}
	d.Answer = func(call workload.Called) string { return call.Path }
	if body, answered := d.observer("shop")(workload.Called{Path: "/b"}); !answered || body != "/b" {
		t.Errorf("answered %q (%v)", body, answered)
	}
	want := []DownstreamCall{{"bank", workload.Called{Path: "/a"}}, {"shop", workload.Called{Path: "/b"}}}
	if calls := d.Seen().Calls; !slices.EqualFunc(calls, want, func(a, b DownstreamCall) bool {
		return reflect.DeepEqual(a, b)
	}) {
		t.Errorf("kept %+v, want %+v", calls, want)
	}
}
