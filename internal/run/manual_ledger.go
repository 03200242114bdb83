package run

// The fault ledger: the index of each injected fault in the header and, at the end, a plan and a scenario that repeat
// them.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/scenarios"
)

// leastSteady is the shortest steady phase of a recording: a scenario needs one.
const leastSteady = 100 * time.Millisecond

// breakThings carries out the schedule of faults, and the faults that people inject meanwhile. The steady phase begins
// with it, unless the load ended before: who sees that phase may inject a fault.
func (r *run) breakThings(ctx context.Context, steady time.Duration, begins bool) error {
	nemesis := r.nemesis()
	closing, stop := r.closing(ctx, steady)
	defer stop()
	nemesis.Closing = closing
	manual := r.options.Manual
	if manual != nil {
		nemesis.Ledger, nemesis.Over = manual, manual.over
		if !manual.open(ctx, r, nemesis, steady) {
			return nil
		}
	}
	if begins {
		r.enter(history.PhaseSteady)
	}
	return errors.Join(nemesis.Run(ctx, steady, r.plan.Faults), manual.healed())
}

// sleepUntil waits until the clock shows at. It returns false if ctx or the load ended first.
func (r *run) sleepUntil(ctx context.Context, at time.Duration) bool {
	if r.options.Manual != nil {
		var cancel context.CancelFunc
		ctx, cancel = until(ctx, r.options.Manual.stop)
		defer cancel()
	}
	return faults.SleepUntil(ctx, r.clock, at)
}

// open accepts faults until the load has ended. It returns false if the load has ended already.
func (h *Manual) open(ctx context.Context, r *run, nemesis *faults.Nemesis, steady time.Duration) bool {
	h.mu.Lock()
	closed := h.closed
	at := &workplace{ctx: ctx, run: r, nemesis: nemesis, steady: steady, written: r.scenario.Planned(r.plan.Seed)}
	if !closed {
		h.at = at
	}
	h.mu.Unlock()
	if !closed && h.options.Opened != nil {
		h.options.Opened(at.now(), r.plan.Steady)
	}
	return !closed
}

// load drives the load until it ends by itself, manually, or with ctx. Then it ends the faults in force and accepts
// no more. A manual end of the load is not an error. Without manual control it only drives.
func (h *Manual) load(ctx context.Context, drive func(context.Context) error, clock history.Clock) error {
	if h == nil {
		return drive(ctx)
	}
	loading, cancel := until(ctx, h.stop)
	defer cancel()
	err := drive(loading)
	if loading.Err() != nil && ctx.Err() == nil {
		err = nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed, h.stopped = true, clock.Now()
	close(h.over)
	return err
}

// healed waits until the load has ended and all manual faults are healed. It returns the errors of those that could
// not be healed.
func (h *Manual) healed() error {
	if h == nil {
		return nil
	}
	<-h.over
	h.group.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(h.failed...)
}

// broke reports whether any fault was injected.
func (h *Manual) broke() bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.broken) > 0
}

// started notes that an instance has had a process.
func (h *Manual) started(instance int) {
	if h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.instances = max(h.instances, instance+1)
	}
}

// mostInstances is the maximum number of instances of a run.
const mostInstances = 16

// spare returns the number of instances beyond the scenario's that the run has room for. It is 0 for graphs, whose
// instances belong to a node; for several services, whose instances belong to one of them; and for a dead-letter
// store's service, whose processes are numbered after the instances.
func (r *run) spare() int {
	if r.scenario.Graph != nil || r.scenario.Services != nil || r.scenario.Store != nil {
		return 0
	}
	return max(min(r.options.Manual.options.Spare, mostInstances-r.scenario.MaxInstances()), 0)
}

// Enter implements faults.Ledger.
func (h *Manual) Enter(planned faults.Planned) (index int, err error) {
	h.telling.Lock()
	defer h.telling.Unlock()
	news, err := h.enter(planned)
	if err == nil {
		h.tell(news)
	}
	return news.Index, err
}

