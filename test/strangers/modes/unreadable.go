package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// readable reports whether the value is JSON with an id.
func readable(value []byte) bool {
	var order struct{ ID *string }
	return json.Unmarshal(value, &order) == nil && order.ID != nil
}

// halt stops the lane at a record that can't be read. It returns whether the next record may begin: only with the bug.
func (b *batch) halt(record *kgo.Record) bool {
	b.log.Error(fmt.Sprintf("%s-%d offset %d can't be read", record.Topic, record.Partition, record.Offset))
	switch os.Getenv("PLANTED_BUG") {
	case "unreadable-skipped":
		return b.done(record)
	case "unreadable-dead-lettered":
		return b.deadLetter(record, 0, &failure{reason: "not JSON"})
	}
	b.mu.Lock()
	b.halted = true
	b.mu.Unlock()
	switch b.unreadable {
	case pausesThere:
		b.seekBack(record, 0, 24*time.Hour)
	case meetsAgain:
		b.seekBack(record, 0, 100*time.Millisecond)
	}
	return false
}
