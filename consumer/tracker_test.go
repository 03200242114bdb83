package consumer

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTheTrackerIsTheContiguousPrefix compares the tracker with a list that is searched from the front.
func TestTheTrackerIsTheContiguousPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type entry struct {
			slot   uint64
			offset int64
			epoch  int32
			done   bool
		}
		var model []entry
		tracker := NewPrefixTracker()
		offset, last := rapid.Int64Range(0, 1000).Draw(t, "first"), int64(-1)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				for range rapid.IntRange(1, 100).Draw(t, "records") {
					epoch := int32(len(model) / 50)
					model = append(model, entry{tracker.Add(offset, epoch), offset, epoch, false})
					offset += rapid.Int64Range(1, 3).Draw(t, "gap")
				}
			},
			"finish": func(t *rapid.T) {
				if len(model) == 0 {
					return
				}
				at := rapid.IntRange(0, len(model)-1).Draw(t, "which")
				for i := at; i < min(at+20, len(model)); i++ {
					if !model[i].done {
						model[i].done = true
						tracker.Finish(model[i].slot)
					}
				}
			},
			"": func(t *rapid.T) {
				var want entry
				open, ok := len(model), false
				for _, e := range model {
					if !e.done {
						break
					}
					want, ok = e, true
					open--
				}
				got := tracker.Prefix(maxRanges)
				if got.OK != ok || ok && (got.Next != want.offset+1 || got.Epoch != want.epoch) || got.Open != open {
					t.Fatalf("prefix %+v, want %d (epoch %d, %d open, %v)", got, want.offset+1, want.epoch, open, ok)
				}
				if !ok && len(model) > 0 && (got.Next != model[0].offset || got.Epoch != -1) {
					t.Fatalf("nothing is finished and the prefix is %+v, want offset %d", got, model[0].offset)
				}
				if ok && got.Next < last {
					t.Fatalf("the prefix went back from %d to %d", last, got.Next)
				}
				last = got.Next
				beyond, ranges := map[int64]bool{}, got.Beyond
				for i, r := range ranges {
					if r.First > r.Last || i > 0 && r.First <= ranges[i-1].Last+1 {
						t.Fatalf("ranges %v: not ascending, or two that are one", ranges)
					}
					for offset := r.First; offset <= r.Last; offset++ {
						beyond[offset] = true
					}
				}
				for _, e := range model[len(model)-open:] {
					if beyond[e.offset] != e.done {
						t.Fatalf("offset %d: beyond the prefix it is finished: %v, want %v", e.offset, beyond[e.offset], e.done)
					}
					delete(beyond, e.offset)
				}
				if few := tracker.Prefix(2).Beyond; len(beyond) > 0 || !slices.Equal(few, ranges[:min(2, len(ranges))]) {
					t.Fatalf("offsets %v are in no record; the first two of %v are %v", beyond, ranges, few)
				}
			},
		})
	})
}

func TestTheTrackerDoesNotGoBackAfterATruncation(t *testing.T) {
	tracker := NewPrefixTracker()
	tracker.Finish(tracker.Add(10, 1))
	again := tracker.Add(4, 2)
	tracker.Finish(again)
	tracker.Finish(again) // a second time changes nothing
	if prefix := tracker.Prefix(9); prefix.Next != 11 || prefix.Epoch != 1 || prefix.Open != 0 ||
		!prefix.OK || len(prefix.Beyond) != 0 {
		t.Errorf("prefix %+v, want 11 (epoch 1, 0 open)", prefix)
	}
}
