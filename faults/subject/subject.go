// Package subject defines the faults of the consumer under test: its instances are ended, paused and restarted, and
// instances are added or removed. The package defines how these faults are written, checked, described and explained,
// and injects them. It knows instances only by their number and through Instances, which manages their processes.
package subject

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/internal/units"
)

// Subject acts on the consumer's processes. Exactly one of Signal, Restart, ScaleUp, ScaleDown is set.
type Subject struct {
	// Node is the node of a graph whose instance is meant; its instances are numbered from 0.
	Node string `json:"node,omitempty"`
	// Process is a router or a worker of the dead-letter store in place of an instance: "worker 0", "router 0".
	Process string `json:"process,omitempty"`
	// Instance is its number, from 0; All takes every one in turn (a rolling restart), Every apart.
	Instance *int           `json:"instance,omitempty" jsonschema:"minimum=0"`
	All      bool           `json:"all,omitempty"`
	Every    units.Duration `json:"every,omitempty"`
	// Signal is TERM, KILL or STOP (continued after For).
	Signal string `json:"signal,omitempty" jsonschema:"enum=TERM,enum=KILL,enum=STOP"`
	// Restart: TERM, wait for the end (KILL after the contract's grace), start again.
	Restart bool `json:"restart,omitempty"`
	// RestartAfter starts an ended instance again this long after it ended; without it the instance comes back at heal.
	RestartAfter units.Duration `json:"restart_after,omitempty"`
	// ScaleUp starts so many further instances, which are ended (TERM) after For; ScaleDown ends (TERM) so many of the
	// last ones, which are started again after For.
	ScaleUp   int `json:"scale_up,omitempty" jsonschema:"minimum=1,maximum=16"`
	ScaleDown int `json:"scale_down,omitempty" jsonschema:"minimum=1,maximum=16"`
}

// action is one fault of the subject.
type action = faults.Action[Subject, func(*Injector, context.Context, *round) (faults.Heal, error)]

// actions returns all faults of the subject.
func actions() []action { return append(singly(), scalings()...) }

func singly() []action {
	return []action{{
		Do:   (*Injector).oneByOne,
		What: func(s *Subject) string { return s.Signal + " to " + s.target() + s.round() },
		Entry: faults.Entry{Name: "subject.signal", Summary: "An instance of the subject is ended or frozen.",
			Does: "TERM asks it to end, KILL ends it at once, STOP freezes it until for has passed. An ended instance is " +
				"started again after restart_after, or when for has passed. With all: true, every instance is signalled in turn, " +
				"at the interval every. With process: worker 0 (or router 0), a process of the dead-letter store is signalled.",
			Made: "A signal to the process. If instances are pods, TERM is the deletion or eviction of the pod, and another " +
				"takes its place. Instances are numbered from 0. In a graph of nodes, node selects the node, and instances are " +
				"numbered within it.",
			Shows: "A correct consumer loses nothing: unfinished records are delivered again. Bugs: offsets committed before " +
				"a record is finished (KILL), records in backoff that are dropped or dead-lettered early (TERM), a frozen " +
				"instance that commits partitions it has lost (STOP).",
			Effects: []string{"process ended", "process started and ready", "process paused", "process continued"},
			Keys: []string{"subject.node", "subject.instance", "subject.all", "subject.every", "subject.signal",
				"subject.restart_after", "subject.process"},
			Example: "{at: 1s, subject: {instance: 1, signal: KILL, restart_after: 1s}}"},
	}, {
		Do: (*Injector).oneByOne, Instant: "a restart",
		What: func(s *Subject) string { return s.target() + " restarted" + s.round() },
		Entry: faults.Entry{Name: "subject.restart", Summary: "Instances are restarted in an orderly way.",
			Does: "TERM, then KILL if the process has not ended within the grace period of its contract, then a new " +
				"process. With all: true it is a rolling restart, one instance per interval every.",
			Made: "A signal to the process and a new process. If instances are pods, the deletion or eviction of the " +
				"pod and a new pod. This fault is instantaneous and takes no for.",
			Shows: "A correct consumer finishes or releases the records it holds, and ends in time. Bugs: a shutdown that " +
				"waits for the longest backoff, a last commit that covers unfinished records.",
			Effects: []string{"process ended", "process started and ready"},
			Keys:    []string{"subject.instance", "subject.all", "subject.every", "subject.restart"},
			Example: "{at: 1s, subject: {all: true, every: 1500ms, restart: true}}"},
	}}
}

