package run

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/reports"
)

// shown is a run in which only the parts that the live view shows are real. Records are sent every millisecond.
type shown struct {
	*run
	t    *testing.T
	seen sightings
}

func newShown(t *testing.T) *shown {
	header := history.Header{Consumers: []history.Consumer{{Instances: 3}},
		RunID: "run-1", Scenario: "smoke", Subject: "reference", Seed: 1<<63 + 1, Instances: 3, Records: 10_000,
		Started: time.Unix(1000, 0), Expect: history.Expect{MaxSlip: time.Second},
		Topics: []history.Topic{{Name: "in", Role: history.RoleInput, Partitions: 2},
			{Name: "dlq", Role: history.RoleDLQ, Partitions: 1}},
	}
	r := &run{header: header, clock: history.NewClock(), plan: &plan.Plan{WarmUp: time.Second, Steady: time.Minute}}
	for i := range header.Records {
		r.plan.Records = append(r.plan.Records, plan.Record{At: time.Duration(i) * time.Millisecond})
	}
	r.live = newLive(discard{}, &r.header)
	r.live.intended = r.intended
	return &shown{run: r, t: t}
}

// tell records an event of instance 0 about a record in partition 0.
func (s *shown) tell(kind history.Kind, record int32, change func(*history.Event)) {
	e := history.New(kind, s.clock.Now())
	e.Instance, e.Record, e.Topic, e.Partition, e.Offset, e.N, e.Code = 0, record, 0, 0, int64(record), 1, 0
	if change != nil {
		change(&e)
	}
	s.live.Record(e)
}

// goOn lets time pass as the watching does, and returns the final snapshot.
func (s *shown) goOn(passes time.Duration) reports.Snapshot {
	last := s.snapshot(&s.seen)
	for end := s.clock.Now() + passes; s.clock.Now() < end; last = s.snapshot(&s.seen) {
		time.Sleep(watchEvery)
	}
	return last
}

func success(e *history.Event) { e.Outcome = history.OutcomeSuccess }

func failing(e *history.Event) { e.Outcome = history.OutcomeTransient }

// The live view shows the time of the load, not of the run. Before the load, the duration of the run is not known.
func TestSnapshotTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShown(t)
		if got := s.snapshot(&s.seen); got.Total != 0 || got.Elapsed != 0 {
			t.Errorf("at once it is %v of %v", got.Elapsed, got.Total)
		}
		time.Sleep(4 * time.Second)
		if got := s.snapshot(&s.seen); got.Total != 0 || got.Elapsed != 4*time.Second {
			t.Errorf("before the load it is %v of %v", got.Elapsed, got.Total)
		}
		loadedAt := s.clock.Now()
		s.loadedAt.Store(&loadedAt)
		time.Sleep(7 * time.Second)
		got := s.snapshot(&s.seen)
		if got.Total != 61*time.Second || got.Elapsed != 7*time.Second || got.Now != 11*time.Second {
			t.Errorf("in the load it is %v of %v at %v", got.Elapsed, got.Total, got.Now)
		}
		if got.RunID != "run-1" || got.Scenario != "smoke" || got.Seed != 1<<63+1 ||
			got.Subject != "reference" || !got.Started.Equal(time.Unix(1000, 0)) {
			t.Errorf("the run is %+v", got)
		}
	})
}

