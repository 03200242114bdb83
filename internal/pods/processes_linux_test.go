package pods

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// podOf lists the given processes and this one, as the /proc of a pod does.
func podOf(t *testing.T, pids ...int) SharedProcesses {
	t.Helper()
	dir := t.TempDir()
	for _, pid := range append(pids, os.Getpid(), 1) {
		name := fmt.Sprint(pid)
		must.Do(t, os.Symlink(filepath.Join("/proc", name), filepath.Join(dir, name)))
	}
	return SharedProcesses{Proc: dir}
}

func started(t *testing.T) *exec.Cmd {
	t.Helper()
	command := exec.Command("sleep", "600")
	must.Do(t, command.Start())
	t.Cleanup(func() { _ = command.Process.Kill() })
	return command
}

// Signals reach all processes of the pod but the first and the sidecar, and STOP and CONT are in effect when it is said.
func TestSharedProcesses(t *testing.T) {
	one, other := started(t), started(t)
	pod := podOf(t, one.Process.Pid, other.Process.Pid)
	states := func() string {
		all := must.Get(pod.list())(t)
		var states []string
		for _, process := range all {
			states = append(states, process.state)
		}
		return strings.Join(states, " ")
	}
	for _, act := range []struct{ signal, want string }{{"STOP", "T T"}, {"CONT", "S S"}, {"CONT", "S S"}} {
		must.Do(t, pod.Signal(act.signal))
		if act.signal == "CONT" { // a process that continues is running first
			wait.Until(t, "the processes to sleep again", func() bool { return states() == act.want })
		}
		if got := states(); got != act.want {
			t.Errorf("after %s the states are %s", act.signal, got)
		}
	}
	must.Do(t, pod.Signal("KILL"))
	_ = one.Wait()
	_ = other.Wait()
	if err := pod.Signal("KILL"); err == nil || !strings.Contains(err.Error(), "has no process in the pod") {
		t.Errorf("killing nobody: %v", err)
	}
	if err := pod.Signal("CONT"); err != nil {
		t.Errorf("continuing nobody: %v", err)
	}
}

// A name of a process may have spaces and parentheses, and zombies have ended.
func TestProcessNames(t *testing.T) {
	dir := t.TempDir()
	for pid, stat := range map[string]string{"20": "20 (a) (b c) S 1 0", "21": "21 (z) Z 1 0"} {
		must.Do(t, os.MkdirAll(filepath.Join(dir, pid), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(dir, pid, "stat"), []byte(stat), 0o600))
	}
	got, err := SharedProcesses{Proc: dir}.list()
	if err != nil || len(got) != 1 || got[0] != (process{20, "S"}) {
		t.Errorf("the processes are %v, %v", got, err)
	}
}
