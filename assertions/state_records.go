package assertions

// State: the records that the workload sent, the attempts at the downstream stub, and the findings of audits.

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

func (w *state) send(e *history.Event) {
	r := w.record(e.Record)
	if r == nil || r.has(markSent) {
		w.sendAgain(e, r)
		return
	}
	r.flags |= markSent
	r.born = history.StampOf(e.Time)
	if e.Flags&(history.Tombstone|history.Garbage) != 0 {
		w.exempt++
	}
	if e.Flags.Has(history.Tombstone) {
		r.flags |= markTombstone
	}
	if e.Flags.Has(history.Garbage) {
		r.flags |= markGarbage
	}
	r.topic, r.partition, r.planned = e.Topic, e.Partition, e.Outcome
	r.keyHash, r.valueHash, r.headersHash = hash(e.KeyHash), hash(e.ValueHash), hash(e.HeadersHash)
	r.disturbedFrom = count24Of(w.disturbed(w.partition(r.topic, r.partition)))
	w.sendUnreadable(r)
	w.chain(e.Record, e.N, r)
}

// sendAgain notes that the workload produces the record once more, as a producer does that sends a record again after
// its acknowledgement was lost. The copy may be attempted, succeed and be dead-lettered by itself.
func (w *state) sendAgain(e *history.Event, r *record) {
	if r == nil || !e.Flags.Has(history.Repeated) || r.again() > 0 {
		return
	}
	r.traits |= traitAgain
	r.excuses = bump(r.excuses)
}

// chain links the record to its predecessor in the promised order. The workload's producer keeps the order in which it
// is given the records of a partition.
func (w *state) chain(number, key int32, r *record) {
	p := w.partition(r.topic, r.partition)
	switch w.contract.Ordering {
	case history.OrderingPartition:
		key = none
	case history.OrderingKey:
		if key < 0 {
			return
		}
	default:
		return
	}
	if p == nil {
		return
	}
	before, known := p.latest[key]
	if p.latest == nil {
		p.latest = map[int32]int32{}
	}
	p.latest[key] = number
	if known {
		r.prev = before
		w.records.at(int(before)).next = number
	}
}

func (w *state) ack(e *history.Event) {
	r := w.record(e.Record)
	if r != nil && e.Flags.Has(history.Repeated) {
		if e.Code == 0 {
			w.copied(e.Record, r, copied{place{e.Topic, e.Partition, e.Offset}, r.born.At(), false})
		}
		return
	}
	if r == nil || r.has(markAcked) {
		return
	}
	if e.Code != 0 {
		r.flags |= markRefused
		return
	}
	r.flags |= markAcked
	w.acked++
	r.topic, r.partition, r.offset = e.Topic, e.Partition, offsetOf(e.Offset)
	w.learn(place{e.Topic, e.Partition, e.Offset}, e.Record, r)
}

// learn notes that the record lies at the place, and judges the commits that passed the place before its record was
// known.
func (w *state) learn(at place, number int32, r *record) {
	p := w.partition(at.topic, at.partition)
	if p == nil || !p.log.put(at.offset, number) {
		return
	}
	w.placeUnreadable(p, at, r)
	passed, hole := p.holes[at.offset]
	if hole {
		delete(p.holes, at.offset)
		if !w.perhapsDone(number, r, at, passed) && !w.perhapsOverBefore(r, passed) {
			one := pass{at: passed, place: at, accepted: true, offset: at.offset + 1, fetched: at.offset <= p.fetched,
				attempts: math.MaxUint16}
			if w.share {
				one.ack = history.AckAccept
			}
			w.pass(number, r, one)
		}
	}
	switch {
	case at.offset < p.covered || p.named.has(at.offset):
		w.coverIfAll(number, r, at)
	case w.hops || r.again() > 0:
		r.flags &^= markCovered // the commit covered another copy
	}
	if at.offset <= p.fetched && !w.share {
		w.see(number, r) // it was fetched before the workload learned its position
	}
	// The next commit must examine a place that no commit has passed yet.
	if !hole && at.offset < p.settled && at.offset >= p.covered {
		p.settled = at.offset
	}
}

