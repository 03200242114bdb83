package pods

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// podOf lists the given processes and this one, as the /proc of a pod does.
func podOf(t *testing.T, pids ...int) SharedProcesses {
	t.Helper()
	dir := t.TempDir()
	for _, pid := range append(pids, os.Getpid(), 1) {
		name := fmt.Sprint(pid)
		if err := os.Symlink(filepath.Join("/proc", name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return SharedProcesses{Proc: dir}
}

func started(t *testing.T) *exec.Cmd {
	t.Helper()
	command := exec.Command("sleep", "600")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() })
	return command
}

// Signals reach all processes of the pod but the first and the sidecar, and STOP and CONT are in effect when it is said.
func TestSharedProcesses(t *testing.T) {
	one, other := started(t), started(t)
	pod := podOf(t, one.Process.Pid, other.Process.Pid)
	states := func() string {
		all, err := pod.list()
		if err != nil {
			t.Fatal(err)
		}
		var states []string
		for _, process := range all {
			states = append(states, process.state)
		}
		return strings.Join(states, " ")
	}
	for _, act := range []struct{ signal, want string }{{"STOP", "T T"}, {"CONT", "S S"}, {"CONT", "S S"}} {
		if err := pod.Signal(act.signal); err != nil {
			t.Fatal(err)
		}
		if act.signal == "CONT" { // a process that continues is running first
			wait.Until(t, "the processes to sleep again", func() bool { return states() == act.want })
		}
		if got := states(); got != act.want {
			t.Errorf("after %s the states are %s", act.signal, got)
		}
	}
	if err := pod.Signal("KILL"); err != nil {
		t.Fatal(err)
	}
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
		if err := os.MkdirAll(filepath.Join(dir, pid), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, pid, "stat"), []byte(stat), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := SharedProcesses{Proc: dir}.list()
	if err != nil || len(got) != 1 || got[0] != (process{20, "S"}) {
		t.Errorf("the processes are %v, %v", got, err)
	}
}