func scalings() []action {
	return []action{{
		Do:   (*Injector).scaleUp,
		What: func(s *Subject) string { return faults.Counted(s.ScaleUp, "further instance") + " started" },
		Entry: faults.Entry{Name: "subject.scale_up", Summary: "More instances join.",
			Does: "This many further instances are started; after for, they are ended by TERM. Partitions move to them, " +
				"and back.",
			Made: "New processes, with the next free numbers. A run can have 16 instances in total.",
			Shows: "A correct consumer releases a partition only after committing its finished offsets, and stops processing " +
				"its records. Bugs: records processed by both instances, commits for revoked partitions.",
			Effects: []string{"process started and ready", "process ended"}, Keys: []string{"subject.scale_up"},
			Example: "{at: 1s, for: 2s, subject: {scale_up: 2}}"},
	}, {
		Do:   (*Injector).scaleDown,
		What: func(s *Subject) string { return faults.Counted(s.ScaleDown, "instance") + " ended by TERM" },
		Entry: faults.Entry{Name: "subject.scale_down", Summary: "Instances leave.",
			Does: "This many instances, the last ones, are ended by TERM; after for, they are started again.",
			Made: "A signal to the processes, and new processes later.",
			Shows: "A correct consumer takes over the released partitions from the committed offsets. Bugs: records in " +
				"backoff that are never retried, a long gap until the group notices.",
			Effects: []string{"process ended", "process started and ready"}, Keys: []string{"subject.scale_down"},
			Example: "{at: 1s, for: 2s, subject: {scale_down: 1}}"},
	}}
}

// Entries implements faults.Fault.
func (*Subject) Entries() []faults.Entry { return faults.Entries(actions()) }

// Traits implements faults.Fault.
func (s *Subject) Traits() faults.Traits {
	chosen, found := faults.Chosen(actions(), s)
	if !found {
		return faults.Traits{}
	}
	traits := chosen.Traits(s)
	traits.Target, traits.Name = s.target(), s.name(chosen.Key())
	traits.Idle.Why = "the process was not there to be hit: it had ended before, or had not started yet"
	traits.Lasts, traits.Lasting, traits.Patient = s.RestartAfter.D(), s.ends(), s.ScaleUp > 0
	if s.ends() && s.RestartAfter > 0 {
		traits.EndsItself = "for and restart_after both say when the instance comes back: keep one"
	}
	if s.All {
		traits.Every = s.Every.D()
	}
	if traits.Worker = faults.WorkerOf(s.Process); s.Process == "" {
		traits.Instance = s.Instance
	}
	return traits
}

// ends reports whether a signal ends the instance. It then comes back after RestartAfter, after For, or in the heal
// phase.
func (s *Subject) ends() bool { return s.Signal == "TERM" || s.Signal == "KILL" }

func (s *Subject) target() string {
	switch {
	case s.ScaleUp > 0 || s.ScaleDown > 0:
		return "instances"
	case s.Process != "":
		return s.Process
	case s.Instance != nil:
		return fmt.Sprintf("instance %d", *s.Instance)
	}
	return "every instance"
}

func (s *Subject) name(key string) string {
	if s.Signal != "" {
		key = s.Signal
	}
	switch key = strings.ToLower(key); {
	case s.Process != "":
		key += " " + s.Process
	case s.Instance != nil:
		key += " " + s.target()
	case s.All:
		key += " all"
	}
	return faults.Dashed(key)
}

// round describes which instances are hit when, and when they come back.
func (s *Subject) round() string {
	text := faults.AtNode(s.Node)
	if s.All && s.Every > 0 {
		text = fmt.Sprintf(", one every %s", s.Every) + text
	}
	if s.RestartAfter > 0 {
		text += fmt.Sprintf(", started again after %s", s.RestartAfter)
	}
	return text
}

// Validate implements faults.Fault.
func (s *Subject) Validate(setting faults.Setting) []faults.Defect {
	_, defects := faults.CheckActions(actions(), s)
	if s.ScaleUp > 0 || s.ScaleDown > 0 {
		defects = append(defects, s.scale(setting)...)
	} else {
		defects = append(defects, s.checkTarget()...)
	}
	if s.Process != "" {
		defects = append(defects, setting.CheckProcess(s.Process)...)
	}
	return slices.Concat(defects,
		faults.AtIf(s.Every > 0 && !s.All, "/every", "every goes with all: true"),
		faults.AtIf(s.RestartAfter > 0 && s.Signal != "TERM" && s.Signal != "KILL", "/restart_after",
			"restart_after goes with signal: TERM or KILL, which end the instance"),
		setting.CheckNode(s.Node, s.Instance != nil), faults.CheckInstance(s.Instance, setting.Instances))
}

