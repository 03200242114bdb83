package reference

// This file judges what commit-after-outcome says about commits themselves: their sender, their upper bound, and that
// they never go back.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const outcome = "commit-after-outcome"

// asked is a commit of a partition and its answer, or nil if none came.
type asked struct{ ask, answer *history.Event }

// took reports whether the broker accepted the commit.
func (a *asked) took() bool {
	return a.answer != nil && a.answer.Code == 0 && !a.answer.Flags.Has(history.Forged)
}

// told reports whether the broker accepted the commit and the sender knows it.
func (a *asked) told() bool { return a.took() && !a.answer.Flags.Has(history.Withheld) }

// commitsOf returns the commits of a partition in the order of their requests. plain is false if requests and answers
// cannot be matched, or if a process received records before the partition was first assigned.
func (j *judge) commitsOf(topic int16, partition int32) (all []asked, plain bool) {
	given := false
	for i := range j.events {
		e := &j.events[i]
		if e.Topic != topic || e.Partition != partition {
			continue
		}
		switch e.Kind {
		case history.KindAssigned:
			given = true
		case history.KindFetched, history.KindAttemptStart:
			if !given {
				return nil, false
			}
		case history.KindCommitRequest:
			if slices.ContainsFunc(all, func(a asked) bool { return a.ask.Op == e.Op }) {
				return nil, false
			}
			all = append(all, asked{ask: e})
		case history.KindCommitResponse:
			at := slices.IndexFunc(all, func(a asked) bool { return a.ask.Op == e.Op })
			if at < 0 || all[at].answer != nil {
				return nil, false
			}
			all[at].answer = e
		}
	}
	return all, true
}

func (j *judge) partitions() {
	for topic := range int16(len(j.header.Topics)) {
		for partition := range int32(j.header.Topics[topic].Partitions) {
			commits, plain := j.commitsOf(topic, partition)
			if plain && len(commits) > 0 && !j.header.Contract().AutoCommit {
				j.decide(OfPartition(outcome, topic, partition))
				j.judged(outcome)
				j.strangers(topic, partition, commits)
				j.beyond(topic, partition, commits)
				j.backwards(topic, partition, commits)
			}
		}
	}
}

func (j *judge) sawPartition(anomaly string, topic int16, partition int32) {
	j.opinion.Found[Finding{OfPartition(outcome, topic, partition), anomaly}] = true
}

func by(e, other *history.Event) bool { return e.Instance == other.Instance && e.Run == other.Run }

// had reports whether the sender had been assigned the partition (any partition, with None), or had received records of
// it, by the time.
func (j *judge) had(of *history.Event, topic int16, partition int32, until time.Duration) bool {
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		return (e.Kind == history.KindAssigned || e.Kind == history.KindFetched) && by(&e, of) && e.Time <= until &&
			(topic < 0 || e.Topic == topic && e.Partition == partition)
	})
}

// strangers finds processes that commit a partition they never owned, although they are known to own others.
func (j *judge) strangers(topic int16, partition int32, commits []asked) {
	for i := range commits {
		if c := &commits[i]; c.took() && !j.had(c.ask, topic, partition, c.ask.Time) &&
			j.had(c.ask, history.None, history.None, c.answer.Time) {
			j.sawPartition("commit-wrong-partition", topic, partition)
		}
	}
}

// beyond finds commits past the end of the log, wherever events show how far it reaches.
func (j *judge) beyond(topic int16, partition int32, commits []asked) {
	end, audits := int64(-1), 0
	for i := range j.events {
		e := &j.events[i]
		if e.Topic != topic || e.Partition != partition {
			continue
		}
		switch e.Kind {
		case history.KindAuditOffsets:
			audits++
			end = max(end, e.Offset)
		case history.KindFetched:
			end = max(end, e.Offset+1, e.Aux+1)
		case history.KindAcked, history.KindAuditRecord:
			end = max(end, e.Offset+1)
		case history.KindProduceResponse:
			if !j.again(i) {
				end = max(end, e.Offset+1)
			}
		}
	}
	if audits != 1 {
		j.opinion.Open[Finding{OfPartition(outcome, topic, partition), "commit-past-end"}] = true
	}
	for i := range commits {
		if c := &commits[i]; c.took() && c.ask.Offset > end {
			j.sawPartition("commit-past-end", topic, partition)
		}
	}
}

