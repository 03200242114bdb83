package assertions

// State: the writes of the subject and of the replay tool, and the copies that audits find in the dead-letter and retry
// topics.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

type writeKey struct {
	op     int64
	record int32
}

// write is a record that an instance or the replay tool produced.
type write struct {
	op     int64
	record int32
	by     holder
	topic  int16
	at     time.Duration
	// first is the time of the first request; it is before at if this is the repeat of an idempotent producer.
	first  time.Duration
	life   uint8
	letter bool
	// producer is the producer id of a write in a transaction, none otherwise.
	producer int64
	// The state of the record when the dead letter was requested.
	attempts, inSeries, inRun uint16
	hops                      uint8
	// deliveries is the broker's delivery count of a share group's record, or 0 if it is unknown; counted: it serves as
	// the count of attempts.
	deliveries   int
	counted      bool
	before       former
	sameDelivery bool
	// whole: the writer had the record in a single delivery, counts attempts per delivery, and waits as promised after
	// each attempt.
	whole bool
	// rejected: the broker writes it, at the request of a reject.
	rejected bool
	// more is the number of further writes of the record in the same request: those of its copies.
	more uint8
	// Set by the answer.
	passed bool  // acknowledged, and the acknowledgement was passed on
	silent bool  // carried out or not, but the writer received no answer
	order  int32 // position of a replay in replays
}

// deadLettered is the state kept of a dead-lettered record, over all its replay generations.
type deadLettered struct {
	// from is the start of the replay generation in which it was first dead-lettered, until the time of its latest
	// dead-letter request.
	from, until time.Duration
	asked       uint16
	acked       uint16
	// forged counts the writes that a fault refused in place of the broker: they failed, but left no copy behind.
	forged uint16
	// lost: one was acknowledged by a leader that failed before another broker had it.
	lost bool
	// distinct counts the writes that were carried out and are not an idempotent repeat of the previous write.
	distinct uint16
	// last is the latest write that was carried out. A producer that begins a new epoch restarts its sequence numbers.
	last writeID
	// life is the replay generation in which the latest of these writes was requested.
	life uint8
	// counts are the numbers of attempts that a dead letter may claim: of the series and of the whole replay
	// generation, at each request.
	counts []countRange
	// lasts holds the outcomes of its processes' latest attempts at the time they requested its dead letters. lastFrom
	// is the earliest start of these attempts. unsure: one of the outcomes is unknown, had no answer in words that a
	// reason could quote, or may not have reached its process.
	lasts    outcomes
	lastFrom time.Duration
	unsure   bool
	// by is the process that requested it alone, within one delivery; parted: no single process did so.
	by     holder
	parted bool
	// disturbed is the number of additional copies that earlier replay generations justified.
	disturbed int
	// transactional: one of its dead letters was requested in a transaction.
	transactional bool
}

type countRange struct{ from, to uint16 }

func (w *state) askWrite(e *history.Event) {
	if e.Instance == history.Replayer {
		w.askReplay(e)
		return
	}
	r := w.record(e.Record)
	role := w.role(e.Topic)
	if r == nil && role == history.RoleDLQ {
		w.unsure[e.Op] = e.Time
	}
	if r == nil || e.Instance < 0 || role != history.RoleDLQ && !w.takesRetries(e.Topic) {
		return
	}
	by := holder{e.Instance, e.Run}
	one := w.newWrite(e.Record, r, by)
	one.op, one.topic, one.at, one.letter = e.Op, e.Topic, e.Time, role == history.RoleDLQ
	if e.Flags.Has(history.InTransaction) && e.ProducerID >= 0 {
		one.producer = e.ProducerID
		w.join(e)
		w.transaction(e) // a new epoch ends the open transaction of the previous one
	}
	if one.letter && w.ofEarlierLife(e, r) {
		one.life, one.at = r.lives-1, r.born.At()-1
		w.writes[writeKey{e.Op, e.Record}] = one
		return
	}
	w.see(e.Record, r)
	if !w.straggles(r, by) {
		r.flags |= markUnsettled
	}
	if one.letter {
		w.askLetter(&one, r)
	} else {
		one.first = w.copiesOf(e.Record).ask(e)
	}
	if known, several := w.writes[writeKey{e.Op, e.Record}]; several {
		one.more = bump(known.more)
	}
	w.writes[writeKey{e.Op, e.Record}] = one
	w.oneWrite = one
	w.write = &w.oneWrite
}