func (s *Subject) scale(setting faults.Setting) []faults.Defect {
	const scaling = "scaling starts new instances or ends the last ones: "
	reference := setting.Reference
	return slices.Concat(
		faults.AtIf(s.Instance != nil, "/instance", scaling+"leave out instance"),
		faults.AtIf(s.All, "/all", scaling+"leave out all"),
		faults.AtIf(setting.Instances > 0 && s.ScaleDown > setting.Instances, "/scale_down",
			"%d instances can't be ended: the subject has %d", s.ScaleDown, setting.Instances),
		faults.AtIf(reference != nil && reference.Static && reference.GroupProtocol == "consumer", "", "a static member "+
			"that leaves keeps its partitions until its session times out, and with group_protocol: consumer the broker "+
			"lets that take 45s: the run would wait for nothing else; leave out static_membership"))
}

// checkTarget checks that the fault has exactly one target.
func (s *Subject) checkTarget() []faults.Defect {
	var set []string
	if s.All {
		set = append(set, "all")
	}
	if s.Instance != nil {
		set = append(set, "instance")
	}
	if s.Process != "" {
		set = append(set, "process")
	}
	return faults.ExactlyOne(set, []string{"instance", "all", "process"})
}

// Instances are the processes under test.
type Instances interface {
	// End ends an instance with TERM (and, after its grace, KILL) or KILL, waits until it is gone, and returns its exit
	// code, -1 when a signal ended it.
	End(ctx context.Context, instance int, signal syscall.Signal) (code int, err error)
	// Pause suspends an instance or resumes it.
	Pause(ctx context.Context, instance int, on bool) error
	// Revive starts an instance that is not running and waits until it is ready.
	Revive(ctx context.Context, instance int) error
	// Alive reports whether an instance has a process. An instance that has ended by itself cannot be hit.
	Alive(instance int) bool
}

// Injector injects the faults of kind "subject".
//
// Effects, each with the instance: "process ended" with its exit code, "process started and ready", "process paused"
// and "process continued". Only the fault's own actions count: restarting an instance that had ended by itself is not
// an effect.
type Injector struct {
	subject Instances
	// count is the number of instances at the start, most the maximum at one time.
	count, most int

	mu    sync.Mutex
	added map[int]bool // the further instances that faults have taken
}

// NewInjector returns an injector for the subject's instances. Those numbered from 0 to count-1 run from the start.
// Those up to most-1 are available to faults that scale up.
func NewInjector(subject Instances, count, most int) *Injector {
	return &Injector{subject: subject, count: count, most: most, added: map[int]bool{}}
}

// Inject starts the fault and continues it, instance after instance (scaling: all at once), until it is done or
// lifted. Without an instance in the spec, it hits the first one. Lifting the fault waits for started actions,
// resumes paused instances, starts ended ones, and waits until every instance is ready. It ends added instances if
// the fault has a duration.
func (i *Injector) Inject(ctx context.Context, active faults.Active) (faults.Heal, error) {
	spec, chosen, err := faults.Settings(active, actions())
	if err != nil {
		return nil, fmt.Errorf("breaking the subject: %w", err)
	}
	return chosen.Do(i, ctx, &round{subject: i.subject, count: i.count, active: active, spec: *spec,
		done: make(chan struct{}), struck: map[int]bool{}})
}

// oneByOne hits instances one after another.
func (i *Injector) oneByOne(ctx context.Context, r *round) (faults.Heal, error) {
	targets, err := r.targets()
	if err != nil {
		return nil, err
	}
	act, err := r.action()
	if err != nil {
		return nil, err
	}
	return r.begin(ctx, func(running, acting context.Context) { r.run(running, acting, targets, act) }, r.heal), nil
}

// round is one injection. Its work runs in a goroutine that Heal waits for. Until done, hit and err belong to that
// goroutine.
type round struct {
	subject Instances
	count   int
	active  faults.Active
	spec    Subject
	done    chan struct{}
	hit     []int
	err     error

	mu sync.Mutex
	// struck are the instances that the fault has actually ended, paused or added.
	struck map[int]bool
}

// begin starts the work in the background. An action that has started must finish even if the run is interrupted, but
// must not outlast the lifting of the fault: the acting context ends when the lifting is over, or calls cut.
func (r *round) begin(
	ctx context.Context, work func(running, acting context.Context),
	heal func(ctx context.Context, cut context.CancelFunc) error,
) faults.Heal {
	acting, cut := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(r.done)
		work(ctx, acting)
	}()
	return func(healing context.Context) error {
		defer cut()
		return heal(healing, cut)
	}
}

// strike reports an action on an instance.
func (r *round) strike(what string, aux int64, instance int) {
	r.mu.Lock()
	r.struck[instance] = true
	r.mu.Unlock()
	r.active.Effect(what, 1, aux, instance)
}

func (r *round) hasStruck(instance int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.struck[instance]
}

