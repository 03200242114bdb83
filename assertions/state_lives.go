package assertions

// State: the lives of processes, and the causes of their ends.
//
// A process ends because the harness asked it to (a fault's signal, a restart, a stop at the end of the run),
// because its contract says so, or by itself. Only an event before the end can be its cause, so each end is judged
// when it is seen. Its consequences, such as a partition that another process takes over, depend on that judgement
// (see give). The contract's causes:
//
//	on_failure: crash     a record failed for good in the process, and its dead letter was not acknowledged to it; or no
//	                      dead letter could be written
//	on_exhausted: exit    a record failed for good in it
//	on_error: exit        it had met an error (state_errors.go), and ends with a code above 0
//	poison: halt          it had met a record that it can't read
//
// Kafka adds one more cause: after some answers a client cannot continue, and its documentation requires the
// application to close it. A process that ends after one of them does what every Kafka client's manual asks for
// (fatalAnswer).
//
// A process may be on its way to an end by its contract when it is told to stop. Its error code then says nothing about
// how it stops (dueToEnd).

import (
	"fmt"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// cause is the cause to which the end of a process is attributed.
type cause uint8

const (
	causeNone     cause = iota // nothing explains it
	causeAsked                 // the harness sent it TERM, INT or KILL
	causeContract              // its contract says that it ends in this case
	causeFatal                 // Kafka told its client that it cannot continue
	causeNotUp                 // it never came up, because a fault was in force
)

// life is the known state of one process.
type life struct {
	by holder
	// up: it has shown that it works; ended: it is over. vain is how many processes of its instance, one after the
	// other up to this one, had ended by themselves before they were up.
	up, ended bool
	vain      int
	cause     cause
	code      int16
	signal    string
	// noted is the time of the event that reports its end, which may be later than exited.
	exited, noted time.Duration
	// asked is when it was first told to stop, and told the signal. killed is when it was killed. Both may be
	// never.
	asked, killed time.Duration
	told          string
	// member: it had partitions when it was told to stop; acted: it did something in its group or in a topic after
	// that.
	member, acted bool
	// members is the last known number of its group members.
	members int32
	// left is since when it is in no group and is not trying in vain to join one; never if it is in a group, or
	// its membership is unknown. silent: its session ended without a leave request. active is the time of its last
	// activity.
	left, active time.Duration
	silent       bool
	// out is when the drain ended, if it had left its group before, otherwise never. quiet is since when it had
	// been inactive at that time.
	out, quiet time.Duration
	// failing holds the records that failed in it and whose dead letters or retry copies were not acknowledged to it.
	// blind: it made attempts that carried no id.
	failing map[int32]bool
	blind   bool
	// refused holds the records whose dead letters were refused to it. idle is since when it has neither made an
	// attempt nor written anything.
	refused map[int32]refusal
	idle    time.Duration
	// refusal is the record whose dead letter was refused first to a process that then ended by itself, or none.
	// over holds the details of that refusal.
	refusal int32
	over    refusal
	// fatal is the code of an answer after which its client cannot continue, or 0.
	fatal int16
	// lastError is the latest line in which it reported an error, and heard its time. panicked is the first line since
	// its stop that reports an uncaught exception.
	lastError, panicked string
	heard               time.Duration
	// troubled: it had reported an error shortly before it was told to stop. dueToEnd: it was told to stop, and may have
	// ended with an error because its contract says so.
	troubled, dueToEnd bool
	// began is when it was started; errors are those that it met.
	began  time.Duration
	errors ownErrors
}

// follow notes what an event reveals about the life of a process.
func (w *state) follow(e *history.Event) {
	if e.Kind == history.KindPhase && e.Text == history.PhaseAudit {
		w.endLives(e.Time)
		w.stopPartitions()
	}
	if e.Instance < 0 {
		return
	}
	switch e.Kind {
	case history.KindStall, history.KindFaultEffect, history.KindFetching, history.KindSubjectLog,
		history.KindSubjectHealth, history.KindUnreadable, history.KindSample:
		return
	}
	l := w.life(holder{e.Instance, e.Run})
	if l.ended {
		return
	}
	w.refusals(l, e)
	w.meets(l, e)
	switch e.Kind {
	case history.KindInstanceStarting:
		l.began, l.active = e.Time, e.Time
	case history.KindInstanceSignal:
		w.tellLife(l, e)
	case history.KindInstanceExited:
		w.endLife(l, e)
	case history.KindInstanceReady:
		l.up = true
	case history.KindSubjectError:
		l.hear(e)
	case history.KindMembership:
		l.silent = e.Text == "silent"
		l.acted, l.left = l.acted || l.asked != never && !l.silent && e.Text != "seeks", never
		if e.N == 0 {
			l.left = e.Time
		}
		if renewed := l.members > 0 && e.N != l.members; l.asked == never && l.killed == never && (renewed || e.N == 0) {
			w.breakOff(l.by, e.Time)
		}
		l.members = e.N
	case history.KindRevoked:
		l.acted = l.acted || l.asked != never && e.Text == "leave"
	default:
		w.work(l, e)
	}
}

// life returns the life of a process. The processes of one instance run one after another.
func (w *state) life(by holder) *life {
	if w.lately != nil && w.lately.by == by {
		return w.lately
	}
	w.lately = w.lifeOf(by)
	return w.lately
}

func (w *state) lifeOf(by holder) *life {
	if l := w.living[by.instance]; l != nil && l.by == by {
		return l
	}
	for _, l := range w.lives {
		if l.by == by {
			return l // it has ended, and the event about it comes late
		}
	}
	vain := 0
	if last := w.living[by.instance]; last != nil && last.ended && !last.up && last.cause != causeAsked {
		vain = last.vain + 1
	}
	l := &life{by: by, vain: vain, exited: never, noted: never, asked: never, killed: never, left: never, active: never,
		out: never, failing: map[int32]bool{}, refused: map[int32]refusal{}, refusal: none}
	w.living[by.instance] = l
	w.lives = append(w.lives, l)
	return l
}

func (w *state) tellLife(l *life, e *history.Event) {
	switch e.Text {
	case "TERM", "SIGTERM", "INT", "SIGINT":
		if l.asked != never {
			return
		}
		l.asked, l.told = e.Time, strings.TrimPrefix(e.Text, "SIG")
		l.troubled = l.lastError != "" && e.Time-l.heard < lookBack
		for topic := range w.parts {
			for i := range w.parts[topic] {
				p := &w.parts[topic][i]
				l.member = l.member || p.has && p.held == l.by
			}
		}
	case "KILL", "SIGKILL":
		if l.killed == never {
			l.killed = e.Time
		}
	}
}

// hear notes a log line that reports an error.
func (l *life) hear(e *history.Event) {
	l.lastError, l.heard = e.Text, e.Time
	if l.asked != never && l.panicked == "" && tellsPanic(e.Text) {
		l.panicked = e.Text
	}
}

// tellsPanic reports whether a language runtime wrote the line because of an uncaught exception: Go, Java and
// Python (for a thread), Rust.
func tellsPanic(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "Exception in thread ") ||
		strings.HasPrefix(line, "thread '") && strings.Contains(line, " panicked at ")
}

