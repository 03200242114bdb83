package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	faultbroker "github.com/dlqbench/dlqbench/faults/broker"
	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/history"
)

const (
	// flushLimit bounds the wait for the last acknowledgements after the load has ended.
	flushLimit = 30 * time.Second
	// teardownLimit bounds ending what the run started.
	teardownLimit = 30 * time.Second
	// watchEvery is how often the live view is told.
	watchEvery = 200 * time.Millisecond
)

// startLoad sends the plan's records, open loop, counted from base; the channel gets one value when all are
// acknowledged or given up. What is neither in time is left to the judging, which demands a share of acknowledged
// records.
//
// While broken is not closed, what the plan has to spare is sent after it: the load lasts until the last fault has come
// to its end.
func (r *run) startLoad(ctx context.Context, base time.Duration, broken <-chan struct{}) <-chan error {
	done := make(chan error, 1)
	go func() {
		err := r.options.Manual.load(ctx, func(loading context.Context) error {
			return r.producer.Run(loading, base)
		}, r.clock)
		if err == nil {
			r.extendLoad(ctx, broken)
		}
		flushing, cancel := context.WithTimeout(ctx, flushLimit)
		defer cancel()
		if late := r.producer.Flush(flushing); late != nil && ctx.Err() == nil {
			r.options.Log.Warn().Err(late).Msg("the brokers could not keep up with the load")
		}
		if ctx.Err() != nil {
			err = nil // interrupted: what was sent is judged
		}
		done <- environment("driving the load", err)
	}()
	return done
}

// behindShare: a subject is behind when a quarter of the planned records is neither finished nor committed.
const behindShare = 4

// behind reports whether the subject has fallen so far behind the load that more of it would only be in the way. What a
// commit covers, or was finished and is not committed yet, it is not behind with.
func (r *run) behind() bool {
	now, much := r.live.figures(), int64(r.plan.Due()/behindShare)
	return now.lag > much && now.Sent-(now.Processed-now.Duplicates)-now.DeadLetters > much
}

func (r *run) extendLoad(ctx context.Context, broken <-chan struct{}) {
	select {
	case <-broken:
		return
	default:
	}
	extending, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		select {
		case <-broken:
			cancel()
		case <-stop:
		}
	})
	r.producer.Extend(extending, r.behind)
	close(stop)
	group.Wait()
}

const (
	// meetingLeast is longer than a session of 45 s, the default of most clients, and the rebalance after it.
	meetingLeast = 75 * time.Second
	// meetingMost ends the waiting for a subject that moves and is behind all along.
	meetingMost = drainCap
	// idleAfter is how long a subject that has caught up is given for something that faults may still meet.
	idleAfter = 2 * time.Second
)

// meetingLimit bounds how long after the steady phase faults wait for what they are to meet. A subject whose lanes all
// wait for retries may ask for nothing until they are over, and each of the faults waits for those before it.
func meetingLimit(contract history.Contract, planned int) time.Duration {
	return meetingLeast + time.Duration(planned)*seriesOf(contract)
}

// closing returns a channel that is closed when faults need wait no longer: all records are sent, and the subject has
// caught up with them, or the limit is reached. The limit counts from when the subject is not behind, as long as it
// moves: one that works off what it has fetched ahead asks for nothing meanwhile. The second result ends the watching.
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
		for busy := r.clock.Now(); r.clock.Now() < limit && r.clock.Now()-busy < idleAfter; {
			if sent, _, _, _ := r.producer.Counts(); int(sent) < len(r.plan.Records) || r.live.triggers.lag() > 0 {
				busy = r.clock.Now()
			}
			still := watch.still(r.live, r.live.figures())
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

// settleLoad writes down how many of the spare records were sent: the others were never part of the run.
func (r *run) settleLoad() error {
	if r.plan.Spare == 0 {
		return nil
	}
	sent, _, _, _ := r.producer.Counts()
	header := r.header
	header.Records = max(int(sent), r.plan.Due())
	return environment("recording how long the load lasted", r.recorder.Amend(header))
}

// nemesis carries out the plan's faults with an injector for each kind.
func (r *run) nemesis() *faults.Nemesis {
	return &faults.Nemesis{
		Injectors: map[string]faults.Injector{
			"network":    network.NewInjector(r.links),
			"kafka":      r.rules,
			"broker":     faultbroker.NewInjector(r.cluster.breaker, r.header.Group()),
			"subject":    r.processes(),
			"downstream": r.modules(),
			"store":      r.storeFaults(),
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

// enter writes down that a phase begins.
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

// seal ends the history; after it nothing changes it. A run that failed is not sealed: its history can prove a
// violation, but never its absence. One that was interrupted is, without the phase that a whole run ends with. It
// returns the run's failure, or its own.
func (r *run) seal(ctx context.Context, failure error) error {
	if failure != nil {
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

// besidesInterruption returns the error of a run that the user ended early, unless it only tells of that end.
func (r *run) besidesInterruption(err error) error {
	if errors.Is(err, context.Canceled) {
		r.options.Log.Debug().Err(err).Msg("the interruption cut this short")
		return nil
	}
	return err
}

// graced returns a context that outlives the end of ctx by a few seconds: for what must be done also when the user
// interrupts, now or while it is being done.
func graced(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	own, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), limit, fmt.Errorf("it took longer than %v", limit))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(interruptedLimit, cancel) })
	return own, func() { stop(); cancel() }
}

// interruptedLimit bounds stopping the subject, and auditing, after the user interrupted.
const interruptedLimit = 4 * time.Second

// intended is when a record of the plan is to be sent; false before the load begins.
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