// Totals cover the time since the run began, rates the last second, latencies the last five seconds.
func TestSnapshotFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShown(t)
		s.loadedAt.Store(new(time.Duration))
		record := int32(0)
		second := func(count int) reports.Snapshot {
			for range 5 {
				time.Sleep(watchEvery)
				for range count / 5 {
					s.tell(history.KindSend, record, func(e *history.Event) { e.Aux = int64(e.Time) })
					s.tell(history.KindAcked, record, nil)
					s.tell(history.KindAttemptStart, record, func(e *history.Event) {
						e.Time = time.Duration(record)*time.Millisecond + 20*time.Millisecond
					})
					s.tell(history.KindAttemptEnd, record, func(e *history.Event) {
						e.Outcome, e.Time = history.OutcomeSuccess, time.Duration(record)*time.Millisecond+70*time.Millisecond
					})
					record++
				}
				s.snapshot(&s.seen)
			}
			return s.snapshot(&s.seen)
		}
		second(50)
		got := second(100)
		if got.SentRate != 100 || got.ProcessedRate != 100 || got.AttemptRate != 100 || got.DeadLetterRate != 0 {
			t.Errorf("the rates are %v, %v, %v, %v", got.SentRate, got.ProcessedRate, got.AttemptRate, got.DeadLetterRate)
		}
		want := reports.Totals{Sent: 150, Acknowledged: 150, Processed: 150, Attempts: 150}
		if got.Totals != want || got.Lag != 150 {
			t.Errorf("the totals are %+v with a lag of %d", got.Totals, got.Lag)
		}
		latency := func(got, want time.Duration) bool { return got >= want && got <= want+want/20 }
		if l := got.Latency; l.Success.Count != 150 || !latency(l.Success.P50, 70*time.Millisecond) ||
			l.Success.Max != 70*time.Millisecond ||
			!latency(l.FirstAttempt.P99, 20*time.Millisecond) || l.Window != 2*time.Second {
			t.Errorf("the latencies are %+v", l)
		}
		got = s.goOn(6 * time.Second)
		if got.SentRate != 0 || got.Latency.Success.Count != 0 || got.Latency.Success.Max != 0 ||
			got.Latency.Success.P99 != 0 || got.Latency.Window != 5*time.Second {
			t.Errorf("6 s later it is still %v/s and %+v", got.SentRate, got.Latency)
		}
		if b := got.Latency.Success.SinceBegin; b.Count != 150 || b.Sum != 150*70*time.Millisecond {
			t.Errorf("the histogram since the beginning has %d in %v", b.Count, b.Sum)
		}
	})
}

// A failed record is in flight until it succeeds or is dead-lettered. A record that succeeds again counts as a
// duplicate, once.
func TestSnapshotRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShown(t)
		letter := func(code int16) func(*history.Event) {
			return func(e *history.Event) { e.Topic, e.Code = 1, code }
		}
		want := func(step string, retrying, duplicates, letters int64) {
			t.Helper()
			got := s.live.figures()
			if got.retrying != retrying || got.Duplicates != duplicates || got.DeadLetters != letters {
				t.Errorf("%s: %d in flight, %d duplicates, %d dead letters", step, got.retrying, got.Duplicates, got.DeadLetters)
			}
		}
		s.tell(history.KindAttemptEnd, 1, failing)
		s.tell(history.KindAttemptEnd, 1, failing)
		s.tell(history.KindAttemptEnd, 2, failing)
		s.tell(history.KindAttemptEnd, 8, failing) // shares a word with 1 and 2
		want("three failed", 3, 0, 0)
		s.tell(history.KindAttemptEnd, 1, success)
		want("one succeeded", 2, 0, 0)
		s.tell(history.KindProduceResponse, 2, letter(19))
		want("a dead letter was refused", 2, 0, 0)
		s.tell(history.KindProduceResponse, 2, letter(0))
		want("a dead letter was taken", 1, 0, 1)
		for range 3 {
			s.tell(history.KindAttemptEnd, 1, success)
		}
		want("it succeeded four times", 1, 1, 1)
		s.tell(history.KindAttemptEnd, history.None, failing)
		want("something unknown failed", 2, 1, 1)
		s.tell(history.KindProduceResponse, history.None, letter(0))
		want("and was dead-lettered", 1, 1, 2)
	})
}

