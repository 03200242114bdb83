package subject

// The group contains the instances of one subject. Each has at most one process at a time.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/procgroup"
)

// ErrNotRunning says that an instance has no process.
var ErrNotRunning = errors.New("the instance is not running")

// errRunning says that an instance has a process already.
var errRunning = errors.New("it is running already")

// RegistryFile is the name of the registry in a run's directory; see Sweep.
const RegistryFile = "processes.json"

// RunIDVariable is the environment variable that identifies a run's processes.
const RunIDVariable = "DLQBENCH_RUN_ID"

const (
	defaultGrace = 10 * time.Second
	// killLimit bounds the wait for a killed process. Only a process that is stuck in the kernel takes longer.
	killLimit = 10 * time.Second
)

// Launch is one command to run, with every template rendered.
type Launch struct {
	// Command is the program and its arguments. A relative program with a slash is resolved below Dir.
	Command []string
	// Dir is the working directory.
	Dir string
	// Env is added to this process's own environment (without its DLQBENCH_ variables). Entries have the form
	// NAME=value.
	Env []string
	// Files are written before the start. Keys are paths relative to WorkDir, values the contents.
	Files map[string]string
	// WorkDir is the instance's own folder. It is created before the start.
	WorkDir string
	// Ready says when the instance is ready.
	Ready Ready
	// Health is a URL that reports the instance's health while it runs; 2xx means healthy. "" if it has none.
	Health string
	// Elsewhere is where the work is done, if Command only stands for it; nil if it does the work itself.
	Elsewhere Elsewhere
	// Outside is set instead of all of the above but Ready and Health, if somebody else starts the instance.
	Outside *Outside
}

// Ready says when an instance counts as ready. Without Log, Port and URL, Config.Ready decides.
type Ready struct {
	// Log is matched against each line of the output. Port is a TCP port of 127.0.0.1 that accepts connections. URL
	// answers with 2xx.
	Log  *regexp.Regexp
	Port int
	URL  string
	// End is set of a program that has done its work when it ends with code 0, such as a migration.
	End bool
	// Timeout bounds the wait, in addition to Config.InGroup; default 30s.
	Timeout time.Duration
}

// Config configures a group.
type Config struct {
	// Name of the subject, for messages.
	Name  string
	RunID string
	// Build is the command that the method Build runs once; without a command it runs nothing.
	Build Launch
	// Render returns the launch to start. Runs count an instance's processes from 0.
	Render    func(instance int, run uint16) (Launch, error)
	Instances int
	// LogDir receives build.log and instance-N.log, or the name that LogName returns instead. RunDir receives
	// processes.json.
	LogDir, RunDir string
	LogName        func(instance int) string
	// Grace is how long an instance may take to end after TERM; default 10s.
	Grace time.Duration
	// GuardCommand runs GuardMain in a separate process.
	GuardCommand []string
	// OnStart is called before a process is started, so that its actions can be attributed from its first byte.
	OnStart func(instance int, run uint16)
	// Ready returns a channel that is closed when the process is observed to be ready. Observing ends with ctx.
	Ready func(ctx context.Context, instance int, run uint16) <-chan struct{}
	// InGroup returns how long an instance may wait in its group in addition to Ready.Timeout: for the session of a
	// departed member to end, and for the others to rejoin. It may grow meanwhile. nil allows no additional time.
	InGroup func() time.Duration
	Clock   history.Clock
	Sink    history.Sink
	Log     zerolog.Logger
}

// Exit says how a process ended.
type Exit struct {
	// Code is the exit code, -1 if a signal ended the process. Signal is then the signal's name ("KILL").
	Code   int
	Signal string
	// Expected says that the harness asked for the end. Forced says that the process did not end within its grace
	// period and was killed.
	Expected, Forced bool
}

