package assertions

// The passage of documents through a graph. The second walk finds, for each copy of a document in a node's input, when
// its step was done, which writes were made for it, and when a commit covered it.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// passage is the passage of one copy through its node.
type passage struct {
	// done is when its step was first done, that is, when its module answered with success or a logical failure.
	done  time.Duration
	exits []*exit
	// attempts is the number of attempts, last the outcome of the latest one, unknown while it is under way.
	attempts int
	last     class
	// covered is when the accepted commit that covers it was read.
	covered time.Duration
}

func newPassage() passage { return passage{done: never, covered: never} }

// exit is a write made for a copy: to the next node, out of the graph, or a dead letter.
type exit struct {
	writeID
	at    time.Duration
	acked time.Duration // when the acknowledgement was passed on to the instance
	// stored: a broker acknowledged it. doubtful: the instance may have had reason to write it again.
	stored, doubtful bool
	letter           bool
}

// theirs identifies a document at a node's instance.
type theirs struct {
	holder
	document int32
}

type graphWalk struct {
	*graphIndex
	*report
	ids *history.IDs
	// exits holds the writes by their requests, latest the copy that an instance attempted last.
	exits   map[writeKey]*exit
	latest  map[theirs]copyRef
	attempt map[int64]copyRef
	// letters maps the places of dead letters to the copies for which they were written.
	letters map[place]copyRef
	// awaited holds the copies whose dead letter an instance requested last, without an acknowledgement so far.
	awaited  map[theirs]copyRef
	byLetter map[writeKey]copyRef
	commits  map[commitKey]time.Duration
	settled  map[placeOf]int
	// present holds the documents that the audits found in a topic.
	audited map[int16]bool
	present map[int16]map[int32]int
	ended   map[placeOf]int64 // committed offsets, according to the audit
	replays replays
	drained bool
}

// placeOf is a partition of a topic.
type placeOf struct {
	topic     int16
	partition int32
}

func newGraphWalk(x *graphIndex, w *state) *graphWalk {
	g := &graphWalk{
		graphIndex: x, report: newReport(w, graphConservation, copiesOfDocuments), ids: x.header.IDs(),
		exits: map[writeKey]*exit{}, latest: map[theirs]copyRef{}, attempt: map[int64]copyRef{}, letters: map[place]copyRef{},
		awaited:  map[theirs]copyRef{},
		byLetter: map[writeKey]copyRef{},
		commits:  map[commitKey]time.Duration{}, settled: map[placeOf]int{}, audited: map[int16]bool{},
		present: map[int16]map[int32]int{}, ended: map[placeOf]int64{}, replays: newReplays(),
	}
	return g
}

func (g *graphWalk) take(e *history.Event) error {
	g.w.take(e)
	switch e.Kind {
	case history.KindAttemptStart, history.KindAttemptEnd:
		g.attempted(e)
	case history.KindProduceRequest:
		if e.Instance == history.Replayer {
			g.replayed(e)
		} else {
			g.written(e)
		}
	case history.KindProduceResponse:
		g.answered(e)
	case history.KindCommitRequest:
		g.commits[commitKey{op: e.Op, topic: e.Topic, partition: e.Partition}] = e.Time
	case history.KindCommitResponse:
		g.committed(e)
	case history.KindReplaySelected:
		g.replays.selected(e)
	case history.KindAuditStart:
		g.audited[e.Topic], g.present[e.Topic] = true, map[int32]int{}
	case history.KindAuditRecord:
		if found := g.present[e.Topic]; found != nil && e.Record >= 0 {
			found[e.Record]++
		}
	case history.KindAuditOffsets:
		if e.Aux >= 0 {
			g.ended[placeOf{e.Topic, e.Partition}] = e.Aux
		}
	case history.KindPhase:
		g.drained = g.drained || e.Text == history.PhaseAudit
	}
	return nil
}

