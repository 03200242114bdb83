package reference

import (
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// otherCalls implements "a success does not count if all calls of the record at another downstream failed, unless that
// is optional". What else such failures explain is open: how many attempts there were, what the last answer was and,
// after a logical failure by a fault, whether the record came to its end. So is the count of attempts where a client
// repeats calls by itself.
func (j *judge) otherCalls() {
	several, repeats := len(j.header.Downstreams) > 1, j.header.Contract().Calls > 1
	for number := range int32(j.header.Records) {
		failed, ended := j.callsFailed(number)
		if failed || repeats || several && len(j.header.Faults) > 0 {
			j.leaveOpen(number, "dlq-fidelity", "metadata-wrong")
			j.leaveOpen(number, "effects", "effect-doubled", "effect-partial")
		}
		if ended || repeats && !j.header.Contract().HasDLQ() {
			j.leaveOpen(number, "no-loss", "lost")
			j.leaveOpen(number, roundTrip, "replay-lost")
			j.leaveOpen(number, "effects", "effect-missing")
			j.leaveOpen(number, outcome, "commit-past-unfinished", "commit-past-end")
			j.leaveOpen(number, "commit-after-dlq", "commit-before-dlq", "commit-without-dlq")
		}
	}
}

// leaveOpen marks promises about a record as open.
func (j *judge) leaveOpen(number int32, invariant string, anomalies ...string) {
	for _, anomaly := range anomalies {
		j.opinion.Open[Finding{OfRecord(invariant, number), anomaly}] = true
	}
}

// callsFailed reports whether a call that may have failed the record was not answered by a success, and whether that
// may have ended it: a fault answered with a logical failure, or there is no dead-letter topic. A failed write to an
// output topic may have failed any record, and so may any call where some are for several records.
func (j *judge) callsFailed(number int32) (failed, ended bool) {
	batches := j.batches()
	for i := range j.events {
		e := &j.events[i]
		if e.Kind != history.KindCallEnd || e.N == 0 || e.Record != number && !j.header.Downstreams[e.N].Topic && !batches {
			continue
		}
		failed = failed || e.Outcome != history.OutcomeSuccess || e.Flags.Has(history.ClientGone)
		ended = ended || e.Outcome == history.OutcomeLogical && e.Flags.Has(history.Forged)
	}
	return failed, ended || failed && !j.header.Contract().HasDLQ() // it may have been given up
}

// batches reports whether some calls are for several records.
func (j *judge) batches() bool {
	return slices.ContainsFunc(j.events, func(e history.Event) bool { return e.Kind == history.KindUnreadable })
}

// left reports whether a record that has no dead letter was left behind: all its calls at a downstream failed, with an
// answer that its subject got.
func (j *judge) left(r *record) bool {
	c := j.header.Contract()
	if !c.HasDLQ() || len(r.letters) > 0 || len(r.attempts) == 0 || j.batches() {
		return false
	}
	if last := r.attempts[len(r.attempts)-1]; last.outcome != history.OutcomeSuccess || last.gone {
		return false
	}
	for n := 1; n < len(j.header.Downstreams); n++ {
		if failed, all := j.callsAt(r.number, int32(n)); failed && all && !j.header.Downstreams[n].Optional {
			return true
		}
	}
	return false
}

// callsAt reports whether one of the record's calls at a downstream failed, and whether no other one may have done its
// work.
func (j *judge) callsAt(number, downstream int32) (failed, all bool) {
	c := j.header.Contract()
	all = true
	for i := range j.events {
		e := &j.events[i]
		switch {
		case e.Record != number || e.N != downstream:
		case e.Kind == history.KindCallStart:
			all = all && j.ended(e)
		case e.Kind != history.KindCallEnd:
		case e.Flags.Has(history.ClientGone), e.Outcome == history.OutcomeSuccess, e.Outcome == history.OutcomeTimeout,
			e.Outcome == history.OutcomeReset:
			all = false
		case j.retryable(e.Outcome), j.is(c.Permanent, e.Outcome):
			failed = true
		}
	}
	return failed, all
}

// ended reports whether a call was answered.
func (j *judge) ended(call *history.Event) bool {
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindCallEnd && e.Op == call.Op {
			return true
		}
	}
	return false
}
