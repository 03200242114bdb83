package measure

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// lateAfter is the delay from which the ledger counts a hand-over as late.
const lateAfter = 10 * time.Millisecond

// Measurer measures a history in one pass. It keeps about 30 bytes per record and a few MB of histograms. It accepts
// any events, and ignores references to unknown records, topics and instances.
type Measurer struct {
	header     history.Header
	out        Measurements
	records    records
	partitions partitions
	unnamed    []unnamed
	// records whose dead letter went back and that are not terminal again, by when it was sent
	replays    map[int32]time.Duration
	latencies  latencies
	series     *series
	phases     []phase
	slots      *slots
	slot       *slot // the current slot
	recoveries *recoveries
	cpu        cpu
	usage      usage
	recent     recentAttempts
	excused    map[int32]entryIndex // the entry of records without an end, where the contract explains that

	now time.Duration
	lag int64
	// inRetry is the number of records that have failed and are not finished yet.
	inRetry int64
	open    int64 // acknowledged records that are not both terminal and committed yet
	done    time.Duration
	// The counts of Throughput, over the elapsed time of the phases steady and fault.
	offered, sent, processed int64
}

// New returns a measurer of the history with this header.
func New(header history.Header) *Measurer {
	m := &Measurer{
		header: header, records: records{limit: header.Records}, partitions: newPartitions(),
		replays: map[int32]time.Duration{}, series: newSeries(), slots: newSlots(), recoveries: newRecoveries(header.Faults),
		cpu: cpu{at: none}, usage: usage{at: map[holder]*process{}},
	}
	m.slot = m.slots.present()
	m.latencies.init()
	m.out.Started = header.Started
	m.out.Ledger.Planned = int64(header.Records)
	return m
}

// Observe applies the next event; events come sorted by time.
func (m *Measurer) Observe(e *history.Event) {
	m.now = e.Time
	if e.Time >= m.slots.end {
		m.passTo(e.Time)
	}
	if e.Kind == history.KindFaultEffect {
		m.recoveries.effect(e)
	}
	if history.OfStore(e.Instance) {
		m.givenBack(e)
		return // only the subject and the replay tool are measured
	}
	switch e.Kind {
	case history.KindPhase:
		m.enter(e)
	case history.KindStall:
		m.stalled(e)
	case history.KindSend:
		m.handedOver(e)
	case history.KindAcked:
		m.acknowledged(e)
	case history.KindRevoked:
		_, p := m.partitions.of(e)
		p.revoked++
		m.recoveries.noticed(signPartitions, e.Time)
	case history.KindCommitResponse:
		m.committed(e)
	case history.KindShareAckResponse:
		m.acknowledgedInShare(e)
	case history.KindProduceRequest, history.KindProduceResponse:
		m.produced(e)
	case history.KindAttemptStart:
		m.attempted(e)
	case history.KindAttemptEnd:
		m.answered(e)
	case history.KindCallEnd:
		m.answeredElsewhere(e)
	case history.KindAuditOffsets:
		m.auditedOffsets(e)
	case history.KindAuditRecord:
		m.auditedRecord(e)
	case history.KindFaultStart:
		m.recoveries.started(e.Op, e.Time, m.slots, m.lag)
	case history.KindFaultEnd:
		m.recoveries.ended(e.Op, e.Time, m.lag)
	case history.KindSubjectError:
		m.recoveries.noticed(signError, e.Time)
	case history.KindInstanceReady:
		m.usage.of(e).ready = true
	case history.KindInstanceExited:
		if !e.Flags.Has(history.Expected) {
			m.recoveries.noticed(signEnded, e.Time)
		}
	case history.KindSample:
		m.sampled(e)
	}
}

func (m *Measurer) enter(e *history.Event) {
	if n := len(m.out.Phases); n > 0 {
		m.out.Phases[n-1].To = e.Time
	}
	m.out.Phases = append(m.out.Phases, Phase{Name: e.Text, From: e.Time, To: e.Time})
	m.phases = append(m.phases, phase{
		from: e.Time, index: m.latencies.phase(e.Text, false), loaded: e.Text == history.PhaseSteady ||
			e.Text == history.PhaseFault,
	})
	switch e.Text {
	case history.PhaseSteady:
		m.recoveries.calmFrom = e.Time
	case history.PhaseReplay, history.PhaseAudit:
		m.recoveries.over()
	}
}

// phase is the state of a phase that is needed with every event.
type phase struct {
	from  time.Duration
	index phaseIndex
	// loaded: it belongs to the load phases, steady and fault.
	loaded bool
}

