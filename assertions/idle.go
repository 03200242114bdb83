package assertions

// The activity of the group and the subject while a fault had no effect, to give the reader a reason to act on.

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// activity records when a member owned a partition, and when the operations that the faults target took place.
type activity struct {
	owned map[place]holder
	// since is when the last partition was given up, never while one is owned; unowned holds the intervals without an
	// owner.
	since   time.Duration
	unowned []stretch
	// seen: the history shows at least one assignment.
	seen bool
	// sought and handed have an entry for each fault: the operations that it targets, nil if the history does not show
	// them, and the deliveries of records.
	sought, handed []*tally
}

// tally counts the operations of one kind, before, during and after a fault.
type tally struct {
	// what names the operations, in the plural; isOne recognizes them.
	what  string
	isOne func(e *history.Event) bool
	// count is the number in the whole run, during the number while the fault was in force.
	count, during int
	// first and last refer to the whole run; before is the last one before the fault, after the first one after it.
	first, last, before, after time.Duration
	// tried is the time of the first attempt of the record that the first operation after the fault concerns, never if
	// there is none.
	tried time.Duration
}

func newTally(what string, isOne func(e *history.Event) bool) *tally {
	return &tally{what: what, isOne: isOne, first: never, last: never, before: never, after: never, tried: never}
}

// observe counts an event, given the present state of the fault.
func (t *tally) observe(w *state, f *faultState, e *history.Event) {
	if t == nil || !t.isOne(e) {
		return
	}
	if t.count++; t.first == never {
		t.first = e.Time
	}
	t.last = e.Time
	switch {
	case !f.injected:
		t.before = e.Time
	case !f.healed:
		t.during++
	case t.after == never:
		t.after = e.Time
		if r := w.record(e.Record); r != nil {
			t.tried = r.seriesStart.At()
		}
	}
}

// facts describes the number in the whole run, and the times.
func (t *tally) facts() string {
	switch {
	case t == nil:
		return ""
	case t.count == 0:
		return fmt.Sprintf("; %s in the whole run: none", t.what)
	}
	during := "none"
	if t.during > 0 {
		during = strconv.Itoa(t.during)
	}
	return fmt.Sprintf("; %s in the whole run: %d, the first at %s and the last at %s, while it was in force: %s", t.what,
		t.count, units.Text(t.first), units.Text(t.last), during)
}

// follow starts to count the operations that the faults target.
func (a *activity) follow(w *state) {
	for i := range w.faults {
		a.sought = append(a.sought, w.soughtBy(&w.faults[i].planned))
		a.handed = append(a.handed, newTally("", func(e *history.Event) bool {
			return e.Kind == history.KindFetched && e.Instance >= 0
		}))
	}
}

// soughtBy returns a tally of the operations that a fault targets, or nil if the history does not show them.
func (w *state) soughtBy(f *history.PlannedFault) *tally {
	api := f.API
	switch f.Idle.Needs {
	case history.NeedAttempt:
		return newTally("attempts", func(e *history.Event) bool { return e.Kind == history.KindAttemptStart })
	case history.NeedDeadLetter:
		api = "Produce"
	}
	var kind history.Kind
	var what, of string
	switch api {
	case "Produce":
		kind, what, of = history.KindProduceRequest, "writes", " to "
	case "Fetch":
		kind, what, of = history.KindFetched, "fetches with records", " from "
	case "OffsetCommit", "TxnOffsetCommit":
		kind, what, of = history.KindCommitRequest, "commits", " for "
	case "EndTxn":
		kind, what = history.KindTxnEndRequest, "ends of transactions"
	case "ShareAcknowledge":
		kind, what = history.KindShareAckRequest, "acknowledgements"
	default:
		return nil
	}
	topic, instance := f.Target, int64(none)
	if number, found := strings.CutPrefix(topic, "instance "); found {
		instance, _ = strconv.ParseInt(number, 10, 16) // as the fault's description writes it
		topic, what = "", what+" by "+f.Target
	} else if topic == "every instance" {
		topic = ""
	}
	if topic != "" {
		what += of + topic
	}
	return newTally(what, func(e *history.Event) bool {
		return e.Kind == kind && (topic == "" || w.isTopic(e.Topic, topic)) && (instance == none ||
			int64(e.Instance) == instance) &&
			(kind != history.KindCommitRequest || e.Flags.Has(history.InTransaction) == (api == "TxnOffsetCommit"))
	})
}

// isTopic reports whether a fault refers to the topic by the word.
func (w *state) isTopic(topic int16, word string) bool {
	return w.topicName(topic) == word || w.role(topic) != "" && w.header.Topics[topic].Is(word)
}

func (a *activity) observe(w *state, e *history.Event) {
	where := place{topic: e.Topic, partition: e.Partition}
	switch e.Kind {
	case history.KindAssigned:
		if a.owned == nil {
			a.owned = map[place]holder{}
		}
		if a.seen && len(a.owned) == 0 {
			a.unowned = append(a.unowned, stretch{a.since, e.Time})
		}
		a.seen, a.owned[where] = true, holder{e.Instance, e.Run}
	case history.KindRevoked:
		if a.owned[where] == (holder{e.Instance, e.Run}) {
			a.drop(where, e.Time)
		}
	case history.KindInstanceExited:
		for where, by := range a.owned {
			if by == (holder{e.Instance, e.Run}) {
				a.drop(where, e.Time)
			}
		}
	case history.KindProduceRequest, history.KindFetched, history.KindCommitRequest, history.KindTxnEndRequest,
		history.KindShareAckRequest, history.KindAttemptStart:
		for i := range w.faults {
			a.sought[i].observe(w, &w.faults[i], e)
			a.handed[i].observe(w, &w.faults[i], e)
		}
	}
}