func (e Exit) String() string {
	if e.Signal != "" {
		return "signal " + e.Signal
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// Group runs the instances of a subject. Its methods are safe for concurrent use.
type Group struct {
	cfg      Config
	spawner  *spawner
	guard    *guard
	registry *registry
	sampling context.CancelFunc
	watching sync.WaitGroup

	mu     sync.Mutex
	slots  []slot
	needs  []*need
	closed bool
}

// slot is an instance: its process, if it ever had one, and the number of the next process.
type slot struct {
	process *process
	runs    uint16
}

// New returns a group without processes. Close ends it and everything it started.
func New(cfg Config) (*Group, error) {
	if cfg.Grace <= 0 {
		cfg.Grace = defaultGrace
	}
	if err := os.MkdirAll(cfg.LogDir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder for the subject's output: %w", err)
	}
	registry, err := newRegistry(filepath.Join(cfg.RunDir, RegistryFile), cfg.RunID)
	if err != nil {
		return nil, err
	}
	guard, err := startGuard(cfg.GuardCommand, cfg.RunID)
	if err != nil {
		return nil, errors.Join(err, registry.remove())
	}
	ctx, cancel := context.WithCancel(context.Background())
	g := &Group{
		cfg: cfg, spawner: newSpawner(), guard: guard, registry: registry, sampling: cancel,
		slots: make([]slot, cfg.Instances),
	}
	g.watching.Go(func() { g.sampleProcesses(ctx) })
	return g, nil
}

// WorksElsewhere says that launches have an Elsewhere. If this process is killed, the subprocess reaper then ends
// the work there, too.
func (g *Group) WorksElsewhere() { g.guard.tell("elsewhere") }

// Close kills the processes that still run, and ends the subprocess reaper. If it returns without error, nothing
// that the group started is left. A second call does nothing.
func (g *Group) Close() error {
	g.mu.Lock()
	again := g.closed
	g.closed = true
	g.mu.Unlock()
	if again {
		return nil
	}
	var errs []error
	for instance := range g.slots {
		if process := g.process(instance); process.alive() && process.outside != nil {
			process.asked.Store(true) // no time is left to tell it to end
			g.dismiss(context.Background(), process)
		}
		if _, err := g.Kill(context.Background(), instance); err != nil && !errors.Is(err, ErrNotRunning) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, g.endNeeds())
	g.sampling()
	g.watching.Wait()
	g.spawner.close()
	if err := g.guard.close(); err != nil {
		errs = append(errs, err)
	}
	// Processes that left their group on purpose are found by their environment.
	killRun(g.cfg.RunID)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return g.registry.remove()
}

// Build runs the build command, if there is one. Its output goes to build.log. The error repeats the last lines.
func (g *Group) Build(ctx context.Context) error {
	launch := g.cfg.Build
	if len(launch.Command) == 0 {
		return nil
	}
	if err := g.runToEnd(ctx, "build", launch); err != nil {
		return fmt.Errorf("building subject %s: %w", g.cfg.Name, err)
	}
	return nil
}

// Start starts an instance's next process. It does not wait until the process is ready; see WaitReady.
func (g *Group) Start(ctx context.Context, instance int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	slot := &g.slots[instance]
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if g.closed {
		return fmt.Errorf("starting instance %d of subject %s: the run is over", instance, g.cfg.Name)
	}
	if slot.process.alive() {
		return fmt.Errorf("starting instance %d of subject %s: %w (pid %d)", instance, g.cfg.Name, errRunning,
			slot.process.pid)
	}
	process, err := g.startProcess(instance, slot.runs)
	if err != nil {
		return fmt.Errorf("starting instance %d of subject %s: %w", instance, g.cfg.Name, err)
	}
	slot.process = process
	slot.runs++
	return nil
}

// Alive reports whether the instance has a process.
func (g *Group) Alive(instance int) bool { return g.process(instance).alive() }

// Crashed reports whether the instance's last process ended without being asked to by the harness.
func (g *Group) Crashed(instance int) bool {
	process := g.process(instance)
	return process != nil && !process.alive() && !process.exit.Expected
}

// Exited returns a channel that is closed when the instance's process has ended. Without a process the channel is
// closed already.
func (g *Group) Exited(instance int) <-chan struct{} {
	if process := g.process(instance); process != nil {
		return process.done
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

// Unhealthy returns a channel that is closed when the health of the instance's process has been bad for unhealthyFor;
// nil if there is no process.
func (g *Group) Unhealthy(instance int) <-chan struct{} {
	if process := g.process(instance); process != nil {
		return process.ailing
	}
	return nil
}

// StopUnhealthy is Stop for an unhealthy instance.
func (g *Group) StopUnhealthy(ctx context.Context, instance int) (Exit, error) {
	if process := g.process(instance); process != nil && !process.asked.Load() {
		process.restarting.Store(true)
	}
	return g.Stop(ctx, instance)
}

// Signal sends a signal to the instance's process group. After TERM or KILL its end is expected. Processes of the
// group that remain one grace period after the first process ended are killed.
func (g *Group) Signal(instance int, signal syscall.Signal) error {
	process := g.process(instance)
	if !process.alive() {
		return fmt.Errorf("sending %s to instance %d of subject %s: %w", signalName(signal), instance, g.cfg.Name,
			ErrNotRunning)
	}
	return g.signal(process, signal)
}

// Stop asks an instance to end with TERM, waits for its grace period, and then kills it. The time in which the instance
// waited for a processor meanwhile does not count, up to another grace period: otherwise a busy machine would leave
// open whether it would have ended. Stop returns how the instance ended, or ErrNotRunning. If ctx ends, the instance is
// killed at once.
func (g *Group) Stop(ctx context.Context, instance int) (Exit, error) {
	process := g.process(instance)
	if !process.alive() {
		return Exit{}, fmt.Errorf("stopping instance %d of subject %s: %w", instance, g.cfg.Name, ErrNotRunning)
	}
	if err := g.signal(process, syscall.SIGTERM); err != nil {
		return Exit{}, err
	}
	// A stopped process receives its TERM only when it continues.
	if process.paused.Load() {
		if err := g.signal(process, procgroup.Continue); err != nil {
			return Exit{}, err
		}
	}
	if g.ends(ctx, process) {
		return process.exit, nil
	}
	if ctx.Err() == nil {
		process.forced.Store(true)
		g.cfg.Log.Warn().Int("instance", instance).Stringer("waited", g.cfg.Grace).Msg(
			"the instance did not end after TERM, killing it")
	}
	return g.kill(process)
}

// ends waits until the process has ended, its grace period is over, or ctx ends. It reports whether it has ended.
func (g *Group) ends(ctx context.Context, p *process) bool {
	before := p.heldUp.Load()
	for waited, granted := time.Duration(0), g.cfg.Grace; waited < granted; {
		select {
		case <-p.done:
			return true
		case <-ctx.Done():
			return false
		case <-time.After(granted - waited):
		}
		waited = granted
		granted = g.cfg.Grace + min(time.Duration(p.heldUp.Load()-before), g.cfg.Grace)
	}
	return !p.alive()
}

// Kill ends an instance with KILL and waits until it is gone.
func (g *Group) Kill(_ context.Context, instance int) (Exit, error) {
	process := g.process(instance)
	if !process.alive() {
		return Exit{}, fmt.Errorf("killing instance %d of subject %s: %w", instance, g.cfg.Name, ErrNotRunning)
	}
	return g.kill(process)
}

func (g *Group) kill(p *process) (Exit, error) {
	if p.outside != nil {
		return g.killOutside(p)
	}
	// The process may end by itself meanwhile; that is not an error.
	if err := g.signal(p, syscall.SIGKILL); err != nil && !errors.Is(err, ErrNotRunning) {
		return Exit{}, err
	}
	if err := p.waitKilled(); err != nil {
		return Exit{}, fmt.Errorf("killing instance %d of subject %s: %w", p.instance, g.cfg.Name, err)
	}
	<-p.done
	return p.exit, nil
}

// End ends an instance with TERM (see Stop) or KILL and returns its exit code, -1 if a signal ended it.
func (g *Group) End(ctx context.Context, instance int, signal syscall.Signal) (code int, err error) {
	end := g.Stop
	if signal == syscall.SIGKILL {
		end = g.Kill
	}
	exit, err := end(ctx, instance)
	return exit.Code, err
}

// Pause stops an instance (on) or lets it continue. It returns when the system confirms it.
func (g *Group) Pause(ctx context.Context, instance int, on bool) error {
	signal := procgroup.Continue
	if on {
		signal = procgroup.Stop
	}
	if err := g.Signal(instance, signal); err != nil {
		return err
	}
	process := g.process(instance)
	if process.outside != nil {
		return nil // its command has run, and there is nothing to look at
	}
	for process.alive() {
		if is, err := process.standsStill(ctx); err == nil && is == on {
			break
		}
		if !pause(ctx, time.Millisecond) {
			return fmt.Errorf("pausing instance %d of subject %s: %w", instance, g.cfg.Name, context.Cause(ctx))
		}
	}
	return nil
}

// Revive starts an instance that is not running, and waits until it is ready.
func (g *Group) Revive(ctx context.Context, instance int) error {
	if err := g.Start(ctx, instance); err != nil && !errors.Is(err, errRunning) {
		return err
	}
	return g.WaitReady(ctx, instance)
}

// Restart stops an instance (see Stop), starts it again and waits until it is ready.
func (g *Group) Restart(ctx context.Context, instance int) error {
	if _, err := g.Stop(ctx, instance); err != nil && !errors.Is(err, ErrNotRunning) {
		return err
	}
	return g.Revive(ctx, instance)
}

// StopAll stops all running instances concurrently.
func (g *Group) StopAll(ctx context.Context) error {
	errs := make([]error, len(g.slots))
	var stopping sync.WaitGroup
	for instance := range g.slots {
		stopping.Go(func() {
			if process := g.process(instance); process.alive() && process.outside != nil {
				g.dismiss(ctx, process)
				return
			}
			if _, err := g.Stop(ctx, instance); !errors.Is(err, ErrNotRunning) {
				errs[instance] = err
			}
		})
	}
	stopping.Wait()
	return errors.Join(errs...)
}

func (g *Group) process(instance int) *process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.slots[instance].process
}

// pause waits for d. It returns false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
