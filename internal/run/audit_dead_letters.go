package run

// Findings of an audit that take the dead letter, the original record and the brokers to establish. The history
// keeps them for the judge.

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/workload"
)

const (
	// originalsKept and originalBytes bound the records kept for comparison with their dead letters.
	originalsKept = 2000
	originalBytes = 32 << 20
)

// originals are the records that the last audit found in the topics that the subject consumes.
type originals struct {
	// records are the records planned to fail, up to the bounds above.
	records map[int32]*kgo.Record
	bytes   int
	// epochs holds, by topic and partition, the leader epochs of the batches with the offset at which each begins. last
	// is the partition's current epoch.
	epochs map[[2]int32][]epochFrom
	last   map[[2]int32]int32
}

// epochFrom is the epoch of the batches from an offset on.
type epochFrom struct {
	offset int64
	epoch  int32
}

// begin discards the findings of an earlier audit of the topic.
func (o *originals) begin(ctx context.Context, r *run, index int16) error {
	topic := r.header.Topics[index]
	if topic.Role != history.RoleInput && topic.Role != history.RoleRetry {
		return nil
	}
	if o.records == nil {
		*o = originals{records: map[int32]*kgo.Record{}, epochs: map[[2]int32][]epochFrom{}, last: map[[2]int32]int32{}}
	}
	details, err := r.admin.ListTopics(ctx, topic.Name)
	if err != nil {
		return err
	}
	for _, partition := range details[topic.Name].Partitions {
		at := [2]int32{int32(index), partition.Partition}
		o.epochs[at], o.last[at] = nil, partition.LeaderEpoch
	}
	return nil
}

// keep stores a record of a topic that the subject consumes.
func (o *originals) keep(r *run, record *kgo.Record, found *history.Event) {
	at := [2]int32{int32(found.Topic), record.Partition}
	if _, consumed := o.last[at]; !consumed {
		return
	}
	if list := o.epochs[at]; len(list) == 0 || list[len(list)-1].epoch != record.LeaderEpoch {
		o.epochs[at] = append(list, epochFrom{record.Offset, record.LeaderEpoch})
	}
	size := len(record.Key) + len(record.Value)
	if found.Record < 0 || r.plan.Records[found.Record].Outcome == history.OutcomeSuccess ||
		o.records[found.Record] != nil ||
		r.header.Topics[found.Topic].Role != history.RoleInput || len(o.records) >= originalsKept ||
		o.bytes+size > originalBytes {
		return
	}
	o.records[found.Record] = cloned(record)
	o.bytes += size
}

// cloned returns a copy of the record that keeps no memory of its fetch alive.
func cloned(record *kgo.Record) *kgo.Record {
	one := &kgo.Record{Key: slices.Clone(record.Key), Value: slices.Clone(record.Value)}
	for _, header := range record.Headers {
		one.Headers = append(one.Headers, kgo.RecordHeader{Key: header.Key, Value: slices.Clone(header.Value)})
	}
	return one
}

// epoch returns the smallest and the largest leader epoch that the record at the offset can have. known is false if
// the brokers do not report epochs.
func (o *originals) epoch(claim *history.Claim) (least, most int32, known bool) {
	at := [2]int32{int32(claim.Topic), claim.Partition}
	last, consumed := o.last[at]
	if !consumed || claim.Offset < 0 || last < 0 {
		return 0, 0, false
	}
	for _, one := range slices.Backward(o.epochs[at]) {
		if one.offset <= claim.Offset {
			return one.epoch, max(last, one.epoch), one.epoch >= 0
		}
	}
	return 0, 0, false
}

// beside returns the other findings of the audit about a dead letter.
func (r *run) beside(dialect deadletter.Dialect, letter, held *kgo.Record, found *history.Event) string {
	failure, _ := dialect.Open(letter)
	more := history.ClaimMore{Quotes: workload.Quoted(failure.Reason, failure.CauseReason),
		Times: r.timesOf(dialect, letter)}
	if dialect.Traits().Once {
		more.Twice = r.twice(dialect, letter)
	}
	if least, most, known := r.originals.epoch(found.Claim); known && failure.Epoch >= 0 {
		more.Epoch, more.Epochs = &failure.Epoch, &[2]int32{least, most}
	}
	if original := r.originals.records[found.Record]; original != nil {
		more.Key = differing(original.Key, held.Key)
		was, is := original.Value, held.Value
		if encodesAgain(dialect) {
			was, is = workload.Canonical(was), workload.Canonical(is)
		}
		more.Value = differing(was, is)
		more.Headers = differingHeaders(original.Headers, held.Headers, r.keptHeaders())
	}
	return more.Encode()
}

// timesOf returns the times in the dead letter's fields. The dead letter's own timestamp, the only time in dialects
// without such fields, is the producer's choice.
func (r *run) timesOf(dialect deadletter.Dialect, letter *kgo.Record) map[string]time.Duration {
	bare := *letter
	bare.Timestamp = time.Time{}
	failure, _ := dialect.Open(&bare)
	times := map[string]time.Duration{}
	for name, at := range map[string]time.Time{"its time": failure.Time, "the record's time": failure.SourceTime} {
		if !at.IsZero() {
			times[name] = r.clock.Now() - time.Since(at)
		}
	}
	if len(times) == 0 {
		return nil
	}
	return times
}

// twice returns the fields that the dead letter has more than once although no record of the run has a header of
// that name.
func (r *run) twice(dialect deadletter.Dialect, letter *kgo.Record) []string {
	own, count := r.keptHeaders(), map[string]int{}
	for _, header := range letter.Headers {
		if dialect.IsFailureHeader(header.Key) && !own(header.Key) {
			count[header.Key]++
		}
	}
	maps.DeleteFunc(count, func(_ string, n int) bool { return n < 2 })
	return slices.Sorted(maps.Keys(count))
}

// differing describes how bytes differ from the original; "" if they are equal.
func differing(was, is []byte) string {
	switch {
	case bytes.Equal(was, is) && (was == nil) == (is == nil):
		return ""
	case was == nil:
		return fmt.Sprintf("it was null and has %d bytes", len(is))
	case is == nil:
		return fmt.Sprintf("it had %d bytes and is null", len(was))
	}
	at := 0
	for at < min(len(was), len(is)) && was[at] == is[at] {
		at++
	}
	text := fmt.Sprintf("it had %d bytes and has %d", len(was), len(is))
	if at < min(len(was), len(is)) {
		return text + fmt.Sprintf("; byte %d was %#02x and is %#02x", at, was[at], is[at])
	}
	return text + fmt.Sprintf("; the first %d are the same", at)
}

// differingHeaders describes which of the kept headers differ; "" if none does.
func differingHeaders(was, is []kgo.RecordHeader, kept func(string) bool) string {
	values := func(headers []kgo.RecordHeader, name string) (all [][]byte) {
		for _, header := range headers {
			if header.Key == name {
				all = append(all, header.Value)
			}
		}
		return all
	}
	text, seen := "", map[string]bool{}
	for _, header := range append(slices.Clip(was), is...) {
		if seen[header.Key] || !kept(header.Key) {
			continue
		}
		seen[header.Key] = true
		before, now := values(was, header.Key), values(is, header.Key)
		one := ""
		if len(before) != len(now) {
			one = fmt.Sprintf("%d with this name before, %d now", len(before), len(now))
		}
		for i := 0; i < min(len(before), len(now)) && one == ""; i++ {
			one = differing(before[i], now[i])
		}
		if one != "" && text != "" {
			text += "; "
		}
		if one != "" {
			text += fmt.Sprintf("header %q: %s", header.Key, one)
		}
	}
	return text
}
