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

// TestKIP848IsRefusedWhereItIsNot checks the refusal of KIP-848. Kafka 3.9 answers a query about such a group with
// UNSUPPORTED_VERSION although it lists the request. A broker that assigns partitions answers that it does not know
// the group yet.
func TestKIP848IsRefusedWhereItIsNot(t *testing.T) {
	for name, test := range map[string]struct {
		protocol string
		answer   *kerr.Error
		refused  bool
	}{
		"not there":         {consumer.ProtocolConsumer, kerr.UnsupportedVersion, true},
		"there":             {consumer.ProtocolConsumer, kerr.GroupIDNotFound, false},
		"not needed":        {consumer.ProtocolClassic, kerr.UnsupportedVersion, false},
		"not to be asked":   {consumer.ProtocolConsumer, kerr.GroupAuthorizationFailed, false},
		"share, not needed": {consumer.ProtocolShare, kerr.UnsupportedVersion, false},
	} {
		t.Run(name, func(t *testing.T) {
			fake, client := kafkatest.Start(t, &kafkatest.Log{}, 1, []string{"in"})
			fake.ControlKey(int16(kmsg.ConsumerGroupDescribe), func(asked kmsg.Request) (kmsg.Response, error, bool) {
				answer := asked.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
				group := kmsg.NewConsumerGroupDescribeResponseGroup()
				group.Group, group.ErrorCode = asked.(*kmsg.ConsumerGroupDescribeRequest).Groups[0], test.answer.Code
				answer.Groups = append(answer.Groups, group)
				return answer, nil, true
			})
			r := &run{header: history.Header{Consumers: []history.Consumer{{Group: "g"}}},
				stage: stage{admin: kadm.NewClient(client)},
				scenario: &scenarios.Scenario{Subject: scenarios.Subject{Reference: &scenarios.Reference{
					Settings: consumer.Settings{GroupProtocol: test.protocol}}}}}
			if err := r.canAssign(t.Context()); errors.Is(err, ErrNoProtocol) != test.refused || err != nil && !test.refused {
				t.Errorf("%v, refused should be %v", err, test.refused)
			}
		})
	}
}
