package generate

// This file simulates a process's requests to the broker and their failures: refused by the broker, refused by a fault
// in its place, carried out with the answer withheld, or never answered.

import (
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// fate is the fate of a request.
type fate int

const (
	answered fate = iota
	refused
	forged
	withheld
	silent // no answer, but carried out
)

// patience is a client's request timeout.
const patience = 600 * ms

func (s *simulation) fate() fate {
	if !s.troubled || s.Intn(8) < 6 {
		return answered
	}
	return pick(s, refused, forged, withheld, silent)
}

// write produces a record until it is acknowledged, which finishes the work. again is the request that it repeats, or
// nil for the first.
func (w *work) write(to spot, one entry, again *history.Event) {
	p := w.process
	switch {
	case p.stopping:
		return
	case p.txn != nil && p.txn.ending:
		w.after(ms, func() { w.write(to, one, again) })
		return
	}
	ask := p.event(history.KindProduceRequest)
	ask.Op, ask.Record, ask.Topic, ask.Partition = p.nextOp(), w.record.number, to.topic, to.partition
	if p.h.role(to.topic) == history.RoleDLQ && p.losesID(w.record) {
		ask.Record = none
	}
	ask.KeyHash, ask.ValueHash, ask.ProducerID, ask.ProducerEpoch, ask.Sequence = w.record.keyHash(), w.record.valueHash(),
		p.id, 0, p.writes
	if again != nil {
		ask.Sequence = again.Sequence
	} else {
		p.writes++
	}
	became, number := p.fate(), 0
	if p.txn != nil {
		became, number = p.txn.fate(), p.txn.number
		p.txn.join(&ask)
		p.txn.flying++
	}
	p.put(ask)
	if p.h.role(to.topic) == history.RoleDLQ && p.dlqDown {
		became = pick(p.simulation, forged, refused, forged)
	}
	offset := p.store(to, one, &ask, became)
	if became == silent {
		w.unanswered(to, one, &ask, number)
		return
	}
	p.simulation.after(p.lag(), func() { w.written(to, one, ask, number, became, offset) })
}

// store carries out a produce, once per sequence number of an idempotent producer.
func (p *process) store(to spot, one entry, ask *history.Event, became fate) int64 {
	if became == refused || became == forged {
		return history.None
	}
	log := p.logs[to]
	key := ask.ProducerID<<32 | int64(ask.Sequence)
	if offset, known := log.written[key]; known {
		return offset
	}
	offset := p.append(to, one)
	log.written[key] = offset
	if p.txn != nil {
		p.txn.writes = append(p.txn.writes, place{to, offset})
	}
	return offset
}

// written handles the answer to a produce.
func (w *work) written(to spot, one entry, ask history.Event, number int, became fate, offset int64) {
	p := w.process
	e := ask
	e.Kind, e.Time, e.Offset = history.KindProduceResponse, p.now, offset
	switch became {
	case refused:
		e.Code = p.refusal
	case forged:
		e.Code, e.Flags = p.refusal, ask.Flags|history.Forged
	case withheld:
		e.Flags |= history.Withheld
	}
	p.put(e)
	if p.run != ask.Run {
		return
	}
	switch became {
	case answered:
		p.after(0, func() { p.txn.over(number, true) })
		w.after(0, w.finish)
	case withheld:
		w.unanswered(to, one, &ask, number)
	default:
		if p.txn != nil {
			p.after(0, func() {
				p.complain()
				p.txn.over(number, false)
			})
			return
		}
		p.after(0, func() { p.complain() })
		w.after(100*ms, func() { w.write(to, one, nil) })
	}
}

// unanswered continues after a produce that got no answer, which was in the transaction with that number.
func (w *work) unanswered(to spot, one entry, ask *history.Event, number int) {
	p := w.process
	if p.txn == nil {
		w.after(patience, func() { w.rewrite(to, one, ask) })
		return
	}
	p.after(patience, func() {
		if w.lost || p.txn.ending || p.txn.number != number || p.Intn(2) == 0 {
			p.txn.over(number, false)
			return
		}
		p.txn.over(number, true)
		w.write(to, one, ask)
	})
}

// rewrite repeats a produce that got no answer: with the same sequence number or, if the client gave up on the request,
// with a new one.
func (w *work) rewrite(to spot, one entry, ask *history.Event) {
	if w.process.Intn(2) == 0 {
		w.write(to, one, ask)
		return
	}
	w.write(to, one, nil)
}

// complain reports the failure in the log or by a temporarily bad health status. Sometimes it first logs an unrelated
// message.
func (p *process) complain() {
	if p.Intn(3) == 0 {
		p.put(p.unrelated())
	}
	if p.Intn(4) == 0 {
		e := p.event(history.KindSubjectHealth)
		e.N, e.Text = 0, "it answers 503"
		p.put(e)
		p.after(time.Second, func() {
			e := p.event(history.KindSubjectHealth)
			e.N, e.Text = 1, "it answers 200"
			p.put(e)
		})
		return
	}
	e := p.event(history.KindSubjectError)
	switch p.Intn(4) {
	case 0:
		e.Code, e.Text = p.refusal, "a write was refused, tried again"
	case 1:
		e.Code, e.Text = groupError, "generated.dlq-0: REBALANCE_IN_PROGRESS"
	default:
		e.Text = "ERROR dead letter refused"
	}
	p.put(e)
}

// groupError is the error that group members get during a rebalance (REBALANCE_IN_PROGRESS). It never answers a
// produce.
const groupError = 27

func (p *process) unrelated() history.Event {
	e := p.event(history.KindSubjectError)
	e.Code, e.Text = groupError, "WARN REBALANCE_IN_PROGRESS"
	return e
}

func (a *assignment) commitSoon() {
	if txn := a.process.txn; txn != nil {
		txn.closeSoon()
		return
	}
	if a.committing || a.lost {
		return
	}
	a.committing = true
	a.process.after(a.process.lag(), func() { a.commit() })
}

// low is the first unfinished offset.
func (a *assignment) low() int64 {
	for _, w := range a.works {
		if !w.done {
			return w.offset
		}
	}
	return a.next
}

// commitNow commits what is finished.
func (a *assignment) commitNow() {
	if txn := a.process.txn; txn != nil {
		txn.close(false)
		return
	}
	a.commit()
}

// commit commits the finished prefix of the partition.
func (a *assignment) commit() {
	p := a.process
	end := a.low()
	a.committing = false
	if a.lost || end <= a.committed {
		return
	}
	a.committing = true
	ask := p.event(history.KindCommitRequest)
	ask.Op, ask.Topic, ask.Partition, ask.Offset = p.nextOp(), a.at.topic, a.at.partition, end
	p.inGroup(&ask)
	p.put(ask)
	became := p.fate()
	if a.gone {
		became = refused
	}
	if became != refused && became != forged {
		p.logs[a.at].committed = end
	}
	if became == silent {
		p.after(patience, func() { a.commitAgain() })
		return
	}
	p.simulation.after(p.lag(), func() { a.committedTo(ask, became, end) })
}

func (a *assignment) committedTo(ask history.Event, became fate, end int64) {
	p := a.process
	e := ask
	e.Kind, e.Time = history.KindCommitResponse, p.now
	wait := time.Duration(0)
	switch became {
	case refused:
		e.Code, wait = 22, 100*ms
	case forged:
		e.Code, e.Flags, wait = 16, e.Flags|history.Forged, 100*ms
	case withheld:
		e.Flags, wait = e.Flags|history.Withheld, patience
	}
	p.put(e)
	if p.run != ask.Run {
		return
	}
	p.after(wait, func() {
		if became != answered {
			a.commitAgain()
			return
		}
		a.committed = max(a.committed, end)
		a.commit()
	})
}

// commitAgain continues after a commit that failed or may have failed: with another commit, or from the broker's last
// committed offset. In the latter case all work in hand is delivered again and its attempts are counted anew.
func (a *assignment) commitAgain() {
	if a.lost || a.gone || a.process.stopping || !chance(a.process, 3) {
		a.commit()
		return
	}
	a.lost = true
	for _, w := range a.works {
		w.awake()
	}
	a.process.hold(a.at).wake()
}