// targets returns the instances to hit, in order.
func (r *round) targets() (targets []int, err error) {
	switch {
	case r.spec.All:
		for instance := range r.count {
			targets = append(targets, instance)
		}
		return targets, nil
	case r.spec.Instance != nil:
		targets = []int{*r.spec.Instance}
	default:
		targets = []int{0}
	}
	if targets[0] < 0 || targets[0] >= r.count {
		return nil, fmt.Errorf("there is no instance %d: the subject has %d, numbered from 0", targets[0], r.count)
	}
	return targets, nil
}

// act applies the fault to an instance. The acting context ends when no time is left to lift the fault, the running
// context when the run is interrupted.
type act func(running, acting context.Context, instance int) error

func (r *round) action() (act, error) {
	end := func(signal syscall.Signal) act {
		return func(running, acting context.Context, instance int) error {
			return r.end(running, acting, instance, signal)
		}
	}
	switch {
	case r.spec.Restart, r.spec.Signal == "TERM":
		return end(syscall.SIGTERM), nil
	case r.spec.Signal == "KILL":
		return end(syscall.SIGKILL), nil
	case r.spec.Signal == "STOP":
		return r.stop, nil
	}
	return nil, fmt.Errorf("%q is no signal for the subject: TERM, KILL or STOP", r.spec.Signal)
}

// run hits the targets one after another, Every apart but never two at a time. When the run is interrupted, it hits
// no further target.
func (r *round) run(running, acting context.Context, targets []int, act act) {
	var next time.Time
	for n, target := range targets {
		// The first target is hit at once: a fault with a trigger aims at a window of milliseconds.
		if n > 0 && !pause(running, time.Until(next)) || acting.Err() != nil {
			return
		}
		next = time.Now().Add(r.spec.Every.D())
		r.hit = append(r.hit, target)
		// An instance that has ended by itself, perhaps just now, cannot be hit. The fault has no effect there and
		// reports none.
		if !r.subject.Alive(target) {
			continue
		}
		if err := act(running, acting, target); err != nil && r.subject.Alive(target) {
			r.err = errors.Join(r.err, err)
		}
	}
}

func (r *round) stop(_, acting context.Context, instance int) error {
	if err := r.subject.Pause(acting, instance, true); err != nil {
		return err
	}
	r.strike("process paused", 0, instance)
	return nil
}

// end ends an instance, and restarts it in time if the fault specifies that. The effect's aux is the exit code.
func (r *round) end(running, acting context.Context, instance int, signal syscall.Signal) error {
	code, err := r.subject.End(acting, instance, signal)
	if err != nil {
		return err
	}
	r.strike("process ended", int64(code), instance)
	if r.spec.Restart || r.spec.RestartAfter > 0 && pause(running, r.spec.RestartAfter.D()) {
		// If the instance does not come back now, perhaps because another fault is in force, lifting the fault tries
		// again and reports the error.
		_ = r.revive(acting, instance)
	}
	return nil
}

// heal waits for the round, or cuts it short when its own time is over, and restores every instance that was to be
// hit.
func (r *round) heal(ctx context.Context, cut context.CancelFunc) error {
	r.wait(ctx, cut)
	errs := []error{r.err}
	for _, instance := range r.hit {
		errs = append(errs, r.bringBack(ctx, instance))
	}
	return errors.Join(errs...)
}

// wait returns when the round is over. When ctx ends, it cuts the round short.
func (r *round) wait(ctx context.Context, cut context.CancelFunc) {
	select {
	case <-r.done:
	case <-ctx.Done():
		cut()
		<-r.done
	}
}

func (r *round) bringBack(ctx context.Context, instance int) error {
	if r.spec.Signal == "STOP" && r.hasStruck(instance) && r.subject.Alive(instance) {
		if err := r.subject.Pause(ctx, instance, false); err != nil && r.subject.Alive(instance) {
			return err
		}
		r.active.Effect("process continued", 1, 0, instance)
	}
	return r.revive(ctx, instance)
}

// reviveTries is the number of start attempts for an instance that ends immediately. The pauses between them start at
// reviveRest and double.
const (
	reviveTries = 5
	reviveRest  = 250 * time.Millisecond
)

// revive restarts an instance and waits until it is ready. If the instance ends before it is ready, revive starts it
// again a few times, as any supervisor would: some consumers cannot start while a broker is down.
func (r *round) revive(ctx context.Context, instance int) error {
	wasAlive := r.subject.Alive(instance)
	var err error
	for try, rest := 0, reviveRest; try < reviveTries; try, rest = try+1, 2*rest {
		if err = r.subject.Revive(ctx, instance); err == nil {
			if !wasAlive && r.hasStruck(instance) {
				r.active.Effect("process started and ready", 1, 0, instance)
			}
			return nil
		}
		if !pause(ctx, rest) {
			break
		}
	}
	return err
}

// pause waits for d. It returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
