package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/tap"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/scenarios"
)

// outputRig is an output topic at a tap before a Kafka, with the client of instance 0.
type outputRig struct {
	*testing.T
	output *outputTopic
	ids    *history.IDs
	client *kgo.Client

	mu     sync.Mutex
	events []history.Event
}

func (r *outputRig) Record(e history.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

type ruled func(*tap.Exchange) tap.Action

func (f ruled) Intercept(x *tap.Exchange) tap.Action { return f(x) }

// newOutputRig returns a rig in which the records have these plans and rules decide about faults.
func newOutputRig(t *testing.T, rules ruled, records ...plan.Record) *outputRig {
	t.Helper()
	return newOutputRigOf(t, rules, records)
}

// newOutputRigOf is newOutputRig with further options of the client.
func newOutputRigOf(t *testing.T, rules ruled, records []plan.Record, options ...kgo.Opt) *outputRig {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "r.results"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	r := &outputRig{T: t, ids: history.NewIDs("r")}
	var ops atomic.Int64
	header := &history.Header{RunID: "r", Topics: []history.Topic{{Name: "r.results", Role: history.RoleSink,
		Partitions: 1}}}
	clock := history.NewClock()
	r.output = newOutputTopic(workload.AttemptsConfig{Plan: &plan.Plan{Records: records}, IDs: r.ids, Instances: 1,
		Ops:   &ops,
		Clock: clock, Sink: r}, header, "r.results", (&scenarios.KafkaDownstream{}).Codes())
	r.output.rules, r.output.next = rules, r
	proxy := tap.New(tap.Config{Clock: clock, Sink: r.output, NextOp: func() int64 { return ops.Add(1) }, IDs: r.ids,
		Topics:      header.Topics,
		Upstreams:   []tap.Upstream{{NodeID: 0, Dial: network.Upstream{Address: cluster.ListenAddrs()[0]}.Connect}},
		Log:         zerolog.Nop(),
		Interceptor: r.output})
	address, err := proxy.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	if r.client, err = kgo.NewClient(append(options, kgo.SeedBrokers(address), kgo.ProducerLinger(100*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }))...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.client.Close()
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// write writes the results of the records in one batch, and returns the first error.
func (r *outputRig) write(records ...int32) error {
	ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
	defer cancel()
	var all []*kgo.Record
	for _, number := range records {
		all = append(all, &kgo.Record{Topic: "r.results", Value: []byte("result of " + r.ids.Token(number))})
	}
	return r.client.ProduceSync(ctx, all...).FirstErr()
}

// ended returns the outcomes of the record's attempts, and checks that each began before.
func (r *outputRig) ended(record int32) (outcomes []history.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	begun := map[int64]bool{}
	for _, e := range r.events {
		switch {
		case e.Record != record:
		case e.Kind == history.KindAttemptStart:
			begun[e.Op] = true
			if e.Text != "Produce results" || e.Instance != 0 {
				r.Errorf("an attempt starts with %+v", e)
			}
		case e.Kind == history.KindAttemptEnd:
			if !begun[e.Op] || int(e.N) != len(outcomes)+1 {
				r.Errorf("attempt %d ends: %+v", len(outcomes)+1, e)
			}
			outcomes = append(outcomes, e.Outcome)
		}
	}
	return outcomes
}

func (r *outputRig) expect(record int32, want ...history.Outcome) {
	r.Helper()
	if got := r.ended(record); !slices.Equal(got, want) {
		r.Errorf("record %d: outcomes %v, want %v", record, got, want)
	}
}

func passes(*tap.Exchange) tap.Action { return tap.Action{} }

// Each write is an attempt, with the planned outcome and the error that the subject file names for it.
func TestWritesAreAttempts(t *testing.T) {
	r := newOutputRig(t, passes, plan.Record{Outcome: history.OutcomeSuccess},
		plan.Record{Outcome: history.OutcomeTransient, Failures: 1}, plan.Record{Outcome: history.OutcomePermanent},
		plan.Record{Outcome: history.OutcomeLogical})
	for _, one := range []struct {
		record int32
		want   error
	}{{0, nil}, {1, kerr.UnknownServerError}, {1, nil}, {2, kerr.InvalidRecord}, {3, kerr.PolicyViolation}} {
		if err := r.write(one.record); !errors.Is(err, one.want) {
			t.Errorf("record %d: %v, want %v", one.record, err, one.want)
		}
	}
	r.expect(0, history.OutcomeSuccess)
	r.expect(1, history.OutcomeTransient, history.OutcomeSuccess)
	r.expect(2, history.OutcomePermanent)
	r.expect(3, history.OutcomeLogical)
	if open := r.output.InFlight(); open != 0 {
		t.Errorf("%d writes are open", open)
	}
}

// Attempts in a transaction say in which, as their success counts when it is committed.
func TestAttemptsSayTheirTransaction(t *testing.T) {
	r := newOutputRigOf(t, passes, []plan.Record{{Outcome: history.OutcomeSuccess}}, kgo.TransactionalID("t"))
	if err := r.client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := r.write(0); err != nil {
		t.Fatal(err)
	}
	if err := r.client.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	producers := map[history.Kind]int64{}
	for _, e := range r.events {
		if e.Record == 0 && e.Flags.Has(history.InTransaction) {
			producers[e.Kind] = e.ProducerID
		}
	}
	wrote, written := producers[history.KindProduceRequest]
	attempted, joined := producers[history.KindAttemptStart]
	if !written || !joined || attempted != wrote {
		t.Errorf("in a transaction: %v", producers)
	}
}

// A result of a value that can't be read has no id. It is an attempt at a record that is not known.
func TestAWriteWithoutAnIDIsAnAttemptAtSomeRecord(t *testing.T) {
	r := newOutputRig(t, passes, plan.Record{Outcome: history.OutcomeSuccess})
	if err := r.client.ProduceSync(t.Context(),
		&kgo.Record{Topic: "r.results", Value: []byte("{")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var told []string
	for _, e := range r.events {
		if e.Kind == history.KindAttemptStart || e.Kind == history.KindAttemptEnd {
			told = append(told, fmt.Sprintf("instance %d record %d %s", e.Instance, e.Record, e.Outcome))
		}
	}
	want := []string{"instance 0 record -1 ", "instance 0 record -1 unknown-id"}
	if why, _ := r.output.Strays(); !slices.Equal(told, want) || why == "" || r.output.Attempts.InFlight() != 0 {
		t.Errorf("attempts %q, want %q; %q", told, want, why)
	}
}

// An attempt that is to fail takes its batch along. What is planned for the others is still to come.
func TestABatchFailsAsAWhole(t *testing.T) {
	r := newOutputRig(t, passes, plan.Record{Outcome: history.OutcomeSuccess},
		plan.Record{Outcome: history.OutcomePermanent}, plan.Record{Outcome: history.OutcomeTransient, Failures: 1})
	if err := r.write(0, 1, 2); !errors.Is(err, kerr.InvalidRecord) {
		t.Errorf("the batch is answered %v", err)
	}
	if err := r.write(0, 2); !errors.Is(err, kerr.UnknownServerError) {
		t.Errorf("the next batch is answered %v", err)
	}
	if err := r.write(0, 2); err != nil {
		t.Errorf("the last batch is answered %v", err)
	}
	r.expect(0, history.OutcomePermanent, history.OutcomeTransient, history.OutcomeSuccess)
	r.expect(1, history.OutcomePermanent)
	r.expect(2, history.OutcomePermanent, history.OutcomeTransient, history.OutcomeSuccess)
}

// A write that the client repeats by itself, after an error that may pass or without an answer, is one attempt.
func TestRepeatsOfTheClientAreOneAttempt(t *testing.T) {
	var writes atomic.Int32
	healed := make(chan struct{})
	r := newOutputRig(t, func(x *tap.Exchange) tap.Action {
		if x.APIKey != 0 {
			return tap.Action{}
		}
		switch writes.Add(1) {
		case 1, 2:
			return tap.Action{Code: kerr.NotLeaderForPartition.Code}
		case 3:
			return tap.Action{Close: true, Healed: healed}
		}
		return tap.Action{}
	}, plan.Record{Outcome: history.OutcomeSuccess})
	defer close(healed)
	if err := r.write(0); err != nil {
		t.Fatal(err)
	}
	if n := writes.Load(); n != 4 {
		t.Errorf("%d requests", n)
	}
	r.expect(0, history.OutcomeSuccess)
}

// An error that is not planned, and that no client retries, ends the attempt, and its outcome is not known. The end of
// a process ends what it left open.
func TestAttemptsWithoutAKnownOutcome(t *testing.T) {
	r := newOutputRig(t, func(x *tap.Exchange) tap.Action {
		if x.APIKey != 0 {
			return tap.Action{}
		}
		return tap.Action{Code: kerr.TopicAuthorizationFailed.Code}
	}, plan.Record{Outcome: history.OutcomeSuccess}, plan.Record{Outcome: history.OutcomeSuccess})
	if err := r.write(0); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("answered %v", err)
	}
	r.expect(0, history.OutcomeTimeout)
	write := history.New(history.KindProduceRequest, 0)
	write.Instance, write.Record, write.Op = 0, 1, 1<<20
	r.output.mu.Lock()
	r.output.begin([]history.Event{write})
	r.output.mu.Unlock()
	if r.output.InFlight() != 1 {
		t.Error("an open write is not in flight")
	}
	r.output.SetRun(0, 1)
	r.expect(1, history.OutcomeTimeout)
	if last := r.events[len(r.events)-1]; !last.Flags.Has(history.ClientGone) || r.output.InFlight() != 0 {
		t.Errorf("the end of the process gives %+v", last)
	}
}

// Two output topics of one subject share the tap: the writes to one are attempts, and those to the other are calls that
// succeed whatever is planned, unless a fault refuses them.
func TestAnOutputTopicThatDoesNotDecide(t *testing.T) {
	r := newOutputRig(t, passes, plan.Record{Outcome: history.OutcomePermanent})
	header := &history.Header{RunID: "r", Topics: []history.Topic{{Name: "r.results", Role: history.RoleSink,
		Partitions: 1}}}
	config := workload.AttemptsConfig{Plan: &plan.Plan{Records: []plan.Record{{Outcome: history.OutcomePermanent}}},
		IDs: r.ids, Instances: 1, Ops: &atomic.Int64{}, Clock: history.NewClock(), Sink: r, Other: 1}
	other := newOutputTopic(config, header, "r.results", (&scenarios.KafkaDownstream{}).Codes())
	other.rules, other.next = ruled(passes), r
	r.output.rules, r.output.next, r.output.topic = other, other, 7
	if err := r.write(0); err != nil {
		t.Fatal(err)
	}
	end := other.Answer(func(int32, int32) (history.Outcome, time.Duration) { return history.OutcomeTransient, 0 })
	if err := r.write(0); !errors.Is(err, kerr.UnknownServerError) {
		t.Errorf("answered %v", err)
	}
	end()
	r.mu.Lock()
	defer r.mu.Unlock()
	var told []string
	for _, e := range r.events {
		if e.Kind == history.KindCallEnd {
			told = append(told, fmt.Sprintf("%d %s %s", e.N, e.Outcome, e.Flags))
		}
	}
	if want := []string{"1 success ", "1 transient forged"}; !slices.Equal(told, want) || r.output.InFlight() != 0 {
		t.Errorf("calls %q, want %q", told, want)
	}
}
