package run

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/history"
)

// topicEffects counts the records of the output topic that the audit reads, by the record whose id they carry.
type topicEffects struct {
	run   *run
	found map[int32]history.Event
}

// readEffects returns what counts the effects of records if the topic is the one that has them, otherwise nil.
func (r *run) readEffects(topic int16) *topicEffects {
	if r.output == "" || r.header.Topics[topic].Name != r.output {
		return nil
	}
	event := history.New(history.KindEffectsRead, r.clock.Now())
	event.Text = "topic " + r.output
	r.live.Record(event)
	return &topicEffects{run: r, found: map[int32]history.Event{}}
}

// see counts a record of the topic.
func (t *topicEffects) see(_ *kgo.Record, audited history.Event) {
	if audited.Record < 0 {
		return
	}
	one, known := t.found[audited.Record]
	if !known {
		one = history.New(history.KindEffect, 0)
		one.Record, one.N = audited.Record, 0
		one.Topic, one.Partition, one.Offset = audited.Topic, audited.Partition, audited.Offset
	}
	one.N++
	t.found[audited.Record] = one
}

// record writes down what was counted, in the order of the records.
func (t *topicEffects) record() {
	for _, number := range slices.Sorted(maps.Keys(t.found)) {
		event := t.found[number]
		event.Time = t.run.clock.Now()
		t.run.live.Record(event)
	}
}
