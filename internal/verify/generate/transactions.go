package generate

// This file simulates a consumer whose dead letters and offsets are in transactions (KIP-98, KIP-447): a process writes
// what it has to, then its offsets, then ends the transaction. After an abort it begins at its last commits again.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const (
	// transactionTimeout is the time after which the coordinator aborts the transaction of a frozen process.
	transactionTimeout = 250 * ms
	// fencedError is what a producer gets whose transaction the coordinator has aborted (INVALID_PRODUCER_EPOCH).
	fencedError = 47
)

// Transactions makes a correct history of a consumer with transactions.
func Transactions(c Choices) *History {
	s := &simulation{Choices: c, h: &History{}, logs: map[spot]*topicLog{}}
	s.calm, s.interval = !chance(c, 2), pick(c, 20*ms, ms, 60*ms)
	s.h.Header = s.drawHeader()
	contract := s.contract()
	if contract.Retry == history.RetryTopics {
		contract.Retry, contract.Counter = history.RetryInPlace, history.CounterMemory
	}
	s.produceTwice()
	return s.run()
}

// transaction is the open transaction of a process. A process without transactions has nil.
type transaction struct {
	*process
	producer int64
	epoch    int16
	// number counts the transactions of the process.
	number int
	// writes are the entries stored in it, offsets the commits, flying the number of requests without an answer.
	writes  []place
	offsets map[spot]int64
	flying  int
	// soon: its end is planned. ending: it is under way. offered: its offsets were committed in it. failed: it can only be
	// aborted. committed: the broker has committed it. expired: the coordinator has aborted it.
	soon, ending, offered, failed, committed, expired bool
}

// place is the position of an entry.
type place struct {
	spot
	offset int64
}

func (p *process) begin() {
	if p.interval == 0 {
		return
	}
	before := p.txn
	p.txn = &transaction{process: p, producer: p.id, offsets: map[spot]int64{}}
	if before != nil && chance(p, 2) { // it has the transactional id, and so the producer, of the process before it
		p.txn.producer, p.txn.epoch = before.producer, before.epoch+1
		p.writes = 1000 * int32(p.txn.epoch)
	}
}

// join makes a request part of the transaction.
func (t *transaction) join(e *history.Event) {
	if t == nil {
		return
	}
	e.Flags |= history.InTransaction
	e.ProducerID, e.ProducerEpoch = t.producer, t.epoch
}

// fate is the fate of a request of the transaction.
func (t *transaction) fate() fate {
	if t.expired {
		return refused
	}
	return t.simulation.fate()
}

// closeSoon plans the end of the transaction.
func (t *transaction) closeSoon() {
	if t.soon {
		return
	}
	t.soon = true
	t.after(t.interval+t.lag(), func() {
		t.soon = false
		t.close(false)
	})
}

// close ends the transaction when all of its requests are answered. An abort takes precedence.
func (t *transaction) close(abort bool) {
	if t.failed = t.failed || abort; !t.ending {
		t.ending = true
		t.proceed()
	}
}

func (t *transaction) proceed() {
	switch {
	case t.flying > 0:
		t.after(ms, t.proceed)
	case t.failed:
		t.end(0)
	case t.offered:
		t.end(1)
	default:
		t.offered = true
		t.commitOffsets()
	}
}

// commitOffsets commits the finished prefix of each partition in the transaction.
func (t *transaction) commitOffsets() {
	for _, at := range t.spots() {
		if a := t.owned[at]; !a.lost && a.low() > a.committed {
			t.commitOffset(a, a.low())
		}
	}
	if t.flying+len(t.writes) == 0 {
		t.ending, t.offered = false, false
		return
	}
	t.proceed()
}