// newWrite returns the write of a process's request for a dead letter or a retry copy, with the state of its record.
func (w *state) newWrite(number int32, r *record, by holder) write {
	one := write{
		record: number, by: by, life: r.lives, producer: none,
		attempts: r.attempts, inSeries: r.inSeries, inRun: r.inRun, hops: w.seldom(r).hops, before: w.formerOf(number, r),
	}
	p := w.home(number, r)
	same := p == nil || r.delivery == uint16(p.delivery)
	if d := w.deliveryOf(number, r); w.share {
		same = d == nil || d.by == by && d.number == r.delivery
		if d != nil {
			// The broker states its own delivery count in a dead letter.
			one.deliveries, one.counted = int(d.count), w.contract.Counter == history.CounterDelivery || w.contract.BrokerLetters
		}
	}
	one.sameDelivery = r.attempts > 0 && !r.has(markMixed) && !r.several() && r.held == by && same
	one.whole = one.sameDelivery && w.memory && !w.hops && !w.share && r.lives == 0 &&
		!w.heldBefore(p, number, r)
	return one
}

func (w *state) askLetter(one *write, r *record) {
	if w.letterAsked(r) < 0 {
		w.keepSeldom(r).letterAsked = history.StampOf(one.at)
	}
	l := w.letter(one.record)
	l.transactional = l.transactional || one.producer != none
	l.parted = l.parted || !one.whole || l.asked > 0 && l.by != one.by
	l.by = one.by
	l.ask(one, r, w.startedAnew(one.record, r), uint16(min(w.contract.MaxAttempts, 1<<15)))
	w.noteLast(l, one)
}

// noteLast notes the last answer that its process had when it requested a dead letter.
func (w *state) noteLast(l *deadLettered, one *write) {
	const wordless = 1<<history.OutcomeNone | 1<<history.OutcomeTimeout | 1<<history.OutcomeReset
	b := &one.before
	l.lasts |= setOf(b.outcome)
	l.lastFrom = min(l.lastFrom, b.start)
	// After a disruption, a worker of an earlier delivery may still be making an attempt of its own.
	disturbed := !one.sameDelivery || w.everDisrupted(one.record)
	l.unsure = l.unsure || disturbed || !b.ended || b.gone || l.lasts&wordless != 0 || w.missed(b.start, b.end)
}

// lettersAsked returns the dead letters that the current event requests: a write of one, or a reject.
func (w *state) lettersAsked(e *history.Event) []write {
	if e.Kind == history.KindProduceRequest && w.write != nil && w.write.letter {
		return []write{*w.write}
	}
	return w.rejected
}

// mark identifies the event that requested the write.
func (one *write) mark() moment {
	if one.rejected {
		return moment{history.KindShareAckRequest, one.at}
	}
	return moment{history.KindProduceRequest, one.at}
}

// ofEarlierLife reports whether an idempotent producer repeats the request for a dead letter whose acknowledgement it
// did not get, after that dead letter was written back to be processed again. The repeat says nothing about the new
// replay generation.
func (w *state) ofEarlierLife(e *history.Event, r *record) bool {
	l := w.letters.of(e.Record)
	id, numbered := idOf(e)
	return l != nil && numbered && l.last == id && l.life < r.lives
}

func (w *state) letter(number int32) *deadLettered {
	l := w.letters.of(number)
	if l == nil {
		l = &deadLettered{last: writeID{producer: none}, lastFrom: endless}
		w.letters.set(number, l)
	}
	return l
}

