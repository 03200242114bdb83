package naive

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// silence is how long after a refusal nothing may follow, beside the longest promised wait.
const silence = 30 * time.Second

// owed is a dead letter that was refused to a process, and of which nothing came yet.
type owed struct {
	number int32
	// last is when it was refused, final when first with an error that no client tries again, -1 if never.
	last, final time.Duration
}

// unclear: where a record lies, and hence whose dead letter is still to come, can't be said.
func (j *judge) unclear() bool {
	c := j.header.Contract()
	return j.header.Replay || c.Retry == history.RetryTopics || c.GroupType == history.GroupShare || !j.pairs()
}

// pairs: each attempt and each dead letter has one beginning, and one end after it at most.
func (j *judge) pairs() bool {
	for i := range j.events {
		e := &j.events[i]
		asks := map[history.Kind]history.Kind{
			history.KindAttemptEnd: history.KindAttemptStart, history.KindProduceResponse: history.KindProduceRequest,
		}[e.Kind]
		if asks == history.KindUnknown {
			continue
		}
		before, all := 0, 0
		for k := range j.events {
			if o := &j.events[k]; o.Op == e.Op && o.Record == e.Record && (o.Kind == asks || o.Kind == e.Kind) {
				all++
				if k < i && o.Kind == asks && by(o, e) {
					before++
				}
			}
		}
		if before != 1 || all != 2 {
			return false
		}
	}
	return true
}

// outstanding lists what was refused to the event's process and still owed just before the event with the index:
// nothing of the record succeeded since, its partition was not taken away, and the process was sent no signal.
func (j *judge) outstanding(of *history.Event, until int) []owed {
	var all []owed
	for number := range int32(j.header.Records) {
		one := owed{number, -1, -1}
		for i := range j.events[:until] {
			e := &j.events[i]
			switch {
			case j.settles(e, of, number):
				one.last, one.final = -1, -1
			case by(e, of) && e.Record == number && j.refusesLetter(*e):
				one.last = e.Time
				if one.final < 0 && final(e.Code) {
					one.final = e.Time
				}
			}
		}
		if one.last >= 0 {
			all = append(all, one)
		}
	}
	return all
}

// settles: after the event the process owes nothing of the record any more.
func (j *judge) settles(e, of *history.Event, number int32) bool {
	c := j.header.Contract()
	switch e.Kind {
	case history.KindInstanceSignal, history.KindInstanceExited:
		return by(e, of)
	case history.KindRevoked:
		return by(e, of) && j.in(number, e)
	case history.KindProduceResponse:
		return e.Record == number && e.Instance >= 0 && j.role(e.Topic) == history.RoleDLQ && accepted(e)
	case history.KindAttemptEnd:
		return e.Record == number &&
			(e.Outcome == history.OutcomeSuccess || j.is(c.Logical, e.Outcome) && !c.LogicalDeadLetters)
	}
	return e.Kind == history.KindPhase && e.Text == history.PhaseAudit
}

// in: the workload was told that the record lies in the event's partition.
func (j *judge) in(number int32, at *history.Event) bool {
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		return e.Kind == history.KindAcked && e.Code == 0 && e.Record == number && e.Topic == at.Topic &&
			e.Partition == at.Partition
	})
}

// refusesLetter: the event tells a process of the subject that a dead letter was refused.
func (j *judge) refusesLetter(e history.Event) bool {
	return e.Kind == history.KindProduceResponse && e.Instance >= 0 && j.role(e.Topic) == history.RoleDLQ &&
		e.Code != 0 && !e.Flags.Has(history.Withheld)
}

// refusals: a process to which a dead letter was refused tries on, or ends with an error, as its contract promises.
func (j *judge) refusals() {
	if !slices.ContainsFunc(j.events, j.refusesLetter) {
		return
	}
	if j.unclear() {
		for number := range int32(j.header.Records) {
			for _, anomaly := range []string{"stopped-trying", "did-not-crash"} {
				j.opinion.Open[Finding{OfRecord(halting, number), anomaly}] = true
			}
		}
		return
	}
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindInstanceStarting && e.Instance >= 0 {
			j.refusedTo(e)
		}
	}
}

func (j *judge) refusedTo(start *history.Event) {
	c := j.header.Contract()
	if c.OnFailure == history.OnFailureHalt || !slices.ContainsFunc(j.events, func(e history.Event) bool {
		return by(&e, start) && j.refusesLetter(e)
	}) {
		return
	}
	longest := time.Duration(0)
	for k := 1; k < max(c.MaxAttempts, 2); k++ {
		longest = max(longest, c.Backoff.Wait(k)+c.Backoff.Jitter+c.Backoff.Late)
	}
	idle, told := time.Duration(0), false
	for i := range j.events {
		e := &j.events[i]
		before := j.outstanding(start, i)
		over := slices.ContainsFunc(before, func(o owed) bool { return j.settles(e, start, o.number) })
		works := by(e, start) && slices.Contains([]history.Kind{
			history.KindAttemptStart, history.KindAttemptEnd, history.KindProduceRequest, history.KindProduceResponse,
		}, e.Kind)
		if (over || works) && len(before) > 0 && c.OnFailure == history.OnFailureRetry && e.Time-idle > silence+longest {
			first := slices.MinFunc(before, func(a, b owed) int { return int(a.last - b.last) })
			j.unkept("stopped-trying", first.number, idle, e.Time)
		}
		if over || works {
			idle = e.Time
		}
		for _, o := range before {
			if !j.settles(e, start, o.number) || c.OnFailure != history.OnFailureCrash || o.final < 0 {
				continue
			}
			quietly := e.Kind == history.KindInstanceExited && !e.Flags.Has(history.Expected) && e.Code == 0 && !told
			if quietly {
				j.sawUnkept("did-not-crash", o.number)
			} else if e.Time-o.final > silence+longest+c.StopGrace {
				j.unkept("did-not-crash", o.number, o.final, e.Time)
			}
		}
		told = told || by(e, start) && e.Kind == history.KindInstanceSignal && e.Text != "STOP" && e.Text != "CONT"
	}
}

func (j *judge) sawUnkept(anomaly string, number int32) {
	j.judged(halting)
	j.opinion.Found[Finding{OfRecord(halting, number), anomaly}] = true
}

// unkept: it is so, unless something else was in the way.
func (j *judge) unkept(anomaly string, number int32, from, to time.Duration) {
	other := slices.ContainsFunc(j.header.Faults, func(f history.PlannedFault) bool {
		return f.Kind != "kafka" || !f.StopsDeadLetters
	})
	if other || j.stoodStillIn(from, to) {
		j.opinion.Open[Finding{OfRecord(halting, number), anomaly}] = true
		return
	}
	j.sawUnkept(anomaly, number)
}
