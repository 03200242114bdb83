package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// newShareBench returns a bench whose share group starts at the beginning of its topics, and whose members learn of
// each other soon.
func newShareBench(t *testing.T, partitions int32) *bench {
	b := newBenchWith(t, partitions, []string{inputTopic, dlqTopic},
		kfake.BrokerConfigs(map[string]string{"group.share.heartbeat.interval.ms": "50"}))
	b.cluster.SetGroupConfigs(groupID, map[string]string{"share.auto.offset.reset": "earliest"})
	return b
}

func shareSettings(retry string) Settings {
	settings := testSettings()
	settings.GroupProtocol, settings.Ordering, settings.Retry = ProtocolShare, OrderingNone, retry
	return settings
}

// shareLag returns the number of input records that the share group has not finished, -1 while it has not started
// with some partition.
func (b *bench) shareLag(partitions int32) int64 {
	b.Helper()
	group := kmsg.NewDescribeShareGroupOffsetsRequestGroup()
	group.GroupID = groupID
	topic := kmsg.NewDescribeShareGroupOffsetsRequestGroupTopic()
	topic.Topic = inputTopic
	for partition := range partitions {
		topic.Partitions = append(topic.Partitions, partition)
	}
	group.Topics = append(group.Topics, topic)
	request := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
	request.Groups = append(request.Groups, group)
	response := must.Get(request.RequestWith(b.Context(), b.client))(b)
	var lag int64
	for _, each := range response.Groups[0].Topics[0].Partitions {
		if each.StartOffset < 0 {
			return -1
		}
		lag += each.Lag
	}
	return lag
}

// acknowledgements records how the records of partition 0 were acknowledged, in order.
type acknowledgements struct {
	mu sync.Mutex
	of map[int64][]kgo.AckStatus
}

// watch records acknowledgements and calls see for each.
func (b *bench) watch(see func(offset int64, status kgo.AckStatus)) *acknowledgements {
	a := &acknowledgements{of: map[int64][]kgo.AckStatus{}}
	note := func(first, last int64, types []int8) {
		a.mu.Lock()
		defer a.mu.Unlock()
		for offset := first; offset <= last; offset++ {
			status := kgo.AckStatus(types[min(int(offset-first), len(types)-1)])
			a.of[offset] = append(a.of[offset], status)
			see(offset, status)
		}
	}
	b.onRequest(kmsg.ShareFetch, func(request kmsg.Request) error {
		for _, topic := range request.(*kmsg.ShareFetchRequest).Topics {
			for _, partition := range topic.Partitions {
				for _, batch := range partition.AcknowledgementBatches {
					note(batch.FirstOffset, batch.LastOffset, batch.AcknowledgeTypes)
				}
			}
		}
		return nil
	})
	b.onRequest(kmsg.ShareAcknowledge, func(request kmsg.Request) error {
		for _, topic := range request.(*kmsg.ShareAcknowledgeRequest).Topics {
			for _, partition := range topic.Partitions {
				for _, batch := range partition.AcknowledgementBatches {
					note(batch.FirstOffset, batch.LastOffset, batch.AcknowledgeTypes)
				}
			}
		}
		return nil
	})
	return a
}

func (a *acknowledgements) count(status kgo.AckStatus) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, statuses := range a.of {
		for _, each := range statuses {
			if each == status {
				n++
			}
		}
	}
	return n
}

// TestShareGroupsFinishEveryRecord runs one instance, and two of which one is stopped in the middle. Each record ends
// as its class requires and is acknowledged for good.
func TestShareGroupsFinishEveryRecord(t *testing.T) {
	for _, retry := range []string{RetryInPlace, RetryRedelivery} {
		for _, instances := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/%d", retry, instances), func(t *testing.T) {
				t.Parallel()
				tryShare(t, retry, instances)
			})
		}
	}
}

