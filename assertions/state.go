package assertions

// The shared state, derived from the events: which process holds which partition, which attempt is which, which
// records are terminal, and what was disturbed. The state processes each event before the checkers do. It stores
// the meaning of the event in attempt, commit and write, and the checkers read these.
//
// Why its order can be trusted. Acknowledgements and answers are stamped before they are written to the subject,
// and requests are stamped after they were read from it. Consider a subject that waited for the answer before it
// made the request:
//
//	tap or downstream stub: stamp answer ─▶ write ─▶ (subject reads, then acts) ─▶ read request ─▶ stamp request
//
// The answer's stamp is never later than the request's, however the observers' goroutines are scheduled. At equal
// times the answer counts as first (see inOrder).

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// class is how the contract classifies an attempt's outcome.
type class uint8

const (
	classUnknown class = iota
	classSuccess
	classRetryable
	classPermanent
	classLogical
)

type state struct {
	header   *history.Header
	contract *history.Contract
	classes  [256]class
	// memory: attempts are counted in the process, so a new process or a new assignment starts a new count.
	memory bool
	// hops: records go through retry topics, so a disruption in any partition may concern them.
	hops bool

	records records
	copies  map[int32]*copies
	// returning holds where a replay writes records, while that has no answer. A process may fetch and attempt a record
	// there before the broker's answer to the replay passes the tap.
	returning map[int32]place
	parts     [][]partition

	open    map[int64]attempt
	commits map[commitKey]*commit
	// unheard are commits of offsets whose answers were withheld from a client that may be librdkafka.
	unheard []*commit
	writes  map[writeKey]write
	letters sparse[*deadLettered]
	txns    map[int64]*transaction // the open transaction of each producer id
	batches bool                   // a transaction had attempts of several records
	undone  map[int32]uint32       // assignments (epochOf) in which transactions with the records were aborted
	bulk    bool                   // calls of the downstream may be for several records
	unknown []*commit              // commits of transactions whose end was requested and never answered
	// perhaps holds the records whose dead letter or retry copy is in such a transaction and that were not
	// attempted since.
	perhaps map[int32]bool
	// letterReader is the first instance to which the run's group assigned a dead-letter topic, and which read it, or
	// none.
	letterReader int16
	found        []letter // dead letters found by audits
	// foundOf holds those of the last audits, by record, once the history has ended.
	foundOf  sparse[[]*letter]
	replays  []replayWrite
	selected []selection
	passes   []pass
	passOf   map[int32]int
	told     map[int32]time.Duration // Retry-After of the latest 429, by record

	instances map[int16]*instance
	living    map[int16]*life // the latest process of each instance
	lives     []*life
	lately    *life // that of the last event
	unkept    []unkept
	faults    []faultState
	// lifted are those on the link to the downstream after which a client may not call again yet.
	lifted []*faultState
	// wentBack: a process rewound, and only offsets outside Kafka explain that.
	wentBack     bool
	stalls       spans
	surface      surface
	activity     activity
	disturbances uint32
	phases       []phase
	audits       []int  // number of audits begun, by topic
	inTopic      []bool // by topic: a record may have the mark of that name
	acked        int64
	// nameless counts the attempts in which the downstream stub found no id, exempt the records that have none to
	// find.
	nameless, exempt int64
	// assigned is an upper bound of the epochs that assignments can have. It follows from their number and
	// generations.
	assigned int32
	// unsure holds the writes of dead letters without an id that were not acknowledged in time, with the time of
	// the request. The subject may have written each of them again.
	unsure map[int64]time.Duration
	// barred holds the dead-letter topic whose writes a process's client may deny by itself.
	barred map[holder]barred
	// stray: a dead letter was found that cannot be attributed to a record.
	stray bool
	// unnamed holds the nameless attempts that cannot be attributed to a place yet.
	unnamed []unnamed
	sealed  bool
	traces  []trace
	// asked is the record whose sightings are all kept in seen, or none.
	asked     int32
	seen      []contradiction
	handovers []handover
	// share: the contract says that the subject consumes through a share group (KIP-932). sharing: the history
	// shows it. committing: the history shows commits of a consumer group.
	share, sharing, committing bool
	// unread are the questions that requests leave open which dlqbench cannot read.
	unread []Open
	// unattempted: no call of the subject was an attempt at a record, so that nothing shows why it did what it did.
	// uncalled: it made no call at all.
	// untold: it sent dead letters to a downstream, and none can be told.
	unattempted, uncalled, untold bool
	// renamed: the group that reads the input is not the contract's.
	renamed bool
	// lacking are topics that do not exist, and that the subject asked for without writing a dead letter.
	lacking string
	earlier map[place]bool // where audits before the last found dead letters; made on demand
	store   *storeState
	// outputs is nil if attempts are not writes to an output topic.
	outputs *outputs
	calls   *callsElsewhere
	// repeats is nil if each call is an attempt.
	repeats *repeats
	// call is the call of another downstream that the current event ends, nil if there is none.
	call *callElsewhere

	// brokenOff is when a process, or one of its clients, first ended by itself that had met a record at which it halts.
	brokenOff time.Duration
	// session is the longest session timeout that a member requested. moved is the time of the latest progress,
	// still the value of moved when the subject was told to stop.
	session, moved, still time.Duration

	// The meaning of the current event.
	attempt *attempt
	commit  *commit
	write   *write
	// rejected holds the records of a reject for which the broker must write dead letters.
	rejected []write
	// ended holds the commits whose outcome became known through the end of a transaction.
	ended []*commit

	oneAttempt attempt
	oneWrite   write
}

