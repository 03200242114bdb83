package worker

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/store"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	location := must.Get(time.LoadLocation(name))(t)
	return location
}

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at := must.Get(time.Parse(time.RFC3339, text))(t)
	return at
}

func TestOffPeakHours(t *testing.T) {
	for _, one := range []struct{ zone, after, next, why string }{
		{"UTC", "2026-02-11T00:30:00Z", "2026-02-11T02:00:00Z", "the first hour of the day"},
		{"UTC", "2026-02-11T02:00:00Z", "2026-02-11T03:00:00Z", "an hour that has begun is over"},
		{"UTC", "2026-02-11T01:59:59Z", "2026-02-11T02:00:00Z", "a second before"},
		{"UTC", "2026-02-11T04:00:01Z", "2026-02-12T02:00:00Z", "the next day"},
		{"UTC", "2026-02-28T12:00:00Z", "2026-03-01T02:00:00Z", "the next month"},
		{"UTC", "2026-12-31T12:00:00Z", "2027-01-01T02:00:00Z", "the next year"},
		{"America/New_York", "2026-02-11T12:00:00Z", "2026-02-12T02:00:00-05:00", "another zone"},
		// Clocks go forward from 2 to 3 o'clock, so 2 o'clock does not exist.
		{"Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T03:00:00+02:00", "the hour that is left out"},
		{"America/New_York", "2026-03-08T01:30:00-05:00", "2026-03-08T03:00:00-04:00", "the hour that is left out"},
		// Clocks go back from 3 to 2 o'clock, so 2 o'clock occurs twice, and the first one counts.
		{"Europe/Berlin", "2026-10-25T00:30:00+02:00", "2026-10-25T02:00:00+02:00", "the first of two"},
		{"Europe/Berlin", "2026-10-25T02:10:00+02:00", "2026-10-25T03:00:00+01:00", "not the second of two"},
		{"Europe/Berlin", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00", "in the second of two"},
		// Clocks change by half an hour: from 2:00 to 2:30, and back from 2:00 to 1:30.
		{"Australia/Lord_Howe", "2026-10-04T01:00:00+10:30", "2026-10-04T03:00:00+11:00", "2 o'clock is left out"},
		{"Australia/Lord_Howe", "2026-04-05T01:00:00+11:00", "2026-04-05T02:00:00+10:30", "2 o'clock comes once"},
		// A day that was skipped.
		{"Pacific/Apia", "2011-12-29T12:00:00-10:00", "2011-12-31T02:00:00+14:00", "30 December was left out"},
	} {
		off := DefaultOffPeak()
		off.Zone = zone(t, one.zone)
		after, want := instant(t, one.after), instant(t, one.next)
		if got := off.Next(after); !got.Equal(want) {
			t.Errorf("%s, %s after %s: %s, want %s", one.why, one.zone, one.after, got.In(off.Zone), want.In(off.Zone))
		}
	}
}

func TestOffPeakHoursOfAnyZone(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia",
		"America/Sao_Paulo", "Africa/Casablanca"}
	rapid.Check(t, func(t *rapid.T) {
		location := must.Get(time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone")))(t)
		off := OffPeak{Hours: rapid.SliceOfNDistinct(rapid.IntRange(0, 23), 1, 5, rapid.ID[int]).Draw(t, "hours"),
			Zone: location}
		after := time.Unix(rapid.Int64Range(1_000_000_000, 2_000_000_000).Draw(t, "after"), 0)
		next := off.Next(after)
		local := next.In(location)
		switch {
		case !next.After(after):
			t.Fatalf("%s is not after %s", next, after)
		case next.Sub(after) > 51*time.Hour: // a skipped day, and one more
			t.Fatalf("%s is %s after", local, next.Sub(after))
		case !off.Within(next) || local.Minute() != 0:
			t.Fatalf("%s is no off-peak hour", local)
		}
		// No off-peak hour begins in between, which the test checks for each minute.
		for at := after.Truncate(time.Minute).Add(time.Minute); at.Before(next); at = at.Add(time.Minute) {
			if off.Within(at) && !off.Within(at.Add(-time.Minute)) && at.In(location).Minute() == 0 {
				t.Fatalf("%s was passed over for %s", at.In(location), local)
			}
		}
	})
}

func TestScaledTime(t *testing.T) {
	clock := Clock{Scale: 600}
	if got := clock.Real(time.Minute); got != 100*time.Millisecond {
		t.Errorf("a minute takes %s", got)
	}
	if got := (Clock{}).Real(time.Minute); got != time.Minute {
		t.Errorf("a real minute takes %s", got)
	}
	midnight := instant(t, "2026-02-11T00:00:00Z")
	if got := clock.Calendar(midnight.Add(time.Second)); !got.Equal(midnight.Add(10 * time.Minute)) {
		t.Errorf("a second after midnight it is %s", got)
	}
	// Over midnight the time of day continues.
	before, after := clock.Calendar(midnight.Add(-time.Millisecond)), clock.Calendar(midnight.Add(time.Millisecond))
	if got := after.Sub(before) % (24 * time.Hour); (got+24*time.Hour)%(24*time.Hour) != 1200*time.Millisecond {
		t.Errorf("over midnight the time of day goes on by %s", got)
	}
	origin := instant(t, "2026-02-11T01:00:00Z")
	if got := (Clock{Scale: 10, Origin: origin}).Calendar(origin.Add(time.Minute)); !got.Equal(
		origin.Add(10 * time.Minute)) {
		t.Errorf("a minute after the origin it is %s", got)
	}
	for scale, wrong := range map[float64]bool{0: false, 1: false, 600: false, 0.5: true, -1: true, 1e7: true} {
		if err := (Clock{Scale: scale}).validate(); (err != nil) != wrong {
			t.Errorf("scale %g: %v", scale, err)
		}
	}
}

func TestNewEntriesArePlanned(t *testing.T) {
	now := instant(t, "2026-02-11T12:00:00Z")
	for _, one := range []struct {
		reason string
		probed bool
		want   store.Strategy
		due    string
	}{
		{"timeout", false, store.Immediate, "2026-02-11T12:01:00Z"},
		{"quota exceeded", false, store.Scheduled, "2026-02-12T02:00:00Z"},
		{"circuit breaker open", true, store.Conditional, ""},
		{"circuit breaker open", false, store.Conditional, "2026-02-11T12:01:00Z"},
		{"who knows", true, store.ByHand, ""},
		{"invalid amount", false, store.ByHand, ""},
	} {
		strategies := DefaultStrategies()
		strategies.Probed = one.probed
		strategy, due := strategies.First(store.Failure{Message: one.reason}, now)
		want := time.Time{}
		if one.due != "" {
			want = instant(t, one.due)
		}
		if strategy != one.want || !due.Equal(want) {
			t.Errorf("%s: %s at %s, want %s at %s", one.reason, strategy, due, one.want, want)
		}
	}
}

func TestWhatIsDoneWithDueEntries(t *testing.T) {
	noon, night := instant(t, "2026-02-11T12:00:00Z"), instant(t, "2026-02-11T03:30:00Z")
	for name, one := range map[string]struct {
		entry  store.Entry
		now    time.Time
		probed bool
		unmet  string
		state  store.State // "" means that it is tried
		at     string
	}{
		"immediate":               {store.Entry{Strategy: store.Immediate}, noon, false, "", "", ""},
		"not analysed, transient": {store.Entry{Error: store.Failure{Message: "timeout"}}, noon, false, "", "", ""},
		"not analysed, unknown":   {store.Entry{}, noon, false, "", store.Manual, ""},
		"by hand":                 {store.Entry{Strategy: store.ByHand}, noon, false, "", store.Manual, ""},
		"scheduled at night":      {store.Entry{Strategy: store.Scheduled}, night, false, "", "", ""},
		"scheduled at noon": {store.Entry{Strategy: store.Scheduled}, noon, false, "", store.Pending,
			"2026-02-12T02:00:00Z"},
		"not analysed, rate limited": {store.Entry{Error: store.Failure{Code: "429"}}, noon, false, "", store.Pending,
			"2026-02-12T02:00:00Z"},
		"conditional, all well": {store.Entry{Strategy: store.Conditional}, noon, true, "", "", ""},
		"conditional, not well": {store.Entry{Strategy: store.Conditional}, noon, true,
			"the circuit breaker is OPEN", store.Pending, "2026-02-11T12:01:00Z"},
		"conditional, nobody can tell": {store.Entry{Strategy: store.Conditional}, noon, false, "", "", ""},
		"immediate, although all is unwell": {store.Entry{Strategy: store.Immediate}, noon, true,
			"the circuit breaker is OPEN", "", ""},
	} {
		strategies := DefaultStrategies()
		strategies.Probed = one.probed
		step := strategies.Before(one.entry, one.now, func() string { return one.unmet })
		switch {
		case one.state == "":
			if step.Instead != nil {
				t.Errorf("%s: %+v instead of a retry", name, step.Instead)
			}
		case step.Instead == nil:
			t.Errorf("%s: it is tried", name)
		case step.Instead.State != one.state || step.Instead.Retried || step.Why == "":
			t.Errorf("%s: %+v, %q", name, step.Instead, step.Why)
		case one.at != "" && !step.Instead.RetryAt.Equal(instant(t, one.at)):
			t.Errorf("%s: at %s", name, step.Instead.RetryAt)
		}
	}
}

func TestWhatBecomesOfTriedEntries(t *testing.T) {
	now := instant(t, "2026-02-11T12:00:00Z")
	failed := func(class Class) *RetryError { return &RetryError{Class: class, Err: errors.New("it failed")} }
	for name, one := range map[string]struct {
		strategy store.Strategy
		retries  int
		failed   *RetryError
		probed   bool
		state    store.State
		next     store.Strategy
		wait     time.Duration
	}{
		"success":         {store.Immediate, 0, nil, false, store.Resolved, store.Immediate, 0},
		"success at last": {store.Immediate, 4, nil, false, store.Resolved, store.Immediate, 0},
		"first failure": {store.Immediate, 0, failed(Transient), false, store.Pending, store.Immediate,
			5 * time.Minute},
		"second": {store.Immediate, 1, failed(Transient), false, store.Pending, store.Immediate,
			15 * time.Minute},
		"third": {store.Immediate, 2, failed(Transient), false, store.Pending, store.Immediate,
			30 * time.Minute},
		"fourth":           {store.Immediate, 3, failed(Transient), false, store.Pending, store.Immediate, time.Hour},
		"fifth":            {store.Immediate, 4, failed(Transient), false, store.Failed, store.Immediate, 0},
		"sixth":            {store.Immediate, 5, failed(Transient), false, store.Failed, store.Immediate, 0},
		"fifth, permanent": {store.Immediate, 4, failed(Permanent), false, store.Failed, store.Immediate, 0},
		"permanent":        {store.Immediate, 0, failed(Permanent), false, store.Manual, store.ByHand, 0},
		"now rate limited": {store.Immediate, 0, failed(RateLimited), false, store.Pending, store.Scheduled,
			14 * time.Hour},
		"unknown": {store.Immediate, 0, failed(Unknown), false, store.Pending, store.Immediate,
			5 * time.Minute},
		"outage, probed": {store.Immediate, 1, failed(Outage), true, store.Pending, store.Conditional, time.Minute},
		"outage, nobody can tell": {store.Immediate, 1, failed(Outage), false, store.Pending, store.Conditional,
			15 * time.Minute},
		"asked to wait": {store.Immediate, 0, &RetryError{Class: Transient, RetryAfter: time.Hour,
			Err: errors.New("x")}, false, store.Pending, store.Immediate, time.Hour},
	} {
		strategies := DefaultStrategies()
		strategies.Probed = one.probed
		entry := store.Entry{DLQRetryCount: one.retries, Error: store.Failure{Message: "timeout", Type: "TimeoutError"}}
		change := strategies.After(entry, store.Attempt{At: now, Worker: "w", Strategy: one.strategy}, one.failed, now)
		due := time.Time{}
		if one.wait > 0 {
			due = now.Add(one.wait)
		}
		if change.State != one.state || change.Strategy != one.next || !change.RetryAt.Equal(due) || !change.Retried {
			t.Errorf("%s: %+v, want %s by %s at %s", name, change, one.state, one.next, due)
		}
		if one.failed == nil != (change.Attempt.Result == Succeeded) ||
			one.failed == nil != (change.Resolution != nil) || one.failed == nil != (change.Failure == nil) {
			t.Errorf("%s: attempt %+v, resolution %+v, failure %+v", name, change.Attempt, change.Resolution, change.Failure)
		}
	}
}

// However an entry fails, it is tried exactly MaxRetries times.
func TestRetriesEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		strategies := DefaultStrategies()
		strategies.MaxRetries = rapid.IntRange(1, 12).Draw(t, "retries")
		strategies.Clock.Scale = rapid.SampledFrom([]float64{1, 600, 60000}).Draw(t, "scale")
		entry := store.Entry{State: store.Pending, Strategy: store.Immediate}
		now := time.Unix(1_770_000_000, 0)
		for tries := 1; ; tries++ {
			class := rapid.SampledFrom([]Class{Transient, RateLimited, Outage, Unknown}).Draw(t, "class")
			change := strategies.After(entry, store.Attempt{At: now, Strategy: entry.Strategy},
				&RetryError{Class: class, Err: errors.New("x")}, now)
			if change.State == store.Failed {
				if tries != strategies.MaxRetries {
					t.Fatalf("failed after %d of %d retries", tries, strategies.MaxRetries)
				}
				return
			}
			if tries >= strategies.MaxRetries || change.State != store.Pending || !change.RetryAt.After(now) {
				t.Fatalf("after %d of %d retries: %+v", tries, strategies.MaxRetries, change)
			}
			entry.DLQRetryCount, entry.Strategy = entry.DLQRetryCount+1, change.Strategy
		}
	})
}
