package assertions

import (
	"github.com/dlqbench/dlqbench/history"
)

// inTxn makes the events that the function adds part of a transaction of producer 7.
func (b *builder) inTxn(epoch int16, do func()) *builder {
	from := len(b.events)
	do()
	for i := from; i < len(b.events); i++ {
		switch e := &b.events[i]; e.Kind {
		case history.KindCommitRequest, history.KindCommitResponse, history.KindProduceRequest, history.KindProduceResponse,
			history.KindAttemptStart, history.KindAttemptEnd:
			e.Flags |= history.InTransaction
			e.ProducerID, e.ProducerEpoch = 7, epoch
		}
	}
	return b
}

// askEnd requests the end of the transaction: 1 commits it, 0 aborts it.
func (b *builder) askEnd(epoch int16, how int32) history.Event {
	b.op++
	e := b.of(history.KindTxnEndRequest)
	e.Op, e.N, e.ProducerID, e.ProducerEpoch = b.op, how, 7, epoch
	return *b.put(e)
}

func (b *builder) answerEnd(asked history.Event, code int16, flags history.Flags) *builder {
	e := asked
	e.Kind, e.Time, e.Code, e.Flags = history.KindTxnEndResponse, b.tick(), code, flags
	b.put(e)
	return b
}

func (b *builder) commitTxn(epoch int16) *builder { return b.answerEnd(b.askEnd(epoch, 1), 0, 0) }

// abortTxn aborts, which takes back the given number of dead letters that the audit would have found, and the commit,
// to the given offset.
func (b *builder) abortTxn(epoch int16, letters int, committed int64) *builder {
	b.answerEnd(b.askEnd(epoch, 0), 0, 0)
	b.takeBack(letters, committed)
	return b
}

func (b *builder) takeBack(letters int, committed int64) {
	b.inTopics = b.inTopics[:len(b.inTopics)-letters]
	b.commits[0] = committed
}

// together are attempts that are writes of results in one request.
func (b *builder) together(outcome history.Outcome, numbers ...int32) {
	var ops []int64
	for _, number := range numbers {
		ops = append(ops, b.start(number))
	}
	for i, number := range numbers {
		b.end(ops[i], number, outcome)
	}
}

// firstOfBatch is a consumer of batches: the batches after the first are refused before more than their first record
// was sent. That record is then tried alone, times times.
func firstOfBatch(b *builder, times, batches int) history.Source {
	b.begin().send(0).send(1).send(2)
	b.inTxn(0, func() { b.success(0).success(1).commit(2) }).commitTxn(0)
	for k := range batches {
		if k > 0 {
			b.kill().as(0, uint16(k)).up().assign(0, 1, 2, 3).fetch(2)
		}
		b.inTxn(0, func() { b.attempt(2, history.OutcomeTransient) }).abortTxn(0, 0, 2)
	}
	for k := range times {
		if k > 0 {
			b.wait(b.h.Contract().Backoff.Wait(k) + 5*ms)
		}
		b.inTxn(0, func() { b.attempt(2, history.OutcomeTransient) }).abortTxn(0, 0, 2)
	}
	b.inTxn(0, func() { b.letter(2).commit(3) }).commitTxn(0)
	return b.drain().done()
}