type phase struct {
	name string
	at   time.Duration
}

// instance is one instance of the subject.
type instance struct {
	alive   bool
	stopped time.Duration // since when it is stopped by a STOP signal, or never
	// term is when its present process was last asked to end, or never.
	term   time.Duration
	exited time.Duration
}

// partitionLimit is the largest number of partitions accepted from a header. Kafka's own practical limit is lower.
const partitionLimit = 1 << 16

func newState(header *history.Header) *state {
	w := &state{
		header: header, contract: header.Contract(), asked: none, records: records{seldom: make([]seldom, 1)},
		copies: map[int32]*copies{}, returning: map[int32]place{}, open: map[int64]attempt{},
		commits: map[commitKey]*commit{},
		writes:  map[writeKey]write{}, unsure: map[int64]time.Duration{}, barred: map[holder]barred{},
		txns: map[int64]*transaction{}, undone: map[int32]uint32{},
		perhaps: map[int32]bool{}, told: map[int32]time.Duration{}, passOf: map[int32]int{},
		instances: map[int16]*instance{}, living: map[int16]*life{},
		audits: make([]int, len(header.Topics)), inTopic: make([]bool, len(header.Topics)), store: newStoreState(),
		moved: never, still: never, brokenOff: never, letterReader: none,
		calls: newCallsElsewhere(), repeats: newRepeats(header.Contract()),
	}
	w.memory = header.Contract().Counter == history.CounterMemory || header.Contract().Counter == ""
	w.hops = header.Contract().Retry == history.RetryTopics
	w.share = header.Contract().GroupType == history.GroupShare
	w.classes[history.OutcomeSuccess] = classSuccess
	for _, of := range []struct {
		outcomes []history.Outcome
		class    class
	}{
		{header.Contract().Retryable, classRetryable}, {header.Contract().Permanent, classPermanent},
		{header.Contract().Logical, classLogical},
	} {
		for _, outcome := range of.outcomes {
			w.classes[outcome] = of.class
		}
	}
	for i := range header.Topics {
		count := min(max(header.Topics[i].Partitions, 0), partitionLimit)
		parts := make([]partition, count)
		for n := range parts {
			parts[n] = newPartition(int16(i), int32(n))
		}
		w.parts = append(w.parts, parts)
	}
	for _, planned := range header.Faults {
		w.faults = append(w.faults, faultState{planned: nowDeciding(header, planned), effects: map[string]int64{}})
	}
	if header.Contract().OutputAttempts {
		w.outputs = newOutputs()
	}
	w.activity.follow(w)
	return w
}

// take applies one event.
func (w *state) take(e *history.Event) {
	w.attempt, w.commit, w.write, w.ended, w.rejected = nil, nil, nil, w.ended[:0], w.rejected[:0]
	w.call = nil
	if !w.takeStore(e) {
		w.takeOwn(e)
	}
	w.progress(e)
}

