package consumer

// Tracker knows which records of one assignment of one partition are finished, and how far the partition may be
// committed. It is used by one goroutine.
type Tracker interface {
	// Add records a fetched record and returns the slot for finishing it. Records are added in the order in which
	// they were fetched.
	Add(offset int64, epoch int32) (slot uint64)
	// Finish marks the record in the slot as finished. It is called once per slot.
	Finish(slot uint64)
	// Prefix returns the finished prefix and at most the given number of finished ranges beyond it.
	Prefix(ranges int) Prefix
}

// Prefix is the finished part of an assignment.
type Prefix struct {
	// Next is the offset to commit: one past the last record of the finished prefix, with that record's leader epoch.
	// It never decreases. While no record is finished it is the first record's own offset, with epoch -1, and OK is
	// false.
	Next  int64
	Epoch int32
	OK    bool
	// Open is the number of records at and after the first unfinished one. Beyond are the finished ones among them,
	// ascending.
	Open   int
	Beyond []Range
}

// Range is a range of consecutive offsets, both ends included.
type Range struct{ First, Last int64 }

// PrefixTracker is a Tracker over a ring of the records since the first unfinished one. It uses the fetched records
// and not offset arithmetic, because offsets have gaps (compaction, transaction markers).
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

// NewPrefixTracker returns the tracker of an assignment without fetched records.
func NewPrefixTracker() *PrefixTracker { return &PrefixTracker{ring: make([]trackedRecord, 64)} }

// Add implements Tracker.
func (t *PrefixTracker) Add(offset int64, epoch int32) uint64 {
	if t.tail-t.head == uint64(len(t.ring)) {
		t.grow()
	}
	slot := t.tail
	if slot == 0 {
		t.next, t.epoch = offset, -1
	}
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
		// After a truncation of the log, records come at lower offsets again. The prefix then stays where it was.
		if first := t.at(t.head); !t.ok || first.offset >= t.next {
			t.next, t.epoch, t.ok = first.offset+1, first.epoch, true
		}
		t.head++
	}
}

// Prefix implements Tracker.
func (t *PrefixTracker) Prefix(ranges int) Prefix {
	return Prefix{Next: t.next, Epoch: t.epoch, OK: t.ok, Open: int(t.tail - t.head), Beyond: t.beyond(ranges)}
}

func (t *PrefixTracker) beyond(limit int) []Range {
	var ranges []Range
	last := t.next - 1
	for slot := t.head; slot < t.tail && limit > 0; slot++ {
		record := t.at(slot)
		// After a truncation of the log, records come at lower offsets again. The state of the higher offsets does
		// not apply to them.
		if !record.done || record.offset <= last {
			continue
		}
		if n := len(ranges); n > 0 && record.offset == last+1 {
			ranges[n-1].Last = record.offset
		} else if n == limit {
			break
		} else {
			ranges = append(ranges, Range{record.offset, record.offset})
		}
		last = record.offset
	}
	return ranges
}
