package assertions

// Histories for graceful-stop, liveness and isolation. Like all others, they are judged by every invariant.

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

func stopCases() []testCase {
	graced := func(b *builder) *builder {
		b.h.Contract().StopGrace = time.Second
		return b.begin()
	}
	return []testCase{
		{"it ends within its grace", nil, func(b *builder) history.Source {
			graced(b).send(0).success(0).commit(1).drain()
			return b.phase(history.PhaseAudit).signal("TERM").wait(900 * ms).exit(0).sealed()
		}},
		{"it is still there when its grace is over", []string{"stop-timeout"}, func(b *builder) history.Source {
			graced(b).send(0).success(0).commit(1).drain()
			return b.phase(history.PhaseAudit).signal("TERM").wait(time.Second).kill().sealed()
		}},
		{"it ends by itself long after its grace", []string{"stop-timeout"}, func(b *builder) history.Source {
			graced(b).send(0).success(0).commit(1).drain()
			return b.phase(history.PhaseAudit).signal("TERM").wait(1500 * ms).exit(0).sealed()
		}},
		{"it ends so little after its grace that its end may only be noticed late", nil, func(b *builder) history.Source {
			graced(b).send(0).success(0).commit(1).drain()
			return b.phase(history.PhaseAudit).signal("TERM").wait(1200 * ms).exit(0).sealed()
		}},
		{"it ends within its grace, and that is heard of long after", nil, func(b *builder) history.Source {
			graced(b).send(0).success(0).commit(1).drain()
			return b.phase(history.PhaseAudit).signal("TERM").wait(1500 * ms).exitedBefore(600 * ms).sealed()
		}},
		{"it ends long after its grace, and that is heard of late, too", []string{"stop-timeout"},
			func(b *builder) history.Source {
				graced(b).send(0).success(0).commit(1).drain()
				return b.phase(history.PhaseAudit).signal("TERM").wait(1800 * ms).exitedBefore(500 * ms).sealed()
			}},
		{"it ends within its grace, and is to be killed before that is heard of", nil, func(b *builder) history.Source {
			graced(b).send(0).success(0).commit(1).drain()
			return b.phase(history.PhaseAudit).signal("TERM").wait(2 * time.Second).signal("KILL").wait(100 * ms).exitedBefore(
				1200 * ms).sealed()
		}},
		{"it is killed after its grace, and its end is heard of late", []string{"stop-timeout"},
			func(b *builder) history.Source {
				graced(b).send(0).success(0).commit(1).drain()
				return b.phase(history.PhaseAudit).signal("TERM").wait(2 * time.Second).signal("KILL").wait(100 * ms).exitedBefore(
					50 * ms).sealed()
			}},
		{"it outlasts its grace, but could not run", nil, func(b *builder) history.Source {
			graced(b).send(0).success(0).commit(1).drain()
			return b.phase(history.PhaseAudit).signal("TERM").wait(time.Second).stall(0, 300*ms).kill().sealed()
		}},
		{"it outlasts its grace, and was kept from running for a moment only", []string{"stop-timeout"},
			func(b *builder) history.Source {
				graced(b).send(0).success(0).commit(1).drain()
				return b.phase(history.PhaseAudit).signal("TERM").wait(time.Second).stall(0, 30*ms).kill().sealed()
			}},
		{"it outlasts its grace while it is frozen", nil, func(b *builder) history.Source {
			graced(b).send(0).success(0).commit(1).drain().phase(history.PhaseAudit)
			return b.signal("STOP").wait(100 * ms).signal("TERM").wait(100 * ms).signal("CONT").wait(time.Second).kill().sealed()
		}},
		{"something else kills it before its grace is over", nil, func(b *builder) history.Source {
			graced(b).send(0).success(0).commit(1).drain()
			return b.phase(history.PhaseAudit).signal("TERM").wait(500 * ms).kill().sealed()
		}},
		{"a fault is no excuse", []string{"stop-timeout"}, func(b *builder) history.Source {
			f := b.fault("kafka", "dlq", "Produce to dlq delayed by 1m")
			graced(b).send(0).success(0).commit(1).breaks(f).signal("TERM").wait(time.Second).kill().heals(f)
			return b.as(0, 1).up().assign(0, 1, 2, 3).drain().done()
		}},
		{"no time is promised", nil, func(b *builder) history.Source {
			b.begin().send(0).success(0).commit(1).drain()
			return b.phase(history.PhaseAudit).signal("TERM").wait(time.Minute).exit(0).sealed()
		}},
		{"what is in backoff is dropped at the stop", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				graced(b).send(0).fails(0, 1).signal("TERM").commit(1).exit(0)
				return b.as(0, 1).up().assign(0, 1, 2, 3).drain().done()
			}},
		{"what is in backoff is left to the next", nil, func(b *builder) history.Source {
			graced(b).send(0).fails(0, 1).signal("TERM").exit(0)
			return b.as(0, 1).up().assign(0, 1, 2, 3).fetch(0).fails(0, 2).wait(205 * ms).success(0).commit(1).drain().done()
		}},
		{"it waits for what is in backoff", nil, func(b *builder) history.Source {
			graced(b).send(0).fails(0, 1).signal("TERM").wait(105 * ms).success(0).commit(1).exit(0)
			return b.as(0, 1).up().assign(0, 1, 2, 3).drain().done()
		}},
		{"it was dropped before the stop", []string{"commit-past-unfinished", "lost"}, func(b *builder) history.Source {
			graced(b).send(0).fails(0, 1).commit(1).signal("TERM").exit(0)
			return b.as(0, 1).up().assign(0, 1, 2, 3).drain().done()
		}},
		{"what was never tried is dropped at the stop, which is no matter of backoff",
			[]string{"commit-past-unfinished", "lost"}, func(b *builder) history.Source {
				graced(b).send(0).signal("TERM").commit(1).exit(0)
				return b.as(0, 1).up().assign(0, 1, 2, 3).drain().done()
			}},
		{"what is in backoff is dead-lettered at the stop", []string{"premature-dead-letter", "under-retried"},
			func(b *builder) history.Source {
				graced(b).send(0).fails(0, 2).signal("TERM").letter(0).commit(1).exit(0)
				return b.as(0, 1).up().assign(0, 1, 2, 3).drain().done()
			}},
		{"what has used up its attempts is dead-lettered at the stop", nil, func(b *builder) history.Source {
			graced(b).send(0).fails(0, 3).signal("TERM").letter(0).commit(1).exit(0)
			return b.as(0, 1).up().assign(0, 1, 2, 3).drain().done()
		}},
		{"what failed for good is dead-lettered at the stop", nil, func(b *builder) history.Source {
			graced(b).send(0).attempt(0, history.OutcomePermanent).signal("TERM").letter(0).commit(1).exit(0)
			return b.as(0, 1).up().assign(0, 1, 2, 3).drain().done()
		}},
		{"it is dead-lettered early by another instance than the one that stops",
			[]string{"premature-dead-letter", "under-retried"}, func(b *builder) history.Source {
				graced(b).as(1, 0).up().signal("TERM").as(0, 0).send(0).fails(0, 1).letter(0).commit(1).as(1, 0).exit(0)
				return b.drain().done()
			}},
	}
}

