package run

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/reports"
)

// figures are the totals so far.
type figures struct {
	reports.Totals
	// lag is the number of input records not yet covered by an accepted commit or, if the subject commits nothing to
	// Kafka, not yet finished.
	lag int64
	// retrying is the number of records that failed and are neither finished nor dead-lettered yet.
	retrying int64
}

// live passes events on to the recorder and counts the figures that the live view shows. The verdict does not use
// them: it is made from the history. Every event of the run passes through Record, in the path of a request or its
// answer, so the work for each record takes no lock but the recorder's.
type live struct {
	next    history.Sink
	header  *history.Header
	topics  []history.Topic
	maxSlip time.Duration
	// triggers observe every event after it was recorded and counted.
	triggers triggers
	// replayed is called with a record that a worker of the dead-letter store writes back, before the broker receives
	// it.
	replayed func(record int32)
	// intended returns the planned send time of a record; false before the load begins.
	intended func(record int32) (time.Duration, bool)

	sent, slipped, acked, attempts, processed, deadLetters, duplicates, replays atomic.Int64

	// moved counts the starts and ends of promised attempts and their calls, and dead letters, but not those of a record
	// whose attempts are endless. underWay are attempts and calls without an answer yet.
	// session is the longest session timeout that a member asked for, in ns.
	moved, underWay, session atomic.Int64
	// whole is 1 if an attempt is under way from its start to its end, 0 if only its calls are: a process may break off
	// between two of them.
	whole int64

	records      *recordStates
	partitions   *partitions
	processes    *processes
	log          *eventLog
	success      *latencies
	firstAttempt *latencies

	mu     sync.Mutex
	faults []faultView
	// effects is the number of times that each fault took effect, by index, including lifted faults.
	effects map[int64]int64
	// generations are, by node of a graph or by service, the newest generation in which partitions were assigned.
	// rebalances counts the new generations.
	generations map[int]int32
	rebalances  int64
	injected    int64
	store       *reports.StoreFigures
	asked       func() int64 // counts the requests of the schema registry; nil without one
	// transacted is the offset after the last record that the replay tool wrote in a transaction. The record at that
	// offset is the transaction's marker.
	transacted map[topicPartition]int64
	// marked: the load has transaction markers.
	marked bool
	// stalls is the total time for which each instance, and the harness (history.None), could not run.
	stalls map[int16]time.Duration
}

// faultView is a fault in force. index is its place in the plan.
type faultView struct {
	index int
	reports.FaultState
}

type topicPartition struct {
	topic     int16
	partition int32
}

func newLive(next history.Sink, header *history.Header) *live {
	log := &eventLog{}
	l := &live{
		next: next, header: header, topics: header.Topics, maxSlip: header.Expect.MaxSlip, records: newRecordStates(header),
		partitions: newPartitions(header),
		processes:  newProcesses(header, log), log: log, success: &latencies{}, firstAttempt: &latencies{},
		generations: map[int]int32{},
		transacted:  map[topicPartition]int64{}, effects: map[int64]int64{}, stalls: map[int16]time.Duration{},
		intended: func(int32) (time.Duration, bool) { return 0, false }, whole: 1,
	}
	if header.Contract().LastCall != "" {
		l.whole = 0
	}
	if header.Store != nil {
		l.store = &reports.StoreFigures{ByState: map[history.StoreState]int64{}}
	}
	l.triggers = triggers{contract: header.Contract(), role: l.role, lag: l.lag}
	return l
}

// Record implements history.Sink.
func (l *live) Record(event history.Event) {
	l.next.Record(event)
	l.count(&event)
	l.triggers.observe(&event)
}

// count counts the events that occur for every record. follow handles the rest.
func (l *live) count(event *history.Event) {
	ofStore := history.OfStore(event.Instance)
	switch event.Kind {
	case history.KindSend:
		if event.Flags.Has(history.Repeated) {
			return
		}
		l.sent.Add(1)
		l.records.sent(event)
		if event.Time-time.Duration(event.Aux) > l.maxSlip {
			l.slipped.Add(1)
		}
	case history.KindAcked:
		if event.Code == 0 {
			if !event.Flags.Has(history.Repeated) {
				l.acked.Add(1)
				l.records.placed(event)
			}
			l.partitions.written(event)
		}
	case history.KindFetched, history.KindShareAcquired:
		l.processes.fetched(event)
	case history.KindAttemptStart:
		l.move(event.N, l.whole)
		l.attempt(event)
	case history.KindAttemptEnd:
		l.move(event.N, -l.whole)
		l.processes.attempted(event.Instance)
		if !ofStore {
			l.attempted(event)
		}
	case history.KindProduceRequest:
		if ofStore && l.replayed != nil {
			l.replayed(event.Record)
		}
	case history.KindProduceResponse:
		l.produced(event, ofStore)
	case history.KindCommitResponse:
		if event.Code == 0 && !ofStore && !event.Flags.Has(history.Forged) {
			l.partitions.commit(event)
		}
	case history.KindShareAckResponse:
		done := event.N == history.AckAccept || event.N == history.AckReject
		if done && event.Code == 0 && l.role(event.Topic) == history.RoleInput {
			l.partitions.take(event)
		}
	default:
		l.follow(event, ofStore)
	}
}

