package assertions

// State: calls of downstreams that do not decide. Their answers decide no outcome by a plan, but a record is processed
// only when they succeeded, too. Where one failed, the subject may retry, dead-letter or deliver again a record whose
// attempts all succeeded, or that it never attempted:
//
//	ledger: a call fails ─▶ the subject waits ─▶ ledger: a call succeeds ─▶ attempt 1
//	attempt 1 succeeds ─▶ ledger: a call fails ─▶ the subject waits ─▶ attempt 2 succeeds
//
// So nothing that such a failure explains is held against the subject. What is certain remains: a record that is
// committed without a dead letter although its calls there failed, all of them, is lost.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// callsElsewhere are the calls of downstreams that do not decide.
type callsElsewhere struct {
	open map[int64]callElsewhere // by operation
	// failed holds those that are not known to have succeeded, in the order of their ends, longest the length of the
	// longest. silent holds, by record, since when it has a call that never ended.
	failed  []callElsewhere
	longest time.Duration
	// wide is the set of the answers to those that may have failed others of their instance with them. ended holds the
	// instances to which a fault gave a logical failure, true if that was such an answer.
	wide   outcomes
	ended  map[int16]bool
	silent map[int32]time.Duration
	// batched holds the instances that make calls for several records at once, which are taken for those of one.
	batched map[int16]bool
	of      []fateElsewhere // by record
}

// callElsewhere is a call. wide: it may have failed others of its instance with it, in the memory of a client: franz-go
// fails all that it has buffered for a partition when one write is refused.
type callElsewhere struct {
	// why it may hide attempts, in the words of answersHidden.
	why        string
	number     int32
	downstream int32
	instance   int16
	wide       bool
	from, to   time.Duration
}

// fateElsewhere says what became of the calls of a record: a bit for each downstream.
type fateElsewhere struct {
	// well: one succeeded. failed: one was answered with a failure. unsure: the subject may not have got an answer. ended:
	// a fault answered with a logical failure, which may end the record.
	well, failed, unsure, ended uint8
	// answers is the set of all other answers than successes.
	answers outcomes
	last    history.Stamp // the end of the latest
}

func newCallsElsewhere() *callsElsewhere {
	return &callsElsewhere{open: map[int64]callElsewhere{}, silent: map[int32]time.Duration{}, batched: map[int16]bool{},
		ended: map[int16]bool{}}
}

// nowDeciding returns a fault with the usual name of its target if it is the downstream that decides, by its own name.
func nowDeciding(h *history.Header, f history.PlannedFault) history.PlannedFault {
	if len(h.Downstreams) > 0 && f.Target == history.TargetOther+h.Downstreams[0].Name {
		f.Target = "downstream"
	}
	return f
}

// otherDownstream returns the downstream of a call; false if the header has none that does not decide.
func (w *state) otherDownstream(number int32) (history.Downstream, bool) {
	if number < 1 || int(number) >= min(len(w.header.Downstreams), downstreamsLimit) {
		return history.Downstream{}, false
	}
	return w.header.Downstreams[number], true
}

// downstreamsLimit is the largest number of downstreams, the one that decides included.
const downstreamsLimit = 8

// takeCall takes an event of a downstream that does not decide.
func (w *state) takeCall(e *history.Event) {
	downstream, known := w.otherDownstream(e.N)
	if !known || w.record(e.Record) == nil || e.Instance < 0 {
		return
	}
	c := w.calls
	if e.Kind == history.KindCallStart {
		c.open[e.Op] = callElsewhere{number: e.Record, downstream: e.N, instance: e.Instance, from: e.Time}
		return
	}
	call, asked := c.open[e.Op]
	if !asked || call.number != e.Record || call.downstream != e.N {
		return
	}
	delete(c.open, e.Op)
	call.to = e.Time
	w.call = &call
	of, bit, gone := c.fate(e.Record), uint8(1)<<e.N, e.Flags.Has(history.ClientGone)
	of.last = history.StampOf(e.Time)
	if e.Outcome != history.OutcomeSuccess {
		of.answers |= setOf(e.Outcome)
	}
	switch class := w.classes[e.Outcome]; {
	case e.Outcome == history.OutcomeSuccess && !gone:
		of.well |= bit
		return
	case gone, e.Outcome == history.OutcomeTimeout, e.Outcome == history.OutcomeReset:
		of.unsure |= bit
	case class == classRetryable, class == classPermanent:
		of.failed |= bit
	case e.Flags.Has(history.Forged) && w.contract.LogicalEnds():
		of.ended |= bit
		c.ended[e.Instance] = c.ended[e.Instance] || downstream.Topic
	}
	if downstream.Topic {
		c.wide |= setOf(e.Outcome)
	}
	call.wide, call.why = downstream.Topic, failedElsewhere
	c.failed, c.longest = append(c.failed, call), max(c.longest, call.to-call.from)
}

// fate returns what became of the calls of a record.
func (c *callsElsewhere) fate(number int32) *fateElsewhere {
	for int(number) >= len(c.of) {
		c.of = append(c.of, fateElsewhere{})
	}
	return &c.of[number]
}

// answers returns the set of the failures with which calls of a record may have been answered, and of those with which
// a client may have failed them.
func (c *callsElsewhere) answers(number int32) outcomes {
	if int(number) >= len(c.of) {
		return c.wide
	}
	return c.of[number].answers | c.wide
}

