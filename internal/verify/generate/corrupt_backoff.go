package generate

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

func backoffCorruptions() []Corruption {
	backoff := func(anomaly string) Promise { return Promise{"backoff", anomaly} }
	return []Corruption{
		{Name: "the first retry comes after half of its wait", Promise: backoff("backoff-early"), apply: tooEarly},
		{Name: "a later retry waits only as long as the first", Promise: backoff("backoff-not-growing"), apply: notGrowing},
		{Name: "a retry comes later than allowed", Promise: backoff("backoff-late"), apply: tooLate},
		{Name: "a retry waits as if there were no cap", Promise: backoff("cap-exceeded"), apply: uncapped},
	}
}

// waited reports whether the record's k-th gap (from 1) follows a plain transient failure.
func (v *view) waited(f *facts, k int) bool {
	return v.quiet(f) && v.inPlace() && len(f.attempts) > k && v.Header.Contract().Backoff.Initial > 0 &&
		v.outcome(f.attempts[k-1]) == history.OutcomeTransient &&
		v.Events[f.attempts[k-1].answer].Flags&^history.InTransaction == 0
}

func tooEarly(v *view) (int32, bool) {
	if v.Header.Contract().Calls > 1 {
		return none, false // an early call may be a repeat by the client
	}
	f := v.chosen(func(f *facts) bool { return v.waited(f, 1) })
	if f != nil {
		v.separate(f.attempts[1].ask)
		v.Events[f.attempts[1].ask].Time = v.time(f.attempts[0].answer) + v.Header.Contract().Backoff.Wait(1)/2
	}
	return about(f)
}

func notGrowing(v *view) (int32, bool) {
	b := v.Header.Contract().Backoff
	if b.Wait(2) < b.Wait(1)+10*ms {
		return none, false
	}
	f := v.chosen(func(f *facts) bool { return v.waited(f, 2) })
	if f != nil {
		v.separate(f.attempts[2].ask)
		v.Events[f.attempts[2].ask].Time = v.time(f.attempts[1].answer) + b.Wait(1) + ms
	}
	return about(f)
}

// waiting reports whether another record waits for its next attempt at the given time.
func (v *view) waiting(f *facts, at time.Duration) bool {
	for _, other := range v.records {
		for k := 1; k < len(other.attempts) && other != f; k++ {
			if one := other.attempts[k-1]; one.answer == none || v.time(one.ask) < at && v.time(other.attempts[k].ask) >= at {
				return true
			}
		}
	}
	return false
}

// busyBetween reports whether an attempt of another record, or a call of this one, is under way between the two times:
// a process that does one thing at a time is late by right for as long as that takes.
func (v *view) busyBetween(f *facts, from, to time.Duration) bool {
	if slices.ContainsFunc(f.calls, func(one pair) bool { return v.time(one.ask) < to && v.time(one.answer) > from }) {
		return true
	}
	for _, other := range v.records {
		for _, one := range other.attempts {
			if other != f && v.time(one.ask) < to && (one.answer == none || v.time(one.answer) > from) {
				return true
			}
		}
	}
	return false
}

// stretch lengthens a gap of a record by the amount that by returns for its present length.
func stretch(v *view, k int, by func(length time.Duration) time.Duration) (int32, bool) {
	f := v.chosen(func(f *facts) bool {
		if !v.waited(f, k) || !v.Calm {
			return false
		}
		from, to := v.time(f.attempts[k-1].answer), v.time(f.attempts[k].ask)
		return !v.waiting(f, to) && !v.busyBetween(f, from, to)
	})
	if f == nil {
		return none, false
	}
	start := v.time(f.attempts[k].ask)
	longer := by(start - v.time(f.attempts[k-1].answer))
	if longer <= 0 {
		return none, false
	}
	v.dilate(start, longer)
	return about(f)
}

func tooLate(v *view) (int32, bool) {
	b := v.Header.Contract().Backoff
	return stretch(v, 1, func(length time.Duration) time.Duration { return b.Wait(1) + b.Jitter + b.Late + 5*ms - length })
}

func uncapped(v *view) (int32, bool) {
	b := v.Header.Contract().Backoff
	free := b
	free.Cap = 0
	for _, k := range []int{2, 3} {
		if b.Cap == 0 || free.Wait(k) <= b.Cap {
			continue
		}
		longest := max(free.Wait(k), b.Wait(k)+b.Jitter+b.Late)
		return stretch(v, k, func(length time.Duration) time.Duration { return longest + 5*ms - length })
	}
	return none, false
}
