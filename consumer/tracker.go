package consumer

// Tracker knows which records of one assignment of one partition are finished, and how far it may be committed. It is used by
// one goroutine.
type Tracker interface {
	// Add notes a fetched record and returns the slot to finish it by. Records are added in the order they were fetched.
	Add(offset int64, epoch int32) (slot uint64)
	// Finish notes that the record in the slot is finished; once per slot.
	Finish(slot uint64)
	// Prefix returns the offset to commit: one past the last record of the finished prefix, with that record's epoch; ok is
	// false while there is none. It never goes back. open is the number of records at and after the first unfinished one.
	Prefix() (next int64, epoch int32, open int, ok bool)
}

// PrefixTracker is a Tracker over a ring of the records since the first unfinished one. It goes by the fetched records, not by
// offset arithmetic, since offsets have gaps (compaction, transaction markers).
type PrefixTracker struct {
	ring []trackedRecord // its length is a power of two
	head uint64          // slot of the first unfinished record
	tail uint64          // slot of the next record
	next int64
	// epoch is the leader epoch of the last record of the prefix.
	epoch int32
	ok    bool
}

type trackedRecord struct {
	offset int64
	epoch  int32
	done   bool
}

// NewPrefixTracker returns a tracker of an assignment of which nothing was fetched yet.
func NewPrefixTracker() *PrefixTracker { return &PrefixTracker{ring: make([]trackedRecord, 64)} }

// Add implements Tracker.
func (t *PrefixTracker) Add(offset int64, epoch int32) uint64 {
	if t.tail-t.head == uint64(len(t.ring)) {
		t.grow()
	}
	slot := t.tail
	*t.at(slot) = trackedRecord{offset: offset, epoch: epoch}
	t.tail++
	return slot
}

func (t *PrefixTracker) at(slot uint64) *trackedRecord { return &t.ring[slot&uint64(len(t.ring)-1)] }

func (t *PrefixTracker) grow() {
	wider := &PrefixTracker{ring: make([]trackedRecord, 2*len(t.ring))}
	for slot := t.head; slot < t.tail; slot++ {
		*wider.at(slot) = *t.at(slot)
	}
	t.ring = wider.ring
}

// Finish implements Tracker.
func (t *PrefixTracker) Finish(slot uint64) {
	if slot < t.head || slot >= t.tail {
		return
	}
	t.at(slot).done = true
	for t.head < t.tail && t.at(t.head).done {
		// After a truncation of the log records come at lower offsets again: the prefix waits where it was.
		if first := t.at(t.head); !t.ok || first.offset >= t.next {
			t.next, t.epoch, t.ok = first.offset+1, first.epoch, true
		}
		t.head++
	}
}

// Prefix implements Tracker.
func (t *PrefixTracker) Prefix() (next int64, epoch int32, open int, ok bool) {
	return t.next, t.epoch, int(t.tail - t.head), t.ok
}
