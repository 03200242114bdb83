package assertions

// Histories of records that the workload produces twice: one id at two offsets.

import (
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// sendTwice sends the record and a copy to partition 0, with both acknowledged and fetched. Dead letters name the
// second copy until first is called.
func (b *builder) sendTwice(number int32) *builder {
	b.send(number).handOver(number, 0, 0, history.Repeated)
	b.events[len(b.events)-1].Aux = b.events[len(b.events)-4].Aux
	b.sent--
	b.acked(number, 0)
	b.events[len(b.events)-1].Flags = history.Repeated
	return b.fetch(number)
}

// unacknowledged makes the acknowledgement with these flags a lost one.
func (b *builder) unacknowledged(flags history.Flags) *builder {
	for i := range b.events {
		if e := &b.events[i]; e.Kind == history.KindAcked && e.Flags == flags {
			e.Code, e.Offset = 7, none
		}
	}
	return b
}

// copyAt makes the following events of the record those of its copy at the offset.
func (b *builder) copyAt(number int32, offset int64) *builder {
	b.where[number] = place{input, 0, offset}
	return b
}

func twiceCases() []testCase {
	atLeast, once, perCopy := history.Effects{}, history.Effects{Once: true}, history.Effects{PerCopy: true}
	gone := func(b *builder) *builder { return b.attempt(0, history.OutcomePermanent).letter(0) }
	return []testCase{
		{"a record is produced twice, and each copy succeeds", nil, func(b *builder) history.Source {
			return b.withSink(atLeast).begin().sendTwice(0).success(0).success(0).commit(2).drain().sinkHas(2).done()
		}},
		{"of a record that is produced twice, three copies succeed", []string{"duplicate", "effect-doubled"},
			func(b *builder) history.Source {
				b.withSink(atLeast).begin().sendTwice(0).success(0).success(0).success(0)
				return b.commit(2).drain().sinkHas(4).done()
			}},
		{"the second copy of a record is recognised, and skipped", nil, func(b *builder) history.Source {
			return b.withSink(once).begin().sendTwice(0).success(0).commit(2).drain().sinkHas(1).done()
		}},
		{"a record that is produced twice has its effect twice, against repeats: never", []string{"effect-doubled"},
			func(b *builder) history.Source {
				return b.withSink(once).begin().sendTwice(0).success(0).success(0).commit(2).drain().sinkHas(2).done()
			}},
		{"a record that is produced twice has its effect twice, as promised", nil, func(b *builder) history.Source {
			return b.withSink(perCopy).begin().sendTwice(0).success(0).success(0).commit(2).drain().sinkHas(2).done()
		}},
		{"a record that is produced twice has its effect three times after a kill, against repeats: produced",
			[]string{"effect-doubled"}, func(b *builder) history.Source {
				b.withSink(perCopy).begin().sendTwice(0).success(0).success(0).kill().as(0, 1).up().assign(0, 1, 2, 3)
				b.copyAt(0, 0).fetch(0).success(0).copyAt(0, 1).fetch(0).success(0)
				return b.commit(2).drain().sinkHas(3).done()
			}},
		{"its process is killed, and each copy is delivered again", nil, func(b *builder) history.Source {
			b.withSink(atLeast).begin().sendTwice(0).success(0).success(0).kill().as(0, 1).up().assign(0, 1, 2, 3)
			b.copyAt(0, 0).fetch(0).success(0).copyAt(0, 1).fetch(0).success(0)
			return b.commit(2).drain().sinkHas(4).done()
		}},
		{"the copies are attempted at the same time, and each is tried again", nil, func(b *builder) history.Source {
			b.h.Contract().Ordering = history.OrderingNone
			b.begin().sendTwice(0)
			for k := range 2 {
				one, two := b.start(0), b.start(0)
				b.end(one, 0, history.OutcomeTransient)
				b.end(two, 0, history.OutcomeTransient)
				b.wait(b.h.Contract().Backoff.Wait(k+1) + 5*ms)
			}
			return b.success(0).success(0).commit(2).drain().done()
		}},
		{"neither copy of a record is attempted, and both are committed", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				return b.begin().sendTwice(0).commit(2).drain().done()
			}},
		{"the audit does not find the second copy of a record", []string{"dropped-by-ack"}, func(b *builder) history.Source {
			b.begin().sendTwice(0).success(0).success(0).commit(2)
			b.inTopics = b.inTopics[:1]
			return b.drain().done()
		}},
		{"no commit covers the second copy of a record", []string{"stalled"}, func(b *builder) history.Source {
			return b.begin().sendTwice(0).success(0).commit(1).drain().done()
		}},
		{"each copy of a record is dead-lettered", nil, func(b *builder) history.Source {
			gone(b.begin().sendTwice(0).copyAt(0, 0)).copyAt(0, 1)
			return gone(b).commit(2).drain().done()
		}},
		{"the dead letters of both copies are written by one request, and again, as its answer is withheld", nil,
			func(b *builder) history.Source {
				b.begin().sendTwice(0).attempt(0, history.OutcomePermanent).attempt(0, history.OutcomePermanent)
				for _, flags := range []history.Flags{history.Withheld, 0} {
					one := b.askLetter(0)
					two := one
					two.Time, two.Sequence = b.tick(), one.Sequence+100
					b.put(two)
					b.copyAt(0, 0).answerLetter(one, 0, flags).copyAt(0, 1).answerLetter(two, 0, flags)
				}
				return b.commit(2).drain().done()
			}},
		{"each copy of a record is dead-lettered, in a dialect that names no offset", nil, func(b *builder) history.Source {
			b.h.Contract().Envelope = "hexkit"
			gone(gone(b.begin().sendTwice(0).copyAt(0, 0)).copyAt(0, 1))
			for i := range 2 {
				b.inTopics[len(b.inTopics)-1-i].Claim.Offset = history.None
			}
			return b.commit(2).drain().done()
		}},
		{"one copy of a record is dead-lettered twice, the other never", []string{"dlq-duplicate"},
			func(b *builder) history.Source {
				gone(gone(b.begin().sendTwice(0).copyAt(0, 0)))
				return b.commit(2).drain().done()
			}},
		{"of a record that is produced twice, three dead letters are written", []string{"dlq-duplicate"},
			func(b *builder) history.Source {
				gone(b.begin().sendTwice(0).copyAt(0, 0)).copyAt(0, 1)
				return gone(b).letter(0).commit(2).drain().done()
			}},
		{"a dead letter names an offset at which no copy is", []string{"metadata-wrong"}, func(b *builder) history.Source {
			gone(b.begin().sendTwice(0).copyAt(0, 0)).copyAt(0, 1)
			gone(b).inTopics[len(b.inTopics)-1].Claim.Offset = 7
			return b.commit(2).drain().done()
		}},
		{"the acknowledgement of the second copy is lost, and its commits are refused", nil,
			func(b *builder) history.Source {
				b.begin().sendTwice(0).unacknowledged(history.Repeated).success(0).commit(1)
				for range 3 {
					b.success(0).answerCommit(b.askCommit(0, 2), 22, 0).copyAt(0, 1).fetch(0)
				}
				return b.success(0).commit(2).drain().done()
			}},
		{"the acknowledgement of the first copy is lost, and its process is killed", nil, func(b *builder) history.Source {
			b.begin().sendTwice(0).unacknowledged(0)
			b.success(0).success(0).wait(time.Second).kill().as(0, 1).up().assign(0, 1, 2, 3)
			b.copyAt(0, 0).fetch(0).success(0).copyAt(0, 1).fetch(0).success(0)
			return b.commit(2).drain().done()
		}},
	}
}

// TestOnlySuccessesAreDuplicates checks that what follows a repeated success is not counted as another.
func TestOnlySuccessesAreDuplicates(t *testing.T) {
	b := newBuilder().begin().send(0).success(0).success(0).attempt(0, history.OutcomeTransient)
	b.end(b.start(0), 0, history.OutcomeSuccess).Flags = history.ClientGone
	r := resultOf(t, judged(t, b.commit(1).drain().done()), "duplicates")
	if r.Judged != 2 || len(r.Anomalies) != 1 || r.Anomalies[0].Count != 1 {
		t.Errorf("judged %d, anomalies %+v", r.Judged, r.Anomalies)
	}
}