// move notes that something moves in an attempt, as far as it is promised.
func (l *live) move(attempt int32, underWay int64) {
	if !l.header.Contract().Endless(attempt) {
		l.underWay.Add(underWay)
		l.moved.Add(1)
	}
}

// follow handles the less frequent events.
func (l *live) follow(event *history.Event, ofStore bool) {
	switch event.Kind {
	case history.KindCallStart, history.KindCallEnd:
		if event.N == 0 {
			l.move(int32(event.Aux), map[history.Kind]int64{history.KindCallStart: 1, history.KindCallEnd: -1}[event.Kind])
		}
	case history.KindPhase:
		l.log.add(event.Time, reports.EventPhase, event.Text)
	case history.KindAssigned:
		if !ofStore {
			l.assigned(event)
		}
	case history.KindRevoked:
		l.partitions.own(event, false)
	case history.KindMembership:
		l.partitions.join(event)
	case history.KindJoining:
		l.session.Store(max(l.session.Load(), event.Aux))
	case history.KindInstanceExited:
		l.partitions.disown(event.Instance, event.Time)
		l.processes.changed(event)
	case history.KindInstanceStarting, history.KindInstanceReady, history.KindInstanceSignal, history.KindSubjectError:
		l.processes.changed(event)
	case history.KindFaultEffect:
		l.took(event)
	case history.KindStoreChange:
		l.stored(event)
	case history.KindStall:
		l.mu.Lock()
		l.stalls[event.Instance] += max(time.Duration(event.Aux), 0)
		l.mu.Unlock()
	}
}

// stalled returns the total time for which each instance, and the harness (history.None), could not run.
func (l *live) stalled() map[int16]time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.stalls)
}

func (l *live) role(topic int16) history.Role {
	if topic < 0 || int(topic) >= len(l.topics) {
		return ""
	}
	return l.topics[topic].Role
}

// attempt handles a request that the downstream stub has read.
func (l *live) attempt(event *history.Event) {
	if l.header.Contract().Endless(event.N) {
		l.records.set(event, recordEndless)
	}
	if event.N != 1 || !l.records.known(event) {
		return
	}
	if intended, known := l.intended(event.Record); known {
		l.firstAttempt.record(event.Time - intended)
	}
}

func (l *live) attempted(event *history.Event) {
	l.attempts.Add(1)
	switch {
	case event.Flags.Has(history.Withheld): // carried out, as the subject may find out
		l.records.settle(event)
		return
	case event.Outcome != history.OutcomeSuccess && event.Outcome != history.OutcomeLogical:
		l.records.fail(event)
		return
	}
	l.processed.Add(1)
	l.records.settle(event)
	if event.Outcome == history.OutcomeLogical {
		return
	}
	first, second := l.records.succeed(event)
	if second {
		l.duplicates.Add(1)
	}
	if first && l.records.known(event) {
		if intended, known := l.intended(event.Record); known {
			l.success.record(event.Time - intended)
		}
	}
}

// produced handles the broker's answer to a record that an instance, the replay tool or a process of the store
// wrote.
func (l *live) produced(event *history.Event, ofStore bool) {
	if event.Code != 0 {
		return
	}
	back := ofStore || event.Instance == history.Replayer
	switch role := l.role(event.Topic); {
	case event.Flags.Has(history.Forged):
	case role == history.RoleInput || role == history.RoleNode:
		l.partitions.written(event)
		if back {
			l.replays.Add(1)
			l.records.placed(event)
		}
	case back && role == history.RoleRetry:
		l.replays.Add(1)
	}
	if ofStore {
		return
	}
	l.replayedInTransaction(event)
	if role := l.role(event.Topic); role == history.RoleDLQ || role == history.RoleQuarantine {
		l.deadLetters.Add(1)
		if !l.records.has(event, recordEndless) {
			l.moved.Add(1)
		}
		l.records.settle(event)
	}
}

// assigned handles the assignment of a partition to an instance. An assignment in a generation newer than any before
// indicates a rebalance.
func (l *live) assigned(event *history.Event) {
	l.partitions.own(event, true)
	node := l.group(event.Instance)
	l.mu.Lock()
	last, before := l.generations[node]
	fresh := !before || event.N > last
	if fresh {
		l.generations[node] = event.N
	}
	if fresh && before {
		l.rebalances++
	}
	l.mu.Unlock()
	if fresh {
		l.log.add(event.Time, reports.EventRebalance, l.assignment(node, event.N))
	}
}

func (l *live) assignment(node int, generation int32) string {
	text := fmt.Sprintf("partitions are assigned, generation %d", generation)
	if name := l.header.Consumers[node].Name; name != "" {
		text += " of " + name
	}
	return text
}

