package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/tap"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/scenarios"
)

// outputTopic is an output topic as the downstream. It sits at the tap: a Produce of a record with a record's id to the
// topic is an attempt, and an attempt that is to fail is answered with an error in the broker's place.
//
// A client writes a batch again by itself if its answer is missing, or is an error that may pass. That is the same
// attempt: the application sees one write. An idempotent producer shows by the sequence number that it is the same, for
// other producers it is assumed.
//
// Kafka answers a batch as a whole, so an attempt that is to fail takes the others in its batch along. For these, too,
// it is a failed attempt, as their application sees it, and what is planned for them is still to come.
type outputTopic struct {
	*workload.Attempts
	// next takes the events of the tap, and rules come first: those of another output topic, or of the run.
	next  history.Sink
	rules tap.Interceptor
	topic int16
	name  string
	// told describes a write, with the topic's name without the run's id. other: it does not decide.
	told  string
	other bool
	codes map[history.Outcome]int16

	mu sync.Mutex
	// open holds the attempts without a final answer, asked those of them with a request under way, by its operation.
	open  map[resultKey]*result
	asked map[int64]*result
}

// resultKey identifies what a process writes of a record.
type resultKey struct {
	instance int16
	run      uint16
	record   int32
}

// result is an attempt to write a result.
type result struct {
	event history.Event
	// producer, epoch and sequence are those of its first write.
	producer int64
	epoch    int16
	sequence int32
	op       int64 // of the request under way, 0 for none
}

// newOutputTopic returns the run's topic with this name. codes are the answers to attempts that fail.
func newOutputTopic(config workload.AttemptsConfig, header *history.Header, name string,
	codes map[history.Outcome]int16) *outputTopic {
	return &outputTopic{
		Attempts: workload.NewAttempts(config), topic: header.TopicIndex(name), name: name, codes: codes,
		other: config.Other > 0,
		told:  "Produce " + strings.TrimPrefix(name, header.RunID+"."),
		open:  map[resultKey]*result{}, asked: map[int64]*result{},
	}
}

// Upstream implements called: the topic is reached over the links of the brokers.
func (o *outputTopic) Upstream(int) network.Upstream { return network.Upstream{} }

// Tell implements called.
func (o *outputTopic) Tell(*scenarios.Values, string) string { return "" }

// Strays implements called.
func (o *outputTopic) Strays() (why, do string) {
	count, first := o.Attempts.Strays()
	if count == 0 || o.other {
		return "", ""
	}
	return fmt.Sprintf("%d writes to the output topic had no record's id (%s)", count, first),
		"have the consumer write the record's key, value or headers there, which show what the result is about"
}

// Close implements called.
func (o *outputTopic) Close() error { return nil }

// ErrorText implements called. Such faults are refused before the run.
func (o *outputTopic) ErrorText(string, func()) (end func(), err error) {
	return nil, errors.New("changing error texts: an output topic answers with error codes alone")
}

// InFlight returns the number of writes without an answer.
func (o *outputTopic) InFlight() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return int64(len(o.asked))
}

// SetRun ends the attempts of the instance's earlier processes.
func (o *outputTopic) SetRun(instance int, run uint16) {
	o.mu.Lock()
	for key, one := range o.open {
		if int(key.instance) == instance && key.run != run {
			o.end(one, history.OutcomeTimeout, true)
		}
	}
	o.mu.Unlock()
	o.Attempts.SetRun(instance, run)
}

