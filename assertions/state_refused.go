package assertions

// State: the reactions of processes to refused dead letters. Contracts distinguish three reactions:
//
//	on_failure: halt     the process stays, and commits nothing past the record; it may or may not retry meanwhile
//	on_failure: retry    it stays as well, and retries
//	on_failure: crash    it ends with a code above 0, and is restarted
//
// When the consumer learns of a refusal depends on its client. The client itself retries most errors, for up to five
// minutes (librdkafka's message.timeout.ms), and reports the failure to the consumer only then. So crash is held
// against a process only after an error that no client retries (final). A loop that must first process hundreds of
// records of other partitions has not stopped retrying: retry is held against a process only when it made neither an
// attempt nor a write.
//
// These rules stop applying to a record when it comes to its end or leaves the process, and to a process when it ends
// or is told to stop.

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// refusal is a record whose dead letter was refused to a process and is still outstanding.
type refusal struct {
	// last is the time of the latest refusal. first is the time of the first refusal with an error that no client
	// retries, or never.
	last, first time.Duration
	code        int16
}

// unkept is an interval in which a process did not react to refusals as its contract says.
type unkept struct {
	by       holder
	number   int32
	from, to time.Duration
	// refused is when the dead letter that shows it was refused.
	refused time.Duration
	code    int16
	// ended: the process ended as if there were no failure; crashes: it should have ended with an error.
	ended, crashes bool
}

// refusals notes what an event says of dead letters that were refused to the process, or of its reaction to them.
func (w *state) refusals(l *life, e *history.Event) {
	switch e.Kind {
	case history.KindAttemptStart, history.KindAttemptEnd, history.KindProduceRequest, history.KindProduceResponse:
		w.endIdle(l, e.Time)
	case history.KindRevoked:
		for number := range l.refused {
			if r := w.record(number); r != nil && w.lies(number, r) == (place{e.Topic, e.Partition, 0}) {
				w.settleRefusal(l, number, e.Time)
			}
		}
	case history.KindInstanceSignal:
		w.leaveRefusals(l, e.Time)
	case history.KindInstanceExited:
		w.exitRefused(l, e)
	}
	switch one := w.write; {
	case e.Kind == history.KindAttemptEnd && w.attempt != nil && w.finishes(w.attempt.outcome):
		w.finishRefusal(w.attempt.number, e.Time)
	case e.Kind != history.KindProduceResponse || one == nil || !one.letter:
	case one.passed:
		w.finishRefusal(one.record, e.Time)
	case !one.silent && e.Code != 0:
		was, again := l.refused[one.record]
		if !again {
			was.first = never
		}
		if was.first == never && final(e.Code) {
			was.first = e.Time
		}
		was.last, was.code = e.Time, e.Code
		l.refused[one.record] = was
	}
}

// barred is a dead-letter topic whose writes a process's client may have denied by itself, and until when; never if it
// may still do so.
type barred struct {
	topic int16
	to    time.Duration
}

// noteBarred notes whether the process may be refused dead letters by its own client. With any refusal, the client may
// fail the dead letters that wait behind the refused one, so that no request for them is ever seen: franz-go fails all
// that it has buffered for the partition (recBuf.failAllRecords).
func (w *state) noteBarred(e *history.Event, one *write) {
	bar, known := w.barred[one.by]
	stays := known && bar.to == never
	switch {
	case one.passed && stays && bar.topic == e.Topic:
		w.barred[one.by] = barred{e.Topic, e.Time}
	case !one.passed && bars(e):
		w.barred[one.by] = barred{e.Topic, never}
	case !one.passed && !one.silent && e.Code != 0 && !stays:
		w.barred[one.by] = barred{e.Topic, e.Time}
	}
}

// bars reports whether a client may deny later writes by itself, without a request, after a write was refused so.
// librdkafka marks the topic as errored (rd_kafka_handle_Produce_error), until it hears better of it. Idempotent
// producers fail for good (TransactionManager in kafka-clients), until the consumer replaces them.
func bars(e *history.Event) bool {
	switch e.Code {
	case kerr.TopicAuthorizationFailed.Code:
		return !e.Flags.Has(history.NotLibrdkafka)
	case kerr.ClusterAuthorizationFailed.Code, kerr.OutOfOrderSequenceNumber.Code, kerr.InvalidProducerEpoch.Code,
		kerr.UnknownProducerID.Code, kerr.ProducerFenced.Code:
		return e.ProducerID >= 0
	}
	return false
}

// denied reports whether the process may have tried to write the record's dead letter after its last attempt, and was
// denied that by its client.
func (w *state) denied(by holder, last *former, r *record) bool {
	bar, known := w.barred[by]
	return known && (bar.to == never || bar.to >= last.end) && w.owedLetter(by, last, r)
}

// writeHidden reports whether the process may have tried in vain to write what it owed after the record's last attempt,
// its dead letter or a retry copy, without a request that is seen: a fault kept it from a broker. Clients need
// connections and metadata before they send a write, and fail it by themselves if they get none.
func (w *state) writeHidden(by holder, last *former, r *record, now time.Duration) bool {
	copied := w.hops && last.by == by && last.ended && w.classes[last.outcome] == classRetryable
	return (copied || w.owedLetter(by, last, r)) && w.faulted(hidesWrites, last.end, now)
}

// hidesWrites reports whether the fault may keep a client from sending a write: it is on the link to a broker, on the
// broker itself, or on the requests that come before the first write.
func hidesWrites(f *history.PlannedFault) bool {
	switch f.Kind {
	case "network":
		return f.Target == "dlq" || strings.HasPrefix(f.Target, "broker")
	case "broker":
		return true
	case "kafka":
		return slices.Contains([]string{"", "ApiVersions", "Metadata", "InitProducerId"}, f.API)
	}
	return false
}

