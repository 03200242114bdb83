package run

// The consumers of a run are a single one, several services that share a dead-letter topic, or the nodes of a graph.
// The header lists them. Instances are numbered across all consumers.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/dlqbench/dlqbench/history"
)

// consumerOf returns the consumer that the instance belongs to.
func (r *run) consumerOf(instance int) *history.Consumer {
	return &r.header.Consumers[r.header.ConsumerOf(int16(instance))]
}

// addTopic adds a topic to the header and returns its index.
func (r *run) addTopic(name string, role history.Role, partitions int) int16 {
	r.header.Topics = append(r.header.Topics, history.Topic{Name: name, Role: role, Partitions: partitions})
	return int16(len(r.header.Topics) - 1)
}

// firstValues fills the template values from the first consumer. With a single consumer they are its own.
func (r *run) firstValues() {
	first := &r.header.Consumers[0]
	r.values.GroupID, r.values.DLQTopic = first.Group, r.header.Topics[first.DLQ].Name
	r.values.InputTopic = r.header.Topics[first.Input].Name
	r.values.InputTopics = r.values.InputTopic
}

// inputs returns the header indices of the topics among which the workload distributes its records in turn.
func (r *run) inputs() []int16 {
	var all []int16
	if !r.header.Shared() {
		for name := range strings.SplitSeq(r.values.InputTopics, ",") {
			all = append(all, r.header.TopicIndex(name))
		}
		return all
	}
	for _, one := range r.header.Consumers {
		all = append(all, one.Input)
	}
	return all
}

// observedGroup returns the consumer group that the taps observe, whatever it reads; "" stands for every group.
func (r *run) observedGroup() string {
	if len(r.header.Consumers) > 1 || r.scenario.Store != nil {
		return ""
	}
	return r.header.Group()
}

// longestGrace returns the longest time that any consumer may take to end.
func (r *run) longestGrace() time.Duration {
	longest := time.Duration(0)
	for i := range r.header.Consumers {
		longest = max(longest, r.header.Consumers[i].Contract.StopGrace)
	}
	return longest
}

// committed returns the committed offsets of all groups. Each topic has one group that reads it.
func (r *run) committed(ctx context.Context) (kadm.OffsetResponses, error) {
	all := kadm.OffsetResponses{}
	for i := range r.header.Consumers {
		offsets, err := r.committedBy(ctx, r.header.Consumers[i].Group)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, offsets)
	}
	for index, group := range r.tap.OtherGroups() {
		offsets, err := r.committedBy(ctx, group)
		if err != nil {
			return nil, err
		}
		topic := r.header.Topics[index].Name
		all[topic] = offsets[topic]
	}
	return all, nil
}

// noteOtherGroup notes that the consumer reads an input topic with another group than its contract says, so that its
// commits were not seen.
func (r *run) noteOtherGroup() {
	instead := r.tap.Instead()
	if len(instead) == 0 || r.sharing() {
		return
	}
	e := history.New(history.KindUnreadable, r.clock.Now())
	e.Code, e.Topic = history.None, slices.Min(slices.Collect(maps.Keys(instead)))
	e.Text = instead[e.Topic]
	r.live.Record(e)
}

// withMissing adds the topics that the subject asked for in vain to the reason why it did not get ready. Many clients
// wait for them in silence.
func (r *run) withMissing(err error) error {
	names := r.tap.Missing()
	if len(names) == 0 {
		return err
	}
	return fmt.Errorf("%w\nit asked for topics that do not exist: %s; correct their names, or name them under topics in "+
		"subject.yaml", err, strings.Join(names, ", "))
}

// noteMissingTopics notes which topics the subject asked for in vain. It may have failed because of them.
func (r *run) noteMissingTopics() {
	names := r.tap.Missing()
	if len(names) == 0 {
		return
	}
	r.options.Log.Warn().Strs("topics", names).Msg("the consumer asked for topics that do not exist, and its client " +
		"waits for them: correct their names, or name them under topics in subject.yaml")
	letters := slices.IndexFunc(r.header.Topics, func(t history.Topic) bool { return t.Role == history.RoleDLQ })
	if letters < 0 {
		return
	}
	e := history.New(history.KindUnreadable, r.clock.Now())
	e.Code, e.Topic, e.Text = history.None, int16(letters), strings.Join(names, ", ")
	r.live.Record(e)
}

// committedBy returns the committed offsets of one group.
func (r *run) committedBy(ctx context.Context, group string) (kadm.OffsetResponses, error) {
	offsets, err := r.admin.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("fetching the committed offsets of %s: %w", group, err)
	}
	return offsets, nil
}