// Intercept implements tap.Interceptor: faults come first, then what is planned.
func (o *outputTopic) Intercept(x *tap.Exchange) tap.Action {
	action := o.rules.Intercept(x)
	if x.APIKey != int16(kmsg.Produce) || x.Instance < 0 {
		return action
	}
	writes, answered := x.Writes()
	writes = slices.DeleteFunc(writes, func(e history.Event) bool { return e.Topic != o.topic })
	if len(writes) == 0 {
		return action
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	starts := o.begin(writes)
	if answered && action.Code == 0 && !action.DropRequest && !action.Close {
		o.decide(starts, &action)
	}
	before := action.Done
	action.Done = func() {
		if before != nil {
			before()
		}
		o.settle(writes, answered)
	}
	return action
}

// begin starts the attempts of the writes, or goes on with those that a client repeats. It returns their events, with
// the partition that is written to.
func (o *outputTopic) begin(writes []history.Event) []history.Event {
	var starts []history.Event
	for i := range writes {
		w := &writes[i]
		if w.Record == history.None {
			o.Stray(o.told)
			o.unnamed(w)
			continue
		}
		key := resultKey{w.Instance, w.Run, w.Record}
		one := o.open[key]
		if one != nil && !one.repeatedBy(w) {
			o.end(one, history.OutcomeTimeout, true)
			one = nil
		}
		if one == nil {
			one = &result{event: history.New(history.KindAttemptStart, w.Time), producer: w.ProducerID, epoch: w.ProducerEpoch,
				sequence: w.Sequence}
			one.event.Instance, one.event.Run, one.event.Text = w.Instance, w.Run, o.told
			if w.Flags.Has(history.InTransaction) {
				one.event.Flags |= history.InTransaction
				one.event.ProducerID, one.event.ProducerEpoch = w.ProducerID, w.ProducerEpoch
			}
			o.Begin(&one.event, w.Record, true)
			one.event.Text = ""
			o.open[key] = one
		}
		delete(o.asked, one.op)
		one.op = w.Op
		o.asked[w.Op] = one
		start := one.event
		start.Partition = w.Partition
		starts = append(starts, start)
	}
	return starts
}

// unnamed records an attempt without a record's id: a result of a tombstone or of a value that can't be read, which
// have none, may be the end of such a record.
func (o *outputTopic) unnamed(w *history.Event) {
	event := history.New(history.KindAttemptStart, w.Time)
	event.Instance, event.Run = w.Instance, w.Run
	o.Begin(&event, 0, false)
	event.Outcome = history.OutcomeUnknownID
	o.End(&event, false)
}

// repeatedBy reports whether a client repeats the write by itself.
func (r *result) repeatedBy(w *history.Event) bool {
	return r.sequence == w.Sequence && r.producer == w.ProducerID && r.epoch == w.ProducerEpoch
}

// decide has the partitions refused in which an attempt is to fail. All get the same error, that of the first.
func (o *outputTopic) decide(starts []history.Event, action *tap.Action) {
	refused := map[int32]bool{}
	for len(starts) > 0 {
		partition := starts[0].Partition
		var together, others []history.Event
		for _, one := range starts {
			if one.Partition == partition {
				together = append(together, one)
			} else {
				others = append(others, one)
			}
		}
		starts = others
		if ruling, _ := o.Together(together); ruling.Outcome != history.OutcomeSuccess {
			refused[partition] = true
			if action.Code == 0 {
				action.Code = o.codes[ruling.Outcome]
			}
		}
	}
	if len(refused) == 0 {
		return
	}
	action.Matches = func(p tap.Partition) bool { return p.Topic == o.name && refused[p.Number] }
}

// Record implements history.Sink, for the events of the tap: an attempt ends with the answer to its write, right before
// that is passed on.
func (o *outputTopic) Record(e history.Event) {
	o.next.Record(e)
	if e.Kind != history.KindProduceResponse || e.Topic != o.topic {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	one := o.asked[e.Op]
	if one == nil || one.op != e.Op {
		return
	}
	delete(o.asked, e.Op)
	one.op = 0
	outcome, final := o.outcome(&e)
	if final {
		one.event.Code = e.Code
		if o.other {
			one.event.Flags |= e.Flags & history.Forged
		}
		o.end(one, outcome, outcome == history.OutcomeTimeout)
	}
}

// outcome is that of an attempt with the answer. It is final if no client writes again by itself. What an application
// makes of an error that is not planned is not known, as of an answer that it does not get.
func (o *outputTopic) outcome(e *history.Event) (outcome history.Outcome, final bool) {
	err := kerr.ErrorForCode(e.Code)
	switch {
	case e.Flags.Has(history.Withheld):
		return history.OutcomeTimeout, false
	case e.Code == 0, errors.Is(err, kerr.DuplicateSequenceNumber):
		return history.OutcomeSuccess, true
	}
	for outcome, code := range o.codes {
		if code == e.Code {
			return outcome, true
		}
	}
	return history.OutcomeTimeout, !kerr.IsRetriable(err)
}

// settle notes that the writes of a request will get no answer any more. Without acks=0, the client may repeat them.
func (o *outputTopic) settle(writes []history.Event, answered bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range writes {
		one := o.asked[writes[i].Op]
		if one == nil {
			continue
		}
		delete(o.asked, writes[i].Op)
		one.op = 0
		if !answered {
			o.end(one, history.OutcomeSuccess, false)
		}
	}
}

// end ends an attempt; mu is held.
func (o *outputTopic) end(one *result, outcome history.Outcome, gone bool) {
	delete(o.asked, one.op)
	delete(o.open, resultKey{one.event.Instance, one.event.Run, one.event.Record})
	one.event.Outcome = outcome
	o.End(&one.event, gone)
}
