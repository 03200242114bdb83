package assertions

// Histories of waits in retry topics: each attempt is compared with its own copy.

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

func copyCases() []testCase {
	source := place{input, 0, 0}
	return []testCase{
		{"a copy is tried early after a restart", []string{"backoff-early"}, func(b *builder) history.Source {
			restarted(b, true).fetch(0).success(0).commitCopies(0)
			return b.drain().done()
		}},
		{"a copy is tried in time after a restart", nil, func(b *builder) history.Source {
			restarted(b, true).wait(100 * ms).fetch(0).success(0).commitCopies(0)
			return b.drain().done()
		}},
		{"after a restart the source is tried once more, and its copy in time", nil, func(b *builder) history.Source {
			restarted(b, false)
			copied := b.where[0]
			b.where[0] = source
			b.fetch(0).success(0).commit(1).wait(100 * ms)
			b.where[0] = copied
			b.fetch(0).success(0).commitCopies(0)
			return b.drain().done()
		}},
		{"after a restart the source fails once more, and the first copy is tried when that is due", nil,
			func(b *builder) history.Source {
				restarted(b, false).wait(80 * ms)
				copied := b.where[0]
				b.where[0] = source
				b.fetch(0).fails(0, 1).retryCopy(0).commit(1)
				second := b.where[0]
				b.where[0] = copied
				b.wait(15 * ms).fetch(0).success(0).wait(100 * ms)
				b.where[0] = second
				b.success(0).commitCopies(0)
				return b.drain().done()
			}},
		{"after a restart the source fails once more, and the second copy is tried when the first is due",
			[]string{"backoff-early"}, func(b *builder) history.Source {
				restarted(b, false).wait(80 * ms)
				copied := b.where[0]
				b.where[0] = source
				b.fetch(0).fails(0, 1).retryCopy(0).commit(1).wait(15 * ms).success(0)
				b.where[0] = copied
				b.wait(100 * ms).fetch(0).success(0).commitCopies(0)
				return b.drain().done()
			}},
		{"a copy is tried early after a restart, and the attempt does not say which", []string{"backoff-early"},
			func(b *builder) history.Source {
				restarted(b, true).fetch(0).placeless(0).commitCopies(0)
				return b.drain().done()
			}},
		{"an attempt after a restart does not say whether it is the source's", nil, func(b *builder) history.Source {
			restarted(b, false)
			copied := b.where[0]
			b.where[0] = source
			b.fetch(0)
			b.where[0] = copied
			b.placeless(0).commit(1).wait(100 * ms).fetch(0).success(0).commitCopies(0)
			return b.drain().done()
		}},
	}
}

