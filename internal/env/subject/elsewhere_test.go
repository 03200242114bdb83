//go:build !windows

package subject

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// insideVariable is the role of the process that a stand-in stands for. whereVariable is the file to which that
// process writes its pid.
const insideVariable, whereVariable = "SUBJECT_TEST_INSIDE", "SUBJECT_TEST_WHERE"

// playStandIn starts a process in a separate session and stands for it, as for a container. It must receive no
// signal.
func playStandIn() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGCONT)
	go func() {
		for one := range signals {
			fmt.Println("the stand-in gets", one)
		}
	}()
	inside := exec.Command(os.Args[0])
	inside.Env = append(os.Environ(), roleVariable+"="+os.Getenv(insideVariable))
	inside.Stdout, inside.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setsid: true}
	if err := inside.Start(); err != nil {
		fmt.Println("FATAL", err)
		os.Exit(125)
	}
	where := os.Getenv(whereVariable)
	if err := errors.Join(os.WriteFile(where+".new", []byte(strconv.Itoa(inside.Process.Pid)), 0o600),
		os.Rename(where+".new", where)); err != nil {
		os.Exit(125)
	}
	_ = inside.Wait()
	if status := inside.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		os.Exit(128 + int(status.Signal()))
	}
	os.Exit(inside.ProcessState.ExitCode())
}

// standing is the Elsewhere of a stand-in.
type standing struct {
	where   string
	removed bool
	// slow is how long a signal takes.
	slow time.Duration
}

func (s *standing) PID(ctx context.Context) (int, error) {
	for {
		if text, err := os.ReadFile(s.where); err == nil {
			return strconv.Atoi(string(text))
		}
		if !pause(ctx, time.Millisecond) {
			return 0, context.Cause(ctx)
		}
	}
}

func (s *standing) Signal(ctx context.Context, signal syscall.Signal) error {
	pid, err := s.PID(ctx)
	if err == nil {
		time.Sleep(s.slow)
		err = syscall.Kill(-pid, signal)
	}
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

func (s *standing) Frozen(ctx context.Context) (bool, error) {
	pid, err := s.PID(ctx)
	return stopped(pid), err
}

func (s *standing) Remove(ctx context.Context) error {
	s.removed = true
	if err := s.Signal(ctx, syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// standInGroup returns a group of one instance whose work is done elsewhere by a process with the role.
func standInGroup(t *testing.T, role string, change func(*Config)) (*Group, *events, *standing) {
	t.Helper()
	there := &standing{where: filepath.Join(t.TempDir(), "pid")}
	g, sink := group(t, func(cfg *Config) {
		render := cfg.Render
		cfg.Render = func(instance int, run uint16) (Launch, error) {
			launch, err := render(instance, run)
			launch.Env, launch.Elsewhere = append(launch.Env, insideVariable+"="+role, whereVariable+"="+there.where), there
			return launch, err
		}
		if change != nil {
			change(cfg)
		}
	}, "stand-in")
	return g, sink, there
}

func (s *standing) pid(t *testing.T) int {
	t.Helper()
	pid := must.Get(s.PID(t.Context()))(t)
	return pid
}

// Signals go to the process that does the work. The process that stands for it gets none of them.
func TestSignalsGoWhereTheWorkIsDone(t *testing.T) {
	g, _, there := standInGroup(t, "slow", nil)
	g.up(t, 0)
	if err := g.Pause(t.Context(), 0, true); err != nil || !stopped(there.pid(t)) {
		t.Fatalf("paused, but it runs: %v", err)
	}
	if err := g.Pause(t.Context(), 0, false); err != nil || stopped(there.pid(t)) {
		t.Fatalf("resumed, but it stands still: %v", err)
	}
	exit, err := g.Stop(t.Context(), 0)
	if err != nil || exit != (Exit{Expected: true}) {
		t.Fatalf("stopped with %+v, %v", exit, err)
	}
	log := g.log(t, 0)
	if !strings.Contains(log, "orderly end") || strings.Contains(log, "the stand-in gets") || !there.removed {
		t.Errorf("removed: %v; it wrote:\n%s", there.removed, log)
	}
	if err := g.Signal(0, syscall.SIGTERM); !errors.Is(err, ErrNotRunning) {
		t.Errorf("signalled after its end: %v", err)
	}
}

func TestWhatRunsElsewhereIsKilled(t *testing.T) {
	g, _, _ := standInGroup(t, "stubborn", func(cfg *Config) { cfg.Grace = 30 * time.Millisecond })
	g.up(t, 0)
	if exit, err := g.Stop(t.Context(), 0); err != nil ||
		exit != (Exit{Code: -1, Signal: "KILL", Expected: true, Forced: true}) {
		t.Errorf("it ended with %+v, %v", exit, err)
	}
}

// The time that a signal takes to be delivered does not count for the instance.
func TestLateSignalsAreNoted(t *testing.T) {
	g, sink, there := standInGroup(t, "slow", nil)
	there.slow = 2 * stallNoted
	g.up(t, 0)
	must.Get(g.Stop(t.Context(), 0))(t)
	for _, stall := range sink.of(history.KindStall) {
		if time.Duration(stall.Aux) >= there.slow && stall.Instance == 0 {
			return
		}
	}
	t.Errorf("noted are %v", sink.of(history.KindStall))
}

// If something else kills the process that stands for the work, the work ends too.
func TestNothingIsLeftElsewhere(t *testing.T) {
	g, _, there := standInGroup(t, "stubborn", nil)
	g.up(t, 0)
	token := startToken(there.pid(t))
	if err := syscall.Kill(g.process(0).pid, syscall.SIGKILL); err != nil || token == "" {
		t.Fatal(token, err)
	}
	<-g.Exited(0)
	wait.Until(t, "the work has ended", func() bool { return startToken(there.pid(t)) != token })
	if !g.Crashed(0) {
		t.Error("that nobody asked for it is not noted")
	}
}

// Files that another user must read are readable for others than the owner.
func TestFilesForElsewhereCanBeRead(t *testing.T) {
	for elsewhere, want := range map[Elsewhere]os.FileMode{nil: 0o600, &standing{}: 0o644} {
		launch := Launch{WorkDir: t.TempDir(), Files: map[string]string{"a/b": "text"}, Elsewhere: elsewhere}
		must.Do(t, writeFiles(launch))
		if info, err := os.Stat(filepath.Join(launch.WorkDir, "a/b")); err != nil || info.Mode().Perm() != want {
			t.Errorf("mode %v, want %v: %v", info.Mode(), want, err)
		}
	}
}
