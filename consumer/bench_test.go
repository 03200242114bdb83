package consumer

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/valyala/fasthttp"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// BenchmarkConsume measures records per second from a full topic, with a handler that does nothing and with one that
// makes an HTTP call.
func BenchmarkConsume(b *testing.B) {
	for _, kind := range []string{"nothing", "http"} {
		b.Run(kind, func(b *testing.B) { benchmark(b, kind) })
	}
}

func benchmark(b *testing.B, kind string) {
	cluster := kfake.MustCluster(kfake.NumBrokers(1), kfake.SeedTopics(6, inputTopic, dlqTopic))
	defer cluster.Close()
	fill(b, cluster.ListenAddrs(), b.N)
	var done atomic.Int64
	all := make(chan struct{})
	count := func() {
		if done.Add(1) == int64(b.N) {
			close(all)
		}
	}
	handler := Handler(func(context.Context, *kgo.Record) error { count(); return nil })
	if kind == "http" {
		server := &fasthttp.Server{NoDefaultDate: true, Handler: func(*fasthttp.RequestCtx) { count() }}
		ln := mustListen(b)
		go func() { _ = server.Serve(ln) }()
		defer func() { _ = server.Shutdown() }()
		var err error
		if handler, err = HTTPHandler("http://" + ln.Addr().String()); err != nil {
			b.Fatal(err)
		}
	}
	settings := DefaultSettings()
	consumer := must.Get(New(Config{
		Bootstrap: cluster.ListenAddrs(), Topic: inputTopic, DLQTopic: dlqTopic, Group: groupID, Settings: settings,
		Handler: handler, Logger: zerolog.Nop(),
	}, DefaultParts(settings)))(b)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	start := time.Now()
	go func() { ended <- consumer.Run(ctx) }()
	b.ResetTimer()
	<-all
	b.StopTimer()
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "records/s")
	cancel()
	<-ended
}

func fill(b *testing.B, brokers []string, n int) {
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner())))(b)
	defer client.Close()
	value := make([]byte, 256)
	for i := range n {
		client.Produce(context.Background(), &kgo.Record{Topic: inputTopic, Partition: int32(i % 6),
			Key: fmt.Appendf(nil, "k%d", i%1000), Value: value}, nil)
	}
	must.Do(b, client.Flush(context.Background()))
}