// Lag and owners, by partition. A commit that a fault forged never reached the broker.
func TestSnapshotPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShown(t)
		for record := range int32(10) {
			s.tell(history.KindAcked, record, func(e *history.Event) { e.Partition, e.Offset = record%2, int64(record/2) })
		}
		own := func(kind history.Kind, instance int16, partition int32, generation int32) {
			s.tell(kind, history.None, func(e *history.Event) { e.Instance, e.Partition, e.N = instance, partition, generation })
		}
		commit := func(partition int32, offset int64, flags history.Flags) {
			s.tell(history.KindCommitResponse, history.None, func(e *history.Event) {
				e.Partition, e.Offset, e.Flags = partition, offset, flags
			})
		}
		s.tell(history.KindInstanceStarting, history.None, nil)
		s.tell(history.KindInstanceStarting, history.None, func(e *history.Event) { e.Instance = 1 })
		own(history.KindAssigned, 0, 0, 3)
		own(history.KindAssigned, 0, 1, 3)
		commit(0, 4, 0)
		commit(0, 2, 0) // goes back: a record that was committed once stays settled
		commit(1, 5, history.Forged)
		time.Sleep(time.Second)
		got := s.snapshot(&s.seen)
		want := []reports.PartitionState{{Topic: "in", Partition: 0, End: 5, Committed: 4, Lag: 1},
			{Topic: "in", Partition: 1, End: 5, Lag: 5}}
		if !slices.Equal(got.Partitions, want) || got.Lag != 6 || got.Rebalances != 0 {
			t.Errorf("the partitions are %+v, with a lag of %d, after %d rebalances", got.Partitions, got.Lag, got.Rebalances)
		}
		own(history.KindAssigned, 1, 1, 4)
		own(history.KindRevoked, 0, 1, 4) // arrives after the other one owns it
		s.tell(history.KindInstanceExited, history.None, nil)
		got = s.snapshot(&s.seen)
		if got.Partitions[0].Instance != history.None || got.Partitions[1].Instance != 1 || got.Rebalances != 1 {
			t.Errorf("the partitions are %+v after %d rebalances", got.Partitions, got.Rebalances)
		}
	})
}

// The view of processes: what they are, since when, and the events shown about them.
func TestSnapshotInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShown(t)
		about := func(kind history.Kind, instance int16, run uint16, change func(*history.Event)) {
			time.Sleep(time.Second)
			s.tell(kind, history.None, func(e *history.Event) {
				e.Instance, e.Run = instance, run
				if change != nil {
					change(e)
				}
			})
		}
		signal := func(name string) func(*history.Event) { return func(e *history.Event) { e.Text = name } }
		state := func(instance int, status reports.InstanceStatus, since time.Duration) {
			t.Helper()
			got := s.snapshot(&s.seen).Instances[instance]
			if got.Status != status || got.Since != since*time.Second {
				t.Errorf("%s is %s since %v, want %s since %v s", got.Name, got.Status, got.Since, status, int64(since))
			}
		}
		if got := s.snapshot(&s.seen).Instances; len(got) != 0 {
			t.Errorf("before anything started there are %+v", got)
		}
		about(history.KindInstanceStarting, 0, 0, nil)
		state(0, reports.InstanceStarting, 1)
		about(history.KindInstanceReady, 0, 0, nil)
		state(0, reports.InstanceRunning, 2)
		about(history.KindInstanceSignal, 0, 0, signal("STOP"))
		state(0, reports.InstancePaused, 3)
		about(history.KindInstanceSignal, 0, 0, signal("CONT"))
		state(0, reports.InstanceRunning, 2)
		about(history.KindInstanceSignal, 0, 0, signal("KILL"))
		state(0, reports.InstanceRunning, 2)
		about(history.KindInstanceExited, 0, 0, func(e *history.Event) {
			e.Code, e.Text, e.Flags = -1, "KILL", history.Expected
		})
		state(0, reports.InstanceKilled, 6)
		about(history.KindInstanceStarting, 0, 1, nil)
		about(history.KindInstanceExited, 0, 0, nil) // of the first process: too late to be shown
		state(0, reports.InstanceStarting, 7)
		about(history.KindInstanceSignal, 0, 1, signal("TERM"))
		state(0, reports.InstanceStopping, 9)
		about(history.KindInstanceExited, 0, 1, func(e *history.Event) { e.Flags = history.Expected })
		state(0, reports.InstanceStopped, 10)
		about(history.KindInstanceStarting, history.Worker(1), 0, nil)
		about(history.KindInstanceStarting, history.Router(0), 0, nil)
		about(history.KindInstanceStarting, 2, 0, nil)
		about(history.KindInstanceExited, 2, 0, func(e *history.Event) { e.Code = 3 })
		state(1, reports.InstanceCrashed, 14)
		about(history.KindSubjectError, 2, 0, signal("it hurts"))
		s.snapshot(&s.seen)
		time.Sleep(time.Second)
		for range 50 {
			s.tell(history.KindFetched, history.None, func(e *history.Event) { e.Instance, e.Offset, e.Aux = 2, 10, 12 })
			s.tell(history.KindAttemptEnd, 1, func(e *history.Event) { e.Instance = 2 })
			s.tell(history.KindAttemptEnd, 1, func(e *history.Event) { e.Instance = history.Worker(1) })
		}
		got := s.snapshot(&s.seen)
		var names []string
		for _, one := range got.Instances {
			names = append(names, one.Name)
		}
		if !slices.Equal(names, []string{"instance 0", "instance 2", "router 0", "worker 1"}) {
			t.Fatalf("there are %v", names)
		}
		if one := got.Instances[1]; one.Errors != 1 || one.LastError != "it hurts" || one.FetchRate != 150 ||
			one.AttemptRate != 50 || one.Attempts != 50 {
			t.Errorf("instance 2 is %+v", one)
		}
		if one := got.Instances[3]; one.Attempts != 50 || got.Totals.Attempts != 50 {
			t.Errorf("a worker's attempts are the store's: %+v, %+v", one, got.Totals)
		}
		var log []string
		for _, e := range got.Events {
			log = append(log, fmt.Sprintf("%s: %s", e.Kind, e.Text))
		}
		want := `instance: instance 0 starts
instance: instance 0 is ready
fault: instance 0 was sent STOP
fault: instance 0 was sent CONT
fault: instance 0 was sent KILL
instance: instance 0 ended: signal KILL
instance: instance 0 starts again
fault: instance 0 was sent TERM
instance: instance 0 ended: exit code 0
instance: worker 1 starts
instance: router 0 starts
instance: instance 2 starts
instance: instance 2 ended: exit code 3`
		if strings.Join(log, "\n") != want {
			t.Errorf("the log is\n%s", strings.Join(log, "\n"))
		}
	})
}

