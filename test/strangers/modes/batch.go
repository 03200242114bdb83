package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// batch is what one poll returned.
type batch struct {
	*member
	ctx     context.Context
	records []*kgo.Record

	mu       sync.Mutex
	finished map[*kgo.Record]bool
	due      []*kgo.Record               // letters that are to be written together
	of       map[*kgo.Record]*kgo.Record // the records of the letters in due
	seeks    []seek
	halted   bool // it has met a value that it can't read
}

// lanes splits the records into what is processed side by side.
func (b *batch) lanes() [][]*kgo.Record {
	var names []string
	lanes := map[string][]*kgo.Record{}
	for i, record := range b.records {
		name := ""
		switch b.settings.lanes {
		case byPartition:
			name = strconv.Itoa(int(record.Partition))
		case byKey:
			name = fmt.Sprintf("%d %q", record.Partition, record.Key)
		case allAtOnce:
			name = strconv.Itoa(i)
		case oneByOne:
		}
		if lanes[name] == nil {
			names = append(names, name)
		}
		lanes[name] = append(lanes[name], record)
	}
	var all [][]*kgo.Record
	for _, name := range names {
		all = append(all, lanes[name])
	}
	return all
}

func (b *batch) lane(records []*kgo.Record) {
	for _, record := range records {
		if !b.handle(record) {
			return
		}
		if b.settings.commits.each == "record" {
			b.offsets.commit([]*kgo.Record{record})
		}
	}
}

func (b *batch) done(record *kgo.Record) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finished[record] = true
	return true
}

// handle returns whether the next record of the lane may begin.
func (b *batch) handle(record *kgo.Record) bool {
	if record.Value == nil && b.retries.skipTombstones {
		return b.done(record)
	}
	if b.unreadable != "" && record.Value != nil && !readable(record.Value) {
		return b.halt(record)
	}
	for attempt := 1 + b.paused.attempts(record); b.ctx.Err() == nil; attempt++ {
		failed := b.call(record)
		switch {
		case failed == nil:
			return b.passOn(record) && b.done(record)
		case failed.status == http.StatusUnprocessableEntity && !b.retries.logicalIsFailure:
			return b.done(record)
		case failed.status == http.StatusUnprocessableEntity, failed.status == http.StatusBadRequest,
			attempt == b.retries.attempts:
			return b.deadLetter(record, attempt, failed)
		}
		wait := min(b.retries.first<<(attempt-1), b.retries.cap)
		if b.retries.jitter > 0 {
			wait += rand.N(b.retries.jitter)
		}
		if !b.retries.ignoreAfter {
			wait = max(wait, failed.after)
		}
		if b.pause {
			b.seekBack(record, attempt, wait)
			return false
		}
		sleep(b.ctx, wait)
	}
	return false
}

// passOn writes what was processed to the topic of results, if there is one. It tries until it is acknowledged.
func (b *batch) passOn(record *kgo.Record) bool {
	return !b.elsewhere || b.writer.write(b.ctx, &kgo.Record{
		Topic: os.Getenv("KAFKA_RESULT_TOPIC"), Key: record.Key, Value: record.Value})
}

func (b *batch) seekBack(record *kgo.Record, attempts int, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seeks = append(b.seeks, seek{record: record, attempts: attempts, until: time.Now().Add(wait)})
}

func (b *batch) deadLetter(record *kgo.Record, attempts int, failed *failure) bool {
	made := deadLetter(b.letters, record, attempts, failed)
	if !b.letters.batched {
		return b.writer.write(b.ctx, made) && b.done(record)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.due = append(b.due, made)
	if b.of == nil {
		b.of = map[*kgo.Record]*kgo.Record{}
	}
	b.of[made] = record
	return true
}

// write writes the letters that wait for the end of the poll.
func (b *batch) write() {
	if len(b.due) > 0 && b.writer.write(b.ctx, b.due...) {
		for _, made := range b.due {
			b.done(b.of[made])
		}
	}
}

// prefixes returns, for each partition, the last record before which everything of the poll is finished, and which is
// itself.
func (b *batch) prefixes() []*kgo.Record {
	last, broken := map[int32]*kgo.Record{}, map[int32]bool{}
	for _, record := range b.records {
		switch {
		case !b.finished[record]:
			broken[record.Partition] = true
		case !broken[record.Partition]:
			last[record.Partition] = record
		}
	}
	var all []*kgo.Record
	for _, record := range last {
		all = append(all, record)
	}
	return all
}

// failure is what an attempt ended with that was no success.
type failure struct {
	status int
	reason string
	after  time.Duration
}

// call makes one attempt; one that was begun is not broken off.
func (m *member) call(record *kgo.Record) *failure {
	request, err := http.NewRequest(http.MethodPost, os.Getenv("DOWNSTREAM_URL")+"/v1/attempt",
		bytes.NewReader(record.Value))
	if err != nil {
		return &failure{reason: err.Error()}
	}
	request.Header.Set("X-Kafka-Topic", record.Topic)
	request.Header.Set("X-Kafka-Partition", strconv.Itoa(int(record.Partition)))
	request.Header.Set("X-Kafka-Offset", strconv.FormatInt(record.Offset, 10))
	response, err := m.http.Do(request)
	if err != nil {
		return &failure{reason: err.Error()}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return &failure{reason: errors.Join(errors.New("reading the answer"), err).Error()}
	}
	if response.StatusCode == http.StatusOK {
		return nil
	}
	answer := struct{ Error string }{response.Status}
	_ = json.Unmarshal(body, &answer) // without a text the status says enough
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return &failure{status: response.StatusCode, reason: answer.Error, after: time.Duration(seconds) * time.Second}
}
