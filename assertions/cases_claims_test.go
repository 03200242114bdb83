package assertions

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// claimed is a history with a dead letter that states its attempts.
type claimed struct {
	testCase
	// open is the part of the dead letter that dlq-fidelity could not judge, by reason.
	open string
}

// quotes makes the latest dead letter quote these answers as reasons.
func (b *builder) quotes(answers ...history.Outcome) *builder {
	more := history.ClaimMore{Quotes: answers}
	b.inTopics[len(b.inTopics)-1].Claim.More = more.Encode()
	return b
}

func reasonCases() []claimed {
	const transient, permanent, logical = history.OutcomeTransient, history.OutcomePermanent, history.OutcomeLogical
	// taken hands the answered record to another process, which dead-letters it.
	taken := func(b *builder) *builder {
		b.begin().as(1, 0).up().as(0, 0).send(0).attempt(0, transient).revoke(0)
		return b.as(1, 0).assign(0).fetch(0).attempt(0, permanent).letter(0).commit(1)
	}
	untrue := []string{"metadata-wrong"}
	return []claimed{
		{testCase{"the reason is the last answer's", nil, func(b *builder) history.Source {
			return b.begin().send(0).fails(0, 3).letter(0).commit(1).quotes(transient).drain().done()
		}}, ""},
		{testCase{"the reason is another's", untrue, func(b *builder) history.Source {
			return b.begin().send(0).fails(0, 3).letter(0).commit(1).quotes(permanent).drain().done()
		}}, ""},
		{testCase{"the reason is an earlier answer's", untrue, func(b *builder) history.Source {
			return b.begin().send(0).fails(0, 1).wait(100*ms).attempt(0, permanent).letter(0).commit(1).quotes(transient).
				drain().done()
		}}, ""},
		{testCase{"the reason is an earlier answer's, and the dead letter is not acknowledged", untrue,
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 1).wait(100*ms).attempt(0, permanent).askLetter(0)
				b.inDLQ(0)
				return b.quotes(transient).drain().done()
			}}, ""},
		{testCase{"the reason is an earlier answer's, as the last attempt got none", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 2).wait(205*ms).attempt(0, history.OutcomeTimeout).letter(0).commit(1).quotes(transient)
			return b.drain().done()
		}}, "reason: its last attempt is not known, or got no answer 1"},
		{testCase{"the reason is another's, and the last attempt got none", untrue, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 2).wait(205*ms).attempt(0, history.OutcomeTimeout).letter(0).commit(1).quotes(logical)
			return b.drain().done()
		}}, ""},
		{testCase{"the reason is the first process's", nil, func(b *builder) history.Source {
			return taken(b).quotes(transient).drain().done()
		}}, "reason: its last attempt is not known, or got no answer 1"},
		{testCase{"the reason is neither process's", untrue, func(b *builder) history.Source {
			return taken(b).quotes(logical).drain().done()
		}}, ""},
		{testCase{"the reason is an earlier answer's, in a stall", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 1).wait(100*ms).attempt(0, permanent).wait(time.Second).stall(history.None, time.Second)
			return b.letter(0).commit(1).quotes(transient).drain().done()
		}}, "reason: stall 1"},
		{testCase{"the reason is another's, in a stall", untrue, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 1).wait(100*ms).attempt(0, permanent).wait(time.Second).stall(history.None, time.Second)
			return b.letter(0).commit(1).quotes(logical).drain().done()
		}}, ""},
		{testCase{"the reason is another's, and no write of it was seen", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3)
			b.inDLQ(0)
			return b.quotes(permanent).drain().done()
		}}, "attempts: no write of the dead letter was seen 1, reason: no write of the dead letter was seen 1"},
		{testCase{"the reason is another's, as the registry does not know its schema", nil, func(b *builder) history.Source {
			f := unknownSchema(b)
			b.begin().send(0).fails(0, 1).breaks(f).wait(100 * ms).letter(0).commit(1).quotes(permanent).heals(f)
			return b.drain().done()
		}}, "attempts: schema unknown to the registry 1, reason: schema unknown to the registry 1"},
		{testCase{"the reason is another's, where calls are for several records", nil, func(b *builder) history.Source {
			b.withOthers().begin()
			e := b.of(history.KindUnreadable)
			e.Code, e.N, e.Text = history.None, ledger, "INSERT"
			b.put(e)
			return b.send(0).fails(0, 3).letter(0).commit(1).quotes(permanent).drain().done()
		}}, "reason: calls for several records 1"},
	}
}

