package run

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/internal/kafkaio"
)

// auditLimit bounds the time for stopping the subject and reading all topics.
const auditLimit = 60 * time.Second

// auditPoll is the maximum number of records that one poll of a topic returns.
const auditPoll = 10_000

// audit reads every topic to its end, and the group's committed offsets, directly from the brokers. The content of
// the topics decides cases that the history alone cannot: an acknowledgement that was lost, a process that was
// killed.
func (r *run) audit(ctx context.Context) error {
	for index := range r.header.Topics {
		if err := r.auditWhole(ctx, int16(index)); err != nil {
			return environment("auditing the topics", err)
		}
	}
	if err := r.auditOthers(ctx); err != nil {
		return environment("auditing further topics", err)
	}
	r.auditRows(ctx)
	if err := r.auditStore(ctx); err != nil {
		return err
	}
	return environment("auditing the offsets", r.auditOffsets(ctx))
}

// auditWhole audits a topic, and records the effects in it if it is the output topic.
func (r *run) auditWhole(ctx context.Context, index int16) error {
	effects := r.readEffects(index)
	if effects == nil {
		return r.auditTopic(ctx, index, nil)
	}
	if err := r.auditTopic(ctx, index, effects.see); err != nil {
		return err
	}
	effects.record()
	return nil
}

// auditTopic reads one topic from its first to its last record and records its findings. see, if not nil, is called
// with each record.
func (r *run) auditTopic(ctx context.Context, index int16, see func(*kgo.Record, history.Event)) error {
	if r.header.Topics[index].Downstream {
		r.letters.audit()
		return nil
	}
	topic := r.header.Topics[index].Name
	dialect, err := r.dialect()
	if err != nil {
		return err
	}
	start := history.New(history.KindAuditStart, r.clock.Now())
	start.Topic = index
	r.live.Record(start)
	if err := r.originals.begin(ctx, r, index); err != nil {
		return fmt.Errorf("reading the epochs of %s: %w", topic, err)
	}
	return r.readTopic(ctx, topic, func(record *kgo.Record) {
		event := r.auditEvent(record, index, dialect)
		r.originals.keep(r, record, &event)
		r.live.Record(event)
		if see != nil {
			see(record, event)
		}
		if r.options.Audited != nil {
			r.options.Audited(r.header.Topics[index], record, event)
		}
	})
}

// auditDeadLetters is auditTopic for all dead-letter topics.
func (r *run) auditDeadLetters(ctx context.Context, see func(*kgo.Record, history.Event)) error {
	for _, index := range r.topicsOf(history.RoleDLQ) {
		if err := r.auditTopic(ctx, index, see); err != nil {
			return err
		}
	}
	return nil
}

// dialect is the dialect of the contract's dead letters; nil when the contract promises none.
func (r *run) dialect() (deadletter.Dialect, error) {
	if r.header.Contract().Envelope == "" {
		return nil, nil
	}
	return deadletter.Named(r.header.Contract().Envelope)
}

// readTopic calls do for every record between the current first and last offsets, except the records of transactions
// that were not committed.
func (r *run) readTopic(ctx context.Context, topic string, do func(*kgo.Record)) error {
	starts, err := r.admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return fmt.Errorf("listing the start offsets of %s: %w", topic, err)
	}
	ends, err := r.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return fmt.Errorf("listing the end offsets of %s: %w", topic, err)
	}
	from, left := map[int32]kgo.Offset{}, map[int32]int64{}
	for partition, end := range ends[topic] {
		if end.Err != nil {
			return fmt.Errorf("listing the end offset of %s-%d: %w", topic, partition, end.Err)
		}
		if first := starts[topic][partition].Offset; first < end.Offset {
			from[partition], left[partition] = kgo.NewOffset().At(first), end.Offset
		}
	}
	if len(from) == 0 {
		return nil
	}
	// The reader returns markers as well: the last offset may belong to one.
	var reader kafkaio.Reader
	client, err := kgo.NewClient(slices.Concat(r.cluster.client, reader.Options(), []kgo.Opt{
		kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
	})...)
	if err != nil {
		return err
	}
	defer client.Close()
	committed := newCommittedOnly(do)
	for len(left) > 0 {
		fetches, failed := reader.Poll(ctx, client, auditPoll)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("reading %s to its end: %w", topic, err)
		}
		if len(failed) > 0 {
			return fmt.Errorf("reading %s-%d to its end: %w", topic, failed[0].Partition, failed[0].Err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			end, open := left[record.Partition]
			if !open || record.Offset >= end {
				return
			}
			committed.see(record)
			if record.Offset == end-1 {
				delete(left, record.Partition)
			}
		})
	}
	return nil
}

