package metrics

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbench/dlqbench/internal/testkit/promtest"
	"github.com/dlqbench/dlqbench/store"
)

// counts is a store that counts its calls.
type counts struct {
	stats store.Stats
	err   error
	asked int
}

func (c *counts) Stats(context.Context) (store.Stats, error) {
	c.asked++
	return c.stats, c.err
}

func TestCounters(t *testing.T) {
	m := New(nil, Options{})
	before := promtest.Series(t, m.Registry())
	promtest.Compare(t, before, map[string]float64{
		"dlq_ingested_total": 0, "dlq_resolved_total resolution=automatic_retry": 0,
		"dlq_replays_total result=failed strategy=scheduled_retry": 0,
	})
	m.Ingested(make([]store.Entry, 5), 3)
	m.Ingested(make([]store.Entry, 5), 0)
	entry := store.Entry{CreatedAt: time.Unix(1000, 0)}
	settle := func(state store.State, result string, strategy store.Strategy, end *store.Resolution) {
		m.Settled(entry, store.Change{State: state, Attempt: &store.Attempt{Result: result, Strategy: strategy},
			Resolution: end})
	}
	settle(store.Resolved, "succeeded", store.Immediate,
		&store.Resolution{How: store.AutomaticRetry, At: time.Unix(1030, 0)})
	settle(store.Resolved, "succeeded", store.Immediate, &store.Resolution{How: store.ManualRetry, At: time.Unix(1002, 0)})
	// a clock that is behind gives 0 s
	settle(store.Resolved, "succeeded", "of their own", &store.Resolution{How: "magic", At: time.Unix(990, 0)})
	settle(store.Pending, "failed", store.Scheduled, nil)
	settle(store.Failed, "failed", store.Scheduled, nil)
	m.Settled(entry, store.Change{State: store.Pending}) // postponed: no attempt
	m.NotificationFailed()
	promtest.Compare(t, promtest.Series(t, m.Registry()), map[string]float64{
		"dlq_ingested_total": 3, "dlq_notifications_failed_total": 1,
		"dlq_replays_total result=failed strategy=scheduled_retry":    2,
		"dlq_replays_total result=failed strategy=immediate_retry":    0,
		"dlq_replays_total result=succeeded strategy=immediate_retry": 2,
		"dlq_replays_total result=succeeded strategy=other":           1,
		"dlq_resolved_total resolution=automatic_retry":               1,
		"dlq_resolved_total resolution=manual_retry":                  1,
		"dlq_resolved_total resolution=other":                         1,
		"dlq_time_in_dlq_seconds_sum":                                 32,
		"dlq_time_in_dlq_seconds_count":                               3,
	})
}

func TestGauges(t *testing.T) {
	source := &counts{stats: store.Stats{
		ByState:     map[store.State]int64{store.Pending: 12, store.Failed: 2, "gibberish": 4, "more": 1},
		ByErrorType: map[string]int64{"TIMEOUT_ERROR": 9, "": 2, "\xffbad": 1},
		// Keys with the same label form one series. Two series would make the page invalid.
		Resolutions: map[string]int64{store.AutomaticRetry: 7, "a": 1, "b": 2},
		Oldest:      time.UnixMilli(1500),
	}}
	promtest.Compare(t, promtest.Series(t, New(source, Options{}).Registry()), map[string]float64{
		"dlq_store_up": 1, "dlq_backlog": 12, "dlq_entries state=failed": 2, "dlq_entries state=resolved": 0,
		"dlq_entries state=unknown":                5,
		"dlq_error_types error_type=TIMEOUT_ERROR": 9, "dlq_error_types error_type=none": 2,
		"dlq_error_types error_type=�bad":            1,
		"dlq_resolutions resolution=automatic_retry": 7, "dlq_resolutions resolution=other": 3,
		"dlq_oldest_pending_timestamp_seconds": 1.5,
	})
}

// The number of series is bounded for any number and any names of error types, and the sum is complete.
func TestErrorTypesAreBounded(t *testing.T) {
	source := &counts{stats: store.Stats{ByErrorType: map[string]int64{"other": 3, "frequent": 10_000}}}
	want := 10_003.0
	for i := range 1000 {
		name := fmt.Sprintf("%d-%s", i, strings.Repeat("E", 200))
		if i >= 990 { // equal after they are cut
			name = fmt.Sprintf("%s-%d", strings.Repeat("E", 200), i)
		}
		source.stats.ByErrorType[name] = int64(10 + i)
		want += float64(10 + i)
	}
	types, sum := 0, 0.0
	shown := promtest.Series(t, New(source, Options{}).Registry())
	for name, value := range shown {
		if label, is := strings.CutPrefix(name, "dlq_error_types error_type="); is {
			types++
			sum += value
			if len(label) > 100 {
				t.Errorf("a label of %d bytes", len(label))
			}
		}
	}
	if types > MaxErrorTypes+1 || sum != want || shown["dlq_error_types error_type=frequent"] != 10_000 {
		t.Errorf("%d series, together %g (want %g): %v", types, sum, want, shown)
	}
}

func TestStoreIsAskedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &counts{err: errors.New("down")}
		m := New(source, Options{Every: 15 * time.Second})
		for range 2 {
			shown := promtest.Series(t, m.Registry())
			if _, there := shown["dlq_backlog"]; there || shown["dlq_store_up"] != 0 || source.asked != 1 {
				t.Errorf("asked %d times, shown %v", source.asked, shown)
			}
			time.Sleep(14 * time.Second)
		}
		source.err = nil
		promtest.Compare(t, promtest.Series(t, m.Registry()), map[string]float64{"dlq_store_up": 1, "dlq_backlog": 0})
		if source.asked != 2 {
			t.Errorf("asked %d times", source.asked)
		}
	})
}

// The embedded file must equal the installed one.
func TestAlertsAreACopy(t *testing.T) {
	first := Alerts()
	first[0] = 'x'
	if Alerts()[0] == 'x' || !strings.Contains(string(Alerts()), "HighDLQIngestionRate") {
		t.Error("the rules can be changed, or aren't there")
	}
}
