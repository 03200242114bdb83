package cost

import (
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
)

// BenchmarkEnvelope measures encoding and decoding a dead letter of 256 bytes with three headers, in each dialect, on
// one core.
func BenchmarkEnvelope(b *testing.B) {
	const letters = 100_000
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	record, failure := ordinaryRecord()
	for _, name := range deadletter.Names() {
		dialect := must(deadletter.Named(name))(b)
		letter := dialect.Seal(record, failure)
		for _, way := range []struct {
			name string
			do   func()
		}{
			{"encode", func() { dialect.Seal(record, failure) }},
			{"decode", func() { dialect.Open(letter) }},
		} {
			b.Run("dialect="+name+"/do="+way.name, func(b *testing.B) {
				var m meter
				for b.Loop() {
					m.take(b, letters, func() error {
						for range letters {
							way.do()
						}
						return nil
					})
				}
				m.reportPerCore(b, "dead-letter")
			})
		}
	}
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