func (b *builder) ready() *builder {
	b.put(b.of(history.KindInstanceReady))
	return b
}

// rebalances takes a partition away and assigns it again, repeatedly, each time with a new generation.
func (b *builder) rebalances(count int, every time.Duration) *builder {
	for i := range count {
		b.revoke(3).wait(every)
		b.assign(3)
		b.events[len(b.events)-1].N = int32(i) + 2
	}
	return b
}

// asks notes that the instance starts (1) or stops (0) requesting a partition.
func (b *builder) asks(partition int32, on int32) *builder {
	e := b.of(history.KindFetching)
	e.Topic, e.Partition, e.N = input, partition, on
	b.put(e)
	return b
}

// unread is acknowledged to the workload, and never fetched.
func (b *builder) unread(number, partition, key int32) *builder {
	return b.handOver(number, partition, key, 0).acked(number, partition)
}

func livenessCases() []testCase {
	return append(lagCases(), stormCases()...)
}

func lagCases() []testCase {
	return []testCase{
		{"everything is finished, but not committed in the end", []string{"stalled"}, func(b *builder) history.Source {
			b.begin().send(0).success(0).commit(1).send(1).success(1)
			return b.drain().done()
		}},
		{"it is committed only because it is told to stop", []string{"stalled"}, func(b *builder) history.Source {
			b.begin().send(0).success(0).drain().phase(history.PhaseAudit)
			return b.signal("TERM").commit(1).exit(0).sealed()
		}},
		{"it is committed only because it is told to stop, in a fault that is never lifted", nil,
			func(b *builder) history.Source {
				b.begin().breaks(b.fault("broker", "broker 0", "broker stopped"))
				b.send(0).success(0).drain().phase(history.PhaseAudit)
				return b.signal("TERM").commit(1).exit(0).sealed()
			}},
		{"it is committed at the last moment", nil, func(b *builder) history.Source {
			b.begin().send(0).success(0).drain().commit(1)
			return b.done()
		}},
		{"it was not committed when the drain was cut short", nil, func(b *builder) history.Source {
			b.begin().send(0).success(0).phase(history.PhaseHeal).phase(history.PhaseDrain).wait(500 * ms)
			return b.done()
		}},
		{"it stood still for most of the drain", nil, func(b *builder) history.Source {
			b.begin().send(0).success(0).phase(history.PhaseHeal).phase(history.PhaseDrain).wait(time.Second).stall(history.None,
				600*ms)
			return b.done()
		}},
		{"it ended by itself and nobody came back", []string{"stalled"}, func(b *builder) history.Source {
			b.begin().send(0).success(0).commit(1).unread(1, 0, 0).exit(3)
			return b.drain().done()
		}},
		{"a partition that it has is not read any more", []string{"paused-partition", "stalled"},
			func(b *builder) history.Source {
				b.begin().send(0).success(0).commit(1).unread(1, 0, 0)
				return b.drain().done()
			}},
		{"it does not ask for what it was handed before, and goes on with others", []string{"paused-partition", "stalled"},
			func(b *builder) history.Source {
				b.begin().asks(0, 1).asks(1, 1).send(0).fails(0, 1).asks(0, 0)
				return b.drain().done()
			}},
		{"it asks for it, and makes nothing of it", []string{"stalled"}, func(b *builder) history.Source {
			b.begin().asks(0, 1).asks(1, 1).send(0).fails(0, 1).asks(0, 0).wait(100*ms).asks(0, 1)
			return b.drain().done()
		}},
		{"a partition is full while it is still worked at", []string{"endless-redelivery", "stalled"},
			func(b *builder) history.Source {
				b.begin().send(0).unread(1, 0, 0).phase(history.PhaseHeal).phase(history.PhaseDrain)
				b.fails(0, 9)
				return b.done()
			}},
		{"a partition is full of dead letters of one record", []string{"backoff-early", "dlq-duplicate", "endless-redelivery",
			"stalled"},
			func(b *builder) history.Source {
				b.begin().send(0).unread(1, 0, 0).phase(history.PhaseHeal).phase(history.PhaseDrain)
				b.fails(0, 24)
				for range 6 {
					b.wait(205*ms).attempt(0, history.OutcomeTransient).letter(0)
				}
				return b.done()
			}},
		{"a partition is paused for a while", nil, func(b *builder) history.Source {
			b.begin().asks(0, 1).asks(1, 1).send(0).fails(0, 1).asks(0, 0).wait(100*ms).asks(0, 1).success(0).commit(1)
			return b.drain().done()
		}},
		{"its holder lost the partition in the drain, and the next one does not come to it", []string{"stalled"},
			func(b *builder) history.Source {
				b.begin().send(0).success(0).commit(1).unread(1, 0, 0).as(1, 0).up()
				b.phase(history.PhaseHeal).phase(history.PhaseDrain).wait(500*ms).revokeFrom(0, 0).assign(0).wait(500 * ms)
				return b.done()
			}},
		{"nobody has the partition", []string{"stalled"}, func(b *builder) history.Source {
			b.begin().send(0).success(0).commit(1).unread(1, 0, 0).revoke(0)
			return b.drain().done()
		}},
		{"a record behind which no other comes", nil, func(b *builder) history.Source {
			b.begin().send(0).success(0).commit(1).drain()
			source := b.done()
			for i := range b.events {
				// The end of the log lies beyond the last record, because of a transaction marker.
				if b.events[i].Kind == history.KindAuditOffsets && b.events[i].Partition == 0 {
					b.events[i].Offset++
				}
			}
			return source
		}},
	}
}

