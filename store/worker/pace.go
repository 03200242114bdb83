package worker

import (
	"context"
	"sync"
	"time"
)

// Pace spaces retries evenly, for all workers that share it. Delays are not made up for. The zero Pace does not wait.
type Pace struct {
	// Rate is the number of retries per real second. 0 means unlimited.
	Rate float64

	mu   sync.Mutex
	next time.Time
}

// Wait returns when the next retry may begin, or with ctx's error.
func (p *Pace) Wait(ctx context.Context) error {
	if p.Rate == 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	delay := p.next.Sub(now)
	p.next = p.next.Add(time.Duration(float64(time.Second) / p.Rate))
	p.mu.Unlock()
	return sleep(ctx, delay)
}

// sleep waits, or returns ctx's error.
func sleep(ctx context.Context, wait time.Duration) error {
	if err := ctx.Err(); err != nil || wait <= 0 {
		return err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
