package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	faultbroker "github.com/dlqbench/dlqbench/faults/broker"
	"github.com/dlqbench/dlqbench/faults/network"
	faultregistry "github.com/dlqbench/dlqbench/faults/registry"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/workload"
)

const (
	// flushLimit bounds the wait for the last acknowledgements after the load has ended.
	flushLimit = 30 * time.Second
	// teardownLimit bounds the time for ending everything that the run started.
	teardownLimit = 30 * time.Second
	// watchEvery is the update interval of the live view.
	watchEvery = 200 * time.Millisecond
)

// startLoad sends the plan's records, open loop, with times counted from base. The channel gets one value when all
// records are acknowledged or given up. Records that are neither in time are left to the judging, which demands a
// share of acknowledged records.
//
// Until broken is closed, the plan's spare records are sent after the others, so that the load lasts until the last
// fault has ended.
func (r *run) startLoad(ctx context.Context, base time.Duration, broken <-chan struct{}) <-chan error {
	done := make(chan error, 1)
	go func() {
		endMarkers := r.startMarkers(ctx)
		err := r.options.Manual.load(ctx, func(loading context.Context) error {
			return r.producer.Run(loading, base)
		}, r.clock)
		if err == nil {
			extending, cancel := until(ctx, broken)
			r.producer.Extend(extending, r.behind)
			cancel()
		}
		err = errors.Join(err, endMarkers())
		flushing, cancel := context.WithTimeout(ctx, flushLimit)
		defer cancel()
		if late := r.producer.Flush(flushing); late != nil && ctx.Err() == nil {
			r.options.Log.Warn().Err(late).Msg("the brokers could not keep up with the load")
		}
		if ctx.Err() != nil {
			err = nil // interrupted: the records sent so far are judged
		}
		done <- environment("driving the load", err)
	}()
	return done
}

// startMarkers writes transaction markers to the input until the function that it returns is called. That one returns
// an error if there should have been some, and none could be written.
func (r *run) startMarkers(ctx context.Context) (end func() error) {
	every := r.scenario.Workload.TransactionMarkers.D()
	if every == 0 {
		return func() error { return nil }
	}
	markers := workload.Markers{Client: r.cluster.client, Topics: map[string]int{}, Every: every,
		ID: r.header.RunID + ".markers"}
	for _, index := range r.inputs() {
		topic := r.header.Topics[index]
		markers.Topics[topic.Name] = topic.Partitions
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- markers.Run(ctx) }()
	return func() error { cancel(); return <-ended }
}

// behindShare sets when a subject is behind: when a quarter of the planned records is neither finished nor
// committed.
const behindShare = 4

// behind reports whether the subject has fallen so far behind that more load would only be in the way. It is not
// behind with records that a commit covers, or that are finished and not committed yet.
func (r *run) behind() bool {
	now, much := r.live.figures(), int64(r.plan.Due()/behindShare)
	return now.lag > much && now.Sent-(now.Processed-now.Duplicates)-now.DeadLetters > much
}

const (
	// meetingLeast is longer than a session of 45 s, the default of most clients, and the rebalance after it.
	meetingLeast = 75 * time.Second
	// meetingCommits is the interval between commits that meetingLeast has time for, the longest default of a client.
	meetingCommits = 30 * time.Second
	// meetingMost ends the wait for a subject that moves but stays behind.
	meetingMost = drainCap
	// idleAfter is how long a subject that has caught up may stay idle before faults stop waiting for it.
	idleAfter = 2 * time.Second
)

// meetingLimit bounds how long after the steady phase faults wait for an event that they can affect. A subject whose
// lanes all wait for retries may send no request until the retries are over, and each fault waits for those before
// it. A subject that commits more rarely than others, such as a task of Kafka Connect, may send no commit for as long
// as its contract says.
func meetingLimit(contract history.Contract, planned int) time.Duration {
	rarely := max(0, contract.CommitInterval-meetingCommits)
	return meetingLeast + time.Duration(planned)*(seriesOf(contract)+rarely)
}

// closing returns a channel that is closed when faults need not wait any longer: all records are sent and the
// subject has caught up with them, none of it is left, or the limit is reached. While the subject is behind and still
// moves, the limit is extended, because a subject that works off its prefetched records sends no requests meanwhile. If
// it stands still as it lacks topics, nothing more will meet a fault.
// The second result ends the watching.
func (r *run) closing(ctx context.Context, steady time.Duration) (<-chan struct{}, func()) {
	if r.options.Manual != nil {
		return nil, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	closed := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		defer close(closed)
		over := steady + r.plan.Steady
		meeting, watch := meetingLimit(*r.header.Contract(), len(r.plan.Faults)), newQuiet(r.clock)
		limit := over + meeting
		if !faults.SleepUntil(ctx, r.clock, over) {
			return
		}
		for busy := r.clock.Now(); r.clock.Now() < limit && r.clock.Now()-busy < idleAfter && !r.deserted(); {
			if sent, _, _, _ := r.producer.Counts(); int(sent) < len(r.plan.Records) || r.live.triggers.lag() > 0 {
				busy = r.clock.Now()
			}
			now := r.live.figures()
			still := watch.still(r.live, now)
			if still > r.lackingAfter() && r.lacksTopics(now) {
				return
			}
			if r.behind() && still <= r.explained() {
				limit = max(limit, min(r.clock.Now()+meeting, over+meetingMost))
			}
			if !faults.SleepUntil(ctx, r.clock, r.clock.Now()+drainPoll) {
				return
			}
		}
	})
	return closed, func() { cancel(); group.Wait() }
}

