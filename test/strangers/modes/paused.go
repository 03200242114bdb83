package main

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// paused are partitions that wait for a record's next attempt.
type paused struct {
	client *kgo.Client
	mu     sync.Mutex
	until  map[int32]wait
}

// wait is what a partition waits for. It is kept until the record behind it fails, so that the attempts are counted on.
type wait struct {
	topic    string
	offset   int64
	attempts int
	until    time.Time
	over     bool
}

// seek asks for a partition to be set back to a record, and left alone until a time.
type seek struct {
	record   *kgo.Record
	attempts int
	until    time.Time
}

func (p *paused) pause(s seek) {
	p.mu.Lock()
	defer p.mu.Unlock()
	topic, number := s.record.Topic, s.record.Partition
	p.client.PauseFetchPartitions(map[string][]int32{topic: {number}})
	p.client.SetOffsets(
		map[string]map[int32]kgo.EpochOffset{topic: {number: {Epoch: s.record.LeaderEpoch, Offset: s.record.Offset}}})
	p.until[number] = wait{topic: topic, offset: s.record.Offset, attempts: s.attempts, until: s.until}
}

// resume lets partitions go on whose wait is over.
func (p *paused) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for number, w := range p.until {
		if !w.over && time.Now().After(w.until) {
			w.over = true
			p.until[number] = w
			p.client.ResumeFetchPartitions(map[string][]int32{w.topic: {number}})
		}
	}
}

// attempts returns how many attempts the record has behind it.
func (p *paused) attempts(record *kgo.Record) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w, found := p.until[record.Partition]; found && w.offset == record.Offset {
		return w.attempts
	}
	return 0
}

// forget drops partitions that went: a pause would outlast the assignment.
func (p *paused) forget(numbers []int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, number := range numbers {
		if w, found := p.until[number]; found {
			delete(p.until, number)
			p.client.ResumeFetchPartitions(map[string][]int32{w.topic: {number}})
		}
	}
}
