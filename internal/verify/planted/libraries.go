package planted

// This file has bugs that client libraries invite: the effects of their offsets, batches, callbacks and producers when
// used in the obvious way.

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/deadletter"
)

func libraryBugs() []Bug {
	return slices.Concat(offsetBugs(), skippingBugs(), []Bug{
		{
			Name:      "letters-written-in-batches",
			What:      "a dead letter counts as published when it is put into a buffer, which is written when there are twenty",
			Invariant: "commit-after-dlq", Anomaly: "commit-before-dlq", Scenario: "mix",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.Parker = &gatheringParker{} },
		},
		{
			Name: "too-large-is-done", What: "a dead letter that the broker finds too large is logged and counts as published",
			Invariant: "commit-after-dlq", Anomaly: "commit-without-dlq", Scenario: "dlq-too-large",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.Parker = resignedParker{} },
		},
		{
			Name:      "letters-only-the-leader-has",
			What:      "the producer of dead letters waits for the leader alone (acks=1), the default of many clients",
			Invariant: "no-loss", Anomaly: "dropped-by-ack", Scenario: "leader-loss",
			Consumer: leaderAlone,
		},
		batched("batch-written-again",
			"dead letters are written together, and all of them again if one is refused", "dlq-once", "dlq-duplicate",
			func(write func(), done func(error), answers []error) {
				if slices.ContainsFunc(answers, refused) {
					time.AfterFunc(deadLettersTogether, write)
					return
				}
				done(errors.Join(answers...))
			}),
		batched("last-answer-counts",
			"dead letters are written together, and the answer to the last one counts for all", "commit-after-dlq",
			"commit-without-dlq", func(_ func(), done func(error), answers []error) { done(answers[len(answers)-1]) }),
		policied("attempts-of-the-partition",
			"failures are counted by partition, and only a success there sets the count back", "bounded-retries",
			"under-retried", "mix", func(policy consumer.Policy) consumer.Policy {
				return partitionCount{policy, map[consumer.TopicPartition]int{}}
			}),
		policied("timeout-is-permanent", "a call that times out is taken for one that can't succeed", "classification",
			"premature-dead-letter", "timeouts", func(policy consumer.Policy) consumer.Policy { return hurriedPolicy{policy} }),
		policied("page-is-permanent",
			"an error whose body is not JSON, such as a gateway's page, is taken for a failure for good", "classification",
			"premature-dead-letter", "pages", func(policy consumer.Policy) consumer.Policy { return parsingPolicy{policy} }),
		sealedBy("attempts-from-zero", "the attempts that a dead letter tells of don't count the first one", "mix",
			func(next deadletter.Sealer) deadletter.Sealer {
				return failing{next, func(failure *deadletter.Failure) { failure.Attempts-- }}
			}),
	})
}

// offsetBugs are bugs in the committed offsets and in the offset at which reading begins.
func offsetBugs() []Bug {
	return []Bug{
		{
			Name:      "commits-what-it-lost",
			What:      "the map of offsets to commit outlives a rebalance: partitions of others are committed with every commit",
			Invariant: "commit-after-outcome", Anomaly: "commit-regressed", Scenario: "hand-over",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) {
				parts.Committer = &remindingCommitter{parts.Committer, marks{}}
			},
		},
		{
			Name: "commits-the-record-itself", What: "the offset of the last finished record is committed, not the one after it",
			Invariant: "liveness", Anomaly: "stalled", Scenario: "stuck",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.Committer = shortCommitter{parts.Committer} },
		},
		{
			Name:      "waits-for-the-next-offset",
			What:      "the offset to commit is found by counting up, and waits for numbers that no record has",
			Invariant: "liveness", Anomaly: "stalled", Scenario: "gaps",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) {
				parts.NewTracker = func() consumer.Tracker { return &countingTracker{finished: map[int64]int32{}} }
			},
		},
		{
			Name: "markers-are-records", What: "the client hands out transaction markers as if they were records",
			Invariant: "dlq-fidelity", Anomaly: "marker-dead-lettered", Scenario: "gaps",
			Consumer: func(config *consumer.Config, _ *consumer.Parts) {
				config.Options = append(config.Options, kgo.KeepControlRecords())
			},
		},
		{
			Name: "commits-its-position-at-revoke",
			What: "when a partition is taken away everything that was read from it is committed, what is in backoff " +
				"included",
			Invariant: "no-loss", Anomaly: "lost", Scenario: "hand-over",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.AtRevoke = always(consumer.Finish) },
		},
		{
			Name: "dead-letters-at-revoke", What: "what is in backoff when its partition is taken away is dead-lettered",
			Invariant: "classification", Anomaly: "premature-dead-letter", Scenario: "hand-over",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.AtRevoke = always(consumer.DeadLetter) },
		},
		{
			Name: "starts-at-the-latest", What: "a partition without a commit is read from its end", Invariant: "no-loss",
			Anomaly: "lost", Scenario: "first-commit", Consumer: func(config *consumer.Config, _ *consumer.Parts) {
				config.Options = append(config.Options, kgo.ConsumeStartOffset(kgo.NewOffset().AtEnd()),
					kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
			},
		},
	}
}

