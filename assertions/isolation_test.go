package assertions

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Records may be asked for in any order, between any fetches, after a rewind too.
func TestFetchesFindWhenAnOffsetWasHandedOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f fetches
		by, handed := holder{}, map[int64]time.Duration{}
		offset := rapid.Int64Range(0, 40)
		for at := range time.Duration(60) {
			if first := offset.Draw(t, "first"); rapid.Bool().Draw(t, "fetches") {
				last := first + rapid.Int64Range(-1, 5).Draw(t, "more")
				if n := len(f.list); last >= first && n > 0 && first <= f.list[n-1].last {
					clear(handed)
				}
				f.add(by, fetched{first, last, at})
				for ; first <= last; first++ {
					handed[first] = at
				}
			}
			asked := offset.Draw(t, "asked")
			got, known := f.handed(by, asked)
			if want, is := handed[asked]; known != is || got != want {
				t.Fatalf("offset %d: handed over at %d, %v; want %d, %v", asked, got, known, want, is)
			}
		}
	})
}