// finish takes the calls that never ended.
func (c *callsElsewhere) finish() {
	for _, call := range c.open {
		c.fate(call.number).unsure |= 1 << call.downstream
		since, known := c.silent[call.number]
		if !known || call.from < since {
			c.silent[call.number] = call.from
		}
	}
}

// failedElsewhere is the reason that answersHidden gives for a call of another downstream.
const failedElsewhere = "a call of another downstream failed"

// failedFor reports whether a call of the record elsewhere failed between from and to, or one that may have failed the
// record with it, at the instance or, if that is none, at any, or one that may be an attempt of its own; why names the
// reason.
func (c *callsElsewhere) failedFor(number int32, instance int16, from, to time.Duration) (why string, failed bool) {
	if since, silent := c.silent[number]; silent && since <= to {
		return failedElsewhere, true
	}
	at, _ := slices.BinarySearchFunc(c.failed, from, func(one callElsewhere, at time.Duration) int {
		return cmp.Compare(one.to, at)
	})
	for ; at < len(c.failed) && c.failed[at].to-c.longest <= to; at++ {
		one := &c.failed[at]
		with := (instance == none || one.instance == instance) && (one.wide || c.batched[one.instance])
		if one.from <= to && (one.number == number || with) {
			return one.why, true
		}
	}
	return "", false
}

// lostAnswers reports whether the answer to a call of the record may have been lost: the link to another downstream was
// broken while the record was processed.
func (w *state) lostAnswers(number int32, r *record) bool {
	if int(number) >= len(w.calls.of) {
		return false
	}
	return w.faulted(func(f *history.PlannedFault) bool {
		return f.Kind == "network" && strings.HasPrefix(f.Target, history.TargetOther)
	}, r.born.At(), max(r.lastEnd.At(), w.calls.of[number].last.At()))
}

// failuresOf is the number of calls of the record that failed by the time. Each may have failed another copy of it.
func (c *callsElsewhere) failuresOf(number int32, by time.Duration) (count int) {
	for i := range c.failed {
		if one := &c.failed[i]; one.number == number && one.to <= by {
			count++
		}
	}
	return count
}

// hidesCalls reports whether the fault hides attempts or answers: it is on the link to the downstream that decides, or
// it concerns another one, whose failures decide about attempts, too.
func (w *state) hidesCalls(f *history.PlannedFault) bool {
	if onDownstreamLink(f) || strings.HasPrefix(f.Target, history.TargetOther) {
		return true
	}
	output := slices.ContainsFunc(w.header.Downstreams, func(d history.Downstream) bool { return d.Topic })
	switch f.Kind {
	case "network", "kafka":
		others := []string{"dlq", "downstream", "registry", "store"}
		return output && !consumes(f.API) && !slices.Contains(others, f.Target)
	case "broker":
		return output
	}
	return false
}

// consumes reports whether a client sends the request, by Kafka's name of it, in order to consume: it comes before no
// write.
func consumes(api string) bool {
	switch api {
	case "Fetch", "OffsetCommit", "JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat",
		"ShareFetch", "ShareAcknowledge":
		return true
	}
	return false
}

// endedElsewhere reports whether an answer to a call elsewhere may have ended the record: to its own, or to one that
// failed the record with it in the memory of an instance that had it.
func (w *state) endedElsewhere(number int32) bool {
	if int(number) < len(w.calls.of) && w.calls.of[number].ended != 0 {
		return true
	}
	p := w.home(number, w.record(number))
	for instance, wide := range w.calls.ended {
		if (wide || w.calls.batched[instance]) && (p == nil || w.share || p.wasOf(instance)) {
			return true
		}
	}
	return false
}

// leftElsewhere returns the downstream at which a record's calls failed, all of them, if the record succeeded otherwise
// and nothing took it over: no dead letter was asked for. "" if there is none, or if that is not certain.
func (w *state) leftElsewhere(number int32, r *record) string {
	if int(number) >= len(w.calls.of) || len(w.calls.batched) > 0 || !w.contract.HasDLQ() || r.exempt() ||
		r.lives > 0 || r.has(markLeft) || w.letterAsked(r) >= 0 || w.letters.of(number) != nil {
		return ""
	}
	if !r.has(markEnded) || r.has(markGone) || w.classes[r.outcome] != classSuccess {
		return ""
	}
	of := w.calls.of[number]
	if of.ended != 0 {
		return ""
	}
	for n := int32(1); n < downstreamsLimit; n++ {
		one, known := w.otherDownstream(n)
		if known && !one.Optional && (of.failed&^(of.well|of.unsure))&(1<<n) != 0 {
			return one.Name
		}
	}
	return ""
}

// calledName is the name of the downstream of a call.
func (w *state) calledName(e *history.Event) string {
	if e.N == 0 {
		return w.decidingName()
	}
	if one, known := w.otherDownstream(e.N); known {
		return one.Name
	}
	return fmt.Sprintf("downstream %d", e.N)
}

// decidingName is the name of the downstream whose calls are attempts.
func (w *state) decidingName() string {
	if len(w.header.Downstreams) > 0 {
		return w.header.Downstreams[0].Name
	}
	return "downstream"
}