// phaseAt returns the phase at that time, or an empty one before the first.
func (m *Measurer) phaseAt(at time.Duration) phase {
	for i := len(m.phases) - 1; i >= 0; i-- {
		if m.phases[i].from <= at {
			return m.phases[i]
		}
	}
	return phase{index: nowhere}
}

func (m *Measurer) stalled(e *history.Event) {
	if e.Instance != history.None {
		m.slot.subjectStalled += max(0, time.Duration(e.Aux))
		return // a stalled subject is caused by the subject (or a fault), and says nothing about the harness's health
	}
	stalled := time.Duration(e.Aux)
	m.slot.stalled += stalled
	m.out.Health.Stalls++
	m.out.Health.Stalled += stalled
	m.out.Health.Worst = max(m.out.Health.Worst, stalled)
}

func (m *Measurer) handedOver(e *history.Event) {
	r := m.records.at(e.Record)
	if r == nil {
		return
	}
	if e.Flags.Has(history.Repeated) {
		r.set(twice)
		return
	}
	if r.has(sent) {
		return
	}
	r.set(sent)
	r.intended = history.StampOf(time.Duration(e.Aux))
	r.home, _ = m.partitions.of(e)
	due := m.phaseAt(r.intended.At())
	if e.Flags.Has(history.Warmup) {
		r.set(warmup)
		r.setPhase(m.latencies.phase(history.PhaseWarmup, true))
	} else {
		r.setPhase(due.index)
	}
	if m.header.Contract().Skips(e.Flags) {
		r.set(skipped)
	}
	late := e.Time - r.intended.At()
	m.latencies.record(slip, r, late)
	m.slot.counts[sentSeries]++
	m.slot.slip = max(m.slot.slip, late)
	m.out.Ledger.Sent++
	if late > lateAfter {
		m.out.Ledger.Late++
	}
	if r.has(warmup) {
		return
	}
	if due.loaded {
		m.offered++
	}
	if m.phaseAt(e.Time).loaded {
		m.sent++
	}
}

func (m *Measurer) acknowledged(e *history.Event) {
	r := m.records.at(e.Record)
	if r == nil || e.Code != 0 {
		return
	}
	if e.Flags.Has(history.Repeated) {
		m.repeated(e)
		return
	}
	if r.has(acked) {
		return
	}
	r.set(acked)
	if !r.has(attempted) {
		m.records.track(r).due = history.StampOf(e.Time)
	}
	m.open++
	m.slot.counts[ackedSeries]++
	m.out.Ledger.Acknowledged++
	if r.has(sent) {
		m.latencies.record(send, r, e.Time-r.intended.At())
	}
	if r.has(attempted) {
		// The subject may have the record before the broker's answer has reached the workload.
		m.latencies.record(firstAttempt, r, 0)
	}
	if _, p := m.partitions.of(e); p.add(e.Offset, e.Record, m.offsetLimit()) {
		if e.Offset < p.covered {
			m.records.cover(r)
		}
		if p.taken[e.Offset] {
			delete(p.taken, e.Offset)
			m.records.cover(r)
			m.advance(p)
		}
		m.follow(p)
	}
	m.leave(r)
	m.settle(r, e.Time)
}

// repeated notes the place of the second copy of a record that the workload produced twice. It counts for the lag; the
// record's own figures are those of its first copy.
func (m *Measurer) repeated(e *history.Event) {
	if _, p := m.partitions.of(e); p.add(e.Offset, e.Record, m.offsetLimit()) {
		m.follow(p)
	}
}

// attempted notes the start of an attempt, and the length of the wait before it if the contract promises one.
func (m *Measurer) attempted(e *history.Event) {
	r := m.records.at(e.Record)
	if r == nil && e.Instance >= 0 && e.Offset >= 0 {
		m.unnamed = append(m.unnamed, unnamed{place{e.Topic, e.Partition}, e.Offset})
		m.recent.attempted(&m.records, m.lying(e.Topic, e.Partition, e.Offset), e.Time)
	}
	if r == nil {
		return
	}
	m.recent.attempted(&m.records, e.Record, e.Time)
	m.out.Ledger.Attempts++
	m.slot.counts[attemptSeries]++
	if r.has(attempted) {
		m.slot.counts[retrySeries]++
	}
	u := m.records.track(r)
	if !u.begun.Known() {
		u.begun = history.StampOf(e.Time)
	}
	m.continueSeries(r, u, e)
	switch {
	case !u.due.Known():
	case r.has(attempted):
		m.latencies.record(backoffError, r, e.Time-u.due.At())
	default:
		m.latencies.record(firstAttempt, r, e.Time-u.due.At())
	}
	u.due = history.Stamp{}
	u.attempts++
	r.set(attempted)
}

