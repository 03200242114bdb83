package history

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestStoreChangeIsReadAsWritten(t *testing.T) {
	one := StoreChange{From: StorePending, To: StoreProcessing, By: "worker 1", Strategy: "immediate_retry",
		Next: 12 * time.Second, Lease: None}
	if got, want := one.String(), "pending>processing by=worker+1 strategy=immediate_retry next=12000000000"; got != want {
		t.Errorf("written as %q, want %q", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		state := rapid.SampledFrom([]StoreState{StorePending, StoreProcessing, StoreResolved, StoreFailed, StoreManual,
			StoreArchived, StoreAbsent, StoreUnknown})
		moment := rapid.OneOf(rapid.Just(time.Duration(None)), rapid.Map(rapid.Int64(), func(n int64) time.Duration {
			return time.Duration(n)
		}))
		one := StoreChange{
			From: state.Draw(t, "from"), To: state.Draw(t, "to"), By: rapid.String().Draw(t, "by"),
			Strategy: rapid.String().Draw(t, "strategy"),
			Word:     rapid.String().Draw(t, "word"), Next: moment.Draw(t, "next"), Lease: moment.Draw(t, "lease"),
			Hand: rapid.Bool().Draw(t, "hand"),
		}
		got, err := ParseStoreChange(one.String())
		if err != nil || got != one {
			t.Fatalf("%+v was read back as %+v, %v", one, got, err)
		}
	})
}

func TestWhatIsNoStoreChange(t *testing.T) {
	for _, text := range []string{"", "pending", ">", "pending>", "pending>resolved next=soon",
		"pending>resolved by=%zz"} {
		if got, err := ParseStoreChange(text); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
	if got, err := ParseStoreChange("pending>resolved later=1"); err != nil || got.To != StoreResolved {
		t.Errorf("a name of a later version: %+v, %v", got, err)
	}
}

func TestStoreProcessesHaveInstancesOfTheirOwn(t *testing.T) {
	for n := range ProcessLimit {
		for kind, instance := range map[string]int16{"router": Router(n), "worker": Worker(n), "keeper": Keeper(n)} {
			if gotKind, got := StoreProcess(instance); gotKind != kind || got != n || !OfStore(instance) {
				t.Errorf("%s %d is taken for %s %d", kind, n, gotKind, got)
			}
		}
	}
	for _, other := range []int16{0, 1, None, Replayer, -100, -201, -300, -401} {
		if kind, _ := StoreProcess(other); kind != "" || OfStore(other) {
			t.Errorf("instance %d is taken for a %q of the store", other, kind)
		}
	}
}