// batchCases are about consumers that write results, dead letters and offsets in transactions. The attempts are writes.
func batchCases() []testCase {
	alone := func(b *builder, number int32, outcome history.Outcome) *builder {
		b.inTxn(0, func() { b.attempt(number, outcome) })
		return b.abortTxn(0, 0, int64(number))
	}
	return []testCase{
		{"a transaction is refused as a whole, and each record gets one of its own", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1)
			b.inTxn(0, func() { b.together(history.OutcomePermanent, 0, 1) }).abortTxn(0, 0, 0)
			alone(b, 0, history.OutcomePermanent)
			b.inTxn(0, func() { b.letter(0).commit(1) }).commitTxn(0)
			b.inTxn(0, func() { b.success(1).commit(2) }).commitTxn(0)
			return b.drain().done()
		}},
		{"its attempts do not count", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1)
			b.inTxn(0, func() { b.together(history.OutcomeTransient, 0, 1) }).abortTxn(0, 0, 0)
			b.inTxn(0, func() { b.fails(0, 3) }).abortTxn(0, 0, 0)
			b.inTxn(0, func() { b.letter(0).commit(1) }).commitTxn(0)
			b.inTxn(0, func() { b.success(1).commit(2) }).commitTxn(0)
			return b.drain().done()
		}},
		{"its successes do not count", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1)
			for range 3 {
				b.inTxn(0, func() { b.together(history.OutcomeSuccess, 0, 1) }).abortTxn(0, 0, 0)
			}
			b.inTxn(0, func() { b.success(0).success(1).commit(2) }).commitTxn(0)
			return b.drain().done()
		}},
		{"a dead letter is in it, too", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1)
			b.inTxn(0, func() { b.attempt(0, history.OutcomePermanent).letter(0).attempt(1, history.OutcomePermanent) })
			b.abortTxn(0, 1, 0)
			alone(b, 0, history.OutcomePermanent)
			b.inTxn(0, func() { b.letter(0).commit(1) }).commitTxn(0)
			alone(b, 1, history.OutcomePermanent)
			b.inTxn(0, func() { b.letter(1).commit(2) }).commitTxn(0)
			return b.drain().done()
		}},
		{"a failure that is final is alone in its transaction, and is tried again", []string{"permanent-retried"},
			func(b *builder) history.Source {
				alone(alone(b.begin().send(0), 0, history.OutcomePermanent), 0, history.OutcomePermanent)
				b.inTxn(0, func() { b.letter(0).commit(1) }).commitTxn(0)
				return b.drain().done()
			}},
		{"a record is tried too often, each time alone in a transaction", []string{"over-retried"},
			func(b *builder) history.Source {
				b.begin().send(0)
				for k := range 4 {
					if k > 0 {
						b.wait(b.h.Contract().Backoff.Wait(k) + 5*ms)
					}
					alone(b, 0, history.OutcomeTransient)
				}
				b.inTxn(0, func() { b.letter(0).commit(1) }).commitTxn(0)
				return b.drain().done()
			}},
		{"of a batch that is refused, only the first record was sent", nil, func(b *builder) history.Source {
			return firstOfBatch(b, 3, 1)
		}},
		{"it is then tried too often alone", []string{"over-retried"}, func(b *builder) history.Source {
			return firstOfBatch(b, 4, 1)
		}},
		{"of two batches of two processes that are refused, only the same first record was sent", nil,
			func(b *builder) history.Source { return firstOfBatch(b, 3, 2) }},
		{"it is tried too often alone after the second", []string{"over-retried"}, func(b *builder) history.Source {
			return firstOfBatch(b, 4, 2)
		}},
		{"a success is repeated, and its transaction was committed", []string{"duplicate"},
			func(b *builder) history.Source {
				b.begin().send(0).send(1)
				b.inTxn(0, func() { b.success(0).success(1) }).commitTxn(0)
				b.inTxn(0, func() { b.success(0).commit(2) }).commitTxn(0)
				return b.drain().done()
			}},
		{"an offset is committed beside the transaction, which is aborted, and the record is not processed again",
			[]string{"commit-past-unfinished", "lost"}, func(b *builder) history.Source {
				b.begin().send(0)
				b.inTxn(0, func() { b.success(0) }).commit(1).answerEnd(b.askEnd(0, 0), 0, 0)
				return b.drain().done()
			}},
		{"an offset is committed beside the transaction, before that is committed", []string{"commit-past-unfinished"},
			func(b *builder) history.Source {
				b.begin().send(0)
				b.inTxn(0, func() { b.success(0) }).commit(1).commitTxn(0)
				return b.drain().done()
			}},
		{"an offset is committed beside the transaction, before the answer to its end", []string{"commit-past-unfinished"},
			func(b *builder) history.Source {
				b.begin().send(0)
				b.inTxn(0, func() { b.success(0) })
				end := b.askEnd(0, 1)
				return b.commit(1).answerEnd(end, 0, 0).drain().done()
			}},
		{"an offset is committed beside the transaction, and the instance is killed before the end",
			[]string{"commit-past-unfinished", "lost"}, func(b *builder) history.Source {
				b.begin().send(0)
				b.inTxn(0, func() { b.success(0) }).commit(1)
				b.kill().as(0, 1).up().assign(0, 1, 2, 3).sendTo(1, 0, 1)
				b.inTxn(1, func() { b.success(1).commit(2) }).commitTxn(1)
				return b.drain().done()
			}},
		{"an offset is committed when the transaction is", nil, func(b *builder) history.Source {
			b.begin().send(0)
			b.inTxn(0, func() { b.success(0) }).commitTxn(0).commit(1)
			return b.drain().done()
		}},
		{"an offset is committed in another transaction than the result, which is open", []string{"commit-past-unfinished"},
			func(b *builder) history.Source {
				b.begin().send(0)
				b.inTxn(0, func() { b.success(0) })
				from := len(b.events)
				b.inTxn(0, func() { b.commit(1) }).commitTxn(0)
				for i := from; i < len(b.events); i++ {
					b.events[i].ProducerID = 8
				}
				return b.commitTxn(0).drain().done()
			}},
		{"a success is taken back, and the record is not processed again", []string{"stalled"},
			func(b *builder) history.Source {
				b.begin().send(0)
				b.inTxn(0, func() { b.success(0).commit(1) }).abortTxn(0, 0, 0)
				return b.drain().done()
			}},
		{"the end is never answered, and a successor goes on behind the success", nil, func(b *builder) history.Source {
			b.begin().send(0)
			b.inTxn(0, func() { b.success(0).commit(1) }).askEnd(0, 1)
			b.kill().as(0, 1).up().assign(0, 1, 2, 3).sendTo(1, 0, 1)
			b.inTxn(1, func() { b.success(1).commit(2) }).commitTxn(1)
			return b.drain().done()
		}},
		{"the answer to the end is lost, and the next offset is committed beside it", nil, func(b *builder) history.Source {
			b.begin().send(0)
			b.inTxn(0, func() { b.success(0) }).answerEnd(b.askEnd(0, 1), 0, history.Withheld).commitTxn(0).commit(1)
			return b.drain().done()
		}},
		{"results are written side by side in a transaction", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1)
			b.inTxn(0, func() { b.together(history.OutcomeSuccess, 0, 1); b.commit(2) }).commitTxn(0)
			return b.drain().done()
		}},
		{"results in a transaction go to two brokers, the second first", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1)
			b.inTxn(0, func() { b.success(1).success(0).commit(2) }).commitTxn(0)
			return b.drain().done()
		}},
		{"the second is in a transaction before that of the first", []string{"reordered"}, func(b *builder) history.Source {
			b.begin().send(0).send(1)
			b.inTxn(0, func() { b.success(1) }).commitTxn(0)
			b.inTxn(0, func() { b.success(0).commit(2) }).commitTxn(0)
			return b.drain().done()
		}},
		{"results are written side by side without a transaction", []string{"reordered"}, func(b *builder) history.Source {
			b.begin().send(0).send(1).together(history.OutcomeSuccess, 0, 1)
			return b.commit(2).drain().done()
		}},
	}
}