// owedLetter reports whether the process owed the record's dead letter after its last attempt.
func (w *state) owedLetter(by holder, last *former, r *record) bool {
	if !last.any || !last.ended || last.by != by {
		return false
	}
	switch w.classes[last.outcome] {
	case classPermanent:
		return true
	case classLogical:
		return !w.contract.LogicalEnds()
	case classRetryable:
		return w.contract.MaxAttempts > 0 && int(r.inSeries) >= w.contract.MaxAttempts
	}
	return false
}

// finishes reports whether an attempt with the outcome is its record's end.
func (w *state) finishes(outcome history.Outcome) bool {
	class := w.classes[outcome]
	return class == classSuccess || class == classLogical && w.contract.LogicalEnds()
}

// lies returns the partition of the record's current position, without an offset.
func (w *state) lies(number int32, r *record) place {
	at := w.position(number, r)
	at.offset = 0
	return at
}

// endIdle ends an interval in which the process did nothing.
func (w *state) endIdle(l *life, at time.Duration) {
	limit := refusedLong + w.contract.LongestWait(math.MaxInt)
	if len(l.refused) > 0 && w.contract.OnFailure == history.OnFailureRetry && at-l.idle > limit {
		// What a commit has passed is not tried again, rightly or not: other invariants judge the commit.
		number, since := l.firstRefused(func(number int32) bool { return !w.record(number).has(markCovered) })
		if number != none {
			w.unkept = append(w.unkept, unkept{by: l.by, number: number, from: l.idle, to: at, refused: since.last,
				code: since.code})
		}
	}
	l.idle = at
}

// firstRefused returns the outstanding record that was refused first, of those that match; none if none does.
func (l *life) firstRefused(matches func(number int32) bool) (number int32, first refusal) {
	number = none
	for one, r := range l.refused {
		if !matches(one) {
			continue
		}
		if number == none || r.last < first.last || r.last == first.last && one < number {
			number, first = one, r
		}
	}
	return number, first
}

func anyRecord(int32) bool { return true }

// settleRefusal forgets a refused record, and notes whether the process should have ended meanwhile.
func (w *state) settleRefusal(l *life, number int32, at time.Duration) {
	w.endIdle(l, at)
	one := l.refused[number]
	limit := refusedLong + w.contract.LongestWait(math.MaxInt) + w.contract.StopGrace
	if w.contract.OnFailure == history.OnFailureCrash && one.first != never && at-one.first > limit {
		w.unkept = append(w.unkept, unkept{by: l.by, number: number, from: one.first, to: at, refused: one.first,
			code: one.code, crashes: true})
	}
	delete(l.refused, number)
}

// finishRefusal forgets a record that has come to its end, for every process to which it was refused.
func (w *state) finishRefusal(number int32, at time.Duration) {
	for _, l := range w.lives {
		if _, known := l.refused[number]; known {
			w.settleRefusal(l, number, at)
		}
	}
}

// leaveRefusals forgets all refusals of a process that ends, or is told to stop.
func (w *state) leaveRefusals(l *life, at time.Duration) {
	for len(l.refused) > 0 {
		number, _ := l.firstRefused(anyRecord)
		w.settleRefusal(l, number, at)
	}
}

// exitRefused notes the end of a process to which dead letters had been refused.
func (w *state) exitRefused(l *life, e *history.Event) {
	number, one := l.firstRefused(anyRecord)
	asked := e.Flags.Has(history.Expected) || l.asked != never || l.killed != never
	if number != none && !asked {
		l.refusal, l.over = number, one
		if w.contract.OnFailure == history.OnFailureCrash && one.first != never && e.Code == 0 {
			w.unkept = append(w.unkept, unkept{by: l.by, number: number, from: one.first, to: e.Time, refused: one.first,
				code: one.code, ended: true, crashes: true})
			delete(l.refused, number)
		}
	}
	w.leaveRefusals(l, e.Time)
}

// judgeUnkept judges the reactions of processes to refusals against their contract.
func (c *halt) judgeUnkept(u *unkept) {
	other := func(f *history.PlannedFault) bool {
		return f.Kind != "kafka" && f.Kind != "downstream" || !f.StopsDeadLetters
	}
	switch {
	case c.w.share:
		c.remark("what a process of a share group does after a refusal is not told apart")
		return
	case !u.ended && c.w.faulted(other, u.from, u.to):
		c.remark("another fault was in force after a refusal")
		return
	case !u.ended && c.w.tookTime(u.by.instance, u.from, u.to):
		c.remark("stall after a refusal")
		return
	}
	name, did := "stopped-trying", fmt.Sprintf("did nothing for %s, neither an attempt nor a write",
		units.Text(u.to-u.from))
	if u.crashes {
		name, did = "did-not-crash", fmt.Sprintf("still ran %s later", units.Text(u.to-u.from))
	}
	if u.ended {
		did = fmt.Sprintf("ended %s later as if all were well (exit code 0)", units.Text(u.to-u.from))
	}
	s := c.w.about(u.number, 0, u.to, func() string {
		return fmt.Sprintf(
			"a dead letter was refused to instance %d with %s. Its contract promises on_failure: %s, but it %s", u.by.instance,
			errorName(u.code), c.w.contract.OnFailure, did)
	}, moment{history.KindProduceResponse, u.refused})
	if u.ended {
		s.marks = append(s.marks, moment{history.KindInstanceExited, u.to})
	}
	c.saw(name, s)
}
