package assertions

// The threads of a process that has several. Which partitions share a thread is not seen, but which do not: two whose
// attempts overlap, or where one is attempted while a failure in the other would block a common thread. Partitions that
// were never seen apart may share one.
//
//	partition 0  ─ fails ── its wait ─▶ …                      partition 2 is attempted in the wait of partition 0,
//	partition 1                        ─ fails ── its wait ─▶  so another thread has it; partition 1 never is, so it
//	partition 2       ─ ok ─ ok ─ ok ─ ok ─ ok ─ ok ─ ok ─     may be why partition 0 is late
//
// Spring's listener container with a concurrency of 2 works this way.

import (
	"slices"
	"time"
)

// shares is the activity of a process by partition.
type shares struct {
	index map[assignment]int
	parts []share
	// latest is the latest start of an attempt; waiting counts the partitions whose wait may block their thread.
	latest  time.Duration
	waiting int
	// before holds what each partition had spent when a waiting record failed.
	before map[int32][]time.Duration
}

// assignment is a partition from one assignment to the next: then it may go to another thread.
type assignment struct {
	place
	epoch uint32
}

// share is the activity of a process in one partition.
type share struct {
	// spent is the time of its attempts and calls, of what follows them, and of the waits that blocked their thread.
	spent time.Duration
	// last is the record of the latest attempt to end.
	last int32
	// started is the latest start of an attempt. A failed one ended at the time ended; wait is how long it may block the
	// thread since, zero if it does not.
	started, ended time.Duration
	wait           pause
	// apart are the partitions that another thread has. It contains the partition itself if several threads have it.
	apart map[int]bool
}

// beside is what a process did in its partitions between two attempts of a record of the partition part.
type beside struct {
	in    *shares
	part  int
	spent []time.Duration
}

func newShares() shares {
	return shares{index: map[assignment]int{}, latest: never, before: map[int32][]time.Duration{}}
}

func (s *shares) part(of assignment) int {
	i, known := s.index[of]
	if !known {
		i = len(s.parts)
		s.index[of] = i
		s.parts = append(s.parts, share{last: none, started: never, ended: never, apart: map[int]bool{}})
	}
	return i
}

func (s *shares) separate(a, b int) {
	s.parts[a].apart[b], s.parts[b].apart[a] = true, true
}

// start notes an attempt, and returns what was done since its record failed; nil if it had not failed. An attempt that
// may be of an earlier assignment shows no threads. inHand: the process had been handed the record before.
func (s *shares) start(a *attempt, of assignment, inHand bool) *beside {
	part := s.part(of)
	if inHand && len(s.before) > 0 {
		s.parts[part].spent += s.between(part, a.start)
	}
	for i := 0; i < len(s.parts) && s.waiting > 0; i++ {
		one := &s.parts[i]
		switch {
		case one.wait.least == 0 || i != part && one.apart[part]:
		case i == part || a.start >= one.ended+shortened(one.wait.least):
			one.spent += min(max(a.start-one.ended, 0), one.wait.most)
			s.await(one, pause{})
		case !a.stray && !a.early:
			s.separate(i, part)
		}
	}
	s.parts[part].started, s.latest = a.start, a.start
	before, known := s.before[a.number]
	if !known {
		return nil
	}
	delete(s.before, a.number)
	done := &beside{in: s, part: part, spent: make([]time.Duration, len(s.parts))}
	for i := range s.parts {
		done.spent[i] = s.parts[i].spent
		if i < len(before) {
			done.spent[i] -= before[i]
		}
	}
	return done
}

// between is the time since the thread of the partition may have ended something, unless that is a wait.
func (s *shares) between(part int, now time.Duration) time.Duration {
	ended := never
	for i := range s.parts {
		one := &s.parts[i]
		if i != part && one.apart[part] {
			continue
		}
		if one.wait.least > 0 {
			return 0
		}
		ended = max(ended, one.ended)
	}
	if ended == never || now < ended {
		return 0
	}
	return min(now-ended, refetch)
}

// written notes the answer to a write for a record of the partition, after its attempts.
func (s *shares) written(record int32, of assignment, now time.Duration) {
	if one := &s.parts[s.part(of)]; one.last == record && one.wait.least == 0 {
		one.spent += max(now-one.ended, 0)
		one.ended = now
	}
}

func (s *shares) await(one *share, wait pause) {
	if one.wait.least > 0 {
		s.waiting--
	}
	if one.wait = wait; wait.least > 0 {
		s.waiting++
	}
}

// end notes the end of an attempt. An uncertain one shows no threads: the subject may have given up waiting for the
// answer long before, or have no wait left after it.
func (s *shares) end(a *attempt, of assignment, wait pause, settled, certain bool) {
	part := s.part(of)
	if certain && s.latest > a.start {
		for i := range s.parts {
			if s.parts[i].started > a.start {
				s.separate(i, part)
			}
		}
	}
	one := &s.parts[part]
	one.spent += a.end - a.start
	one.last, one.ended = a.number, a.end
	if !certain {
		wait.least = min(wait.least, 1) // it may block the thread, but need not
	}
	if s.await(one, wait); settled {
		return
	}
	before := make([]time.Duration, len(s.parts))
	for i := range s.parts {
		before[i] = s.parts[i].spent
	}
	s.before[a.number] = before
}

// others is the time spent in other partitions that may share the thread of the record.
func (b *beside) others() (sum time.Duration) {
	apart := b.in.parts[b.part].apart
	if apart[b.part] {
		return 0 // whichever thread has time takes its records
	}
	for i, spent := range b.spent {
		if i != b.part && !apart[i] && !b.in.parts[i].apart[i] {
			sum += spent
		}
	}
	return sum
}

// epochOf counts the assignments of the record's partition.
func (w *state) epochOf(number int32) uint32 {
	if p := w.home(number, w.record(number)); p != nil {
		return p.epoch
	}
	return 0
}

// allowThreads lets gaps be longer by what the thread of their record did in other partitions.
func (c *backoff) allowThreads() {
	c.gaps = slices.DeleteFunc(c.gaps, func(g gap) bool {
		return !g.early && !g.usual && g.beside != nil && g.length <= g.most+g.beside.others()
	})
	for i := range c.gaps {
		if g := &c.gaps[i]; g.beside != nil && !g.early {
			spent := g.beside.others()
			g.most, g.others = g.most+spent, g.others+spent
		}
	}
}
