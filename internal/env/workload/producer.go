package workload

// The producer sends the planned records at their planned times and records the broker's answers. It talks to the
// brokers directly and bypasses every fault except those of the brokers themselves, because the subject is under
// test.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/internal/samples"
)

// deliveryTimeout bounds how long the producer tries to deliver a record. It is longer than any planned outage of a
// broker, so that a record promised to the subject reaches it.
const deliveryTimeout = time.Minute

// maxBatch is the largest batch that brokers accept by default (max.message.bytes is 1 MiB plus the 12 bytes of a
// batch's offset and length). The client's own default is smaller, and the largest records of a plan would not fit.
const maxBatch = 1<<20 + 12

// ProducerConfig configures a producer.
type ProducerConfig struct {
	// Client configures the direct connection to the brokers, without any proxy: their addresses, and the settings that
	// a secured cluster requires.
	Client []kgo.Opt
	// Inputs are the input topics, at least one. Records are distributed to them in turn.
	Inputs []Input
	// Plan is the plan of the records. They must be in the order of their times.
	Plan *plan.Plan
	IDs  *history.IDs
	// Headers is the number of extra headers that each record carries.
	Headers int
	// Named are the headers that each record carries in addition.
	Named []NamedHeader
	// Odd are the names of envelope headers that the odd headers use too.
	Odd []string
	// Samples are what records are made from; nil for records of the workload's own.
	Samples *samples.Set
	// NoIDHeader leaves out the header that repeats the record's id.
	NoIDHeader bool
	// Kept reports whether a header of a record counts for the hash of its headers; nil stands for all of the record's
	// own.
	Kept func(name string) bool
	// JSON: the hash of a value is that of its content as JSON, because dead letters have it in another form.
	JSON bool
	// Node is the entry of a graph of nodes; values are then PipeStreams on their way to it. "" makes them plain
	// messages.
	Node  string
	Clock history.Clock
	Sink  history.Sink
}

// Input is an input topic. Index is its index in the history's header.
type Input struct {
	Topic string
	Index int16
}

// Producer sends the records of a plan, idempotently and acknowledged by all replicas.
type Producer struct {
	cfg    ProducerConfig
	client *kgo.Client
	build  *builder
	base   time.Duration
	// wall is the wall-clock time at which the run's clock showed 0.
	wall time.Time
	hash func(string) bool

	sent, acked, failed, late atomic.Int64
	// putOff is the additional delay of each of the plan's spare records, in ns.
	putOff []atomic.Int64
}

// behindPoll is how often the producer checks whether the subject is still behind.
const behindPoll = 100 * time.Millisecond

