package assertions

// The other work of a process in a gap. A wait is late only by the time in which the record could have been attempted.
// A process that does one thing at a time attempts the records of its other partitions first, and a copy in a retry
// topic waits for the copies before it.
//
//	record 7 fails ─▶ (its wait) ─▶ record 9 of another partition is delivered first, fails, and occupies the thread for
//	    its own wait ─▶ record 7 is attempted
//
// Spring's DefaultErrorHandler works this way: it waits in the listener's thread and seeks all partitions back, and the
// next poll may return any of them. With several threads, that holds for the partitions of each (backoff_threads.go).
//
// Its time for a record is not that of the attempt alone: it also decodes, writes the dead letter and commits. So the
// time from one attempt to the next counts, too, if it had been handed the next record by then. If it had not, it was
// idle.

import (
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// busy is the known activity of processes.
type busy struct {
	threads map[holder]*thread
	queues  map[retryLane]*queue
	// tried are the retry topics of the copies that each process attempted last of a record.
	tried map[theirs]int16
	// solos are processes with retry topics; see backoff_solo.go.
	solos map[holder]*solo
	// ended is when each process ended what it did last.
	ended   map[holder]time.Duration
	fetches map[handed]fetch
}

// handed identifies a partition at a process.
type handed struct {
	by   holder
	from place
}

// fetch is the first one of a partition since its process ended what it did last. The process had been handed the
// records up to the offset had before; last is the latest offset since.
type fetch struct {
	at        time.Duration
	had, last int64
}

// retryLane identifies a retry topic at a process.
type retryLane struct {
	by    holder
	topic int16
}

// thread is the activity of a process, on the assumption that it does one thing at a time.
type thread struct {
	open int // attempts under way
	// several: two attempts were under way at once, so no record has to wait for another.
	several bool
	// spent is the total time of its attempts and calls, and of the waits after them in which it did nothing else.
	spent time.Duration
	// last is the record of its latest attempt to end, in the partition lane, and wait how long that record may have
	// blocked the process.
	last int32
	lane place
	wait pause
	// blocked and free count the waits after which, or in which, another record was attempted. A wait counts as free only
	// if that record is of the same partition: another one may belong to another thread of the process.
	blocked, free int
	// failed holds the waiting records, with the value of spent at the latest time when their own wait was over.
	failed map[int32]time.Duration
	shares
}

// pause is the shortest and the longest time for which a failed record may block its process. The zero value is no
// wait.
type pause struct{ least, most time.Duration }

func newBusy() busy {
	return busy{threads: map[holder]*thread{}, queues: map[retryLane]*queue{}, tried: map[theirs]int16{},
		solos: map[holder]*solo{}, ended: map[holder]time.Duration{}, fetches: map[handed]fetch{}}
}

func (b *busy) of(by holder) *thread {
	t := b.threads[by]
	if t == nil {
		t = &thread{last: none, failed: map[int32]time.Duration{}, shares: newShares()}
		b.threads[by] = t
	}
	return t
}

// start notes an attempt of a record of the partition lane, and returns for how long the process was busy with others
// since that record failed, or if it has several threads, what it did beside. between is how long it was busy since it
// ended something.
func (b *busy) start(a *attempt, lane assignment, between time.Duration) (time.Duration, *beside) {
	t := b.of(a.by)
	done := t.shares.start(a, lane, between > 0)
	t.several = t.several || t.open > 0
	t.open++
	if t.last != none {
		t.passed(a, lane.place, max(a.start-b.ended[a.by], 0), between)
		if _, waits := t.failed[t.last]; waits {
			t.failed[t.last] = t.spent // the time until now was its own wait
		}
		t.last = none
	}
	since, known := t.failed[a.number]
	delete(t.failed, a.number)
	switch {
	case t.several:
		return 0, done
	case !known:
		return 0, nil
	}
	return t.spent - since, nil
}

// passed notes the time between the latest attempt and the next one. A process that mostly attempts other records of
// the partition while one waits is not blocked by waits: a record that it attempts late is late on its own account.
func (t *thread) passed(next *attempt, lane place, took, between time.Duration) {
	spent := min(took, t.wait.most)
	switch _, again := t.failed[next.number]; {
	case t.wait.least <= 0 && again: // from here on it is the record's own time
	case t.wait.least <= 0:
		spent = between
	case next.number == t.last:
	case took >= t.wait.least:
		t.blocked++
	case lane == t.lane:
		t.free++
	}
	if t.free <= t.blocked {
		t.spent += spent
	}
}

// end notes the end of an attempt of a record of the partition lane, which is tried again after the wait unless it is
// settled.
func (b *busy) end(a *attempt, lane assignment, wait pause, settled, certain bool) {
	t := b.of(a.by)
	t.shares.end(a, lane, wait, settled, certain)
	t.open = max(t.open-1, 0)
	t.spent += a.end - a.start
	t.last, t.lane, t.wait = a.number, lane.place, wait
	if !settled {
		t.failed[a.number] = t.spent
	}
}

// called notes a call of another downstream for a record of the partition lane.
func (b *busy) called(by holder, lane assignment, took time.Duration) {
	t := b.of(by)
	t.spent += took
	t.parts[t.part(lane)].spent += took
}

// queue is a retry topic at a process, whose copies are attempted one after another.
type queue struct {
	// start and end are the times of the last attempt; end is never while it is under way.
	start, end time.Duration
	// free is when a process that is never late could have attempted the last copy.
	free time.Duration
	// unread is the time for attempts since then whose record is not known: they may be those of copies.
	unread time.Duration
}

// copied notes that the process attempts a copy that was due, and returns how long after the due time the attempt was
// possible: the copies before it take the time of their attempts and of a fetch each. A process that is late with each
// of them gains no allowance from that.
func (b *busy) copied(by holder, topic int16, due, now time.Duration) time.Duration {
	at := retryLane{by, topic}
	last, free := b.queues[at], due
	if last != nil {
		took := refetch + last.unread
		if last.end != never {
			took += last.end - last.start
		}
		free = max(due, last.free+min(now-last.start, took))
	}
	b.queues[at] = &queue{start: now, end: never, free: free}
	return free - due
}

// unreadable notes an attempt of a process whose record is not known, such as one at a value without an id.
func (b *busy) unreadable(by holder) {
	for at, q := range b.queues {
		if at.by == by {
			q.unread += refetch
		}
	}
}

// written notes the answer to a write for a record. A failed one is not over until its dead letter or its next copy is
// there.
func (b *busy) written(by holder, record int32, lane assignment, now time.Duration) {
	if topic, copied := b.tried[theirs{by, record}]; copied {
		b.copyEnded(by, topic, now)
	}
	t := b.threads[by]
	if t == nil {
		return
	}
	if t.last == record && t.wait == (pause{}) {
		t.spent += max(now-b.ended[by], 0)
		b.ended[by] = now
	}
	t.shares.written(record, lane, now)
}

// copyEnded notes the end of an attempt of a copy, or of what follows it.
func (b *busy) copyEnded(by holder, topic int16, now time.Duration) {
	if last := b.queues[retryLane{by, topic}]; last != nil {
		last.end = now
	}
}

// fetched notes what a process is handed.
func (b *busy) fetched(e *history.Event) {
	by := holder{e.Instance, e.Run}
	at := handed{by, place{e.Topic, e.Partition, none}}
	f, known := b.fetches[at]
	if !known {
		f.last = e.Offset - 1
	}
	if !known || f.at <= b.ended[by] {
		f.at, f.had = e.Time, f.last
	}
	f.last = max(f.last, e.Aux)
	b.fetches[at] = f
}

// between is how long the process was busy from what it ended last until it attempts the record at the place: if it had
// not been handed that before, it was idle.
func (b *busy) between(by holder, at place, now time.Duration) time.Duration {
	ended, known := b.ended[by]
	f, fetched := b.fetches[handed{by, place{at.topic, at.partition, none}}]
	if !known || fetched && f.at > ended && at.offset > f.had {
		return 0
	}
	return min(max(now-ended, 0), refetch)
}