// again reports whether the produce that it answers was answered before, which makes it ambiguous.
func (j *judge) again(at int) bool {
	e := &j.events[at]
	return slices.ContainsFunc(j.events[:at], func(o history.Event) bool {
		return o.Kind == e.Kind && o.Op == e.Op && o.Record == e.Record
	})
}

// backwards implements "goes back within one assignment, or by a process that has lost the partition", relative to a
// commit whose answer had been passed on when the sender sent this one.
func (j *judge) backwards(topic int16, partition int32, commits []asked) {
	for i := range commits {
		c := &commits[i]
		var last *asked
		for k := range commits {
			before := &commits[k]
			if k == i || before.ask.Time > c.ask.Time {
				continue
			}
			if before.ask.Time == c.ask.Time || before.took() && before.answer.Time > c.ask.Time {
				// With two commits in flight, it is unknown which one is later.
				j.opinion.Open[Finding{OfPartition(outcome, topic, partition), "commit-regressed"}] = true
			}
			if before.told() && before.answer.Time <= c.ask.Time && (last == nil || before.answer.Time >= last.answer.Time) {
				last = before
			}
		}
		if !c.took() || last == nil || c.ask.Offset >= last.ask.Offset {
			continue
		}
		if by(c.ask, last.ask) && !j.moved(c, last.ask.Time) || j.lost(c) {
			j.sawPartition("commit-regressed", topic, partition)
		}
	}
}

// moved reports whether the partition has since been assigned to some process or revoked from the sender. A revocation
// from another process that only appeared to own it still ends no assignment but that process's own.
func (j *judge) moved(c *asked, since time.Duration) bool {
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		return (e.Kind == history.KindAssigned || e.Kind == history.KindRevoked && by(&e, c.ask)) &&
			e.Topic == c.ask.Topic && e.Partition == c.ask.Partition &&
			e.Time >= since && e.Time <= c.answer.Time
	})
}

// lost reports whether another process than the sender had been assigned the partition when the commit was read, and
// kept it until the answer.
func (j *judge) lost(c *asked) bool {
	var owner *history.Event
	for i := range j.events {
		e := &j.events[i]
		if e.Topic != c.ask.Topic || e.Partition != c.ask.Partition || e.Time > c.answer.Time {
			continue
		}
		before := owner
		switch {
		case e.Kind == history.KindAssigned:
			owner = e
		case e.Kind == history.KindRevoked && owner != nil && by(e, owner):
			owner = nil
		}
		if owner != before && e.Time >= c.ask.Time {
			return false
		}
	}
	return owner != nil && !by(c.ask, owner)
}

// passed records a commit past a non-terminal record. A record that no process received lies outside the work to be
// done. If only the dead letter is outstanding, another invariant names the anomaly.
func (j *judge) passed(r *record, c commit, outstanding bool) {
	handed, fetched := false, false
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindFetched && e.Topic == r.topic && e.Partition == r.partition {
			fetched = true
			handed = handed || e.Time <= c.asked && max(e.Aux, e.Offset) >= r.offset
		}
	}
	switch {
	case r.known >= c.asked:
		j.open(outcome, "commit-past-end", r)
		j.open(outcome, "commit-past-unfinished", r)
	case !handed && fetched:
		j.saw(outcome, "commit-past-end", r)
	case j.header.Refusable && j.halts(r) && len(j.header.Faults) > 0:
		// It counts as refused, because no attempt was seen. A fault may have hidden one.
		j.open(outcome, "commit-past-unfinished", r)
	case !outstanding:
		j.saw(outcome, "commit-past-unfinished", r)
	}
}