func (t *transaction) commitOffset(a *assignment, end int64) {
	ask := t.event(history.KindCommitRequest)
	ask.Op, ask.Topic, ask.Partition, ask.Offset = t.nextOp(), a.at.topic, a.at.partition, end
	t.inGroup(&ask)
	t.join(&ask)
	t.put(ask)
	became := t.fate()
	if a.gone {
		became = refused
	}
	t.flying++
	t.offsets[a.at] = end
	number := t.number
	if became == silent {
		t.after(patience, func() { t.over(number, false) })
		return
	}
	t.simulation.after(t.lag(), func() {
		e := ask
		e.Kind, e.Time = history.KindCommitResponse, t.now
		wait := t.answer(&e, became, 22)
		t.put(e)
		if t.run == e.Run {
			t.after(wait, func() { t.over(number, became == answered) })
		}
	})
}

// answer fills in the answer to a request and returns how long its client waits for it.
func (t *transaction) answer(e *history.Event, became fate, code int16) time.Duration {
	switch became {
	case refused:
		e.Code = code
	case forged:
		e.Code, e.Flags = 16, e.Flags|history.Forged
	case withheld:
		e.Flags |= history.Withheld
		return patience
	}
	return 0
}

// over notes that a request of the transaction with that number is over. If it failed, the transaction is aborted.
func (t *transaction) over(number int, well bool) {
	if t == nil || number != t.number {
		return
	}
	if t.flying--; !well {
		t.close(true)
	}
}

// end requests the end of the transaction: 1 commits it, 0 aborts it.
func (t *transaction) end(how int32) {
	ask := t.event(history.KindTxnEndRequest)
	ask.Op, ask.N, ask.ProducerID, ask.ProducerEpoch = t.nextOp(), how, t.producer, t.epoch
	t.put(ask)
	became := t.fate()
	switch done := became != refused && became != forged; {
	case done && how == 1:
		t.takeEffect()
	case done:
		t.takeBack()
	}
	if became == silent {
		t.after(patience, func() { t.ended(how, became) })
		return
	}
	t.simulation.after(t.lag(), func() {
		e := ask
		e.Kind, e.Time = history.KindTxnEndResponse, t.now
		code := int16(14) // COORDINATOR_LOAD_IN_PROGRESS
		if t.expired {
			code = fencedError
		}
		wait := t.answer(&e, became, code)
		t.put(e)
		if t.run == e.Run {
			t.after(wait, func() { t.ended(how, became) })
		}
	})
}

// ended continues after the end of a transaction, or what may have been its end: the client asks again, or has a new
// epoch and so does without an answer.
func (t *transaction) ended(how int32, became fate) {
	switch {
	case became == answered && how == 1:
		for at, end := range t.offsets {
			if a := t.owned[at]; a != nil {
				a.committed = max(a.committed, end)
			}
		}
		t.clear()
		t.closeSoon()
	case became == answered:
		t.clear()
		t.again()
	case !t.expired && t.Intn(2) == 0:
		t.after(100*ms, func() { t.end(how) })
	default:
		t.takeBack()
		t.clear()
		t.epoch++
		t.again()
	}
}

// takeEffect is the broker's side of a commit.
func (t *transaction) takeEffect() {
	if t.committed {
		return
	}
	t.committed = true
	for at, end := range t.offsets {
		t.logs[at].committed = end
	}
	t.writes = nil
}

// takeBack is the broker's side of an abort.
func (t *transaction) takeBack() {
	for _, one := range t.writes {
		t.logs[one.spot].entries[one.offset].aborted = true
	}
	t.writes = nil
}

func (t *transaction) clear() {
	t.writes, t.offsets, t.flying = nil, map[spot]int64{}, 0
	t.ending, t.offered, t.failed, t.committed, t.expired = false, false, false, false, false
	t.number++
}

// again makes the process begin at its last commits, after a while.
func (t *transaction) again() {
	for _, at := range t.spots() {
		a := t.owned[at]
		a.lost = true
		for _, w := range a.works {
			w.awake()
		}
		t.after(50*ms, func() {
			if t.owned[at] == a && !a.gone {
				t.hold(at).wake()
			}
		})
	}
}

// revoked aborts the transaction, as it may have offsets of a partition that the process lost.
func (t *transaction) revoked() {
	if t != nil && (t.ending || t.flying > 0 || len(t.writes) > 0) {
		t.close(true)
	}
}

