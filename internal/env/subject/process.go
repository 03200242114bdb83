package subject

// The process of an instance: a child with the events of an instance.

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/procgroup"
)

type process struct {
	*child
	instance int
	run      uint16
	launch   Launch
	out      *output // nil if somebody else starts it
	paused   atomic.Bool
	// heldUp is how long it was seen to wait for a processor, in ns (see stall.go).
	heldUp atomic.Int64
	// ailing is closed when the health has been bad for unhealthyFor. restarting says that the process is ended for
	// that reason.
	ailing     chan struct{}
	restarting atomic.Bool
	// gone is when the goroutine that watches a stop observed that the group had ended, in ns of the run; 0 if it did
	// not.
	gone    atomic.Int64
	ready   sync.Once
	isReady atomic.Bool
	// done is closed when the process group has ended and its end is recorded.
	done chan struct{}
	// saidReady is closed when a line of the output matches Ready.Log.
	saidReady chan struct{}
	// notStarted receives the error of the user's command that was to start it.
	notStarted chan error
}

// alive reports whether any process of the group exists.
func (p *process) alive() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// startProcess starts and records run number run of an instance.
func (g *Group) startProcess(instance int, run uint16) (*process, error) {
	launch, err := g.cfg.Render(instance, run)
	if err != nil {
		return nil, err
	}
	p := &process{instance: instance, run: run, launch: launch, done: make(chan struct{}), saidReady: make(chan struct{}),
		ailing: make(chan struct{}), notStarted: make(chan error, 1)}
	if launch.Outside == nil {
		if err := g.prepare(p); err != nil {
			return nil, err
		}
	}
	if g.cfg.OnStart != nil {
		g.cfg.OnStart(instance, run)
	}
	// Stamped before the start, so that no action of the process can seem to precede it.
	starting := p.event(history.KindInstanceStarting, g.cfg.Clock.Now())
	if launch.Outside != nil {
		p.child = &child{grace: g.cfg.Grace, outside: &outsider{Outside: launch.Outside}, ended: make(chan struct{})}
	} else if p.child, err = g.start(instance, launch, p.out); err != nil {
		return nil, err
	}
	starting.Aux = int64(p.pid)
	g.cfg.Sink.Record(starting)
	if launch.Outside != nil {
		g.beginOutside(p)
	}
	if launch.Health != "" {
		g.watching.Go(func() { g.watchHealth(p) })
	}
	g.watching.Go(func() {
		<-p.child.ended
		if p.out != nil {
			g.noteLog(p)
		}
		g.noteExit(p)
		close(p.done)
	})
	return p, nil
}

// prepare checks and writes what a process needs before it is started, and opens the file of its output.
func (g *Group) prepare(p *process) error {
	if err := p.launch.Ready.free(); err != nil {
		return err
	}
	if err := writeFiles(p.launch); err != nil {
		return err
	}
	var err error
	p.out, err = newOutput(g.logPath(p.instance), p.launch.secrets(), g.cfg.Clock, p.launch.Ready.watch(p.saidReady),
		func(line []byte, code int16) { g.noteError(p, line, code) })
	return err
}

func (g *Group) logPath(instance int) string {
	name := fmt.Sprintf("instance-%d", instance)
	if g.cfg.LogName != nil {
		name = g.cfg.LogName(instance)
	}
	return filepath.Join(g.cfg.LogDir, name+".log")
}

// event returns an event of this process.
func (p *process) event(kind history.Kind, at time.Duration) history.Event {
	event := history.New(kind, at)
	event.Instance, event.Run = int16(p.instance), p.run
	return event
}

// signal records and sends a signal. The record comes first, so that effects of the signal cannot seem to precede
// it.
func (g *Group) signal(p *process, signal syscall.Signal) error {
	event := p.event(history.KindInstanceSignal, g.cfg.Clock.Now())
	event.Code, event.Text = int16(signal), signalName(signal)
	switch signal {
	case syscall.SIGTERM, syscall.SIGKILL, syscall.SIGINT:
		if p.restarting.Load() {
			event.N = 1
		}
		if !p.asked.Swap(true) {
			g.watching.Go(func() { g.seeEnd(p) })
		}
	case procgroup.Stop:
		p.paused.Store(true)
	case procgroup.Continue:
		p.paused.Store(false)
	}
	g.cfg.Sink.Record(event)
	if err := p.child.signal(signal); err != nil {
		return fmt.Errorf("sending %s to instance %d of subject %s (pid %d): %w", signalName(signal), p.instance, g.cfg.Name,
			p.pid, err)
	}
	if p.elsewhere != nil || p.outside != nil {
		g.noteDelivery(p, g.cfg.Clock.Now()-event.Time)
	}
	if p.outside != nil && p.asked.Load() {
		g.watching.Go(func() { g.seeLeft(p) })
	}
	return nil
}