// ask notes a request for a retry copy, and returns when that copy was first requested.
func (c *copies) ask(e *history.Event) time.Duration {
	c.unplaced++
	c.latest = e.Time
	if e.ProducerID < 0 || e.Sequence < 0 {
		return e.Time
	}
	one := firstAsk{e.Topic, e.ProducerEpoch, e.Partition, e.Sequence, e.ProducerID, e.Time}
	for _, known := range c.asked {
		if one.at = known.at; one == known {
			return known.at
		}
	}
	one.at = e.Time
	c.asked = append(c.asked, one)
	return e.Time
}

// startedAnew is the number of attempts in a record's series that the count in its header may omit. A copy that is
// delivered again, or a further copy, carries the count with which it was written.
func (w *state) startedAnew(number int32, r *record) uint16 {
	if w.memory {
		return 0
	}
	return uint16(min(w.disruptions(number, r)*max(w.contract.MaxAttempts, 1), 1<<15))
}

// ask notes a request for a dead letter. The count in its header may omit up to anew attempts; a copy may make up to
// limit.
func (l *deadLettered) ask(one *write, r *record, anew, limit uint16) {
	if l.asked == 0 {
		l.from = r.born.At()
	}
	l.until = one.at
	l.asked = bump(l.asked)
	counts := countRange{one.inSeries, one.attempts}
	if r.has(markMixed) || r.attempts > 0 && r.held != one.by {
		counts.from = min(counts.from, 1) // some of the attempts may belong to another delivery
	}
	if r.several() {
		// Some of this copy's attempts may have been made before the next copy was requested, and some of those since
		// may belong to another copy.
		counts = countRange{min(counts.from, 1), max(counts.to, limit)}
	}
	if one.counted {
		delivered := uint16(min(one.deliveries, 1<<15))
		counts = countRange{min(counts.from, delivered), max(counts.to, delivered)}
	}
	counts.from = min(counts.from, max(1, counts.from-min(counts.from, anew)))
	if slices.Contains(l.counts, counts) {
		return
	}
	l.counts = append(l.counts, counts)
}

func (w *state) answerWrite(e *history.Event) {
	if asked, unsure := w.unsure[e.Op]; unsure && e.Code == 0 && e.Flags&(history.Forged|history.Withheld) == 0 &&
		e.Time-asked < slowAck {
		delete(w.unsure, e.Op)
	}
	key := writeKey{e.Op, e.Record}
	one, known := w.writes[key]
	if !known {
		return
	}
	delete(w.writes, key)
	if one.more > 0 {
		one.more--
		w.writes[key] = one
	}
	accepted := e.Code == 0 && !e.Flags.Has(history.Forged)
	stored := accepted && !e.Flags.Has(history.Unreplicated)
	one.silent = e.Flags.Has(history.Withheld)
	one.passed = accepted && !one.silent
	w.oneWrite = one
	w.write = &w.oneWrite
	r := w.record(e.Record)
	if r == nil {
		return
	}
	if one.by.instance == history.Replayer {
		w.answerReplay(e, r, &one, stored)
		return
	}
	if one.producer != none && stored {
		w.joinWrite(e, r, &one)
		return
	}
	if one.producer != none {
		w.join(e).refused = true
	}
	if !one.letter {
		w.answerRetry(e, r, &one, stored)
		return
	}
	w.answerLetter(e, r, &one, stored)
}

// answerLetter notes the answer to a dead-letter write. An acknowledged dead letter ends the record's obligation.
func (w *state) answerLetter(e *history.Event, r *record, one *write, stored bool) {
	l := w.letter(e.Record)
	if id, _ := idOf(e); stored && (e.ProducerID < 0 || id != l.last) {
		l.distinct = bump(l.distinct)
		l.last, l.life = id, one.life
	}
	w.noteBarred(e, one)
	if one.life != r.lives {
		if one.passed {
			w.outlived(r, one.life, one.at, e.Time)
		}
		return
	}
	if !one.passed {
		if e.Flags.Has(history.Forged) {
			l.forged = bump(l.forged)
		}
		w.failedWrite(r)
		return
	}
	if e.Time-one.at >= slowAck {
		// The client may have stopped waiting for it, and written it again.
		w.failedWrite(r)
	}
	l.acked = bump(l.acked)
	l.lost = l.lost || e.Flags.Has(history.Unreplicated)
	if w.letterAcked(r) < 0 {
		w.keepSeldom(r).letterAcked = history.StampOf(e.Time)
	}
	if w.straggles(r, one.by) {
		w.finished(r, e.Time)
		return
	}
	r.flags &^= markUnsettled
	w.terminal(r, e.Time)
}