// Faults in force, with their effects, and the store.
func TestSnapshotFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShown(t)
		s.live.store = &reports.StoreFigures{ByState: map[history.StoreState]int64{}}
		fault := func(index int, name string) faults.Planned {
			return faults.Planned{Index: index, PlannedFault: history.PlannedFault{Name: name, Kind: "kafka",
				What: "breaks " + name, For: time.Minute}}
		}
		s.live.fault(fault(4, "one"), true, time.Second)
		s.live.fault(fault(5, "one"), true, 2*time.Second) // of the same name: manual faults may share one
		s.tell(history.KindFaultEffect, history.None, func(e *history.Event) { e.Op, e.N = 5, 7 })
		s.tell(history.KindFaultEffect, history.None, func(e *history.Event) { e.Op, e.N = 6, 9 })
		s.live.fault(fault(4, "one"), false, 3*time.Second)
		for _, change := range []history.StoreChange{{From: history.StoreAbsent, To: history.StorePending},
			{From: history.StoreAbsent, To: history.StorePending}, {From: history.StorePending, To: history.StoreResolved}} {
			s.tell(history.KindStoreChange, 1, func(e *history.Event) { e.Text = change.String() })
		}
		s.tell(history.KindStoreChange, 1, func(e *history.Event) { e.Text = "gibberish" })
		got := s.snapshot(&s.seen)
		want := reports.FaultState{Name: "one", Kind: "kafka", What: "breaks one", Since: 2 * time.Second, For: time.Minute,
			Effects: 7}
		if len(got.ActiveFaults) != 1 || got.ActiveFaults[0] != want {
			t.Errorf("the faults in force are %+v", got.ActiveFaults)
		}
		if got.Store.Changes != 3 || got.Store.ByState[history.StorePending] != 1 ||
			got.Store.ByState[history.StoreResolved] != 1 {
			t.Errorf("the store is %+v", got.Store)
		}
	})
}

// The log is bounded, and numbered so that a reader who has seen part of it can continue.
func TestEventLog(t *testing.T) {
	log := &eventLog{}
	for i := range 3 * reports.MaxLiveEvents {
		log.add(time.Duration(i), reports.EventPhase, "")
	}
	events := log.newest()
	if len(events) != reports.MaxLiveEvents || events[0].Sequence != 2*reports.MaxLiveEvents+1 ||
		events[len(events)-1].Sequence != 3*reports.MaxLiveEvents {
		t.Errorf("%d events from %d on", len(events), events[0].Sequence)
	}
}

