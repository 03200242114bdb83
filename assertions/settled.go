package assertions

// What standing still means: a stretch at the end of the drain, longer than the contract's own waits, its commit
// interval and the session timeouts that were seen, in which nothing moved though everything was healed. What still
// moves is late, not stalled.
//
//	drain ──▶ attempts, dead letters, commits ──▶ the last of them ── patience ──▶ audit
//
// An attempt beyond the promised number moves nothing, nor does one in the ninth series of a record: an endless loop is
// no progress.

import (
	"fmt"
	"strings"
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

// progress notes when something moved: an attempt as promised, a dead letter or a retry copy that was acknowledged, a
// commit that went further, an entry of the store that changed.
func (w *state) progress(e *history.Event) {
	moved := false
	switch e.Kind {
	case history.KindJoining:
		w.session = max(w.session, time.Duration(e.Aux))
	case history.KindAttemptStart, history.KindAttemptEnd:
		limit := w.contract.MaxAttempts
		moved = limit == 0 || w.attempt != nil && int(w.attempt.k) <= limit && w.contract.Progress(e.N)
	case history.KindProduceResponse:
		moved = w.write != nil && w.write.passed
	case history.KindCommitResponse:
		moved = w.commit != nil && w.commit.further
	case history.KindTxnEndResponse:
		moved = e.Code == 0
	case history.KindShareAckResponse:
		moved = e.Code == 0 && (e.N == history.AckAccept || e.N == history.AckReject)
	case history.KindStoreChange:
		moved = true
	case history.KindPhase:
		if e.Text == history.PhaseAudit && w.still == never {
			w.still = w.moved // what moves from here on does so because the subject was told to stop
		}
	}
	if moved {
		w.moved = e.Time
	}
}

// drain returns the last stretch in which the subject was given time to finish, never if there was none.
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

// quiet returns the stretch at the end of the drain in which nothing moved, and whether it is long enough to prove that
// nothing would have.
func (w *state) quiet() (from, to time.Duration, enough bool) {
	from, to = w.drain()
	if from == never || to == never || w.patience() <= 0 {
		return from, to, false
	}
	from = max(from, w.still)
	return from, to, to-from >= w.patience()
}

// standsStill reports whether nothing moved any more at the end of the drain, for as long as it takes to prove it. A
// machine that stood still for much of that proves nothing.
func (w *state) standsStill() bool {
	from, to, enough := w.quiet()
	return enough && !w.stalledFor(from, to)
}

// unsettled says how long nothing had moved when the drain ended, and how long it would have had to.
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

// circling tells of the record that was tried most often, "" unless it still was in the drain, beyond what any run
// waits for: only a promised number of attempts would make that a violation.
func (w *state) circling() string {
	from, _ := w.drain()
	most := int32(none)
	for number := range int32(w.records.count) {
		r := w.record(number)
		if r.lastTerminal.at() == never && r.lastStart >= from &&
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
	return fmt.Sprintf("record %d (%s-%d offset %d) was tried %d times and still was in the drain, and the contract "+
		"names no number of attempts, so it is unknown whether that would end; promise attempts: {max: 3}, with your "+
		"number, or, where records are to be tried for ever, leave out those that fail for good "+
		"(workload.outcomes.exhausted=0)",
		most, strings.TrimPrefix(w.topicName(r.topic), w.header.RunID+"."), r.partition, r.offset, r.attempts)
}

// stalledFor reports whether the harness or one of the instances could not run for so much of a stretch that it is open
// whether the subject had its time.
func (w *state) stalledFor(from, to time.Duration) bool {
	for instance := range w.instances {
		if w.tookTime(instance, from, to) {
			return true
		}
	}
	return w.tookTime(none, from, to)
}

// tookTime reports whether long stalls between from and to, where the subject was given its time, left the instance too
// little of it. The harness gives back what stalls take, so there may be more than it needs.
func (w *state) tookTime(instance int16, from, to time.Duration) bool {
	limit := min(w.patience(), to-from)
	return to-from-w.stalls.long(instance, from, to) < limit-limit/drainStallShare
}

// drainedAt is when the last stretch ended in which the subject was given time to finish.
func (w *state) drainedAt() time.Duration {
	_, to := w.drain()
	return to
}
