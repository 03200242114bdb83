package assertions

// State: assignments, lifecycle of instances, faults, stalls.

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func (w *state) assign(e *history.Event) {
	if p := w.partition(e.Topic, e.Partition); p != nil && e.Instance >= 0 {
		w.arrive(p, e.Time)
		w.give(p, holder{e.Instance, e.Run}, e.Time)
		p.assigned = true
	}
}

// give assigns the partition to a process. Redeliveries to that process count as caused by a disruption, unless the
// previous holder ended by itself.
func (w *state) give(p *partition, to holder, at time.Duration) {
	before := p.held
	if p.has && before != to {
		w.cutShort(p, at)
	}
	if changes := !p.has || before != to; changes && p.committed == none && !w.share {
		p.began = beginning{to, at, none}
	}
	if !p.take(to, at) {
		return
	}
	w.doubtEnds(before)
	if !w.endedItself(before) {
		w.disturb(p)
		p.taken = p.disturbances
	}
}

func (w *state) revoke(e *history.Event) {
	p := w.partition(e.Topic, e.Partition)
	if p != nil && p.has && p.held == (holder{e.Instance, e.Run}) {
		w.cutShort(p, e.Time)
		p.has = false
		if e.Text == "rebalance" || e.Text == "rejoin" {
			p.handedOver = e.Time
		}
	}
}

// handover is the time from a rebalance that takes a partition from an instance until another process has it. The group
// continues when the instance has given the partition up, and the instance may wait for its pending work first. With
// many clients all polling of the instance waits meanwhile, including that of the partitions that it keeps.
type handover struct {
	instance int16
	from, to time.Duration
}

// arrive ends the handover of a partition from the process that had it, if there is one.
func (w *state) arrive(p *partition, at time.Duration) {
	if p.handedOver == never {
		return
	}
	w.handovers = append(w.handovers, handover{p.held.instance, p.handedOver, at})
	p.handedOver = never
}

// handingOver reports whether the instance was giving up a partition in the interval.
func (w *state) handingOver(instance int16, from, to time.Duration) bool {
	for topic := range w.parts {
		for i := range w.parts[topic] {
			if p := &w.parts[topic][i]; p.handedOver != never && p.held.instance == instance && p.handedOver <= to {
				return true
			}
		}
	}
	return slices.ContainsFunc(w.handovers, func(h handover) bool {
		return h.instance == instance && h.from <= to && h.to >= from
	})
}

// fetch notes the offsets that were handed out. If the tap sees assignments, only they determine which process has a
// partition: a process that was stopped continues fetching after it has lost the partition.
func (w *state) fetch(e *history.Event) {
	p := w.partition(e.Topic, e.Partition)
	if p == nil || e.Instance < 0 {
		return
	}
	by := holder{e.Instance, e.Run}
	if p.assigned && w.letterReader == none && w.role(e.Topic) == history.RoleDLQ {
		w.letterReader = e.Instance
	}
	// A later process of the instance that has the partition: a static member (KIP-345) returns to its partitions, and
	// nothing was taken from it in between.
	if !p.assigned || p.has && p.held.instance == by.instance && p.held.run < by.run {
		if !p.assigned && p.has && p.held.instance != by.instance && e.Time-p.since < togetherWithin {
			p.turns++
		}
		w.give(p, by, e.Time)
	}
	if p.lastFetcher != by {
		p.know(by)
		p.lastFetcher = by
	}
	to := min(max(e.Aux, e.Offset), offsetLimit)
	p.handsOf(by).add(to, e.Time)
	if w.halts() || w.hops {
		p.known[by] = max(p.known[by], to)
	}
	if !w.share {
		if p.held == by && (p.began.offset == none || e.Offset < p.began.offset) {
			p.began.offset = e.Offset
		}
		w.goBack(p, by, e.Offset)
		p.hand(by, to)
		w.handed(p, max(e.Offset, p.fetched+1), to)
	}
	p.fetched = max(p.fetched, to)
}

// readingLetters says, of an anomaly that a dead letter leads to if it comes back as a record, that the subject's own
// group reads them; "" if it does not.
func (w *state) readingLetters(anomaly string, record int32) string {
	switch anomaly {
	case "permanent-retried", "over-retried", "endless-redelivery", "dlq-duplicate", "dual-terminal", "metadata-wrong":
	default:
		return ""
	}
	if l := w.letters.of(record); w.letterReader == none || l == nil || l.acked == 0 {
		return ""
	}
	return fmt.Sprintf("; instance %d reads the dead-letter topic, too", w.letterReader)
}

// OpenDeliveries is what a run leaves open in which several instances read a partition together (Open.What).
const OpenDeliveries = "how often a record is delivered"