func stormCases() []testCase {
	calm := func(b *builder) *builder {
		b.begin().ready().send(0).success(0).commit(1)
		return b.wait(4 * time.Second)
	}
	return []testCase{
		{"the group rebalances over and over", []string{"rebalance-storm"}, func(b *builder) history.Source {
			return calm(b).rebalances(6, 300*ms).drain().done()
		}},
		{"the group settles after a few rebalances", nil, func(b *builder) history.Source {
			return calm(b).rebalances(3, 300*ms).drain().done()
		}},
		{"another group, which reads a retry topic, joins late and has generations of its own", nil, func(
			b *builder) history.Source {
			calm(b).rebalances(6, 300*ms)
			for i := range b.events {
				if e := &b.events[i]; e.Kind == history.KindAssigned && e.N > 1 {
					e.Flags |= history.OtherGroup
				}
			}
			return b.drain().done()
		}},
		{"the group rebalances while an instance comes up", nil, func(b *builder) history.Source {
			calm(b).as(1, 0).up().as(0, 0).rebalances(6, 300*ms).as(1, 0).ready().as(0, 0)
			return b.drain().done()
		}},
		{"the group rebalances as instances end and start", nil, func(b *builder) history.Source {
			calm(b).as(1, 0)
			for run := range uint16(4) {
				b.as(1, run).up().ready().wait(400 * ms).kill().wait(400 * ms)
				b.as(0, 0).rebalances(1, ms)
				b.events[len(b.events)-1].N = int32(run) + 5
			}
			return b.drain().done()
		}},
		{"the group rebalances during a fault", nil, func(b *builder) history.Source {
			f := b.fault("kafka", "dlq", "Heartbeat answered COORDINATOR_NOT_AVAILABLE")
			return calm(b).breaks(f).rebalances(8, 700*ms).heals(f).drain().done()
		}},
		{"the group rebalances as the machine stands still again and again", nil, func(b *builder) history.Source {
			calm(b)
			for i := range 8 {
				b.wait(5*time.Second).stall(history.None, 1500*ms).rebalances(1, 100*ms)
				b.events[len(b.events)-1].N = int32(i) + 2
			}
			return b.drain().done()
		}},
		{"one rebalance moves many partitions", nil, func(b *builder) history.Source {
			calm(b)
			for range 8 {
				b.revoke(0, 1, 2, 3).wait(200*ms).assign(0, 1, 2, 3)
			}
			return b.drain().done()
		}},
		{"nothing is known of the instances", nil, func(b *builder) history.Source {
			calm(b).rebalances(12, 300*ms)
			b.events = slices.DeleteFunc(b.events, func(e history.Event) bool {
				return e.Kind == history.KindInstanceStarting || e.Kind == history.KindInstanceReady
			})
			return b.drain().done()
		}},
	}
}

// traffic is a busy consumer: it is handed a record every millisecond or so, with two keys in each of two partitions.
// Every eighth record of partition 0 fails twice.
type traffic struct {
	*builder
	// held reports which records wait while another record of the process backs off.
	held func(failing, other int32) bool
	// between is called before each record is handed over.
	between func(number int32)
	// long: an attempt that is started during a backoff takes until the end of that backoff, and occupies the only
	// worker.
	long bool
	// calls: the attempt is short, and a call of the ledger after it takes that time.
	calls bool
	// late: a record is fetched only when it is started.
	late    bool
	records int32
	number  int32
	open    []*pending
}

// pending is a record that is handed over and not finished.
type pending struct {
	number, partition, key int32
	failures, tried        int
	since, due             time.Duration
}

