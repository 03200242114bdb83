package assertions

import (
	"slices"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// ownEntry is the entry of record 0 in the subject's own store.
func (b *builder) ownEntry() *entry {
	return &entry{b: b, number: 1, state: history.StorePending, lease: history.None, next: history.None,
		instance: history.None, retries: 1}
}

// The workers of the subject's own store call the downstream in the same way as its consumers. Their attempts are held
// against no promise of the consumer; the consumer's actions are judged up to its dead letter.
func TestTriesOfTheSubjectsOwnStore(t *testing.T) {
	t.Parallel()
	workers := func(b *builder, outcomes ...history.Outcome) {
		for _, outcome := range outcomes {
			b.attempt(0, outcome)
		}
	}
	permanent, success := history.OutcomePermanent, history.OutcomeSuccess
	for _, one := range []struct {
		name string
		want []string
		tell func(b *builder)
	}{
		{"workers try it at once, and often, and it succeeds", nil, func(b *builder) {
			b.dead(0).row(0)
			workers(b, permanent, transient, transient, transient, transient, success)
			b.ownEntry().change(history.StoreResolved)
		}},
		{"a worker has the dead letter before the consumer has its acknowledgement", nil, func(b *builder) {
			asked := b.send(0).fails(0, 3).askLetter(0)
			workers(b, transient)
			b.answerLetter(asked, 0, 0).commit(1).row(0)
			workers(b, success)
			b.ownEntry().change(history.StoreResolved)
		}},
		{"a worker's attempt goes on while the consumer is killed, which has the record again and dead-letters it again", nil,
			func(b *builder) {
				b.send(0).fails(0, 3).letter(0).row(0)
				open := b.start(0)
				b.kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0)
				b.end(open, 0, transient)
				b.fails(0, 1).letter(0).commit(1)
			}},
		{"a consumer without a dead-letter topic gives it up, and workers go on with it", nil, func(b *builder) {
			b.h.Contract().Envelope = ""
			b.send(0).fails(0, 3).commit(1).row(0)
			workers(b, transient, transient, success)
			b.ownEntry().change(history.StoreResolved)
		}},
		{"the consumer itself tries too often", []string{"over-retried"}, func(b *builder) {
			b.send(0).fails(0, 4).letter(0).commit(1).row(0)
		}},
		{"the consumer itself gives up too soon", []string{"premature-dead-letter", "under-retried"}, func(b *builder) {
			b.send(0).fails(0, 1).letter(0).commit(1).row(0)
		}},
		{"the consumer processes a record twice", []string{"duplicate"}, func(b *builder) {
			b.send(0).success(0).success(0).commit(1)
		}},
		{"resolved, and no worker succeeded", []string{"resolved-without-success"}, func(b *builder) {
			b.dead(0).row(0)
			workers(b, transient)
			b.ownEntry().change(history.StoreResolved)
		}},
	} {
		t.Run(one.name, func(t *testing.T) {
			b := newBuilder().ownStore()
			one.tell(b)
			b.wait(time.Second)
			v := judged(t, b.polled().settled())
			if got := named(v); !slices.Equal(got, append([]string{}, one.want...)) {
				t.Errorf("anomalies %v, want %v\n%s", got, one.want, show(v))
			}
		})
	}
}
