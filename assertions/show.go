package assertions

// The complete trace of one record, on request. It contains more than a counterexample, and exists for records without
// one.

import (
	"errors"
	"fmt"

	"github.com/dlqbench/dlqbench/history"
)

// ErrNoRecord reports that the history contains nothing about the requested record.
var ErrNoRecord = errors.New("the history has nothing of it")

// Trace returns everything that the history contains about a record. No line is left out, contradictory lines are
// marked, and the summary names the anomalies and the group events that may have caused them. Times are on the run's
// clock. The error is ErrNoRecord if there is nothing, or the reason why the history cannot be read.
func Trace(source history.Source, number int32) (Counterexample, error) {
	header := source.Header()
	at := place{none, none, none}
	known := false
	err := source.Each(func(e *history.Event) error {
		if e.Record != number {
			return nil
		}
		known = true
		// A record whose acknowledgement failed is at the position that the audit found.
		stored := e.Kind == history.KindAcked && e.Code == 0 || e.Kind == history.KindAuditRecord && isInput(&header, e.Topic)
		if stored && at.offset < 0 {
			at = place{e.Topic, e.Partition, e.Offset}
		}
		return nil
	})
	if err != nil {
		return Counterexample{}, fmt.Errorf("looking for record %d: %w", number, err)
	}
	if !known {
		return Counterexample{}, fmt.Errorf("looking for record %d of run %s, which has the records 0 to %d: %w",
			number, header.RunID, header.Records-1, ErrNoRecord)
	}
	w := newState(&header)
	seen, err := contradictions(source, number)
	if err != nil {
		return Counterexample{}, fmt.Errorf("judging record %d: %w", number, err)
	}
	told := Counterexample{Record: number, Partition: at.partition, Offset: at.offset, Trace: []Line{}}
	if at.topic >= 0 && int(at.topic) < len(header.Topics) {
		told.Topic = header.Topics[at.topic].Name
	}
	n := newNarrator(w)
	one := &trace{
		sighting:       sighting{record: number, topic: at.topic, partition: at.partition, offset: at.offset, to: endless},
		counterexample: &told, whole: true,
	}
	for i := range seen {
		one.marks = append(one.marks, seen[i].marks...)
		of := seen[i].invariant
		if experimental(catalogue(), of) {
			of += ", experimental"
		}
		told.Summary += fmt.Sprintf("%s (%s): %s\n", seen[i].anomaly, of, seen[i].say())
	}
	n.enter(one)
	if err := n.walk(ordered{marked(source)}); err != nil {
		return Counterexample{}, fmt.Errorf("telling of record %d: %w", number, err)
	}
	told.Summary += one.ofGroup()
	return told, nil
}

// contradiction is a sighting of the requested record.
type contradiction struct {
	invariant, anomaly string
	sighting
}

// contradictions judges the history and returns the contradictions in the record's trace. Histories of several
// consumers are judged elsewhere, per consumer.
func contradictions(source history.Source, number int32) ([]contradiction, error) {
	header := source.Header()
	if header.Graph != nil || header.Shared() {
		return nil, nil
	}
	j, err := newJudge(catalogue(), header)
	if err != nil {
		return nil, err
	}
	j.state.asked = number
	err = (ordered{marked(source)}).batches(func(batch []history.Event) ([]history.Event, error) {
		j.judge(batch)
		return batch[:0], nil
	})
	if err != nil {
		return nil, err
	}
	j.state.finish()
	for _, one := range j.checkers {
		one.finish()
	}
	return j.state.seen, nil
}

// RecordAt returns the number of the record at the offset of a topic's partition: the workload's record, a retry copy
// or a dead letter. The topic may be given with or without the run's prefix. The error is ErrNoRecord if the history
// shows no record there.
func RecordAt(source history.Source, topic string, partition int32, offset int64) (int32, error) {
	header := source.Header()
	index := header.TopicIndex(topic)
	if index < 0 {
		index = header.TopicIndex(header.RunID + "." + topic)
	}
	if index < 0 {
		var names []string
		for i := range header.Topics {
			names = append(names, header.Topics[i].Name)
		}
		return none, fmt.Errorf("looking for topic %q: run %s has the topics %q: %w", topic, header.RunID, names, ErrNoRecord)
	}
	found := int32(none)
	err := source.Each(func(e *history.Event) error {
		if e.Topic != index || e.Partition != partition || e.Offset != offset || e.Record < 0 {
			return nil
		}
		switch e.Kind {
		case history.KindAcked, history.KindProduceResponse, history.KindAuditRecord:
			if e.Code == 0 && !e.Flags.Has(history.Forged) {
				found = e.Record
			}
		}
		return nil
	})
	if err != nil {
		return none, fmt.Errorf("looking for %s-%d offset %d: %w", topic, partition, offset, err)
	}
	if found < 0 {
		return none, fmt.Errorf("looking for the record at %s-%d offset %d: %w", topic, partition, offset, ErrNoRecord)
	}
	return found, nil
}

func isInput(header *history.Header, topic int16) bool {
	return topic >= 0 && int(topic) < len(header.Topics) && header.Topics[topic].Role == history.RoleInput
}