// takeOwn applies an event that does not concern the dead-letter store.
func (w *state) takeOwn(e *history.Event) {
	w.activity.observe(w, e)
	switch e.Kind {
	case history.KindAttemptStart:
		w.startAttempt(e)
	case history.KindAttemptEnd:
		w.endAttempt(e)
	case history.KindCallStart, history.KindCallEnd:
		w.takeCall(e)
	case history.KindSend:
		w.send(e)
	case history.KindAcked:
		w.ack(e)
	case history.KindAuditRecord:
		w.auditRecord(e)
	case history.KindFetched:
		w.fetch(e)
	case history.KindCommitRequest:
		w.askCommit(e)
	case history.KindCommitResponse:
		w.answerCommit(e)
	case history.KindProduceRequest:
		w.askWrite(e)
	case history.KindProduceResponse:
		w.answerWrite(e)
	default:
		w.takeRare(e)
	}
	if w.outputs != nil && w.role(e.Topic) == history.RoleSink && (e.Kind == history.KindProduceRequest ||
		e.Kind == history.KindProduceResponse) {
		w.outputs.observe(e)
	}
	w.follow(e)
}

func (w *state) takeRare(e *history.Event) {
	switch e.Kind {
	case history.KindTxnEndRequest:
		w.askEnd(e)
	case history.KindTxnEndResponse:
		w.answerEnd(e)
	case history.KindAssigned:
		w.assigned = max(w.assigned+1, e.N)
		w.assign(e)
	case history.KindRevoked:
		w.revoke(e)
	case history.KindInstanceStarting, history.KindInstanceSignal, history.KindInstanceExited:
		w.lifecycle(e)
	case history.KindEffect:
		if r := w.record(e.Record); r != nil && e.N > 0 {
			r.traits |= traitEffect
		}
	case history.KindSubjectError, history.KindSubjectLog, history.KindSubjectHealth:
		w.surface.observe(e, w.namesDLQ)
	case history.KindStall:
		w.stall(e)
	case history.KindFaultStart, history.KindFaultEffect, history.KindFaultEnd:
		w.fault(e)
	case history.KindPhase:
		w.phases = append(w.phases, phase{e.Text, e.Time})
		w.sealed = w.sealed || e.Text == history.PhaseSeal
	case history.KindAuditStart:
		w.startAudit(e)
	case history.KindAuditOffsets:
		w.auditOffsets(e)
	case history.KindReplaySelected:
		w.selectReplay(e)
	case history.KindShareAcquired:
		w.handOut(e)
	case history.KindShareAckRequest:
		w.askAck(e)
	case history.KindShareAckResponse:
		w.answerAck(e)
	case history.KindUnreadable:
		w.notRead(e)
	}
}

// finish settles what can only be settled at the end of the history.
func (w *state) finish() {
	w.placeFound()
	w.placeUnnamed()
	w.calls.finish()
	if w.uncalled {
		why, _ := w.refusing()
		w.unattempted = why != ""
	}
	pending := w.finishTransactions()
	for _, c := range w.commits {
		if !c.transaction && c.ack != history.AckRelease {
			pending = append(pending, c)
		}
	}
	slices.SortFunc(pending, func(a, b *commit) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.op, b.op),
			cmp.Compare(a.partition.number(), b.partition.number()))
	})
	for _, c := range pending {
		w.passAll(c, false)
		if !c.spent { // otherwise the rewind has excused another delivery
			c.partition.unanswered = min(c.partition.unanswered, c.at)
		}
	}
	for _, open := range w.writes {
		switch r := w.record(open.record); {
		case r == nil || open.by.instance < 0:
		case open.life == r.lives:
			w.failedWrite(r)
		case open.letter || w.hops: // a retry copy that may also exist may have made a dead letter of its own
			w.letter(open.record).disturbed++
		}
	}
	for i := range w.instances {
		if one := w.instances[i]; one.stopped != never {
			w.stalls.longest = max(w.stalls.longest, time.Duration(1)<<62)
			w.stalls.list = append(w.stalls.list, span{from: one.stopped, to: time.Duration(1) << 62, instance: i,
				stopped: true})
		}
	}
}

// record returns the state of a record, or nil if the number belongs to no record of the run.
func (w *state) record(number int32) *record {
	switch {
	case number >= 0 && int(number) < w.records.count:
		return w.records.at(int(number))
	case number < 0 || int(number) >= w.header.Records:
		return nil
	}
	return w.records.reach(int(number))
}

func (w *state) partition(topic int16, number int32) *partition {
	if topic < 0 || int(topic) >= len(w.parts) || number < 0 || int(number) >= len(w.parts[topic]) {
		return nil
	}
	return &w.parts[topic][number]
}

func (w *state) role(topic int16) history.Role {
	if topic < 0 || int(topic) >= len(w.header.Topics) {
		return ""
	}
	return w.header.Topics[topic].Role
}

// queues reports whether retry copies in the topic wait behind records that were never tried.
func (w *state) queues(topic int16) bool {
	return w.role(topic) == history.RoleInput && w.takesRetries(topic)
}