// work notes what a process does with records, and the answers it gets.
func (w *state) work(l *life, e *history.Event) {
	l.up, l.active = true, e.Time
	switch e.Kind {
	case history.KindAttemptStart:
		l.blind = l.blind || w.record(e.Record) == nil
	case history.KindAttemptEnd:
		w.noteFailing(l)
	case history.KindProduceRequest:
		l.acted = l.acted || l.asked != never
		if w.write != nil && w.write.letter {
			l.failing[e.Record] = true
		}
	case history.KindProduceResponse:
		if w.write != nil && w.write.passed {
			delete(l.failing, e.Record)
		}
		l.answered(e)
	case history.KindCommitRequest, history.KindTxnEndRequest, history.KindShareAckRequest, history.KindShareSessionEnd:
		l.acted = l.acted || l.asked != never
	case history.KindCommitResponse, history.KindTxnEndResponse:
		l.answered(e)
	}
}

// noteFailing notes that, after an attempt, only a dead letter or a retry copy is left for the record, or may be.
func (w *state) noteFailing(l *life) {
	a, c := w.attempt, w.contract
	if a == nil || c.OnFailure != history.OnFailureCrash && !c.ExitsExhausted {
		return
	}
	switch w.classes[a.outcome] {
	case classPermanent:
		l.failing[a.number] = true
	case classLogical:
		l.failing[a.number] = !c.LogicalNeverDeadLetters()
	case classRetryable:
		last := c.MaxAttempts > 0 && (a.stray || w.mayBeAttempt(a) >= c.MaxAttempts)
		if last || w.hops && c.OnFailure == history.OnFailureCrash {
			l.failing[a.number] = true
		}
	case classSuccess:
		delete(l.failing, a.number)
	}
	if !l.failing[a.number] {
		delete(l.failing, a.number)
	}
}

