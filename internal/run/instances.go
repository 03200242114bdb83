package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/subject"
	"github.com/dlqbench/dlqbench/scenarios"
)

// killMargin is how much longer than promised an instance may take to end before it is killed. It separates an end
// that is late by the machine's noise from one that never comes.
const killMargin = time.Second

// openSubject creates the group in which instances will run, with its subprocess reaper and its registry. From then
// on `dlqbench clean` recognises that the run is in progress.
func (r *run) openSubject(context.Context) error {
	config := subject.Config{
		Name: r.header.Subject, RunID: r.dir.id, Instances: r.header.Instances + r.services(), LogDir: r.dir.file(dirLogs),
		RunDir: r.dir.path, Grace: r.longestGrace() + killMargin, GuardCommand: []string{r.options.Executable, "guard"},
		OnStart: r.beginRun, Ready: r.ready,
		Clock: r.clock, Sink: renumbered{r}, Log: r.options.Log, Render: r.launch, LogName: r.slotName, InGroup: r.inGroup,
	}
	if r.options.Subject != nil {
		config.Build = subject.Launch{Command: r.options.Subject.Build, Dir: r.subjectDir()}
	}
	var err error
	if r.subject, err = subject.New(config); err == nil && r.engine != nil {
		r.subject.WorksElsewhere()
	}
	return err
}

// beginRun sets the process to which observations from now on are attributed.
func (r *run) beginRun(slot int, process uint16) {
	instance, is := r.service(slot)
	if !is {
		r.options.Manual.started(slot)
		r.tap.BeginRun(slot, process)
		for _, one := range r.stubs.of(slot) {
			one.SetRun(slot, process)
		}
		return
	}
	r.tap.BeginRun(int(instance), process)
	if kind, _ := history.StoreProcess(instance); kind == "worker" {
		r.store.stub.SetRun(int(instance), process)
	}
}

// slotName returns the name of a slot's output.
func (r *run) slotName(slot int) string {
	if instance, is := r.service(slot); is {
		kind, number := history.StoreProcess(instance)
		return fmt.Sprintf("%s-%d", kind, number)
	}
	return fmt.Sprintf("instance-%d", slot)
}

// launch returns what to start in a slot.
func (r *run) launch(slot int, process uint16) (subject.Launch, error) {
	if instance, is := r.service(slot); is {
		return r.launchService(instance)
	}
	if r.options.Subject != nil {
		return r.launchFile(slot, process)
	}
	return r.launchReference(slot)
}

// startSubject builds the subject, starts every initial instance and waits until each is ready.
func (r *run) startSubject(ctx context.Context) error {
	if r.options.Subject != nil && len(r.options.Subject.Build) > 0 {
		r.busy("building: "+strings.Join(r.options.Subject.Build, " "), 0)
	}
	if err := r.subject.Build(ctx); err != nil {
		return err
	}
	if err := r.haveImage(ctx); err != nil {
		return err
	}
	if err := errors.Join(r.startNeeds(ctx), r.forward()); err != nil {
		return err
	}
	if err := r.announce(); err != nil {
		return err
	}
	return r.startInstances(ctx)
}

// startInstances starts every initial instance and waits until each is ready. The first of those that find an empty
// database gets ready before the others start: many programs make their tables when they start, and of several that do
// so at once, some fail.
func (r *run) startInstances(ctx context.Context) error {
	first, count := 0, r.scenario.InstanceCount()
	if r.emptyDatabase() {
		first = min(1, count)
	}
	for _, some := range [][2]int{{0, first}, {first, count}} {
		for instance := some[0]; instance < some[1]; instance++ {
			r.busy(fmt.Sprintf("starting instance %d", instance), 0)
			if err := r.subject.Start(ctx, instance); err != nil {
				return err
			}
		}
		for instance := some[0]; instance < some[1]; instance++ {
			r.busy(fmt.Sprintf("waiting for instance %d", instance), r.subject.ReadyLimit(instance))
			r.waitFor(instance)
			if err := r.waitReady(ctx, instance); err != nil {
				return r.withMissing(err)
			}
		}
	}
	r.awaits.Store(nil)
	return nil
}

// firstStarts is how often an initial instance is started that ends by itself before it is ready, as its contract says.
const firstStarts = 3

// waitReady waits until an initial instance is ready. With on_error: exit, one that ends before is started again, as a
// supervisor would: while several join their group, a client may get an error at which it ends.
func (r *run) waitReady(ctx context.Context, instance int) error {
	err := r.subject.WaitReady(ctx, instance)
	for starts := 1; err != nil && starts < firstStarts && r.consumerOf(instance).Contract.ExitsOnError &&
		r.subject.Crashed(instance); starts++ {
		r.options.Log.Warn().Err(err).Int("instance", instance).Msg("the instance is started again, as its contract says")
		if !faults.SleepUntil(ctx, r.clock, r.clock.Now()+restartDelay) {
			return err
		}
		err = r.subject.Revive(ctx, instance)
	}
	return err
}