func tryShare(t *testing.T, retry string, instances int) {
	const partitions, perPartition = 2, 120
	b := newShareBench(t, partitions)
	settings := shareSettings(retry)
	settings.MaxInFlight = 25 // gives several batches
	var succeeded, seen calls
	handler := func(_ context.Context, record *kgo.Record) error {
		n := seen.add(record)
		if instances == 1 && retry == RetryRedelivery && int(record.DeliveryCount()) != n {
			t.Errorf("attempt %d of %s is made at delivery %d", n, record.Value, record.DeliveryCount())
		}
		switch record.Offset % 6 {
		case 2:
			if n < 2 {
				return errors.New("not yet")
			}
		case 3:
			return errors.New("down")
		case 4:
			return &Error{Class: Permanent, Err: errors.New("broken")}
		case 5:
			return &Error{Class: Logical, Err: errors.New("declined")}
		}
		succeeded.add(record)
		return nil
	}
	var runs []started
	for range instances {
		runs = append(runs, b.start(b.config(settings, handler), DefaultParts(settings)))
	}
	for partition := range int32(partitions) {
		b.produce(partition, perPartition, 3)
	}
	b.eventually("the first have begun", func() bool { return seen.total() > 20 })
	if instances > 1 {
		must.Do(t, runs[0].stop())
	}
	b.eventually("everything is finished", func() bool { return b.shareLag(partitions) == 0 })
	dead := map[string]int{}
	for _, letter := range b.letters() {
		failure, missing := deadletter.Plain{}.Open(letter)
		dead[string(letter.Value)]++
		want := []int32{3, 4}
		if failure.Offset%6 == 4 {
			want = []int32{1, 2} // redelivered after the stop
		}
		if len(missing) > 0 || !slices.Contains(want[:instances], failure.Attempts) ||
			failure.Topic != inputTopic || string(valueOf(failure.Partition, failure.Offset)) != string(letter.Value) {
			t.Errorf("the dead letter of %s says %+v, missing %v", letter.Value, failure, missing)
		}
	}
	for partition := range int32(partitions) {
		for offset := range int64(perPartition) {
			value := string(valueOf(partition, offset))
			attempts, letters := []int{1, 1, 2, 3, 1, 1}[offset%6], []int{0, 0, 0, 1, 1, 0}[offset%6]
			switch n := seen.of(value); {
			case dead[value] < letters || letters == 0 && dead[value] > 0 || instances == 1 && dead[value] != letters:
				t.Errorf("%s: %d dead letters, want %d", value, dead[value], letters)
			case instances == 1 && n != attempts, n == 0:
				t.Errorf("%s: %d attempts, want %d", value, n, attempts)
			case offset%6 < 3 && succeeded.of(value) == 0:
				t.Errorf("%s never succeeded", value)
			}
		}
	}
}

// TestAShareGroupsStopReleasesWhatIsNotDone: of a batch of 300 records, 256 attempts run at the stop and succeed, one
// record is in backoff, and the others were not started.
func TestAShareGroupsStopReleasesWhatIsNotDone(t *testing.T) {
	t.Parallel()
	b := newShareBench(t, 1)
	b.produce(0, 300, 300)
	acks := b.watch(func(int64, kgo.AckStatus) {})
	settings := shareSettings(RetryInPlace)
	settings.RetryBackoffMS, settings.MaxRetryBackoffMS = 60_000, 60_000
	var seen calls
	gate := make(chan struct{})
	parts := DefaultParts(settings)
	parts.AtStop = func(*kgo.Record) Action { close(gate); return Retry } // the stop has started
	run := b.start(b.config(settings, func(ctx context.Context, record *kgo.Record) error {
		if seen.add(record); record.Offset == 1 {
			return errors.New("down")
		}
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}), parts)
	b.eventually("as many run as may", func() bool { return seen.total() == maxConcurrency+1 })
	must.Do(t, run.stop())
	if accepted, released := acks.count(kgo.AckAccept),
		acks.count(kgo.AckRelease); accepted != maxConcurrency || released != 300-maxConcurrency {
		t.Errorf("%d records were accepted and %d released, want %d and %d", accepted, released, maxConcurrency,
			300-maxConcurrency)
	}
	if info := b.cluster.GroupInfo(groupID); info != nil && len(info.Members) != 0 {
		t.Errorf("the group still has %d members after the stop", len(info.Members))
	}
	var again calls
	b.start(b.config(settings, func(_ context.Context, record *kgo.Record) error {
		if again.add(record); record.DeliveryCount() != 2 {
			t.Errorf("%s is at delivery %d", record.Value, record.DeliveryCount())
		}
		return nil
	}), DefaultParts(settings))
	b.eventually("everything is finished", func() bool { return b.shareLag(1) == 0 })
	if again.total() != 300-maxConcurrency {
		t.Errorf("the next consumer processed %d records, want the %d that were released", again.total(), 300-maxConcurrency)
	}
}

// TestAStopLosesNoRecordAtItsLastDelivery: a record released at its last delivery would be lost. Records that were
// not started then are dead-lettered.
func TestAStopLosesNoRecordAtItsLastDelivery(t *testing.T) {
	t.Parallel()
	b := newShareBench(t, 1)
	const records = maxConcurrency + 20
	b.produce(0, records, records)
	settings := shareSettings(RetryRedelivery)
	settings.MaxRetries = deliveryLimit
	var last calls
	gate := make(chan struct{})
	run := b.start(b.config(settings, func(ctx context.Context, record *kgo.Record) error {
		if record.DeliveryCount() < deliveryLimit {
			return errors.New("down")
		}
		last.add(record)
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}), DefaultParts(settings))
	b.eventually("as many run as may", func() bool { return last.total() == maxConcurrency })
	stopped := make(chan error)
	go func() { stopped <- run.stop() }()
	b.eventually("the others are dead-lettered", func() bool { return len(b.letters()) == records-maxConcurrency })
	close(gate)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	for _, letter := range b.letters() {
		if failure, _ := (deadletter.Plain{}).Open(letter); failure.Reason != errLastDelivery.Error() {
			t.Errorf("%s was dead-lettered: %s", letter.Value, failure.Reason)
		}
	}
	if lag, letters := b.shareLag(1), b.letters(); lag != 0 || len(letters) != records-maxConcurrency {
		t.Errorf("lag %d, %d dead letters", lag, len(letters))
	}
}

