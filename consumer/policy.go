package consumer

import (
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Action is the next step for a record.
type Action uint8

// The actions.
const (
	// Retry: the record is tried again.
	Retry Action = iota
	// Finish: the record is finished and may be committed.
	Finish
	// DeadLetter: the record is published to the dead-letter topic, and is finished once that is acknowledged.
	DeadLetter
)

// Decision is a policy's decision; Wait applies to Retry.
type Decision struct {
	Action Action
	Wait   time.Duration
}

// Policy decides after each attempt. It is called by one goroutine.
type Policy interface {
	// Decide receives the number of attempts that the record has had (≥ 1) and the error of the last one, nil for a
	// success.
	Decide(record *kgo.Record, attempts int, err error) Decision
	// Republish returns the wait before a dead letter that was rejected tries times (≥ 1) is published again.
	Republish(tries int) time.Duration
}

// Backoff is the wait between attempts.
type Backoff struct {
	// Initial is the wait after the first failure. With Exponential it doubles after each further failure, up to Cap
	// (0: no cap).
	Initial, Cap time.Duration
	Exponential  bool
	// Jitter is the maximum random duration added to the wait. It is added after Cap is applied.
	Jitter time.Duration
}

// maxWait keeps an uncapped backoff from overflowing.
const maxWait = 24 * time.Hour

// Wait returns min(Initial·2^(n−1), Cap) + random(Jitter) for the n-th failure (n ≥ 1). random returns a duration from
// 0 to its argument, both included.
func (b Backoff) Wait(n int, random func(time.Duration) time.Duration) time.Duration {
	limit := b.Cap
	if limit <= 0 {
		limit = maxWait
	}
	wait := min(b.Initial, limit)
	for i := 1; b.Exponential && i < n && 0 < wait && wait < limit; i++ {
		wait = min(2*wait, limit)
	}
	if b.Jitter > 0 {
		wait += random(b.Jitter)
	}
	return wait
}

// Uniform returns a random duration from 0 to limit, both included.
func Uniform(limit time.Duration) time.Duration {
	return time.Duration(rand.Int64N(int64(limit) + 1))
}

// Bounded is the policy of the settings. A success or a logical failure finishes a record, a permanent failure
// dead-letters it at once, and any other failure is retried until the record was executed MaxAttempts times.
type Bounded struct {
	// MaxAttempts is the number of executions, including the first.
	MaxAttempts int
	Backoff     Backoff
	// Random draws the jitter: Uniform, or a fixed sequence.
	Random func(limit time.Duration) time.Duration
}

// minRepublish prevents a busy loop of rejected dead letters if the settings have no backoff.
const minRepublish = 50 * time.Millisecond

// Decide implements Policy. A wait is never shorter than the downstream asked for (429 Retry-After).
func (p Bounded) Decide(_ *kgo.Record, attempts int, err error) Decision {
	switch {
	case err == nil, ClassOf(err) == Logical:
		return Decision{Action: Finish}
	case ClassOf(err) == Permanent, attempts >= p.MaxAttempts:
		return Decision{Action: DeadLetter}
	}
	return Decision{Action: Retry, Wait: max(p.Backoff.Wait(attempts, p.Random), retryAfter(err))}
}

// Republish implements Policy. It uses the backoff of attempts, without a maximum number.
func (p Bounded) Republish(tries int) time.Duration {
	return max(p.Backoff.Wait(tries, p.Random), minRepublish)
}