func newTraffic(b *builder, records int32) *traffic {
	b.h.Records = int(records)
	b.h.Contract().Isolation, b.h.Contract().StopGrace = 0.5, time.Second
	b.begin().ready().wait(4 * time.Second)
	return &traffic{builder: b, records: records, held: func(int32, int32) bool { return false }}
}

// atOnce has two workers of an instance seen at work once.
func (w *traffic) atOnce() *traffic {
	w.hand()
	w.hand()
	first, second := w.start(0), w.start(1)
	w.end(first, 0, history.OutcomeSuccess)
	w.end(second, 1, history.OutcomeSuccess)
	w.open = nil
	return w
}

func (w *traffic) hand() {
	n := w.number
	if w.between != nil {
		w.between(n)
	}
	one := &pending{number: n, partition: n % 2, key: n % 40}
	if n%16 == 0 && n > 32 {
		one.failures = 2
	}
	w.handOver(n, one.partition, one.key, 0).acked(n, one.partition)
	if !w.late {
		w.fetch(n)
	}
	one.since = w.now
	w.open = append(w.open, one)
	w.number++
}

// free reports whether the record may be started now.
func (w *traffic) free(one *pending) bool {
	for _, other := range w.open {
		backingOff := other != one && other.tried > 0
		if other.number < one.number && other.partition == one.partition &&
			(other.key == one.key || w.h.Contract().Ordering == history.OrderingPartition) {
			return false
		}
		if backingOff && one.tried == 0 && w.held(other.partition, one.partition) {
			return false
		}
	}
	return one.due <= w.now
}

func (w *traffic) work() {
	for i, one := range w.open {
		if !w.free(one) {
			continue
		}
		if one.tried++; one.tried == 1 && w.late {
			w.fetch(one.number)
		}
		if one.tried <= one.failures {
			w.attempt(one.number, history.OutcomeTransient)
			one.due = w.now + w.h.Contract().Backoff.Wait(one.tried) + 5*ms
			return
		}
		op := w.start(one.number)
		takes := w.occupied(one)
		if w.calls {
			w.end(op, one.number, history.OutcomeSuccess)
		}
		if takes > 0 && w.number < w.records {
			w.hand() // it waits until the worker is free
		}
		if w.calls && takes > 0 {
			w.slowCall(ledger, one.number, history.OutcomeSuccess, 0, takes)
		} else if !w.calls {
			w.wait(takes).end(op, one.number, history.OutcomeSuccess)
		}
		w.open = slices.Delete(w.open, i, i+1)
		return
	}
	w.wait(ms)
}

// occupied returns how long a successful attempt takes.
func (w *traffic) occupied(one *pending) time.Duration {
	for _, other := range w.open {
		if w.long && other != one && one.tried == 1 && other.tried > 0 && other.due > w.now+10*ms {
			return other.due - w.now
		}
	}
	return 0
}

// run runs the whole consumer to an orderly end.
func (w *traffic) run(every int) history.Source {
	for step := 0; w.number < w.records || len(w.open) > 0; step++ {
		if w.number < w.records && step%every == 0 {
			w.hand()
		}
		w.work()
		if step > 1<<20 {
			panic("the traffic does not come to its end")
		}
	}
	return w.commitAll().drain().done()
}

func everything(int32, int32) bool { return true }

func sameOnly(failing, other int32) bool { return failing == other }

func isolationCases() []testCase {
	const records = 1600
	return []testCase{
		{"a record that backs off holds nobody up", nil, func(b *builder) history.Source {
			return newTraffic(b, records).run(6)
		}},
		{"a record that backs off holds everybody up", []string{"head-of-line-blocked"}, func(b *builder) history.Source {
			w := newTraffic(b, records)
			w.held = everything
			return w.run(6)
		}},
		{"a record that backs off holds up its partition", []string{"head-of-line-blocked"}, func(b *builder) history.Source {
			w := newTraffic(b, records)
			w.held = sameOnly
			return w.run(6)
		}},
		{"a record that backs off holds up its partition, as the order demands", nil, func(b *builder) history.Source {
			b.h.Contract().Ordering = history.OrderingPartition
			return newTraffic(b, records).run(6)
		}},
		{"it holds up the other partitions too, which the order does not demand", []string{"head-of-line-blocked"},
			func(b *builder) history.Source {
				b.h.Contract().Ordering = history.OrderingPartition
				w := newTraffic(b, records)
				w.held = everything
				return w.run(6)
			}},
		{"an attempt that takes as long holds everybody up", nil, func(b *builder) history.Source {
			w := newTraffic(b, records)
			w.long = true
			return w.atOnce().run(6)
		}},
		{"what waits was not fetched yet, for whatever reason", nil, func(b *builder) history.Source {
			w := newTraffic(b, records)
			w.held, w.late = everything, true
			return w.run(6)
		}},
		{"nothing of the kind is promised", nil, func(b *builder) history.Source {
			w := newTraffic(b, records)
			w.h.Contract().Isolation, w.held = 0, everything
			return w.run(6)
		}},
		{"everybody is held up while a fault is in force", nil, func(b *builder) history.Source {
			f := b.fault("kafka", "dlq", "Fetch delayed by 10ms")
			w := newTraffic(b, records)
			w.held = everything
			w.between = func(n int32) {
				if n == 40 {
					b.breaks(f)
				}
			}
			for range records {
				w.hand()
				w.work()
			}
			for len(w.open) > 0 {
				w.work()
			}
			return b.heals(f).commitAll().drain().done()
		}},
		{"everybody is held up, and each time the machine stood still", nil, func(b *builder) history.Source {
			w := newTraffic(b, records)
			w.held = everything
			source := w.run(6)
			return withStalls(source, b)
		}},
		{"everybody is held up, but too seldom to tell", nil, func(b *builder) history.Source {
			w := newTraffic(b, 150)
			w.held = everything
			return w.run(6)
		}},
		{"it is as slow without any backoff", nil, func(b *builder) history.Source { return batches(b) }},
	}
}