// attempt is one attempt of a record, with its role in the record's trace. It has 128 bytes: a map allocates each value
// that is larger.
type attempt struct {
	number int32
	op     int64
	by     holder
	start  time.Duration
	life   uint8
	// k counts the attempts of its series from 1; fresh: it begins a series.
	k     uint16
	fresh bool
	// stray: its process did not have the partition. It proves nothing about the processes that had it.
	stray bool
	// unsettled: a dead letter or retry copy had been requested and was not acknowledged.
	unsettled bool
	// early: its process has got the partition back, or rewound in it, so the attempt may belong to the earlier
	// delivery. Nothing makes a process drop records of an earlier delivery, and a process short of CPU may take long
	// to finish them. The flag is cleared once the record was fetched for the first time since, and some time has
	// passed.
	early bool
	// returned: it is made in a delivery of a share group that followed a release.
	returned bool
	// renewed: its delivery had an attempt before it, in a call that says something about the record.
	renewed bool
	// before is the previous attempt, as far as it was known when this one started.
	before former
	// within is the transaction that it is in, if it is a write to an output topic.
	within *transaction
	// Set when it ends.
	end     time.Duration
	outcome history.Outcome
	gone    bool
	// withheld: it was carried out, and its answer was lost on purpose.
	withheld bool
	// lastSuccess is the time of the record's previous success, if this is a success.
	lastSuccess time.Duration
}

// former is the part of the previous attempt that is kept.
type former struct {
	any, ended, gone bool
	start, end       time.Duration
	outcome          history.Outcome
	told             time.Duration
	by               holder
	delivery         uint16
}

func (w *state) startAttempt(e *history.Event) {
	r := w.record(e.Record)
	if r == nil && e.Instance >= 0 {
		w.startUnnamed(e)
	}
	if r == nil || e.Instance < 0 {
		return
	}
	if len(w.lifted) > 0 {
		w.noteCall(e.Instance, e.Time)
	}
	joined := w.joinAttempt(e, r)
	by := holder{e.Instance, e.Run}
	p := w.home(e.Record, r)
	if said := w.partition(e.Topic, e.Partition); said != nil && w.hops && w.consumed(e.Topic) {
		p = said // of several copies, the named one
	}
	w.see(e.Record, r)
	if w.repeatsCall(e, r, by) {
		return
	}
	w.oneAttempt = attempt{}
	a := &w.oneAttempt // set field by field: a literal would be built elsewhere and copied
	a.number, a.op, a.by, a.start, a.life, a.within = e.Record, e.Op, by, e.Time, r.lives, joined
	a.before = w.formerOf(e.Record, r)
	w.attempt = a
	delivery := w.attribute(a, r, p)
	if a.stray {
		r.excuses = bump(r.excuses)
	}
	if a.stray && w.memory && !w.hops {
		w.straggle(r, a)
		return
	}
	moved := r.attempts > 0 && r.held != by
	if moved || r.delivery != delivery {
		r.traits &^= traitAnswered
	}
	a.renewed = r.traits&traitAnswered != 0
	a.unsettled = r.has(markUnsettled) || w.denied(by, &a.before, r) || w.writeHidden(by, &a.before, r, e.Time)
	a.fresh = r.inSeries == 0 || a.unsettled || r.has(markOver) || w.memory && (moved || r.delivery != delivery)
	if moved {
		s := w.keepSeldom(r)
		r.inRun, s.hops = 0, bump(s.hops)
	}
	if a.fresh {
		r.inSeries, r.seriesStart = 0, history.StampOf(e.Time)
		r.flags &^= markMixed
	}
	if a.fresh && a.early {
		r.flags |= markMixed
	}
	r.flags &^= markOver | markUnsettled | markEnded | markGone
	delete(w.perhaps, e.Record)
	r.attempts, r.inSeries, r.inRun = bump(r.attempts), bump(r.inSeries), bump(r.inRun)
	r.held, r.delivery, r.lastStart = by, delivery, history.StampOf(e.Time)
	a.k = r.inSeries
	w.beginRepeats(a)
	w.open[e.Op] = *a
}