// endOfInputCases have records that failed go to the end of the input.
func endOfInputCases() []testCase {
	// failed has record 0 fail once, and its copy written.
	failed := func(b *builder) *builder {
		b.h.Contract().Retry, b.h.Contract().Counter, b.h.Contract().Ordering = history.RetryTopics, history.CounterHeader,
			history.OrderingNone
		b.h.Topics[input].Retries = true
		return b.begin().send(0).fails(0, 1)
	}
	return []testCase{
		{"a record that failed goes to the end of the input, and is tried in time", nil, func(b *builder) history.Source {
			failed(b).retryCopy(0).commit(1).wait(105 * ms).success(0).commit(2)
			return b.drain().done()
		}},
		{"it is tried early at the end of the input", []string{"backoff-early"}, func(b *builder) history.Source {
			failed(b).retryCopy(0).commit(1).wait(50 * ms).success(0).commit(2)
			return b.drain().done()
		}},
		{"it is tried late at the end of the input, where other records are before it", nil,
			func(b *builder) history.Source {
				failed(b).retryCopy(0).commit(1).wait(2 * time.Second).success(0).commit(2)
				return b.drain().done()
			}},
		{"it is committed before its copy at the end of the input is written", []string{"commit-past-unfinished"},
			func(b *builder) history.Source {
				failed(b)
				asked := b.askCopy(0)
				b.commit(1).answerCopy(asked, 0, 0).fetch(0).wait(105 * ms).success(0).commit(2)
				return b.drain().done()
			}},
		{"its copy at the end of the input is refused, and it is committed", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				failed(b).answerCopy(b.askCopy(0), 19, 0).commit(1)
				return b.drain().done()
			}},
		{"its copy at the end of the input is committed untried", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				failed(b).retryCopy(0).commit(2)
				return b.drain().done()
			}},
		{"its copy at the end of the input was lost with the leader, and its dead letter is written back twice",
			[]string{"replay-duplicated"}, func(b *builder) history.Source {
				b.h.Replay = true
				failed(b).answerCopy(b.askCopy(0), 0, history.Unreplicated).retryCopy(0).commit(1).wait(105*ms).attempt(0,
					history.OutcomePermanent).letter(0).commit(2).drain().phase(history.PhaseReplay).audit(dlq)
				selected := b.event(history.KindReplaySelected)
				selected.Record, selected.Topic, selected.Partition, selected.Offset = 0, dlq, 0, 0
				b.put(selected)
				b.goBack(0, input)
				b.goBack(0, input)
				b.tries[0] = 0
				return b.attempt(0, history.OutcomePermanent).letter(0).attempt(0, history.OutcomePermanent).letter(0).
					commitAll().wait(b.h.Expect.DrainLimit).done()
			}},
		{"it was produced once more, and an attempt that does not say so is of that copy", nil,
			func(b *builder) history.Source {
				b.h.Contract().Retry, b.h.Contract().Counter, b.h.Contract().Ordering = history.RetryTopics, history.CounterHeader,
					history.OrderingNone
				b.h.Topics[input].Retries = true
				b.begin().sendTwice(0).unacknowledged(history.Repeated).copyAt(0, 0).fails(0, 1).retryCopy(0).commit(1)
				return b.placeless(0).commit(2).wait(105 * ms).success(0).commit(3).drain().done()
			}},
		{"a consumer that retries in place hands nothing on by writing to its input", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 1)
				b.h.Topics[input].Retries = true // so that the builder writes there
				b.retryCopy(0)
				b.h.Topics[input].Retries = false
				b.commit(2)
				return b.drain().done()
			}},
	}
}

// secondGroupCases have the retry topic read by other processes than the source, and attempts that do not say of what
// they are.
func secondGroupCases() []testCase {
	// apart has instance 0 fail record 0 and write its copy, which is handed to instance 1. That restarts.
	apart := func(b *builder, committed bool) *builder {
		b.h.Contract().Retry, b.h.Contract().Counter, b.h.Contract().Ordering = history.RetryTopics, history.CounterHeader,
			history.OrderingNone
		b.as(1, 0).up().as(0, 0).begin().send(0).fetch(0).fails(0, 1).answerCopy(b.askCopy(0), 0, 0)
		if committed {
			b.commit(1)
		}
		return b.as(1, 0).fetch(0).kill().as(1, 1).up()
	}
	return []testCase{
		{"another process than the source's tries its copy early", []string{"backoff-early"},
			func(b *builder) history.Source {
				apart(b, true).fetch(0).placeless(0).commitCopies(0)
				return b.drain().done()
			}},
		{"another process than the source's tries its copy early, before the source is committed",
			[]string{"backoff-early"}, func(b *builder) history.Source {
				apart(b, false).fetch(0).placeless(0).commitCopies(0).as(0, 0).commit(1)
				return b.drain().done()
			}},
		{"another process than the source's tries its copy in time", nil, func(b *builder) history.Source {
			apart(b, true).wait(100 * ms).fetch(0).placeless(0).commitCopies(0)
			return b.drain().done()
		}},
		{"the process that has the copy gets the source, too, and tries one of them", nil,
			func(b *builder) history.Source {
				apart(b, false).fetch(0)
				copied := b.where[0]
				b.where[0] = place{input, 0, 0}
				b.as(0, 0).kill().as(1, 1).assign(0, 1, 2, 3).fetch(0).placeless(0).commit(1)
				b.where[0] = copied
				b.wait(100 * ms).success(0).commitCopies(0)
				return b.drain().done()
			}},
		{"the process that has the copy was handed the source, too, before the other one committed it", nil,
			func(b *builder) history.Source {
				apart(b, false).fetch(0)
				copied := b.where[0]
				b.where[0] = place{input, 0, 0}
				b.fetch(0).as(0, 0).commit(1).as(1, 1).placeless(0)
				b.where[0] = copied
				b.wait(100 * ms).success(0).commitCopies(0)
				return b.drain().done()
			}},
		{"a process has a copy that is due and one that is not, and tries one of them", nil,
			func(b *builder) history.Source {
				apart(b, true).wait(100*ms).fetch(0).fails(0, 1).retryCopy(0).placeless(0).commitCopies(0)
				return b.drain().done()
			}},
	}
}

