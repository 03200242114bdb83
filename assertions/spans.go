package assertions

// Disturbances: fault windows, stalls of the harness or of an instance, instances that were stopped. At the end of the
// history, a checker that suspects an anomaly asks here whether it could have an innocent cause. It must ask at the
// end, because a stall is recorded when it is over, after the events that it explains.

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// span is an interval in which an instance (none: the harness) could not run for the time given by lasted.
type span struct {
	from, to time.Duration
	lasted   time.Duration
	instance int16
	// stopped: by a STOP signal, so it explains any delay. Otherwise it explains delays up to lasted.
	stopped bool
	// starved: it and those shortly before it add up to the equivalent of a stall.
	starved bool
}

// spans are sorted by their ends, because they are recorded when they end.
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

// stalled returns how long the harness and the instance stood still in stalls that overlap the interval between from
// and to, and whether the instance was stopped there.
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

// frozen returns how long the instance was stopped by signals between from and to.
func (s *spans) frozen(instance int16, from, to time.Duration) (total time.Duration) {
	for i := range s.list {
		if one := &s.list[i]; one.stopped && one.instance == instance {
			total += max(min(one.to, to)-max(one.from, from), 0)
		}
	}
	return total
}

// stoodStill reports whether, between from and to, the harness or the instance stood still, or had hardly any processor
// time, for long enough to make a client's timeout fire.
func (s *spans) stoodStill(instance int16, from, to time.Duration) bool {
	return s.any(instance, from, to, func(one *span) bool {
		return one.stopped || one.starved || one.lasted >= answerStall
	})
}

// starved reports whether the harness or the instance had hardly any processor time at any time between from and to.
func (s *spans) starved(instance int16, from, to time.Duration) bool {
	return s.any(instance, from, to, func(one *span) bool { return one.starved })
}

// anyone stands for every instance.
const anyone int16 = math.MinInt16

// any reports whether a stall of the harness or the instance that overlaps the interval matches.
func (s *spans) any(instance int16, from, to time.Duration, is func(*span) bool) bool {
	at := sort.Search(len(s.list), func(i int) bool { return s.list[i].to >= from })
	for ; at < len(s.list) && s.list[at].to-s.longest <= to; at++ {
		one := &s.list[at]
		if one.from <= to && (one.instance == none || one.instance == instance || instance == anyone) && is(one) {
			return true
		}
	}
	return false
}

// faultState is the observed state of a planned fault.
type faultState struct {
	planned  history.PlannedFault
	injected bool
	healed   bool
	from, to time.Duration
	effects  map[string]int64
	// failed is what the fault could not do, and why, "" if nothing is known of that.
	failed string
	// called is when the first call of each instance after the fault arrived; nil if it is not on the downstream's link.
	called map[int16]time.Duration
}

// covers reports whether the fault, or its aftermath, overlaps the interval between from and to.
func (f *faultState) covers(from, to time.Duration) bool {
	return f.injected && f.from <= to && (!f.healed || f.to+faultGrace >= from)
}

// away is how long after the fault, on a link to a downstream, a client may fail calls by itself. After a lost
// connection, gRPC's clients wait before they connect again, longer each time, and until then they fail all calls
// without sending any (its connection backoff: 1 s, times 1.6, 20 % of jitter). So the last wait is about as long as
// the fault at most.
func (f *faultState) away() time.Duration { return f.to - f.from + faultGrace }

// hides reports whether the fault, which hides calls, may have hidden one of the instance between from and to.
func (f *faultState) hides(instance int16, from, to time.Duration) bool {
	if f.covers(from, to) || f.called == nil || f.from > to {
		return f.covers(from, to)
	}
	until := f.to + f.away()
	if at, arrived := f.called[instance]; arrived {
		until = min(until, at)
	}
	return until >= from
}

// onDownstreamLink reports whether the fault is on the link between subject and downstream stub. Such a fault, of any
// kind and direction, hides attempts from the stub or answers from the subject. Faults of the kind downstream are
// actions of the stub itself: its answers, their times, and whether the client was still connected are in the history,
// so these faults hide nothing.
func onDownstreamLink(f *history.PlannedFault) bool {
	return f.Kind == "network" && f.Target == "downstream"
}

func ofDownstream(f *history.PlannedFault) bool { return f.Kind == "downstream" }

// missed reports whether the answer to an attempt between from and to may have come just when its client gave up on it:
// a slow or hanging downstream answers late, and the client's own timeout is near. (The client hangs up first, and the
// downstream stub answers before it sees that.)
func (w *state) missed(from, to time.Duration) bool {
	return to-from >= answerStall && w.faulted(ofDownstream, from, to)
}

func stopsDeadLetters(f *history.PlannedFault) bool { return f.StopsDeadLetters }

func anyFault(*history.PlannedFault) bool { return true }