// emptyDatabase reports whether the consumer gets a database without tables: one of this run, and no program that runs
// once is there to make them.
func (r *run) emptyDatabase() bool {
	subject := r.options.Subject
	return subject != nil && subject.External == nil &&
		slices.ContainsFunc(subject.Downstreams, func(d scenarios.Downstream) bool {
			return d.Postgres != nil && d.Postgres.URL == ""
		}) && !slices.ContainsFunc(subject.Needs, func(n scenarios.Need) bool { return n.Once })
}

// launchReference starts this program again as the reference consumer, or the command that replaces it.
func (r *run) launchReference(instance int) (subject.Launch, error) {
	settings, err := json.Marshal(r.scenario.Settings(r.header.ConsumerOf(int16(instance))))
	if err != nil {
		return subject.Launch{}, fmt.Errorf("writing the reference consumer's settings: %w", err)
	}
	command := r.options.ReferenceCommand
	if command == nil {
		command = []string{r.options.Executable, "consume"}
	}
	environment, err := r.nodeEnvironment(instance)
	if err != nil {
		return subject.Launch{}, err
	}
	values := r.valuesOf(instance)
	return subject.Launch{
		Command: command, Env: slices.Concat(environ(values.Environment()), []string{"DLQBENCH_SETTINGS=" + string(settings)},
			environment),
		WorkDir: r.workDir(instance),
	}, nil
}

// launchFile starts the consumer that a subject file describes.
func (r *run) launchFile(instance int, process uint16) (subject.Launch, error) {
	values := r.valuesOf(instance)
	rendered, err := r.options.Subject.Render(values)
	if err != nil {
		return subject.Launch{}, fmt.Errorf("rendering %s: %w", r.options.SubjectFile, err)
	}
	ready, err := readiness(rendered.Ready)
	if err != nil {
		return subject.Launch{}, err
	}
	launch := subject.Launch{
		Command: append(rendered.Command, rendered.Args...), Dir: r.inFolder(rendered.Dir), Files: rendered.Files,
		WorkDir: r.workDir(instance), Env: append(environ(values.Environment()), environ(rendered.Env)...),
		Health: rendered.Contract.Health, Ready: ready,
	}
	if rendered.External != nil {
		launch.Outside = r.outside(rendered.External, instance)
	}
	if r.engine != nil {
		r.contain(&launch, rendered.Image, instance, process)
	}
	return launch, nil
}

// readiness returns what shows that a program is ready.
func readiness(written scenarios.Ready) (subject.Ready, error) {
	ready := subject.Ready{Port: written.Port, URL: written.URL, Timeout: written.Timeout.D()}
	if written.Log == "" {
		return ready, nil
	}
	var err error
	if ready.Log, err = regexp.Compile(written.Log); err != nil {
		return ready, fmt.Errorf("reading ready.log: %w", err)
	}
	return ready, nil
}

func (r *run) valuesOf(instance int) scenarios.Values {
	values := r.values
	values.WorkDir = r.workDir(instance)
	values.Instance = instance
	values.TellBrokers(r.bootstraps[instance])
	r.tellDownstreams(&values, instance)
	values.Port, values.Ports = strconv.Itoa(r.ports[instance].port), r.ports[instance].named
	one := r.consumerOf(instance)
	values.GroupID, values.DLQTopic, values.ReplayTopic = one.Group, r.dlqTopic(one.DLQ), one.ReplayTo
	if len(r.header.Consumers) > 1 { // each has one, a consumer by itself may have several
		values.InputTopic = r.header.Topics[one.Input].Name
		values.InputTopics = values.InputTopic
	}
	return values
}

// tellDownstreams puts into an instance's values how it calls its downstreams.
func (r *run) tellDownstreams(values *scenarios.Values, instance int) {
	for number, one := range r.stubs.of(instance) {
		links := r.links[r.downstreamLink(instance, number)]
		if len(links) == 0 {
			continue
		}
		url := one.Tell(values, links[0].Address())
		if r.header.Graph == nil && r.stubs.names != nil {
			if values.DownstreamURLs == nil {
				values.DownstreamURLs = map[string]string{}
			}
			values.DownstreamURLs[r.stubs.names[number]] = url
		}
	}
}

func (r *run) workDir(instance int) string {
	dir := filepath.Join(r.dir.path, dirWork, fmt.Sprintf("instance-%d", instance))
	if absolute, err := filepath.Abs(dir); err == nil {
		return absolute
	}
	return dir
}

