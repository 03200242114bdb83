package assertions

// State: transactions (KIP-98, KIP-447). Commits and writes in a transaction count when the transaction is committed,
// and only then. Its producer id and epoch tie its parts together.
//
//	TxnOffsetCommit(p, N) ─▶ accepted    Produce(dead letter) ─▶ acknowledged    EndTxn(commit) ─▶ accepted
//
// The time of the commit C(p, N) is that of the EndTxn request: until then the subject can take everything back, and
// with that request it makes the commit. Its acceptance is the EndTxn's answer. A dead letter that was acknowledged in
// the same transaction, before that request, is as good as the commit: both take effect or neither does. Their order
// does not matter, and nothing is held against the commit. For all other commits, the dead letter is acknowledged when
// the EndTxn's answer is passed on. The same goes for an attempt that is a write in the transaction and succeeded: by
// then its record is finished. An offset that is committed earlier, outside of the transaction, loses the record if the
// transaction is aborted, which is why producers have sendOffsetsToTransaction.
//
//	commit refused      nothing took effect; the client asks again, or aborts
//	commit unanswered   the outcome is unknown: the commits are judged as unanswered ones are, the dead letters may
//	                    exist or not, and later commits may rely on them until their records are attempted again
//	abort               counts when it is requested, unless a commit was requested before and is still unanswered
//	rewind              of a process with a transaction in which something was refused, or whose end has no good answer:
//	                    it has given the transaction up, whether it asks for the abort, gets a new epoch first, or never
//	                    writes again
//	new epoch           of the same producer id (InitProducerId fences the one before): the open transaction of the
//	                    previous epoch is aborted
//	no end              the coordinator aborts it in time
//
// An abort takes the writes and the commits back and causes everything since the last commit to be delivered again, so
// it justifies one more delivery of the records that its process has, also of those that it begins before it hears of
// the abort.

