package run

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/cluster/embedded"
)

// The audit sees committed records, also behind an open transaction, but no records of aborted or open transactions.
// A topic whose last offset is a marker can be read to its end.
func TestReadTopicSeesWhatWasCommitted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	kafka, err := embedded.Start(ctx, embedded.Options{Brokers: 1, Dir: t.TempDir(), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer kafka.Close()
	if err := kafka.CreateTopics(ctx, []cluster.Topic{{Name: "dlq", Partitions: 2}}); err != nil {
		t.Fatal(err)
	}
	client := func(options ...kgo.Opt) *kgo.Client {
		client, err := kgo.NewClient(append(options, kgo.SeedBrokers(kafka.Bootstrap()...), kgo.DefaultProduceTopic("dlq"),
			kgo.MetadataMinAge(50*time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.CloseAllowingRebalance)
		return client
	}
	write := func(client *kgo.Client, partition int32, value string) {
		if err := client.ProduceSync(ctx, &kgo.Record{Partition: partition, Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	plain, hanging, ending := client(), client(kgo.TransactionalID("hanging")), client(kgo.TransactionalID("ending"))
	transaction := func(end kgo.TransactionEndTry, value string) {
		if err := ending.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		write(ending, 0, value)
		write(ending, 1, value)
		if err := ending.EndTransaction(ctx, end); err != nil {
			t.Fatal(err)
		}
	}
	write(plain, 0, "before")
	if err := hanging.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	write(hanging, 0, "open")
	transaction(kgo.TryCommit, "committed")
	write(plain, 0, "after")
	transaction(kgo.TryAbort, "aborted")

	r := &run{clock: history.NewClock(), stage: stage{cluster: &provided{kafka: kafka, client: kafka.ClientOptions()},
		admin: kadm.NewClient(client())}}
	var got []string
	if err := r.readTopic(ctx, "dlq", func(record *kgo.Record) {
		got = append(got, fmt.Sprintf("%d %s", record.Partition, record.Value))
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if want := []string{"0 after", "0 before", "0 committed", "1 committed"}; !slices.Equal(got, want) {
		t.Errorf("the audit saw %q, want %q", got, want)
	}
}

// TestLeft checks whether left recognises a topic that is committed to its end.
func TestLeft(t *testing.T) {
	end := func(offset int64) kadm.ListedOffset { return kadm.ListedOffset{Offset: offset} }
	at := func(offset int64) kadm.OffsetResponse { return kadm.OffsetResponse{Offset: kadm.Offset{At: offset}} }
	type ends = map[int32]kadm.ListedOffset
	type offsets = map[int32]kadm.OffsetResponse
	for _, test := range []struct {
		name        string
		ends        ends
		offsets     offsets
		open, begun bool
	}{
		{"empty", ends{0: end(0), 1: end(0)}, nil, false, false},
		{"done", ends{0: end(5), 1: end(0)}, offsets{0: at(5)}, false, true},
		{"one short", ends{0: end(5), 1: end(3)}, offsets{0: at(5), 1: at(2)}, true, true},
		{"one partition without an offset", ends{0: end(5), 1: end(3)}, offsets{0: at(5)}, true, true},
		{"nothing committed", ends{0: end(5)}, nil, true, false},
		{"no offset", ends{0: end(5)}, offsets{0: at(-1)}, true, false},
		{"an end that can't be told", ends{0: {Err: context.Canceled}}, offsets{0: at(5)}, true, true},
	} {
		if open, begun := left(test.ends, test.offsets); open != test.open || begun != test.begun {
			t.Errorf("%s: open %v, begun %v", test.name, open, begun)
		}
	}
}
