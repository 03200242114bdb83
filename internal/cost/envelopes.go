package main

// Section 7 measures the cost of encoding and decoding a dead letter, in each dialect.

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
)

// envelopeGoal applies to the dialects that write headers and leave the value unchanged. Those that encode the whole
// record again do more work.
const envelopeGoal = "≥ 1 M/s"

func measureEnvelopes(ctx context.Context, _ options) (section, error) {
	const letters, rounds = 100_000, 5
	// The figure is per core, so no other core may do part of the work.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	record, failure := ordinaryRecord()
	found := section{
		Title: "Envelopes: sealing and opening a dead letter, on one core",
		How: []string{
			fmt.Sprintf("%d rounds in turns, %d dead letters of 256 bytes with three headers, without a stack trace; dead "+
				"letters per second of processor time.", rounds, letters),
		},
	}
	for _, name := range deadletter.Names() {
		if err := ctx.Err(); err != nil {
			return found, err
		}
		dialect, err := deadletter.Named(name)
		if err != nil {
			return found, err
		}
		letter := dialect.Seal(record, failure)
		all, err := inTurns(rounds, []func() (sample, error){
			func() (sample, error) { return repeated(letters, func() { dialect.Seal(record, failure) }) },
			func() (sample, error) { return repeated(letters, func() { dialect.Open(letter) }) },
		})
		if err != nil {
			return found, err
		}
		for i, doing := range []string{"sealing, ", "opening, "} {
			one := summary(doing+name, "letters/s", each(all[i], sample.cpuPerSecond))
			if bytes.Equal(letter.Value, record.Value) {
				one.Goal = envelopeGoal
			}
			found.Rows = append(found.Rows, one)
		}
	}
	return found, nil
}

func repeated(count int, do func()) (sample, error) {
	return take(count, func() error {
		for range count {
			do()
		}
		return nil
	})
}

// ordinaryRecord returns a record with three headers of its own, and the reason why it was dead-lettered.
func ordinaryRecord() (*kgo.Record, deadletter.Failure) {
	header := func(key, value string) kgo.RecordHeader { return kgo.RecordHeader{Key: key, Value: []byte(value)} }
	return &kgo.Record{Key: []byte("key-17"), Value: make([]byte, 256), Headers: []kgo.RecordHeader{
			header("dlqbench-id", "DLQB0123456789ABCDEFGHJK"), header("trace-1", "span-1-2654435761"),
			header("trace-2", "span-2-2654435761"),
		}}, deadletter.Failure{
			Topic: "orders", Partition: 3, Offset: 42, Epoch: 1, Attempts: 3,
			Reason: "answered 503: the stock service is not available", Class: "StockUnavailable",
			Service: "orders-service", Group: "orders", Time: time.Date(2026, 2, 11, 12, 0, 0, 0, time.UTC),
		}
}
