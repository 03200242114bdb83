package run

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/testkit/kafkatest"
	"github.com/dlqbench/dlqbench/scenarios"
)

// TestProtocolsAreRefusedWhereTheyAreNot checks that a group protocol is refused that the broker does not have. Kafka
// 3.9 answers a query about a group of KIP-848 with UNSUPPORTED_VERSION although it lists the request, and so does 4.1
// with one of Kafka Streams. A broker that assigns partitions answers that it does not know the group yet, or that it
// is not its coordinator.
func TestProtocolsAreRefusedWhereTheyAreNot(t *testing.T) {
	for name, test := range map[string]struct {
		protocol string
		answer   *kerr.Error
		refused  bool
	}{
		"not there":          {consumer.ProtocolConsumer, kerr.UnsupportedVersion, true},
		"there":              {consumer.ProtocolConsumer, kerr.GroupIDNotFound, false},
		"not needed":         {consumer.ProtocolClassic, kerr.UnsupportedVersion, false},
		"not to be asked":    {consumer.ProtocolConsumer, kerr.GroupAuthorizationFailed, false},
		"share, not needed":  {consumer.ProtocolShare, kerr.UnsupportedVersion, false},
		"streams, not there": {scenarios.ProtocolStreams, kerr.UnsupportedVersion, true},
		"streams, there":     {scenarios.ProtocolStreams, kerr.NotCoordinator, false},
		"streams, unknown":   {scenarios.ProtocolStreams, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			fake, client := kafkatest.Start(t, &kafkatest.Log{}, 1, []string{"in"})
			fake.Control(func(asked kmsg.Request) (kmsg.Response, error, bool) {
				fake.KeepControl()
				answer, is := aboutGroup(asked, test.answer)
				return answer, nil, is
			})
			r := &run{header: history.Header{Consumers: []history.Consumer{{Group: "g"}}},
				stage:   stage{admin: kadm.NewClient(client)},
				options: Options{Subject: &scenarios.SubjectFile{Contract: scenarios.ContractSpec{GroupProtocol: test.protocol}}}}
			if err := r.canAssign(t.Context(), client); errors.Is(err, ErrNoProtocol) != test.refused ||
				err != nil && !test.refused {
				t.Errorf("%v, refused should be %v", err, test.refused)
			}
		})
	}
}

// aboutGroup answers a query about a group with the error. Without one, the broker does not list queries about groups of
// Kafka Streams.
func aboutGroup(asked kmsg.Request, with *kerr.Error) (answer kmsg.Response, is bool) {
	switch r := asked.(type) {
	case *kmsg.ConsumerGroupDescribeRequest:
		group := kmsg.NewConsumerGroupDescribeResponseGroup()
		group.Group, group.ErrorCode = r.Groups[0], with.Code
		return &kmsg.ConsumerGroupDescribeResponse{
			Version: r.Version, Groups: []kmsg.ConsumerGroupDescribeResponseGroup{group}}, true
	case *kmsg.StreamsGroupDescribeRequest:
		group := kmsg.NewStreamsGroupDescribeResponseGroup()
		group.Group, group.ErrorCode = r.Groups[0], with.Code
		return &kmsg.StreamsGroupDescribeResponse{
			Version: r.Version, Groups: []kmsg.StreamsGroupDescribeResponseGroup{group}}, true
	case *kmsg.ApiVersionsRequest:
		answer := r.ResponseKind().(*kmsg.ApiVersionsResponse)
		for key := range int16(100) {
			if request := kmsg.RequestForKey(key); request != nil && (with != nil || key != int16(kmsg.StreamsGroupDescribe)) {
				one := kmsg.NewApiVersionsResponseApiKey()
				one.ApiKey, one.MaxVersion = key, request.MaxVersion()
				answer.ApiKeys = append(answer.ApiKeys, one)
			}
		}
		return answer, true
	}
	return nil, false
}
