package naive

import (
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const staying = "stays-up"

// stays: "no process ends, and no member leaves its group for good, unless a fault, the harness or the contract caused
// it; an end by TERM has code 0".
func (j *judge) stays() {
	run := OfPartition(staying, history.None, history.None)
	j.decide(run)
	for number := range int32(j.header.Records) {
		j.decide(OfRecord(staying, number))
	}
	for i := range j.events {
		e := &j.events[i]
		if e.Kind == history.KindInstanceExited && e.Instance >= 0 && j.firstEnd(e) == e {
			j.judged(staying)
			switch fell, open := j.fell(e); {
			case open:
				j.openFall()
			case fell:
				j.sawFall(i)
			case e.Flags.Has(history.Expected) && j.unclean(e):
				j.sawPartition(staying, "unclean-exit", history.None, history.None)
			}
		}
		if e.Kind == history.KindMembership && e.N == 0 && j.goneForGood(e) {
			j.sawPartition(staying, "gave-up", history.None, history.None)
		}
	}
}

// openFall: whether a process fell, and what of, is not known.
func (j *judge) openFall() {
	j.opinion.Open[Finding{OfPartition(staying, history.None, history.None), "crashed"}] = true
	for number := range int32(j.header.Records) {
		j.opinion.Open[Finding{OfRecord(staying, number), "crashed"}] = true
	}
}

// sawFall: the end is one of the process, or of the record whose dead letter was refused to it first, not long ago.
func (j *judge) sawFall(at int) {
	end := &j.events[at]
	told := slices.ContainsFunc(j.events[:at], func(e history.Event) bool {
		return e.Kind == history.KindInstanceSignal && by(&e, end)
	})
	owe := j.outstanding(end, at)
	if len(owe) == 0 || told {
		j.sawPartition(staying, "crashed", history.None, history.None)
		return
	}
	first := slices.MinFunc(owe, func(a, b owed) int { return int(a.last - b.last) })
	gone := end.Time - time.Duration(max(end.Aux, 0))
	switch {
	case j.unclear():
		j.openFall()
	case gone-first.last < silence:
		j.opinion.Found[Finding{OfRecord(staying, first.number), "crashed"}] = true
	default:
		j.sawPartition(staying, "crashed", history.None, history.None)
	}
}

// firstEnd is the first end of the event's process, nil if it has none.
func (j *judge) firstEnd(of *history.Event) *history.Event {
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindInstanceExited && by(e, of) {
			return e
		}
	}
	return nil
}

// fell: nobody asked the process to end. Where its contract lets it end at times, or Kafka may have left it nothing
// else, that is open.
func (j *judge) fell(end *history.Event) (fell, open bool) {
	c := j.header.Contract()
	if end.Flags.Has(history.Expected) {
		return false, false
	}
	ends := c.OnFailure == history.OnFailureCrash || c.ExitsExhausted || c.ExitsOnError
	worked, fatal := false, false
	for i := range j.events {
		e := &j.events[i]
		if !by(e, end) || e.Time > end.Time {
			continue
		}
		worked = worked || e.Kind == history.KindFetched || e.Kind == history.KindAssigned
		answer := e.Kind == history.KindCommitResponse || e.Kind == history.KindProduceResponse ||
			e.Kind == history.KindTxnEndResponse
		fatal = fatal || answer && slices.Contains([]int16{45, 47, 49, 53, 59, 82, 90}, e.Code)
	}
	if ends || fatal || !worked && len(j.header.Faults) > 0 {
		return false, true
	}
	return true, false
}

// unclean: TERM ended it with another code than 0, and with none that its contract names; or an exception did. The JVM
// ends with 143. An end by TERM itself is one with 143, too, unless the process had partitions and did nothing about
// them.
func (j *judge) unclean(end *history.Event) bool {
	term := j.stopping(end)
	if term == nil {
		return false
	}
	if _, killed := j.endOf(term); killed {
		return false
	}
	own := map[string]int{"TERM": 143, "INT": 130}[term.Text]
	code := int(end.Code)
	if end.Text == term.Text {
		code = own
	}
	did, threw, faulted := false, false, false
	for i := range j.events {
		e := &j.events[i]
		if e.Kind == history.KindFaultStart {
			faulted = true
		}
		if !by(e, term) || e.Time < term.Time || e.Time > end.Time {
			continue
		}
		switch e.Kind {
		case history.KindCommitRequest, history.KindProduceRequest, history.KindTxnEndRequest:
			did = true
		case history.KindMembership:
			did = did || e.Text != "silent" && e.Text != "seeks"
		case history.KindRevoked:
			did = did || e.Text == "leave"
		case history.KindSubjectError:
			threw = threw || strings.HasPrefix(e.Text, "panic: ") || strings.HasPrefix(e.Text, "Exception in thread ")
		}
	}
	switch codes := j.header.Contract().StopCodes; {
	case end.Text != "" && end.Text != term.Text, threw:
		return true
	case len(codes) > 0:
		return !slices.Contains(codes, code)
	case end.Text == "":
		return code != 0 && code != own
	}
	return j.hasAny(term) && !did && !faulted
}

// hasAny: the event's process had a partition then.
func (j *judge) hasAny(of *history.Event) bool {
	for topic := range int16(len(j.header.Topics)) {
		for partition := range int32(j.header.Topics[topic].Partitions) {
			if j.holds(of, &record{topic: topic, partition: partition}) {
				return true
			}
		}
	}
	return false
}

// goneForGood: the process left, still ran at the end of the drain, and neither came back, nor looked for its group,
// nor did anything for as long as it had for that. One that was only silent had its session as well after each fault.
func (j *judge) goneForGood(leave *history.Event) bool {
	_, drained := j.drain()
	since, session := leave.Time, time.Duration(0)
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindJoining && leave.Text == "silent" {
			session = max(session, time.Duration(e.Aux))
		}
	}
	for i := range j.events {
		e := &j.events[i]
		switch {
		case e.Kind == history.KindFaultEnd || e.Kind == history.KindFaultStart || e.Kind == history.KindFaultEffect:
			since = max(since, e.Time+session)
		case !by(e, leave) || e.Time > drained:
		case e.Kind == history.KindMembership && e.Time > leave.Time, e.Kind == history.KindInstanceSignal,
			e.Kind == history.KindInstanceExited:
			return false
		case e.Kind == history.KindAttemptStart, e.Kind == history.KindAttemptEnd, e.Kind == history.KindFetched,
			e.Kind == history.KindCommitRequest, e.Kind == history.KindProduceRequest:
			since = max(since, e.Time)
		}
	}
	return leave.Time < drained && drained-since >= max(j.header.Expect.DrainLimit, settles) &&
		!j.stoodStillIn(since, drained)
}