func (h *Manual) enter(planned faults.Planned) (FaultNews, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return FaultNews{}, faults.ErrOver
	}
	one := broken{planned: planned, from: h.at.now()}
	if hand, is := h.hand[planned.Name]; is {
		one.written, one.by, one.began = hand.written, hand.by, hand.began
		delete(h.hand, planned.Name)
	} else {
		one.written = h.at.written[planned.Index]
		one.written.Name = planned.Name
	}
	one.planned.Index = len(h.broken)
	h.broken = append(h.broken, one)
	if err := h.at.run.recorder.Amend(h.header(h.at.run)); err != nil {
		h.broken = h.broken[:len(h.broken)-1]
		return FaultNews{}, err
	}
	h.active++
	return h.news(one.planned.Index, FaultInjected, nil), nil
}

// Began implements faults.Ledger.
func (h *Manual) Began(index int, err error) {
	h.telling.Lock()
	defer h.telling.Unlock()
	h.mu.Lock()
	one := &h.broken[index]
	if one.refused = err; err != nil {
		h.calm()
	}
	news, began := h.news(index, FaultFailed, err), one.began
	h.mu.Unlock()
	if err != nil {
		h.tell(news)
	}
	if began != nil {
		began <- err
	}
}

// Leave implements faults.Ledger.
func (h *Manual) Leave(index int) {
	h.telling.Lock()
	defer h.telling.Unlock()
	h.mu.Lock()
	one := &h.broken[index]
	// An instantaneous fault has no length. Neither has a fault that itself restarts the process it ended.
	if lasted := h.at.now() - one.from; lasted < one.written.For.D() {
		one.written.For = max(milliseconds(lasted), units.Duration(time.Millisecond))
		one.cut = one.healed || h.ending()
	}
	news := h.news(index, FaultLeaving, nil)
	h.mu.Unlock()
	h.tell(news)
}

// Done implements faults.Ledger.
func (h *Manual) Done(index int, err error) {
	h.telling.Lock()
	defer h.telling.Unlock()
	h.mu.Lock()
	h.calm()
	stage := FaultHealed
	if err != nil {
		stage = FaultFailed
		if h.broken[index].began != nil { // the schedule reports planned faults
			h.failed = append(h.failed, err)
		}
	}
	news := h.news(index, stage, err)
	h.mu.Unlock()
	h.tell(news)
}

// ending reports whether the load was ended manually.
func (h *Manual) ending() bool {
	select {
	case <-h.stop:
		return true
	default:
		return false
	}
}

// calm notes that a fault is not in force any more; h.mu is held.
func (h *Manual) calm() { h.active, h.busy = h.active-1, h.at.now() }

// news returns the news of a fault; h.mu is held.
func (h *Manual) news(index int, stage FaultStage, err error) FaultNews {
	one := &h.broken[index]
	return FaultNews{Index: index, Written: one.written, Planned: one.planned, By: one.by, Stage: stage, At: h.at.now(),
		Err: err}
}

func (h *Manual) tell(news FaultNews) {
	if h.options.Told != nil {
		h.options.Told(news)
	}
}

// header returns the run's header with the faults injected so far; h.mu is held.
func (h *Manual) header(r *run) history.Header {
	header := r.header
	header.Faults = make([]history.PlannedFault, 0, len(h.broken))
	for i, one := range h.broken {
		planned := plan.Fault(r.scenario, r.plan.Seed, i, one.written.Name, one.written).PlannedFault
		if one.by != nil {
			planned.By = one.by.String()
		}
		if one.refused != nil {
			planned.Refused = one.refused.Error()
		}
		header.Faults = append(header.Faults, planned)
	}
	return header
}