// straggles reports whether a write of the process concerns only its own series of the record: another process has the
// record by now, and continues its count. This happens when a process that was frozen resumes where it was.
func (w *state) straggles(r *record, by holder) bool {
	return w.memory && !w.hops && r.attempts > 0 && r.held != by
}

// answerRetry notes the answer to a write of a retry copy. An acknowledged retry copy takes the obligation over. A copy
// whose acknowledgement was lost exists all the same.
func (w *state) answerRetry(e *history.Event, r *record, one *write, stored bool) {
	c := w.copiesOf(e.Record)
	if stored {
		w.copied(e.Record, r, copied{place{e.Topic, e.Partition, e.Offset}, one.first, true})
	}
	if stored && e.Offset >= 0 || e.Flags&(history.Forged|history.Unreplicated) != 0 {
		c.unplaced--
	}
	if one.passed {
		c.handedOn = max(c.handedOn, one.first)
	}
	if e.Flags.Has(history.Unreplicated) {
		c.lost = e.Time
	}
	if one.life != r.lives {
		return
	}
	if !one.passed {
		w.failedWrite(r)
		return
	}
	w.setTerminal(r, e.Time, w.lastTerminal(r))
	r.flags &^= markUnsettled
}

func (w *state) copiesOf(number int32) *copies {
	c := w.copies[number]
	if c == nil {
		c = &copies{handedOn: never, latest: never, lost: never}
		w.copies[number] = c
	}
	return c
}

func (w *state) copied(number int32, r *record, one copied) {
	if one.offset < 0 {
		return
	}
	c := w.copiesOf(number)
	for i := range c.list {
		if c.list[i].place == one.place {
			return
		}
	}
	if one.created < r.born.At() {
		c.list = slices.Insert(c.list, 0, one) // it is of an earlier replay generation
	} else {
		delete(w.returning, number) // if it had no answer, this copy is later, or it is that copy
		c.list = append(c.list, one)
	}
	w.learn(one.place, number, r)
}

// consumed reports whether the subject reads the topic. If so, it must finish the records in it.
func (w *state) consumed(topic int16) bool {
	role := w.role(topic)
	return role == history.RoleInput || role == history.RoleRetry && w.hops
}

// bySubject reports whether the subject is known to have written the copy at the place.
func (c *copies) bySubject(at place) bool {
	return slices.ContainsFunc(c.list, func(one copied) bool { return one.bySubject && one.place == at })
}

// forget drops the findings of earlier audits of the topic.
func (c *copies) forget(topic int16) {
	kept := c.audited[:0]
	for _, one := range c.audited {
		if one.topic != topic {
			kept = append(kept, one)
		}
	}
	c.audited = kept
}

// auditCopy notes a further position of a record that an audit found. A copy that no acknowledgement reported was made
// by the latest write: a retry copy by the subject's latest request for one, also if a replay has begun since.
func (w *state) auditCopy(e *history.Event, r *record, at place) {
	if w.consumed(at.topic) {
		one := copied{at, r.born.At(), false}
		c := w.copies[e.Record]
		to, unanswered := w.returning[e.Record]
		putBack := unanswered && w.takesRetries(to.topic)
		if c != nil && c.unplaced > 0 && w.takesRetries(at.topic) && !putBack {
			one.created = min(one.created, c.latest)
		}
		w.copied(e.Record, r, one)
	}
	w.copiesOf(e.Record).audited = append(w.copiesOf(e.Record).audited, auditedCopy{
		place: at, keyHash: e.KeyHash, valueHash: e.ValueHash, headersHash: e.HeadersHash,
		failures: e.Flags.Has(history.FailureHeaders), time: e.Time,
	})
}

