package consumer

import (
	"context"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestEveryRecordEndsAsItsClassSays(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	b.produce(0, 40, 40)
	b.produce(1, 40, 40)
	var seen calls
	settings := testSettings()
	handler := func(_ context.Context, record *kgo.Record) error {
		n := seen.add(record)
		switch record.Offset % 4 {
		case 1:
			if n < 3 {
				return errors.New("not yet")
			}
		case 2:
			return &Error{Class: Permanent, Err: errors.New("broken")}
		case 3:
			if record.Offset%8 == 3 {
				return &Error{Class: Logical, Err: errors.New("declined")}
			}
			return errors.New("down")
		}
		return nil
	}
	run := b.start(b.config(settings, handler), DefaultParts(settings))
	b.eventually("everything is committed", func() bool { return b.committed(0) == 40 && b.committed(1) == 40 })
	must.Do(t, run.stop())

	letters := map[string]*kgo.Record{}
	for _, letter := range b.letters() {
		letters[string(letter.Value)] = letter
	}
	if len(letters) != 30 || len(b.letters()) != 30 {
		t.Errorf("%d dead letters of %d records, want 30 of 30", len(b.letters()), len(letters))
	}
	for partition := range int32(2) {
		for offset := range int64(40) {
			value := string(valueOf(partition, offset))
			want := map[int64]int{0: 1, 1: 3, 2: 1, 3: 3}[offset%4]
			if offset%8 == 3 {
				want = 1
			}
			if got := seen.of(value); got != want {
				t.Errorf("%s: %d attempts, want %d", value, got, want)
			}
			wantLetter := offset%4 == 2 || offset%8 == 7
			letter := letters[value]
			if (letter != nil) != wantLetter {
				t.Errorf("%s: dead-lettered: %v, want %v", value, letter != nil, wantLetter)
			}
			if letter == nil {
				continue
			}
			failure, missing := deadletter.Plain{}.Open(letter)
			if missing != nil || failure.Topic != inputTopic || failure.Partition != partition ||
				failure.Offset != offset || int(failure.Attempts) != want {
				t.Errorf("%s: the dead letter says %+v, missing %v", value, failure, missing)
			}
			if letter.Partition != partition || len(letter.Headers) != 7 {
				t.Errorf("%s: dead letter in partition %d with %d headers", value, letter.Partition, len(letter.Headers))
			}
		}
	}
}
