package consumer

import (
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Action is what becomes of a record next.
type Action uint8

// The actions.
const (
	// Retry: it is tried again.
	Retry Action = iota
	// Finish: nothing is left to do for it; it may be committed.
	Finish
	// DeadLetter: it is published to the dead-letter topic, and finished once that is acknowledged.
	DeadLetter
)

// Decision is a policy's answer; Wait goes with Retry.
type Decision struct {
	Action Action
	Wait   time.Duration
}

// Policy decides after each attempt. It is asked by one goroutine.
type Policy interface {
	// Decide is told how many attempts the record has had (≥ 1) and the error of the last one, nil for a success.
	Decide(record *kgo.Record, attempts int, err error) Decision
	// Republish returns the wait before a dead letter is published again that was refused tries times (≥ 1).
	Republish(tries int) time.Duration
}

// Backoff is the wait between attempts.
type Backoff struct {
	// Initial is the wait after the first failure; with Exponential it doubles with each further one, up to Cap (0: no
	// cap).
	Initial, Cap time.Duration
	Exponential  bool
	// Jitter is the most that is added at random; it comes on top of Cap.
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

// Uniform draws from 0 to limit, both included.
func Uniform(limit time.Duration) time.Duration {
	return time.Duration(rand.Int64N(int64(limit) + 1))
}

// Bounded is the policy of the settings: success and logical failures finish a record, permanent ones dead-letter it at
// once, everything else is retried until it was executed MaxAttempts times.
type Bounded struct {
	// MaxAttempts is the number of executions, the first included.
	MaxAttempts int
	Backoff     Backoff
	// Random draws the jitter: Uniform, or a sequence of one's own.
	Random func(limit time.Duration) time.Duration
}

// minRepublish keeps refused dead letters from spinning when the settings ask for no backoff.
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

// Republish implements Policy: the same backoff as for attempts, without end.
func (p Bounded) Republish(tries int) time.Duration {
	return max(p.Backoff.Wait(tries, p.Random), minRepublish)
}
