package assertions

import (
	"github.com/dlqbench/dlqbench/history"
)

// busyCases check that a wait is late only by the time in which its record could have been attempted.
func busyCases() []testCase {
	const failed = history.OutcomeTransient
	two := func(b *builder) *builder { return b.begin().sendTo(0, 0, 0).sendTo(1, 1, 1).sendTo(2, 1, 2) }
	ends := func(b *builder) history.Source { return b.success(0).commitAll().drain().done() }
	// waitsForAnother: the thread processes record 1 until that is dead-lettered.
	waitsForAnother := func(b *builder) *builder {
		return b.attempt(1, failed).wait(105*ms).attempt(1, failed).wait(205*ms).attempt(1, failed).letter(1)
	}
	// twoThreads: record 0 fails while the other thread tries record 3.
	twoThreads := func(b *builder) *builder {
		two(b).sendTo(3, 2, 3)
		first, other := b.start(0), b.start(3)
		b.end(other, 3, history.OutcomeSuccess)
		b.end(first, 0, failed)
		return b
	}
	copies := func(b *builder) *builder {
		b.h.Contract().Retry, b.h.Contract().Counter, b.h.Contract().Ordering = history.RetryTopics, history.CounterHeader,
			history.OrderingNone
		b.begin().send(0).send(1)
		b.fails(0, 1).retryCopy(0).fails(1, 1).retryCopy(1)
		return b.wait(105 * ms)
	}
	// behind has the copy of record 0 come due while the process is busy with twenty others. before and try are called for
	// each of them: before record 0 is tried first, and when its copy is written.
	behind := func(b *builder, before, try func(number int32)) history.Source {
		b.h.Contract().Retry, b.h.Contract().Counter, b.h.Contract().Ordering = history.RetryTopics, history.CounterHeader,
			history.OrderingNone
		b.begin().send(0)
		for number := range int32(20) {
			before(number + 1)
		}
		b.fails(0, 1).retryCopy(0)
		for number := range int32(20) {
			try(number + 1)
		}
		return b.success(0).commitAll().commitCopies(0).drain().done()
	}
	nothing := func(int32) {}
	slow := func(b *builder) func(int32) {
		return func(n int32) {
			other := b.sendTo(n, 1, n).start(n)
			b.wait(30*ms).end(other, n, history.OutcomeSuccess)
		}
	}
	return []testCase{
		{"late, in a retry topic, as the process works through what it has in hand", nil,
			func(b *builder) history.Source {
				return behind(b, func(n int32) { b.sendTo(n, 1, n) }, func(n int32) { b.wait(30 * ms).success(n) })
			}},
		{"late, in a retry topic, and the process tries others as they come", []string{"backoff-late"},
			func(b *builder) history.Source {
				return behind(b, nothing, func(n int32) { b.wait(30*ms).sendTo(n, 1, n).success(n) })
			}},
		{"late, in a retry topic, and the process tries others as they come, two at a time", []string{"backoff-late"},
			func(b *builder) history.Source {
				return behind(b, nothing, func(n int32) {
					if n%2 == 0 {
						b.wait(60*ms).sendTo(n-1, 1, n).sendTo(n, 1, n).success(n - 1).success(n)
					}
				})
			}},
		{"late, in a retry topic, as others that come take long", nil, func(b *builder) history.Source {
			return behind(b, nothing, slow(b))
		}},
		{"late, in a retry topic, of a process that tries several at once", []string{"backoff-late"},
			func(b *builder) history.Source {
				return behind(b, func(n int32) { b.sendTo(n, 1, n) }, func(n int32) {
					if n%2 == 0 {
						first, other := b.wait(60*ms).start(n-1), b.start(n)
						b.end(first, n-1, history.OutcomeSuccess)
						b.end(other, n, history.OutcomeSuccess)
					}
				})
			}},
		{"late, in a retry topic, and the process had worked before it failed", []string{"backoff-late"},
			func(b *builder) history.Source {
				return behind(b, slow(b), func(int32) { b.wait(30 * ms) })
			}},
		{"late, in a retry topic, and the process stands still with another in hand", []string{"backoff-late"},
			func(b *builder) history.Source {
				return behind(b, func(n int32) { b.sendTo(n, 1, n) }, func(n int32) {
					if n == 20 {
						b.wait(2000 * ms)
					}
					b.success(n)
				})
			}},
		// Spring's DefaultErrorHandler: it waits in its only thread, seeks back, and is handed another partition.
		{"late, as the only thread has another partition's record", nil, func(b *builder) history.Source {
			return ends(waitsForAnother(two(b).attempt(0, failed).wait(105 * ms)).success(2))
		}},
		// It turns to record 1 while record 0 waits, so waits do not block it.
		{"late, in a process that goes on with the partition while a record waits", []string{"backoff-late"},
			func(b *builder) history.Source {
				b.begin().sendTo(0, 0, 0).sendTo(1, 0, 1).sendTo(2, 1, 2)
				return ends(waitsForAnother(b.attempt(0, failed)).success(2))
			}},
		{"late, and others are tried in between, which takes no time", []string{"backoff-late"},
			func(b *builder) history.Source {
				two(b).attempt(0, failed).wait(105 * ms).success(1).wait(150 * ms).success(2).wait(150 * ms)
				return ends(b)
			}},
		{"late, and idle for long after another partition's record", []string{"backoff-late"},
			func(b *builder) history.Source {
				return ends(waitsForAnother(two(b).attempt(0, failed).wait(105 * ms)).success(2).wait(200 * ms))
			}},
		{"late, in a process that tries several at once", []string{"backoff-late"}, func(b *builder) history.Source {
			two(b)
			first, other := b.start(0), b.start(2)
			b.end(other, 2, history.OutcomeSuccess)
			b.end(first, 0, failed)
			return ends(waitsForAnother(b.wait(105 * ms)))
		}},
		// Spring's listener container with two threads, the first of which has the partitions of records 0 and 1.
		{"late, as one of two threads has another partition's record", nil, func(b *builder) history.Source {
			return ends(waitsForAnother(twoThreads(b).wait(105 * ms)).success(2))
		}},
		{"late, as the only thread calls another downstream for another partition's record", nil,
			func(b *builder) history.Source {
				two(b.withOthers()).attempt(0, failed).wait(105 * ms)
				return ends(b.success(1).slowCall(ledger, 1, history.OutcomeSuccess, 0, 300*ms).success(2))
			}},
		{"late, as one of two threads calls another downstream for another partition's record", nil,
			func(b *builder) history.Source {
				twoThreads(b.withOthers()).wait(105 * ms)
				return ends(b.success(1).slowCall(ledger, 1, history.OutcomeSuccess, 0, 300*ms).success(2))
			}},
		{"late, and another partition's record is tried in its wait, so by another thread", []string{"backoff-late"},
			func(b *builder) history.Source {
				return ends(waitsForAnother(twoThreads(b).success(2).wait(105 * ms)))
			}},
		{"late, and another partition's record is first tried in its wait long after", []string{"backoff-late"},
			func(b *builder) history.Source {
				waitsForAnother(twoThreads(b).wait(105*ms)).success(2).success(0).sendTo(4, 0, 4).sendTo(5, 1, 5)
				return b.attempt(4, failed).success(5).wait(105 * ms).success(4).commitAll().drain().done()
			}},
		{"late, and idle for long after the record of its thread", []string{"backoff-late"},
			func(b *builder) history.Source {
				return ends(waitsForAnother(twoThreads(b).wait(105 * ms)).success(2).wait(400 * ms))
			}},
		{"late, and two threads have its partition", []string{"backoff-late"}, func(b *builder) history.Source {
			b.h.Contract().Ordering = history.OrderingNone
			b.begin().sendTo(0, 0, 0).sendTo(1, 1, 1).sendTo(2, 1, 2).sendTo(3, 0, 3)
			first, other := b.start(0), b.start(3)
			b.end(other, 3, history.OutcomeSuccess)
			b.end(first, 0, failed)
			return ends(waitsForAnother(b.wait(105 * ms)).success(2))
		}},
		{"late, in a retry topic, behind a copy that takes long", nil, func(b *builder) history.Source {
			slow := copies(b).start(0)
			b.wait(300*ms).end(slow, 0, history.OutcomeSuccess)
			return b.success(1).commitCopies(0).commit(2).drain().done()
		}},
		{"late, in a retry topic, as each copy takes a fetch", nil, func(b *builder) history.Source {
			copies(b).success(0).wait(500 * ms)
			return b.success(1).commitCopies(0).commit(2).drain().done()
		}},
		{"late, in a retry topic, as all copies are", []string{"backoff-late"}, func(b *builder) history.Source {
			copies(b).wait(500 * ms).success(0)
			return b.success(1).commitCopies(0).commit(2).drain().done()
		}},
		{"late, in a retry topic, long after the copy before", []string{"backoff-late"}, func(b *builder) history.Source {
			return copies(b).success(0).wait(900 * ms).success(1).commitCopies(0).commit(2).drain().done()
		}},
		{"late, in a retry topic, behind a copy whose dead letter takes long", nil, func(b *builder) history.Source {
			asked := copies(b).attempt(0, history.OutcomePermanent).askLetter(0)
			b.wait(1500*ms).answerLetter(asked, 0, 0)
			return b.success(1).commitCopies(0).commit(2).drain().done()
		}},
		{"late, in a retry topic, long after the dead letter of the copy before", []string{"backoff-late"},
			func(b *builder) history.Source {
				copies(b).attempt(0, history.OutcomePermanent).letter(0)
				return b.wait(1500 * ms).success(1).commitCopies(0).commit(2).drain().done()
			}},
		// Spring asks for the metadata of the dead-letter topic, for which it waits behind a pending fetch.
		{"late, in a retry topic, behind copies that have no readable id", nil, func(b *builder) history.Source {
			copies(b).success(0).wait(450 * ms)
			b.end(b.start(history.None), history.None, history.OutcomeUnknownID)
			return b.wait(450 * ms).success(1).commitCopies(0).commit(2).drain().done()
		}},
		{"late, in a retry topic, long after a copy that has no readable id", []string{"backoff-late"},
			func(b *builder) history.Source {
				copies(b).success(0)
				b.end(b.start(history.None), history.None, history.OutcomeUnknownID)
				return b.wait(1500 * ms).success(1).commitCopies(0).commit(2).drain().done()
			}},
	}
}