func environ(variables map[string]string) []string {
	list := make([]string, 0, len(variables))
	for name, value := range variables {
		list = append(list, name+"="+value)
	}
	sort.Strings(list)
	return list
}

// confirmHealed restarts those initial instances that are not running. Instances that a fault added need not run. An
// instance that does not come back does not stop the run: the checkers name what it leaves unfinished.
func (r *run) confirmHealed(ctx context.Context) {
	r.confirmStoreHealed(ctx)
	for instance := range r.scenario.InstanceCount() {
		if r.subject.Alive(instance) {
			continue
		}
		r.busy(fmt.Sprintf("waiting for instance %d to come back", instance), r.subject.ReadyLimit(instance))
		if err := r.subject.Revive(ctx, instance); err != nil && ctx.Err() == nil {
			r.options.Log.Warn().Err(err).Msg(
				"the subject could not be brought back after the faults; what it leaves unfinished is judged")
		}
	}
}

// forgiving is the injector of the subject's faults whose healing never fails. If an instance does not come back
// after a fault ended it, that is the subject's doing, and it is judged by the work left unfinished.
type forgiving struct {
	faults.Injector
	log zerolog.Logger
}

func (f forgiving) Inject(ctx context.Context, active faults.Active) (faults.Heal, error) {
	heal, err := f.Injector.Inject(ctx, active)
	if err != nil {
		return nil, err
	}
	return func(healing context.Context) error {
		if err := heal(healing); err != nil && ctx.Err() == nil {
			f.log.Warn().Err(err).Str("fault", active.Name).Msg(
				"the subject did not come back after the fault; what it leaves unfinished is judged")
			active.Failed(err)
		}
		return nil
	}, nil
}

// supervise acts as a supervisor would. If the contract says that instances may crash, it restarts those that ended
// by themselves, one second later. If the contract says that unhealthy instances are restarted, it ends those and
// starts them again. It leaves instances that a fault ended to the fault.
func (r *run) supervise(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	for instance := range r.header.Instances {
		if r.mayCrash(instance) || r.restartsUnhealthy(instance) {
			group.Go(func() { r.superviseOne(ctx, instance) })
		}
	}
	return func() { cancel(); group.Wait() }
}

// mayCrash reports whether the contract of the instance's consumer allows crashes.
func (r *run) mayCrash(instance int) bool {
	return r.consumerOf(instance).Contract.MayCrash()
}

// deserted reports whether every process of the subject has ended by itself, although none may: nothing can move any
// more, unless the run starts one.
func (r *run) deserted() bool {
	mayCrash := slices.ContainsFunc(r.header.Consumers, func(c history.Consumer) bool { return c.Contract.MayCrash() })
	return !mayCrash && r.live.processes.allFell()
}

// restartsUnhealthy reports whether the contract of the instance's consumer has unhealthy instances restarted.
func (r *run) restartsUnhealthy(instance int) bool {
	return r.consumerOf(instance).Contract.RestartsUnhealthy
}

func (r *run) superviseOne(ctx context.Context, instance int) {
	unhealthy := func() <-chan struct{} { return nil }
	if r.restartsUnhealthy(instance) {
		unhealthy = func() <-chan struct{} { return r.subject.Unhealthy(instance) }
	}
	for {
		ended := false
		select {
		case <-r.subject.Exited(instance):
		case <-unhealthy():
			ended = r.endUnhealthy(ctx, instance)
		case <-ctx.Done():
			return
		}
		if !faults.SleepUntil(ctx, r.clock, r.clock.Now()+restartDelay) {
			return
		}
		crashed := r.mayCrash(instance) && r.subject.Crashed(instance)
		if r.subject.Alive(instance) || !ended && !crashed {
			continue
		}
		if err := r.subject.Revive(ctx, instance); err != nil && ctx.Err() == nil {
			r.options.Log.Warn().Err(err).Int("instance", instance).
				Msg("the instance ended, and its next process did not start or is not ready yet")
		}
	}
}

// endUnhealthy ends an instance because it is unhealthy and reports whether it did; a fault may end it at the same
// time. The end of the drain does not shorten the instance's grace period.
func (r *run) endUnhealthy(ctx context.Context, instance int) bool {
	r.options.Log.Warn().Int("instance", instance).Msg("the instance is unhealthy, and restarted as its contract says")
	_, err := r.subject.StopUnhealthy(context.WithoutCancel(ctx), instance)
	if err != nil && !errors.Is(err, subject.ErrNotRunning) {
		r.options.Log.Warn().Err(err).Int("instance", instance).Msg("the unhealthy instance could not be ended")
	}
	return err == nil
}

// restartDelay is the time between a crash and the start of the next process.
const restartDelay = time.Second
