package network

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
)

// ledger adds up a fault's effects and reports them from time to time, because one event per chunk would overload the
// history. Only the first effect of each kind is reported at once, so that the history shows when the fault was first
// felt.
type ledger struct {
	active faults.Active

	mu      sync.Mutex
	entries map[string]entry
	begun   map[string]bool

	stop context.CancelFunc
	wg   sync.WaitGroup
}

// entry counts one kind of effect, and its bytes if it affects bytes.
type entry struct {
	count int
	bytes int64
}

// reportEvery is the interval of reports while the fault lasts.
const reportEvery = time.Second

func newLedger(active faults.Active) *ledger {
	return &ledger{active: active, entries: map[string]entry{}, begun: map[string]bool{}}
}

func (l *ledger) add(what string, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.begun[what] {
		l.begun[what] = true
		l.tell(what, entry{1, bytes})
		return
	}
	e := l.entries[what]
	l.entries[what] = entry{e.count + 1, e.bytes + bytes}
}

// start reports the effects so far, and then regularly until close.
func (l *ledger) start() {
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.report()
	l.wg.Go(func() {
		tick := time.NewTicker(reportEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				l.report()
			case <-ctx.Done():
				return
			}
		}
	})
}

// close reports the remaining effects. It may miss a chunk that is passing now.
func (l *ledger) close() {
	l.stop()
	l.wg.Wait()
	l.report()
}

// report records the effects since the last report: effects on bytes by the number of bytes, all others by their
// number. An effect that did not occur has no entry, so zero is never reported.
func (l *ledger) report() {
	l.mu.Lock()
	entries := l.entries
	l.entries = map[string]entry{}
	l.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(entries)) {
		l.tell(what, entries[what])
	}
}

func (l *ledger) tell(what string, e entry) {
	count, aux := e.count, int64(0)
	if e.bytes > 0 {
		count, aux = int(min(e.bytes, math.MaxInt32)), int64(count)
	}
	l.active.Effect(what, count, aux, history.None)
}