// expire aborts the transaction of a process that has ended or stands still. If its commit was carried out, nothing is
// left to abort.
func (t *transaction) expire() {
	if t == nil || t.committed || t.flying+len(t.writes)+len(t.offsets) == 0 {
		return
	}
	t.takeBack()
	t.offsets = map[spot]int64{}
	t.expired = true
}

// pending reports whether a transaction has an offset of the partition that is not committed. Until then the broker
// does not tell the partition's next owner where to begin.
func (s *simulation) pending(at spot) bool {
	return slices.ContainsFunc(s.processes, func(p *process) bool {
		if p.txn == nil || p.dead || p.txn.committed {
			return false
		}
		_, pending := p.txn.offsets[at]
		return pending
	})
}

// TransactionCorruptions lists the corruptions of a history with transactions.
func TransactionCorruptions() []Corruption {
	dlq := func(anomaly string) Promise { return Promise{"commit-after-dlq", anomaly} }
	outcome := func(anomaly string) Promise { return Promise{"commit-after-outcome", anomaly} }
	return slices.Concat([]Corruption{
		{Name: "a dead letter is acknowledged after the end of its transaction is requested",
			Promise: dlq("commit-before-dlq"), apply: lateInTransaction},
		{Name: "an offset is committed beside the transaction of its dead letter", Promise: dlq("commit-before-dlq"),
			apply: besideTransaction},
		{Name: "an offset is committed in a transaction, before the last attempt ends",
			Promise: outcome("commit-past-unfinished"), apply: attemptAfterTransaction},
	}, lossCorruptions(), slices.DeleteFunc(attemptCorruptions(), func(one Corruption) bool {
		return one.Invariant == "ordering" // a dead letter may be written last in its transaction
	}), backoffCorruptions(), deadLetterCorruptions())
}

// ends returns the end of the transaction in which the commit is: its request and its answer.
func (v *view) ends(commit pair) (end pair, found bool) {
	for i := commit.ask; i < len(v.Events); i++ {
		e := &v.Events[i]
		if e.ProducerID != v.Events[commit.ask].ProducerID || e.ProducerEpoch != v.Events[commit.ask].ProducerEpoch {
			continue
		}
		switch {
		case e.Kind == history.KindTxnEndRequest && !found:
			end, found = pair{i, none}, true
		case e.Kind == history.KindTxnEndResponse && found && e.Op == v.Events[end.ask].Op:
			end.answer = i
			return end, true
		}
	}
	return pair{}, false
}

func lateInTransaction(v *view) (int32, bool) {
	f := v.chosen(v.deadLettered)
	commit, found := v.covering(f)
	if !found {
		return none, false
	}
	end, found := v.ends(commit)
	if !found || v.time(end.answer)-v.time(end.ask) < ms || v.time(end.ask)-v.time(f.letters[0].ask) > 500*ms ||
		v.outage(f) {
		return none, false
	}
	v.Events[f.letters[0].answer].Time = v.time(end.ask) + brief
	return about(f)
}

func besideTransaction(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool {
		return v.deadLettered(f) && !v.outage(f) && v.front(f, v.time(f.letters[0].answer)+brief) &&
			v.onlyLetter(f)
	})
	if _, found := v.covering(f); !found {
		return none, false
	}
	return v.commitPast(f, v.time(f.letters[0].answer)+brief)
}

// onlyLetter reports whether no other record before it in its partition was dead-lettered.
func (v *view) onlyLetter(f *facts) bool {
	return !slices.ContainsFunc(v.records, func(other *facts) bool {
		return other != f && len(other.letters) > 0 && v.home(other) == v.home(f) && v.offset(other) < v.offset(f)
	})
}

func attemptAfterTransaction(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool { return v.tried(f) && v.alone(f) && len(f.attempts) == 1 })
	commit, found := v.covering(f)
	if !found {
		return none, false
	}
	end, found := v.ends(commit)
	if !found {
		return none, false
	}
	last := f.attempts[len(f.attempts)-1]
	by := v.time(end.ask) + brief - v.time(last.ask)
	v.Events[last.ask].Time += by
	v.Events[last.answer].Time += by
	return about(f)
}