// attribute returns the current delivery of the attempt's record, and notes whether the attempt may belong to another.
// p is the record's partition, nil for none.
func (w *state) attribute(a *attempt, r *record, p *partition) uint16 {
	switch {
	case w.share:
		return w.custody(a, r)
	case p == nil:
		return 0
	case !p.assigned && p.epoch == 0:
		w.give(p, a.by, a.start)
	}
	a.stray = !p.has || p.held != a.by
	regained := p.regained && (a.start-p.since < faultGrace || !w.hops && r.disturbedFrom.below(p.taken))
	a.early = !a.stray && (regained || p.wentBackFrom(w.position(a.number, r)) ||
		r.again() > 0 && p.wentBackFrom(r.original()))
	return uint16(p.delivery)
}

// unnamed is an attempt in which the downstream stub found no id. Its place is the one that the subject reported.
type unnamed struct {
	place
	at time.Duration
	// together: it is in a call that has the ids of other records.
	together bool
}

// startUnnamed notes an attempt without an id: of a tombstone or of garbage, if its place says so. The workload may
// learn only later which record lies there.
func (w *state) startUnnamed(e *history.Event) {
	if e.InBatch() {
		w.join(e).unnamed = true
		w.bulk = true
	}
	one := unnamed{place{e.Topic, e.Partition, e.Offset}, e.Time, e.InBatch()}
	if r := w.exemptAt(one.place); r != nil {
		r.tried(e.Time)
		return
	}
	if !one.together {
		w.nameless++
	}
	w.unnamed = append(w.unnamed, one)
}

// tried notes an attempt without an id at the record's place. Attempts that are noted late may be earlier than known
// ones.
func (r *record) tried(at time.Duration) {
	if r.unnamed() {
		if r.attempts == 0 || at < r.seriesStart.At() {
			r.seriesStart = history.StampOf(at)
		}
		r.lastStart = history.StampOf(max(r.lastStart.At(), at))
	}
	r.attempts = bump(r.attempts)
}

// placeUnnamed attributes the attempts without an id whose places are known by now.
func (w *state) placeUnnamed() {
	w.unnamed = slices.DeleteFunc(w.unnamed, func(one unnamed) bool {
		r := w.exemptAt(one.place)
		if r != nil {
			r.tried(one.at)
		}
		if r != nil && !one.together {
			w.nameless--
		}
		return r != nil
	})
}

// exemptAt returns the record at the place if the record has no id, otherwise nil.
func (w *state) exemptAt(at place) *record {
	p := w.partition(at.topic, at.partition)
	if p == nil {
		return nil
	}
	if number := p.log.at(at.offset); number != none && w.records.at(int(number)).exempt() {
		return w.records.at(int(number))
	}
	return nil
}

// perhapsTried reports whether an attempt that cannot be attributed may belong to the record, which has no id, since it
// was written, and may have ended it.
func (w *state) perhapsTried(r *record) bool {
	if w.contract.NoAttemptEnds(r.kind()) {
		return false
	}
	last := len(w.unnamed) - 1 // they are ordered by time
	return last >= 0 && w.unnamed[last].at >= r.born.At()
}

// perhapsOver reports whether a record without an id may have come to its end by the time. An attempt may have ended
// it, and any attempt may have been its last, because the subject's reaction to the answer is not judged. A dead letter
// that does not identify its record may have ended it too. If a dead letter was requested, the attempts before the
// request were not the last, unless there are several copies and the dead letter belongs to one of them.
func (w *state) perhapsOver(number int32, r *record, by time.Duration) bool {
	if !r.unnamed() {
		return false
	}
	if w.contract.NoAttemptEnds(r.kind()) {
		return w.stray && !w.halts()
	}
	from := r.born.At()
	if w.letterAsked(r) >= 0 && w.letterAsked(r) <= by && !r.several() && (!w.hops || !w.everDisrupted(number)) {
		from = w.letterAsked(r)
	}
	next, _ := slices.BinarySearchFunc(w.unnamed, from, func(one unnamed, at time.Duration) int {
		return cmp.Compare(one.at, at)
	})
	placed := r.attempts > 0 && r.seriesStart.At() <= by && r.lastStart.At() >= from
	return placed || w.stray || next < len(w.unnamed) && w.unnamed[next].at <= by
}

// perhapsOverBefore reports whether a record without an id may have come to its end by the time, which lies before its
// replay. Its place was not known then, so none of its attempts was told from those of others, and any may have been
// its last.
func (w *state) perhapsOverBefore(r *record, by time.Duration) bool {
	return r.unnamed() && r.born.At() > by && (w.stray || len(w.unnamed) > 0 && w.unnamed[0].at <= by)
}

