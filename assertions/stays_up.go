package assertions

// stays-up: no process ends, and no process leaves its group for good, unless a fault, the harness or the contract
// caused it. A process that is told to stop ends in an orderly way.
//
// crashed. A process that ends without a request, with any code: also with 0, because it no longer consumes. The causes
// of an end are listed in state_lives.go. Faults on brokers, links and the downstream are not among them, because a
// consumer must survive these. A process that failed to come up while such a fault was in force is not judged, because
// that does not show that it stays down.
//
// unclean-exit. TERM ends a process with code 0, or as the signal itself would have. The JVM runs its shutdown hooks
// and then exits with 128 + 15 = 143, whatever the hooks did, so 143 is not held against a process. The manual of
// kafkajs has a program leave the group and then send the signal to itself; a shell around the program reports the
// same. So an end by the signal itself is in order if the process did something in its group after the signal, or had
// nothing to do there. If it had partitions and did nothing, the signal's default action ended it in the middle of its
// work, and the group waits for its session to end. An uncaught exception is not an orderly end with any code.
// Contracts name other codes with stop.codes. A process that may have been ending by its contract when the signal came,
// because it had met a record at which it ends with an error, is not judged. A process killed at the end of its grace
// period is judged by graceful-stop, not here.
//
// gave-up. A process that is alive at the end of the drain, was not told to stop, and is no longer a member of its
// group: its last member left, was refused by the broker and did not rejoin, or was silent for longer than its session
// timeout. A fault may cause the silence, so the session starts again after each fault. While the process looks for its
// group's coordinator without success, or waits for the coordinator's answer, it has not given up. A consumer whose
// backoff is longer than its poll interval leaves the group as well, and returns, and so does one that recreates its
// client; kafkajs waits for up to 30 s before it restarts its consumer after an error. The process therefore counts as
// having given up only after the time in which standing still is proven (settled.go), in which no fault was in force
// and it made no attempt. The drain lasts until then. A member that stays in the group and fetches nothing is judged by
// liveness (paused-partition, stalled).