// takesRetries reports whether the subject writes retry copies to the topic.
func (w *state) takesRetries(topic int16) bool {
	return topic >= 0 && int(topic) < len(w.header.Topics) && w.header.Topics[topic].TakesRetries()
}

func (w *state) topicName(topic int16) string {
	if topic < 0 || int(topic) >= len(w.header.Topics) {
		return "a topic outside the run"
	}
	return w.short(w.header.Topics[topic].Name)
}

func (w *state) partitionName(topic int16, number int32) string {
	if topic >= 0 && int(topic) < len(w.header.Topics) && w.header.Topics[topic].Downstream {
		return w.topicName(topic)
	}
	return fmt.Sprintf("%s-%d", w.topicName(topic), number)
}

// short strips the run's prefix from a name. Every name in a trace has that prefix, so it carries no information
// there.
func (w *state) short(name string) string { return strings.TrimPrefix(name, w.header.RunID+".") }

// home returns the partition of the record's current position.
func (w *state) home(number int32, r *record) *partition {
	if to, unanswered := w.returning[number]; unanswered {
		return w.partition(to.topic, to.partition)
	}
	if at := w.position(number, r); at.offset >= 0 {
		return w.partition(at.topic, at.partition)
	}
	return w.partition(r.topic, r.partition)
}

// position is the record's current position: its latest copy, or where the workload wrote it.
func (w *state) position(number int32, r *record) place {
	if r.lives > 0 || r.again() > 0 || w.hops {
		if c := w.copies[number]; c != nil && len(c.list) > 0 {
			return c.list[len(c.list)-1].place
		}
	}
	return r.original()
}

// copiedSince reports whether a further copy of the record was requested after the time.
func (w *state) copiedSince(number int32, at time.Duration) bool {
	c := w.copies[number]
	return c != nil && slices.ContainsFunc(c.list, func(one copied) bool { return one.created > at })
}

// disturb counts an event that justifies one more delivery of every open record in the partition.
func (w *state) disturb(p *partition) {
	p.disturbances++
	w.disturbances++
	w.reopen(p)
}

// reopen excuses redeliveries beyond the one per record that its disruptions count. If a record goes through retry
// topics, or was written back before it was committed, the partition may hold several places of it that were
// fetched and that no commit covers. Each of these places is delivered again.
func (w *state) reopen(p *partition) {
	if !w.hops && len(w.replays) == 0 {
		return
	}
	for offset := max(p.covered, p.log.first, 0); offset <= min(p.log.last, p.fetched); offset++ {
		number := p.log.at(offset)
		if number == none {
			continue
		}
		if r := w.records.at(int(number)); w.formerPlace(p, number, r, offset) ||
			w.hops && w.openBefore(p, number, r, offset) {
			r.excuses = bump(r.excuses)
		}
	}
}

// formerPlace reports whether the record lay at the place before it was written back, and its disruptions do not
// count for that place. They count for the current position, from when the record is seen there. Through retry
// topics they count for every place.
func (w *state) formerPlace(p *partition, number int32, r *record, offset int64) bool {
	at := place{p.topic, p.place.partition, offset}
	return r.lives > 0 && w.position(number, r) != at && (!w.hops || !r.has(markSeen))
}

// openBefore reports whether no commit covers an earlier place of the record in the partition.
func (w *state) openBefore(p *partition, number int32, r *record, offset int64) bool {
	open := func(one place) bool {
		return one.topic == p.topic && one.partition == p.place.partition && one.offset >= p.covered && one.offset < offset
	}
	if open(r.original()) {
		return true
	}
	c := w.copies[number]
	return c != nil && slices.ContainsFunc(c.list, func(one copied) bool { return open(one.place) })
}

// disturbed is the count of disturbances that concerns a record in the partition.
func (w *state) disturbed(p *partition) uint32 {
	if w.hops || p == nil {
		return w.disturbances
	}
	return p.disturbances
}

// disruptions returns how many more deliveries, copies or successes of the record are justified by disruptions
// while it was open. Each copy that the workload produced may have been open.
func (w *state) disruptions(number int32, r *record) int {
	if w.share {
		several := int(r.excuses) + int(w.seldom(r).failedWrites)
		if d := w.deliveryOf(number, r); d != nil {
			several += int(d.excused)
		}
		return several
	}
	disturbed := uint32(0)
	if r.has(markSeen) {
		to := r.disturbedTo.count()
		if !r.has(markCovered) {
			to = w.disturbed(w.home(number, r))
		}
		disturbed = r.disturbedFrom.until(to)
	}
	return int(disturbed)*(1+r.again()) + int(r.excuses) + int(w.seldom(r).failedWrites)
}

