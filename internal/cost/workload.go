package main

// Section 1 compares the workload's producer with the client that it uses, both at maximum speed.

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/cluster/install"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/internal/plan"
)

func measureWorkload(ctx context.Context, o options) (section, error) {
	const records = 250_000
	rounds := 9
	if o.real {
		rounds = 5 // a real broker takes seconds to start
	}
	// Each turn has a broker of its own, because earlier records in the topics would distort the result.
	onRig := func(produce func(context.Context, *rig, int) (sample, error)) func() (sample, error) {
		return func() (one sample, err error) {
			r, err := newRig(ctx, o)
			if err != nil {
				return sample{}, err
			}
			defer func() { err = firstOf(err, r.close()) }()
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			return produce(ctx, r, records)
		}
	}
	producers := []func() (sample, error){onRig(produceBare), onRig(produceWorkload)}
	compared := o.real && hasTool()
	if compared {
		producers = append(producers, onRig(produceTool))
	}
	all, err := inTurns(rounds, producers)
	if err != nil {
		return section{}, fmt.Errorf("producing: %w", err)
	}
	bare, ours := all[0], all[1]
	var added []float64
	for i := range ours {
		added = append(added, ours[i].cpuMicros()-bare[i].cpuMicros())
	}
	extra := summary("processor time added per record", "µs", added)
	extra.Detail = fmt.Sprintf("%.1f %% of one core at 20,000 records/s", extra.Value*20_000/1e6*100)
	found := section{
		Title: "Workload producer against bare franz-go on the same broker",
		How: []string{
			fmt.Sprintf(
				"%d pairs, %d records of %d bytes each time, all due at once; acks=all, idempotent, the same client options.",
				rounds, records, valueSize),
			"Bare sends ready-made records; the workload builds, hashes, stamps and notes each one and each acknowledgement.",
		},
		Rows: []row{
			ratios("throughput", "≥ 0.90×", ours, bare, sample.perSecond, "/s"),
			ratios("records per second of processor time", "≥ 0.90×", ours, bare, sample.cpuPerSecond, "/s"),
			extra,
		},
	}
	if compared {
		found.How = append(found.How,
			"kafka-producer-perf-test at the same settings: its own figure, without the start of its JVM.")
		found.Rows = append(found.Rows, ratios("throughput against kafka-producer-perf-test", "≥ 1.00×", ours, all[2],
			sample.perSecond, "/s"))
	}
	return found, nil
}

// hasTool reports whether the selected Kafka includes kafka-producer-perf-test. An unpacked release does (KAFKA_HOME),
// the installation by dlqbench does not.
func hasTool() bool {
	installed, err := install.Open("")
	return err == nil && slices.ContainsFunc(installed.Jars, func(jar string) bool {
		return toolJar.MatchString(filepath.Base(jar))
	})
}

var toolJar = regexp.MustCompile(`^kafka-tools-\d.*\.jar$`)

// toolRate matches the overall rate in the output of kafka-producer-perf-test.
var toolRate = regexp.MustCompile(`records sent, ([0-9.]+) records/sec .* 50th`)

// produceTool makes Apache Kafka's own tool send the same number of records with the workload's settings.
func produceTool(ctx context.Context, r *rig, count int) (sample, error) {
	installed, err := install.Open("")
	if err != nil {
		return sample{}, err
	}
	java, err := install.FindJava(ctx, installed.Version.MinJava())
	if err != nil {
		return sample{}, err
	}
	said, err := exec.CommandContext(ctx, java.Command, "-Xmx384m", "-cp", installed.ClassPath(),
		"org.apache.kafka.tools.ProducerPerformance",
		"--topic", inputTopic, "--num-records", strconv.Itoa(count), "--record-size", strconv.Itoa(valueSize),
		"--throughput", "-1",
		"--producer-props", "bootstrap.servers="+r.address(), "acks=all", "linger.ms=1",
		"enable.idempotence=true").CombinedOutput()
	rate := toolRate.FindSubmatch(said)
	if err != nil || rate == nil {
		return sample{}, fmt.Errorf("running kafka-producer-perf-test: %w: %s", err, said)
	}
	perSecond, err := strconv.ParseFloat(string(rate[1]), 64)
	if err != nil {
		return sample{}, err
	}
	return sample{wall: time.Duration(float64(count) / perSecond * float64(time.Second)), count: count}, nil
}

// produceBare sends prepared records with the workload's client options.
func produceBare(ctx context.Context, r *rig, count int) (sample, error) {
	records := make([]*kgo.Record, count)
	for i := range records {
		records[i] = r.record(int32(i))
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(r.address()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.MaxBufferedRecords(count), kgo.ProducerLinger(time.Millisecond),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	)
	if err != nil {
		return sample{}, err
	}
	defer client.Close()
	var acked atomic.Int64
	one, err := take(count, func() error {
		for _, record := range records {
			client.TryProduce(ctx, record, func(_ *kgo.Record, err error) {
				if err == nil {
					acked.Add(1)
				}
			})
		}
		return client.Flush(ctx)
	})
	return one, firstOf(err, wholly(acked.Load(), count))
}

func produceWorkload(ctx context.Context, r *rig, count int) (sample, error) {
	p := &plan.Plan{Records: make([]plan.Record, count)}
	for i := range p.Records {
		p.Records[i] = plan.Record{
			Outcome: history.OutcomeSuccess, Key: int32(i % keyCount), Partition: int32(i % partitions), Size: valueSize,
		}
	}
	producer, err := workload.NewProducer(workload.ProducerConfig{
		Client: r.kafka.ClientOptions(), Inputs: []workload.Input{{Topic: inputTopic}}, Plan: p, IDs: r.ids, Clock: r.clock,
		Sink: r.sink,
	})
	if err != nil {
		return sample{}, err
	}
	defer producer.Close()
	one, err := take(count, func() error {
		if err := producer.Run(ctx, r.clock.Now()); err != nil {
			return err
		}
		return producer.Flush(ctx)
	})
	_, acked, _, _ := producer.Counts()
	return one, firstOf(err, wholly(acked, count))
}

func wholly(done int64, count int) error {
	if done != int64(count) {
		return fmt.Errorf("only %d of %d records went through", done, count)
	}
	return nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
