package deadletter

import (
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// ordinary returns a typical record, with three headers of its own, and its failure without a stack trace.
func ordinary() (*kgo.Record, Failure) {
	f := told()
	f.Stack = ""
	return &kgo.Record{Key: []byte("key-17"), Value: make([]byte, 256), Headers: []kgo.RecordHeader{
		header("dlqbench-id", "DLQB0123456789ABCDEFGHJK"), header("trace-1", "span-1-2654435761"),
		header("trace-2", "span-2-2654435761"),
	}}, f
}

// perCPU reports the number of dead letters per second of CPU time, which does not depend on other load on the
// machine.
func perCPU(b *testing.B, do func()) {
	b.Helper()
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		do()
	}
	b.ReportMetric(float64(b.N)/(cpuTime(b)-before).Seconds(), "letters/cpu-s")
}

// cpuTime returns the CPU time used by the process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func BenchmarkSeal(b *testing.B) {
	record, failure := ordinary()
	for _, one := range dialects() {
		b.Run(one.name, func(b *testing.B) {
			perCPU(b, func() { one.dialect.Seal(record, failure) })
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	record, failure := ordinary()
	for _, one := range dialects() {
		b.Run(one.name, func(b *testing.B) {
			letter := one.dialect.Seal(record, failure)
			perCPU(b, func() { one.dialect.Open(letter) })
		})
	}
}
