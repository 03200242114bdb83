package main

// Section 2 measures how much throughput a consumer loses to the components between it and its broker and downstream.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/internal/plan"
)

func measureConsume(ctx context.Context, o options) (found section, err error) {
	const bareRecords, bareRounds, records, rounds = 1_000_000, 7, 40_000, 5
	r, err := newRig(ctx, o)
	if err != nil {
		return section{}, err
	}
	defer func() { err = firstOf(err, r.close()) }()
	if err := r.fill(ctx, bareRecords); err != nil {
		return section{}, fmt.Errorf("filling the topic: %w", err)
	}
	ways, err := r.ways()
	if err != nil {
		return section{}, err
	}
	var turns []func() (sample, error)
	for _, w := range ways {
		turns = append(turns, func() (sample, error) { return readAll(ctx, w, bareRecords) })
	}
	bare, err := inTurns(bareRounds, turns)
	if err != nil {
		return section{}, fmt.Errorf("consuming with franz-go: %w", err)
	}
	found = section{
		Title: "Consumer throughput through tap and link against straight",
		How: []string{
			fmt.Sprintf(
				"franz-go: %d rounds of the four ways, %d stored records of %d bytes, nothing done with them: the worst case.",
				bareRounds, bareRecords, valueSize),
			fmt.Sprintf(
				"Reference consumer: %d pairs, %d records, one HTTP call each; through tap and links as in a run.",
				rounds, records),
			"Client, broker and stub share this process and its processors with what is measured: at these rates time is " +
				"what all of them lack.",
		},
	}
	for i, w := range ways[1:] {
		found.Rows = append(found.Rows, ratios("franz-go through "+w.name, "", bare[i+1], bare[0], sample.perSecond, "/s"))
	}
	last := len(ways) - 1
	found.Rows[last-1].Goal = "≥ 0.90×"
	found.Rows = append(found.Rows, addedTime("franz-go, processor time added by tap and link", bare[last], bare[0]))
	pair, err := measureReference(ctx, o, records, rounds)
	if err != nil {
		return section{}, fmt.Errorf("consuming with the reference consumer: %w", err)
	}
	found.Rows = append(found.Rows,
		ratios("reference consumer through tap and links", "≥ 0.90×", pair[1], pair[0], sample.perSecond, "/s"),
		addedTime("reference consumer, processor time added", pair[1], pair[0]),
		ratios("reference consumer, the history recorded", "≥ 0.95×", pair[2], pair[1], sample.perSecond, "/s"))
	return found, nil
}

// addedTime is the additional processor time per record of one way over another.
func addedTime(name string, way, base []sample) row {
	var added []float64
	for i := range way {
		added = append(added, way[i].cpuMicros()-base[i].cpuMicros())
	}
	r := summary(name, "µs", added)
	r.Detail = fmt.Sprintf("per record; straight takes %.2f µs with the broker",
		summary("", "", each(base, sample.cpuMicros)).Value)
	return r
}

// readAll reads count records of the input topic from its start.
func readAll(ctx context.Context, w way, count int) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	from := map[int32]kgo.Offset{}
	for partition := range int32(partitions) {
		from[partition] = kgo.NewOffset().AtStart()
	}
	client, err := w.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{inputTopic: from}))
	if err != nil {
		return sample{}, err
	}
	defer client.Close()
	return take(count, func() error {
		for read := 0; read < count; {
			fetches := client.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				return err
			}
			read += fetches.NumRecords()
		}
		return nil
	})
}

// measureReference measures the reference consumer with a direct connection and, in turns with it, through tap and
// link, with a link before the downstream stub. The observations are only counted in one variant, and recorded in the
// other.
func measureReference(ctx context.Context, o options, count, rounds int) (measured [][]sample, err error) {
	r, err := newRig(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstOf(err, r.close()) }()
	// The topic has more records than are measured, because at the end of a topic a consumer waits for records instead
	// of working.
	stored := count + count/4
	if err := r.fill(ctx, stored); err != nil {
		return nil, fmt.Errorf("filling the topic: %w", err)
	}
	stub, err := workload.NewStub(workload.StubConfig{
		AttemptsConfig: workload.AttemptsConfig{
			Plan: allSucceed(stored), IDs: r.ids, Instances: 1, Ops: &r.ops, Clock: r.clock, Sink: r.sink,
		},
		Topics: topics(),
	})
	if err != nil {
		return nil, err
	}
	defer stub.Close()
	ways, err := r.ways()
	if err != nil {
		return nil, err
	}
	downstream, err := r.link(stub.Addr(0))
	if err != nil {
		return nil, err
	}
	groups := 0
	turn := func(kafka, downstream string) func() (sample, error) {
		return func() (sample, error) {
			groups++
			return processAll(ctx, kafka, "http://"+downstream, fmt.Sprintf("bench-%d", groups), count)
		}
	}
	through := turn(ways[len(ways)-1].address, downstream)
	return inTurns(rounds, []func() (sample, error){
		turn(ways[0].address, stub.Addr(0)), through, func() (sample, error) { return r.recorded(through) },
	})
}

// recorded measures while the history is written to disk.
func (r *rig) recorded(measure func() (sample, error)) (sample, error) {
	dir, err := os.MkdirTemp(r.dir, "history-")
	if err != nil {
		return sample{}, err
	}
	recorder, err := history.NewRecorder(filepath.Join(dir, "history"), story{}.Header(), r.clock)
	if err != nil {
		return sample{}, err
	}
	r.sink.keep.Store(recorder)
	one, err := measure()
	r.sink.keep.Store(nil)
	return one, errors.Join(err, recorder.Close(), os.RemoveAll(dir))
}

func allSucceed(count int) *plan.Plan {
	p := &plan.Plan{Records: make([]plan.Record, count)}
	for i := range p.Records {
		p.Records[i].Outcome = history.OutcomeSuccess
	}
	return p
}

// processAll runs the reference consumer, with a new group, until it has processed count records. The measurement
// begins with its first record, because the time for joining a group varies.
func processAll(ctx context.Context, kafka, downstream, group string, count int) (sample, error) {
	call, err := consumer.HTTPHandler(downstream)
	if err != nil {
		return sample{}, err
	}
	var done atomic.Int64
	first, last := make(chan struct{}), make(chan struct{})
	settings := consumer.DefaultSettings()
	consuming, err := consumer.New(consumer.Config{
		Bootstrap: []string{kafka}, Topic: inputTopic, DLQTopic: dlqTopic, Group: group, ClientID: "bench",
		Settings: settings, Logger: zerolog.Nop(), Handler: func(ctx context.Context, record *kgo.Record) error {
			err := call(ctx, record)
			switch n := done.Add(1); {
			case n == 1:
				close(first)
			case n == int64(count):
				close(last)
			}
			return err
		},
	}, consumer.DefaultParts(settings))
	if err != nil {
		return sample{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- consuming.Run(running) }()
	err = await(ctx, first)
	var one sample
	if err == nil {
		one, err = take(count, func() error { return await(ctx, last) })
	}
	stop()
	return one, errors.Join(err, <-ended)
}

func await(ctx context.Context, signal <-chan struct{}) error {
	select {
	case <-signal:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the consumer: %w", ctx.Err())
	}
}