func (g *graphWalk) attempted(e *history.Event) {
	node := g.header.ConsumerOf(e.Instance)
	if node < 0 || e.Record < 0 {
		return
	}
	ref, known := g.attempt[e.Op]
	if e.Kind == history.KindAttemptStart {
		if ref, known = g.copyAt(node, e.Record, place{e.Topic, e.Partition, e.Offset}); !known {
			return
		}
		g.attempt[e.Op] = ref
		g.latest[theirs{holder{e.Instance, e.Run}, e.Record}] = ref
		one := &g.copies[ref.node][ref.number]
		one.attempts, one.last = one.attempts+1, classUnknown
		return
	}
	delete(g.attempt, e.Op)
	if !known {
		return
	}
	// Of two concurrent attempts, a write follows the one that has ended.
	g.latest[theirs{holder{e.Instance, e.Run}, e.Record}] = ref
	one := &g.copies[ref.node][ref.number]
	one.last = g.class(node, e.Outcome)
	if one.done == never && !e.Flags.Has(history.ClientGone) && (one.last == classSuccess || one.last == classLogical) {
		one.done = e.Time
	}
}

func (g *graphWalk) class(node int, outcome history.Outcome) class {
	contract := &g.header.Consumers[node].Contract
	switch {
	case outcome == history.OutcomeSuccess:
		return classSuccess
	case slices.Contains(contract.Logical, outcome):
		return classLogical
	case slices.Contains(contract.Permanent, outcome):
		return classPermanent
	case slices.Contains(contract.Retryable, outcome):
		return classRetryable
	}
	return classUnknown
}

// owner returns the copy that a write of an instance belongs to: the document's only copy at the node, or the copy of
// which the instance started or ended an attempt last. A copy that a commit has covered is ruled out while another is
// open, because the attempts of the open one were not observed.
func (g *graphWalk) owner(node int, e *history.Event) (copyRef, bool) {
	list := g.of[node][e.Record]
	if len(list) == 1 {
		return copyRef{node, list[0]}, true
	}
	ref, known := g.latest[theirs{holder{e.Instance, e.Run}, e.Record}]
	if known && g.copies[ref.node][ref.number].covered == never {
		return ref, true
	}
	for _, number := range slices.Backward(list) {
		if one := &g.copies[node][number]; one.sent <= e.Time && (one.covered == never || !known) {
			return copyRef{node, number}, true
		}
	}
	return ref, known
}

// claimed returns the copy that a dead letter names, if an audit has found the dead letter and the copy is one of the
// document's at the node.
func (g *graphWalk) claimed(node int, key writeKey) (copyRef, bool) {
	at, written := g.letterAt[key]
	claim, found := g.claims[at]
	if !written || !found {
		return copyRef{}, false
	}
	ref, known := g.at[claim]
	return ref, known && ref.node == node && g.copies[node][ref.number].document == key.record
}

// repeats returns the copy of a dead letter that no audit found: the copy for which the instance requested one before,
// without an acknowledgement, while another copy is under way. If that other copy has failed for good, the dead letter
// belongs to it.
func (g *graphWalk) repeats(e *history.Event) (copyRef, bool) {
	who := theirs{holder{e.Instance, e.Run}, e.Record}
	ref, known := g.awaited[who]
	other, tried := g.latest[who]
	return ref, known && g.copies[ref.node][ref.number].covered == never && (!tried || !g.failed(other))
}

// failed reports whether no further attempt of the copy is promised, and none of its dead letters was requested.
func (g *graphWalk) failed(ref copyRef) bool {
	one, most := &g.copies[ref.node][ref.number], g.header.Consumers[ref.node].Contract.MaxAttempts
	asked := slices.ContainsFunc(one.exits, func(e *exit) bool { return e.letter })
	return !asked && (one.last == classPermanent || one.last == classRetryable && most > 0 && one.attempts >= most)
}

