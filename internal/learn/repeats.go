package learn

// Calls that a client repeats by itself within an attempt: some calls of a record close after one another, and then the
// wait between two attempts, again and again.

import (
	"fmt"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

const (
	// apart is how much longer waits between attempts must be than those between the calls of one, and asked from which
	// difference on that is asked about.
	apart, asked = 2, 1.5
	// mostCalls is the largest number of calls in an attempt that a contract can promise.
	mostCalls = 20
)

// repeats are the attempts of a client that repeats calls by itself.
type repeats struct {
	// calls is the number of calls in an attempt that fails, attempts that of attempts; both are 0 if no call is repeated.
	calls, attempts int
	// records is how many records show it.
	records int
	// longest is the longest wait between two calls of an attempt.
	longest time.Duration
	// waits are those after the first attempt, after the second, and so on.
	waits [][]time.Duration
	// sure: every record shows it, and every wait between attempts is apart from those between calls.
	sure bool
}

// repeats looks for calls that the client repeats by itself. A backoff alone never looks so: its waits do not become
// short again. Where a record comes back by another way than a wait of its process, nothing can be told.
func (l *learned) repeats() repeats {
	if l.subject.Contract.Retry != string(history.RetryInPlace) || l.seen.shared || l.subject.Kafka() != nil {
		return repeats{}
	}
	all, whole := l.seen.series()
	if len(all) < leastGaps {
		return repeats{}
	}
	n := len(all[0])
	for calls := 2; calls <= min(n/2, mostCalls); calls++ {
		if n%calls != 0 {
			continue
		}
		if r, found := grouped(all, calls); found {
			b, fits := fit(r.waits)
			r.sure = r.sure && whole && fits && b.initial > r.longest
			return r
		}
	}
	return repeats{}
}

// series returns the attempts of records that failed each time, came to an end and had the most frequent number of
// attempts, each in one process. whole says that no others came to an end.
func (s *seen) series() (all [][]try, whole bool) {
	var lengths []int
	for _, r := range s.of(history.OutcomeExhausted) {
		if len(r.tries) == 0 || r.deadLetters == 0 && !s.finished(r) {
			continue
		}
		lengths = append(lengths, len(r.tries))
		other := func(t try) bool { return t.by != r.tries[0].by || t.outcome != history.OutcomeTransient }
		if !slices.ContainsFunc(r.tries, other) {
			all = append(all, r.tries)
		}
	}
	n, _ := mode(lengths)
	all = slices.DeleteFunc(all, func(tries []try) bool { return len(tries) != n })
	return all, len(all) == len(lengths)
}

// grouped reports whether the attempts are groups of this number of calls.
func grouped(all [][]try, calls int) (r repeats, found bool) {
	n := len(all[0])
	r = repeats{calls: calls, attempts: n / calls, records: len(all)}
	shortest, closest, widest := time.Duration(-1), time.Duration(-1), time.Duration(0)
	for k := 1; k < n; k++ {
		var waits []time.Duration
		for _, tries := range all {
			waits = append(waits, tries[k].begin-tries[k-1].end)
		}
		slices.Sort(waits)
		usual := waits[len(waits)/2]
		if k%calls != 0 {
			widest, r.longest = max(widest, usual), max(r.longest, waits[len(waits)-1])
			continue
		}
		r.waits = append(r.waits, waits)
		if closest < 0 || usual < closest {
			closest = usual
		}
		if shortest < 0 || waits[0] < shortest {
			shortest = waits[0]
		}
	}
	r.sure = shortest >= apart*r.longest
	return r, float64(closest) >= asked*float64(widest) && closest >= atOnce
}

// text is what shows that the client repeats calls.
func (r repeats) text() string {
	return fmt.Sprintf("%d calls in %s that failed each time: groups of %d, with %s at most between their calls, and %s "+
		"at least between the groups.", r.calls*r.attempts, units.Plural(int64(r.records), "record", "records"), r.calls,
		units.Text(r.longest), units.Text(slices.Min(slices.Concat(r.waits...))))
}

// promised says what to promise if it is not sure.
func (r repeats) promised(counter history.Counter) string {
	return fmt.Sprintf(" %s If its client repeats calls by itself, promise attempts: {max: %d, counter: %s, calls: %d}, "+
		"with the wait between the groups as backoff.", r.text(), r.attempts, counter, r.calls)
}

// repeated promises attempts of several calls.
func (l *learned) repeated(counter history.Counter) {
	l.promise("attempts", fmt.Sprintf("{max: %d, counter: %s, calls: %d}", l.client.attempts, counter, l.client.calls),
		"%s So each group is an attempt, in which the client repeats its call by itself.", l.client.text())
}

// waits are the waits between attempts.
func (l *learned) waits() [][]time.Duration {
	if l.client.sure {
		return l.client.waits
	}
	return l.seen.gaps()
}