func (a *activity) drop(where place, at time.Duration) {
	delete(a.owned, where)
	if len(a.owned) == 0 {
		a.since = at
	}
}

// without returns the longest interval without a partition owner that overlaps the window, if it covers at least half
// of the window.
func (a *activity) without(from, to time.Duration) (stretch, bool) {
	all := a.unowned
	if a.seen && len(a.owned) == 0 {
		all = append(slices.Clip(all), stretch{a.since, endless})
	}
	longest, most := stretch{}, (to-from)/2
	found := false
	for _, one := range all {
		if common := min(one.to, to) - max(one.from, from); common > 0 && common >= most {
			longest, most, found = one, common, true
		}
	}
	return longest, found
}

// trueCause describes which behaviour of the group or the subject kept a fault, by its number, from having an effect,
// and the remedy; "" if there is none.
func (w *state) trueCause(number int) (why, do string) {
	f := &w.faults[number]
	needs := f.planned.Idle.Needs
	if needs == history.NeedNothing {
		return "", ""
	}
	if none, is := w.activity.without(f.from, f.to); is {
		until, do := units.Text(none.to),
			"let the fault begin later, or shorten the session time-out or the start of the consumer"
		if none.to == endless {
			until, do = "the end of the run", "find out why the consumer gave its partitions up for good: its logs may say so"
		}
		return fmt.Sprintf("no member owned a partition from %s to %s", units.Text(none.from), until), do
	}
	switch needs {
	case history.NeedMember:
		return "", ""
	case history.NeedDeadLetter:
		return w.noLetter(f, w.activity.sought[number])
	}
	return w.busyRetrying(f, w.activity.handed[number])
}

// noLetter says why no dead letter was written before the fault was over, and the remedy; "" if one was, or none came
// after it.
func (w *state) noLetter(f *faultState, letters *tally) (why, do string) {
	switch {
	case letters.count == 0:
		return w.noLetterAtAll()
	case letters.during > 0 || letters.after == never:
		return "", ""
	}
	switch tried := letters.tried; {
	case tried != never && tried <= f.to:
		why = fmt.Sprintf(", whose record was in its retries from %s on", units.Text(tried))
	case tried != never:
		why = fmt.Sprintf(", to whose record the consumer came at %s", units.Text(tried))
	}
	return fmt.Sprintf("its window closed at %s, and no dead letter was written from its beginning at %s on until %s%s",
			units.Text(f.to), units.Text(f.from), units.Text(letters.after), why),
		"let it begin later, shorten the waits, or plan records that end there sooner (permanent)"
}

// noLetterAtAll describes how far the records due for dead-lettering were, in a run without a dead letter; "" if there
// were none, or the subject does not write dead letters.
func (w *state) noLetterAtAll() (why, do string) {
	due, untried, retrying := 0, 0, 0
	for i := range w.records.count {
		r := w.records.at(i)
		if !r.has(markSent) || r.planned != history.OutcomeExhausted && r.planned != history.OutcomePermanent {
			continue
		}
		switch due++; {
		case r.attempts == 0:
			untried++
		case r.planned == history.OutcomeExhausted && w.firstTerminal(r) == never &&
			int(r.inSeries) < w.contract.MaxAttempts:
			retrying++
		}
	}
	if due == 0 || !w.contract.WritesDLQ() {
		return "", ""
	}
	const none = "the consumer wrote no dead letter in the whole run"
	if w.contract.WireOnly {
		return none + ", and calls nothing whose answers could make records fail (observe: wire)",
			"choose scenarios with records that it can't read, such as malformed-records and hostile-payloads"
	}
	why = fmt.Sprintf(none+", although records had to be dead-lettered (%d", due)
	if untried+retrying > 0 {
		why += fmt.Sprintf("; at its end %d had not been tried, and %d were in their retries", untried, retrying)
	}
	return why + ")", "read what no-loss and classification say became of them, and correct the consumer"
}

// busyRetrying reports that no record was handed out while the fault was in force, possibly because all of the
// subject's lanes waited for retries, and the remedy; "" otherwise.
func (w *state) busyRetrying(f *faultState, handed *tally) (why, do string) {
	if handed.before == never || handed.during > 0 || f.to-f.from < activityStep ||
		!w.takesLonger(w.contract.LeastAttempts(), (f.to-f.from)/2) {
		return "", ""
	}
	until := "to the end of the run"
	if handed.after != never {
		until = "to " + units.Text(handed.after)
	}
	return fmt.Sprintf("the subject was handed no record from %s %s, as one does that waits for the retries of those it "+
			"has", units.Text(handed.before), until),
		"plan fewer records that are tried again (transient, exhausted), let the fault begin before them, or shorten the " +
			"waits"
}