// answered notes an answer after which a client cannot continue.
func (l *life) answered(e *history.Event) {
	if l.fatal == 0 && !e.Flags.Has(history.Withheld) && fatalAnswer(e.Code) {
		l.fatal = e.Code
	}
}

// fatalAnswer reports whether an error leaves a Kafka client no choice but to close: another client has taken its
// transactional or group instance id, or its producer id or sequence is lost. (Java's KafkaProducer: "the only
// option is to call close"; librdkafka raises a fatal error.)
func fatalAnswer(code int16) bool {
	switch code {
	case 45, // OUT_OF_ORDER_SEQUENCE_NUMBER
		47, // INVALID_PRODUCER_EPOCH
		49, // INVALID_PRODUCER_ID_MAPPING
		53, // TRANSACTIONAL_ID_AUTHORIZATION_FAILED
		59, // UNKNOWN_PRODUCER_ID
		82, // FENCED_INSTANCE_ID
		90: // PRODUCER_FENCED
		return true
	}
	return false
}

func (w *state) endLife(l *life, e *history.Event) {
	l.ended, l.code, l.signal, l.noted = true, e.Code, e.Text, e.Time
	l.exited = e.Time - time.Duration(max(e.Aux, 0))
	l.cause = w.causeOf(l, e.Flags.Has(history.Expected))
	l.dueToEnd = l.cause == causeAsked && l.code > 0 && (w.contract.ExitsOnError && l.troubled || w.failsByContract(l))
	if l.cause != causeAsked {
		w.breakOff(l.by, e.Time)
	}
}

func (w *state) causeOf(l *life, asked bool) cause {
	atStart := func(f *history.PlannedFault) bool { return f.Kind != "subject" }
	switch {
	case asked:
		return causeAsked
	case w.endsByContract(l):
		return causeContract
	case l.fatal != 0:
		return causeFatal
	case !l.up && w.faulted(atStart, l.exited, l.exited):
		return causeNotUp
	}
	return causeNone
}

// endsByContract reports whether the contract says that the process ends in this case. halt-on-dlq-failure judges
// whether it ends with an error.
func (w *state) endsByContract(l *life) bool {
	return w.contract.ExitsOnError && l.code > 0 && w.metError(l) || w.failsByContract(l)
}

// failsByContract reports whether it had a record at which the contract says that it ends, or may have had one.
func (w *state) failsByContract(l *life) bool {
	c := w.contract
	failed := len(l.failing) > 0 || l.blind || c.WireOnly
	switch {
	case c.ExitsExhausted && (failed || w.exempt > 0):
		return true
	case w.met(l.by):
		return true
	case c.OnFailure == history.OnFailureCrash:
		return failed || w.faulted(stopsDeadLetters, l.exited-c.StopGrace-endingTime, l.exited)
	}
	return false
}

// endedItself reports whether the process ended without a known cause. Such an end excuses nothing.
func (w *state) endedItself(by holder) bool {
	l := w.living[by.instance]
	for i := len(w.lives) - 1; i >= 0 && (l == nil || l.by != by); i-- {
		l = w.lives[i]
	}
	return l != nil && l.by == by && l.ended && l.cause == causeNone
}

// endLives notes the processes that had left their group when the drain ended, although they still run.
func (w *state) endLives(at time.Duration) {
	for _, l := range w.lives {
		w.leaveRefusals(l, at)
		if one := w.instances[l.by.instance]; !l.ended && l.asked == never && l.killed == never &&
			l.left != never && one != nil && one.alive {
			l.out, l.quiet = at, max(l.left, l.active)
		}
	}
}

// ending describes how a process ended.
func (l *life) ending() string {
	if l.signal != "" {
		return "by signal " + l.signal
	}
	return fmt.Sprintf("with code %d", l.code)
}