// group is the index of the instance's consumer.
func (l *live) group(instance int16) int { return max(l.header.ConsumerOf(instance), 0) }

// stored handles an observed change to an entry of the dead-letter store.
func (l *live) stored(event *history.Event) {
	change, err := history.ParseStoreChange(event.Text)
	if err != nil {
		return // an unreadable entry is judged, not shown
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store == nil {
		return
	}
	l.store.Changes++
	for _, one := range []struct {
		state history.StoreState
		by    int64
	}{{change.From, -1}, {change.To, 1}} {
		if one.state != history.StoreAbsent {
			l.store.ByState[one.state] += one.by
		}
	}
}

// took handles an effect of a fault.
func (l *live) took(event *history.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.effects[event.Op] += int64(max(event.N, 0))
	for i := range l.faults {
		if int64(l.faults[i].index) == event.Op {
			l.faults[i].Effects = l.effects[event.Op]
		}
	}
}

// didSomething reports whether the fault with the index has had an effect so far.
func (l *live) didSomething(index int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.effects[int64(index)] > 0
}

// fault notes that a fault is in force from a time on, or lifted.
func (l *live) fault(planned faults.Planned, active bool, at time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !active {
		l.faults = slices.DeleteFunc(l.faults, func(f faultView) bool { return f.index == planned.Index })
		l.log.add(at, reports.EventFault, planned.Name+" is healed")
		return
	}
	l.injected++
	l.faults = append(l.faults, faultView{planned.Index, reports.FaultState{
		Name: planned.Name, Kind: planned.Kind, What: planned.What, Target: planned.Target, Since: at, For: planned.For,
	}})
	l.log.add(at, reports.EventFault, planned.Name+": "+planned.What)
}

// offSchedule reports whether more than 1 % of the records were sent later than the scenario allows. Such a run
// cannot be conclusive.
func (l *live) offSchedule() bool { return 100*l.slipped.Load() > l.sent.Load() }

func (l *live) figures() figures {
	// Read the later stages of a record first, so that the number processed never exceeds the number sent.
	duplicates, deadLetters, processed := l.duplicates.Load(), l.deadLetters.Load(), l.processed.Load()
	attempts, retrying, lag := l.attempts.Load(), l.records.retrying.Load(), l.lag()
	replays, acked := l.replays.Load(), l.acked.Load()
	return figures{
		Totals: reports.Totals{
			Sent: l.sent.Load(), Acknowledged: acked, Processed: processed, Attempts: attempts, DeadLetters: deadLetters,
			Duplicates: duplicates, Replayed: replays, Late: l.slipped.Load(),
		},
		lag: lag, retrying: max(retrying, 0),
	}
}

// lag returns figures.lag.
func (l *live) lag() int64 {
	if l.header.Contract().OffsetsOutside {
		return max(l.records.open.Load(), 0)
	}
	return l.partitions.lag()
}

// now fills in the current state: the faults in force and the rest of the view.
func (l *live) now(snapshot *reports.Snapshot) {
	snapshot.Partitions, snapshot.Events = l.partitions.states(), l.log.newest()
	l.mu.Lock()
	defer l.mu.Unlock()
	snapshot.Rebalances, snapshot.FaultsInjected = l.rebalances, l.injected
	for _, fault := range l.faults {
		snapshot.ActiveFaults = append(snapshot.ActiveFaults, fault.FaultState)
	}
	if l.asked != nil {
		snapshot.Registry = &reports.RegistryFigures{Requests: l.asked()}
	}
	if l.store != nil {
		figures := reports.StoreFigures{ByState: map[history.StoreState]int64{}, Changes: l.store.Changes}
		for state, count := range l.store.ByState {
			figures.ByState[state] = max(count, 0)
		}
		snapshot.Store = &figures
	}
}

// watchRegistry sets what counts the requests of the schema registry.
func (l *live) watchRegistry(requests func() int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = requests
}

// replayedInTransaction notes where the replay tool's transactions write.
func (l *live) replayedInTransaction(event *history.Event) {
	if event.Instance != history.Replayer || !event.Flags.Has(history.InTransaction) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.transacted[topicPartition{event.Topic, event.Partition}] = event.Offset + 1
}

// discountMarkers subtracts from a partition's end the markers of the load behind its last record, and the marker of a
// replay's transaction behind the last record that the group has committed, because no consumer receives markers.
func (l *live) discountMarkers(topic int16, ends map[int32]kadm.ListedOffset, committed map[int32]kadm.OffsetResponse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for partition, end := range ends {
		behind, is := l.transacted[topicPartition{topic, partition}]
		at, known := committed[partition]
		switch last := l.partitions.end(topic, partition); {
		case l.marked && last >= 0:
			end.Offset = min(end.Offset, last)
		case is && known && at.Err == nil && at.At == behind:
			end.Offset = behind
		}
		ends[partition] = end
	}
}
