package reference

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const live = "liveness"

// catchesUp implements "after heal, lag returns to zero within the allowance; no partition is left paused".
func (j *judge) catchesUp() {
	if j.header.Contract().Retry == history.RetryTopics || !j.wholeTime() {
		return
	}
	for topic := range int16(len(j.header.Topics)) {
		for partition := range int32(j.header.Topics[topic].Partitions) {
			if j.role(topic) == history.RoleInput {
				j.caughtUp(topic, partition)
			}
		}
	}
	for number := range int32(j.header.Records) {
		j.decide(OfRecord(live, number))
	}
}

// drain is the last period in which the subject was given time.
func (j *judge) drain() (from, to time.Duration) {
	for i := range j.events {
		e := &j.events[i]
		starts := e.Kind == history.KindPhase && (e.Text == history.PhaseDrain || e.Text == history.PhaseReplay) ||
			e.Kind == history.KindProduceRequest && e.Instance == history.Replayer
		if starts {
			from = e.Time
		}
		if e.Kind == history.KindPhase && e.Text == history.PhaseAudit {
			return from, e.Time
		}
	}
	return from, from
}

// stoodStillIn reports whether a process or the harness stood still in the period.
func (j *judge) stoodStillIn(from, to time.Duration) bool {
	stopped := map[int16]bool{}
	for i := range j.events {
		e := &j.events[i]
		switch {
		case e.Time > to:
		case e.Kind == history.KindStall && e.Time >= from:
			return true
		case e.Kind == history.KindInstanceSignal && e.Text == "STOP":
			stopped[e.Instance] = true
		case e.Kind == history.KindInstanceSignal && e.Text == "CONT", e.Kind == history.KindInstanceExited,
			e.Kind == history.KindInstanceStarting:
			if stopped[e.Instance] && e.Time >= from {
				return true
			}
			delete(stopped, e.Instance)
		}
	}
	return len(stopped) > 0
}

// lies returns the records known to be in a partition, by offset.
func (j *judge) lies(topic int16, partition int32) map[int64]int32 {
	all := map[int64]int32{}
	for i := range j.events {
		e := &j.events[i]
		known := e.Kind == history.KindAcked && e.Code == 0 || e.Kind == history.KindAuditRecord ||
			e.Kind == history.KindProduceResponse && e.Code == 0 && !e.Flags.Has(history.Forged) && !j.again(i)
		if known && e.Topic == topic && e.Partition == partition && e.Offset >= 0 && e.Record >= 0 {
			all[e.Offset] = e.Record
		}
	}
	return all
}

// caughtUp judges a partition that has records after its committed offset: it is stalled or was left paused. A
// partition committed only when the subject was told to stop is stalled, too.
func (j *judge) caughtUp(topic int16, partition int32) {
	lies := j.lies(topic, partition)
	commits, plain := j.commitsOf(topic, partition)
	group, audits := int64(0), 0
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindAuditOffsets && e.Topic == topic && e.Partition == partition {
			group, audits = e.Aux, audits+1
		}
	}
	_, to := j.drain()
	latest, atDrain := int64(0), int64(0)
	answered, before := time.Duration(-1), time.Duration(-1)
	for i := range commits {
		c := &commits[i]
		if c.took() && c.answer.Time >= answered {
			latest, answered = c.ask.Offset, c.answer.Time
		}
		if c.took() && c.answer.Time <= to && c.answer.Time >= before {
			atDrain, before = c.ask.Offset, c.answer.Time
		}
	}
	end := int64(0)
	for offset := range lies {
		end = max(end, offset+1)
	}
	behind := firstFrom(lies, max(group, 0))
	at := firstFrom(lies, atDrain)
	onlyAtStop := behind < 0 && at >= 0 && latest >= end
	switch {
	case len(lies) == 0:
		return
	case audits != 1 || !plain && behind < 0:
		for _, number := range lies {
			j.opinion.Open[Finding{OfRecord(live, number), "stalled"}] = true
		}
		return
	}
	if behind >= 0 && j.heldFrom(topic, partition, lies, behind) {
		return
	}
	j.judged(live)
	switch {
	case behind >= 0 && (j.attempted(lies[behind]) || strangers(commits) ||
		j.ungiven(topic, partition)) && j.paused(topic, partition, lies, behind):
		// The record was attempted, so some process received it, but no fetch shows that. Alternatively, several
		// processes act as owners of the partition, or one did before it owned it. It is open which of the two applies.
		for _, number := range lies {
			j.opinion.Open[Finding{OfRecord(live, number), "paused-partition"}] = true
			j.opinion.Open[Finding{OfRecord(live, number), "stalled"}] = true
		}
	case behind >= 0 && j.paused(topic, partition, lies, behind):
		j.stands("paused-partition", j.waitedFor(lies, behind, forever))
	case behind >= 0:
		j.stands("stalled", j.waitedFor(lies, behind, forever))
	case onlyAtStop:
		j.stands("stalled", j.waitedFor(lies, at, to))
	}
}

// heldFrom reports whether the record that the others after the offset wait for is held, because the subject has
// halted. If that is not certain, the partition is open.
func (j *judge) heldFrom(topic int16, partition int32, lies map[int64]int32, behind int64) bool {
	if j.header.Contract().Poison != history.PoisonHalt {
		return false
	}
	candidates, held := j.waitedFor(lies, behind, forever), 0
	for offset, number := range lies {
		if slices.Contains(candidates, number) && j.held(topic, partition, offset) {
			held++
		}
	}
	if held > 0 && held < len(candidates) {
		for _, number := range lies {
			j.opinion.Open[Finding{OfRecord(live, number), "paused-partition"}] = true
			j.opinion.Open[Finding{OfRecord(live, number), "stalled"}] = true
		}
	}
	return held > 0
}

