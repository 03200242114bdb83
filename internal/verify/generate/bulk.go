package generate

// This file simulates a consumer whose calls are for several records. The downstream stub's answer is one for the whole
// call or, where it answers by item, one for each record. A call that is refused as a whole says of none of its records
// why, so the consumer does with them what it likes: it repeats the call, splits it, tries its records one by one, or
// gives all of them up. Without a dead-letter topic it gives them up only when each had all of its attempts.
//
//	attempt ─▶ pending ─▶ flush ─▶ call ─▶ answered ─┬─▶ accepted: each record has its own answer
//	                                                 └─▶ refused: repeat, split, one by one, give up

import (
	"cmp"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// bulk is how the consumer of a history makes calls for several records.
type bulk struct {
	// most is the largest number of records in a call.
	most int
	// byItem: the stub answers by item. blurred: of the records without an id in a call it sees one only.
	byItem, blurred bool
	// soon: it gives records up soon.
	soon   bool
	counts counts
}

// counts is what a call that is refused as a whole does to the consumer's count of a record's attempts.
type counts int

const (
	countsOn    counts = iota // it is an attempt like any other
	countsNot                 // it is none
	countsAnew                // the count begins again
	waysToCount = 3
)

// mostRounds is how often a call is repeated before its records are tried one by one, mostTurns how often it is checked
// whether the records before have come to their end.
const (
	mostRounds = 3
	mostTurns  = 5000
)

// Bulk makes a correct history of a consumer whose calls are for several records.
func Bulk(c Choices) *History { return bulkSimulation(c).run() }

// BulkWithoutLetters makes one of a consumer that has no dead-letter topic, keeps no order, and gives records up soon:
// calls count as attempts, of which there are one or two.
func BulkWithoutLetters(choices Choices) *History {
	s := bulkSimulation(choices)
	c := s.contract()
	c.DeadLetters, c.Envelope, c.Poison, s.h.Header.Replay = false, "", "", false
	c.Ordering, c.MaxAttempts, s.bulk.counts = history.OrderingNone, 1+c.MaxAttempts%2, countsOn
	s.bulk.soon = true
	return s.run()
}

// BulkEffects does so for one that leaves an effect in a sink with each success.
func BulkEffects(c Choices) *History {
	h := Bulk(c)
	h.addEffects(history.Effects{Once: chance(c, 2), Atomic: chance(c, 2)}, succeeds)
	return h
}

func bulkSimulation(c Choices) *simulation {
	s := &simulation{Choices: c, h: &History{}, logs: map[spot]*topicLog{}, unnamed: chance(c, 4)}
	s.calm, s.vague = !chance(c, 2), s.unnamed
	s.bulk = &bulk{most: 2 + c.Intn(4), byItem: chance(c, 2), blurred: chance(c, 2), counts: counts(c.Intn(waysToCount))}
	s.h.Header = s.drawHeader()
	if s.contract().Retry == history.RetryTopics {
		s.contract().Retry, s.contract().Counter = history.RetryInPlace, history.CounterMemory
	}
	s.produceTwice()
	return s
}

// pending are the records that a process has yet to call the downstream for.
type pending struct {
	works []*work
	soon  bool
}

// enqueue adds the record to the next call.
func (p *process) enqueue(w *work) {
	p.pending.works = append(p.pending.works, w)
	w.pending = true
	p.flushSoon()
}

func (p *process) flushSoon() {
	if p.pending.soon {
		return
	}
	p.pending.soon = true
	p.after(p.lag()+time.Duration(p.Intn(2))*6*ms, func() {
		p.pending.soon = false
		p.flush()
	})
}

// flush calls the downstream for the records that are waiting, as many as fit into a call.
func (p *process) flush() {
	waiting := slices.DeleteFunc(p.pending.works, func(w *work) bool { return w.lost })
	p.pending.works = nil
	if p.stopping {
		return
	}
	slices.SortStableFunc(waiting, func(a, b *work) int {
		return cmp.Or(bySpot(a.at, b.at), cmp.Compare(a.offset, b.offset))
	})
	var call []*work
	for _, w := range waiting {
		switch {
		case !w.tried && w.heldBack(call):
			w.started, w.pending = false, false // it is begun again when the record before it is finished
			w.k--
		case len(call) < p.bulk.most:
			call = append(call, w)
		default:
			p.pending.works = append(p.pending.works, w)
		}
	}
	if len(p.pending.works) > 0 {
		p.flushSoon()
	}
	if len(call) > 0 {
		p.callFor(&group{process: p, works: call})
	}
}

// heldBack reports whether the promised order keeps the record out of a call for the others.
func (w *work) heldBack(call []*work) bool {
	return slices.ContainsFunc(w.works, func(before *work) bool {
		return before.offset < w.offset && w.waitsFor(before) && !slices.Contains(call, before)
	})
}

// group is the records of a call. rounds counts how often it was made before.
type group struct {
	*process
	works  []*work
	rounds int
}

// named returns the records of the group that have an id, each once: of two copies of one, the stub sees one id.
func (g *group) named() (all []*planned) {
	for _, w := range g.works {
		if w.record.outcome != history.OutcomeUnknownID && !slices.Contains(all, w.record) {
			all = append(all, w.record)
		}
	}
	return all
}

// nameless is the number of records without an id that the stub sees.
func (g *group) nameless() (n int) {
	for _, w := range g.works {
		if w.record.outcome == history.OutcomeUnknownID {
			n++
		}
	}
	if g.bulk.blurred {
		n = min(n, 1)
	}
	return n
}

// callFor makes a call for the records.
func (p *process) callFor(g *group) {
	for _, w := range g.works {
		w.pending, w.tried = false, true
	}
	named := g.named()
	if p.linkDown && p.Intn(2) == 1 {
		p.after(20*ms+p.lag(), func() { g.refused(history.OutcomeReset, 0) })
		return
	}
	if len(named) == 0 {
		g.callNameless()
		return
	}
	starts := g.begin(named)
	outcome := g.struck(named)
	left := !p.calm && chance(p, 12)
	took := p.took(outcome)
	if left && outcome == history.OutcomeSuccess {
		took = 60 * ms // its client has left by then
	}
	p.simulation.after(took, func() { g.answered(starts, outcome, left) })
}

// begin records the starts of a call's attempts.
func (g *group) begin(named []*planned) (starts []history.Event) {
	p := g.process
	id := p.freeCall()
	for i := range len(named) + g.nameless() {
		e := p.event(history.KindAttemptStart)
		e.Op, e.Flags, e.ProducerID, e.ProducerEpoch = p.nextOp(), history.InTransaction, id, 0
		if i < len(named) {
			r := named[i]
			r.tries++
			e.Record, e.N = r.number, r.tries
		}
		p.put(e)
		starts = append(starts, e)
	}
	return starts
}

// freeCall takes the lowest id of a call that is not under way.
func (s *simulation) freeCall() int64 {
	at := slices.Index(s.calling, false)
	if at < 0 {
		at, s.calling = len(s.calling), append(s.calling, false)
	}
	s.calling[at] = true
	return history.FirstBatch + int64(at)
}

// next is the outcome that the record's next attempt would have alone.
func (r *planned) next() history.Outcome {
	switch r.outcome {
	case history.OutcomeTransient, history.OutcomeTimeout, history.OutcomeReset, history.OutcomeRateLimited:
		if r.spent >= r.failures {
			return history.OutcomeSuccess
		}
	case history.OutcomeExhausted:
		return history.OutcomeTransient
	}
	return r.outcome
}

// struck is the outcome of the call as a whole: that of the first record that is to fail. If it passes with time, one
// such failure of each record is used up. Where the stub answers by item, a call fails as a whole if it gets no answer,
// or its client sends too much.
func (g *group) struck(named []*planned) history.Outcome {
	for _, r := range named {
		next := r.next()
		silent := next == history.OutcomeTimeout || next == history.OutcomeReset
		if next != history.OutcomeSuccess && (silent || !g.bulk.byItem) {
			g.use(named, next)
			return next
		}
	}
	if g.bulk.byItem && len(named) > 1 && chance(g, 8) {
		return pick(g.simulation, history.OutcomeTransient, history.OutcomeRateLimited)
	}
	return history.OutcomeSuccess
}

// use uses up what is planned for the records of a call that fails as a whole.
func (g *group) use(named []*planned, struck history.Outcome) {
	for _, r := range named {
		if retryable(struck) && retryable(r.next()) {
			r.spent++
		}
	}
}

// answered is the stub's side of the end of a call. left: its client has left before the answer.
func (g *group) answered(starts []history.Event, struck history.Outcome, left bool) {
	p := g.process
	if p.dead || p.run != starts[0].Run {
		left = true
	}
	items := make([]history.Outcome, len(starts))
	named := g.named()
	for i := range starts {
		if items[i] = struck; i >= len(named) {
			items[i] = history.OutcomeUnknownID
		} else if struck == history.OutcomeSuccess && p.bulk.byItem {
			if items[i] = named[i].next(); items[i] != history.OutcomeSuccess {
				named[i].spent++
			}
		}
	}
	told := time.Duration(0)
	if struck == history.OutcomeRateLimited {
		told = 120 * ms
	}
	p.endCall(starts, items, struck, left, told)
	if p.linkDown && p.Intn(2) == 1 {
		left = true // the answer is lost
	}
	if p.run != starts[0].Run {
		return
	}
	p.after(0, func() {
		switch {
		case left:
			g.refused(history.OutcomeTimeout, 0)
		case struck != history.OutcomeSuccess:
			g.refused(struck, told)
		default:
			g.accepted(named, items)
		}
	})
}

// endCall records the ends of a call's attempts, and that the call took effect or did not.
func (p *process) endCall(starts []history.Event, items []history.Outcome, struck history.Outcome, left bool,
	told time.Duration) {
	for i, e := range starts {
		e.Kind, e.Time, e.Outcome, e.Aux = history.KindAttemptEnd, p.now, items[i], int64(told)
		if left || struck == history.OutcomeTimeout {
			e.Flags |= history.ClientGone
		}
		p.put(e)
	}
	p.instant()
	end := p.event(history.KindTxnEndRequest)
	end.Op, end.Run, end.ProducerID, end.ProducerEpoch, end.N = p.nextOp(), starts[0].Run, starts[0].ProducerID, 0, 0
	if struck == history.OutcomeSuccess {
		end.N = 1
	}
	p.put(end)
	p.instant()
	end.Kind, end.Time = history.KindTxnEndResponse, p.now
	p.put(end)
	p.instant()
	p.calling[starts[0].ProducerID-history.FirstBatch] = false
}

// callNameless makes a call for records without an id: the stub knows neither them nor how many there are.
func (g *group) callNameless() {
	p := g.process
	e := p.event(history.KindAttemptStart)
	e.Op = p.nextOp()
	p.put(e)
	p.simulation.after(p.took(history.OutcomeUnknownID), func() {
		e.Kind, e.Time, e.Outcome, e.Code = history.KindAttemptEnd, p.now, history.OutcomeUnknownID, 404
		if p.dead || p.run != e.Run {
			e.Flags = history.ClientGone
		}
		p.put(e)
		if p.run == e.Run {
			p.after(0, func() { g.each(func(w *work) { w.decide(history.OutcomeUnknownID, 0) }) })
		}
	})
}

// each does something with the records that the process still has and has not finished.
func (g *group) each(do func(*work)) {
	for _, w := range g.works {
		if !w.lost && !w.done {
			do(w)
		}
	}
}

// accepted acts on the answers to each record of a call. What becomes of one without an id is the consumer's choice.
func (g *group) accepted(named []*planned, items []history.Outcome) {
	g.each(func(w *work) {
		outcome := history.OutcomeUnknownID
		if at := slices.Index(named, w.record); at >= 0 {
			outcome = items[at]
		}
		w.decide(outcome, 0)
	})
}

// refused acts on a call that was refused as a whole, or got no answer.
func (g *group) refused(outcome history.Outcome, told time.Duration) {
	p := g.process
	if len(g.works) == 1 {
		g.each(func(w *work) { w.decide(outcome, told) })
		return
	}
	g.each(func(w *work) { w.recount() })
	if p.stopping {
		return
	}
	choice := p.Intn(4)
	if g.bulk.soon && g.mayGiveUp(outcome) && chance(p, 2) {
		choice = 3
	}
	switch {
	case choice == 0 && g.rounds < mostRounds:
		p.after(time.Duration(p.Intn(150))*ms, func() { g.again(g.works, nil) })
	case choice == 1 && len(g.works) > 2:
		half := len(g.works) / 2
		g.parts(g.works[:half], g.works[half:])
	case choice == 3 && g.mayGiveUp(outcome):
		g.each(func(w *work) {
			w.k = max(w.k, 1) // a dead letter says that there was an attempt
			w.giveUp()
		})
	default:
		var alone [][]*work
		for _, w := range g.works {
			alone = append(alone, []*work{w})
		}
		g.parts(alone...)
	}
}

// mayGiveUp reports whether an answer to a call may be the last that the consumer has for its records.
func (g *group) mayGiveUp(outcome history.Outcome) bool {
	c := g.contract()
	return c.HasDLQ() || !retryable(outcome) || !slices.ContainsFunc(g.works, func(w *work) bool {
		return !w.lost && !w.done && w.k < c.MaxAttempts
	})
}

// recount makes up the consumer's count after a call that was refused as a whole.
func (w *work) recount() {
	switch w.process.bulk.counts {
	case countsNot:
		w.k--
	case countsAnew:
		w.k = 0
	}
}

// parts makes a call for each part: one after another, or all at once if no order is promised.
func (g *group) parts(parts ...[]*work) {
	p := g.process
	if p.contract().Ordering == history.OrderingNone && chance(p, 2) {
		for _, part := range parts {
			p.after(p.lag(), func() { g.again(part, nil) })
		}
		return
	}
	g.inTurn(parts)
}

func (g *group) inTurn(parts [][]*work) {
	if len(parts) == 0 {
		return
	}
	g.after(g.lag(), func() {
		g.again(parts[0], func() { g.inTurn(parts[1:]) })
	})
}

// again makes another call for some of the group's records, and continues when they have come to their end.
func (g *group) again(part []*work, then func()) {
	next := &group{process: g.process, rounds: g.rounds + 1}
	(&group{process: g.process, works: part}).each(func(w *work) { next.works = append(next.works, w) })
	if g.stopping {
		return
	}
	if len(next.works) > 0 {
		next.each(func(w *work) { w.k++ })
		g.callFor(next)
	}
	if then != nil {
		next.whenOver(then, 0)
	}
}

// whenOver continues when the process has finished or lost all records of the group.
func (g *group) whenOver(then func(), turns int) {
	open := slices.ContainsFunc(g.works, func(w *work) bool { return !w.lost && !w.done })
	switch {
	case !open:
		then()
	case turns < mostTurns && !g.stopping:
		g.after(2*ms, func() { g.whenOver(then, turns+1) })
	}
}
