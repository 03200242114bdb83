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

// ledger adds up what a fault did and reports it from time to time: per chunk it would be more than the history is good
// for. Only the first of each kind is reported at once, so that the history shows from when on the fault was felt.
type ledger struct {
	active faults.Active

	mu      sync.Mutex
	entries map[string]entry
	begun   map[string]bool

	stop context.CancelFunc
	wg   sync.WaitGroup
}

// entry is how often something was done, and to how many bytes, where it is done to bytes.
type entry struct {
	count int
	bytes int64
}

// reportEvery is how often effects are reported while the fault lasts.
const reportEvery = time.Second

func newLedger(active faults.Active) *ledger {
	return &ledger{active: active, entries: map[string]entry{}, begun: map[string]bool{}}
}

func (l *ledger) add(what string, count int, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.begun[what] {
		l.begun[what] = true
		l.tell(what, entry{count, bytes})
		return
	}
	e := l.entries[what]
	l.entries[what] = entry{e.count + count, e.bytes + bytes}
}

// start reports what there is, and then regularly until close.
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

// close reports what has not been reported. A chunk that is passing just now may be missed.
func (l *ledger) close() {
	l.stop()
	l.wg.Wait()
	l.report()
}

// report writes down what was added since the last time: what is done to bytes by their number, all else by how often
// it was done. What did not happen has no entry, so nothing is ever reported as zero.
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
