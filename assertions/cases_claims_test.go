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