// withStalls notes a stall in every backoff.
func withStalls(source history.Source, b *builder) history.Source {
	ended, stalls := map[int32]time.Duration{}, []history.Event{}
	for _, e := range b.events {
		switch e.Kind {
		case history.KindAttemptEnd:
			ended[e.Record] = e.Time
		case history.KindAttemptStart:
			if at, known := ended[e.Record]; known {
				one := history.New(history.KindStall, e.Time)
				one.Aux = int64(e.Time-at) / 2
				stalls = append(stalls, one)
			}
		}
	}
	b.events = append(b.events, stalls...)
	slices.SortStableFunc(b.events, func(a, b history.Event) int { return int(a.Time - b.Time) })
	return history.FromEvents(source.Header(), b.events)
}

// batches is a consumer that processes its backlog twice a second, fails one record of it, and is otherwise fast.
func batches(b *builder) history.Source {
	b.h.Records, b.h.Contract().Isolation, b.h.Contract().StopGrace = 1600, 0.5, time.Second
	b.begin().ready().wait(4 * time.Second)
	const batch, early = 20, 3
	sent := int32(0)
	send := func(until int32) {
		for ; sent < min(until, 1600); sent++ {
			b.sendTo(sent, sent%4, sent)
		}
	}
	for first := int32(0); first < 1600; first += batch {
		failing := first + 10
		send(first + batch)
		b.wait(400 * ms)
		for n := first; n < first+batch; n++ {
			if n == failing && n > 100 {
				b.attempt(n, history.OutcomeTransient)
				continue
			}
			b.success(n)
		}
		// Some of the next batch arrive while it backs off, and wait for the next round as all do.
		send(first + batch + early)
		if failing > 100 {
			b.wait(80 * ms).success(failing)
		}
	}
	return b.commitAll().drain().done()
}

// TestIsolationIsMeasured checks the counts of backoffs.
func TestIsolationIsMeasured(t *testing.T) {
	for name, one := range map[string]struct {
		held   func(int32, int32) bool
		status Status
	}{
		"nobody is held up": {func(int32, int32) bool { return false }, Pass}, "everybody is": {everything, Fail},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTraffic(newBuilder(), 1600)
			w.held = one.held
			r := resultOf(t, judged(t, w.run(6)), "isolation")
			if r.Status != one.status || r.Judged < 100 || r.Judged > 200 {
				t.Fatalf("%s with %d backoffs judged and %v not, of 196: %s", r.Status, r.Judged, r.NotJudged, r.Why)
			}
			for _, a := range r.Anomalies {
				if a.Count < r.Judged*9/10 {
					t.Errorf("%d of %d backoffs held others up, where all did", a.Count, r.Judged)
				}
				for _, w := range a.Counterexamples {
					if marked := markedOf(w); !slices.Equal(marked, []string{"attempt-end", "attempt-start"}) {
						t.Errorf("marked are %v in %+v", marked, w)
					}
				}
			}
		})
	}
}

func markedOf(w Counterexample) []string {
	var marked []string
	for _, line := range w.Trace {
		if line.Marked {
			marked = append(marked, line.Kind)
		}
	}
	return marked
}

// TestTooLittleIsNotApplicableUnlessAskedFor checks that a run without the evidence may pass, unless its scenario
// requires the invariant.
func TestTooLittleIsNotApplicableUnlessAskedFor(t *testing.T) {
	for name, tell := range map[string]func(*builder) history.Source{
		"isolation": func(b *builder) history.Source {
			w := newTraffic(b, 150)
			w.held = everything
			return w.run(6)
		},
		"graceful-stop": func(b *builder) history.Source {
			b.begin().send(0).success(0).commit(1).drain().phase(history.PhaseAudit)
			return b.sealed()
		},
		"liveness": func(b *builder) history.Source { return b.begin().drain().done() },
	} {
		for want, invariants := range map[Status][]string{NotApplicable: nil, Inconclusive: {name}} {
			t.Run(fmt.Sprintf("%s %s", name, want), func(t *testing.T) {
				b := newBuilder()
				b.h.Expect.Invariants = invariants
				v := judged(t, tell(b))
				if r := resultOf(t, v, name); r.Status != want || r.Why == "" || len(r.Anomalies) > 0 {
					t.Errorf("it is %s (%q), want %s", r.Status, r.Why, want)
				}
			})
		}
	}
}

// TestHealthyRunsAreJudged checks that a correct run passes, and that the amount of evidence is stated.
func TestHealthyRunsAreJudged(t *testing.T) {
	v := judged(t, newTraffic(newBuilder(), 1600).run(6))
	for name, least := range map[string]int64{"isolation": 100, "liveness": 2, "graceful-stop": 1} {
		if r := resultOf(t, v, name); r.Status != Pass || r.Judged < least {
			t.Errorf("%s: %s with %d judged (%s)", name, r.Status, r.Judged, r.Why)
		}
	}
	if v.Verdict != Pass {
		t.Errorf("the verdict is %s: %s", v.Verdict, strings.Join(v.Reasons, "; "))
	}
}

