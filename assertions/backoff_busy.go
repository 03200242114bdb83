package assertions

// What else a process had to do in a gap. A wait is late only by the time in which the record could have been tried: a
// process that does one thing at a time tries the records of its other partitions first, and a copy in a retry topic
// waits for those before it.
//
//	record 7 fails ─▶ (its wait) ─▶ record 9 of another partition is handed out first, fails, and has the thread for its
//	    own wait ─▶ record 7 is tried
//
// Spring's DefaultErrorHandler works like that: it waits in the listener's thread and seeks all partitions back, and
// the next poll may return any of them.

import "time"

// busy is what is known of what processes do.
type busy struct {
	threads map[holder]*thread
	queues  map[retryLane]*queue
}

// retryLane is a retry topic at a process.
type retryLane struct {
	by    holder
	topic int16
}

// thread is a process as far as it does one thing at a time.
type thread struct {
	open int // attempts under way
	// several: two were under way at once, so that no record has to wait for another.
	several bool
	// spent is the time that its attempts took, and the waits after them in which it did nothing else.
	spent time.Duration
	// last is its last attempt to end: its record, its end, and how long its record may have kept it waiting.
	last  int32
	ended time.Duration
	most  time.Duration
	// failed are the records that wait, with spent as it was when their own wait was over at the latest.
	failed map[int32]time.Duration
}

func newBusy() busy { return busy{threads: map[holder]*thread{}, queues: map[retryLane]*queue{}} }

func (b *busy) of(by holder) *thread {
	t := b.threads[by]
	if t == nil {
		t = &thread{last: none, failed: map[int32]time.Duration{}}
		b.threads[by] = t
	}
	return t
}

// start notes that the process attempts a record, and returns for how long it was busy with others since that failed.
func (b *busy) start(a *attempt) time.Duration {
	t := b.of(a.by)
	t.several = t.several || t.open > 0
	t.open++
	if t.last != none {
		t.spent += min(max(a.start-t.ended, 0), t.most)
		if _, waits := t.failed[t.last]; waits {
			t.failed[t.last] = t.spent // what came until now was its own wait
		}
		t.last = none
	}
	since, known := t.failed[a.number]
	delete(t.failed, a.number)
	if !known || t.several {
		return 0
	}
	return t.spent - since
}

// end notes the end of an attempt after which its record may wait so long; negative: it does not wait.
func (b *busy) end(a *attempt, most time.Duration) {
	t := b.of(a.by)
	t.open = max(t.open-1, 0)
	t.spent += a.end - a.start
	t.last, t.ended, t.most = a.number, a.end, max(most, 0)
	if most >= 0 {
		t.failed[a.number] = t.spent
	}
}

// queue is a retry topic at a process, whose copies are tried one after another.
type queue struct {
	// start and end are those of the last attempt, end never while it is under way.
	start, end time.Duration
	// free is when the last copy could have been tried by a process that is never late.
	free time.Duration
}

// copied notes that the process tries a copy that was due, and returns how much later than that it could be tried:
// those before it take the time of their attempts and of a fetch each. Whoever is late with each of them is none the
// freer for that.
func (b *busy) copied(by holder, topic int16, due, now time.Duration) time.Duration {
	at := retryLane{by, topic}
	last, free := b.queues[at], due
	if last != nil {
		took := refetch
		if last.end != never {
			took += last.end - last.start
		}
		free = max(due, last.free+min(now-last.start, took))
	}
	b.queues[at] = &queue{start: now, end: never, free: free}
	return free - due
}

// copyEnded notes the end of an attempt of a copy.
func (b *busy) copyEnded(by holder, topic int16, now time.Duration) {
	if last := b.queues[retryLane{by, topic}]; last != nil {
		last.end = now
	}
}