// NewProducer returns a producer, which connects when it runs. Close frees it.
func NewProducer(cfg ProducerConfig) (*Producer, error) {
	client, err := kgo.NewClient(append(slices.Clip(cfg.Client),
		kgo.ClientID("dlqbench-workload"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		// Room for all records: an open loop never waits for the client, and the plan bounds the memory.
		kgo.MaxBufferedRecords(max(len(cfg.Plan.Records)+cfg.Plan.Repeated(), 1)),
		kgo.ProducerLinger(time.Millisecond),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(maxBatch),
		kgo.RecordDeliveryTimeout(deliveryTimeout),
		kgo.ProduceRequestTimeout(5*time.Second),
		kgo.UnknownTopicRetries(-1),
		// Brokers deliberately go away and come back here. With the client's defaults it would look for the new leader
		// for seconds.
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.AlwaysRetryEOF(), // else a broker that leaves before its first answer on a connection fails its records
		kgo.RetryBackoffFn(func(tries int) time.Duration {
			return min(50*time.Millisecond<<min(tries, 4), 500*time.Millisecond)
		}),
	)...)
	if err != nil {
		return nil, fmt.Errorf("setting up the workload's producer: %w", err)
	}
	if cfg.Kept == nil {
		cfg.Kept = OriginalHeaders(cfg.Headers, cfg.Named)
	}
	build := newBuilder(cfg.IDs, cfg.Plan.Seed, cfg.Inputs[0].Topic, cfg.Headers, cfg.Named...)
	build.odd, build.samples = cfg.Odd, cfg.Samples
	if cfg.NoIDHeader {
		build.names = build.names[1:]
	}
	p := &Producer{cfg: cfg, client: client, build: build, hash: cfg.Kept, wall: time.Now().Add(-cfg.Clock.Now()),
		putOff: make([]atomic.Int64, cfg.Plan.Spare)}
	build.slabs.answered = p.answered
	return p, nil
}

// Run hands over every record at its time, counted from base on the run's clock. It returns after the last record,
// or with ctx's error. It must be called once. Extend sends the spare records.
func (p *Producer) Run(ctx context.Context, base time.Duration) error {
	p.base = base
	records := p.cfg.Plan.Records[:p.cfg.Plan.Due()]
	err := pace(ctx, p.cfg.Clock, base, len(records), func(i int) time.Duration { return records[i].At }, p.send)
	if err != nil {
		return fmt.Errorf("sending the workload: stopped after %d of %d records: %w", p.sent.Load(), len(records), err)
	}
	return nil
}

// Extend continues after Run with the plan's spare records until they are sent or ctx ends. It delays them while the
// subject is behind: the subject has enough to do then, and the more it has prefetched, the longer it fetches
// nothing.
func (p *Producer) Extend(ctx context.Context, behind func() bool) {
	due, putOff, waits := p.cfg.Plan.Due(), time.Duration(0), false
	spare := p.cfg.Plan.Records[due:]
	_ = pace(ctx, p.cfg.Clock, p.base, len(spare), func(i int) time.Duration {
		waited := waits
		waits = behind()
		now := p.cfg.Clock.Now() - p.base - spare[i].At
		if waits {
			putOff = max(putOff, now+behindPoll)
		} else if waited { // noticed late if the machine stood still: what waited is due now, not all at once
			putOff = max(putOff, now)
		}
		p.putOff[i].Store(int64(putOff))
		return spare[i].At + putOff
	}, func(i int) { p.send(due + i) })
}

// PutOff returns how much later than planned a record is due. It is 0 except for spare records delayed because the
// subject was behind.
func (p *Producer) PutOff(record int32) time.Duration {
	if i := int(record) - p.cfg.Plan.Due(); i >= 0 {
		return time.Duration(p.putOff[i].Load())
	}
	return 0
}

// Flush waits until every record handed over was acknowledged or given up.
func (p *Producer) Flush(ctx context.Context) error {
	if err := p.client.Flush(ctx); err != nil {
		sent, acked, failed, _ := p.Counts()
		return fmt.Errorf("waiting for the workload's last acknowledgements: %d of %d records are open: %w",
			sent-acked-failed, sent, err)
	}
	return nil
}

// Counts returns the numbers of records that were handed over, acknowledged, given up, and handed over more than
// LateAfter too late. It is safe for concurrent use.
func (p *Producer) Counts() (sent, acked, failed, late int64) {
	return p.sent.Load(), p.acked.Load(), p.failed.Load(), p.late.Load()
}

// Close gives up the records that are not acknowledged yet and frees the client.
func (p *Producer) Close() { p.client.Close() }

func (p *Producer) send(i int) {
	planned := &p.cfg.Plan.Records[i]
	seq, intended := int32(i), p.base+planned.At+p.PutOff(int32(i))
	now := p.cfg.Clock.Now() // read once: reading clocks is a good part of the work
	record := p.prepare(seq, planned, now)

	event := history.New(history.KindSend, now)
	event.Record, event.Topic, event.Partition = seq, p.input(seq).Index, planned.Partition
	event.Aux, event.Outcome, event.N = int64(intended), planned.Outcome, keyNumber(seq, planned.Key)
	event.KeyHash, event.ValueHash = history.HashBytes(record.Key), HashValue(record.Value, p.cfg.JSON)
	event.HeadersHash, event.HeaderCount = HashHeaders(record.Headers, p.hash), int32(len(record.Headers))
	event.Flags = flagsOf(planned)
	if event.Time-intended > LateAfter {
		p.late.Add(1)
	}
	p.cfg.Sink.Record(event)
	p.sent.Add(1)
	p.produce(record)
	if planned.Repeated { // it is not counted as another one
		again := p.prepare(seq, planned, now)
		again.flags = history.Repeated
		event.Time, event.Flags = p.cfg.Clock.Now(), event.Flags|history.Repeated
		p.cfg.Sink.Record(event)
		p.produce(again)
	}
}

// prepare returns record seq as it is sent at that time of the run's clock: each time with the same bytes.
func (p *Producer) prepare(seq int32, planned *plan.Record, now time.Duration) *outgoing {
	record := p.build.build(seq, planned, p.wall.Add(now))
	record.Topic = p.input(seq).Topic
	if p.cfg.Node != "" {
		record.Value = onItsWay(p.cfg.IDs.Token(seq), p.cfg.Node, record.Value)
	}
	return record
}

func (p *Producer) produce(record *outgoing) {
	p.client.TryProduce(context.Background(), &record.Record, record.answered)
}

// keyNumber returns the number that tells the record's key from others in the history. A key that is the record's id
// is nobody else's.
func keyNumber(seq, index int32) int32 {
	if index == history.KeyIsID {
		return history.IDKey + seq
	}
	return index
}

// input returns the topic that the record goes to.
func (p *Producer) input(seq int32) Input { return p.cfg.Inputs[int(seq)%len(p.cfg.Inputs)] }

func flagsOf(planned *plan.Record) (flags history.Flags) {
	if planned.Warmup {
		flags |= history.Warmup
	}
	if planned.Tombstone {
		flags |= history.Tombstone
	}
	if planned.Garbage || planned.Malformed.Unreadable() {
		flags |= history.Garbage
	}
	if planned.Malformed.Refusable() {
		flags |= history.Refusable
	}
	return flags
}

// answered records the broker's answer about a record.
func (p *Producer) answered(record *outgoing, err error) {
	event := history.New(history.KindAcked, p.cfg.Clock.Now())
	event.Record, event.Topic, event.Partition = record.seq, p.input(record.seq).Index, record.Partition
	event.Flags = record.flags
	counted := &p.acked
	if err != nil {
		counted, event.Code = &p.failed, errorCode(err)
	} else {
		event.Offset = record.Offset
	}
	if record.flags == 0 {
		counted.Add(1)
	}
	p.cfg.Sink.Record(event)
}

// errorCode returns Kafka's code of err. Errors without a code (a timeout, a closed client) are
// UNKNOWN_SERVER_ERROR, -1.
func errorCode(err error) int16 {
	if kafka, ok := errors.AsType[*kerr.Error](err); ok && kafka.Code != 0 {
		return kafka.Code
	}
	return kerr.UnknownServerError.Code
}