// stands records that the partition does not advance. The finding names one record; if several are possible, it is open
// which one.
func (j *judge) stands(anomaly string, candidates []int32) {
	for _, number := range candidates {
		if one := (Finding{OfRecord(live, number), anomaly}); len(candidates) > 1 {
			j.opinion.Open[one] = true
		} else {
			j.opinion.Found[one] = true
		}
	}
}

// waitedFor returns the record that the others after the offset wait for: the first that was not terminal by the time
// or, if all were, the first. It returns several candidates if that is unknown for some.
func (j *judge) waitedFor(lies map[int64]int32, from int64, by time.Duration) (candidates []int32) {
	unsure := false
	for offset := from; offset >= 0; offset = firstFrom(lies, offset+1) {
		terminal, known := j.terminalBy(lies[offset], by)
		if known && terminal {
			continue
		}
		candidates = append(candidates, lies[offset])
		if unsure = unsure || !known; known {
			return candidates
		}
	}
	if len(candidates) == 0 || unsure {
		candidates = append(candidates, lies[from])
	}
	return candidates
}

// terminalBy reports whether the record was terminal by the time. For a record with several copies, or one that the
// downstream stub cannot identify, its attempts and dead letters cannot be told apart, so the result is not known.
func (j *judge) terminalBy(number int32, by time.Duration) (terminal, known bool) {
	switch r := j.place(number); {
	case slices.ContainsFunc(j.events, func(e history.Event) bool { // also one whose acknowledgement was lost
		return e.Kind == history.KindSend && e.Record == number && j.header.Contract().Skips(e.Flags)
	}):
		return true, true
	case r != nil && j.halts(r):
		return false, true
	}
	if !slices.ContainsFunc(j.events, func(e history.Event) bool { return e.Record == number && j.mayEnd(&e) }) {
		return false, !j.nameless()
	}
	if j.header.Replay {
		return false, false
	}
	var at time.Duration
	if r := j.gather(number); r != nil && !j.disturbed() {
		at = j.terminal(r)
	} else if s := j.trace(number); s != nil && j.header.Contract().HasDLQ() {
		at = j.finished(s)
	} else {
		return false, false
	}
	return at >= 0 && at <= by, true
}

// mayEnd reports whether the event may have made its record terminal.
func (j *judge) mayEnd(e *history.Event) bool {
	return e.Kind == history.KindAttemptEnd && e.Outcome != history.OutcomeNone || e.Kind == history.KindProduceResponse
}

// nameless reports whether there was an attempt that the downstream stub could not identify.
func (j *judge) nameless() bool {
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		return e.Kind == history.KindAttemptStart && e.Record < 0
	})
}

// firstFrom is the first offset from at on that holds a record, or -1.
func firstFrom(lies map[int64]int32, at int64) int64 {
	first := int64(-1)
	for offset := range lies {
		if offset >= at && (first < 0 || offset < first) {
			first = offset
		}
	}
	return first
}

// paused implements "whose holder had it all through the drain and did not ask for its records": in the second half of
// the drain the holder received no records, although there were some that it had not received, and none of the
// partition's records was being processed.
func (j *judge) paused(topic int16, partition int32, lies map[int64]int32, at int64) bool {
	from, to := j.drain()
	middle := from + (to-from)/2
	var holder *history.Event
	for i := range j.events {
		e := &j.events[i]
		here := e.Topic == topic && e.Partition == partition && e.Time < to
		switch {
		case here && e.Kind == history.KindAssigned && !same(e, holder):
			holder = e
		case here && e.Kind == history.KindRevoked && same(e, holder), e.Kind == history.KindInstanceExited &&
			same(e, holder) && e.Time < to:
			holder = nil
		}
	}
	if holder == nil || holder.Time > from {
		return false
	}
	last, end := int64(-1), int64(-1)
	for offset, number := range lies {
		end = max(end, offset)
		if offset >= at && j.busy(number, middle, to) {
			return false
		}
	}
	for i := range j.events {
		e := &j.events[i]
		if e.Kind != history.KindFetched || e.Topic != topic || e.Partition != partition || !same(e, holder) ||
			e.Time < holder.Time || e.Time >= to {
			continue
		}
		last = max(last, e.Aux)
		if e.Time > middle {
			return false
		}
	}
	return last < end
}

// busy reports whether the record was being processed at some time between the two.
func (j *judge) busy(number int32, from, to time.Duration) bool {
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		under := e.Kind == history.KindAttemptStart || e.Kind == history.KindAttemptEnd ||
			e.Kind == history.KindProduceRequest
		return under && e.Record == number && e.Time > from && e.Time < to
	})
}

// ungiven reports whether a process fetched from the partition before it was first assigned to it.
func (j *judge) ungiven(topic int16, partition int32) bool {
	for i := range j.events {
		e := &j.events[i]
		if e.Kind != history.KindFetched || e.Topic != topic || e.Partition != partition {
			continue
		}
		given := slices.ContainsFunc(j.events[:i], func(g history.Event) bool {
			return g.Kind == history.KindAssigned && g.Topic == topic && g.Partition == partition && same(&g, e)
		})
		if !given {
			return true
		}
	}
	return false
}

// strangers reports whether more than one process commits the partition.
func strangers(commits []asked) bool {
	return slices.ContainsFunc(commits, func(c asked) bool { return !by(c.ask, commits[0].ask) })
}

// attempted reports whether there was an attempt at a record.
func (j *judge) attempted(number int32) bool {
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		return e.Kind == history.KindAttemptStart && e.Record == number
	})
}