func (r *run) auditEvent(record *kgo.Record, topic int16, dialect deadletter.Dialect) history.Event {
	event := history.New(history.KindAuditRecord, r.clock.Now())
	event.Topic, event.Partition, event.Offset = topic, record.Partition, record.Offset
	again := encodesAgain(dialect)
	event.KeyHash, event.ValueHash = history.HashBytes(record.Key), workload.HashValue(record.Value, again)
	if r.repeated(topic, record) {
		event.Flags |= history.Repeated
	}
	originals, own := r.keptHeaders(), r.ownHeaders()
	event.HeadersHash = workload.HashHeaders(record.Headers, originals)
	event.Aux = record.Timestamp.UnixMilli()
	if seq, found := findRecord(r.ids, record); found && int(seq) < len(r.plan.Records) {
		event.Record = seq
	}
	for _, header := range record.Headers {
		event.HeaderCount++
		event.HeaderBytes += int32(len(header.Key) + len(header.Value))
		// a header under one of the record's own names changes the header hash instead
		if dialect != nil && dialect.IsFailureHeader(header.Key) && !own(header.Key) {
			event.Flags |= history.FailureHeaders
		}
	}
	role := r.header.Topics[topic].Role
	held := record
	if dialect != nil && (role == history.RoleDLQ || role == history.RoleQuarantine) {
		claim := r.claim(dialect, record, event.Record)
		event.Claim = &claim
		if r.header.Contract().Service != "" {
			failure, _ := dialect.Open(record)
			event.Text = failure.Service
		}
		held = heldIn(dialect, record)
		event.KeyHash, event.ValueHash = history.HashBytes(held.Key), workload.HashValue(held.Value, again)
		event.HeadersHash = workload.HashHeaders(held.Headers, originals)
		claim.More = r.beside(dialect, record, held, &event)
	}
	if role == history.RoleDLQ && (isMarker(held) || r.live.marked && lacksMarker(held, r.plan.Keys)) {
		event.Flags |= history.Marker
	}
	return event
}

// isMarker reports whether a record has the key and the value of a transaction marker (KIP-98).
func isMarker(record *kgo.Record) bool {
	var value kmsg.EndTxnMarker
	return markerKey(record.Key) && len(record.Value) == 6 && value.ReadFrom(record.Value) == nil && value.Version == 0
}

// lacksMarker reports whether a record has the key of a transaction marker, which is none of the run's, and has lost
// its value. One that is wrapped in JSON as it is makes no document.
func lacksMarker(record *kgo.Record, keys []string) bool {
	return markerKey(record.Key) && len(record.Value) == 0 && !slices.Contains(keys, string(record.Key))
}

func markerKey(text []byte) bool {
	var key kmsg.ControlRecordKey
	return len(text) == 4 && key.ReadFrom(text) == nil && key.Version == 0 &&
		(key.Type == kmsg.ControlRecordKeyTypeAbort || key.Type == kmsg.ControlRecordKeyTypeCommit)
}

// heldIn returns the record that the dead letter holds: the one that a replay would restore, in whatever form the
// dialect stores it.
func heldIn(dialect deadletter.Dialect, letter *kgo.Record) *kgo.Record {
	held := dialect.Prepare(letter)
	if wrapping, ok := dialect.(interface {
		Payload(letter *kgo.Record) []byte
	}); ok { // a replay changes it
		held.Value = wrapping.Payload(letter)
	}
	return held
}

// encodesAgain reports whether dead letters of the dialect have values that were decoded as JSON and encoded again.
func encodesAgain(dialect deadletter.Dialect) bool { return dialect != nil && dialect.Traits().JSON }

// claim is the origin that the dead letter of the record with the number states.
func (r *run) claim(dialect deadletter.Dialect, record *kgo.Record, number int32) history.Claim {
	failure, missing := dialect.Open(record)
	claim := history.Claim{
		Topic: r.header.TopicIndex(failure.Topic), Partition: failure.Partition, Offset: failure.Offset,
		Attempts: failure.Attempts, Missing: strings.Join(missing, ","),
	}
	if inputs := r.inputs(); dialect.Traits().NoTopic && (number >= 0 || len(inputs) == 1) {
		claim.Topic = inputs[max(int(number), 0)%len(inputs)] // it goes without saying
	}
	if claim.Attempts == 0 && (len(missing) > 0 || !dialect.Traits().Attempts) { // the dead letter does not state it
		claim.Attempts = history.None
	}
	return claim
}

// findRecord looks for the record's id first in the header made for it, which is present unless somebody dropped it,
// and then everywhere else. Without any, the value itself may tell which record it is.
func findRecord(ids *history.IDs, record *kgo.Record) (int32, bool) {
	for _, header := range record.Headers {
		if header.Key == history.IDHeader {
			if seq, found := ids.Find(header.Value); found {
				return seq, true
			}
		}
	}
	for _, data := range [][]byte{record.Value, record.Key} {
		if seq, found := ids.Find(data); found {
			return seq, true
		}
	}
	for _, header := range record.Headers {
		if seq, found := ids.Find(header.Value); found {
			return seq, true
		}
	}
	return ids.OfValue(record.Value)
}

// auditOffsets records each partition's end offset and, for the topics that the subject consumes, the group's
// committed offset.
func (r *run) auditOffsets(ctx context.Context) error {
	committed, err := r.progress(ctx)
	if err != nil {
		return err
	}
	for index, topic := range r.header.Topics {
		if topic.Downstream {
			event := history.New(history.KindAuditOffsets, r.clock.Now())
			event.Topic, event.Partition, event.Offset = int16(index), 0, r.letters.count()
			r.live.Record(event)
			continue
		}
		ends, err := r.admin.ListEndOffsets(ctx, topic.Name)
		if err != nil {
			return fmt.Errorf("listing the end offsets of %s: %w", topic.Name, err)
		}
		for partition := range int32(topic.Partitions) {
			event := history.New(history.KindAuditOffsets, r.clock.Now())
			event.Topic, event.Partition, event.Aux = int16(index), partition, history.None
			if end, known := ends.Lookup(topic.Name, partition); known && end.Err == nil {
				event.Offset = end.Offset
			}
			if at, known := committed.Lookup(topic.Name, partition); known && at.Err == nil {
				event.Aux = at.At
			}
			r.live.Record(event)
		}
	}
	return nil
}