func TestNothingIsAcknowledgedBeforeItsDeadLetter(t *testing.T) {
	t.Parallel()
	b := newShareBench(t, 1)
	b.produce(0, 20, 20)
	fault := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: dlqTopic, Err: kerr.NotEnoughReplicas,
		Count: -1})
	var written sync.Map
	acks := b.watch(func(offset int64, status kgo.AckStatus) {
		if _, found := written.Load(offset); offset == 5 && !found {
			t.Errorf("%d was acknowledged (%s) before its dead letter was", offset, status)
		}
	})
	settings := shareSettings(RetryInPlace)
	settings.MaxRetryBackoffMS = 40
	parts := DefaultParts(settings)
	parts.Parker = watchedParker{AckedParker{}, func(*kgo.Record) { written.Store(int64(5), true) }}
	run := b.start(b.config(settings, alwaysDown), parts)
	b.eventually("the trouble is serious", func() bool { return run.Health().Halted() })
	refusedThen := fault.Hits()
	b.eventually("the publication is tried again and again", func() bool { return fault.Hits() > refusedThen+5 })
	b.eventually("the others are accepted", func() bool { return acks.count(kgo.AckAccept) == 19 })
	if trouble := run.Health().Trouble[0]; trouble.Offset != 5 || trouble.To != dlqTopic ||
		!strings.Contains(trouble.Reason, "NOT_ENOUGH_REPLICAS") {
		t.Errorf("health says %+v", trouble)
	}
	fault.Remove()
	b.eventually("everything is finished", func() bool { return b.shareLag(1) == 0 })
	if letters := b.letters(); len(letters) != 1 || acks.count(kgo.AckReject) != 1 || acks.count(kgo.AckRelease) != 0 {
		t.Errorf("%d dead letters, %d rejected, %d released, want 1, 1, 0", len(letters), acks.count(kgo.AckReject),
			acks.count(kgo.AckRelease))
	}
	b.eventually("the trouble is over", func() bool {
		return len(run.Health().Trouble) == 0 && run.Health().Assigned != nil
	})
}

func TestWithoutADLQWhatFailsIsRejected(t *testing.T) {
	t.Parallel()
	b := newShareBench(t, 1)
	b.produce(0, 20, 20)
	acks := b.watch(func(int64, kgo.AckStatus) {})
	settings := shareSettings(RetryInPlace)
	settings.DLQEnabled = false
	b.start(b.config(settings, alwaysDown), DefaultParts(settings))
	b.eventually("everything is finished", func() bool { return b.shareLag(1) == 0 })
	acks.mu.Lock()
	defer acks.mu.Unlock()
	if got := acks.of[5]; len(got) != 1 || got[0] != kgo.AckReject {
		t.Errorf("the record that failed for good was acknowledged: %v", got)
	}
}

// TestARecordLateForItsAcknowledgement: the broker has delivered the record to another member and rejects the
// acknowledgement. The consumer continues.
func TestARecordLateForItsAcknowledgement(t *testing.T) {
	t.Parallel()
	b := newBenchWith(t, 1, []string{inputTopic, dlqTopic}, kfake.BrokerConfigs(map[string]string{
		"group.share.heartbeat.interval.ms": "50", "group.share.record.lock.duration.ms": "1000",
		"share.record.lock.sweep.interval.ms": "50",
	}))
	b.cluster.SetGroupConfigs(groupID, map[string]string{"share.auto.offset.reset": "earliest"})
	b.produce(0, 10, 10)
	settings := shareSettings(RetryInPlace)
	var seen calls
	run := b.start(b.config(settings, func(ctx context.Context, record *kgo.Record) error {
		if n := seen.add(record); record.Offset == 3 && n == 1 {
			select {
			case <-time.After(1500 * time.Millisecond):
			case <-ctx.Done():
			}
		}
		return nil
	}), DefaultParts(settings))
	b.eventually("everything is finished", func() bool { return b.shareLag(1) == 0 })
	if err := run.stop(); err != nil {
		t.Error(err)
	}
	if seen.of("0:3") < 2 {
		t.Errorf("the record was processed %d times: its time was not over, and nothing is shown", seen.of("0:3"))
	}
}
