package main

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsets commits what is finished.
type offsets struct {
	commits
	client *kgo.Client
	log    *logger

	mu     sync.Mutex
	topic  string
	latest map[int32]kgo.EpochOffset // of the partitions that the member has
}

// commit commits that everything up to these records is finished, one a partition at most.
func (o *offsets) commit(records []*kgo.Record) {
	if o.each == "marks" {
		o.client.MarkCommitRecords(records...)
		return
	}
	now := map[int32]kgo.EpochOffset{}
	o.mu.Lock()
	for _, record := range records {
		at := kgo.EpochOffset{Epoch: record.LeaderEpoch, Offset: record.Offset + 1}
		if o.noEpoch {
			at.Epoch = -1
		}
		o.topic, now[record.Partition], o.latest[record.Partition] = record.Topic, at, at
	}
	if o.repeated {
		now = maps.Clone(o.latest)
	}
	o.mu.Unlock()
	o.send(context.Background(), now, o.each == "async")
}

// send commits these offsets; a commit that fails is made good by the next one.
func (o *offsets) send(ctx context.Context, offsets map[int32]kgo.EpochOffset, async bool) {
	if len(offsets) == 0 {
		return
	}
	if o.metadata != "" {
		ctx = kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
			for t := range request.Topics {
				for p := range request.Topics[t].Partitions {
					request.Topics[t].Partitions[p].Metadata = &o.metadata
				}
			}
			return nil
		})
	}
	all, done := map[string]map[int32]kgo.EpochOffset{o.topic: offsets}, o.answered
	if async {
		o.client.CommitOffsets(ctx, all, done)
		return
	}
	o.client.CommitOffsetsSync(ctx, all, done)
}

func (o *offsets) answered(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
	if err != nil {
		o.log.Error(fmt.Sprintf("committing: %v", err))
		return
	}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				o.log.Error(fmt.Sprintf("committing %s-%d: %v", topic.Topic, partition.Partition, err))
			}
		}
	}
}

// revoked commits before partitions are given up: nothing that was sent without waiting may come after it.
func (o *offsets) revoked(ctx context.Context, numbers []int32) {
	if o.each != "async" {
		return // each commit was waited for
	}
	now := map[int32]kgo.EpochOffset{}
	o.mu.Lock()
	for _, number := range numbers {
		if at, known := o.latest[number]; known {
			now[number] = at
		}
	}
	o.mu.Unlock()
	o.send(ctx, now, false)
}

func (o *offsets) forget(numbers []int32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, number := range numbers {
		delete(o.latest, number)
	}
}

// last waits for what was sent before the member leaves.
func (o *offsets) last() {
	if o.each == "async" {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		o.mu.Lock()
		now := maps.Clone(o.latest)
		o.mu.Unlock()
		o.send(ctx, now, false)
	}
}
