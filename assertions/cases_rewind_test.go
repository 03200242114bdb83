package assertions

import (
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// Kafka's error codes for a commit that comes too late.
const (
	illegalGeneration   = int16(22)
	rebalanceInProgress = int16(27)
)

// rewindCases cover a consumer that has its partition and rewinds to its last commit.
func rewindCases() []testCase {
	// failedCommit: two records of different keys are being processed, the first is done, the second has failed two of
	// three times. Then the commit of the first gets the given answer.
	failedCommit := func(b *builder, code int16, flags history.Flags) *builder {
		b.begin().sendTo(0, 0, 0).sendTo(1, 0, 1).success(0).fails(1, 2)
		return b.answerCommit(b.askCommit(0, 1), code, flags)
	}
	goesBack := func(b *builder) *builder { return b.fetch(0).fetch(1) }
	claims := func(b *builder, attempts int32) *builder {
		b.inTopics[len(b.inTopics)-1].Claim.Attempts = attempts
		return b
	}
	return []testCase{
		{"its commit fails, it goes back, and counts anew", nil, func(b *builder) history.Source {
			goesBack(failedCommit(b, rebalanceInProgress, 0)).success(0).fails(1, 3).letter(1).commit(2)
			return claims(b, 3).drain().done()
		}},
		{"its commit is for an earlier generation, it goes back, and counts on", nil, func(b *builder) history.Source {
			goesBack(failedCommit(b, illegalGeneration, 0)).success(0).wait(205*ms).attempt(1, history.OutcomeTransient).letter(
				1).commit(2)
			return b.drain().done()
		}},
		{"it goes back as the answer to its commit is withheld, and counts anew", nil, func(b *builder) history.Source {
			goesBack(failedCommit(b, 0, history.Withheld)).success(0).fails(1, 3).letter(1).commit(2)
			return claims(b, 3).drain().done()
		}},
		{"it goes back as its commit is not answered, and counts anew", nil, func(b *builder) history.Source {
			b.begin().sendTo(0, 0, 0).sendTo(1, 0, 1).success(0).fails(1, 2).askCommit(0, 1)
			goesBack(b).success(0).fails(1, 3).letter(1).commit(2)
			return claims(b, 3).drain().done()
		}},
		{"it goes back as its commit is not answered, and what is below and beyond the commit fails twice", nil,
			func(b *builder) history.Source {
				return deadLettersAfterRewind(b).drain().done()
			}},
		{"it goes back once as its commit is not answered, and writes a third dead letter", []string{"dlq-duplicate"},
			func(b *builder) history.Source {
				return deadLettersAfterRewind(b).letter(1).drain().done()
			}},
		{"its transaction is aborted, it goes back, and counts anew", nil, func(b *builder) history.Source {
			b.begin().sendTo(0, 0, 0).sendTo(1, 0, 1).success(0).fails(1, 2)
			b.inTxn(0, func() { b.commit(1) }).abortTxn(0, 0, 0)
			goesBack(b).success(0).fails(1, 3).letter(1).commit(2)
			return claims(b, 3).drain().done()
		}},
		{"what was done beyond the commit that failed is done again", nil, func(b *builder) history.Source {
			b.begin().sendTo(0, 0, 0).sendTo(1, 0, 1).sendTo(2, 0, 2).success(0).success(1).attempt(2, history.OutcomePermanent).
				letter(2)
			b.answerCommit(b.askCommit(0, 1), rebalanceInProgress, 0)
			goesBack(b).fetch(2).success(0).success(1).attempt(2, history.OutcomePermanent)
			claims(b.letter(2), 1).commit(3)
			return b.drain().done()
		}},
		{"what was done beyond the commit that failed is done again, and only the audit tells where it lies", nil,
			func(b *builder) history.Source {
				b.begin().sendTo(0, 0, 0).handOver(1, 0, 1, 0).inInput(1, 0)
				b.fetch(1).success(0).success(1).answerCommit(b.askCommit(0, 1), rebalanceInProgress, 0)
				goesBack(b).success(0).success(1).commit(2)
				return b.drain().done()
			}},
		{"what was done beyond the commit that failed is done again, though it did not go back", []string{"duplicate"},
			func(b *builder) history.Source {
				b.begin().sendTo(0, 0, 0).sendTo(1, 0, 1).success(0).success(1)
				b.answerCommit(b.askCommit(0, 1), rebalanceInProgress, 0).success(1).commit(2)
				return b.drain().done()
			}},
		// The remaining records arrive after the second failure, and before the rewind that it causes.
		{"a second commit fails while it is still handed what it had, and it goes back again", nil,
			func(b *builder) history.Source {
				fails := func() *builder { return b.attempt(1, history.OutcomePermanent).letter(1) }
				b.begin().sendTo(0, 0, 0).sendTo(1, 0, 1).sendTo(2, 0, 2).success(0)
				fails().answerCommit(b.askCommit(0, 1), illegalGeneration, 0).fetch(0).fetch(1).success(0)
				fails().answerCommit(b.askCommit(0, 1), illegalGeneration, 0).fetch(2)
				b.fetch(0).fetch(1).fetch(2).success(0)
				return fails().success(2).commit(3).drain().done()
			}},
		{"a worker of before is still at it when it has gone back", nil, func(b *builder) history.Source {
			goesBack(failedCommit(b, rebalanceInProgress, 0)).success(0).fails(1, 1).wait(105*ms).fails(1, 1).fails(1,
				1).wait(205*ms).fails(1, 1)
			claims(b.letter(1), 3).commit(2)
			return b.drain().done()
		}},
		{"one attempt too many after a commit that failed, though it did not go back", []string{"over-retried"},
			func(b *builder) history.Source {
				failedCommit(b, rebalanceInProgress, 0).wait(205*ms).attempt(1, history.OutcomeTransient).wait(305*ms).attempt(1,
					history.OutcomeTransient)
				b.letter(1).commit(2)
				return b.drain().done()
			}},
		{"one attempt too many of what it was handed first when it had gone back", []string{"over-retried"},
			func(b *builder) history.Source {
				goesBack(failedCommit(b, rebalanceInProgress, 0)).success(0).fails(1, 1).wait(105 * ms).success(1)
				b.sendTo(2, 0, 2).fails(2, 4).letter(2).commit(3)
				return b.drain().done()
			}},
		{"it goes back for no reason, and counts anew", []string{"backoff-early", "backoff-not-growing", "over-retried"},
			func(b *builder) history.Source {
				b.begin().sendTo(0, 0, 0).fails(0, 2).fetch(0).wait(205*ms).fails(0, 3)
				b.letter(0).commit(1)
				return b.drain().done()
			}},
		{"it goes back again and again after one commit that failed", []string{"endless-redelivery"},
			func(b *builder) history.Source {
				failedCommit(b, rebalanceInProgress, 0)
				goesBack(b).success(0)
				for range 6 {
					goesBack(b).fails(1, 3).wait(305 * ms)
				}
				b.letter(1).commit(2)
				return claims(b, 3).drain().done()
			}},
		{"each of its commits fails, and it goes back each time", nil, func(b *builder) history.Source {
			failedCommit(b, rebalanceInProgress, 0)
			for range 6 {
				goesBack(b).success(0).fails(1, 2).answerCommit(b.askCommit(0, 1), rebalanceInProgress, 0)
			}
			goesBack(b).success(0).fails(1, 3).wait(time.Second).letter(1).commit(2)
			return claims(b, 3).drain().done()
		}},
	}
}

// deadLettersAfterRewind has the first two records dead-lettered, and again after a rewind, because the commit of the
// first is not answered.
func deadLettersAfterRewind(b *builder) *builder {
	both := func() {
		b.attempt(0, history.OutcomePermanent).letter(0).attempt(1, history.OutcomePermanent).letter(1)
	}
	b.begin().sendTo(0, 0, 0).sendTo(1, 0, 1)
	both()
	b.askCommit(0, 1)
	b.fetch(0).fetch(1)
	both()
	return b.commit(2)
}

// givenUpCases cover a contract without a dead-letter topic and a number of attempts: when a record is given up, the
// consumer decides.
func givenUpCases() []testCase {
	forEver := func(b *builder) *builder {
		b.h.Contract().MaxAttempts, b.h.Contract().Envelope = 0, ""
		return b.begin().send(0)
	}
	past := []string{"commit-past-unfinished"}
	return []testCase{
		{"tried without end, given up and committed", nil, func(b *builder) history.Source {
			return forEver(b).fails(0, 2).commit(1).drain().done()
		}},
		{"tried without end, committed first", past, func(b *builder) history.Source {
			return forEver(b).commit(1).fails(0, 2).drain().done()
		}},
		{"tried without end, committed in between", past, func(b *builder) history.Source {
			return forEver(b).fails(0, 1).commit(1).wait(105*ms).fails(0, 1).wait(205 * ms).success(0).drain().done()
		}},
		{"tried without end, a call that was abandoned comes after the commit", nil, func(b *builder) history.Source {
			return forEver(b).fails(0, 1).commit(1).wait(105*ms).fails(0, 1).drain().done()
		}},
		{"tried without end, calls that were held up come after the commit", nil, func(b *builder) history.Source {
			forEver(b).fails(0, 1).wait(105*ms).stall(-1, 2*time.Second).commit(1)
			return b.fails(0, 2).drain().done()
		}},
		{"tried without end, given up, then delivered again by a rebalance", nil, func(b *builder) history.Source {
			forEver(b).fails(0, 1).answerCommit(b.askCommit(0, 1), 0, history.Withheld)
			return b.revoke(0).assign(0).fetch(0).fails(0, 2).commit(1).drain().done()
		}},
		{"tried without end, given up, then fetched again", nil, func(b *builder) history.Source {
			forEver(b).fails(0, 1).commit(1).wait(105*ms).fetch(0).fails(0, 1).wait(205*ms).fails(0, 1)
			return b.commit(1).drain().done()
		}},
		{"tried without end, given up by the process before, whose commit comes late", nil, func(b *builder) history.Source {
			forEver(b).fails(0, 1).revoke(0).as(1, 0).up().assign(0).fetch(0).fails(0, 1).as(0, 0).commit(1)
			return b.as(1, 0).wait(105*ms).fails(0, 1).wait(205*ms).fails(0, 1).commit(1).drain().done()
		}},
	}
}
