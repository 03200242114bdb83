package downstream

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// rule decides how an attempt is answered; see Stub.Answer.
type rule func(record, attempt int32) (history.Outcome, time.Duration)

func always(outcome history.Outcome) rule {
	return func(int32, int32) (history.Outcome, time.Duration) { return outcome, 0 }
}

// defaultRetryAfter is the wait that a rate limit asks for if the scenario does not specify one.
const defaultRetryAfter = time.Second

func limited(spec RateLimit) rule {
	wait := spec.RetryAfter.D()
	if wait <= 0 {
		wait = defaultRetryAfter
	}
	passing := newBucket(spec.Rate.PerSecond())
	return func(int32, int32) (history.Outcome, time.Duration) {
		if passing.take(time.Now()) {
			return history.OutcomeNone, 0
		}
		return history.OutcomeRateLimited, wait
	}
}

// bucket is a token bucket. It starts full, fills at a constant rate, and holds the tokens of a tenth of a second (at
// least one), so that a caller that exceeds the limit hits it at once.
type bucket struct {
	rate, size float64

	mu     sync.Mutex
	tokens float64
	filled time.Time
}

func newBucket(rate float64) *bucket {
	size := max(1, rate/10)
	return &bucket{rate: rate, size: size, tokens: size}
}

// take takes a token and reports whether there was one.
func (b *bucket) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	// Concurrent callers may arrive in another order than that of their clock readings.
	if since := now.Sub(b.filled).Seconds(); since > 0 {
		b.tokens, b.filled = min(b.size, b.tokens+since*b.rate), now
	}
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// mixed draws each attempt's outcome from the seed, the record and the attempt's number only, so that the same
// attempts fail in the same way in any order.
func mixed(spec Errors, seed uint64) rule {
	shares := []struct {
		outcome history.Outcome
		upTo    float64
	}{
		{history.OutcomeTransient, spec.Transient.Share()}, {history.OutcomePermanent, spec.Permanent.Share()},
		{history.OutcomeLogical, spec.Logical.Share()}, {history.OutcomeTimeout, spec.Timeout.Share()},
		{history.OutcomeReset, spec.Reset.Share()},
	}
	for i := 1; i < len(shares); i++ {
		shares[i].upTo += shares[i-1].upTo
	}
	return func(record, attempt int32) (history.Outcome, time.Duration) {
		at := rand.New(rand.NewPCG(seed, uint64(uint32(record))<<32|uint64(uint32(attempt)))).Float64()
		for _, share := range shares {
			if at < share.upTo {
				return share.outcome, 0
			}
		}
		return history.OutcomeNone, 0
	}
}