// anotherProducer makes the events that the function adds those of another producer than the usual one.
func (b *builder) anotherProducer(do func()) *builder {
	from := len(b.events)
	do()
	for i := from; i < len(b.events); i++ {
		if b.events[i].ProducerID >= 0 {
			b.events[i].ProducerID = 8
		}
	}
	return b
}

// abortCases are about what a process does again after a transaction that was aborted, or of which it does not know
// what became. Record 0 is in partition 0, record 1 in partition 1. Drawn histories showed all of the first ones.
func abortCases() []testCase {
	begin := func(b *builder) *builder { return b.begin().sendTo(0, 0, 0).sendTo(1, 1, 1) }
	refused := func(b *builder) { b.answerCommit(b.askCommit(0, 1), 22, 0) }
	both := func(b *builder) { b.commit(1).answerCommit(b.askCommit(1, 1), 0, 0) }
	again := func(b *builder, epoch int16) history.Source {
		b.fetch(0).fetch(1).success(0).success(1).inTxn(epoch, func() { both(b) })
		return b.commitTxn(epoch).drain().done()
	}
	return []testCase{
		{"its only request is refused", nil, func(b *builder) history.Source {
			begin(b).success(0).success(1).inTxn(0, func() { refused(b) }).abortTxn(0, 0, 0)
			return again(b, 0)
		}},
		{"its only request is not answered", nil, func(b *builder) history.Source {
			begin(b).success(0).success(1).inTxn(0, func() { b.askCommit(0, 1) }).abortTxn(0, 0, 0)
			return again(b, 0)
		}},
		{"its end is refused, and the next producer begins anew", nil, func(b *builder) history.Source {
			begin(b).success(0).success(1).inTxn(0, func() { b.commit(1) }).answerEnd(b.askEnd(0, 1), 47, 0)
			b.takeBack(0, 0)
			return again(b, 1)
		}},
		{"the answer to its end is lost, and the next producer begins anew", nil, func(b *builder) history.Source {
			begin(b).success(0).success(1).inTxn(0, func() { b.commit(1) }).answerEnd(b.askEnd(0, 1), 0, history.Withheld)
			b.fetch(1).success(1).inTxn(1, func() { both(b) })
			return b.commitTxn(1).drain().done()
		}},
		{"a record is begun before the abort is answered", nil, func(b *builder) history.Source {
			begin(b).success(0).inTxn(0, func() { refused(b) })
			end := b.askEnd(0, 0)
			b.success(1).answerEnd(end, 0, 0)
			return again(b, 0)
		}},
		{"the abort is refused, and the partition came in the meantime", nil, func(b *builder) history.Source {
			begin(b).revoke(1).success(0).inTxn(0, func() { refused(b) }).answerEnd(b.askEnd(0, 0), 14, 0)
			b.assign(1).fetch(1).success(1).abortTxn(0, 0, 0)
			return again(b, 0)
		}},
		{"it was committed without an answer, and another producer commits behind the dead letter", nil,
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3)
				b.inTxn(0, func() { b.letter(0).commit(1) }).askEnd(0, 1)
				b.kill().as(0, 1).up().assign(0, 1, 2, 3).sendTo(1, 0, 1).success(1)
				b.anotherProducer(func() { b.inTxn(0, func() { b.commit(2) }).commitTxn(0) })
				return b.drain().done()
			}},
		{"an abort excuses one repeat", []string{"duplicate"}, func(b *builder) history.Source {
			begin(b).success(0).success(1).inTxn(0, func() { refused(b) }).abortTxn(0, 0, 0)
			b.fetch(0).fetch(1).success(1)
			return again(b, 0)
		}},
		{"nothing was aborted", []string{"duplicate"}, func(b *builder) history.Source {
			begin(b).success(0).success(1).inTxn(0, func() { b.commit(1) }).commitTxn(0)
			b.fetch(1).success(1).inTxn(0, func() { b.answerCommit(b.askCommit(1, 1), 0, 0) })
			return b.commitTxn(0).drain().done()
		}},
	}
}

