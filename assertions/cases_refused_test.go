package assertions

import (
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// refusedLetter has record 0 fail for good and its dead letter refused.
func (b *builder) refusedLetter(code int16) *builder {
	return b.fails(0, 3).answerLetter(b.askLetter(0), code, 0)
}

// promising is a history of a subject that reacts to refusals as promised, or not. In the end the fault is lifted, and
// it continues.
func promising(name string, promise history.OnFailure, want []string, tell func(*builder)) testCase {
	return testCase{name, want, func(b *builder) history.Source {
		b.h.Contract().OnFailure, b.h.Contract().StopGrace = promise, time.Second
		f := b.stops("kafka", "dlq", "dead letters are refused")
		b.begin().breaks(f).send(0)
		tell(b)
		b.heals(f).drain()
		return b.done()
	}}
}

// stops plans a fault that prevents the writing of dead letters.
func (b *builder) stops(kind, target, what string) int64 {
	f := b.fault(kind, target, what)
	b.h.Faults[f].StopsDeadLetters = true
	return f
}

const (
	tooLarge     = 10 // MESSAGE_TOO_LARGE
	unauthorized = 29 // TOPIC_AUTHORIZATION_FAILED
	forbidden    = 31 // CLUSTER_AUTHORIZATION_FAILED
	fewer        = 19 // NOT_ENOUGH_REPLICAS
	longTime     = 40 * time.Second
)

func promiseCases() []testCase {
	again := func(b *builder) *builder { return b.as(0, b.run+1).up().assign(0, 1, 2, 3).fetch(0) }
	ends := func(b *builder) { b.letter(0).commitAll() }
	tries := func(b *builder) {
		for range 4 {
			b.wait(20*time.Second).answerLetter(b.askLetter(0), fewer, 0)
		}
	}
	cases := []testCase{
		promising("it promised to try on, and does", history.OnFailureRetry, nil, func(b *builder) {
			tries(b.refusedLetter(fewer).logError())
			ends(b)
		}),
		promising("it promised to try on, and halts", history.OnFailureRetry, []string{"stopped-trying"}, func(b *builder) {
			b.refusedLetter(fewer).logError().wait(longTime)
			ends(b)
		}),
		promising("it promised to try on, and its waits grow", history.OnFailureRetry, nil, func(b *builder) {
			b.h.Contract().MaxAttempts, b.h.Contract().Backoff.Cap = 0, 20*time.Second
			b.attempt(0, history.OutcomePermanent).answerLetter(b.askLetter(0), fewer, 0).logError().wait(longTime)
			ends(b)
		}),
		promising("it promised to try on, and commits instead", history.OnFailureRetry,
			[]string{"commit-advanced-while-dlq-down", "commit-before-dlq"}, func(b *builder) {
				b.refusedLetter(fewer).logError().commitAll().wait(longTime)
				ends(b)
			}),
		promising("it promised to halt, and does", history.OnFailureHalt, nil, func(b *builder) {
			b.refusedLetter(fewer).logError().wait(longTime)
			ends(b)
		}),
		promising("it promised to halt, and tries on", history.OnFailureHalt, nil, func(b *builder) {
			tries(b.refusedLetter(fewer).logError())
			ends(b)
		}),
		promising("it promised to try on, and has other things to do first", history.OnFailureRetry, nil, func(b *builder) {
			b.refusedLetter(fewer).logError()
			for n := range int32(3) {
				b.wait(25*time.Second).sendTo(1+n, 1, 1).success(1 + n)
			}
			ends(b.wait(25 * time.Second))
		}),
		promising("it promised to try on, and loses the partition", history.OnFailureRetry, nil, func(b *builder) {
			b.refusedLetter(fewer).logError().revoke(0, 1, 2, 3).wait(longTime).assign(0, 1, 2, 3).fetch(0)
			ends(b.fails(0, 3))
		}),
		promising("it promised to halt, and crashes", history.OnFailureHalt, []string{"crashed"}, func(b *builder) {
			ends(again(b.refusedLetter(tooLarge).falls(1, "")).fails(0, 3))
		}),
		promising("it promised to try on, and crashes", history.OnFailureRetry, []string{"crashed"}, func(b *builder) {
			ends(again(b.refusedLetter(fewer).falls(1, "")).fails(0, 3))
		}),
	}
	cases = append(cases,
		testCase{"it promised to crash, and does when a copy is refused", nil, copyRefused(history.OnFailureCrash, tooLarge)},
		testCase{"it promised to halt, and crashes when a copy is refused", []string{"crashed"},
			copyRefused(history.OnFailureHalt, tooLarge)},
		testCase{"it promised to crash, and does so though the copy is written", []string{"crashed"},
			copyRefused(history.OnFailureCrash, 0)})
	return append(cases, crashCases(again, ends)...)
}

// copyRefused is a consumer with retry topics that ends by itself when a copy was answered with the code.
func copyRefused(promise history.OnFailure, code int16) func(b *builder) history.Source {
	return func(b *builder) history.Source {
		b.h.Contract().OnFailure, b.h.Contract().StopGrace = promise, time.Second
		hops(b).send(0).attempt(0, history.OutcomeTransient)
		b.answerCopy(b.askCopy(0), code, 0).falls(1, "").as(0, b.run+1).up().assign(0, 1, 2, 3).fetch(0)
		if b.wait(99 * ms).success(0); code == 0 {
			b.commitCopies(0)
		}
		return b.commit(1).drain().done()
	}
}

func crashCases(again func(*builder) *builder, ends func(*builder)) []testCase {
	missing := []string{"did-not-crash"}
	return []testCase{
		promising("it promised to crash, and does", history.OnFailureCrash, nil, func(b *builder) {
			ends(again(b.refusedLetter(tooLarge).wait(time.Second).falls(1, "")).fails(0, 3))
		}),
		promising("it promised to crash, and halts", history.OnFailureCrash, missing, func(b *builder) {
			b.refusedLetter(tooLarge).logError().wait(longTime)
			ends(b)
		}),
		promising("it promised to crash, and tries on", history.OnFailureCrash, missing, func(b *builder) {
			b.refusedLetter(tooLarge).logError()
			for range 8 {
				b.wait(5*time.Second).answerLetter(b.askLetter(0), tooLarge, 0)
			}
			ends(b)
		}),
		promising("it promised to crash, and ends as if all were well", history.OnFailureCrash, missing, func(b *builder) {
			ends(again(b.refusedLetter(tooLarge).logError().falls(0, "")).fails(0, 3))
		}),
		promising("it promised to crash, and its client is still trying", history.OnFailureCrash, nil, func(b *builder) {
			b.refusedLetter(fewer).logError()
			for range 8 {
				b.wait(5*time.Second).answerLetter(b.askLetter(0), fewer, 0)
			}
			ends(b)
		}),
		promising("it promised to crash, and the dead letter gets through", history.OnFailureCrash, nil, func(b *builder) {
			ends(b.refusedLetter(tooLarge).logError().wait(10 * time.Second))
		}),
		promising("it promised to crash, and is told to end", history.OnFailureCrash, nil, func(b *builder) {
			ends(again(b.refusedLetter(tooLarge).signal("TERM").exit(0)).fails(0, 3))
		}),
	}
}