import (
	"cmp"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// transaction is the open transaction of one epoch of a producer.
type transaction struct {
	producer int64
	epoch    int16
	by       holder
	// number counts the transactions of the producer.
	number  uint32
	commits []*commit
	writes  []joinedWrite
	endings []ending
	// tried are the records with attempts that are writes in the transaction.
	tried map[int32]joinedAttempts
	// ends are the ends of the attempts of a call for several records that did not succeed.
	ends []attempt
	// unnamed: it has attempts of records without an id.
	unnamed bool
	// begun: there was a request of it. refused: one was refused, so it can't be committed any more, or its end was.
	// aborting: its abort was requested and not yet answered.
	begun, refused, aborting bool
}

// joinedAttempts are the attempts of a record in a transaction: the writes of its result. began is the start of the
// latest.
type joinedAttempts struct {
	life      uint8
	successes uint8
	began     time.Duration
}

// joinedWrite is a dead letter or retry copy that was stored in a transaction.
type joinedWrite struct {
	write
	stored history.Event // the answer
}

// ending is an EndTxn request to commit that has no answer yet.
type ending struct {
	op      int64
	at      time.Duration
	commits []*commit
}

// transaction returns the open transaction of the event's producer. Events from a fenced epoch get a transaction of
// their own that never ends.
func (w *state) transaction(e *history.Event) *transaction {
	t := w.txns[e.ProducerID]
	switch {
	case t == nil:
		t = &transaction{producer: e.ProducerID, epoch: e.ProducerEpoch}
		w.txns[e.ProducerID] = t
	case e.ProducerEpoch > t.epoch:
		w.abort(t)
		t.epoch = e.ProducerEpoch
	case e.ProducerEpoch < t.epoch:
		return &transaction{producer: e.ProducerID, epoch: e.ProducerEpoch}
	}
	t.by = holder{e.Instance, e.Run}
	return t
}

// join returns the transaction that the request, or the stored write, is part of.
func (w *state) join(e *history.Event) *transaction {
	t := w.transaction(e)
	t.begun, t.aborting = true, false
	return t
}

// joinCommit adds a TxnOffsetCommit to its transaction when it is requested.
func (w *state) joinCommit(c *commit, e *history.Event) {
	t := w.join(e)
	t.commits = append(t.commits, c)
}

// joined removes a refused TxnOffsetCommit from its transaction.
func (w *state) joined(c *commit, e *history.Event) {
	if c.accepted {
		return
	}
	if t := w.txns[e.ProducerID]; t != nil {
		t.refused = true
		t.commits = slices.DeleteFunc(t.commits, func(one *commit) bool { return one == c })
	}
}

// joinWrite adds a stored dead letter or retry copy to its transaction.
func (w *state) joinWrite(e *history.Event, r *record, one *write) {
	t := w.join(e)
	t.writes = append(t.writes, joinedWrite{write: *one, stored: *e})
	if one.passed && one.life == r.lives {
		r.flags |= markJoined
	}
}

// joinAttempt adds an attempt that is a write to an output topic to its transaction, and returns that. It is nil if the
// attempt is in none.
func (w *state) joinAttempt(e *history.Event, r *record) *transaction {
	if !e.Flags.Has(history.InTransaction) || e.ProducerID < 0 {
		return nil
	}
	t := w.join(e)
	if t.tried == nil {
		t.tried = map[int32]joinedAttempts{}
	}
	t.tried[e.Record] = joinedAttempts{life: r.lives, successes: t.tried[e.Record].successes, began: e.Time}
	w.batches = w.batches || len(t.tried) > 1
	w.bulk = w.bulk || t.isCall()
	return t
}

// has reports whether the record has an attempt in the transaction, or a dead letter or retry copy.
func (t *transaction) has(number int32) bool {
	_, tried := t.tried[number]
	return tried || slices.ContainsFunc(t.writes, func(one joinedWrite) bool { return one.record == number })
}

// succeeded notes that an attempt in the transaction succeeded, and reports whether the transaction is still open.
func (t *transaction) succeeded(number int32) bool {
	one, open := t.tried[number]
	if open {
		one.successes = bump(one.successes)
		t.tried[number] = one
	}
	return open
}

// countTried makes the successes of a committed transaction count.
func (w *state) countTried(t *transaction, at time.Duration) {
	for number, one := range t.tried {
		r := w.record(number)
		switch {
		case one.successes == 0:
		case one.life != r.lives:
			w.outlived(r, one.life, one.began, at)
		default:
			r.flags &^= markJoined
			w.finished(r, at)
		}
	}
}

func (w *state) askEnd(e *history.Event) {
	if e.Instance < 0 || e.ProducerID < 0 {
		return
	}
	t := w.transaction(e)
	if e.N != 1 {
		w.abort(t)
		t.aborting = true
		return
	}
	joined := map[int32]bool{}
	for i := range t.writes {
		if t.writes[i].passed {
			joined[t.writes[i].record] = true
		}
	}
	for number, one := range t.tried {
		if one.successes > 0 {
			joined[number] = true
		}
	}
	end := ending{op: e.Op, at: e.Time}
	for i, c := range t.commits {
		later := func(other *commit) bool { return other.partition == c.partition }
		if slices.ContainsFunc(t.commits[i+1:], later) {
			continue // only the last commit of a partition counts
		}
		one := *c
		one.op, one.at, one.fetched, one.open, one.holes, one.joined = e.Op, e.Time, c.partition.fetched, nil, nil, joined
		w.scan(one.partition, &one)
		one.open = slices.DeleteFunc(one.open, func(open openPlace) bool { return joined[open.number] })
		end.commits = append(end.commits, &one)
	}
	t.endings = append(t.endings, end)
}

func (w *state) answerEnd(e *history.Event) {
	t := w.txns[e.ProducerID]
	if t == nil || t.epoch != e.ProducerEpoch {
		return
	}
	at := slices.IndexFunc(t.endings, func(one ending) bool { return one.op == e.Op })
	if at < 0 && e.Code == 0 && e.Flags&(history.Forged|history.Withheld) == 0 {
		t.aborting = false
	}
	if at < 0 {
		return
	}
	end := t.endings[at]
	t.endings = slices.Delete(t.endings, at, at+1)
	for _, c := range end.commits {
		c.answered = e.Time
		c.withheld, c.forged = e.Flags.Has(history.Withheld), e.Flags.Has(history.Forged)
		c.accepted = e.Code == 0 && !c.forged
		if !c.accepted || c.withheld {
			w.excuse(c)
		}
	}
	w.ended = append(w.ended, end.commits...)
	if e.Code != 0 || e.Flags.Has(history.Forged) {
		t.refused = true
		return
	}
	for _, c := range end.commits {
		w.passAll(c, true)
		w.advance(c)
	}
	for i := range t.writes {
		w.settle(&t.writes[i], e)
	}
	w.countTried(t, e.Time)
	w.concludeCall(t)
	w.leaveUnknown(t)
	t.clear()
	if e.Flags.Has(history.Withheld) {
		t.begun, t.refused = true, true // as far as its process knows
	}
}

// clear begins the next transaction of the producer.
func (t *transaction) clear() {
	t.commits, t.writes, t.endings, t.tried, t.ends = nil, nil, nil, nil, nil
	t.begun, t.refused, t.aborting, t.unnamed = false, false, false, false
	t.number++
}

// settle makes a write of a committed transaction count, also if its process did not hear of the commit: the offsets
// are committed with it.
func (w *state) settle(one *joinedWrite, end *history.Event) {
	r := w.record(one.record)
	answer := one.stored
	answer.Time = end.Time
	if one.life == r.lives {
		r.flags &^= markJoined
	}
	if one.letter {
		w.answerLetter(&answer, r, &one.write, true)
		return
	}
	w.answerRetry(&answer, r, &one.write, true)
}

// abort takes back what is open. If a commit was requested and not answered, it leaves the outcome unknown.
func (w *state) abort(t *transaction) {
	if !t.begun && !t.aborting {
		return
	}
	since := endless
	if len(t.endings) > 0 {
		since = t.endings[0].at
	}
	for i := range t.writes {
		w.takeBack(&t.writes[i], since)
	}
	if t.isCall() && since == endless {
		w.refuseCall(t)
		t.clear()
		return // its process still has the records, and what it has finished before
	}
	w.undo(t, since)
	w.leaveUnknown(t)
	t.clear()
	w.disturbHeld(t.by.instance)
	w.loseHeld(t.by)
}

// giveUp aborts the transaction of a process that rewinds, if a request of it was refused or its end is not answered.
// The process need not ask for the abort: a producer that was fenced can't, and the next one aborts with its first
// request.
func (w *state) giveUp(by holder) {
	for _, t := range w.txns {
		if t.by == by && (t.refused || t.aborting || len(t.endings) > 0) {
			w.abort(t)
		}
	}
}

// undo takes back the attempts of an aborted transaction. If its commit was requested, at the time ended, it may have
// been committed: then they are excused, and count as finished by that time. An application whose transaction is
// refused as a whole can't tell because of which record. So if there are several, the abort says nothing about any of
// them, and all of them are delivered once more, from the memory of the process or by Kafka. Those behind it may never
// be seen: kafka-clients' producer drops what it has not sent when a write of the transaction is refused.
func (w *state) undo(t *transaction, ended time.Duration) {
	several := len(t.tried) > 1 || t.unnamed || w.batches && w.firstOfBatch(t)
	for i := range t.writes {
		_, both := t.tried[t.writes[i].record]
		several = several || !both
	}
	again := map[*partition]bool{}
	for number, one := range t.tried {
		r := w.record(number)
		w.undone[number] = w.epochOf(number)
		if one.life != r.lives {
			continue
		}
		r.flags &^= markJoined
		if ended == endless {
			r.successes -= min(one.successes, r.successes)
		} else {
			r.excuses = bump(r.excuses)
			if one.successes > 0 {
				w.finished(r, ended)
			}
		}
		if p := w.home(number, r); several && p != nil && p.has && p.held == t.by {
			again[p] = true
		}
	}
	for p := range again {
		p.delivery++
	}
}

// firstOfBatch reports whether the transaction may be one of several records of which only the first was sent. A record
// of which a transaction was aborted in the present assignment was refused alone.
func (w *state) firstOfBatch(t *transaction) bool {
	for number, one := range t.tried {
		before, known := w.undone[number]
		return one.successes == 0 && (!known || before != w.epochOf(number))
	}
	return false
}

// takeBack marks an aborted write as failed: it left no copy that a consumer can read. If the end of its transaction
// was requested, at the time ended, the write may have taken effect, until its record is attempted again.
func (w *state) takeBack(one *joinedWrite, ended time.Duration) {
	r := w.record(one.record)
	if one.life != r.lives {
		return
	}
	r.flags &^= markJoined
	w.failedWrite(r)
	switch {
	case ended < endless:
		w.doubt(one.record, one.life, ended)
	case one.letter:
		l := w.letter(one.record)
		l.forged = bump(l.forged)
	}
}

// doubtEnds notes that a process lost a partition while the end of its transaction was not answered. It may have been
// carried out, and then the next holder begins behind it.
func (w *state) doubtEnds(by holder) {
	for _, t := range w.txns {
		if t.by != by || len(t.endings) == 0 {
			continue
		}
		for i := range t.writes {
			w.doubt(t.writes[i].record, t.writes[i].life, t.endings[0].at)
		}
		for number, one := range t.tried {
			if one.successes > 0 {
				w.doubt(number, one.life, t.endings[0].at)
			}
		}
	}
}

// doubt lets commits rely on the record until it is attempted again, if it was not since the time.
func (w *state) doubt(number int32, life uint8, since time.Duration) {
	if r := w.record(number); life == r.lives && r.lastStart.At() < since {
		w.perhaps[number] = true
	}
}

// leaveUnknown keeps the commits of EndTxn requests that were never answered.
func (w *state) leaveUnknown(t *transaction) {
	for _, end := range t.endings {
		w.unknown = append(w.unknown, end.commits...)
	}
}

// finishTransactions ends the transactions that no event ended, and returns the commits whose outcome is unknown.
func (w *state) finishTransactions() []*commit {
	producers := make([]int64, 0, len(w.txns))
	for producer := range w.txns {
		producers = append(producers, producer)
	}
	slices.SortFunc(producers, func(a, b int64) int { return cmp.Compare(a, b) })
	for _, producer := range producers {
		w.abort(w.txns[producer])
	}
	return w.unknown
}