// perhapsLettered reports whether a record without an id, which was handed out and is not committed, may have a dead
// letter: one was found that identifies no record. No attempt may be the record's, since one that is retried without
// end is not dead-lettered. That it is not committed is judged by liveness.
func (w *state) perhapsLettered(r *record, p *partition, offset int64) bool {
	last := len(w.unnamed) - 1 // they are ordered by time
	return r.unnamed() && w.stray && !w.halts() && offset <= p.fetched && r.attempts == 0 && w.letterAsked(r) < 0 &&
		(last < 0 || w.unnamed[last].at < r.born.At())
}

// skipped reports whether the contract says that the record is committed without processing.
func (w *state) skipped(r *record) bool { return w.contract.Skips(r.kind()) }

// anonymous reports whether records may have been attempted between from and to without the downstream stub identifying
// them. Tombstones and garbage, which have no id to find, account for as many such attempts as the contract allows for
// each record, and for the same number again with each disruption. What is in a call with the ids of others is such a
// value, however often the call is repeated.
func (w *state) anonymous(from, to time.Duration) bool {
	if w.nameless <= w.exempt*int64(max(w.contract.MaxAttempts, 1))*(1+int64(w.disturbances)) {
		return false
	}
	at, _ := slices.BinarySearchFunc(w.unnamed, from, func(one unnamed, at time.Duration) int {
		return cmp.Compare(one.at, at)
	})
	for ; at < len(w.unnamed) && w.unnamed[at].at <= to; at++ {
		if !w.unnamed[at].together {
			return true
		}
	}
	return false
}

// straggle notes an attempt of a process that has lost the partition. It has a count of its own, and does not interrupt
// the count of any other process.
func (w *state) straggle(r *record, a *attempt) {
	r.attempts = bump(r.attempts)
	if r.held == a.by {
		r.inRun = bump(r.inRun) // its own count continues
	}
	w.open[a.op] = *a
}

func (w *state) formerOf(number int32, r *record) former {
	f := former{
		any: r.attempts > 0, ended: r.has(markEnded), gone: r.has(markGone), start: r.lastStart.At(), end: r.lastEnd.At(),
		outcome: r.outcome, by: r.held, delivery: r.delivery,
	}
	if r.outcome == history.OutcomeRateLimited {
		f.told = w.told[number]
	}
	return f
}

func (w *state) endAttempt(e *history.Event) {
	r := w.record(e.Record)
	open, known := w.open[e.Op]
	if r == nil || !known || open.number != e.Record {
		return
	}
	w.oneAttempt = open
	a := &w.oneAttempt
	delete(w.open, e.Op)
	r.answers |= setOf(e.Outcome)
	a.end, a.outcome, a.gone = e.Time, e.Outcome, e.Flags.Has(history.ClientGone)
	a.withheld = e.Flags.Has(history.Withheld)
	w.attempt = a
	if a.life != r.lives {
		switch success := !a.gone && w.classes[a.outcome] == classSuccess; {
		case success && a.within.isCall() && a.within.succeeded(a.number), a.within.keep(a): // until the call ends
		default:
			w.concludeAlone(r, a)
		}
		return
	}
	if a.start == r.lastStart.At() {
		w.setEnd(r, e.Time)
		r.outcome = e.Outcome
		r.flags |= markEnded
		if a.gone {
			r.flags |= markGone
		}
	}
	if e.Outcome == history.OutcomeRateLimited {
		w.told[e.Record] = a.told(e)
	}
	w.conclude(r, a)
}

// told is the Retry-After that the attempt's client got with the answer.
func (a *attempt) told(e *history.Event) time.Duration {
	if a.gone {
		return 0
	}
	return time.Duration(e.Aux)
}

// conclude notes which obligations the attempt's outcome ends.
func (w *state) conclude(r *record, a *attempt) {
	if a.withheld {
		w.finished(r, a.end) // a subject that looks finds its work done, and needs no other attempt; it may make one
		return
	}
	if a.gone || w.classes[a.outcome] != classSuccess {
		if !a.within.keep(a) {
			w.concludeAlone(r, a)
		}
		return
	}
	if !w.ends(a) {
		return
	}
	a.lastSuccess = w.lastSuccess(r)
	r.successes = bump(r.successes)
	w.setSuccess(r, a.end)
	if a.within != nil && a.within.succeeded(a.number) {
		r.flags |= markOver | markJoined // it is finished when its transaction is committed
		return
	}
	w.terminal(r, a.end)
}

