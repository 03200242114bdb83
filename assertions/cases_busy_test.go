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
	// twoThreads: record 0 fails while the other thread tries record 3. It has more records in hand.
	twoThreads := func(b *builder, more ...int32) *builder {
		two(b).sendTo(3, 2, 3)
		for _, number := range more {
			b.sendTo(number, 2, number)
		}
		first, other := b.start(0), b.start(3)
		b.end(other, 3, history.OutcomeSuccess)
		b.end(first, 0, failed)
		return b
	}
	// backlog has the thread try records 4 to 23 of record 1's partition, 30 ms apart, after record 0 failed. before and
	// try are called for each of them: before record 0 is due, and when its turn comes.
	backlog := func(b *builder, before, try func(number int32)) history.Source {
		for number := range int32(20) {
			before(number + 4)
		}
		b.wait(85 * ms).success(1).success(2)
		for number := range int32(20) {
			try(number + 4)
		}
		return ends(b)
	}
	// slowLetter: the thread processes record 1, whose dead letter takes long.
	slowLetter := func(b *builder) *builder {
		asked := b.wait(105*ms).attempt(1, history.OutcomePermanent).wait(200 * ms).askLetter(1)
		return b.wait(200*ms).answerLetter(asked, 0, 0)
	}
	// letterUnderWay: the thread goes on with record 2 while the dead letter of record 1 is written.
	letterUnderWay := func(b *builder) *builder {
		asked := b.wait(105*ms).attempt(1, history.OutcomePermanent).askLetter(1)
		return b.success(2).wait(400*ms).answerLetter(asked, 0, 0)
	}
	// letterInWait: the thread writes a dead letter of the record too soon, and waits nevertheless.
	letterInWait := func(b *builder, number int32) *builder {
		return b.attempt(number, failed).wait(60 * ms).letter(number).wait(40 * ms)
	}
	nothing := func(int32) {}
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
		{"late, as the only thread works through what it has in hand", nil, func(b *builder) history.Source {
			return backlog(two(b).attempt(0, failed), func(n int32) { b.sendTo(n, 1, n) },
				func(n int32) { b.wait(30 * ms).success(n) })
		}},
		{"late, as one of two threads works through what it has in hand", nil, func(b *builder) history.Source {
			return backlog(twoThreads(b), func(n int32) { b.sendTo(n, 1, n) }, func(n int32) { b.wait(30 * ms).success(n) })
		}},
		{"late, as the only thread works through what it is handed again", nil, func(b *builder) history.Source {
			return backlog(two(b).attempt(0, failed), func(n int32) { b.sendTo(n, 1, n) },
				func(n int32) { b.wait(30 * ms).fetch(n).success(n) })
		}},
		{"late, and the only thread tries others as they come", []string{"backoff-late"}, func(b *builder) history.Source {
			return backlog(two(b).attempt(0, failed), nothing, func(n int32) { b.wait(30*ms).sendTo(n, 1, n).success(n) })
		}},
		{"late, and one of two threads tries others as they come", []string{"backoff-late"},
			func(b *builder) history.Source {
				return backlog(twoThreads(b), nothing, func(n int32) { b.wait(30*ms).sendTo(n, 1, n).success(n) })
			}},
		{"late, as the dead letter of another partition's record takes long", nil, func(b *builder) history.Source {
			return ends(slowLetter(two(b).attempt(0, failed)).success(2))
		}},
		{"late, as the dead letter of a record of one of two threads takes long", nil, func(b *builder) history.Source {
			return ends(slowLetter(twoThreads(b)).success(2))
		}},
		{"late, and idle for long after the dead letter of another partition's record", []string{"backoff-late"},
			func(b *builder) history.Source {
				return ends(slowLetter(two(b).attempt(0, failed)).success(2).wait(300 * ms))
			}},
		{"late, and idle for long after the dead letter of its thread", []string{"backoff-late"},
			func(b *builder) history.Source {
				return ends(slowLetter(twoThreads(b)).success(2).wait(300 * ms))
			}},
		{"late, and idle while another partition's dead letter is under way", []string{"backoff-late"},
			func(b *builder) history.Source { return ends(letterUnderWay(two(b).attempt(0, failed))) }},
		{"late, and idle while a dead letter of its thread is under way", []string{"backoff-late"},
			func(b *builder) history.Source { return ends(letterUnderWay(twoThreads(b))) }},
		{"late, as the only thread waits after dead letters that came too soon", []string{"premature-dead-letter",
			"under-retried"}, func(b *builder) history.Source {
			two(b).sendTo(4, 1, 4).sendTo(5, 1, 5).attempt(0, failed).wait(105 * ms)
			for _, number := range []int32{1, 4, 5} {
				letterInWait(b, number)
			}
			return ends(b.success(2))
		}},
		{"late, as one of two threads waits after a dead letter that came too soon", []string{"premature-dead-letter",
			"under-retried"}, func(b *builder) history.Source {
			return letterInWait(twoThreads(b).wait(105*ms), 1).success(0).success(2).commitAll().drain().done()
		}},
		{"late, as one of two threads works through what it has in hand, beside the other", nil,
			func(b *builder) history.Source {
				others := twoThreads(b, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43)
				return backlog(others, func(n int32) { b.sendTo(n, 1, n) }, func(n int32) {
					if n == 4 {
						own := b.start(n)
						b.success(n+20).end(own, n, history.OutcomeSuccess)
						return
					}
					b.wait(15 * ms).success(n + 20).wait(15 * ms).success(n)
				})
			}},
		{"late, and one of two threads stands still with another in hand", []string{"backoff-late"},
			func(b *builder) history.Source {
				return backlog(twoThreads(b), func(n int32) { b.sendTo(n, 1, n) }, func(n int32) {
					if n == 23 {
						b.wait(2000 * ms)
					}
					b.success(n)
				})
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