// noteDelivery records how long a signal took to reach the place where the work is done. Until then the instance
// could not act on it, as if it had been stalled.
func (g *Group) noteDelivery(p *process, took time.Duration) {
	if took < stallNoted {
		return
	}
	event := p.event(history.KindStall, g.cfg.Clock.Now())
	event.Aux = int64(took)
	g.cfg.Sink.Record(event)
}

// goneEvery is the interval at which a process that was told to stop is checked.
const goneEvery = 5 * time.Millisecond

// seeEnd watches for the end of a process that was told to stop. A goroutine that waits for it in the kernel learns
// of the end only when its thread is given a processor and the runtime resumes it. On a busy machine that was
// observed to take more than a second, and the process would seem to have exceeded its grace period. A timer is
// served by any running thread.
func (g *Group) seeEnd(p *process) {
	pid := p.work()
	if pid == 0 {
		return // it ended before its location was known
	}
	token := startToken(pid)
	ticker := time.NewTicker(goneEvery)
	defer ticker.Stop()
	for token != "" && startToken(pid) == token || groupAlive(pid) {
		select {
		case <-p.child.ended:
			return
		case <-ticker.C:
		}
	}
	p.gone.Store(int64(g.cfg.Clock.Now()))
}

func (g *Group) noteExit(p *process) {
	event := p.event(history.KindInstanceExited, g.cfg.Clock.Now())
	if gone := time.Duration(p.gone.Load()); gone > 0 {
		event.Aux = int64(max(event.Time-gone, 0))
	}
	event.Code, event.Text = int16(p.exit.Code), p.exit.Signal
	if p.exit.Expected {
		event.Flags |= history.Expected
	} else {
		g.cfg.Log.Warn().Int("instance", p.instance).Stringer("exit", p.exit).Msg("the instance ended by itself")
	}
	g.cfg.Sink.Record(event)
}

func (g *Group) noteError(p *process, line []byte, code int16) {
	event := p.event(history.KindSubjectError, g.cfg.Clock.Now())
	event.Code, event.Text = code, cutText(line, errorText)
	g.cfg.Sink.Record(event)
}

// noteLog records how much of a process's output can be classified as error or not.
func (g *Group) noteLog(p *process) {
	event := p.event(history.KindSubjectLog, g.cfg.Clock.Now())
	event.N, event.Aux = int32(min(p.out.lines.Load(), math.MaxInt32)), p.out.stated.Load()
	g.cfg.Sink.Record(event)
}

// fileMode returns the mode of the files. Only the user who runs dlqbench may read them, because they may contain
// passwords. In a container, often another user reads them.
func (l Launch) fileMode() os.FileMode {
	if l.Elsewhere != nil {
		return 0o644
	}
	return 0o600
}

// folderMode returns the mode of the folders that contain the files.
func (l Launch) folderMode() os.FileMode { return l.fileMode() | l.fileMode()&0o444>>2 }

// writeFiles writes the files that the instance needs.
func writeFiles(launch Launch) error {
	if launch.WorkDir != "" {
		if err := os.MkdirAll(launch.WorkDir, launch.folderMode()); err != nil {
			return fmt.Errorf("making the folder of the instance: %w", err)
		}
	}
	for name, content := range launch.Files {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("writing file %q: its path must stay below the instance's work folder", name)
		}
		path := filepath.Join(launch.WorkDir, name)
		if err := os.MkdirAll(filepath.Dir(path), launch.folderMode()); err != nil {
			return fmt.Errorf("making the folder for %s: %w", name, err)
		}
		if err := os.WriteFile(path, []byte(content), launch.fileMode()); err != nil {
			return fmt.Errorf("writing a file for the instance: %w", err)
		}
	}
	return nil
}
