package run

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/scenarios"
)

// A replay leaves out the headers that the consumer has added, if the contract does not describe them.
func TestReplayLeavesOutWhatTheContractDoesNotDescribe(t *testing.T) {
	for envelope, want := range map[string][]string{
		"": {"--dialect", "raw", "--to", "orders", "--drop-header", "attempts", "--drop-header", "failed-at"},
		"headers:topic=from": {"--dialect", "headers:topic=from", "--drop-header", "attempts", "--drop-header",
			"failed-at"},
		deadletter.PlainName: {"--dialect", "plain"},
	} {
		r := &run{
			scenario: &scenarios.Scenario{Replay: &scenarios.Replay{}, Workload: scenarios.Workload{Headers: 1}},
			header: history.Header{
				Consumers: []history.Consumer{{Contract: history.Contract{Envelope: envelope}}},
				Topics:    []history.Topic{{Name: "orders", Role: history.RoleInput}, {Name: "orders.dlq", Role: history.RoleDLQ}},
			},
			options: Options{Executable: "dlqbench"},
		}
		for _, added := range []string{"failed-at", "attempts"} {
			r.noteForeign(&kgo.Record{Headers: []kgo.RecordHeader{{Key: "dlqbench-id"}, {Key: "trace-1"}, {Key: added}}})
		}
		tools, err := r.replayTools("127.0.0.1:1", "ids")
		if err != nil || len(tools) != 1 {
			t.Fatalf("%d tools, %v", len(tools), err)
		}
		if got := tools[0].Command; !slices.Equal(got[len(got)-len(want):], want) {
			t.Errorf("%q: %q, want %q at the end", envelope, got, want)
		}
	}
}
