package assertions

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/history"
)

// However many events have one time, batches pass all of them on in one batch, sorted, and lose and repeat none.
func TestBatchesHoldAllEventsOfOneTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := []history.Kind{history.KindSend, history.KindFetched, history.KindAttemptStart, history.KindAttemptEnd}
		var events, want []history.Event
		for at, n := range rapid.SliceOfN(rapid.IntRange(1, batchEvents+9), 0, 6).Draw(t, "events of one time") {
			for range n {
				e := history.New(rapid.SampledFrom(kinds).Draw(t, "kind"), time.Duration(at))
				e.Op = int64(len(events))
				events = append(events, e)
			}
			var sort sorter
			tied := slices.Clone(events[len(events)-n:])
			sort.put(tied)
			want = append(want, tied...)
		}
		var got []history.Event
		err := ordered{history.FromEvents(history.Header{}, events)}.batches(
			func(batch []history.Event) ([]history.Event, error) {
				if len(got) > 0 && len(batch) > 0 && got[len(got)-1].Time == batch[0].Time {
					t.Fatalf("the events at %s are in two batches", batch[0].Time)
				}
				got = append(got, batch...)
				return rapid.SampledFrom([][]history.Event{nil, batch[:0]}).Draw(t, "next"), nil
			})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d events are passed on (%v), of %d, or in another order", len(got), err, len(want))
		}
	})
}

// coarse is a source whose clock ticks rarely, so that many events have one time.
type coarse struct{ history.Source }

func (c coarse) Each(fn func(*history.Event) error) error {
	return c.Source.Each(func(e *history.Event) error {
		e.Time = e.Time.Truncate(time.Microsecond)
		return fn(e)
	})
}

// Judging and measuring side by side come to what one loop comes to.
func TestGoroutinesSeeWhatALoopSees(t *testing.T) {
	source := coarse{newSynthetic(5_000, 2)}
	var judges [2]*judge
	for i := range judges {
		var err error
		if judges[i], err = newJudge(catalogue(), source.Header()); err != nil {
			t.Fatal(err)
		}
	}
	err := ordered{source}.Each(func(e *history.Event) error {
		judges[0].apply(e)
		judges[0].measurer.Observe(e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := judges[1].walk(ordered{source}); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(judges[0].state.records, judges[1].state.records) {
		t.Error("the records differ")
	}
	var measured [2][]byte
	for i, j := range judges {
		if measured[i], err = json.Marshal(j.measurer.Finish()); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(measured[0], measured[1]) {
		t.Errorf("the measurements differ:\n%s\n%s", measured[0], measured[1])
	}
}