// TestWireOnlySubjectsAreToldToStop checks that the stop and the lag are judged without the downstream stub.
func TestWireOnlySubjectsAreToldToStop(t *testing.T) {
	b := newBuilder()
	b.h.Contract().WireOnly, b.h.Contract().Isolation, b.h.Contract().StopGrace = true, 0.5, time.Second
	b.begin().send(0).commit(1).unread(1, 0, 0).drain().phase(history.PhaseAudit).signal("TERM").wait(time.Second).kill()
	v := judged(t, b.sealed())
	for name, want := range map[string]Status{"isolation": NotApplicable, "liveness": Fail, "graceful-stop": Fail} {
		if r := resultOf(t, v, name); r.Status != want {
			t.Errorf("%s: %s, want %s", name, r.Status, want)
		}
	}
}

// TestCommitsAloneShowNoEnd checks that of a subject whose calls are not seen, which commits whatever it does with the
// records, only those records are judged that are known to have ended.
func TestCommitsAloneShowNoEnd(t *testing.T) {
	for letters, want := range map[int32]struct {
		loss, commits Status
		judged, open  int64
	}{0: {Inconclusive, NotApplicable, 0, 4}, 1: {Pass, Pass, 1, 3}, 4: {Pass, Pass, 4, 0}} {
		b := newBuilder()
		v := judged(t, unwanted(b, 4, letters).done())
		if r := resultOf(t, v, "no-loss"); r.Status != want.loss || r.Judged != want.judged || r.Open != want.open {
			t.Errorf("%d dead letters: no-loss: %+v", letters, r)
		}
		if r := resultOf(t, v, "commit-after-outcome"); r.Status != want.commits {
			t.Errorf("%d dead letters: commit-after-outcome: %+v", letters, r)
		}
	}
}

// TestSharedWordsNameTheirInvariant checks that two invariants with a common anomaly name each use it for their own
// findings.
func TestSharedWordsNameTheirInvariant(t *testing.T) {
	stalled, lost, premature := "liveness stalled", "graceful-stop lost", "graceful-stop premature-dead-letter"
	paused, late := "liveness paused-partition", "graceful-stop stop-timeout"
	want := map[string]string{
		"what is in backoff is dropped at the stop": lost, "what is in backoff is dead-lettered at the stop": premature,
		"everything is finished, but not committed in the end":                             stalled,
		"it is committed only because it is told to stop":                                  stalled,
		"it ended by itself and nobody came back":                                          stalled,
		"a partition that it has is not read any more":                                     paused,
		"it does not ask for what it was handed before, and goes on with others":           paused,
		"it asks for it, and makes nothing of it":                                          stalled,
		"a partition is full while it is still worked at":                                  stalled,
		"a partition is full of dead letters of one record":                                stalled,
		"nobody has the partition":                                                         stalled,
		"its holder lost the partition in the drain, and the next one does not come to it": stalled,
		"it is still there when its grace is over":                                         late,
		"it ends by itself long after its grace":                                           late,
		"it ends long after its grace, and that is heard of late, too":                     late,
		"it is killed after its grace, and its end is heard of late":                       late,
		"it outlasts its grace, and was kept from running for a moment only":               late,
		"a fault is no excuse":                                                             late,
		"the group rebalances over and over":                                               "liveness rebalance-storm",
	}
	for _, one := range append(stopCases(), livenessCases()...) {
		var got []string
		for _, r := range judged(t, one.tell(newBuilder())).Invariants {
			for _, a := range r.Anomalies {
				if r.Name == "liveness" || r.Name == "graceful-stop" {
					got = append(got, r.Name+" "+a.Name)
				}
				for _, counterexample := range a.Counterexamples {
					if marked := markedOf(counterexample); r.Name == "graceful-stop" && len(marked) != 2 {
						t.Errorf("%s: %s marks %v, not two events", one.name, a.Name, marked)
					}
				}
			}
		}
		if found := strings.Join(got, ", "); found != want[one.name] {
			t.Errorf("%s: it is %q, want %q", one.name, found, want[one.name])
		}
	}
}

// TestStalledNamesWhatBlocks: record 0 is finished and not committed, record 1 is attempted and never finished, and the
// others wait for it.
func TestStalledNamesWhatBlocks(t *testing.T) {
	b := newBuilder()
	b.begin().asks(0, 1).send(0).success(0).send(1).fails(1, 2).unread(2, 0, 0).unread(3, 0, 0)
	verdict := judged(t, b.drain().done())
	for name, count := range map[string]int64{"no-loss": 3, "liveness": 1} {
		found := resultOf(t, verdict, name).Anomalies
		if len(found) != 1 || found[0].Name != "stalled" || found[0].Count != count ||
			found[0].Counterexamples[0].Record != 1 || found[0].Counterexamples[0].Offset != 1 {
			t.Errorf("%s finds %+v; record 1 is what blocks the others", name, found)
		}
	}
}

// TestStopNamesItsInstance: the finding about a dead letter at a stop is reported at the end, when other instances have
// written more.
func TestStopNamesItsInstance(t *testing.T) {
	b := newBuilder()
	b.begin().as(1, 0).up().assign(1).sendTo(0, 1, 0).sendTo(1, 0, 1).as(1, 0).fails(0, 2).signal("TERM").letter(0).exit(0)
	b.as(0, 0).fails(1, 3).letter(1).commitAll()
	result := resultOf(t, judged(t, b.drain().done()), "graceful-stop")
	if len(result.Anomalies) != 1 || !strings.HasSuffix(result.Anomalies[0].Counterexamples[0].Summary,
		"after instance 1 was told to stop") {
		t.Errorf("instance 1 was told to stop, and says %+v", result.Anomalies)
	}
}

