package consumer

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// work is a worker. It processes first, then tasks from the channel.
func (l *loop) work(first *task) {
	for t := first; t != nil; t = <-l.tasks {
		err := l.attempt(t.record)
		// The time is taken here and not in the loop, because the backoff counts from the end of the attempt.
		l.outcomes.put(outcome{task: t, err: err, at: time.Now()})
	}
}

func (l *loop) attempt(record *kgo.Record) (err error) {
	ctx, cancel := context.WithTimeout(l.life, l.config.Settings.AttemptTimeout.D())
	defer cancel()
	defer func() {
		if panicked := recover(); panicked != nil {
			stack := debug.Stack()
			l.config.Logger.Error().Str("topic", record.Topic).Int32("partition", record.Partition).Int64("offset",
				record.Offset).
				Str("stack", string(stack)).Msgf("the handler panicked: %v", panicked)
			err = &Error{Class: Permanent, Name: namePanic, Stack: string(stack),
				Err: fmt.Errorf("the handler panicked: %v", panicked)}
		}
	}()
	return l.config.Handler(ctx, record)
}

// awaitWorkers waits for the workers within the rest of the grace.
func (l *loop) awaitWorkers() error {
	ended := make(chan struct{})
	go func() {
		l.working.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(l.grace(1 - commitShare)):
		return errGrace
	}
}

// poll fetches as many records as it is allowed to and passes them to the loop.
func (l *loop) poll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case limit := <-l.grants:
			fetches := l.client.PollRecords(ctx, limit)
			select {
			case l.polled <- fetches:
			case <-l.done:
			}
			// The loop has the records. Only now may a rebalance take the partitions away.
			l.client.AllowRebalance()
		}
	}
}

// commitRequests carries out the loop's commits, one at a time.
func (l *loop) commitRequests() {
	for request := range l.commits {
		ctx, cancel := context.WithTimeout(l.life, commitLimit)
		request.failed = l.parts.Committer.Commit(ctx, l.client, request.offsets())
		cancel()
		l.committed <- request
	}
}

// mailbox takes outcomes from many goroutines without ever blocking them. A task has at most one outcome in progress,
// so the mailbox holds no more outcomes than there are records in flight.
type mailbox struct {
	wake chan struct{}

	mu           sync.Mutex
	items, spare []outcome
}

func newMailbox() *mailbox { return &mailbox{wake: make(chan struct{}, 1)} }

func (m *mailbox) put(item outcome) {
	m.mu.Lock()
	m.items = append(m.items, item)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take returns the outcomes since the last call. The result is valid until the next call.
func (m *mailbox) take() []outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := m.items
	clear(m.spare) // otherwise it would keep records alive
	m.items, m.spare = m.spare[:0], taken
	return taken
}
