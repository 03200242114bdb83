package run

import (
	"context"
	"errors"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/procgroup"
)

// Run carries out one scenario from its plan to its reports. The error reports failures outside the subject: a
// subject that broke its promises is not an error. The part recorded before a failure is judged all the same, so an
// Outcome may come with an error. Without anything to judge, it has no verdict. If pods of the consumer went away under
// load, the verdict is inconclusive and the error nil. When ctx ends, Run lifts the faults in force, seals and
// judges the recorded part, and sets Outcome.Interrupted.
func Run(ctx context.Context, options Options) (*Outcome, error) {
	if err := procgroup.Supported(); err != nil {
		return nil, environment("starting a run", err)
	}
	began := time.Now()
	cleanUpBefore(ctx, options)
	run, err := prepare(options)
	if err != nil {
		return nil, err
	}
	outcome := &Outcome{Dir: run.dir.path}
	run.enter(history.PhaseSetup)
	stopWatching := run.watch()
	err = run.carryOut(ctx)
	err = run.seal(ctx, err)
	run.busy("judging", 0)
	stopWatching()
	if outcome.Interrupted = ctx.Err() != nil; outcome.Interrupted {
		err = run.besidesInterruption(err)
	}
	if err == nil || outcome.Interrupted || run.loadedAt.Load() != nil {
		if run.disturbed.Load() != nil {
			err = nil // the verdict has the reason, and no other
		}
		judged, judging := JudgeRun(run.dir.path)
		outcome.Judged, outcome.Verdict, err = judged, judged.Verdict, errors.Join(err, judging)
	}
	outcome.Elapsed = time.Since(began)
	if at := run.loadedAt.Load(); at != nil {
		outcome.SetUp = *at
	}
	return outcome, err
}

// carryOut is everything between the plan and the sealed history. It always ends everything it started. An
// interruption skips the rest of the load, the drain and the replay, never the audit.
func (r *run) carryOut(ctx context.Context) error {
	return r.whileSetUp(ctx, func(ctx context.Context) error {
		if err := errors.Join(r.exercise(ctx), r.abandonment()); err != nil {
			return err
		}
		if err := r.recorder.Err(); err != nil {
			return environment("recording what happens", err) // an audit could not be recorded either
		}
		return r.stopAndAudit(ctx)
	})
}

// whileSetUp starts everything, does something with it, and ends everything that was started.
func (r *run) whileSetUp(ctx context.Context, do func(context.Context) error) (err error) {
	if err := r.openPaths(ctx); err != nil {
		return errors.Join(environment("opening the links", err), r.tearDown(ctx))
	}
	ctx, cancel := r.whileRecording(ctx)
	defer cancel()
	defer func() { err = errors.Join(err, r.tearDown(ctx)) }()
	if err := r.setUp(ctx); err != nil {
		return errors.Join(r.abandonment(), err)
	}
	return do(ctx)
}

// exercise puts the subject through load, faults and drain, with a supervisor if its contract relies on one.
func (r *run) exercise(ctx context.Context) error {
	defer r.supervise(ctx)()
	for _, part := range []func(context.Context) error{r.loadAndBreak, r.drainLoad, r.replay} {
		err := part(ctx)
		if ctx.Err() != nil {
			return r.besidesInterruption(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// loadAndBreak drives the load from warm-up to its planned end, or until somebody ends it manually, while the
// nemesis carries out its schedule. The heal phase begins when the last fault is lifted. It ends when the load has
// ended and every instance is confirmed back.
func (r *run) loadAndBreak(ctx context.Context) error {
	r.enter(history.PhaseWarmup)
	warmUp := r.clock.Now()
	r.loadedAt.Store(&warmUp)
	broken := make(chan struct{})
	load := r.startLoad(ctx, warmUp, broken)
	steady := warmUp + r.plan.WarmUp
	err := r.breakThings(ctx, steady, r.sleepUntil(ctx, steady))
	close(broken)
	if len(r.plan.Faults) > 0 || r.options.Manual.broke() {
		r.enter(history.PhaseHeal)
	}
	err = errors.Join(environment("carrying out the schedule of faults", err), <-load, r.settleManual(), r.settleLoad())
	if err != nil || ctx.Err() != nil {
		return err
	}
	r.confirmHealed(ctx)
	return nil
}

func (r *run) drainLoad(ctx context.Context) error {
	r.enter(history.PhaseDrain)
	if err := r.drain(ctx); err != nil {
		return err
	}
	return r.drainStore(ctx)
}

// stopAndAudit ends the subject in order, then reads the actual content of the topics from the brokers. It also runs
// after an interruption, as far as a few seconds allow.
func (r *run) stopAndAudit(ctx context.Context) error {
	r.enter(history.PhaseAudit)
	r.busy("stopping the consumer", r.longestGrace()+killMargin)
	stopping, cancel := graced(ctx, auditLimit)
	defer cancel()
	if err := r.subject.StopAll(stopping); err != nil {
		return environment("stopping the subject", err)
	}
	r.noteStrays()
	r.noteOtherGroup()
	r.noteMissingTopics()
	r.busy("reading the topics to their ends", 0)
	auditing, cancel := graced(ctx, auditLimit)
	defer cancel()
	return r.audit(auditing)
}
