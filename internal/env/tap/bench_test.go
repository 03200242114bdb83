package tap

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
)

// counter is a sink that keeps nothing.
type counter struct{ n atomic.Int64 }

func (c *counter) Record(history.Event) { c.n.Add(1) }

func quiet(config *Config) { config.Sink, config.Log = &counter{}, zerolog.Nop() }

// ways runs the benchmark both directly against a cluster and through a tap, for comparison.
func ways(b *testing.B, run func(b *testing.B, bootstrap string), options ...kfake.Opt) {
	c, r := cluster(b, 1, quiet, options...)
	through := r.open(b, 0)
	b.Run("direct", func(b *testing.B) { run(b, strings.Join(c.ListenAddrs(), ",")) })
	b.Run("tap", func(b *testing.B) { run(b, through) })
}

// BenchmarkConsume measures consuming; one operation is one record of 256 bytes.
func BenchmarkConsume(b *testing.B) {
	ways(b, func(b *testing.B, bootstrap string) {
		cl := client(b, bootstrap, kgo.ConsumePartitions(consumeFrom("t.input", 6, 0)))
		b.ResetTimer()
		for n := 0; n < b.N; {
			n += cl.PollFetches(context.Background()).NumRecords()
		}
		b.StopTimer()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		cl.Close()
	}, kfake.SyntheticFetch(kfake.SyntheticBatch{Records: 200, RecordBytes: 256}))
}

// BenchmarkProduce measures producing; one operation is one record of 256 bytes, to a topic that is recorded (dlq)
// or to one that is not (input).
func BenchmarkProduce(b *testing.B) {
	for _, topic := range []string{"t.input", "t.dlq"} {
		b.Run(topic, func(b *testing.B) {
			ways(b, func(b *testing.B, bootstrap string) {
				cl := client(b, bootstrap)
				value := bytes.Repeat([]byte("v"), 256)
				b.ResetTimer()
				for range b.N {
					cl.Produce(context.Background(), &kgo.Record{Topic: topic, Value: value}, nil)
				}
				if err := cl.Flush(context.Background()); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
				cl.Close()
			}, kfake.BlackholeProduce())
		})
	}
}

// BenchmarkRoundTrip measures round trips. One operation is a request and its response on one connection, waiting
// for nothing but the tap.
func BenchmarkRoundTrip(b *testing.B) {
	dead, done := produce(9, -1, map[string][]string{"t.dlq": {strings.Repeat("v", 256)}}), commit(8, 5)
	list := kmsg.NewPtrListOffsetsRequest()
	for name, frames := range map[string][2][]byte{
		"passed on":    {requestFrame(1, list), responseFrame(1, list.ResponseKind())},
		"OffsetCommit": {requestFrame(1, done), responseFrame(1, committedAnswer(done, 0))},
		"Produce":      {requestFrame(1, dead), responseFrame(1, acknowledge(dead, 5))},
	} {
		b.Run(name, func(b *testing.B) {
			_, subject, kafka := pair(b, quiet)
			buffer := make([]byte, 1<<16)
			b.ReportAllocs()
			for b.Loop() {
				exchange(b, subject, kafka, frames[0], buffer)
				exchange(b, kafka, subject, frames[1], buffer)
			}
		})
	}
	b.Run("no tap", func(b *testing.B) {
		kafka := newBroker(b)
		subject := dial(b, kafka.listener.Addr().String())
		other := kafka.next()
		request, response := requestFrame(1, list), responseFrame(1, list.ResponseKind())
		buffer := make([]byte, 1<<16)
		for b.Loop() {
			exchange(b, subject, other, request, buffer)
			exchange(b, other, subject, response, buffer)
		}
	})
}

// exchange sends a frame from one end and reads it at the other.
func exchange(b *testing.B, from, to *peer, frame, buffer []byte) {
	if _, err := from.Write(frame); err != nil {
		b.Fatal(err)
	}
	for n := 0; n < len(frame); {
		got, err := to.Read(buffer)
		if err != nil {
			b.Fatal(err)
		}
		n += got
	}
}