// A process that is killed at the end of its grace may never have stopped: a stall of the machine excuses it, and leaves
// open whether it stops, also if another process did. Another process that did not is named.
func TestAStopThatIsKilledInAStallLeavesItOpen(t *testing.T) {
	stall := func(b *builder) { b.stall(1, 300*ms) }
	for name, one := range map[string]struct {
		first, second func(*builder)
		want          Status
	}{
		"both end":                       {nil, nil, Pass},
		"one is killed, and it stalled":  {nil, stall, Inconclusive},
		"both are killed, and one stood": {func(*builder) {}, stall, Fail},
	} {
		b := newBuilder()
		b.h.Contract().StopGrace = time.Second
		b.begin().as(1, 0).up().assign(1).as(0, 0).send(0).success(0).commit(1).drain().phase(history.PhaseAudit)
		for instance, kill := range []func(*builder){one.first, one.second} {
			if b.as(int16(instance), 0).signal("TERM"); kill == nil {
				b.exit(0)
				continue
			}
			b.wait(time.Second)
			kill(b)
			b.kill()
		}
		v := judged(t, b.sealed())
		r := resultOf(t, v, "graceful-stop")
		if r.Status != one.want {
			t.Errorf("%s: %s (%s), want %s", name, r.Status, r.Why, one.want)
		}
		if reasons := strings.Join(v.Reasons, "; "); one.want == Inconclusive && !strings.Contains(reasons,
			"1 stop of 2 ended by KILL only, while the machine stood still; run it again, with less other work") {
			t.Errorf("%s: %s", name, reasons)
		}
	}
}

// endlessCases are histories without a promised number of attempts that end before standing still is proven, and the
// record that is named as tried again and again, "" if none is.
func endlessCases() map[string]struct {
	tell  func(*builder)
	named string
} {
	tries := func(b *builder, record int32, attempts int) {
		for range attempts {
			b.wait(20*ms).attempt(record, history.OutcomeTransient)
		}
	}
	drains := func(b *builder) *builder { return b.phase(history.PhaseHeal).phase(history.PhaseDrain) }
	return map[string]struct {
		tell  func(*builder)
		named string
	}{
		"tried some times": {func(b *builder) { tries(drains(b), 1, 20) }, ""},
		"tried more often than a run waits for": {func(b *builder) { tries(drains(b), 1, 120) },
			"record 1 (in-0 offset 1) was tried 120 times"},
		"the most often of two": {func(b *builder) {
			drains(b.sendTo(2, 1, 1))
			tries(b, 1, 120)
			tries(b, 2, 125)
		}, "record 2 (in-1 offset 0) was tried 125 times"},
		"the name of the topic begins with that of the run": {func(b *builder) {
			b.h.Topics[input].Name = "run.in"
			tries(drains(b), 1, 120)
		}, "record 1 (in-0 offset 1) was tried 120 times"},
		"it succeeds at last": {func(b *builder) {
			tries(drains(b.sendTo(2, 1, 1)), 1, 120)
			b.success(1)
		}, ""},
		"not in the drain": {func(b *builder) {
			tries(b, 1, 120)
			drains(b)
		}, ""},
		"it is to be tried until it succeeds": {func(b *builder) {
			b.h.Contract().Unlimited = true
			tries(drains(b), 1, 120)
		}, "was tried 120 times and still was in the drain, and no attempt was the last"},
		"a number is promised": {func(b *builder) {
			b.h.Contract().MaxAttempts = 3
			tries(drains(b.sendTo(2, 1, 1)), 1, 120)
			b.attempt(2, history.OutcomeTransient)
		}, ""},
	}
}

// TestEndlessAttemptsWithoutAPromise checks that a record that is attempted endlessly breaks no promise if the contract
// names no number of attempts. The run proves nothing, and the reason names the record.
func TestEndlessAttemptsWithoutAPromise(t *testing.T) {
	for name, one := range endlessCases() {
		t.Run(name, func(t *testing.T) {
			b := newBuilder()
			b.h.Contract().MaxAttempts, b.h.Contract().Backoff.Initial = 0, 0
			b.begin().send(0).success(0).send(1)
			one.tell(b)
			verdict := judged(t, b.done())
			if promised := b.h.Contract().MaxAttempts > 0; promised != (verdict.Verdict == Fail) ||
				!promised && verdict.Verdict != Inconclusive {
				t.Errorf("%s, because %v", verdict.Verdict, verdict.Reasons)
			}
			for _, invariant := range []string{"no-loss", "liveness"} {
				why := resultOf(t, verdict, invariant).Why
				if why == "" || !strings.Contains(why, one.named) || one.named == "" && strings.Contains(why, "was tried") {
					t.Errorf("%s: %q; want %q", invariant, why, one.named)
				}
			}
		})
	}
}

// TestAStalledMachineProvesNoStandstill checks that the reason names the machine if it stood still for much of the
// drain.
func TestAStalledMachineProvesNoStandstill(t *testing.T) {
	b := newBuilder()
	b.begin().send(0).success(0).commit(1).send(1).fails(1, 1)
	verdict := judged(t, b.drain().stall(history.None, 600*ms).done())
	if why := resultOf(t, verdict, "no-loss").Why; !strings.Contains(why, "but the machine stood still for much of that") {
		t.Errorf("no-loss can't be judged: %q", why)
	}
}