// continueSeries starts a new count of attempts when the contract does: a count in memory is lost with the process and
// with the partition.
func (m *Measurer) continueSeries(r *record, u *underway, e *history.Event) {
	holder := holder{instance: e.Instance, run: e.Run, revoked: m.partitions.all[r.home].revoked}
	counter := m.header.Contract().Counter
	inMemory := counter == history.CounterMemory || counter == ""
	if inMemory && u.attempts > 0 && u.holder != holder {
		u.attempts, u.due = 0, history.Stamp{}
	}
	u.holder = holder
}

func (m *Measurer) answered(e *history.Event) {
	if e.Flags.Has(history.ClientGone) && e.Instance >= 0 {
		m.recoveries.noticed(signHungUp, e.Time)
	}
	r := m.records.at(e.Record)
	if r == nil {
		return
	}
	if e.Flags.Has(history.Withheld) {
		r.set(tried)
	}
	contract, attempts := m.header.Contract(), int(m.records.kept(r).attempts)
	switch {
	case e.Outcome == history.OutcomeSuccess:
		m.succeeded(r, e)
	case slices.Contains(contract.Logical, e.Outcome) && contract.LogicalEnds():
		if !r.has(logical) {
			r.set(logical)
			m.out.Ledger.Logical++
		}
		m.finish(r, e)
	case slices.Contains(contract.Retryable, e.Outcome) &&
		(contract.MaxAttempts == 0 || attempts < contract.MaxAttempts):
		// The time at which the subject hung up is unknown, and so is the start of its wait.
		if attempts > 0 && !e.Flags.Has(history.ClientGone) {
			m.records.track(r).due = history.StampOf(e.Time + max(contract.Backoff.Wait(attempts), retryAfter(e)))
		}
		m.failed(r)
	default:
		if attempts > 0 {
			m.records.track(r).attempts = 0 // the next attempt belongs to a new delivery
		}
		m.failed(r)
	}
}

// answeredElsewhere notes a logical failure that a fault gave at a downstream that does not decide. It may have ended
// the record before an attempt, or before the last call of one.
func (m *Measurer) answeredElsewhere(e *history.Event) {
	contract := m.header.Contract()
	r := m.records.at(e.Record)
	if r != nil && e.N > 0 && e.Flags.Has(history.Forged) && slices.Contains(contract.Logical, e.Outcome) &&
		contract.LogicalEnds() {
		r.set(tried)
	}
}

// failed notes that a record is in retry, or on its way to the dead-letter topic.
func (m *Measurer) failed(r *record) {
	if !r.has(terminal | retrying | tried) {
		r.set(retrying)
		m.inRetry++
	}
}

func retryAfter(e *history.Event) time.Duration {
	if e.Outcome == history.OutcomeRateLimited {
		return time.Duration(e.Aux)
	}
	return 0
}

func (m *Measurer) succeeded(r *record, e *history.Event) {
	switch {
	case !r.has(success):
		r.set(success)
		m.out.Ledger.Succeeded++
		if r.has(sent) {
			latency := e.Time - r.intended.At()
			m.latencies.record(successful, r, latency)
			m.slot.succeeded(latency)
			if begun := m.records.kept(r).begun; begun.Known() {
				m.latencies.record(service, r, e.Time-begun.At())
			}
		}
	case r.has(twice) && !r.has(again):
		r.set(again)
	case !r.has(duplicate):
		r.set(duplicate)
		m.slot.counts[duplicateSeries]++
		m.out.Ledger.Duplicates++
	}
	m.finish(r, e)
}

// produced applies writes of dead letters and replays. A write to a retry topic ends nothing.
func (m *Measurer) produced(e *history.Event) {
	r := m.records.at(e.Record)
	if r == nil {
		return
	}
	response := e.Kind == history.KindProduceResponse
	if response && e.Code != 0 && e.Instance >= 0 && !e.Flags.Has(history.Withheld) {
		m.recoveries.noticed(signWriteRefused, e.Time)
	}
	written := response && e.Code == 0 && !e.Flags.Has(history.Forged)
	switch {
	case e.Instance == history.Replayer && !response:
		m.sentBack(r, e)
	case e.Instance == history.Replayer && written && !r.has(replayed):
		r.set(replayed)
		m.out.Ledger.Replayed++
	case e.Instance != history.Replayer && written && m.role(e.Topic) == history.RoleDLQ:
		m.deadLettered(r, e)
	}
}

