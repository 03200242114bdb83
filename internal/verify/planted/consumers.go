package planted

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/deadletter"
)

// bounded is a planted bug whose policy has other limits than the settings.
func bounded(name, what, invariant, anomaly, scenario string, change func(*consumer.Bounded)) Bug {
	return policied(name, what, invariant, anomaly, scenario, func(policy consumer.Policy) consumer.Policy {
		changed, ok := policy.(consumer.Bounded)
		if !ok {
			panic(fmt.Sprintf("the default policy is a %T", policy))
		}
		change(&changed)
		return changed
	})
}

func policied(name, what, invariant, anomaly, scenario string, replace func(consumer.Policy) consumer.Policy) Bug {
	return Bug{Name: name, What: what, Anomaly: anomaly, Invariant: invariant, Scenario: scenario,
		Consumer: func(_ *consumer.Config, parts *consumer.Parts) {
			parts.Policy = replace(parts.Policy)
		}}
}

// eagerParker reports success before the broker answers.
type eagerParker struct{}

func (p eagerParker) Park(ctx context.Context, publisher consumer.Publisher, letter *kgo.Record, done func(error)) {
	done(nil)
	p.publish(ctx, publisher, letter)
}

func (p eagerParker) publish(ctx context.Context, publisher consumer.Publisher, letter *kgo.Record) {
	consumer.AckedParker{}.Park(ctx, publisher, letter, func(err error) {
		if err != nil && ctx.Err() == nil {
			time.AfterFunc(100*time.Millisecond, func() { p.publish(ctx, publisher, letter) })
		}
	})
}

// deafParker takes every answer for a success.
type deafParker struct{}

func (deafParker) Park(ctx context.Context, publisher consumer.Publisher, letter *kgo.Record, done func(error)) {
	consumer.AckedParker{}.Park(ctx, publisher, letter, func(error) { done(nil) })
}

// textParker looks at the answers to dead letters that are text, and takes the others for published.
type textParker struct{}

func (textParker) Park(ctx context.Context, publisher consumer.Publisher, letter *kgo.Record, done func(error)) {
	if utf8.Valid(letter.Value) {
		consumer.AckedParker{}.Park(ctx, publisher, letter, done)
	} else {
		deafParker{}.Park(ctx, publisher, letter, done)
	}
}

// partingParker writes a refused dead letter again until the consumer is told to stop, and then takes it for published.
type partingParker struct{ told <-chan struct{} }

func (p partingParker) Park(ctx context.Context, publisher consumer.Publisher, letter *kgo.Record, done func(error)) {
	consumer.AckedParker{}.Park(ctx, publisher, letter, func(err error) {
		if err == nil {
			done(nil)
			return
		}
		go func() {
			select {
			case <-p.told:
				done(nil)
			case <-time.After(200 * time.Millisecond):
				p.Park(ctx, publisher, letter, done)
			}
		}()
	})
}

// impatientParker gives up a dead letter after its third refusal.
type impatientParker struct {
	mu       sync.Mutex
	refusals map[*kgo.Record]int
}

func newImpatientParker() *impatientParker { return &impatientParker{refusals: map[*kgo.Record]int{}} }

func (p *impatientParker) Park(ctx context.Context, publisher consumer.Publisher, letter *kgo.Record,
	done func(error)) {
	consumer.AckedParker{}.Park(ctx, publisher, letter, func(err error) {
		p.mu.Lock()
		p.refusals[letter]++
		if err == nil || p.refusals[letter] >= 3 {
			err = nil
			delete(p.refusals, letter)
		}
		p.mu.Unlock()
		done(err)
	})
}

// doubleParker produces a dead letter twice, as two records with two sequence numbers.
type doubleParker struct{}

func (doubleParker) Park(ctx context.Context, publisher consumer.Publisher, letter *kgo.Record, done func(error)) {
	consumer.AckedParker{}.Park(ctx, publisher, letter, done)
	consumer.AckedParker{}.Park(ctx, publisher, letter, func(error) {})
}

func silent(zerolog.Logger, consumer.Trouble) {}

// highestTracker commits one past the highest finished record.
type highestTracker struct {
	offsets []int64
	epochs  []int32
	next    int64
	epoch   int32
	open    int
}

func (t *highestTracker) Add(offset int64, epoch int32) uint64 {
	t.offsets, t.epochs = append(t.offsets, offset), append(t.epochs, epoch)
	t.open++
	return uint64(len(t.offsets) - 1)
}

func (t *highestTracker) Finish(slot uint64) {
	t.open--
	if next := t.offsets[slot] + 1; next > t.next {
		t.next, t.epoch = next, t.epochs[slot]
	}
}

func (t *highestTracker) Prefix(int) consumer.Prefix {
	return consumer.Prefix{Next: t.next, Epoch: t.epoch, Open: t.open, OK: t.next > 0}
}

// backwardsCommitter makes every third commit ten below the one before.
type backwardsCommitter struct {
	consumer.Committer
	commits int
	last    map[consumer.TopicPartition]int64
}