// readTogether says that several instances read a partition of the input together; "" if none did. A consumer does so
// that takes partitions without a group, if each instance takes all of them. Each record is then processed by each
// instance, which no rebalance explains, and no instance's work can be told from the others'.
func (w *state) readTogether() (why, do string) {
	for topic := range w.parts {
		for i := range w.parts[topic] {
			p := &w.parts[topic][i]
			if p.turns < togetherTurns || w.role(p.topic) != history.RoleInput {
				continue
			}
			return fmt.Sprintf("several instances read %s at the same time, and no group gave it to one of them",
					w.partitionName(p.topic, p.number())),
				"run it with one instance (instances: 1 in subject.yaml), have each instance take partitions of its " +
					"own ({{.Instance}} is its number), or subscribe with the group"
		}
	}
	return "", ""
}

// nearlyAll reports whether what became of a part of the records is what the subject does with all of them.
func nearlyAll(part, all int) bool {
	const least, share = 3, 0.9
	return part >= least && float64(part) >= share*float64(all)
}

// repeating says that the subject processed most records again, and nothing but offsets outside Kafka, which are not
// seen, explains that it went back; "" otherwise.
func (w *state) repeating() (why, do string) {
	if !w.wentBack || w.header.Expect.DuplicateShare >= 0 {
		return "", ""
	}
	succeeded, repeated := 0, 0
	for i := range w.records.count {
		r := w.records.at(i)
		if r.successes > 0 {
			succeeded++
		}
		if int(r.successes) > 1+r.again() {
			repeated++
		}
	}
	if !nearlyAll(repeated, succeeded) {
		return "", ""
	}
	return fmt.Sprintf("of %s records that succeeded, %s did so more than once, as the consumer went back by itself, and "+
			"its offsets are outside Kafka", units.Count(int64(succeeded)), units.Count(int64(repeated))),
		"say how many records it may repeat (expect: {allow: {duplicates: 1%}} in the scenario, or --set " +
			"expect.allow.duplicates=1%), and see whether it reads each batch twice"
}

// refusing says that the subject dead-lettered most records that should succeed, without an attempt at them; ""
// otherwise. Where attempts are seen, classification judges each of these dead letters. Where no call came at all,
// although it should, records that are committed count, too: what it does with them is not seen, or it drops them all.
func (w *state) refusing() (why, do string) {
	if !w.contract.WireOnly && !w.uncalled {
		return "", ""
	}
	good, refused := 0, 0
	for i := range w.records.count {
		r := w.records.at(i)
		if !r.has(markAcked) || r.planned != history.OutcomeSuccess || r.unnamed() {
			continue
		}
		if good++; r.answers == 0 && (w.letterAcked(r) >= 0 || w.uncalled && r.has(markCovered)) {
			refused++
		}
	}
	if !nearlyAll(refused, good) {
		return "", ""
	}
	became := "dead-lettered"
	do = "give it records as it takes them (input.samples in the subject's file), and what it needs to process them; " +
		"its logs, and the reasons in its dead letters, may say what is missing"
	if w.uncalled {
		became = "dead-lettered or committed, and no call came to the downstream"
		do = "say in the subject's file what it calls (downstreams, or observe: wire), give it that address, such as " +
			"{{.OracleURL}}, and records as it takes them (input.samples); its logs may say which of them is missing"
	}
	return fmt.Sprintf("of %s records that should succeed, %s were %s", units.Count(int64(good)),
		units.Count(int64(refused)), became), do
}

// unplaced says that the subject took partitions of the input without a group and committed nothing; "" otherwise.
// Where it keeps its offsets is then not known, and no offset shows how far it is.
func (w *state) unplaced() (why, do string) {
	if w.committing || w.contract.OffsetsOutside || w.session > 0 {
		return "", ""
	}
	for topic := range w.parts {
		for i := range w.parts[topic] {
			p := &w.parts[topic][i]
			if w.role(p.topic) != history.RoleInput || !p.has {
				continue
			}
			if p.assigned {
				return "", ""
			}
			why = "the consumer takes partitions without a group, and commits no offset for the group " + w.header.Group()
		}
	}
	if why == "" {
		return "", ""
	}
	return why, "write commits: never in its contract if it keeps its offsets outside Kafka, or name the group for " +
		"which it commits (group)"
}

// startedBehind says that the last process that found no committed offset in the partition, or one that followed it,
// began to read it behind the offset, or was handed nothing of it, as one that waits at its end; "" otherwise. A
// process that has not finished another record may not have asked for any.
func (w *state) startedBehind(p *partition, offset int64) string {
	if p == nil || offset > p.log.last || w.contract.OffsetsOutside {
		return ""
	}
	did := fmt.Sprintf(", which was read from offset %d on", p.began.offset)
	switch {
	case p.began.offset == none && w.occupied(p.began.by):
		return ""
	case p.began.offset == none && p.began.at < w.drainedAt():
		did = " and was handed nothing of it"
	case offset >= p.began.offset:
		return ""
	}
	return fmt.Sprintf(". Instance %d had no committed offset of %s-%d%s: look at auto.offset.reset, whose default in "+
		"many clients, latest, leaves out what is already there", p.began.by.instance, w.topicName(p.topic),
		p.number(), did)
}

