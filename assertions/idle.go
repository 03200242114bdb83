package assertions

// What the group and the subject did while a fault met nothing: the reason that a reader can act on.

import (
	"fmt"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// activity is when any member owned a partition, and when dead letters were written.
type activity struct {
	owned map[place]holder
	// since is when the last partition was given up, never while one is owned; unowned are the stretches without an
	// owner.
	since   time.Duration
	unowned []stretch
	// seen: an assignment was seen at all. letters are the writes of dead letters, fetches when records were handed out,
	// one for each second at most.
	seen             bool
	letters, fetches []time.Duration
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
	case history.KindProduceRequest:
		letter := e.Instance >= 0 && int(e.Topic) < len(w.header.Topics) && e.Topic >= 0 &&
			w.header.Topics[e.Topic].Role == history.RoleDLQ
		if letter {
			a.letters = thinned(a.letters, e.Time)
		}
	case history.KindFetched:
		if e.Instance >= 0 {
			a.fetches = thinned(a.fetches, e.Time)
		}
	}
}

// thinned adds the time, unless the one before is near.
func thinned(times []time.Duration, at time.Duration) []time.Duration {
	if n := len(times); n > 0 && at-times[n-1] < activityStep {
		return times
	}
	return append(times, at)
}

func (a *activity) drop(where place, at time.Duration) {
	delete(a.owned, where)
	if len(a.owned) == 0 {
		a.since = at
	}
}

// without returns the longest stretch in which no member owned a partition and that meets the window, if it takes half
// of that at least.
func (a *activity) without(from, to time.Duration) (stretch, bool) {
	all := a.unowned
	if a.seen && len(a.owned) == 0 {
		all = append(all[:len(all):len(all)], stretch{a.since, endless})
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

// trueCause says what of the group's or the subject's doing kept a fault from meeting anything, and what helps; "" if
// nothing of it did.
func (w *state) trueCause(f *faultState) string {
	if f.planned.Kind == "subject" || f.planned.Kind == "broker" {
		return ""
	}
	if none, is := w.activity.without(f.from, f.to); is {
		until := "to the end of the run"
		if none.to != endless {
			until = "to " + units.Text(none.to)
		}
		return fmt.Sprintf("no member owned a partition from %s %s; let the fault begin later, or shorten the session "+
			"time-out or the start of the consumer",
			units.Text(none.from), until)
	}
	switch dlq := strings.Contains(f.planned.Target, "dlq"); {
	case f.planned.Kind == "store":
		return ""
	case !dlq:
		return w.busyRetrying(f)
	}
	for _, at := range w.activity.letters {
		if at <= f.to {
			continue
		}
		return fmt.Sprintf("its window closed at %s, and no dead letter was written from its beginning at %s on until %s; "+
			"let it begin later, or plan records that end there sooner (permanent)", units.Text(f.to), units.Text(f.from),
			units.Text(at))
	}
	if len(w.activity.letters) == 0 && w.contract.WritesDLQ() &&
		w.planned(history.OutcomeExhausted, history.OutcomePermanent) {
		return "the consumer wrote no dead letter in the whole run, although records had to be dead-lettered (no-loss and " +
			"classification say what became of them)"
	}
	return ""
}

// busyRetrying says that no record was handed out while the fault was in force, as all of the subject's lanes may have
// waited for retries; "" if that was not so.
func (w *state) busyRetrying(f *faultState) string {
	last, next := never, endless
	for _, at := range w.activity.fetches {
		switch {
		case at <= f.from:
			last = at
		case at <= f.to:
			return ""
		default:
			next = min(next, at)
		}
	}
	if last == never || f.to-f.from < activityStep || !w.takesLonger(w.contract.MaxAttempts, (f.to-f.from)/2) {
		return ""
	}
	until := "to the end of the run"
	if next != endless {
		until = "to " + units.Text(next)
	}
	return fmt.Sprintf("the subject was handed no record from %s %s, as one does that waits for the retries of those it "+
		"has; plan fewer records that are tried again (transient, exhausted), let the fault begin before them, or shorten "+
		"the waits", units.Text(last), until)
}