// sentBack starts the measurement of a replay, when the dead letter is handed to the broker: it cannot be processed
// earlier.
func (m *Measurer) sentBack(r *record, e *history.Event) {
	if _, underway := m.replays[e.Record]; underway {
		return // a repeat of the request
	}
	m.replays[e.Record] = e.Time
	r.facts &^= terminal
	if r.underway != 0 {
		u := m.records.track(r)
		u.begun, u.ended = history.Stamp{}, history.Stamp{}
	}
	m.records.endSeries(r)
}

// givenBack notes that a worker of the dead-letter store has written a record back. Its later success is not counted as
// a second end.
func (m *Measurer) givenBack(e *history.Event) {
	if e.Kind != history.KindProduceRequest || m.role(e.Topic) == history.RoleDLQ {
		return
	}
	if r := m.records.at(e.Record); r != nil {
		r.set(returned)
	}
}

func (m *Measurer) deadLettered(r *record, e *history.Event) {
	if !r.has(dead) {
		m.died(r)
	}
	if e.Flags.Has(history.Withheld) {
		return // it is in the topic, but the subject cannot know this yet
	}
	if !r.has(deadTold) && r.has(sent) {
		m.latencies.record(deadLetter, r, e.Time-r.intended.At())
	}
	r.set(deadTold)
	m.finish(r, e)
}

// died counts a record when its dead letter is first seen in the topic.
func (m *Measurer) died(r *record) {
	r.set(dead)
	m.slot.counts[deadLetterSeries]++
	m.out.Ledger.DeadLettered++
}

// finish makes the record terminal, unless it already is.
func (m *Measurer) finish(r *record, e *history.Event) {
	first := !r.has(terminal)
	r.set(terminal)
	if first && !r.has(covered) {
		m.records.track(r).ended = history.StampOf(e.Time)
	}
	m.records.endSeries(r)
	if !first {
		return
	}
	if r.has(retrying) {
		r.facts &^= retrying
		m.inRetry--
	}
	m.slot.counts[processedSeries]++
	if !r.has(warmup) && m.phaseAt(e.Time).loaded {
		m.processed++
	}
	if since, replay := m.replays[e.Record]; replay {
		delete(m.replays, e.Record)
		m.latencies.recordIn(replayTime, m.phaseAt(since).index, e.Time-since)
	}
	m.leave(r)
	m.settle(r, e.Time)
}

// leave notes that the subject has left a record behind that it has finished, where it commits nothing to Kafka.
func (m *Measurer) leave(r *record) {
	if m.header.Contract().OffsetsOutside && m.ended(r) {
		m.records.cover(r)
		p := m.partitions.all[r.home]
		m.advance(p)
		m.follow(p)
	}
}

// settle notes when an acknowledged record is both terminal and committed for the first time.
func (m *Measurer) settle(r *record, at time.Duration) {
	if r.has(settled) || !r.has(acked) || !r.has(covered) || !m.ended(r) {
		return
	}
	r.set(settled)
	m.open--
	m.done = max(m.done, at)
}

// Hold notes that a record is left uncommitted because the subject has halted, as its contract says. It is called
// before Finish.
func (m *Measurer) Hold(number int32) { m.excuse(number, entryHeld) }

// Forfeit notes that a record was committed by time, as the contract says, and its process was cut short before its
// end. It is called before Finish.
func (m *Measurer) Forfeit(number int32) { m.excuse(number, entryForfeited) }

// excuse counts the record in the entry if nothing shows its end. Nothing more is waited for.
func (m *Measurer) excuse(number int32, as entryIndex) {
	if m.excused == nil {
		m.excused = map[int32]entryIndex{}
	}
	m.excused[number] = as
	if r := m.records.at(number); r != nil && r.has(acked) && !r.has(settled) {
		r.set(settled)
		m.open--
	}
}

// ended reports whether the record needs nothing more, except for commits.
func (m *Measurer) ended(r *record) bool {
	contract := m.header.Contract()
	givenUp := !contract.WritesDLQ() && !contract.ExitsExhausted && r.has(attempted)
	return givenUp || r.has(terminal|skipped|tried) || contract.WireOnly
}

func (m *Measurer) role(topic int16) history.Role {
	if topic < 0 || int(topic) >= len(m.header.Topics) {
		return ""
	}
	return m.header.Topics[topic].Role
}