// faulted reports whether a matching fault overlaps the interval between from and to.
func (w *state) faulted(matches func(*history.PlannedFault) bool, from, to time.Duration) bool {
	for i := range w.faults {
		if f := &w.faults[i]; f.covers(from, to) && matches(&f.planned) {
			return true
		}
	}
	return false
}

// callsHidden reports whether a fault may have hidden a call of the instance between from and to.
func (w *state) callsHidden(instance int16, from, to time.Duration) bool {
	return slices.ContainsFunc(w.faults, func(f faultState) bool {
		return f.hides(instance, from, to) && w.hidesCalls(&f.planned)
	})
}

// noteCall notes a call of an instance that arrived, if it is the first after a fault on its link.
func (w *state) noteCall(instance int16, at time.Duration) {
	w.lifted = slices.DeleteFunc(w.lifted, func(f *faultState) bool { return at > f.to+f.away() })
	for _, f := range w.lifted {
		if _, known := f.called[instance]; !known {
			f.called[instance] = at
		}
	}
}

// perhapsUnread reports whether a record that the subject finished by the time may have been taken for one that it
// can't read: since some time before, the schema registry has denied having its schema. A client may remember that for
// longer than it lasts.
func (w *state) perhapsUnread(by time.Duration) bool {
	return slices.ContainsFunc(w.faults, func(f faultState) bool {
		return f.planned.HidesSchemas && f.injected && f.from <= by
	})
}

// unreadExcuse is the reason that follows from it.
const unreadExcuse = "schema unknown to the registry"

// stallExcuse is the reason why something was not judged that a stall may explain.
const stallExcuse = "stall"

// handedAgain is the reason why an attempt was not judged that may belong to an earlier delivery to its process.
const handedAgain = "handed to its process again"

// answersHidden reports whether, between from and to, an attempt of the instance at the record may not have reached the
// downstream stub, or an answer of the stub may not have reached the instance, or a call of another downstream failed;
// why names the reason. If so, the stub and the subject may have observed different attempts.
func (w *state) answersHidden(number int32, instance int16, from, to time.Duration) (why string, hidden bool) {
	if w.callsHidden(instance, from, to) {
		return "fault on the link to the downstream", true
	}
	if why, failed := w.calls.failedFor(number, instance, from, to); failed {
		return why, true
	}
	stalled := instance
	if w.hops {
		stalled = anyone // each of them may have had a copy and attempted it
	}
	if w.stalls.stoodStill(stalled, from-catchUp, to) {
		return stallExcuse, true
	}
	if w.crowded(instance) {
		return crowdedExcuse, true
	}
	return "", false
}

// attemptsHidden is answersHidden for the case that only additional attempts, unseen by the downstream stub, would be
// an excuse. rush: the waits that the contract promises left no time for them. A stall hides attempts, and does not
// shorten the waits between them. A database is not the harness, so nothing shows when it is slow: the subject may give
// up while it connects or begins.
func (w *state) attemptsHidden(number int32, instance int16, from, to time.Duration,
	rush bool) (why string, hidden bool) {
	if why, hidden = w.calls.failedFor(number, instance, from, to); hidden {
		return why, true
	}
	if w.contract.Database && !rush && !w.admitsFewer(number) {
		return "a transaction may have failed before its first statement", true
	}
	why, hidden = w.answersHidden(number, instance, from, to)
	return why, hidden && (!rush || w.callsHidden(instance, from, to))
}

// admitsFewer reports whether a dead letter of the record, whose last attempt could have been repeated, says itself
// that there were fewer attempts than promised.
func (w *state) admitsFewer(number int32) bool {
	r := w.record(number)
	return r.has(markEnded) && w.classOfLast(r) == classRetryable &&
		slices.ContainsFunc(w.foundOf.of(number), func(l *letter) bool {
			claim := l.claim
			return claim != nil && claim.Missing == "" && claim.Attempts >= 0 && int(claim.Attempts) < w.contract.LeastAttempts()
		})
}

// waitsLimit is the largest number of waits that are added up.
const waitsLimit = 1000

// takesLonger reports whether the attempts, each but the last followed by its promised wait, take longer than the
// duration.
func (w *state) takesLonger(attempts int, than time.Duration) bool {
	least := time.Duration(0)
	for k := 1; k < min(attempts, waitsLimit) && least <= than; k++ {
		least += shortened(w.contract.Backoff.Wait(k))
	}
	return least > than
}

// rushed reports whether the process that requests the dead letter cannot have made that many attempts. An attempt
// without an answer counts as retryable.
func (w *state) rushed(one *write, attempts int) bool {
	return (one.whole || one.attempts == 0 && w.triesAlone(one)) &&
		w.classes[history.OutcomeTimeout] == classRetryable && w.takesLonger(attempts, one.at-w.triedSince(one))
}
