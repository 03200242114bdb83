package assertions

// The definition of standing still: an interval at the end of the drain in which nothing moved although all faults were
// lifted, and that is longer than the contract's own waits, its commit interval and the observed session timeouts, or
// in which no process was left. A record that still moves is late, not stalled.
//
//	drain ──▶ attempts, dead letters, commits ──▶ the last of them ── patience ──▶ audit
//
// An attempt beyond the promised number is not progress, and neither is one in the ninth series of a record, or a dead
// letter after that: an endless loop does not count as progress.

import (
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// patience is how long nothing may move before standing still is proven.
func (w *state) patience() time.Duration {
	if w.header.Expect.Patience == 0 {
		return w.header.Expect.DrainLimit
	}
	return w.header.Expect.Patience + w.session
}

// progress notes when something moved: a promised attempt, an acknowledged dead letter or retry copy, a commit beyond
// all earlier ones, a committed transaction, or a change of an entry in the store.
func (w *state) progress(e *history.Event) {
	moved := false
	switch e.Kind {
	case history.KindJoining:
		w.session = max(w.session, time.Duration(e.Aux))
	case history.KindAttemptStart, history.KindAttemptEnd:
		limit := w.contract.MaxAttempts
		moved = limit == 0 || w.attempt != nil && int(w.attempt.k) <= limit && w.contract.Progress(e.N)
	case history.KindProduceResponse:
		moved = w.write != nil && w.write.passed && !w.endless(w.write.record)
	case history.KindCommitResponse:
		moved = w.commit != nil && w.commit.further
	case history.KindTxnEndResponse:
		moved = e.Code == 0 && e.N == 1 // what is aborted is to be done again
	case history.KindShareAckResponse:
		moved = e.Code == 0 && (e.N == history.AckAccept || e.N == history.AckReject)
	case history.KindStoreChange:
		moved = true
	case history.KindPhase:
		if e.Text == history.PhaseAudit && w.still == never {
			w.still = w.moved // later movement happens because the subject was told to stop
		}
	}
	if moved {
		w.moved = e.Time
	}
}

// endless reports whether the record has been attempted so often that it is in an endless loop.
func (w *state) endless(number int32) bool {
	r := w.record(number)
	return r != nil && !w.contract.Progress(int32(r.attempts))
}

// drain returns the last interval in which the subject was given time to finish, or never if there was none.
func (w *state) drain() (from, to time.Duration) {
	from, to = w.phase(history.PhaseDrain)
	if replayed, until := w.phase(history.PhaseReplay); replayed != never {
		from, to = replayed, until
		if n := len(w.replays); n > 0 {
			from = max(from, w.replays[n-1].at)
		}
	}
	return from, to
}

// quiet returns the interval at the end of the drain in which nothing moved, and whether it is long enough to prove
// that nothing would have.
func (w *state) quiet() (from, to time.Duration, enough bool) {
	from, to = w.drain()
	if from == never || to == never || w.patience() <= 0 {
		return from, to, false
	}
	from = max(from, w.still)
	return from, to, to-from >= w.patience() || w.deserted(to)
}

// deserted reports whether, at the time, every process had ended by itself and none may. Nobody starts them again, so
// nothing can move any more.
func (w *state) deserted(at time.Duration) bool {
	for _, l := range w.living {
		if !l.ended || l.noted > at || l.cause == causeAsked {
			return false
		}
	}
	return len(w.living) > 0 && !w.contract.MayCrash()
}

// standsStill reports whether nothing moved at the end of the drain for long enough to prove it. If the machine was
// stalled for much of that time, nothing is proven, unless no process was left.
func (w *state) standsStill() bool {
	from, to, enough := w.quiet()
	return enough && (!w.stalledFor(from, to) || w.deserted(to))
}

// unsettled describes for how long nothing had moved when the drain ended, and how long was required.
func (w *state) unsettled() string {
	from, to, enough := w.quiet()
	switch {
	case from == never || to == never:
		return "the drain never came to its end"
	case enough:
		return fmt.Sprintf("nothing moved for %s at the end of the drain, but the machine stood still for much of that",
			units.Text(to-from))
	}
	if circling := w.circling(); circling != "" {
		return circling
	}
	return fmt.Sprintf("the drain ended %s after something last moved, and standing still is proven after %s",
		units.Text(to-from), units.Text(w.patience()))
}

// circling describes the record that was attempted most often, if that still happened in the drain and more often than
// any run waits for, otherwise "". Only a promised number of attempts would make that a violation.
func (w *state) circling() string {
	from, _ := w.drain()
	most := int32(none)
	for number := range int32(w.records.count) {
		r := w.record(number)
		if w.lastTerminal(r) == never && r.lastStart.At() >= from &&
			(most == none || r.attempts > w.record(most).attempts) {
			most = number
		}
	}
	if most == none {
		return ""
	}
	r := w.record(most)
	if w.contract.MaxAttempts > 0 || !w.contract.Endless(int32(r.attempts)) {
		return ""
	}
	unknown := "the contract names no number of attempts, so it is unknown whether that would end; promise attempts: " +
		"{max: 3}, with your number, or attempts: {max: unlimited}, where records are tried until they succeed"
	if w.contract.Unlimited {
		unknown = "no attempt was the last; read what its calls were answered, and correct them or what answers"
	}
	return fmt.Sprintf("record %d (%s offset %d) was tried %d times and still was in the drain, and %s", most,
		w.partitionName(r.topic, r.partition), r.offset.at(), r.attempts, unknown)
}

// stalledFor reports whether the harness or one of the instances could not run for so much of an interval that it is
// unclear whether the subject had enough time.
func (w *state) stalledFor(from, to time.Duration) bool {
	for instance := range w.instances {
		if w.tookTime(instance, from, to) {
			return true
		}
	}
	return w.tookTime(none, from, to)
}

// tookTime reports whether long stalls between from and to, the subject's time to finish, left the instance too little
// of it. The harness extends the drain for stalls, so the interval may be longer than necessary.
func (w *state) tookTime(instance int16, from, to time.Duration) bool {
	limit := min(w.patience(), to-from)
	return to-from-w.stalls.long(instance, from, to) < limit-limit/drainStallShare
}

// drainedAt is the end of the last interval in which the subject was given time to finish.
func (w *state) drainedAt() time.Duration {
	_, to := w.drain()
	return to
}