// skippingBugs are bugs that finish records without an attempt.
func skippingBugs() []Bug {
	skipping := func(name, what, scenario string, wrap func(consumer.Handler) consumer.Handler) Bug {
		return Bug{Name: name, What: what, Invariant: "no-loss", Anomaly: "lost", Scenario: scenario,
			Consumer: func(config *consumer.Config, _ *consumer.Parts) {
				config.Handler = wrap(config.Handler)
			}}
	}
	return []Bug{
		skipping("rest-of-the-batch-skipped",
			"a failure for good ends the batch that the record came in: those behind it count as read", "mix", skipRest),
		skipping("repeats-known-by-offset",
			"records are remembered by their offset, to know a repeat; the partition is not part of it", "mix", skipKnown),
		skipping("tombstones-dropped", "a record without a value is committed, and nothing else", "tombstones",
			skipTombstones),
	}
}

// countingTracker expects each offset to be followed by the next number.
type countingTracker struct {
	added    []int64
	epochs   []int32
	finished map[int64]int32
	prefix   consumer.Prefix
}

func (t *countingTracker) Add(offset int64, epoch int32) uint64 {
	if len(t.added) == 0 {
		t.prefix.Next = offset
	}
	t.added, t.epochs = append(t.added, offset), append(t.epochs, epoch)
	t.prefix.Open++
	return uint64(len(t.added) - 1)
}

func (t *countingTracker) Finish(slot uint64) {
	t.finished[t.added[slot]] = t.epochs[slot]
	for epoch, is := t.finished[t.prefix.Next]; is; epoch, is = t.finished[t.prefix.Next] {
		t.prefix.Next, t.prefix.Epoch, t.prefix.OK = t.prefix.Next+1, epoch, true
		t.prefix.Open--
	}
}

func (t *countingTracker) Prefix(int) consumer.Prefix { return t.prefix }

// remindingCommitter repeats all its earlier commits.
type remindingCommitter struct {
	consumer.Committer
	all marks
}

func (c *remindingCommitter) Commit(ctx context.Context, client *kgo.Client, own marks) failures {
	maps.Copy(c.all, own)
	return c.Committer.Commit(ctx, client, maps.Clone(c.all))
}

// shortCommitter commits one offset less.
type shortCommitter struct{ consumer.Committer }

func (c shortCommitter) Commit(ctx context.Context, client *kgo.Client, own marks) failures {
	short := marks{}
	for at, mark := range own {
		mark.Offset--
		short[at] = mark
	}
	return c.Committer.Commit(ctx, client, short)
}

// deadLettersGathered is the number of dead letters that a gatheringParker writes together.
const deadLettersGathered = 20

// gatheringParker writes dead letters together, later.
type gatheringParker struct {
	mu   sync.Mutex
	held []*kgo.Record
}

func (p *gatheringParker) Park(ctx context.Context, publisher consumer.Publisher, letter *kgo.Record,
	done func(error)) {
	p.mu.Lock()
	p.held = append(p.held, letter)
	var full []*kgo.Record
	if len(p.held) == deadLettersGathered {
		full, p.held = p.held, nil
	}
	p.mu.Unlock()
	done(nil)
	for _, one := range full {
		consumer.AckedParker{}.Park(ctx, publisher, one, func(error) {})
	}
}

// deadLettersTogether is how long a batchParker gathers dead letters.
const deadLettersTogether = 50 * time.Millisecond

// batchParker writes the dead letters of a moment together, and answers for all of them at once: conclude is given the
// answers, and writes them again or passes one answer on.
type batchParker struct {
	conclude func(write func(), done func(error), answers []error)

	mu   sync.Mutex
	held []unanswered
}

type unanswered struct {
	letter *kgo.Record
	done   func(error)
}

func batched(name, what, invariant, anomaly string, conclude func(func(), func(error), []error)) Bug {
	return Bug{Name: name, What: what, Invariant: invariant, Anomaly: anomaly, Scenario: "partly-refused",
		Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.Parker = &batchParker{conclude: conclude} }}
}

