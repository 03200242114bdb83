package consumer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestOrderings has one partition with the keys k0..k3 in turn. The first record of k1 fails twice, with a backoff.
// The orderings differ in the records that may be tried between its failures.
func TestOrderings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ordering                  string
		sameKeyWaits, othersWaits bool
	}{{OrderingNone, false, false}, {OrderingKey, true, false}, {OrderingPartition, true, true}} {
		b := newBench(t, 1)
		b.produce(0, 40, 4)
		settings := testSettings()
		settings.Ordering, settings.RetryBackoffMS, settings.MaxRetryBackoffMS = c.ordering, 150, 150
		var seen calls
		b.start(b.config(settings, func(_ context.Context, record *kgo.Record) error {
			if n := seen.add(record); record.Offset == 1 && n < 3 {
				return errors.New("not yet")
			}
			return nil
		}), DefaultParts(settings))
		b.eventually("everything is committed", func() bool { return b.committed(0) == 40 })
		seen.mu.Lock()
		last := len(seen.order) - 1 - slices.Index(reversed(seen.order), "0:1")
		sameKeyWaited := slices.Index(seen.order, "0:5") > last
		othersWaited := slices.Index(seen.order, "0:2") > last
		if sameKeyWaited != c.sameKeyWaits || othersWaited != c.othersWaits {
			t.Errorf("%s: the key's next record waited: %v, want %v; another key's: %v, want %v (%v)",
				c.ordering, sameKeyWaited, c.sameKeyWaits, othersWaited, c.othersWaits, seen.order)
		}
		seen.mu.Unlock()
	}
}

func reversed(list []string) []string {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// TestAKeysRecordsNeverOverlap includes dead-lettered records: the next record of the key waits for the
// acknowledgement.
func TestAKeysRecordsNeverOverlap(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	b.produce(0, 600, 7)
	b.produce(1, 600, 7)
	settings := testSettings()
	settings.RetryBackoffMS = 1
	var mu sync.Mutex
	open := map[string]string{}
	next := map[string]int64{}
	parts := DefaultParts(settings)
	ended := func(record *kgo.Record) {
		mu.Lock()
		defer mu.Unlock()
		delete(open, lineOf(record))
	}
	parts.Parker = watchedParker{AckedParker{}, func(letter *kgo.Record) { ended(letter) }}
	b.start(b.config(settings, func(_ context.Context, record *kgo.Record) error {
		mu.Lock()
		line, value := lineOf(record), string(record.Value)
		if other, found := open[line]; found && other != value {
			t.Errorf("%s began while %s of its key was not finished", value, other)
		}
		if record.Offset < next[line] {
			t.Errorf("%s came after offset %d of its key", value, next[line])
		}
		open[line], next[line] = value, record.Offset
		mu.Unlock()
		time.Sleep(100 * time.Microsecond)
		switch {
		case record.Offset%9 == 8:
			return &Error{Class: Permanent, Err: errors.New("broken")}
		case record.Offset%50 == 3:
			return errors.New("down")
		}
		ended(record)
		return nil
	}), parts)
	for partition := range int32(2) {
		b.eventually("everything is committed", func() bool { return b.committed(partition) == 600 })
	}
}

func lineOf(record *kgo.Record) string {
	return string(record.Key) + "/" + string(record.Value[:1])
}