// placeless is a successful attempt that does not say of what it is.
func (b *builder) placeless(number int32) *builder {
	op := b.start(number)
	start := &b.events[len(b.events)-1]
	start.Topic, start.Partition, start.Offset = none, none, none
	b.end(op, number, history.OutcomeSuccess)
	return b
}

// restarted has record 0 fail once, wait in a copy, and restarts its process.
func restarted(b *builder, committed bool) *builder {
	b.h.Contract().Retry, b.h.Contract().Counter, b.h.Contract().Ordering = history.RetryTopics, history.CounterHeader,
		history.OrderingNone
	b.begin().send(0).fails(0, 1).retryCopy(0)
	if committed {
		b.commit(1)
	}
	return b.kill().as(0, 1).up().assign(0, 1, 2, 3)
}

// refused has the source fail once more after a restart, with its copy refused, and requested again when the first copy
// has failed too.
func refused(b *builder) (first, second place) {
	restarted(b, false).wait(100 * ms)
	copied := b.where[0]
	b.where[0] = place{input, 0, 0}
	b.fetch(0).fails(0, 1).answerCopy(b.askCopy(0), 19, 0)
	b.where[0] = copied
	b.fetch(0).fails(0, 1).retryCopy(0)
	second = b.where[0]
	b.retryCopy(0).commit(1)
	return b.where[0], second
}

// withheld has record 0 fail, its copy written without an answer, and the copy fail after the wait. It returns the copy
// made after that.
func withheld(b *builder, wait time.Duration) place {
	b.h.Contract().Retry, b.h.Contract().Counter, b.h.Contract().Ordering = history.RetryTopics, history.CounterHeader,
		history.OrderingNone
	b.begin().send(0).fails(0, 1).answerCopy(b.askCopy(0), 0, history.Withheld).wait(wait).fetch(0).fails(0,
		1).retryCopy(0)
	return b.where[0]
}

// repeatedCases cover copies that are requested again. The failure to which they belong is not observed.
func repeatedCases() []testCase {
	return []testCase{
		{"a refused copy is asked for again after another failure, and is tried when its own is due", nil,
			func(b *builder) history.Source {
				first, second := refused(b)
				b.where[0] = first
				b.wait(100 * ms).success(0).wait(100 * ms)
				b.where[0] = second
				b.success(0).commitCopies(0)
				return b.drain().done()
			}},
		{"a refused copy is asked for again after another failure, and is tried early", []string{"backoff-early"},
			func(b *builder) history.Source {
				first, second := refused(b)
				b.where[0] = first
				b.wait(50 * ms).success(0).wait(150 * ms)
				b.where[0] = second
				b.success(0).commitCopies(0)
				return b.drain().done()
			}},
		{"a copy is asked for again, as no word came of it, after it has failed", nil, func(b *builder) history.Source {
			second := withheld(b, 100*ms)
			b.retryCopy(0).success(0).wait(200 * ms) // of the first failure, too, whose wait ended long ago
			b.where[0] = second
			b.success(0).commitCopies(0).commit(1)
			return b.drain().done()
		}},
		{"a copy of which no word came is tried early", []string{"backoff-early"}, func(b *builder) history.Source {
			second := withheld(b, 50*ms)
			b.retryCopy(0).wait(200 * ms).success(0)
			b.where[0] = second
			b.success(0).commitCopies(0).commit(1)
			return b.drain().done()
		}},
	}
}

// TestUsualWaitsInTheInput checks that nothing is concluded from copies that wait behind other records of the input.
func TestUsualWaitsInTheInput(t *testing.T) {
	for inInput, want := range map[bool]int{true: 0, false: 1} {
		b := newBuilder()
		c := b.h.Contract()
		c.Retry, c.Counter, c.Ordering = history.RetryTopics, history.CounterHeader, history.OrderingNone
		c.Backoff.Late, c.Backoff.Usual, b.h.Topics[input].Retries = time.Second, 20*ms, inInput
		b.begin()
		for number := range int32(40) {
			b.send(number).fails(number, 1).retryCopy(number).wait(200 * ms).success(number)
		}
		if inInput {
			b.commit(80)
		} else {
			b.commit(40).commitCopies(0)
		}
		if r := resultOf(t, judged(t, b.drain().done()), "backoff"); len(r.Anomalies) != want {
			t.Errorf("in the input: %v, %+v", inInput, r.Anomalies)
		}
	}
}

