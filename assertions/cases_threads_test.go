package assertions

import "github.com/dlqbench/dlqbench/history"

// threadCases check which partitions may share a thread, in a process that has several. The thread of record 0 is busy
// with records of partition 1 until long after the wait of record 0.
func threadCases() []testCase {
	const failed, unanswered = history.OutcomeTransient, history.OutcomeTimeout
	// several starts a process in which partitions 2 and 3 have threads of their own.
	several := func(b *builder) *builder {
		b.begin().sendTo(0, 0, 0).sendTo(1, 1, 1).sendTo(2, 1, 2).sendTo(3, 2, 3).sendTo(4, 3, 4)
		first, other := b.start(3), b.start(4)
		b.end(other, 4, history.OutcomeSuccess)
		b.end(first, 3, history.OutcomeSuccess)
		return b
	}
	// occupied tries a record until it is dead-lettered, with the outcome.
	occupied := func(b *builder, number int32, outcome history.Outcome) *builder {
		b.attempt(number, outcome).wait(105*ms).attempt(number, outcome).wait(205*ms).attempt(number, outcome)
		return b.letter(number)
	}
	ends := func(b *builder) history.Source { return b.success(0).commitAll().drain().done() }
	// givesUp makes an attempt whose client gives up long before the answer.
	givesUp := func(b *builder, number int32, outcome history.Outcome, meanwhile func()) *builder {
		op := b.start(number)
		meanwhile()
		b.end(op, number, outcome).Flags = history.ClientGone
		return b
	}
	return []testCase{
		// Until partition 1 was assigned again, another thread had it, which still finishes record 2.
		{"late, and another partition's record is tried in its wait, perhaps by the partition's earlier thread", nil,
			func(b *builder) history.Source {
				several(b).revoke(1).assign(1).fetch(1).attempt(0, failed).success(2).wait(105 * ms)
				return ends(occupied(b, 1, failed))
			}},
		{"late, and a lost partition's record is tried in a wait, perhaps by the partition's earlier thread", nil,
			func(b *builder) history.Source {
				several(b).sendTo(5, 0, 5).revoke(1).assign(1).fetch(1).attempt(0, failed).wait(105 * ms)
				occupied(b, 1, failed).success(0).attempt(5, failed).revoke(1).success(2).wait(105 * ms).success(5).assign(1)
				return b.commitAll().drain().done()
			}},
		{"late, and two threads have the partition of the other record", []string{"backoff-late"}, func(b *builder,
		) history.Source {
			several(b).sendTo(5, 1, 5)
			first, other := b.start(2), b.start(5)
			b.end(other, 5, history.OutcomeSuccess)
			b.end(first, 2, history.OutcomeSuccess)
			return ends(occupied(b.attempt(0, failed).wait(105*ms), 1, failed))
		}},
		// The thread gave up record 2 and went on with record 0, while the downstream had not answered yet.
		{"late, and tried while a call was open that its client had given up", nil, func(b *builder) history.Source {
			several(b)
			givesUp(b, 2, unanswered, func() { b.wait(50*ms).attempt(0, failed) }).wait(105 * ms)
			return ends(occupied(b.success(2), 1, failed))
		}},
		{"late, and tried while a call was open that its client had given up, and that succeeds", nil,
			func(b *builder) history.Source {
				several(b)
				givesUp(b, 2, history.OutcomeSuccess, func() { b.wait(50*ms).attempt(0, failed) }).wait(105 * ms)
				return ends(occupied(b.success(2), 1, failed))
			}},
		// In the process's own count it was the third attempt of record 1, so no wait follows it.
		{"late, and tried right after another partition's record, which has perhaps no wait", nil,
			func(b *builder) history.Source {
				several(b).fails(1, 2).wait(205*ms).revoke(1).assign(1).fetch(1).attempt(1, failed).letter(1)
				return ends(occupied(b.attempt(0, failed).wait(105*ms), 2, failed))
			}},
		// The wait of record 0 began when its thread gave up the call, so it ended earlier than the answer suggests.
		{"late, and another partition's record is tried soon after an answer that came too late", nil,
			func(b *builder) history.Source {
				givesUp(several(b), 0, unanswered, func() { b.wait(150 * ms) }).wait(50 * ms)
				return ends(occupied(b, 1, failed).success(2))
			}},
		{"late, as its thread waits after calls of another partition's record that had no answer", nil,
			func(b *builder) history.Source {
				return ends(occupied(several(b).attempt(0, failed).wait(105*ms), 1, unanswered).success(2))
			}},
		// Every wait of record 1 is longer than promised, though not by more than is allowed. Another thread tries
		// records of partition 2 meanwhile.
		{"late, as its thread waits for another partition's record, while another thread has time", nil,
			func(b *builder) history.Source {
				several(b).sendTo(5, 2, 5).sendTo(6, 2, 6).sendTo(7, 2, 7).attempt(0, failed).wait(105 * ms)
				first, other := b.start(1), b.start(5)
				b.end(other, 5, history.OutcomeSuccess)
				b.end(first, 1, failed)
				b.wait(101*ms).success(6).wait(62*ms).attempt(1, failed)
				b.wait(201*ms).success(7).wait(62*ms).attempt(1, failed).letter(1)
				return ends(b.success(2))
			}},
	}
}
