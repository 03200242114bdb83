package workload

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/testkit/kafkatest"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// marking writes markers to two topics of a broker that refuses the first few. asked counts its requests, refused ones
// included; end stops the writing and returns its error.
func marking(t *testing.T, refuses int64) (client *kgo.Client, asked *atomic.Int64, end func() error) {
	t.Helper()
	broker, client := kafkatest.Start(t, &kafkatest.Log{}, 2, []string{"a", "b"})
	asked = &atomic.Int64{}
	broker.ControlKey(int16(kmsg.EndTxn), func(request kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		answer := request.ResponseKind().(*kmsg.EndTxnResponse)
		answer.ErrorCode = kerr.InvalidTxnState.Code
		return answer, nil, asked.Add(1) <= refuses
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Markers{Client: []kgo.Opt{kgo.SeedBrokers(broker.ListenAddrs()...)}, ID: "markers",
			Topics: map[string]int{"a": 2, "b": 2}, Every: 10 * time.Millisecond}.Run(ctx)
	}()
	return client, asked, func() error { cancel(); return <-ended }
}

// Markers take offsets of each partition, and no consumer receives a record there.
func TestMarkersTakeOffsets(t *testing.T) {
	client, _, end := marking(t, 0)
	admin := kadm.NewClient(client)
	wait.Until(t, "each partition has three markers", func() bool {
		ends, err := admin.ListEndOffsets(t.Context(), "a", "b")
		if err != nil {
			t.Fatal(err)
		}
		filled := 0
		ends.Each(func(o kadm.ListedOffset) {
			if o.Offset >= 3 {
				filled++
			}
		})
		return filled == 4
	})
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "a", Value: []byte("a record")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	start := kgo.NewOffset().AtStart()
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{"a": {0: start, 1: start}})
	if given := client.PollFetches(t.Context()).Records(); len(given) != 1 || given[0].Offset < 3 {
		t.Errorf("a reader is given %v", given)
	}
}

// A broker that refuses some of them is none of the run's concern. Without any, the load is not as planned.
func TestMarkersThatAreRefused(t *testing.T) {
	_, asked, end := marking(t, 3)
	wait.Until(t, "one was accepted", func() bool { return asked.Load() > 4 })
	if err := end(); err != nil {
		t.Error(err)
	}
	_, asked, end = marking(t, 1<<40)
	wait.Until(t, "some were refused", func() bool { return asked.Load() > 3 })
	const want = "no transaction marker could be written (transaction_markers; with ACLs, it takes Write and Describe on " +
		"the transactional id markers): committing a transaction: INVALID_TXN_STATE: The producer attempted a " +
		"transactional operation in an invalid state."
	if err := end(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
