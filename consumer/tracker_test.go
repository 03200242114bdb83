package consumer

import (
	"testing"

	"pgregory.net/rapid"
)

// TestTheTrackerIsTheContiguousPrefix compares it with a list that is searched from the front.
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
				next, epoch, gotOpen, gotOK := tracker.Prefix()
				if gotOK != ok || ok && (next != want.offset+1 || epoch != want.epoch) || gotOpen != open {
					t.Fatalf("prefix %d (epoch %d, %d open, %v), want %d (epoch %d, %d open, %v)", next, epoch, gotOpen, gotOK, want.offset+1, want.epoch, open, ok)
				}
				if ok && next < last {
					t.Fatalf("the prefix went back from %d to %d", last, next)
				}
				last = next
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
	if next, epoch, open, ok := tracker.Prefix(); next != 11 || epoch != 1 || open != 0 || !ok {
		t.Errorf("prefix %d (epoch %d, %d open, %v), want 11 (epoch 1, 0 open)", next, epoch, open, ok)
	}
}
