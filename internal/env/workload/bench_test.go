package workload

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
)

// BenchmarkStub measures one attempt as a subject makes it, including the client. The client sends raw bytes on a
// connection, so most of the cost is the downstream stub and the kernel.
func BenchmarkStub(b *testing.B) {
	ids := history.NewIDs("run")
	stub, err := NewStub(StubConfig{
		AttemptsConfig: AttemptsConfig{
			Plan: &plan.Plan{Records: make([]plan.Record, 1)}, IDs: ids, Instances: 1, Ops: &atomic.Int64{},
			Clock: history.NewClock(), Sink: discard{},
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer stub.Close()
	body := newBuilder(ids, 1, "t", 0).build(0, &plan.Record{Size: 256}, time.Now()).Value
	request := fmt.Appendf(nil,
		"POST /v1/attempt HTTP/1.1\r\nHost: stub\r\nUser-Agent: bench\r\nContent-Type: application/json\r\n"+
			"X-Kafka-Topic: orders\r\nX-Kafka-Partition: 3\r\nX-Kafka-Offset: 12345\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body)
	post(b, stub.Addr(0), request)
}

// post sends the request repeatedly on 16 connections.
func post(b *testing.B, addr string, request []byte) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var clients sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	before := processorTime(b)
	for range 16 {
		clients.Go(func() {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			for answer := make([]byte, 4096); left.Add(-1) >= 0; {
				if _, err := conn.Write(request); err != nil {
					b.Error(err)
					return
				}
				if n, err := conn.Read(answer); err != nil || !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 200")) {
					b.Errorf("answered %q, %v", answer[:n], err)
					return
				}
			}
		})
	}
	clients.Wait()
	b.StopTimer()
	b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
}

// processorTime is the processor time that this process has used. On a busy machine it says more than the time of day.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// slips keeps the schedule slip of every record sent.
type slips struct {
	mu        sync.Mutex
	histogram *hdrhistogram.Histogram
}

func (s *slips) Record(event history.Event) {
	if event.Kind != history.KindSend {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.histogram.RecordValue(int64(event.Time) - event.Aux)
}

// BenchmarkSlip sends 20,000 records/s for two seconds to a broker in the same process and reports the schedule slip.
func BenchmarkSlip(b *testing.B) {
	cluster := startKafka(b)
	for b.Loop() {
		sink, clock := &slips{histogram: hdrhistogram.New(1, int64(time.Minute), 3)}, history.NewClock()
		producer := newTestProducer(b, cluster.ListenAddrs(), evenPlan(40_000, 50*time.Microsecond), sink, clock)
		if err := producer.Run(b.Context(), clock.Now()); err != nil {
			b.Fatal(err)
		}
		if err := producer.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
		for _, q := range []float64{50, 99, 99.9} {
			b.ReportMetric(float64(sink.histogram.ValueAtQuantile(q))/1e6, fmt.Sprintf("ms-slip-p%v", q))
		}
		_, _, _, late := producer.Counts()
		b.ReportMetric(float64(late), "late")
	}
}