// A partition of which only commits are missing is told from one with a record that was never finished.
func TestAStalledPartitionSaysWhatItWaitsFor(t *testing.T) {
	const finished = "although every record of it was finished"
	for _, c := range []struct {
		name string
		told bool
		tell func(*builder) history.Source
	}{
		{"nothing is committed", true, func(b *builder) history.Source {
			return b.send(0).success(0).send(1).success(1).drain().done()
		}},
		{"the last commit is missing", true, func(b *builder) history.Source {
			return b.send(0).success(0).commit(1).send(1).success(1).drain().done()
		}},
		{"the last commit comes at the stop", true, func(b *builder) history.Source {
			return b.send(0).success(0).drain().phase(history.PhaseAudit).signal("TERM").commit(1).exit(0).sealed()
		}},
		{"a retry never comes", false, func(b *builder) history.Source {
			return b.send(0).fails(0, 1).send(1).success(1).drain().done()
		}},
		{"a retry comes at the stop", false, func(b *builder) history.Source {
			return b.send(0).fails(0, 1).drain().phase(history.PhaseAudit).signal("TERM").success(0).commit(1).exit(0).sealed()
		}},
	} {
		v := judged(t, c.tell(newBuilder().begin()))
		found := resultOf(t, v, "liveness").Anomalies
		if len(found) != 1 || found[0].Name != "stalled" {
			t.Errorf("%s: not stalled\n%s", c.name, show(v))
			continue
		}
		summary := found[0].Counterexamples[0].Summary
		cause := Explain("stalled")[1].LikelyCause(summary)
		if strings.Contains(summary, finished) != c.told || strings.HasPrefix(cause, "Every record of it was fin") != c.told ||
			strings.Contains(cause, "auto-commit") != c.told {
			t.Errorf("%s: %q, because: %s", c.name, summary, cause)
		}
	}
}

// A record that a process left out because it began to read behind it is explained by auto.offset.reset, and no other
// is.
func TestWhatTheResetLeavesOut(t *testing.T) {
	const told = "auto.offset.reset"
	for _, c := range []struct {
		name, invariant, anomaly, want string
		tell                           func(*builder)
	}{
		{"it was handed nothing", "no-loss", "stalled", "offset of in-0 and was handed nothing", func(b *builder) {
			b.begin().unread(0, 0, 0)
		}},
		{"the same, of the partition", "liveness", "stalled", told, func(b *builder) {
			b.begin().asks(0, 1).asks(0, 0).wait(100*ms).asks(0, 1).unread(0, 0, 0).unread(1, 1, 1)
		}},
		{"it began behind", "no-loss", "lost", "of in-0, which was read from offset 1 on", func(b *builder) {
			b.begin().unread(0, 0, 0).send(1).success(1).commit(2)
		}},
		{"the next process began behind", "commit-after-outcome", "commit-past-unfinished", told, func(b *builder) {
			b.begin().send(0).fails(0, 1).kill().as(0, 1).up().assign(0, 1, 2, 3).send(1).success(1).commit(2)
		}},
		{"what nobody has fetched is committed", "no-loss", "lost", told, func(b *builder) {
			b.begin().unread(0, 0, 0).commit(1)
		}},
		{"it waits for a retry that never comes", "no-loss", "stalled", "", func(b *builder) {
			b.begin().send(0).fails(0, 1)
		}},
		{"it waits for a retry in another partition", "no-loss", "stalled", "", func(b *builder) {
			b.begin().unread(0, 0, 0).sendTo(1, 1, 1).fails(1, 1)
		}},
		{"the next process found a commit", "no-loss", "stalled", "", func(b *builder) {
			b.begin().send(0).success(0).commit(1).revoke(0).assign(0).unread(1, 0, 0)
		}},
		{"it gave the partition away, and the next process failed", "no-loss", "lost", "", func(b *builder) {
			b.begin().commit(0).revoke(0).as(1, 1).up().assign(0).send(0).fails(0, 1).send(1).success(1).commit(2)
		}},
		{"it gave the partition away at its end", "no-loss", "lost", told, func(b *builder) {
			b.begin().unread(0, 0, 0).commit(1).revoke(0).as(1, 1).up().assign(0).send(1).success(1).commit(2)
		}},
		{"another has it only at the end", "no-loss", "stalled", "", func(b *builder) {
			b.begin().send(0).fails(0, 1).as(1, 1).up().as(0, 0).drain().phase(history.PhaseAudit).revoke(0).as(1, 1).assign(0)
		}},
	} {
		b := newBuilder()
		c.tell(b)
		if b.events[len(b.events)-1].Kind != history.KindAssigned {
			b.drain()
		}
		v := judged(t, b.done())
		at := slices.IndexFunc(resultOf(t, v, c.invariant).Anomalies, func(a Anomaly) bool { return a.Name == c.anomaly })
		if at < 0 {
			t.Errorf("%s: not %s\n%s", c.name, c.anomaly, show(v))
			continue
		}
		summary := resultOf(t, v, c.invariant).Anomalies[at].Counterexamples[0].Summary
		if !strings.Contains(summary, c.want) || c.want == "" && strings.Contains(summary, told) {
			t.Errorf("%s: %q, want %q", c.name, summary, c.want)
		}
	}
}
