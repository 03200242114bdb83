package assertions

// A consumer that gets records which it may process or refuse, such as ones of an earlier schema.

import (
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
)

// old hands a record of an earlier schema to the consumer.
func (b *builder) old(number int32) *builder {
	return b.handOver(number, 0, 0, history.Refusable).acked(number, 0).fetch(number)
}

// toldOfOld is a history of a consumer that promises something about records that it can't read, and gets record 1,
// which it may refuse, behind another one. The drain follows what tell has happen.
func toldOfOld(name string, poison history.Poison, want []string, tell func(*builder)) testCase {
	return testCase{name, want, func(b *builder) history.Source {
		b.h.Contract().Poison, b.h.Refusable = poison, true
		b.begin().send(0).success(0).commit(1).old(1)
		tell(b)
		return b.drain().done()
	}}
}

func refusableCases() []testCase {
	all := append(processedCases(), turnedDownCases()...)
	return append(all, testCase{"observed on the wire alone, nothing shows what became of it", nil,
		func(b *builder) history.Source {
			c := b.h.Contract()
			c.Poison, c.WireOnly, c.Ordering, b.h.Refusable = history.PoisonDeadLetter, true, history.OrderingNone, true
			return b.begin().old(0).old(1).letter(1).commit(2).drain().done()
		}})
}

// processedCases are those of a consumer that reads it. They are the same whatever the contract says about poison.
func processedCases() (all []testCase) {
	for _, poison := range []history.Poison{"", history.PoisonDeadLetter, history.PoisonSkip, history.PoisonHalt} {
		with := " (poison: " + string(poison) + ")"
		all = append(all,
			toldOfOld("it processes the old record"+with, poison, nil, func(b *builder) { b.success(1).commit(2) }),
			toldOfOld("it processes the old record in the end"+with, poison, nil,
				func(b *builder) { b.fails(1, 2).wait(205 * ms).success(1).commit(2) }),
			toldOfOld("it tries the old record until its attempts are used up"+with, poison, nil,
				func(b *builder) { b.fails(1, 3).letter(1).commit(2) }),
			toldOfOld("it processes the old record, and dead-letters it"+with, poison,
				[]string{"dual-terminal"}, func(b *builder) { b.success(1).letter(1).commit(2) }),
			toldOfOld("it gives the old record up too early"+with, poison, []string{"premature-dead-letter", "under-retried"},
				func(b *builder) { b.fails(1, 1).letter(1).commit(2) }),
			toldOfOld("it begins the old record, and goes past it"+with, poison,
				[]string{"commit-past-unfinished", "lost"}, func(b *builder) { b.fails(1, 1).commit(2) }),
			toldOfOld("it begins the old record, and stops"+with, poison, []string{"stalled"},
				func(b *builder) { b.fails(1, 1) }),
			toldOfOld("it commits the old record before it processes it"+with, poison, []string{"commit-past-unfinished"},
				func(b *builder) { b.commit(2).success(1) }),
			toldOfOld("it dead-letters the old record, and the next process processes it"+with, poison,
				[]string{"premature-dead-letter"},
				func(b *builder) { b.letter(1).kill().meetsAgain().success(1).commit(2) }),
		)
	}
	return all
}

// turnedDownCases are those of a consumer that does not read it.
func turnedDownCases() []testCase {
	lost := []string{"commit-past-unfinished", "lost"}
	return []testCase{
		toldOfOld("it dead-letters the old record, as it promised", history.PoisonDeadLetter, nil,
			func(b *builder) { b.letter(1).commit(2) }),
		toldOfOld("it dead-letters the old record, and promised nothing", "", nil,
			func(b *builder) { b.letter(1).commit(2) }),
		toldOfOld("it dead-letters the old record again after a kill", history.PoisonDeadLetter, nil,
			func(b *builder) { b.letter(1).kill().meetsAgain().letter(1).commit(2) }),
		toldOfOld("it skips the old record, as it promised", history.PoisonSkip, nil, func(b *builder) { b.commit(2) }),
		toldOfOld("it halts at the old record, as it promised", history.PoisonHalt, nil,
			func(b *builder) { b.unread(2, 0, 0) }),
		toldOfOld("it ends each time it meets the old record, as it promised", history.PoisonHalt, nil,
			func(b *builder) { b.unread(2, 0, 0).falls(1, "").meetsAgain().falls(1, "").meetsAgain() }),
		toldOfOld("it loses the old record", history.PoisonDeadLetter, lost, func(b *builder) { b.commit(2) }),
		toldOfOld("it loses the old record, and promised nothing", "", lost, func(b *builder) { b.commit(2) }),
		toldOfOld("it is to halt, and goes past the old record", history.PoisonHalt, lost,
			func(b *builder) { b.commit(2) }),
		toldOfOld("it is to halt, and dead-letters the old record", history.PoisonHalt,
			[]string{"commit-past-unfinished", "premature-dead-letter"}, func(b *builder) { b.letter(1).commit(2) }),
		toldOfOld("it is to halt, and dead-letters the old record, perhaps after attempts that a broken link hid",
			history.PoisonHalt, nil, func(b *builder) {
				b.breaks(b.fault("network", "downstream", "downstream down")).wait(300 * ms).letter(1).commit(2)
			}),
		toldOfOld("it is to skip, and stops at the old record", history.PoisonSkip, []string{"stalled"},
			func(*builder) {}),
		toldOfOld("it dead-letters the old record twice", history.PoisonDeadLetter, []string{"dlq-duplicate"},
			func(b *builder) { b.letter(1).letter(1).commit(2) }),
		toldOfOld("it commits the old record before its dead letter is there", history.PoisonDeadLetter,
			[]string{"commit-before-dlq"}, func(b *builder) {
				asked := b.askLetter(1)
				b.commit(2).answerLetter(asked, 0, 0)
			}),
		toldOfOld("it dead-letters the old record with another value", history.PoisonDeadLetter,
			[]string{"payload-changed"}, func(b *builder) {
				b.letter(1).commit(2)
				b.inTopics[len(b.inTopics)-1].ValueHash++
			}),
		toldOfOld("it processes one old record, and refuses the next", history.PoisonDeadLetter, nil,
			func(b *builder) { b.success(1).commit(2).old(2).letter(2).commit(3) }),
	}
}

// What becomes of it is counted as what it was taken for, and its trace says so.
func TestTraceOfARefusableRecord(t *testing.T) {
	for _, one := range []struct {
		say  string
		tell func(*builder)
	}{
		{"which this one did not; planned as success", func(b *builder) { b.success(1).letter(1).commit(2) }},
		{"as this one did", func(b *builder) { b.letter(1).letter(1).commit(2) }},
	} {
		v := judged(t, toldOfOld("", history.PoisonDeadLetter, nil, one.tell).tell(newBuilder()))
		if text := show(v); !strings.Contains(text, one.say) {
			t.Errorf("no trace says %q:\n%s", one.say, text)
		}
	}
}
