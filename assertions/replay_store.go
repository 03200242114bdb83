package assertions

// replay-round-trip for a dead-letter store whose workers write dead letters back. An entry that is due goes back
// unchanged to the topic of its record, once for each of its DLQ retries, and is then finished.
//
// The store provides at-least-once semantics: between a republish's acknowledgement and the entry's new status a worker
// may die, or lose its lock, and the entry is then taken again. Each time that an entry was taken and released without
// a counted retry justifies one more copy, and so does a write whose answer the worker never got.

import (
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// republishes reports whether the run has workers that write dead letters back.
func (w *state) republishes() bool {
	return w.header.Store != nil && w.header.Store.Workers > 0 && w.header.Store.Success == history.SuccessPublished
}

// byStore holds the workers' writes of a record.
type byStore struct {
	written, unsettled, wrong int
	wrongTopic                int16
	last                      time.Duration
	// justified is the number of copies that the record's entries account for, resolved the number of these that were
	// resolved.
	justified, resolved int
}

// judgeStore judges the records that the store's workers wrote back.
func (c *replay) judgeStore() {
	if !c.w.republishes() {
		return
	}
	all := map[int32]*byStore{}
	of := func(number int32) *byStore {
		if all[number] == nil {
			all[number] = &byStore{wrongTopic: none}
		}
		return all[number]
	}
	for i := range c.w.replays {
		one := &c.w.replays[i]
		if !one.byStore {
			continue
		}
		back := of(one.number)
		back.last = one.at
		switch {
		case one.topic != c.w.record(one.number).topic:
			back.wrong, back.wrongTopic = back.wrong+1, one.topic
		case !one.settled || one.refused:
			back.unsettled++
		default:
			back.written++
		}
	}
	for _, entry := range c.w.store.list() {
		if entry.record >= 0 {
			of(entry.record).account(entry)
		}
	}
	for number := range c.w.records.count {
		if back := all[int32(number)]; back != nil {
			c.judgeWritten(int32(number), back)
		}
	}
}

// account counts the copies that the changes of an entry justify.
func (b *byStore) account(entry *storeEntry) {
	for i := range entry.changes {
		one := &entry.changes[i]
		held, holds := one.From == history.StoreProcessing, one.To == history.StoreProcessing
		renewed := held && holds && i > 0 && one.By == entry.changes[i-1].By
		if held && !renewed || holds && i == len(entry.changes)-1 {
			b.justified++
		}
		if one.To == history.StoreResolved && !one.Hand {
			b.resolved++
		}
	}
}

func (c *replay) judgeWritten(number int32, back *byStore) {
	c.result.Judged += int64(back.resolved)
	mark := moment{history.KindProduceRequest, back.last}
	if back.wrong > 0 {
		c.saw("replay-wrong-topic", c.w.about(number, 0, endless, func() string {
			return fmt.Sprintf("a worker wrote it back to %s", c.w.topicName(back.wrongTopic))
		}, mark))
		return
	}
	r := c.w.record(number)
	copies, audited := c.copiesIn(number, r.topic)
	switch {
	case back.written == 0 && back.unsettled == 0:
		return
	case !audited:
		c.skip("no audit of the topic")
		return
	case len(copies) > back.justified+back.unsettled:
		c.saw("replay-duplicated", c.w.about(number, 0, endless, func() string {
			return fmt.Sprintf("its entries account for %d copies, and there are %d in %s", back.justified, len(copies),
				c.w.topicName(r.topic))
		}, mark))
	case len(copies) < back.written:
		c.saw("replay-lost", c.w.about(number, 0, endless, func() string {
			return fmt.Sprintf("workers had %d copies acknowledged, and there are %d in %s", back.written, len(copies),
				c.w.topicName(r.topic))
		}, mark))
		return
	}
	for i := range copies {
		c.judgeCopy(number, r, &copies[i])
	}
	if c.unended(number, r, nil) && !c.deadLetteredAgain(number) {
		c.saw("replay-lost", c.w.about(number, 0, endless, func() string {
			return "written back by a worker, but never finished again"
		}, mark))
	}
}

// deadLetteredAgain reports whether the record has more dead letters than the one that was written back first: it
// failed again, and ended as a dead letter.
func (c *replay) deadLetteredAgain(number int32) bool {
	return len(c.w.foundOf.of(number)) > 1
}