// settleLoad records how many of the spare records were sent. The others were never part of the run.
func (r *run) settleLoad() error {
	if r.plan.Spare == 0 {
		return nil
	}
	sent, _, _, _ := r.producer.Counts()
	header := r.header
	header.Records = max(int(sent), r.plan.Due())
	return environment("recording how long the load lasted", r.recorder.Amend(header))
}

// nemesis creates the nemesis, which carries out the plan's faults with an injector for each kind.
func (r *run) nemesis() *faults.Nemesis {
	return &faults.Nemesis{
		Injectors: map[string]faults.Injector{
			"network":    network.NewInjector(r.links),
			"kafka":      r.rules,
			"broker":     faultbroker.NewInjector(r.cluster.breaker, r.header.Group()),
			"subject":    r.processes(),
			"downstream": r.modules(),
			"store":      r.storeFaults(),
			"registry":   r.registryFaults(),
		},
		Sink: r.live, Clock: r.clock, Triggers: &r.live.triggers, Steady: r.plan.Steady,
		Observe: func(planned faults.Planned, active bool) {
			if active {
				r.enterOnce(history.PhaseFault)
			}
			r.live.fault(planned, active, r.clock.Now())
		},
	}
}

// registryFaults returns the injector of faults of the schema registry.
func (r *run) registryFaults() *faultregistry.Injector {
	if r.registry == nil {
		return &faultregistry.Injector{}
	}
	return &faultregistry.Injector{Service: r.registry}
}

// enter records the beginning of a phase.
func (r *run) enter(phase string) {
	r.sampleProcessor()
	r.phase.Store(&phase)
	event := history.New(history.KindPhase, r.clock.Now())
	event.Text = phase
	r.live.Record(event)
	r.options.Log.Debug().Str("phase", phase).Msg("phase begins")
}

// enterOnce enters the phase unless it is the current one: several faults may begin at once.
func (r *run) enterOnce(phase string) {
	for {
		current := r.phase.Load()
		if current != nil && *current == phase {
			return
		}
		if r.phase.CompareAndSwap(current, &phase) {
			r.enter(phase)
			return
		}
	}
}

// seal ends the history; nothing changes it afterwards. The history of a failed run is not sealed: it can prove a
// violation, but never its absence. The history of an interrupted run is sealed, without the phase that ends a
// complete run. seal returns the run's failure, or its own.
func (r *run) seal(ctx context.Context, failure error) error {
	disturbed := r.disturbed.Load()
	if disturbed != nil {
		failure = environment("running the consumer in its pods", *disturbed) // everything else follows from it
	}
	if failure != nil {
		if r.recorder.Err() == nil && (ctx.Err() == nil || disturbed != nil) {
			failure = errors.Join(failure, r.recorder.Fail(r.reason(failure), disturbed != nil))
		}
		if err := r.recorder.Close(); !errors.Is(failure, err) {
			failure = errors.Join(failure, environment("recording what happened", err))
		}
		return failure
	}
	if ctx.Err() == nil {
		r.enter(history.PhaseSeal)
	}
	return environment("sealing the history", r.recorder.Seal())
}

// reason is a failure as the header of a history has it.
func (r *run) reason(failure error) string {
	return string(r.withoutSecrets([]byte(strings.ReplaceAll(failure.Error(), "\n", "; "))))
}

// besidesInterruption returns the error of a run that the user ended early, unless the error only reports that end.
func (r *run) besidesInterruption(err error) error {
	if errors.Is(err, context.Canceled) {
		r.options.Log.Debug().Err(err).Msg("the interruption cut this short")
		return nil
	}
	return err
}

// graced returns a context that outlives the end of ctx by a few seconds. It is for work that must be done even if
// the user interrupts before or during it.
func graced(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	own, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), limit, fmt.Errorf("it took longer than %v", limit))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(interruptedLimit, cancel) })
	return own, func() { stop(); cancel() }
}

// until returns a context that also ends when done is closed. If it is closed already, so is the context.
func until(ctx context.Context, done <-chan struct{}) (context.Context, context.CancelFunc) {
	bounded, cancel := context.WithCancel(ctx)
	select {
	case <-done:
		cancel()
	default:
	}
	var group sync.WaitGroup
	group.Go(func() {
		select {
		case <-done:
			cancel()
		case <-bounded.Done():
		}
	})
	return bounded, func() { cancel(); group.Wait() }
}

// interruptedLimit bounds stopping the subject, and auditing, after the user interrupted.
const interruptedLimit = 4 * time.Second

// intended returns the planned send time of a record; false before the load begins.
func (r *run) intended(record int32) (time.Duration, bool) {
	began := r.loadedAt.Load()
	if began == nil {
		return 0, false
	}
	at := *began + r.plan.Records[record].At
	if int(record) >= r.plan.Due() {
		at += r.producer.PutOff(record)
	}
	return at, true
}
