package workload

import (
	"slices"
	"sync"

	"github.com/dlqbench/dlqbench/history"
)

// batchIDs are the producer ids of the calls under way: the lowest that are free, so that the judge has few of them.
type batchIDs struct {
	mu   sync.Mutex
	used []bool
}

func (b *batchIDs) take() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.Index(b.used, false)
	if at < 0 {
		at, b.used = len(b.used), append(b.used, false)
	}
	b.used[at] = true
	return history.FirstBatch + int64(at)
}

func (b *batchIDs) free(id int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used[id-history.FirstBatch] = false
}

// BeginBatch begins a call that is an attempt at each of several records. It returns the producer id of the transaction
// that the call is in the history, which its attempts have.
func (a *Attempts) BeginBatch() (id int64) { return a.batches.take() }

// EndBatch records the end of the call that the attempt belongs to, when all its attempts have ended.
func (a *Attempts) EndBatch(of *history.Event, success bool) {
	e := history.New(history.KindTxnEndRequest, a.cfg.Clock.Now())
	e.Op, e.Instance, e.Run, e.N = a.cfg.Ops.Add(1), of.Instance, of.Run, 0
	e.ProducerID, e.ProducerEpoch = of.ProducerID, of.ProducerEpoch
	if success {
		e.N = 1
	}
	a.cfg.Sink.Record(e)
	e.Kind, e.Time = history.KindTxnEndResponse, a.cfg.Clock.Now()
	a.cfg.Sink.Record(e)
	a.batches.free(of.ProducerID)
}
