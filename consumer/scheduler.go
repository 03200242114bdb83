package consumer

import (
	"container/heap"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// task is a fetched record that is being processed. The loop owns it. A worker only reads record.
type task struct {
	record *kgo.Record
	home   *partition
	slot   uint64
	// attempts is the number of calls of the handler for the record.
	attempts int
	// origin is the record's original position and the number of attempts before this delivery. Unless the record is
	// a retry copy, that is its own position and 0.
	origin Origin
	// letter is the record to publish after the failure: the dead letter or the retry copy. tries is the number of
	// times that it was rejected.
	letter *kgo.Record
	tries  int

	phase phase
	// line is the line in which the task waits (nil: it waits for no other task). next is the following task in it.
	line *line
	next *task
	// due is the time at which the task leaves the heap, place its index in the heap (-1: not in the heap).
	due   time.Time
	place int
}

// phase is the state of a task.
type phase uint8

const (
	queued     phase = iota // waits for the task before it in its line, or is ready
	running                 // a worker has it
	waiting                 // in backoff before its next attempt
	publishing              // the Parker has its dead letter; due = when it counts as unacknowledged
	refused                 // in backoff before its dead letter is published again
)

// line is a queue of tasks that must be processed one after another: those of one key, or of one partition. The first
// one is in progress.
type line struct {
	home  *partition
	lane  uint64
	first *task
	last  *task
}

type lineKey struct {
	home *partition
	lane uint64
}

// scheduler determines the next task: due retries before fresh records, and never two tasks of one line at a time. A
// waiting task delays only its own line. The scheduler has no goroutine and no clock. The loop drives it.
type scheduler struct {
	lines map[lineKey]*line
	fresh fifo
	due   fifo
	timed taskHeap
}

func newScheduler() *scheduler { return &scheduler{lines: map[lineKey]*line{}} }

// add adds a fresh task. If ordered is true, the task waits for the others in its lane.
func (s *scheduler) add(t *task, lane uint64, ordered bool) {
	t.phase, t.place = queued, -1
	if !ordered {
		s.fresh.push(t)
		return
	}
	key := lineKey{t.home, lane}
	if l := s.lines[key]; l != nil {
		t.line = l
		l.last.next, l.last = t, t
		return
	}
	t.line = &line{home: t.home, lane: lane, first: t, last: t}
	s.lines[key] = t.line
	s.fresh.push(t)
}

// next returns the task to try now, or nil.
func (s *scheduler) next() *task {
	if t := s.due.pop(); t != nil {
		return t
	}
	return s.fresh.pop()
}

// later sets the task's timer.
func (s *scheduler) later(t *task, phase phase, due time.Time) {
	s.cancel(t)
	t.phase, t.due = phase, due
	heap.Push(&s.timed, t)
}

// cancel removes the task's timer, if one is set.
func (s *scheduler) cancel(t *task) {
	if t.place >= 0 {
		heap.Remove(&s.timed, t.place)
	}
}

// expired returns the next task whose timer has expired, or nil.
func (s *scheduler) expired(now time.Time) *task {
	if len(s.timed) == 0 || s.timed[0].due.After(now) {
		return nil
	}
	t, _ := heap.Pop(&s.timed).(*task)
	return t
}

// ready makes a task that has waited the next one to be tried.
func (s *scheduler) ready(t *task) {
	t.phase = queued
	s.due.push(t)
}

// release ends the task's turn. The next task in its line becomes ready.
func (s *scheduler) release(t *task) {
	s.cancel(t)
	l := t.line
	if l == nil || l.first != t {
		return
	}
	key := lineKey{l.home, l.lane}
	if s.lines[key] != l {
		return // its partition was removed
	}
	if l.first = t.next; l.first == nil {
		delete(s.lines, key)
		return
	}
	s.fresh.push(l.first)
}

// forget removes all tasks of a partition. Tasks of a worker or the Parker return to the loop, but nothing follows.
// Tasks of the Parker keep their timer: an unacknowledged dead letter must be reported, whichever member owns the
// partition by then.
func (s *scheduler) forget(home *partition) {
	maps.DeleteFunc(s.lines, func(key lineKey, _ *line) bool { return key.home == home })
	s.fresh.remove(home)
	s.due.remove(home)
	kept := s.timed[:0]
	for _, t := range s.timed {
		if t.home == home && t.phase != publishing {
			t.place = -1
			continue
		}
		kept = append(kept, t)
	}
	clear(s.timed[len(kept):])
	s.timed = kept
	for i, t := range s.timed {
		t.place = i
	}
	heap.Init(&s.timed)
}

// inPhase returns the tasks of a partition that have a timer and are in the phase.
func (s *scheduler) inPhase(home *partition, phase phase) []*task {
	var found []*task
	for _, t := range s.timed {
		if t.home == home && t.phase == phase {
			found = append(found, t)
		}
	}
	return found
}

// wake returns the time at which the next timer expires. ok is false if none is set.
func (s *scheduler) wake() (at time.Time, ok bool) {
	if len(s.timed) == 0 {
		return time.Time{}, false
	}
	return s.timed[0].due, true
}

// fifo is a queue of tasks.
type fifo struct {
	tasks []*task
	head  int
}

func (f *fifo) push(t *task) { f.tasks = append(f.tasks, t) }

func (f *fifo) pop() *task {
	if f.head == len(f.tasks) {
		return nil
	}
	t := f.tasks[f.head]
	f.tasks[f.head] = nil
	f.head++
	if f.head == len(f.tasks) {
		f.tasks, f.head = f.tasks[:0], 0
	} else if f.head >= 1024 && f.head*2 >= len(f.tasks) {
		// Without this, a queue that never becomes empty would grow without limit.
		n := copy(f.tasks, f.tasks[f.head:])
		clear(f.tasks[n:])
		f.tasks, f.head = f.tasks[:n], 0
	}
	return t
}

func (f *fifo) remove(home *partition) {
	kept := f.tasks[:0]
	for _, t := range f.tasks[f.head:] {
		if t.home != home {
			kept = append(kept, t)
		}
	}
	clear(f.tasks[len(kept):])
	f.tasks, f.head = kept, 0
}

// taskHeap orders tasks by due time, for container/heap.
type taskHeap []*task

func (h taskHeap) Len() int           { return len(h) }
func (h taskHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h taskHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements heap.Interface.
func (h *taskHeap) Push(x any) {
	t, _ := x.(*task)
	t.place = len(*h)
	*h = append(*h, t)
}

// Pop implements heap.Interface.
func (h *taskHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.place = -1
	return t
}