func countCases() []claimed {
	// counted is a history whose dead letter claims the number of attempts, after three attempts and a stall. The waits
	// between four attempts take 700 ms.
	counted := func(stall time.Duration, claim int32) func(*builder) history.Source {
		return func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3).wait(stall-250*ms).stall(history.None, stall).letter(0).commit(1)
			b.inTopics[len(b.inTopics)-1].Claim.Attempts = claim
			return b.drain().done()
		}
	}
	untrue := []string{"metadata-wrong"}
	return []claimed{
		{testCase{"as many attempts as were seen, in a stall", nil, counted(900*ms, 3)}, ""},
		{testCase{"fewer attempts than were seen, in a stall", untrue, counted(900*ms, 2)}, ""},
		{testCase{"fewer attempts than were seen, in a stall in which a write may fail", nil, counted(time.Second, 2)},
			"attempts: stall 1"},
		{testCase{"more attempts than there was time for, in a stall", untrue, counted(300*ms, 4)}, ""},
		{testCase{"more attempts than were seen, in a stall that leaves time for them", nil, counted(900*ms, 4)},
			"attempts: stall 1"},
		{testCase{"fewer attempts than were seen, by a process that had the record before, in a stall", nil,
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 1).revoke(0).assign(0).fetch(0).fails(0, 2).stall(history.None, 300*ms).letter(
					0).commit(1)
				b.inTopics[len(b.inTopics)-1].Claim.Attempts = 0
				return b.drain().done()
			}}, "attempts: stall 1"},
	}
}

// hurriedCases cover dead letters that came too soon, in a stall that may hide attempts if there was time for them.
func hurriedCases() []testCase {
	given := func(before time.Duration, failures int) func(*builder) history.Source {
		return func(b *builder) history.Source {
			return b.begin().send(0).wait(before).fails(0, failures).stall(history.None, 250*ms).letter(0).commit(
				1).drain().done()
		}
	}
	return []testCase{
		{"dead-lettered after the first of three attempts, in a stall", []string{"premature-dead-letter", "under-retried"},
			given(0, 1)},
		{"dead-lettered after the first of three attempts, in a stall that leaves time for them", nil, given(300*ms, 1)},
		{"dead-lettered after two of three attempts, in a stall", []string{"under-retried"}, given(0, 2)},
		{"dead-lettered after two of three attempts, in a stall, where a time-out may be final", nil,
			func(b *builder) history.Source {
				b.h.Contract().Retryable = []history.Outcome{history.OutcomeTransient}
				return given(0, 2)(b)
			}},
		{"dead-lettered without a try, in a stall", []string{"premature-dead-letter"}, given(0, 0)},
		{"dead-lettered without a try, in a stall that leaves time for three", nil, given(300*ms, 0)},
		{"dead-lettered without a try, in a stall, where a time-out may be final", nil, func(b *builder) history.Source {
			b.h.Contract().Retryable = []history.Outcome{history.OutcomeTransient}
			return given(0, 0)(b)
		}},
	}
}

// handedLateCases cover dead letters of records that waited in the topic, in a stall or behind a fault that may hide
// attempts since their process was handed them.
func handedLateCases() []testCase {
	// told has a record sent, handed out by fetch, and dead-lettered too soon for three attempts since then.
	told := func(fetch func(b *builder), failures int) func(*builder) history.Source {
		return func(b *builder) history.Source {
			b.begin().handOver(0, 0, 0, 0)
			b.acked(0, 0)
			fetch(b)
			return b.fails(0, failures).stall(history.None, 250*ms).letter(0).commit(1).drain().done()
		}
	}
	late := func(b *builder) { b.wait(time.Second).fetch(0) }
	twice := func(b *builder) { b.fetch(0).wait(time.Second).fetch(0) }
	moved := func(b *builder) {
		b.fetch(0).wait(time.Second).revoke(0, 1, 2, 3).as(1, 0).up().assign(0, 1, 2, 3).fetch(0)
	}
	return []testCase{
		{"handed out late, and dead-lettered without a try, in a stall", []string{"premature-dead-letter"}, told(late, 0)},
		{"handed out late, and dead-lettered after the first of three, in a stall", []string{"premature-dead-letter",
			"under-retried"}, told(late, 1)},
		{"handed out again, and dead-lettered without a try, in a stall", nil, told(twice, 0)},
		{"handed out again, and dead-lettered after the first of three, in a stall", nil, told(twice, 1)},
		{"handed to another process, and dead-lettered without a try, in a stall", []string{"premature-dead-letter"},
			told(moved, 0)},
		{"handed to another process, whose attempts the record counts, in a stall", nil, func(b *builder) history.Source {
			b.h.Contract().Counter = history.CounterHeader
			return told(moved, 0)(b)
		}},
		{"dead-lettered without a try, right after the one before it, in a stall", []string{"premature-dead-letter"},
			behindAnother(nil)},
		{"dead-lettered without a try, right after another, in a stall, where no order is promised", nil,
			behindAnother(func(b *builder) { b.h.Contract().Ordering = history.OrderingNone })},
		{"dead-lettered without a try, right after another, in a stall, where only attempts are in order", nil,
			behindAnother(func(b *builder) { b.h.Contract().OrderOfAttempts = true })},
		{"handed out after the link to the downstream was down, and dead-lettered without a try",
			[]string{"premature-dead-letter"}, func(b *builder) history.Source {
				f := b.fault("network", "downstream", "downstream down")
				b.begin().handOver(0, 0, 0, 0)
				b.acked(0, 0).breaks(f).wait(400 * ms).heals(f).wait(2 * time.Second).fetch(0)
				return b.letter(0).commit(1).drain().done()
			}},
		// gRPC's clients fail calls without sending them, until they connect again.
		{"dead-lettered without a try, as no call arrived since the link was down for long", nil,
			afterLink(another, func(*builder) {})},
		{"dead-lettered without a try, though a call arrived since the link was down for long",
			[]string{"premature-dead-letter"}, afterLink(func(*builder) {}, another)},
		{"dead-lettered without a try, as only the other instance called since the link was down for long", nil,
			afterLink(func(*builder) {}, func(b *builder) { another(b.as(1, 0).up()); b.as(0, 0) })},
		{"dead-lettered without a try, longer after the link was down than it was", []string{"premature-dead-letter"},
			afterLink(another, func(b *builder) { b.wait(3 * time.Second) })},
	}
}