// Every latency is below the bound of its counter and not below the previous bound, and no bound is more than 5 %
// too high.
func TestLatencySteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		latency := time.Duration(rapid.Int64Range(0, int64(1000*time.Second)-1).Draw(t, "latency"))
		step := stepOf(latency)
		bound := boundOf(step)
		if latency >= bound {
			t.Fatalf("%v is counted below %v", latency, bound)
		}
		if step > 0 && (latency < boundOf(step-1) || bound > latency+latency/20+1) {
			t.Fatalf("%v is counted from %v to %v", latency, boundOf(step-1), bound)
		}
	})
	if last := stepOf(time.Hour); last != decades*stepsPerDecade {
		t.Errorf("an hour is counted at %d", last)
	}
}

// The quantiles equal those of a sorted list to within 5 %, and the cumulative histogram agrees with them.
func TestLatencyQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		millis := rapid.SliceOfN(rapid.Int64Range(0, 200_000), 1, 300).Draw(t, "latencies")
		counted := &latencies{}
		for _, one := range millis {
			counted.record(time.Duration(one) * time.Millisecond)
		}
		var before, now latencyCounts
		counted.read(&now)
		got := now.since(&before, now.largest)
		slices.Sort(millis)
		for q, found := range map[int]time.Duration{50: got.P50, 99: got.P99} {
			want := time.Duration(millis[(len(millis)*q+99)/100-1]) * time.Millisecond
			if found < want || found > want+want/20+finest {
				t.Fatalf("p%d is %v, want %v", q, found, want)
			}
		}
		if got.Max != time.Duration(millis[len(millis)-1])*time.Millisecond || got.Count != int64(len(millis)) {
			t.Fatalf("max %v of %d", got.Max, got.Count)
		}
		for i, bound := range got.SinceBegin.Bounds {
			below, _ := slices.BinarySearch(millis, bound.Milliseconds()+min(1, int64(bound%time.Millisecond)))
			if got.SinceBegin.Below[i] != uint64(below) {
				t.Fatalf("%d are below %v, want %d", got.SinceBegin.Below[i], bound, below)
			}
		}
	})
}

// The live view adds almost no cost per event.
func BenchmarkRecord(b *testing.B) {
	header := &history.Header{Consumers: []history.Consumer{{Instances: 1}},
		Instances: 1, Records: 1 << 20, Topics: []history.Topic{{Name: "in", Role: history.RoleInput, Partitions: 6},
			{Name: "dlq", Role: history.RoleDLQ, Partitions: 1}},
	}
	kinds := []history.Kind{
		history.KindSend, history.KindAcked, history.KindAttemptStart, history.KindAttemptEnd, history.KindCommitRequest,
		history.KindCommitResponse,
	}
	for _, counted := range []bool{false, true} {
		b.Run(map[bool]string{false: "not-counted", true: "counted"}[counted], func(b *testing.B) {
			var sink history.Sink = discard{}
			if counted {
				l := newLive(discard{}, header)
				l.intended = func(int32) (time.Duration, bool) { return 0, true }
				sink = l
			}
			b.ReportAllocs()
			for i := range b.N {
				record := i / len(kinds) % header.Records
				e := history.New(kinds[i%len(kinds)], time.Duration(i))
				e.Instance, e.Record, e.Topic, e.Partition, e.Offset, e.N, e.Code, e.Outcome = 0, int32(record), 0, int32(record%6),
					int64(record/6), 1, 0, history.OutcomeSuccess
				sink.Record(e)
			}
		})
	}
}

// A snapshot is made five times a second.
func BenchmarkSnapshot(b *testing.B) {
	header := history.Header{Consumers: []history.Consumer{{Instances: 4}},
		Instances: 4, Records: 1 << 16, Topics: []history.Topic{{Name: "in", Role: history.RoleInput, Partitions: 12},
			{Name: "dlq", Role: history.RoleDLQ, Partitions: 1}},
	}
	r := &run{header: header, clock: history.NewClock(), plan: &plan.Plan{}, live: newLive(discard{}, &header)}
	var seen sightings
	b.ReportAllocs()
	for range b.N {
		r.snapshot(&seen)
	}
}