func (c *backwardsCommitter) Commit(ctx context.Context, client *kgo.Client,
	marks map[consumer.TopicPartition]consumer.Mark) map[consumer.TopicPartition]error {
	c.commits++
	for at, mark := range marks {
		if last := c.last[at]; c.commits%3 == 2 && last > 0 {
			mark.Offset = max(0, last-10)
			marks[at] = mark
		}
		c.last[at] = mark.Offset
	}
	return c.Committer.Commit(ctx, client, marks)
}

// halfPolicy waits half the promised time.
type halfPolicy struct{ consumer.Policy }

func (p halfPolicy) Decide(record *kgo.Record, attempts int, err error) consumer.Decision {
	decision := p.Policy.Decide(record, attempts, err)
	decision.Wait /= 2
	return decision
}

// impolitePolicy ignores the wait that the downstream asks for.
type impolitePolicy struct{ consumer.Policy }

func (p impolitePolicy) Decide(record *kgo.Record, attempts int, err error) consumer.Decision {
	if err != nil && consumer.ClassOf(err) == consumer.Retryable {
		err = &consumer.Error{Class: consumer.Retryable, Err: err}
	}
	return p.Policy.Decide(record, attempts, err)
}

// stubbornPolicy treats permanent failures as transient.
type stubbornPolicy struct{ consumer.Policy }

func (p stubbornPolicy) Decide(record *kgo.Record, attempts int, err error) consumer.Decision {
	if err != nil && consumer.ClassOf(err) == consumer.Permanent {
		err = &consumer.Error{Class: consumer.Retryable, Err: err}
	}
	return p.Policy.Decide(record, attempts, err)
}

// strictPolicy treats logical failures as permanent.
type strictPolicy struct{ consumer.Policy }

func (p strictPolicy) Decide(record *kgo.Record, attempts int, err error) consumer.Decision {
	if err != nil && consumer.ClassOf(err) == consumer.Logical {
		err = &consumer.Error{Class: consumer.Permanent, Err: err}
	}
	return p.Policy.Decide(record, attempts, err)
}

// gloomyPolicy dead-letters one success in fifty.
type gloomyPolicy struct{ consumer.Policy }

func (p gloomyPolicy) Decide(record *kgo.Record, attempts int, err error) consumer.Decision {
	if err == nil && record.Offset%50 == 49 {
		return consumer.Decision{Action: consumer.DeadLetter}
	}
	return p.Policy.Decide(record, attempts, err)
}

func always(action consumer.Action) func(*kgo.Record) consumer.Action {
	return func(*kgo.Record) consumer.Action { return action }
}

// twice handles one successful record in twenty a second time.
func twice(handler consumer.Handler) consumer.Handler {
	return func(ctx context.Context, record *kgo.Record) error {
		err := handler(ctx, record)
		if err == nil && record.Offset%20 == 19 {
			return handler(ctx, record)
		}
		return err
	}
}

// sealed is a planted bug that changes dead letters after they are encoded.
func sealed(name, what, anomaly string, change func(*kgo.Record)) Bug {
	return Bug{Name: name, What: what, Anomaly: anomaly, Invariant: "dlq-fidelity", Scenario: "mix",
		Consumer: func(_ *consumer.Config, parts *consumer.Parts) {
			parts.Sealer = changed{parts.Sealer, change}
		}}
}

type changed struct {
	deadletter.Sealer
	change func(*kgo.Record)
}

func (s changed) Seal(record *kgo.Record, failure deadletter.Failure) *kgo.Record {
	letter := s.Sealer.Seal(record, failure)
	s.change(letter)
	return letter
}

// addByte makes a new value, because the encoded one is shared with the record.
func addByte(record *kgo.Record) { record.Value = append(slices.Clone(record.Value), ' ') }

func addKeyByte(record *kgo.Record) { record.Key = append(slices.Clone(record.Key), ' ') }

// dropHeader drops an original header. It drops the one with the record's id only if there is no other, so that the
// dead letter can still be identified by its header.
func dropHeader(letter *kgo.Record) {
	at := slices.IndexFunc(letter.Headers, func(header kgo.RecordHeader) bool {
		return header.Key != idHeader && !deadletter.Plain{}.IsFailureHeader(header.Key)
	})
	if at < 0 {
		at = slices.IndexFunc(letter.Headers, func(header kgo.RecordHeader) bool { return header.Key == idHeader })
	}
	if at >= 0 {
		letter.Headers = slices.Delete(letter.Headers, at, at+1)
	}
}

func dropAttempts(letter *kgo.Record) {
	letter.Headers = slices.DeleteFunc(letter.Headers, func(header kgo.RecordHeader) bool {
		return header.Key == deadletter.HeaderAttempt
	})
}

// idHeader is the header that carries the id of a workload record.
const idHeader = "dlqbench-id"

// offByOne names the wrong offset.
type offByOne struct{ deadletter.Sealer }

func (s offByOne) Seal(record *kgo.Record, failure deadletter.Failure) *kgo.Record {
	failure.Offset++
	return s.Sealer.Seal(record, failure)
}