// concludeAlone notes which obligations an outcome ends that is not a success, or of which the client does not know, or
// any of an attempt in an earlier replay generation.
func (w *state) concludeAlone(r *record, a *attempt) {
	switch {
	case !w.ends(a):
	case a.life != r.lives:
		w.outlived(r, a.life, a.start, a.end)
	case a.gone, w.classes[a.outcome] == classRetryable:
		w.finished(r, a.end) // but it does not end the series: another attempt would be one too many
	default:
		w.terminal(r, a.end)
	}
}

// mayBeAttempt is the largest number that the attempt may have in the subject's count. An attempt of an earlier
// delivery in the same process continues that delivery's count.
func (w *state) mayBeAttempt(a *attempt) int {
	r := w.record(a.number)
	if w.memory && (a.stray && a.by == r.held || a.life == r.lives && (r.has(markMixed) || r.traits&traitInCall != 0)) {
		return int(r.attempts)
	}
	return int(a.k)
}

// ends reports whether the attempt's outcome is terminal by itself, without a dead letter to follow. An answer for
// which the client no longer waited is not conclusive.
func (w *state) ends(a *attempt) bool {
	givesUp := w.givesUp()
	switch class := w.classes[a.outcome]; {
	case a.gone, class == classRetryable: // to a client that has left, it is a failure without an answer
		return givesUp && w.contract.MaxAttempts > 0 && w.mayBeAttempt(a) >= w.contract.MaxAttempts
	default:
		return class == classSuccess || class == classLogical && w.contract.LogicalEnds() ||
			givesUp && (class == classPermanent || class == classLogical)
	}
}

// givesUp reports whether giving up is the end: there is no dead-letter topic, and the process does not exit instead.
func (w *state) givesUp() bool { return !w.contract.HasDLQ() && !w.contract.ExitsExhausted }

func (w *state) startAudit(e *history.Event) {
	if e.Topic < 0 || int(e.Topic) >= len(w.audits) {
		return
	}
	w.audits[e.Topic]++
	for i := 0; w.inTopic[e.Topic] && i < w.records.count; i++ {
		if r := w.records.at(i); r.topic == e.Topic {
			r.flags &^= markInTopic
		}
	}
	w.inTopic[e.Topic] = false
	for _, c := range w.copies {
		c.forget(e.Topic)
	}
}

func (w *state) auditRecord(e *history.Event) {
	switch w.role(e.Topic) {
	case history.RoleDLQ:
		w.find(e)
		return
	case "":
		return
	}
	r := w.record(e.Record)
	if r == nil {
		return
	}
	at := place{e.Topic, e.Partition, e.Offset}
	if w.role(e.Topic) == history.RoleInput && (at == r.original() ||
		w.foundOriginal(e.Record, r, at)) {
		if r.offset.at() < 0 {
			r.topic, r.partition, r.offset = at.topic, at.partition, offsetOf(at.offset)
			w.learn(at, e.Record, r)
		}
		r.flags |= markInTopic
		w.inTopic[e.Topic] = true
		return
	}
	w.auditCopy(e, r, at)
}

// foundOriginal reports whether the audit found the record that the workload wrote, whose position no acknowledgement
// reported. The original lies in the partition that the workload chose, before any copy in that partition. A copy may
// lie in another partition, and the audit may read that partition first: a dead letter that names only the topic is
// written back to a partition of the replay tool's choice. If the original is gone, a copy whose position an
// acknowledgement reported must not be taken for it.
func (w *state) foundOriginal(number int32, r *record, at place) bool {
	if r.offset.at() >= 0 || r.partition >= 0 && (at.topic != r.topic || at.partition != r.partition) {
		return false
	}
	known := w.copies[number]
	return known == nil || !slices.ContainsFunc(known.list, func(one copied) bool { return one.place == at })
}

func (w *state) auditOffsets(e *history.Event) {
	if p := w.partition(e.Topic, e.Partition); p != nil {
		p.audited, p.auditEnd, p.auditCommits, p.auditedAt = true, e.Offset, e.Aux, e.Time
	}
}
