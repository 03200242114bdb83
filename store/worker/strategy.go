package worker

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/store"
)

// MaxRetries is how often workers try an entry before it has failed, by "Dead Letter Queue Lifecycle".
const MaxRetries = 5

// conditionWait is the nominal wait before conditions are looked at again that were not met.
const conditionWait = time.Minute

// Backoff returns the nominal waits of the immediate strategy: before the n-th retry, from 0, as "Dead Letter Queue
// Lifecycle" has them.
func Backoff() []time.Duration {
	return []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour}
}

// OffPeak says when scheduled entries are tried.
type OffPeak struct {
	// Hours of the day, 0 to 23; Zone is where they are read from the clock.
	Hours []int
	Zone  *time.Location
}

// DefaultOffPeak returns the hours of "Dead Letter Queue Lifecycle": 2, 3 and 4 o'clock, UTC.
func DefaultOffPeak() OffPeak { return OffPeak{Hours: []int{2, 3, 4}, Zone: time.UTC} }

func (o OffPeak) validate() error {
	if len(o.Hours) == 0 || o.Zone == nil {
		return errors.New("scheduled retries need off-peak hours and a time zone")
	}
	for _, hour := range o.Hours {
		if hour < 0 || hour > 23 {
			return fmt.Errorf("%d is no hour of the day: off-peak hours are 0 to 23", hour)
		}
	}
	return nil
}

// horizon is how many days are looked through for an off-peak hour; a zone may leave out a whole day.
const horizon = 4

// Next returns the first off-peak hour that begins after the time. An hour that the zone's clocks leave out (in spring)
// is passed over; one that they repeat (in autumn) counts once, when it comes first.
func (o OffPeak) Next(after time.Time) time.Time {
	local := after.In(o.Zone)
	var next time.Time
	for day := range horizon {
		for _, hour := range o.Hours {
			start, exists := o.start(local.Year(), local.Month(), local.Day()+day, hour)
			if exists && start.After(after) && (next.IsZero() || start.Before(next)) {
				next = start
			}
		}
		if !next.IsZero() {
			return next
		}
	}
	return after.Add(24 * time.Hour) // no clock leaves out its off-peak hours for so many days
}

// start returns when the hour begins on that day for the first time.
func (o OffPeak) start(year int, month time.Month, day, hour int) (time.Time, bool) {
	date := time.Date(year, month, day, 12, 0, 0, 0, time.UTC) // a day past the month's end is one of the next month
	shows := func(t time.Time) bool {
		y, m, d := t.Date()
		return y == date.Year() && m == date.Month() && d == date.Day() && t.Hour() == hour && t.Minute() == 0
	}
	start := time.Date(year, month, day, hour, 0, 0, 0, o.Zone)
	if !shows(start) {
		return time.Time{}, false
	}
	// time.Date doesn't say which of two it returns. Clocks are put back by half an hour to two hours.
	for _, back := range []time.Duration{30 * time.Minute, time.Hour, 2 * time.Hour} {
		if earlier := start.Add(-back); shows(earlier) {
			return earlier, true
		}
	}
	return start, true
}

// Within reports whether the clock shows one of the hours; while a repeated hour comes for the second time it does not.
func (o OffPeak) Within(at time.Time) bool {
	local := at.In(o.Zone)
	if !slices.Contains(o.Hours, local.Hour()) {
		return false
	}
	start, exists := o.start(local.Year(), local.Month(), local.Day(), local.Hour())
	return !exists || at.Sub(start) < time.Hour
}

// Strategies decide when an entry is tried and what becomes of it then. It is a value without state: the same entry and
// time give the same answer.
type Strategies struct {
	Clock   Clock
	OffPeak OffPeak
	// MaxRetries is how often workers try an entry, ≥ 1.
	MaxRetries int
	// Probed: the conditions of conditional retries can be looked at. Without a probe such entries are tried with the
	// immediate strategy's waits.
	Probed bool
}

// DefaultStrategies returns those of "Dead Letter Queue Lifecycle", in real time.
func DefaultStrategies() Strategies {
	return Strategies{OffPeak: DefaultOffPeak(), MaxRetries: MaxRetries}
}