func transactionCases() []testCase {
	return []testCase{
		{"a transactional consumer: dead letter and commit in one transaction", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3)
			b.inTxn(0, func() { b.letter(0).commit(1) }).commitTxn(0)
			return b.drain().done()
		}},
		{"within a transaction their order does not matter", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3)
			b.inTxn(0, func() { b.commit(1).letter(0) }).commitTxn(0)
			return b.drain().done()
		}},
		// The producer's thread was delayed: the consumer had finished everything before the workload noted the
		// acknowledgement that gives the record's position.
		{"the workload hears of its record when the transaction is over", nil, func(b *builder) history.Source {
			b.begin().handOver(0, 0, 0, 0).fetch(0).fails(0, 3)
			b.inTxn(0, func() { b.letter(0).commit(1) }).commitTxn(0)
			return b.acked(0, 0).drain().done()
		}},
		{"the workload hears of its record between the end's request and its answer", nil, func(b *builder) history.Source {
			b.begin().handOver(0, 0, 0, 0).fetch(0).fails(0, 3)
			b.inTxn(0, func() { b.letter(0).commit(1) })
			end := b.askEnd(0, 1)
			return b.acked(0, 0).answerEnd(end, 0, 0).drain().done()
		}},
		{"the workload hears of its record when the transaction is over, and there was no dead letter in it",
			[]string{"commit-without-dlq", "lost"}, func(b *builder) history.Source {
				b.begin().handOver(0, 0, 0, 0).fetch(0).fails(0, 3)
				b.inTxn(0, func() { b.answerLetter(b.askLetter(0), 19, 0).commit(1) }).commitTxn(0)
				return b.acked(0, 0).drain().done()
			}},
		{"the workload hears of its record between the end's request and its answer, and its dead letter is written " +
			"afterwards", []string{"commit-before-dlq"}, func(b *builder) history.Source {
			b.begin().handOver(0, 0, 0, 0).fetch(0).fails(0, 3)
			b.inTxn(0, func() { b.commit(1) })
			end := b.askEnd(0, 1)
			b.acked(0, 0).answerEnd(end, 0, 0)
			return b.letter(0).drain().done()
		}},
		{"dead letters are written when all of the batch is tried, in one transaction", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1).send(2).attempt(0, history.OutcomePermanent).fails(1, 3).success(2)
			b.inTxn(0, func() { b.letter(0).letter(1).commit(3) }).commitTxn(0)
			return b.drain().done()
		}},
		{"dead letters are written when all of the batch is tried, without a transaction", []string{"reordered"},
			func(b *builder) history.Source {
				b.begin().send(0).send(1).attempt(0, history.OutcomePermanent).success(1)
				return b.letter(0).commit(2).drain().done()
			}},
		{"in a transaction, too, the next record waits until the one before was tried", []string{"reordered"},
			func(b *builder) history.Source {
				b.begin().send(0).send(1).fails(0, 2).success(1).wait(205*ms).attempt(0, history.OutcomeTransient)
				b.inTxn(0, func() { b.letter(0).commit(2) }).commitTxn(0)
				return b.drain().done()
			}},
		{"the end is asked for before the dead letter is acknowledged", []string{"commit-before-dlq"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3)
				var asked history.Event
				b.inTxn(0, func() { asked = b.askLetter(0); b.commit(1) })
				asked.ProducerID, asked.ProducerEpoch = 7, 0
				end := b.askEnd(0, 1)
				b.answerLetter(asked, 0, 0).answerEnd(end, 0, 0)
				return b.drain().done()
			}},
		{"the dead letter is written outside of the transaction, and acknowledged after its end is asked for",
			[]string{"commit-before-dlq"}, func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3)
				asked := b.askLetter(0)
				b.inTxn(0, func() { b.commit(1) }).commitTxn(0).answerLetter(asked, 0, 0)
				return b.drain().done()
			}},
		{"the dead letter is written outside of the transaction, and acknowledged after the commit, but before the end", nil,
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3)
				asked := b.askLetter(0)
				b.inTxn(0, func() { b.commit(1) }).answerLetter(asked, 0, 0).commitTxn(0)
				return b.drain().done()
			}},
		{"the dead letter is in the transaction, the commit is not", []string{"commit-before-dlq"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3)
				b.inTxn(0, func() { b.letter(0) }).commit(1).commitTxn(0)
				return b.drain().done()
			}},
		{"the broker refuses the dead letter and the transaction is committed", []string{"commit-without-dlq", "lost"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3)
				b.inTxn(0, func() { b.answerLetter(b.askLetter(0), 19, 0).commit(1) }).commitTxn(0)
				return b.drain().done()
			}},
		{"an abort takes everything back, and all is done again", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1).success(0).fails(1, 3)
			b.inTxn(0, func() { b.letter(1).commit(2) }).abortTxn(0, 1, 0)
			b.fetch(0).success(0).fails(1, 3)
			b.tries[1] = 3
			b.inTxn(0, func() { b.letter(1).commit(2) }).commitTxn(0)
			return b.drain().done()
		}},
		{"after an abort the offsets are believed committed, and the next commit passes the record",
			[]string{"commit-without-dlq", "lost"}, func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3)
				b.inTxn(0, func() { b.letter(0).commit(1) }).abortTxn(0, 1, 0)
				b.sendTo(1, 0, 1).success(1)
				b.inTxn(0, func() { b.commit(2) }).commitTxn(0)
				return b.drain().done()
			}},
		{"after an abort nothing is done again, as the offsets are believed committed", []string{"stalled"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3)
				b.inTxn(0, func() { b.letter(0).commit(1) }).abortTxn(0, 1, 0)
				return b.drain().done()
			}},
		{"a success is processed twice though its transaction was committed", []string{"duplicate"},
			func(b *builder) history.Source {
				b.begin().send(0).success(0)
				b.inTxn(0, func() { b.commit(1) }).commitTxn(0).success(0)
				return b.drain().done()
			}},
		{"a new epoch of the producer aborts what the one before had open", nil, func(b *builder) history.Source {
			b.begin().send(0).success(0).send(1).fails(1, 3)
			b.inTxn(0, func() { b.letter(1).commit(2) })
			b.takeBack(1, 0)
			b.kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0).success(0).fails(1, 3)
			b.tries[1] = 3
			b.inTxn(1, func() { b.letter(1).commit(2) }).commitTxn(1)
			return b.drain().done()
		}},
		{"a fenced producer asks for the end of what it no longer has, and is refused", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3)
			b.inTxn(0, func() { b.letter(0).commit(1) })
			b.takeBack(1, 0)
			b.as(1, 0).up().assign(0).fetch(0).fails(0, 3)
			b.tries[0] = 3
			b.inTxn(1, func() { b.letter(0).commit(1) })
			b.as(0, 0).answerEnd(b.askEnd(0, 1), 47, 0)
			b.as(1, 0).commitTxn(1)
			return b.drain().done()
		}},
		{"the coordinator is loading, so the end is asked for again", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3)
			b.inTxn(0, func() { b.letter(0).commit(1) }).answerEnd(b.askEnd(0, 1), 14, 0).commitTxn(0)
			return b.drain().done()
		}},
		{"the answer to the end is lost, and it is asked for again", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3)
			b.inTxn(0, func() { b.letter(0).commit(1) }).answerEnd(b.askEnd(0, 1), 0, history.Withheld).commitTxn(0)
			return b.drain().done()
		}},
		{"the end is never answered, and took effect", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3)
			b.inTxn(0, func() { b.letter(0).commit(1) }).askEnd(0, 1)
			return b.drain().done()
		}},
		{"the end took effect, is never answered, and a successor commits further", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3)
			b.inTxn(0, func() { b.letter(0).commit(1) }).askEnd(0, 1)
			b.kill().as(0, 1).up().assign(0, 1, 2, 3).sendTo(1, 0, 1).success(1)
			b.inTxn(1, func() { b.commit(2) }).commitTxn(1)
			return b.drain().done()
		}},
		{"the end is never answered, took no effect, and a successor begins behind it all the same", []string{"lost"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3)
				b.inTxn(0, func() { b.letter(0).commit(1) }).askEnd(0, 1)
				b.takeBack(1, 0)
				b.kill().as(0, 1).up().assign(0, 1, 2, 3).sendTo(1, 0, 1).success(1)
				b.inTxn(1, func() { b.commit(2) }).commitTxn(1)
				return b.drain().done()
			}},
		{"the end is never answered, took no effect, and the record that comes again is passed",
			[]string{"commit-without-dlq", "lost"}, func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3)
				b.inTxn(0, func() { b.letter(0).commit(1) }).askEnd(0, 1)
				b.takeBack(1, 0)
				b.kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0).fails(0, 1).sendTo(1, 0, 1).success(1)
				b.inTxn(1, func() { b.commit(2) }).commitTxn(1)
				return b.drain().done()
			}},
		{"the end took effect and is never answered, and what is written back of the record is passed",
			[]string{"commit-past-unfinished", "lost", "replay-lost"}, func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3)
				b.inTxn(0, func() { b.letter(0).commit(1) }).askEnd(0, 1)
				b.kill().as(0, 1).up().assign(0, 1, 2, 3).sendTo(1, 0, 1).success(1)
				b.inTxn(1, func() { b.commit(2) }).commitTxn(1)
				b.h.Replay = true
				b.drain().phase(history.PhaseReplay).audit(dlq)
				selected := b.event(history.KindReplaySelected)
				selected.Record, selected.Topic, selected.Partition, selected.Offset = 0, dlq, 0, 0
				b.put(selected)
				b.goBack(0, input)
				b.inTxn(1, func() { b.commit(3) }).commitTxn(1).wait(b.h.Expect.DrainLimit)
				return b.done()
			}},
		{"the end is never answered, and a dead letter outside of it comes later", []string{"commit-before-dlq"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3)
				asked := b.askLetter(0)
				b.inTxn(0, func() { b.commit(1) }).askEnd(0, 1)
				b.answerLetter(asked, 0, 0)
				return b.drain().done()
			}},
		{"an unfinished record is passed by a transaction", []string{"commit-past-unfinished"},
			func(b *builder) history.Source {
				b.begin().sendTo(0, 0, 0).sendTo(1, 0, 1).fails(0, 1).success(1)
				b.inTxn(0, func() { b.commit(2) }).commitTxn(0).wait(100 * ms).success(0)
				return b.drain().done()
			}},
		{"an unfinished record is passed by a commit whose transaction is aborted", nil, func(b *builder) history.Source {
			b.begin().sendTo(0, 0, 0).sendTo(1, 0, 1).fails(0, 1).success(1)
			b.inTxn(0, func() { b.commit(2) }).abortTxn(0, 0, 0).wait(100 * ms).success(0)
			b.inTxn(0, func() { b.commit(2) }).commitTxn(0)
			return b.drain().done()
		}},
		{"the next of a key starts while the dead letter of the first waits for the end of its transaction", nil,
			func(b *builder) history.Source {
				b.begin().send(0).send(1).fails(0, 3)
				b.inTxn(0, func() { b.letter(0) }).success(1)
				b.inTxn(0, func() { b.commit(2) }).commitTxn(0)
				return b.drain().done()
			}},
	}
}
