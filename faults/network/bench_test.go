package network

import (
	"io"
	"net"
	"testing"
	"time"
)

// The cost of a link without faults, as a ratio to a direct connection. Both are measured in turns, so that noise of
// the machine affects them equally.

func BenchmarkIdleRoundTrip(b *testing.B) {
	upstream := echoServer(b)
	direct, linked := connect(b, upstream), connect(b, newTestLink(b, upstream).Address())
	message := make([]byte, 200)
	roundTrip := func(conn net.Conn) time.Duration {
		start := time.Now()
		if _, err := conn.Write(message); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(conn, message); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	var took [2]time.Duration
	for b.Loop() {
		took[0] += roundTrip(direct)
		took[1] += roundTrip(linked)
	}
	b.ReportMetric(float64(took[0].Nanoseconds())/float64(b.N), "direct-ns")
	b.ReportMetric(float64(took[1].Nanoseconds())/float64(b.N), "linked-ns")
	b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "ratio")
}

func BenchmarkIdleThroughput(b *testing.B) {
	upstream := serve(b, func(conn net.Conn) {
		for chunk := make([]byte, 1<<20); ; {
			if _, err := conn.Write(chunk); err != nil {
				return
			}
		}
	})
	direct, linked := connect(b, upstream), connect(b, newTestLink(b, upstream).Address())
	chunk := make([]byte, 8<<20)
	read := func(conn net.Conn) time.Duration {
		start := time.Now()
		if _, err := io.ReadFull(conn, chunk); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	var took [2]time.Duration
	for b.Loop() {
		took[0] += read(direct)
		took[1] += read(linked)
	}
	b.ReportMetric(float64(b.N*len(chunk))/1e6/took[0].Seconds(), "direct-MB/s")
	b.ReportMetric(float64(b.N*len(chunk))/1e6/took[1].Seconds(), "linked-MB/s")
	b.ReportMetric(took[0].Seconds()/took[1].Seconds(), "ratio")
}

func connect(b *testing.B, address string) net.Conn {
	b.Helper()
	conn, err := net.Dial("tcp4", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}