// written applies a write request of an instance.
func (g *graphWalk) written(e *history.Event) {
	node := g.header.ConsumerOf(e.Instance)
	if node < 0 || e.Record < 0 || int(e.Record) >= len(g.documents) {
		return
	}
	key, role := writeKey{e.Op, e.Record}, g.w.role(e.Topic)
	letter := role == history.RoleDLQ || role == history.RoleQuarantine
	ref, known := g.claimed(node, key)
	if !known && letter {
		ref, known = g.repeats(e)
	}
	if !known {
		ref, known = g.owner(node, e)
	}
	if !known {
		return
	}
	one := &g.copies[ref.node][ref.number]
	id := writeID{e.Record, e.Partition, e.Sequence, e.Topic, e.ProducerEpoch, e.ProducerID}
	if letter {
		g.byLetter[key], g.awaited[theirs{holder{e.Instance, e.Run}, e.Record}] = ref, ref
	}
	repeated := func(known *exit) bool { return known.writeID == id && id.producer >= 0 && id.sequence >= 0 }
	if at := slices.IndexFunc(one.exits, repeated); at >= 0 {
		one.exits[at].doubtful = true // the client no longer waited for the answer to the first
		g.exits[key] = one.exits[at]
		return
	}
	made := &exit{writeID: id, at: e.Time, acked: never, letter: letter}
	one.exits = append(one.exits, made)
	g.exits[key] = made
	g.judgeTarget(ref, e, letter)
	g.inherit(ref, key, e.Time, 0)
}

// inherit gives a copy that the write makes the number of its document's replays.
func (g *graphWalk) inherit(from copyRef, key writeKey, at time.Duration, more int) {
	child, makes := g.byWrite[key]
	if times := g.replayedBefore(from, at); makes && times >= 0 {
		g.copies[child.node][child.number].reprocessed = times + more
	}
}

// replayedBefore returns how often the copy's document was replayed before, or none if that is unknown. It is unknown
// while several copies with different numbers are open at the node, because a write may belong to any of them.
func (g *graphWalk) replayedBefore(ref copyRef, at time.Duration) int {
	one := &g.copies[ref.node][ref.number]
	for _, number := range g.of[ref.node][one.document] {
		other := &g.copies[ref.node][number]
		if number != ref.number && other.sent < at && other.covered == never && other.reprocessed != one.reprocessed {
			return none
		}
	}
	return one.reprocessed
}

func (g *graphWalk) answered(e *history.Event) {
	key := writeKey{e.Op, e.Record}
	if e.Instance == history.Replayer {
		g.replays.answered(key, e)
		return
	}
	made := g.exits[key]
	if made == nil {
		return
	}
	delete(g.exits, key)
	stored := e.Code == 0 && !e.Flags.Has(history.Forged)
	made.stored = made.stored || stored
	made.doubtful = made.doubtful || e.Flags.Has(history.Withheld) || e.Time-made.at >= slowAck
	if stored && !e.Flags.Has(history.Withheld) && made.acked == never {
		made.acked = e.Time
	}
	if ref, letter := g.byLetter[key]; letter && stored && e.Offset >= 0 {
		g.letters[place{e.Topic, e.Partition, e.Offset}] = ref
		who := theirs{holder{e.Instance, e.Run}, e.Record}
		if g.awaited[who] == ref && !e.Flags.Has(history.Withheld) {
			delete(g.awaited, who)
		}
	}
}

// committed examines the copies that an accepted commit is the first to cover.
func (g *graphWalk) committed(e *history.Event) {
	key := commitKey{op: e.Op, topic: e.Topic, partition: e.Partition}
	asked, known := g.commits[key]
	delete(g.commits, key)
	node := g.header.ReaderOf(e.Topic)
	if !known || node < 0 || e.Code != 0 || e.Flags.Has(history.Forged) {
		return
	}
	p := placeOf{e.Topic, e.Partition}
	offsets := g.offsets[p]
	for ; g.settled[p] < len(offsets) && offsets[g.settled[p]] < e.Offset; g.settled[p]++ {
		ref := g.at[place{e.Topic, e.Partition, offsets[g.settled[p]]}]
		g.copies[ref.node][ref.number].covered = asked
		g.judgeCovered(ref)
	}
}