// refused reports whether a dead letter was refused; one that a stop interrupts was not.
func refused(err error) bool { return err != nil && !errors.Is(err, context.Canceled) }

func (p *batchParker) Park(ctx context.Context, publisher consumer.Publisher, letter *kgo.Record, done func(error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held = append(p.held, unanswered{letter, done}); len(p.held) > 1 {
		return
	}
	time.AfterFunc(deadLettersTogether, func() {
		p.mu.Lock()
		batch := p.held
		p.held = nil
		p.mu.Unlock()
		p.write(ctx, publisher, batch)
	})
}

func (p *batchParker) write(ctx context.Context, publisher consumer.Publisher, batch []unanswered) {
	answers := make([]error, len(batch))
	var open atomic.Int64
	open.Store(int64(len(batch)))
	for i, one := range batch {
		consumer.AckedParker{}.Park(ctx, publisher, one.letter, func(err error) {
			if answers[i] = err; open.Add(-1) > 0 {
				return
			}
			p.conclude(func() { p.write(ctx, publisher, batch) }, func(err error) {
				for _, other := range batch {
					other.done(err)
				}
			}, answers)
		})
	}
}

// resignedParker gives up dead letters that are too large.
type resignedParker struct{}

func (resignedParker) Park(ctx context.Context, publisher consumer.Publisher, letter *kgo.Record, done func(error)) {
	consumer.AckedParker{}.Park(ctx, publisher, letter, func(err error) {
		if errors.Is(err, kerr.MessageTooLarge) {
			err = nil
		}
		done(err)
	})
}

// partitionCount keeps one failure count for all records of a partition.
type partitionCount struct {
	consumer.Policy
	failures map[consumer.TopicPartition]int
}

func (p partitionCount) Decide(record *kgo.Record, attempts int, err error) consumer.Decision {
	at := consumer.TopicPartition{Topic: record.Topic, Partition: record.Partition}
	if err == nil {
		p.failures[at] = 0
		return p.Policy.Decide(record, attempts, nil)
	}
	p.failures[at]++
	return p.Policy.Decide(record, p.failures[at], err)
}

// hurriedPolicy does not wait for slow answers.
type hurriedPolicy struct{ consumer.Policy }

func (p hurriedPolicy) Decide(record *kgo.Record, attempts int, err error) consumer.Decision {
	var failure *consumer.Error
	if errors.As(err, &failure) && failure.Name == "TimeoutError" {
		err = &consumer.Error{Class: consumer.Permanent, Err: err}
	}
	return p.Policy.Decide(record, attempts, err)
}

// parsingPolicy takes the answer of a downstream for one that can't change if there is no text in it.
type parsingPolicy struct{ consumer.Policy }

func (p parsingPolicy) Decide(record *kgo.Record, attempts int, err error) consumer.Decision {
	var failure *consumer.Error
	if errors.As(err, &failure) && failure.Code != "" &&
		strings.HasPrefix(failure.Err.Error(), "the downstream answered") {
		err = &consumer.Error{Class: consumer.Permanent, Err: err}
	}
	return p.Policy.Decide(record, attempts, err)
}

// skipRest skips the ten records after one that failed for good.
func skipRest(next consumer.Handler) consumer.Handler {
	var mu sync.Mutex
	failed := map[consumer.TopicPartition]int64{}
	return func(ctx context.Context, record *kgo.Record) error {
		at := consumer.TopicPartition{Topic: record.Topic, Partition: record.Partition}
		mu.Lock()
		last, ok := failed[at]
		mu.Unlock()
		if ok && record.Offset > last && record.Offset <= last+10 {
			return nil
		}
		err := next(ctx, record)
		if err != nil && consumer.ClassOf(err) == consumer.Permanent {
			mu.Lock()
			failed[at] = record.Offset
			mu.Unlock()
		}
		return err
	}
}

// skipKnown skips records with the offset of one that was processed.
func skipKnown(next consumer.Handler) consumer.Handler {
	var known sync.Map
	return func(ctx context.Context, record *kgo.Record) error {
		if _, ok := known.Load(record.Offset); ok {
			return nil
		}
		err := next(ctx, record)
		if err == nil {
			known.Store(record.Offset, true)
		}
		return err
	}
}

func skipTombstones(next consumer.Handler) consumer.Handler {
	return func(ctx context.Context, record *kgo.Record) error {
		if record.Value == nil {
			return nil
		}
		return next(ctx, record)
	}
}