import (
	"fmt"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func staysUpInvariant() Invariant {
	return Invariant{
		Name:    "stays-up",
		Promise: "The consumer keeps running, and ends in an orderly way when it is told to.",
		Rule: "No process ends, and none leaves its group for good, unless dlqbench, a fault on the process or the " +
			"contract (on_failure: crash, on_exhausted: exit, on_error: exit, on_unhealthy: restart; poison: halt for one " +
			"that has met such a record) causes it. " +
			"After TERM a process ends with code 0, or one of the contract's stop.codes. Without stop.codes, 143 is " +
			"accepted too, with which a JVM ends after its shutdown hooks, and so is an end by the signal itself after " +
			"leaving the group.",
		Evidence: "signals and exits of the processes, their error lines, when they joined and left their group, and " +
			"when a member made no request of its group's for longer than its session timeout. A process that looks for " +
			"its group's coordinator in vain, or waits for its answer, has not left. An end does not count against a " +
			"process that Kafka told that its client cannot continue (PRODUCER_FENCED, FENCED_INSTANCE_ID and similar), " +
			"nor against one that had not come up while a fault was in force. An error code after TERM does not count " +
			"against a process that had a record at which its contract says that it ends. With on_error: exit, an end " +
			"needs an error that came to the process from outside, in its life: a fault, a failed call, an error of Kafka, " +
			"a rebalance, or a record that can't be read. A process that ends by itself does not excuse repeats",
		Cause: "A payload that cannot be decoded raises an exception that is not caught. An error of the client " +
			"library ends the loop or the process. A handler for SIGTERM is missing, or throws. A consumer's run method " +
			"returns after an error and the result is ignored.",
		Anomalies: []AnomalyNote{
			{"crashed", "a process ended although nothing asked it to", []string{
				"2.000 s  instance 0 fetches in-1 offsets 40 to 60",
				"2.003 s  instance 0 logs: panic: invalid character 'x' looking for beginning of value",
				"2.010 s  instance 0 ends with code 2",
			}},
			{"unclean-exit", "a process that was told to stop ended with an error, or by the signal's default action", []string{
				"9.000 s  instance 0 gets TERM",
				"9.004 s  instance 0 logs: panic: send on closed channel",
				"9.010 s  instance 0 ends with code 2; promised is 0",
			}},
			{"gave-up", "a process left its group, or let its session end, and did not return, although it was still " +
				"running", []string{
				"2.000 s  instance 0 joins its group",
				"5.100 s  instance 0 leaves its group after an error of its own",
				"        ... it still runs at the end of the drain, and has not joined again",
			}},
		},
		of:    "processes",
		needs: []precondition{seesEnds()},
		check: func(r *report) checker { return &staysUp{report: r} },
	}
}

type staysUp struct {
	*report
}

func (c *staysUp) finish() Result {
	for _, l := range c.w.lives {
		c.judge(l)
	}
	return c.judgedOrNot(NotApplicable, "no process of the subject was observed")
}

func (c *staysUp) judge(l *life) {
	switch {
	case !l.ended:
		c.judgeMember(l)
	case l.cause == causeNone:
		c.result.Judged++
		c.sawCrash(l)
	case l.cause == causeFatal:
		c.skip("Kafka told its client that it can't go on")
	case l.cause == causeNotUp:
		c.skip("did not come up while a fault was in force")
	case l.cause == causeAsked && l.asked != never && (l.killed == never || l.exited <= l.killed):
		c.judgeStop(l)
	default:
		c.judgeMember(l)
	}
}

func (c *staysUp) sawCrash(l *life) {
	if l.refusal != none && l.exited-l.over.last < refusedLong {
		c.sawCrashRefused(l)
		return
	}
	s := c.ofProcess(max(0, l.exited-lookBack), l.noted, func() string {
		return fmt.Sprintf("instance %d ended %s, and neither a fault nor the harness nor the contract caused it%s",
			l.by.instance, l.ending(), l.hint())
	})
	s.marks = []moment{{history.KindInstanceExited, l.noted}}
	c.saw("crashed", s)
}

// sawCrashRefused notes that the process ended after a refused dead letter, although its contract says otherwise.
func (c *staysUp) sawCrashRefused(l *life) {
	promised := map[history.OnFailure]string{
		history.OnFailureHalt:  "its contract promises to halt then (on_failure: halt)",
		history.OnFailureRetry: "its contract promises to try on (on_failure: retry)",
	}[c.w.contract.OnFailure]
	if promised == "" {
		promised = "its contract causes no such end"
	}
	c.saw("crashed", c.w.about(l.refusal, 0, l.noted, func() string {
		return fmt.Sprintf("instance %d ended %s, %s after a dead letter was refused to it with %s: %s%s", l.by.instance,
			l.ending(), units.Text(l.exited-l.over.last), errorName(l.over.code), promised, l.hint())
	}, moment{history.KindProduceResponse, l.over.last}, moment{history.KindInstanceExited, l.noted}))
}

// hint returns the last error of the process, or another possible cause of its end.
func (l *life) hint() string {
	const most = 160
	switch line := l.lastError; {
	case l.signal == "KILL":
		return " (the system kills so what needs too much memory)"
	case line == "":
		return ""
	case len(line) > most:
		return fmt.Sprintf("; it had logged %q…", line[:most])
	default:
		return fmt.Sprintf("; it had logged %q", line)
	}
}

// ofProcess returns a sighting of a process.
func (c *staysUp) ofProcess(from, to time.Duration, say func() string) sighting {
	return sighting{record: none, topic: none, partition: none, offset: none, from: from, to: to, say: say}
}

// judgeStop judges the end of a process that was told to stop.
func (c *staysUp) judgeStop(l *life) {
	if l.signal != "" && l.signal == l.told && c.w.faulted(anyFault, l.asked, l.exited) && !l.acted {
		c.skip("a fault was in force while it stopped")
		return
	}
	why := c.unclean(l)
	if why != "" && l.dueToEnd {
		c.skip("was told to stop while it may have ended by its contract")
		return
	}
	c.judgeMember(l)
	if why == "" {
		return
	}
	s := c.ofProcess(l.asked, l.noted, func() string {
		return fmt.Sprintf("instance %d was told to stop with %s and ended %s %s later: %s", l.by.instance, l.told,
			l.ending(), units.Text(l.exited-l.asked), why)
	})
	s.marks = []moment{{history.KindInstanceSignal, l.asked}, {history.KindInstanceExited, l.noted}}
	c.saw("unclean-exit", s)
}

// unclean says why an end after a signal is not orderly, or returns "".
func (c *staysUp) unclean(l *life) string {
	bySignal := map[string]int{"TERM": 128 + 15, "INT": 128 + 2}[l.told]
	code := int(l.code)
	if l.signal != "" {
		code = bySignal
		if l.signal != l.told {
			return "another signal ended it"
		}
	}
	if l.panicked != "" {
		return fmt.Sprintf("an exception ended one of its threads: %q", l.panicked)
	}
	if codes := c.w.contract.StopCodes; len(codes) > 0 {
		if slices.Contains(codes, code) {
			return ""
		}
		return fmt.Sprintf("its contract promises one of the codes %v", codes)
	}
	switch {
	case l.signal != "" && l.member && !l.acted && !c.w.contract.WireOnly:
		done := map[bool]string{true: "and did not leave its group", false: "neither committed nor left its group"}
		return "it did nothing about the signal, " + done[c.w.contract.OffsetsOutside]
	case code == 0 || code == bySignal:
		return ""
	}
	return fmt.Sprintf("promised is code 0 (or %d, as the JVM ends)", bySignal)
}

// judgeMember judges whether a process that did not end by itself is still a member of its group.
func (c *staysUp) judgeMember(l *life) {
	if l.out == never {
		c.result.Judged++
		return
	}
	if c.w.met(l.by) {
		c.skip(heldBack)
		return
	}
	since := l.quiet
	session, how := time.Duration(0), "left its group"
	if l.silent {
		session, how = c.w.session, "was silent in its group for longer than its session timeout"
	}
	for i := range c.w.faults {
		if f := &c.w.faults[i]; f.injected {
			since = max(since, f.to+session)
		}
	}
	quiet := l.out - since
	switch {
	case !c.w.healed():
		c.skip("a fault was never healed")
	case quiet < max(c.w.patience()-session, settling):
		c.skip("left its group, or looked for it, shortly before the end")
	case c.w.tookTime(l.by.instance, since, l.out):
		c.skip(stallExcuse)
	default:
		c.result.Judged++
		s := c.ofProcess(max(0, l.left-lookBack), l.out, func() string {
			return fmt.Sprintf("instance %d %s and did not come back in %s, though it still ran and everything was healed",
				l.by.instance, how, units.Text(quiet))
		})
		s.marks = []moment{{history.KindMembership, l.left}}
		s.missing, s.gone = MissingDrained, l.out
		c.saw("gave-up", s)
	}
}