// letter is a dead letter that an audit found.
type letter struct {
	place
	number                          int32
	audit                           int
	at                              time.Duration
	keyHash, valueHash, headersHash uint64
	headerCount, headerBytes        int32
	claim                           *history.Claim
	// service is the service that it names, where the contract promises one.
	service string
	// claimed: it has no id, and is attributed to the record only by the source position that it states. No write of it
	// for the record was observed.
	claimed bool
	// repeated: a fault wrote it again, so it concerns only the store's routers.
	repeated bool
	// marker: it is that of a transaction marker, and tells of a topic that the subject consumes.
	marker bool
}

// find notes a dead letter. One without an id is attributed by the source position that it states.
func (w *state) find(e *history.Event) {
	one := letter{
		place: place{e.Topic, e.Partition, e.Offset}, number: e.Record, audit: w.audits[e.Topic], at: e.Time,
		keyHash: e.KeyHash, valueHash: e.ValueHash, headersHash: e.HeadersHash,
		headerCount: e.HeaderCount, headerBytes: e.HeaderBytes, claim: e.Claim, service: e.Text,
		repeated: e.Flags.Has(history.Repeated),
		marker:   e.Flags.Has(history.Marker) && w.consumed(e.Stated().Topic),
	}
	if w.record(e.Record) == nil {
		one.number = none
		claim := e.Stated()
		if p := w.partition(claim.Topic, claim.Partition); e.Claim != nil && p != nil {
			one.number, one.claimed = p.log.at(claim.Offset), true
		}
	}
	w.stray = w.stray || one.number == none
	w.found = append(w.found, one)
}

// selection is a dead letter that the replay plan selects.
type selection struct {
	number int32
	place
}

func (w *state) selectReplay(e *history.Event) {
	if w.record(e.Record) != nil {
		w.selected = append(w.selected, selection{e.Record, place{e.Topic, e.Partition, e.Offset}})
	}
}

// replayWrite is one record that the replay tool wrote.
type replayWrite struct {
	number int32
	topic  int16
	at     time.Duration
	op     int64
	// settled: the broker answered it; refused: the answer was an error.
	settled, refused bool
	// byStore: a worker of the dead-letter store wrote it because it was due; it was not selected.
	byStore bool
}

func (w *state) askReplay(e *history.Event) {
	r := w.record(e.Record)
	if r == nil {
		return
	}
	l := w.letter(e.Record)
	l.disturbed += w.disruptions(e.Record, r)
	if r.has(markPassed) {
		w.placeUnnamed() // while their replay generation is known
		w.passes[w.passOf[e.Record]].state = w.frozen(r)
	}
	w.keepState(e.Record, r)
	// If a record is written back while a disruption causes its previous place to be delivered again, two places are
	// open: each may succeed, or come to its end.
	again := !r.has(markCovered) && w.disruptions(e.Record, r) > 0
	// For a record without an id, no attempt's end shows the fate of the previous copy: its last attempt may have ended
	// it.
	if tried := r.lastStart.At(); r.unnamed() && r.attempts > 0 {
		w.outlived(r, r.lives, tried, tried)
	}
	w.startLife(r)
	delete(w.perhaps, e.Record)
	if again {
		r.excuses = bump(r.excuses)
	}
	r.born = history.StampOf(e.Time)
	w.returning[e.Record] = place{e.Topic, e.Partition, none}
	w.replays = append(w.replays, replayWrite{number: e.Record, topic: e.Topic, at: e.Time, op: e.Op,
		byStore: history.OfStore(e.Instance)})
	one := write{
		op: e.Op, record: e.Record, by: holder{instance: history.Replayer}, topic: e.Topic, at: e.Time, life: r.lives,
		order: int32(len(w.replays) - 1),
	}
	w.writes[writeKey{e.Op, e.Record}] = one
	w.oneWrite = one
	w.write = &w.oneWrite
}

func (w *state) answerReplay(e *history.Event, r *record, one *write, stored bool) {
	delete(w.returning, e.Record)
	known := &w.replays[one.order]
	known.settled = !one.silent
	known.refused = !stored
	if stored && w.consumed(e.Topic) {
		w.copied(e.Record, r, copied{place{e.Topic, e.Partition, e.Offset}, one.at, false})
	}
}