// everDisrupted reports whether anything justifies a further delivery or copy of the record, in its present replay
// generation or an earlier one.
func (w *state) everDisrupted(number int32) bool {
	l := w.letters.of(number)
	return w.disruptions(number, w.record(number)) > 0 || l != nil && l.disturbed > 0
}

// see notes evidence that a subject has received the record. If its position is not known, it may have done so at any
// time since the record was sent.
func (w *state) see(number int32, r *record) {
	if r.has(markSeen) {
		return
	}
	r.flags |= markSeen
	if r.offset.at() >= 0 || r.lives > 0 {
		r.disturbedFrom = count24Of(w.disturbed(w.home(number, r)))
	}
}

// cover notes that an accepted commit covers the record's current position.
func (w *state) cover(number int32, r *record) {
	if !r.has(markCovered) {
		r.flags |= markCovered
		r.disturbedTo = count24Of(w.disturbed(w.home(number, r)))
	}
}

// coverIfAll covers the record if the place, which an accepted commit covers, is the last of its open positions
// that was not committed. A record that goes through retry topics may have several: a stop between a copy's
// acknowledgement and the commit of its source leaves two, and each is delivered again until it is committed
// itself. The copy of a record that the workload produced twice is open as long as its place is not known.
func (w *state) coverIfAll(number int32, r *record, at place) {
	if r.again() > 0 && !w.placedAgain(number) {
		return
	}
	if !w.hops {
		if w.position(number, r) == at {
			w.cover(number, r)
		}
		return
	}
	known := w.copies[number]
	if !w.committedPast(r.original(), at) {
		return
	}
	for i := 0; known != nil && i < len(known.list); i++ {
		if !w.committedPast(known.list[i].place, at) {
			return
		}
	}
	w.cover(number, r)
}

// placedAgain reports whether a further position of the record in the input is known.
func (w *state) placedAgain(number int32) bool {
	known := w.copies[number]
	return known != nil && slices.ContainsFunc(known.list, func(one copied) bool {
		return w.role(one.topic) == history.RoleInput && !one.bySubject
	})
}

// committedPast reports whether an accepted commit is known to cover the place one. at is a place that a commit
// covers.
func (w *state) committedPast(one, at place) bool {
	p := w.partition(one.topic, one.partition)
	return one == at || one.offset >= 0 && p != nil && (one.offset < max(p.covered, p.committed) ||
		p.named.has(one.offset))
}

// terminal notes that the record's obligation is met at the time, and that a further attempt starts a new count.
func (w *state) terminal(r *record, at time.Duration) {
	w.finished(r, at)
	r.flags |= markOver
}

// finished notes that the record's obligation is met at the time.
func (w *state) finished(r *record, at time.Duration) { w.setTerminal(r, at, at) }

// outlived notes that work begun in an earlier replay generation has met that generation's obligation. A further
// copy was requested in between, and may be the next to be finished. The time that counts is when the work began,
// so it finishes no copy that did not exist then.
func (w *state) outlived(r *record, life uint8, began, ended time.Duration) {
	last := w.lastTerminal(r)
	if life > 0 {
		last = max(last, began)
	}
	w.setTerminal(r, ended, last)
}

// perhapsDone reports whether a commit may rely on the record: either it is done, or its dead letter or retry copy
// is in a transaction whose outcome is unknown. If the transaction was aborted, the record is delivered and
// attempted again.
func (w *state) perhapsDone(number int32, r *record, at place, by time.Duration) bool {
	return w.perhaps[number] || w.done(number, r, at, by)
}

// done reports whether the record's obligation at the place was met by the time, judging by the history so far.
func (w *state) done(number int32, r *record, at place, by time.Duration) bool {
	if w.contract.Halts(r.kind()) {
		return false
	}
	if at == r.original() {
		return w.firstTerminal(r) >= 0 && w.firstTerminal(r) <= by
	}
	c := w.copies[number]
	if c == nil {
		return w.firstTerminal(r) >= 0
	}
	for i := range c.list {
		if c.list[i].place == at {
			created := c.list[i].created
			return w.lastTerminal(r) > created || c.handedOn > created
		}
	}
	return true
}

// bump adds one and saturates at the largest value of the type.
func bump[N uint8 | uint16](n N) N {
	if n+1 > n {
		return n + 1
	}
	return n
}