// TestUsualWaits checks that, without a bound in the contract, one wait may be long, but not half of them.
func TestUsualWaits(t *testing.T) {
	told := func(length time.Duration, several int) Result {
		b := newBuilder()
		b.h.Contract().Ordering, b.h.Contract().Backoff.Late, b.h.Contract().Backoff.Usual = history.OrderingNone,
			time.Second, 20*ms
		b.begin()
		for number := range int32(40) {
			b.send(number).fails(number, 1)
			if int(number) < several {
				b.wait(length - 110*ms)
			}
			b.wait(110 * ms).success(number)
		}
		b.commit(40)
		return resultOf(t, judged(t, b.drain().done()), "backoff")
	}
	for _, one := range []struct {
		length  time.Duration
		several int
		late    bool
	}{{200 * ms, 40, true}, {200 * ms, 21, true}, {200 * ms, 19, false}, {160 * ms, 40, false}, {900 * ms, 10, false}} {
		r := told(one.length, one.several)
		if late := len(r.Anomalies) == 1 && r.Anomalies[0].Name == "backoff-late"; late != one.late || len(r.Anomalies) > 1 {
			t.Errorf("%d of 40 waits of 100 ms are %v long: %+v", one.several, one.length, r.Anomalies)
		}
		if one.late && !slices.ContainsFunc(r.Anomalies[0].Counterexamples, func(w Counterexample) bool {
			return strings.Contains(w.Summary, "of 40 gaps 1, ")
		}) {
			t.Errorf("it says %+v", r.Anomalies[0].Counterexamples)
		}
	}
}

// Whatever becomes of the commit of a record's first place, that of its last owes the dead letter.
func TestTheCommitOfTheLastCopyOwesTheLetter(t *testing.T) {
	tell := func(b *builder, number int32, early, hasty, answered bool) {
		b.send(number).fails(number, 1)
		if early {
			b.commit(int64(number) + 1)
		}
		b.retryCopy(number).commit(int64(number) + 1)
		for range 2 {
			b.wait(50*ms).attempt(number, history.OutcomeTransient)
			if b.tries[number] < 3 {
				b.retryCopy(number)
			}
		}
		if hasty { // twice, as the first has no answer yet
			asked := []history.Event{b.askCopies(), b.askCopies()}
			for i := 0; i < len(asked) && answered; i++ {
				b.answerCopies(asked[i])
			}
		}
		b.letter(number)
	}
	for name, test := range map[string]struct {
		early, hasty []bool
		never        bool // no commit of copies is answered
		want         Status
		judged       int64
		anomalies    int64
	}{
		"all in order":           {early: []bool{false, false}, hasty: []bool{false, false}, want: Pass, judged: 2},
		"the first is too early": {early: []bool{true, false}, hasty: []bool{false, false}, want: Pass, judged: 2},
		"both are too early":     {early: []bool{true, true}, hasty: []bool{false, false}, want: Pass, judged: 2},
		"and no copy is committed": {early: []bool{true, true}, hasty: []bool{false, false}, never: true,
			want: Inconclusive},
		"and a last copy, too": {early: []bool{true, true}, hasty: []bool{true, false}, want: Fail, judged: 2, anomalies: 1},
		"and that has no answer": {early: []bool{true, true}, hasty: []bool{true, false}, never: true,
			want: Fail, judged: 1, anomalies: 1},
		"only the last copies": {early: []bool{false, false}, hasty: []bool{true, true}, want: Fail, judged: 2, anomalies: 2},
	} {
		b := newBuilder()
		headerCounter(b)
		b.begin()
		for number := range test.early {
			tell(b, int32(number), test.early[number], test.hasty[number], !test.never)
		}
		if !test.never {
			b.commitCopies(3)
		}
		v := judged(t, b.drain().done())
		got, anomalies := resultOf(t, v, "commit-after-dlq"), int64(0)
		for _, a := range got.Anomalies {
			anomalies += a.Count
		}
		if got.Status != test.want || got.Judged != test.judged || anomalies != test.anomalies {
			t.Errorf("%s: %s, %d judged, %d anomalies\n%s", name, got.Status, got.Judged, anomalies, show(v))
		}
	}
}