func (s Strategies) validate() error {
	if s.MaxRetries < 1 {
		return errors.New("the number of DLQ retries must be at least 1")
	}
	return errors.Join(s.Clock.validate(), s.OffPeak.validate())
}

// First returns the strategy of a new entry and when it is due; the zero time: at once, to be handed to a person or to
// have its conditions looked at.
func (s Strategies) First(failure store.Failure, now time.Time) (store.Strategy, time.Time) {
	strategy := Analyse(failure).Strategy()
	switch {
	case strategy == store.ByHand, strategy == store.Conditional && s.Probed:
		return strategy, time.Time{}
	}
	return strategy, s.due(strategy, 0, now)
}

// due returns when an entry that was tried so often is tried next.
func (s Strategies) due(strategy store.Strategy, retries int, now time.Time) time.Time {
	if strategy == store.Scheduled {
		calendar := s.Clock.Calendar(now)
		return now.Add(max(1, s.Clock.Real(s.OffPeak.Next(calendar).Sub(calendar))))
	}
	waits := Backoff()
	return now.Add(s.Clock.Real(waits[min(retries, len(waits)-1)]))
}

// Step is what a worker does with an entry that it has claimed: it tries it, unless Instead says what to settle it
// with.
type Step struct {
	Strategy store.Strategy
	Instead  *store.Change
	// Why goes with Instead, for people.
	Why string
}

// Before decides about an entry that is due. unmet is asked only for conditional entries, and says which condition
// isn't met, "" if all are.
func (s Strategies) Before(entry store.Entry, now time.Time, unmet func() string) Step {
	strategy := entry.Strategy
	if strategy == "" { // whoever wrote the entry didn't analyse it
		strategy = Analyse(entry.Error).Strategy()
	}
	postponed := func(at time.Time, why string) Step {
		return Step{strategy, &store.Change{State: store.Pending, Strategy: strategy, RetryAt: at}, why}
	}
	switch strategy {
	case store.ByHand:
		return Step{strategy, &store.Change{State: store.Manual, Strategy: strategy},
			fmt.Sprintf("a person is needed: the error is %s", Analyse(entry.Error))}
	case store.Scheduled:
		if !s.OffPeak.Within(s.Clock.Calendar(now)) {
			return postponed(s.due(strategy, entry.DLQRetryCount, now), "it is not an off-peak hour")
		}
	case store.Conditional:
		if !s.Probed {
			break
		}
		if why := unmet(); why != "" {
			return postponed(now.Add(s.Clock.Real(conditionWait)), why)
		}
	}
	return Step{Strategy: strategy}
}

// After returns what an entry is settled with that was tried; failed is nil after a success. By says who tried it, as
// the history has it.
func (s Strategies) After(entry store.Entry, attempt store.Attempt, failed *RetryError, now time.Time) store.Change {
	change := store.Change{Strategy: attempt.Strategy, Retried: true, Attempt: &attempt}
	if failed == nil {
		attempt.Result = Succeeded
		change.State, change.Resolution = store.Resolved, &store.Resolution{How: store.AutomaticRetry, By: attempt.Worker,
			At: now}
		return change
	}
	attempt.Result, attempt.Error = FailedAgain, failed.Error()
	change.Failure = failed.failure(entry.Error)
	switch {
	case entry.DLQRetryCount+1 >= s.MaxRetries:
		change.State = store.Failed
	case failed.Class == Permanent:
		change.State, change.Strategy = store.Manual, store.ByHand
	default:
		change.State, change.Strategy = store.Pending, failed.Class.Strategy()
		if change.Strategy == store.ByHand { // unknown: it was tried for another reason, and that goes on
			change.Strategy = attempt.Strategy
		}
		change.RetryAt = s.due(change.Strategy, entry.DLQRetryCount+1, now)
		if change.Strategy == store.Conditional && s.Probed {
			change.RetryAt = now.Add(s.Clock.Real(conditionWait))
		}
		if asked := now.Add(failed.RetryAfter); asked.After(change.RetryAt) {
			change.RetryAt = asked
		}
	}
	return change
}