// occupied reports whether the process has a record that it attempted and never finished. With one loop for all of its
// partitions, it asks for nothing while it tries to write the dead letter.
func (w *state) occupied(by holder) bool {
	for topic := range w.parts {
		for i := range w.parts[topic] {
			p := &w.parts[topic][i]
			if !w.consumed(int16(topic)) {
				continue
			}
			number, _ := w.blocker(p, max(p.auditCommits, p.log.first), endless)
			if r := w.record(number); r != nil && r.attempts > 0 && r.held == by {
				return true
			}
		}
	}
	return false
}

// handed notes that an instance has these records. From now on a disruption of the instance justifies another delivery
// of them, also before their first attempt.
func (w *state) handed(p *partition, from, to int64) {
	for offset := max(from, p.log.first); offset <= min(to, p.log.last); offset++ {
		if number := p.log.at(offset); number != none {
			w.see(number, w.records.at(int(number)))
		}
	}
}

func (w *state) instance(number int16) *instance {
	one := w.instances[number]
	if one == nil {
		one = &instance{stopped: never, term: never, exited: never}
		w.instances[number] = one
	}
	return one
}

func (w *state) lifecycle(e *history.Event) {
	if e.Instance < 0 {
		return
	}
	one := w.instance(e.Instance)
	if e.Kind != history.KindInstanceStarting {
		w.cutHeld(e)
	}
	switch e.Kind {
	case history.KindInstanceStarting:
		one.alive, one.term = true, never
		w.resume(e.Instance, one, e.Time)
	case history.KindInstanceSignal:
		w.signal(e, one)
	case history.KindInstanceExited:
		one.alive, one.exited = false, e.Time
		w.resume(e.Instance, one, e.Time)
	}
	w.surface.observe(e, w.namesDLQ)
}

func (w *state) signal(e *history.Event, one *instance) {
	switch e.Text {
	case "TERM", "INT", "SIGTERM", "SIGINT":
		one.term = e.Time
	case "STOP", "SIGSTOP":
		if one.stopped == never {
			one.stopped = e.Time
		}
	case "CONT", "SIGCONT":
		w.resume(e.Instance, one, e.Time)
	}
}

// resume ends a stop. The disruption counts from the end of the stop: by then, the pending requests of the process have
// timed out, including those that it made just before the stop and that were read afterwards.
func (w *state) resume(number int16, one *instance, at time.Duration) {
	if one.stopped == never {
		return
	}
	w.stalls.add(span{from: one.stopped, to: at, lasted: at - one.stopped, instance: number, stopped: true})
	one.stopped = never
	w.disturbHeld(number)
}

func (w *state) disturbHeld(number int16) {
	for topic := range w.parts {
		for i := range w.parts[topic] {
			if p := &w.parts[topic][i]; p.held.instance == number && p.epoch > 0 {
				w.disturb(p)
			}
		}
	}
}

func (w *state) stall(e *history.Event) {
	if e.Aux <= 0 {
		return
	}
	lasted := time.Duration(e.Aux)
	one := span{from: e.Time - lasted, to: e.Time, lasted: lasted, instance: e.Instance}
	if e.Instance >= 0 {
		one.from -= sampling
	}
	w.stalls.add(one)
	if e.Instance >= 0 && lasted >= answerStall {
		w.disturbHeld(e.Instance)
	}
}

func (w *state) fault(e *history.Event) {
	if e.Op < 0 || e.Op >= int64(len(w.faults)) {
		return
	}
	f := &w.faults[e.Op]
	switch e.Kind {
	case history.KindFaultStart:
		if !f.injected {
			f.injected, f.from, f.to = true, e.Time, e.Time
		}
	case history.KindFaultEffect:
		if e.N > 0 { // a fault applied zero times has no effect
			f.effects[e.Text] += int64(e.N)
		}
		if e.Code == history.FaultFailed {
			f.failed = strings.ReplaceAll(e.Text, "\n", "; ")
		}
		f.to = max(f.to, e.Time)
	case history.KindFaultEnd:
		f.healed, f.to = true, max(f.to, e.Time)
		if onDownstreamLink(&f.planned) {
			f.called, w.lifted = map[int16]time.Duration{}, append(w.lifted, f)
		}
	}
}

// phase returns when the run entered the phase for the first time, and when it left it, or never.
func (w *state) phase(name string) (from, to time.Duration) {
	from, to = never, never
	for i, one := range w.phases {
		if one.name != name || from != never {
			continue
		}
		from = one.at
		if i+1 < len(w.phases) {
			to = w.phases[i+1].at
		}
	}
	return from, to
}
