package subject

// The subprocess reaper (guard) is a separate process that outlives this one just long enough to kill the processes
// it leaves behind. It receives the process groups through a pipe. When this process is gone, for whatever reason,
// the pipe ends and the reaper does its work. On Linux the children die with their parent anyway, but grandchildren
// do not; on other systems none do.
//
//	+123      process group 123 was started
//	-123      it is gone
//	run ID    processes that carry this run id in their environment belong to the run
//	elsewhere the run has work done in containers too

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dlqbench/dlqbench/internal/env/procgroup"
)

// GuardMain is the main function of the subprocess reaper. It reads process groups from stdin, kills those that are
// left when stdin ends, and returns the exit code. If the run has work done elsewhere, sweep ends that.
func GuardMain(stdin io.Reader, sweep func(runID string)) int {
	// Ctrl-C reaches every process of a terminal. The reaper must outlive the process it guards.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	groups, runID, elsewhere := readGuarded(stdin)
	for group := range groups {
		_ = procgroup.Signal(group, syscall.SIGKILL)
	}
	killRun(runID)
	if elsewhere {
		sweep(runID)
	}
	return 0
}

// readGuarded returns the groups that are left to kill at the end of the input.
func readGuarded(stdin io.Reader) (groups map[int]bool, runID string, elsewhere bool) {
	groups = map[int]bool{}
	for lines := bufio.NewScanner(stdin); lines.Scan(); {
		line := lines.Text()
		if id, found := strings.CutPrefix(line, "run "); found {
			runID = id
			continue
		}
		elsewhere = elsewhere || line == "elsewhere"
		// A group is never 0 or 1: killing those would kill far more processes.
		group, err := strconv.Atoi(strings.TrimLeft(line, "+-"))
		switch {
		case err != nil || group <= 1:
		case line[0] == '+':
			groups[group] = true
		case line[0] == '-':
			delete(groups, group)
		}
	}
	return groups, runID, elsewhere
}

// killRun kills the processes that carry the run's id. It returns when none is left or none can be killed, with the
// ids of the killed processes.
func killRun(runID string) (killed []int) {
	if runID == "" {
		return nil
	}
	for range 50 {
		found := runProcesses(runID)
		if len(found) == 0 {
			break
		}
		for _, pid := range found {
			if procgroup.SignalProcess(pid, syscall.SIGKILL) == nil {
				killed = append(killed, pid)
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	slices.Sort(killed)
	return slices.Compact(killed)
}

// guard is this process's end of the pipe.
type guard struct {
	cmd *exec.Cmd

	mu   sync.Mutex
	pipe io.WriteCloser
}

func startGuard(command []string, runID string) (*guard, error) {
	if len(command) == 0 {
		return nil, errors.New("starting the guard that ends the subject's processes: no command for it is set")
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = CleanEnvironment(os.Environ())
	// In a separate session, signals to the terminal's processes do not reach the reaper.
	cmd.SysProcAttr = procgroup.Session()
	pipe, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting the guard that ends the subject's processes (%q): %w",
			strings.Join(command, " "), err)
	}
	g := &guard{cmd: cmd, pipe: pipe}
	g.tell("run " + runID)
	return g, nil
}

// tell writes one line. If the reaper itself was killed, the line is lost; other mechanisms still end the processes.
func (g *guard) tell(line string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _ = io.WriteString(g.pipe, line+"\n")
}

// close lets the reaper do its work and end.
func (g *guard) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pipe.Close()
	timer := time.AfterFunc(killLimit, func() { _ = g.cmd.Process.Kill() })
	defer timer.Stop()
	if err := g.cmd.Wait(); err != nil {
		return fmt.Errorf("ending the guard of the subject's processes: %w", err)
	}
	return nil
}
