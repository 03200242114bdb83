package run

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
)

// replayGraph replays the dead letters of every node, in as many rounds as the scenario asks for. A record that
// fails again becomes a new dead letter, which the next round replays.
func (r *run) replayGraph(ctx context.Context) error {
	r.enter(history.PhaseReplay)
	bootstrap, err := r.tap.Open(history.Replayer)
	if err != nil {
		return environment("opening the tap of the replay tool", err)
	}
	// known is how far earlier rounds have come in each dead-letter topic.
	known, tools := map[int16]map[int32]int64{}, uint16(0)
	for range max(r.scenario.Replay.Rounds, 1) {
		done := tools
		for i := range r.header.Consumers {
			letters := r.header.Consumers[i].DLQ
			if known[letters] == nil {
				known[letters] = map[int32]int64{}
			}
			before := maps.Clone(known[letters])
			selected, err := r.selectNodeDeadLetters(ctx, i, known[letters])
			if err != nil {
				return environment("reading the dead letters", err)
			}
			if len(selected) == 0 {
				continue
			}
			err = r.replayNode(ctx, bootstrap, tools, i, selected, newDeadLetters(before, known[letters]))
			if err != nil || ctx.Err() != nil {
				return err
			}
			tools++
		}
		if tools == done {
			break
		}
		if err := r.drain(ctx); err != nil {
			return err
		}
	}
	if tools == 0 {
		r.options.Log.Warn().Msg("no dead letter is planned to be healed, so the replay has nothing to do")
	}
	return nil
}

// selectNodeDeadLetters audits a node's dead letters and selects those that are new and planned to succeed after a
// replay.
func (r *run) selectNodeDeadLetters(ctx context.Context, node int, known map[int32]int64) ([]int32, error) {
	var records []int32
	planned := r.plan.Node(node).Records
	err := r.auditTopic(ctx, r.header.Consumers[node].DLQ, func(_ *kgo.Record, found history.Event) {
		if found.Offset < known[found.Partition] {
			return
		}
		known[found.Partition] = found.Offset + 1
		if found.Record < 0 || !planned[found.Record].Healed {
			return
		}
		r.selectLetter(node, found)
		records = append(records, found.Record)
	})
	return records, err
}

// newDeadLetters returns an expression for the dead letters that were written since the previous look at the topic.
// Dead letters written during a replay belong to the next round.
func newDeadLetters(before, now map[int32]int64) string {
	var ranges []string
	for _, partition := range slices.Sorted(maps.Keys(now)) {
		ranges = append(ranges, fmt.Sprintf("partition == %d && offset >= %d && offset < %d", partition, before[partition],
			now[partition]))
	}
	return strings.Join(ranges, " || ")
}

// replayNode replays a node's selected dead letters with the replay tool: those selected documents for which the
// expression is true.
func (r *run) replayNode(ctx context.Context, bootstrap string, process uint16, node int, selected []int32,
	where string) error {
	consumer := r.header.Consumers[node]
	ids, err := r.writeIDs(fmt.Sprintf("replay-ids-node-%d.txt", node), selected)
	if err != nil {
		return environment("writing the ids to replay", err)
	}
	tool := r.replayLaunch(bootstrap, consumer.DLQ, ids, "--dialect", deadletter.PipestreamName, "--where", where)
	r.tap.BeginRun(history.Replayer, process)
	bounded, cancel := context.WithTimeout(ctx, r.replayLimit(len(selected)))
	defer cancel()
	if err := r.subject.RunTool(bounded, "replay-"+consumer.Name, tool); err != nil && ctx.Err() == nil {
		return environment("replaying the dead letters of node "+consumer.Name, err)
	}
	return nil
}
