package worker

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/store"
)

// MaxRetries is the number of tries by workers before an entry has failed, by "Dead Letter Queue Lifecycle".
const MaxRetries = 5

// conditionWait is the nominal wait before unmet conditions are checked again.
const conditionWait = time.Minute

// Backoff returns the nominal waits of the immediate strategy before the n-th retry, counted from 0, as in "Dead Letter
// Queue Lifecycle".
func Backoff() []time.Duration {
	return []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour}
}

// OffPeak defines when scheduled entries are retried.
type OffPeak struct {
	// Hours are hours of the day, 0 to 23, in the time zone Zone.
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

// horizon is the number of days that are searched for an off-peak hour. A zone may skip a whole day.
const horizon = 4

// Next returns the first off-peak hour that begins after the time. It skips an hour that the zone's clocks leave out
// (in spring), and counts an hour that they repeat (in autumn) once, when it first occurs.
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
	return after.Add(24 * time.Hour) // no clock skips its off-peak hours for that many days
}

// start returns the first time at which the hour begins on that day.
func (o OffPeak) start(year int, month time.Month, day, hour int) (time.Time, bool) {
	date := time.Date(year, month, day, 12, 0, 0, 0, time.UTC) // a day past the month's end belongs to the next month
	shows := func(t time.Time) bool {
		y, m, d := t.Date()
		return y == date.Year() && m == date.Month() && d == date.Day() && t.Hour() == hour && t.Minute() == 0
	}
	start := time.Date(year, month, day, hour, 0, 0, 0, o.Zone)
	if !shows(start) {
		return time.Time{}, false
	}
	// time.Date does not define which of two times it returns. Clocks are put back by half an hour to two hours.
	for _, back := range []time.Duration{30 * time.Minute, time.Hour, 2 * time.Hour} {
		if earlier := start.Add(-back); shows(earlier) {
			return earlier, true
		}
	}
	return start, true
}

// Within reports whether the time is in one of the hours. The second occurrence of a repeated hour does not count.
func (o OffPeak) Within(at time.Time) bool {
	local := at.In(o.Zone)
	if !slices.Contains(o.Hours, local.Hour()) {
		return false
	}
	start, exists := o.start(local.Year(), local.Month(), local.Day(), local.Hour())
	return !exists || at.Sub(start) < time.Hour
}

// Strategies decide when an entry is tried and what follows. It is a value without state: the same entry and time give
// the same answer.
type Strategies struct {
	Clock   Clock
	OffPeak OffPeak
	// MaxRetries is the number of tries of an entry by workers, ≥ 1.
	MaxRetries int
	// Probed reports whether the conditions of conditional retries can be checked. Without a probe, such entries are
	// retried with the immediate strategy's waits.
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

// First returns the strategy of a new entry and its due time. The zero time means at once, either to hand the entry to
// a person or to check its conditions.
func (s Strategies) First(failure store.Failure, now time.Time) (store.Strategy, time.Time) {
	strategy := Analyse(failure).Strategy()
	switch {
	case strategy == store.ByHand, strategy == store.Conditional && s.Probed:
		return strategy, time.Time{}
	}
	return strategy, s.due(strategy, 0, now)
}

// due returns the time of the next try after the given number of retries.
func (s Strategies) due(strategy store.Strategy, retries int, now time.Time) time.Time {
	if strategy == store.Scheduled {
		calendar := s.Clock.Calendar(now)
		return now.Add(max(1, s.Clock.Real(s.OffPeak.Next(calendar).Sub(calendar))))
	}
	waits := Backoff()
	return now.Add(s.Clock.Real(waits[min(retries, len(waits)-1)]))
}

// Step is a worker's action on a claimed entry. The worker tries the entry unless Instead is set, which it then settles
// the entry with.
type Step struct {
	Strategy store.Strategy
	Instead  *store.Change
	// Why explains Instead to people.
	Why string
}

// Before decides about a due entry. It calls unmet only for conditional entries; unmet returns the unmet conditions, or
// "".
func (s Strategies) Before(entry store.Entry, now time.Time, unmet func() string) Step {
	strategy := entry.Strategy
	if strategy == "" { // the entry's author did not analyse it
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

// After returns the change that settles a tried entry. failed is nil after a success. attempt.Worker is the name of the
// worker for the history.
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
		if change.Strategy == store.ByHand { // unknown: the strategy of the earlier error continues
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
