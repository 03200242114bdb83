package reference

// What commit-after-outcome says of commits as such: who sends them, how far they reach, and that they go forward.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const outcome = "commit-after-outcome"

// asked is a commit of a partition and its answer, nil where none came.
type asked struct{ ask, answer *history.Event }

// took: the broker accepted it.
func (a *asked) took() bool {
	return a.answer != nil && a.answer.Code == 0 && !a.answer.Flags.Has(history.Forged)
}

// told: and its sender knows.
func (a *asked) told() bool { return a.took() && !a.answer.Flags.Has(history.Withheld) }

// commitsOf returns the commits of a partition in the order in which they were asked for; plain is false where what was
// answered to what is not clear, or somebody got something before the partition was first assigned.
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

func (j *judge) sawPartition(invariant, anomaly string, topic int16, partition int32) {
	j.opinion.Found[Finding{OfPartition(invariant, topic, partition), anomaly}] = true
}

func by(e, other *history.Event) bool { return e.Instance == other.Instance && e.Run == other.Run }

// had: the sender had been given the partition (of any, with None), or records of it, by the time.
func (j *judge) had(of *history.Event, topic int16, partition int32, until time.Duration) bool {
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		return (e.Kind == history.KindAssigned || e.Kind == history.KindFetched) && by(&e, of) && e.Time <= until &&
			(topic < 0 || e.Topic == topic && e.Partition == partition)
	})
}

// strangers: a process commits a partition that it never had, though it is seen to have others.
func (j *judge) strangers(topic int16, partition int32, commits []asked) {
	for i := range commits {
		if c := &commits[i]; c.took() && !j.had(c.ask, topic, partition, c.ask.Time) &&
			j.had(c.ask, history.None, history.None, c.answer.Time) {
			j.sawPartition(outcome, "commit-wrong-partition", topic, partition)
		}
	}
}

// beyond: a commit lies beyond the end of the log, whatever tells how far that reaches.
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
			j.sawPartition(outcome, "commit-past-end", topic, partition)
		}
	}
}

// again: the write that it answers has been answered before, so it is not known what to make of it.
func (j *judge) again(at int) bool {
	e := &j.events[at]
	return slices.ContainsFunc(j.events[:at], func(o history.Event) bool {
		return o.Kind == e.Kind && o.Op == e.Op && o.Record == e.Record
	})
}

// backwards: "goes back within one assignment", from a commit whose answer its sender had when it sent this one.
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
				// Two at once: which is the later one is not said.
				j.opinion.Open[Finding{OfPartition(outcome, topic, partition), "commit-regressed"}] = true
			}
			if before.told() && before.answer.Time <= c.ask.Time && (last == nil || before.answer.Time >= last.answer.Time) {
				last = before
			}
		}
		if !c.took() || last == nil || c.ask.Offset >= last.ask.Offset {
			continue
		}
		if by(c.ask, last.ask) && !j.moved(c, last.ask.Time) || j.lost(c, last) {
			j.sawPartition(outcome, "commit-regressed", topic, partition)
		}
	}
}

// moved: somebody was given the partition since, or the sender had to give it up. What another process is relieved of
// that only seemed to have it still, ends nobody's assignment but its own.
func (j *judge) moved(c *asked, since time.Duration) bool {
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		return (e.Kind == history.KindAssigned || e.Kind == history.KindRevoked && by(&e, c.ask)) &&
			e.Topic == c.ask.Topic && e.Partition == c.ask.Partition &&
			e.Time >= since && e.Time <= c.answer.Time
	})
}

// lost: another process than the sender had been given the partition, made the last commit, and has the partition
// still.
func (j *judge) lost(c, last *asked) bool {
	holds := false
	for i := range j.events {
		e := &j.events[i]
		if e.Topic != last.ask.Topic || e.Partition != last.ask.Partition || e.Time > c.answer.Time {
			continue
		}
		switch e.Kind {
		case history.KindAssigned:
			holds = by(e, last.ask)
		case history.KindRevoked:
			holds = holds && !by(e, last.ask)
		}
		if !holds && e.Time >= last.ask.Time && (e.Kind == history.KindAssigned || e.Kind == history.KindRevoked) {
			return false
		}
	}
	return holds && !by(c.ask, last.ask)
}

// passed: a commit passes a record that is not terminal. One that nobody was handed lies beyond the end of what was
// there to be done; where only the dead letter is outstanding, that is another invariant's to name.
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
	case !outstanding:
		j.saw(outcome, "commit-past-unfinished", r)
	}
}