// another has the record before processed.
func another(b *builder) { b.fetch(0).success(0) }

// afterLink has a record dead-lettered without a try, 2.5 s after the link to the downstream was down for 3 s.
func afterLink(before, after func(*builder)) func(*builder) history.Source {
	return func(b *builder) history.Source {
		f := b.fault("network", "downstream", "downstream down")
		b.h.Contract().Ordering = history.OrderingNone
		b.begin().handOver(0, 0, 0, 0).handOver(1, 0, 0, 0)
		before(b.acked(0, 0).acked(1, 0))
		after(b.breaks(f).wait(3 * time.Second).heals(f))
		return b.wait(2500 * ms).fetch(1).letter(1).commitAll().drain().done()
	}
}

// behindAnother has a record dead-lettered in a stall, without a try, and right after the one before it was finished.
func behindAnother(change func(*builder)) func(*builder) history.Source {
	return func(b *builder) history.Source {
		if change != nil {
			change(b)
		}
		b.begin().send(0).send(1).wait(time.Second).attempt(0, history.OutcomePermanent).letter(0)
		return b.stall(history.None, 250*ms).letter(1).commit(2).drain().done()
	}
}

// A process may be handed an offset when one of its fetches reaches it first. What is no longer kept is not known.
func TestHandouts(t *testing.T) {
	h := &handouts{forgotten: none}
	if _, known := h.first(0); known {
		t.Error("known before the first fetch")
	}
	h.add(9, 1*ms)
	h.add(4, 2*ms) // from an earlier offset again
	h.add(19, 3*ms)
	for offset, want := range map[int64]time.Duration{0: ms, 9: ms, 10: 3 * ms, 19: 3 * ms} {
		if at, known := h.first(offset); !known || at != want {
			t.Errorf("offset %d: %v, %v", offset, at, known)
		}
	}
	if _, known := h.first(20); known {
		t.Error("known before it is fetched")
	}
	for i := range int64(2 * handoutsLimit) {
		h.add(20+i, time.Duration(i)*time.Second)
	}
	if _, known := h.first(19); known || len(h.list) > handoutsLimit {
		t.Errorf("%d fetches are kept", len(h.list))
	}
	if at, known := h.first(2 * handoutsLimit); !known || at != (2*handoutsLimit-20)*time.Second {
		t.Errorf("a late offset: %v, %v", at, known)
	}
}

// TestWhatLettersClaimIsJudged checks that a claim in a dead letter is judged wrong if anything contradicts it, and
// that claims that could not be judged are counted.
func TestWhatLettersClaimIsJudged(t *testing.T) {
	for _, one := range append(reasonCases(), countCases()...) {
		t.Run(one.name, func(t *testing.T) {
			r := resultOf(t, judged(t, one.tell(newBuilder())), "dlq-fidelity")
			var found, open []string
			for _, a := range r.Anomalies {
				found = append(found, a.Name)
			}
			for _, why := range slices.Sorted(maps.Keys(r.NotJudged)) {
				open = append(open, why+" "+string(rune('0'+r.NotJudged[why])))
			}
			if !slices.Equal(found, one.want) || strings.Join(open, ", ") != one.open {
				t.Errorf("it finds %v, and leaves open %v", found, open)
			}
		})
	}
}
