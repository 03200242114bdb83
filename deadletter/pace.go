package deadletter

import (
	"context"
	"sync"
	"time"
)

// Pace spaces dead letters evenly, for all goroutines that share it. It does not catch up after a delay. The zero Pace
// does not wait.
type Pace struct {
	// Rate is the number of dead letters per second. 0 means unlimited.
	Rate float64

	mu   sync.Mutex
	next time.Time
}

// Wait returns when the next dead letter may begin, or with ctx's error.
func (p *Pace) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil || p.Rate == 0 {
		return err
	}
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	delay := p.next.Sub(now)
	p.next = p.next.Add(time.Duration(float64(time.Second) / p.Rate))
	p.mu.Unlock()
	// A timer is accurate only to about a millisecond, so shorter waits are accumulated.
	if delay < time.Millisecond {
		return nil
	}
	select {
	case <-time.After(delay):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