// settleManual completes the header with the outcome of the plan, and writes the plan and the scenario that repeat
// the run. The load has ended, and everything is healed.
func (r *run) settleManual() error {
	h := r.options.Manual
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	sent, _, _, _ := r.producer.Counts()
	done := r.planUpTo(int(sent), h.stopped-*r.loadedAt.Load()-r.plan.WarmUp)
	for i := range h.broken {
		one := &h.broken[i]
		one.written = within(one.written, done.Steady)
		// A fault that people began or ended may have had no effect, since nobody is obliged to wait for one before
		// lifting it. If it did have an effect, it must have one again when the recording is run.
		switch did := r.live.didSomething(i); {
		case did && one.began != nil:
			one.written.MayMiss = false
		case !did && one.cut:
			one.written.MayMiss = true
		}
		done.Faults = append(done.Faults, plan.Fault(r.scenario, r.plan.Seed, i, h.broken[i].written.Name,
			h.broken[i].written))
	}
	header := h.header(r)
	header.Records, header.Consumers = len(done.Records), slices.Clone(header.Consumers)
	header.Consumers[len(header.Consumers)-1].Instances += h.instances - header.Instances
	header.Instances = h.instances
	recorded := !h.options.Unattended || slices.ContainsFunc(h.broken, func(one broken) bool { return one.began != nil })
	if recorded && h.options.Rerun != "" {
		header.Rerun = fmt.Sprintf(h.options.Rerun, Quoted(filepath.Join(shortest(r.dir.path), fileRecorded)))
	}
	err := errors.Join(r.recorder.Amend(header), done.Write(r.dir.path))
	if recorded {
		err = errors.Join(err, r.writeRecording(done.Steady))
	}
	return environment("recording what was done by hand", err)
}

// Quoted returns a word, such as a path, quoted for a shell where it needs that.
func Quoted(word string) string {
	if strings.ContainsAny(word, " \t\n\"'`$&|;<>()*?[]#~!{}\\") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

// planUpTo returns the plan without faults and without the records that were not sent. stopped is when the load
// ended.
func (r *run) planUpTo(sent int, stopped time.Duration) *plan.Plan {
	done := r.plan.UpTo(min(sent, len(r.plan.Records)))
	done.Faults = nil
	if sent >= len(r.plan.Records) {
		return done
	}
	// A phase of this length has exactly the records that were sent: those before its end.
	steady := min(stopped.Truncate(time.Millisecond), r.plan.Records[sent].At-r.plan.WarmUp)
	if sent > 0 {
		steady = max(steady, r.plan.Records[sent-1].At-r.plan.WarmUp+1)
	}
	done.Steady = max(steady, leastSteady)
	return done
}

// within cuts off a fault that was in force when the load ended at that time.
func within(written catalogue.Spec, steady time.Duration) catalogue.Spec {
	const least = units.Duration(time.Millisecond)
	end := units.Duration(steady)
	if written.When != "" {
		return written
	}
	if written.At >= end {
		written.At = end - 2*least
	}
	if written.For > 0 && written.At+written.For > end {
		written.For = end - written.At
	}
	return written
}

// writeRecording writes the injected faults as a scenario; Manual.mu is held.
func (r *run) writeRecording(steady time.Duration) error {
	subject := r.options.SubjectFile
	if subject != "" {
		var err error
		if subject, err = relative(r.dir.path, subject); err != nil {
			return err
		}
	}
	text, err := scenarios.Record(fileScenario, r.withoutSecrets(r.options.Source), scenarios.Recording{
		Head: []string{
			"What was done in " + r.dir.id + ", both the scenario's own faults and those injected by hand,",
			"as a scenario that repeats it: dlqbench run " + fileRecorded,
		},
		Seed: r.plan.Seed, Steady: steady, Faults: r.options.Manual.written(), Subject: subject,
	})
	if err != nil {
		return err
	}
	path := r.dir.file(fileRecorded)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return err
	}
	if _, err := scenarios.Load(path); err != nil {
		r.options.Log.Warn().Err(err).Msg("what was recorded is no sound scenario as it stands")
	}
	return nil
}

// relative returns the path of a file relative to a folder.
func relative(folder, file string) (string, error) {
	from, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	to, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	return filepath.Rel(from, to)
}
