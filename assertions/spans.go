package assertions

// What disturbed whom, and when: fault windows, stalls of the harness or of an instance, instances that were stopped. A
// checker that suspects something asks here, at the end of the history, whether the suspicion could have an innocent
// cause. Asking at the end matters: a stall is recorded when it is over, so after what it explains.

import (
	"sort"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// span is a stretch of time in which an instance (none: the harness) could not run for as long as lasted says.
type span struct {
	from, to time.Duration
	lasted   time.Duration
	instance int16
	// stopped: by a STOP signal, so it explains anything; otherwise it explains as much as it lasted.
	stopped bool
	// starved: it and those shortly before it add up to as much as if it had stood still.
	starved bool
}

// spans are sorted by their ends, as they are recorded when they end.
type spans struct {
	list    []span
	longest time.Duration
}

func (s *spans) add(one span) {
	one.from = max(one.from, 0)
	one.lasted = max(one.lasted, 0)
	one.starved = s.starves(one)
	s.list = append(s.list, one)
	s.longest = max(s.longest, one.to-one.from)
}

func (s *spans) starves(one span) bool {
	total := one.lasted
	for at := len(s.list) - 1; at >= 0 && s.list[at].to > one.to-starvedWindow; at-- {
		if before := &s.list[at]; before.instance == one.instance {
			total += before.lasted
		}
	}
	return total >= starvedStall
}

// stalled returns how long the harness and the instance stood still in stalls that touch the stretch from from to to,
// and whether the instance was stopped there.
func (s *spans) stalled(instance int16, from, to time.Duration) (total time.Duration, stopped bool) {
	at := sort.Search(len(s.list), func(i int) bool { return s.list[i].to >= from })
	for ; at < len(s.list) && s.list[at].to-s.longest <= to; at++ {
		one := s.list[at]
		if one.from > to || one.instance != none && one.instance != instance {
			continue
		}
		if one.stopped {
			stopped = true
		}
		total += one.lasted
	}
	return total, stopped
}

// frozen returns for how long the instance was stopped by signals between from and to.
func (s *spans) frozen(instance int16, from, to time.Duration) (total time.Duration) {
	for i := range s.list {
		if one := &s.list[i]; one.stopped && one.instance == instance {
			total += max(min(one.to, to)-max(one.from, from), 0)
		}
	}
	return total
}

// stoodStill reports whether the harness or the instance stood still, or had hardly any processor time, at any time
// between from and to for long enough to make a client's timeout fire.
func (s *spans) stoodStill(instance int16, from, to time.Duration) bool {
	return s.any(instance, from, to, func(one *span) bool {
		return one.stopped || one.starved || one.lasted >= answerStall
	})
}

// starved reports whether the harness or the instance had hardly any processor time at any time between from and to.
func (s *spans) starved(instance int16, from, to time.Duration) bool {
	return s.any(instance, from, to, func(one *span) bool { return one.starved })
}

// any reports whether one of the stalls of the harness or the instance that touch the stretch is such a one.
func (s *spans) any(instance int16, from, to time.Duration, is func(*span) bool) bool {
	at := sort.Search(len(s.list), func(i int) bool { return s.list[i].to >= from })
	for ; at < len(s.list) && s.list[at].to-s.longest <= to; at++ {
		one := &s.list[at]
		if one.from <= to && (one.instance == none || one.instance == instance) && is(one) {
			return true
		}
	}
	return false
}

// faultState is what the history shows of a planned fault.
type faultState struct {
	planned  history.PlannedFault
	injected bool
	healed   bool
	from, to time.Duration
	effects  map[string]int64
}

// covers reports whether the fault, or its aftermath, touches the stretch from from to to.
func (f *faultState) covers(from, to time.Duration) bool {
	return f.injected && f.from <= to && (!f.healed || f.to+faultGrace >= from)
}

// onDownstreamLink: what breaks the link between subject and oracle, in whatever way and direction, hides attempts from
// the one or answers from the other. Faults of the kind downstream are the oracle's own doing: what it answered then,
// when, and whether the client was still there is in the history, so they hide nothing.
func onDownstreamLink(f *history.PlannedFault) bool {
	return f.Kind == "network" && f.Target == "downstream"
}

func ofDownstream(f *history.PlannedFault) bool { return f.Kind == "downstream" }

// missed reports whether the answer to an attempt that took from from to to may have come just when its client gave up
// on it: a slow or hanging downstream answers late, and the client's own timeout is near. (The client hangs up first
// and the oracle answers before it sees that.)
func (w *state) missed(from, to time.Duration) bool {
	return to-from >= answerStall && w.faulted(ofDownstream, from, to)
}

func stopsDeadLetters(f *history.PlannedFault) bool { return f.StopsDeadLetters }

func anyFault(*history.PlannedFault) bool { return true }

// faulted reports whether a fault that matches touches the stretch from from to to.
func (w *state) faulted(matches func(*history.PlannedFault) bool, from, to time.Duration) bool {
	for i := range w.faults {
		if f := &w.faults[i]; f.covers(from, to) && matches(&f.planned) {
			return true
		}
	}
	return false
}

// answersHidden reports whether, between from and to, an attempt of the instance may have missed the oracle or an
// answer of the oracle may have missed the instance; why names the reason. Where it is true, what the oracle saw isn't
// what the subject saw.
func (w *state) answersHidden(instance int16, from, to time.Duration) (why string, hidden bool) {
	if w.faulted(onDownstreamLink, from, to) {
		return "fault on the link to the oracle", true
	}
	if w.stalls.stoodStill(instance, from-catchUp, to) {
		return "stall", true
	}
	return "", false
}

// attemptsHidden is answersHidden, where only more attempts than the oracle saw would be an excuse. In a rush there was
// no time for them, by the waits that the contract promises: a stall hides attempts, and does not shorten what lies
// between them.
func (w *state) attemptsHidden(instance int16, from, to time.Duration, rush bool) (why string, hidden bool) {
	why, hidden = w.answersHidden(instance, from, to)
	return why, hidden && (!rush || w.faulted(onDownstreamLink, from, to))
}

// waitsLimit is of how many waits it is asked whether there was time for them.
const waitsLimit = 1000

// takesLonger reports whether so many attempts, of which each but the last is followed by its promised wait, take
// longer than that.
func (w *state) takesLonger(attempts int, than time.Duration) bool {
	least := time.Duration(0)
	for k := 1; k < min(attempts, waitsLimit) && least <= than; k++ {
		least += max(w.contract.Backoff.Wait(k)-earlySlack, 0)
	}
	return least > than
}

// rushed reports whether the process that asks for the dead letter can't have made so many attempts: what it does not
// get an answer to is retryable, too.
func (w *state) rushed(one *write, attempts int) bool {
	return one.whole && w.classes[history.OutcomeTimeout] == classRetryable &&
		w.takesLonger(attempts, one.at-w.record(one.record).born)
}
