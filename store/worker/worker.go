package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/store"
)

const (
	// answerLimit bounds each request to the store, in real time.
	answerLimit = 5 * time.Second
	// firstPause and longestPause bound the real wait after the store failed. It doubles from one to the other.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
	// complainEvery is the real time between two log lines about a lasting problem.
	complainEvery = 5 * time.Second
)

// Run works until ctx ends, then stops in order within Settings.Grace: it claims nothing more, returns entries that are
// claimed and not begun, and waits for retries in progress and settles them. A problem with the store or the downstream
// does not end it: Run logs the problem and continues with growing pauses.
func Run(ctx context.Context, config Config) error {
	if config.Name == "" {
		config.Name = poolName()
	}
	if err := config.validate(); err != nil {
		return err
	}
	if config.Clock == nil {
		config.Clock = time.Now
	}
	pace := &deadletter.Pace{Rate: config.Settings.Rate}
	ready := readyLine(config)
	var group sync.WaitGroup
	for i := range config.Settings.Workers {
		m := &member{
			Config: config, pace: pace, ready: ready, name: fmt.Sprintf("%s-%d", config.Name, i+1),
			trouble: trouble{log: config.Logger},
		}
		group.Go(func() { m.run(ctx) })
	}
	group.Wait()
	return nil
}

// readyLine returns a function that logs once that the pool works, after the store's first answer.
func readyLine(config Config) func() {
	return sync.OnceFunc(func() {
		config.Logger.Log().Str(zerolog.LevelFieldName, "info").Str("state", "ready").Str("name", config.Name).Int("workers",
			config.Settings.Workers).
			Float64("time_scale", config.Strategies.Clock.scale()).Msg("the workers look for dead letters that are due")
		config.Logger.Info().Strs("declares", Declares()).Msg("what is promised, and what is not")
	})
}

// member is one worker of a pool.
type member struct {
	Config
	name    string
	pace    *deadletter.Pace
	ready   func()
	trouble trouble
}

func (m *member) run(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		claimed, err := m.round(ctx)
		wait := m.Strategies.Clock.Real(m.Settings.PollInterval)
		switch {
		case err != nil && ctx.Err() == nil:
			failures++
			m.trouble.complain(err, "looking for dead letters failed; it goes on")
			wait = pause(failures)
		case claimed == m.Settings.BatchSize:
			wait = 0
		}
		if err == nil {
			failures = 0
			m.ready()
			m.trouble.over("the store answers again")
		}
		_ = sleep(ctx, wait) // the loop checks ctx
	}
}

// pause is the wait after a number of consecutive failures.
func pause(failures int) time.Duration {
	return min(firstPause<<min(failures-1, 10), longestPause)
}

// round claims a batch and processes it. It returns the number of entries.
func (m *member) round(ctx context.Context) (int, error) {
	// It does not use ctx: an interruption must not cancel a claim that may have been made.
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
	defer cancel()
	recovered, err := m.Store.Recover(asking)
	if err != nil {
		return 0, fmt.Errorf("recovering the locks of dead workers: %w", err)
	}
	if recovered > 0 {
		m.Logger.Warn().Str("worker", m.name).Int("entries", recovered).Msg(
			"locks whose lease was over are recovered; their entries are tried again")
	}
	at := moment{local: m.Clock(), clock: m.Clock}
	if at.store, err = m.Store.Now(asking); err != nil {
		return 0, fmt.Errorf("asking the store for the time: %w", err)
	}
	entries, err := m.Store.Claim(asking, m.name, m.lease(), m.Settings.BatchSize)
	if err != nil {
		return 0, fmt.Errorf("claiming dead letters: %w", err)
	}
	if len(entries) > 0 {
		m.work(ctx, entries, at)
	}
	return len(entries), nil
}

// moment is one point in time on two clocks. local was read first, so that times computed from it are never before the
// store's time.
type moment struct {
	local, store time.Time
	clock        func() time.Time // the clock of local
}

// now is the time of the store's clock, or slightly later.
func (m moment) now() time.Time { return m.store.Add(m.clock().Sub(m.local)) }

func (m *member) lease() time.Duration { return m.Strategies.Clock.Real(m.Settings.Lease) }

// work processes the claimed entries and returns when it holds none. at is a moment before they were locked.
func (m *member) work(ctx context.Context, entries []store.Entry, at moment) {
	b := newBatch(ctx, m, entries, at)
	defer b.cancel()
	var beating sync.WaitGroup
	beating.Go(b.beat)
	queue := make(chan *hold)
	var group sync.WaitGroup
	for range min(m.Settings.Concurrency, len(entries)) {
		group.Go(func() {
			for each := range queue {
				b.handle(ctx, each)
			}
		})
	}
	for _, each := range b.holds {
		queue <- each
	}
	close(queue)
	group.Wait()
	close(b.done)
	beating.Wait()
}

// settle stores the result of an entry. It repeats the request until the store gives a definite answer or its time is
// over. The error is nil if the entry is settled.
//
// A lost answer must not be mistaken for a lost lock: the store settles, the answer is lost, and settling again gives
// ErrLockLost. Therefore settle checks whether the entry has this worker's attempt.
func (m *member) settle(ctx context.Context, each *hold, change store.Change) error {
	for failures := 1; ; failures++ {
		asking, cancel := context.WithTimeout(ctx, answerLimit)
		err := m.Store.Settle(asking, each.lock, change)
		cancel()
		if errors.Is(err, store.ErrLockLost) && failures > 1 && m.settledBefore(ctx, each, change) {
			err = nil
		}
		var illegal *store.IllegalTransition
		if err == nil || errors.Is(err, store.ErrLockLost) || errors.As(err, &illegal) || errors.Is(err, store.ErrNotFound) {
			return err
		}
		m.trouble.complain(err, "writing what became of a dead letter failed; it goes on")
		if ended := sleep(ctx, pause(failures)); ended != nil {
			return fmt.Errorf("%w; gave up: %w", err, ended)
		}
	}
}

// settledBefore reports whether the entry is in the state that an unanswered Settle would have left.
func (m *member) settledBefore(ctx context.Context, each *hold, change store.Change) bool {
	asking, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	entry, err := m.Store.Get(asking, each.lock.ID)
	if err != nil {
		return false
	}
	if change.Attempt == nil {
		return entry.Version == each.lock.Version+1 && entry.State == change.State
	}
	for _, attempt := range entry.RetryHistory {
		// Databases store times with millisecond precision.
		if attempt.Worker == change.Attempt.Worker && attempt.At.Sub(change.Attempt.At).Abs() < 2*time.Millisecond {
			return true
		}
	}
	return false
}

// trouble logs a lasting problem: at once, and then at intervals.
type trouble struct {
	log  zerolog.Logger
	mu   sync.Mutex
	last time.Time
}

func (t *trouble) complain(err error, message string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.Sub(t.last) >= complainEvery {
		t.last = now
		event := t.log.Error().Err(err)
		if errors.Is(err, store.ErrFull) {
			event = event.Str("state", "full")
		}
		event.Msg(message)
	}
}

func (t *trouble) over(message string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.last.IsZero() {
		t.last = time.Time{}
		t.log.Info().Str("state", "recovered").Msg(message)
	}
}

// sleep waits, or returns ctx's error.
func sleep(ctx context.Context, wait time.Duration) error {
	if err := ctx.Err(); err != nil || wait <= 0 {
		return err
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
