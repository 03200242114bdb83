package consumer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func exitSettings() Settings {
	settings := testSettings()
	settings.DLQEnabled, settings.OnExhausted, settings.Ordering = false, ExhaustedExit, OrderingPartition
	return settings
}

// Without the DLQ and with on_exhausted: exit, the consumer ends by itself. The records finished before the failed
// one are committed, and none after it. The next process starts a new count.
func TestAnExhaustedRecordEndsTheConsumer(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	b.produce(0, 20, 20)
	settings := exitSettings()
	var seen calls
	handler := func(_ context.Context, record *kgo.Record) error {
		if n := seen.add(record); record.Offset == 5 && n <= settings.MaxRetries {
			return errors.New("down")
		}
		return nil
	}
	first, err := New(b.config(settings, handler), DefaultParts(settings))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testDeadline)
	defer cancel()
	err = first.Run(ctx)
	if !errors.Is(err, ErrRetriesExhausted) || ctx.Err() != nil ||
		!strings.Contains(err.Error(), "orders-0 offset 5") || !strings.Contains(err.Error(), "after 3 attempts: down") {
		t.Fatalf("it ended with %v", err)
	}
	if at := b.committed(0); at != 5 {
		t.Errorf("committed up to %d, want up to the record at 5, and not past it", at)
	}
	if n := seen.of("0:5"); n != settings.MaxRetries {
		t.Errorf("the record was tried %d times, want %d", n, settings.MaxRetries)
	}
	b.start(b.config(settings, handler), DefaultParts(settings))
	b.eventually("everything is committed", func() bool { return b.committed(0) == 20 })
	if n := seen.of("0:5"); n != settings.MaxRetries+1 {
		t.Errorf("the record was tried %d times in all, want %d", n, settings.MaxRetries+1)
	}
	if letters := b.letters(); len(letters) != 0 {
		t.Errorf("%d dead letters, want none", len(letters))
	}
}

// A record of another partition that is being tried when the consumer ends may finish, and is then committed. Later
// records of the failed record's partition may not.
func TestAnExhaustedRecordLetsRunningAttemptsEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	b.produce(0, 1, 1)
	b.produce(1, 1, 1)
	settings := exitSettings()
	settings.MaxRetries = 1
	slow := make(chan struct{})
	handler := func(_ context.Context, record *kgo.Record) error {
		if record.Partition == 1 {
			close(slow)
			time.Sleep(50 * time.Millisecond)
			return nil
		}
		<-slow
		return errors.New("down")
	}
	one := must.Get(New(b.config(settings, handler), DefaultParts(settings)))(t)
	if err := one.Run(t.Context()); !errors.Is(err, ErrRetriesExhausted) {
		t.Fatalf("it ended with %v", err)
	}
	if failed, other := b.committed(0), b.committed(1); failed > 0 || other != 1 {
		t.Errorf("committed up to %d and %d, want nothing of partition 0 and all of partition 1", failed, other)
	}
}

func TestOnExhaustedIsChecked(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Settings){
		"dlq_enabled false":    func(s *Settings) { s.DLQEnabled = true },
		"it is finish or exit": func(s *Settings) { s.OnExhausted = "crash" },
		"retry in-place":       func(s *Settings) { s.Retry = RetryTopics },
		"without transactions": func(s *Settings) { s.Transactions = true },
	} {
		settings := exitSettings()
		change(&settings)
		if err := settings.Validate(); err == nil || !strings.Contains(err.Error(), "on_exhausted") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want something about %q", settings, err, want)
		}
	}
	if err := exitSettings().Validate(); err != nil {
		t.Error(err)
	}
}

// The replay topic is consumed like the input. Its records are tried at once, its offsets are committed, and records
// that fail again are dead-lettered under the name of their original topic.
func TestTheReplayTopicIsConsumedLikeTheInput(t *testing.T) {
	t.Parallel()
	replays := deadletter.HexkitRetryTopic(groupID)
	b := newBenchWith(t, 1, []string{inputTopic, dlqTopic, replays})
	settings := testSettings()
	settings.Envelope, settings.MaxRetries, settings.Ordering = deadletter.HexkitName, 2, OrderingPartition
	var seen calls
	config := b.config(settings, func(_ context.Context, record *kgo.Record) error {
		if seen.add(record); string(record.Value) == "bad" {
			return errors.New("down")
		}
		return nil
	})
	config.ReplayTopic = replays
	b.start(config, DefaultParts(settings))
	headers := []kgo.RecordHeader{{Key: "type", Value: []byte("order")},
		{Key: "original_topic", Value: []byte(inputTopic)}}
	must.Do(t, b.client.ProduceSync(t.Context(),
		&kgo.Record{Topic: replays, Value: []byte("bad"), Headers: headers},
		&kgo.Record{Topic: replays, Value: []byte("good"), Headers: headers},
		&kgo.Record{Topic: inputTopic, Value: []byte("new")},
	).FirstErr())
	b.eventually("both topics are committed", func() bool {
		offsets, err := b.admin.FetchOffsets(t.Context(), groupID)
		at, known := offsets.Lookup(replays, 0)
		return err == nil && known && at.At == 2 && b.committed(0) == 1
	})
	if seen.of("good") != 1 || seen.of("bad") != 2 || seen.of("new") != 1 {
		t.Errorf("tried %v", seen.count)
	}
	if last := slices.DeleteFunc(slices.Clone(seen.order), func(value string) bool {
		return value == "new"
	}); last[len(last)-1] != "good" {
		t.Errorf("tried in the order %v, want that of the partition", last)
	}
	letters := b.letters()
	if len(letters) != 1 {
		t.Fatalf("%d dead letters, want 1", len(letters))
	}
	if failure, missing := (deadletter.Hexkit{}).Open(letters[0]); failure.Topic != inputTopic ||
		failure.Service != groupID || len(missing) > 0 {
		t.Errorf("the dead letter says it comes from %s, service %s, and lacks %v", failure.Topic, failure.Service, missing)
	}
}
