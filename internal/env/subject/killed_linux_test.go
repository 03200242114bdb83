package subject

// Tests of the case that dlqbench itself is killed. They look for processes in /proc.

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

func TestNothingSurvivesTheHarness(t *testing.T) {
	_, pids := killedHarness(t, nil)
	for _, pid := range pids {
		wait.Until(t, "the end of "+strconv.Itoa(pid), func() bool { return startToken(pid) == "" })
	}
}

// Reaper and harness are killed together. Direct children die by the death signal; Sweep must find the rest.
func TestSweepFindsWhatTheGuardCouldNot(t *testing.T) {
	dir, pids := killedHarness(t, func([]int) {
		for _, pid := range guardsOf(t) {
			must.Do(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	})
	file := filepath.Join(dir, RegistryFile)
	for _, pid := range registered(t, file) {
		wait.Until(t, "the end of instance "+strconv.Itoa(pid), func() bool { return startToken(pid) == "" })
	}
	killed, err := Sweep(file)
	if err != nil || len(killed) == 0 {
		t.Fatalf("swept %v, %v", killed, err)
	}
	for _, pid := range pids {
		wait.Until(t, "the end of "+strconv.Itoa(pid), func() bool { return startToken(pid) == "" })
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the registry is left: %v", err)
	}
	if killed, err := Sweep(file); killed != nil || err != nil {
		t.Errorf("the second sweep found %v, %v", killed, err)
	}
}

// registered returns the processes in a registry.
func registered(t *testing.T, file string) (pids []int) {
	t.Helper()
	var content registryFile
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &content)
	}
	if err != nil || len(content.Processes) != 2 {
		t.Fatalf("the registry has %+v, %v; want two instances", content, err)
	}
	for _, process := range content.Processes {
		pids = append(pids, process.PID)
	}
	return pids
}

// guardsOf returns the reapers of harnesses that this test has started: grandchildren that play "guard".
func guardsOf(t *testing.T) (guards []int) {
	t.Helper()
	for pid := range allProcesses() {
		environment, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err != nil || !containsVariable(environment, roleVariable+"=guard") {
			continue
		}
		parent, ok := parentOf(pid)
		if grandparent, known := parentOf(parent); ok && known && grandparent == os.Getpid() {
			guards = append(guards, pid)
		}
	}
	return guards
}

func TestSweepLeavesOthersAlone(t *testing.T) {
	g, _ := group(t, nil, "obedient")
	g.up(t, 0)
	pid := g.process(0).pid
	file := filepath.Join(t.TempDir(), "processes.json")
	write := func(content registryFile) {
		t.Helper()
		data, err := json.Marshal(content)
		if err == nil {
			err = os.WriteFile(file, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	sweep := func(what string) {
		t.Helper()
		if killed, err := Sweep(file); len(killed) != 0 || err != nil {
			t.Errorf("%s: killed %v, %v", what, killed, err)
		}
		if startToken(pid) == "" {
			t.Fatalf("%s: the process is gone", what)
		}
	}
	write(registryFile{RunID: "another-run", Processes: []entry{{PID: pid, PGID: pid, Start: "another start"}}})
	sweep("the same id, another start, another run")
	write(registryFile{RunID: "another-run", Processes: []entry{{PID: pid, PGID: pid}}})
	sweep("no start known")
	write(registryFile{RunID: "another-run", Processes: []entry{{PID: 1, PGID: 1}, {PID: 0, PGID: 0},
		{PID: -1, PGID: -1}}})
	sweep("the ids that mean everything")

	self := os.Getpid()
	write(registryFile{RunID: g.cfg.RunID, Owner: entry{PID: self, Start: startToken(self)},
		Processes: []entry{{PID: pid, PGID: pid, Start: startToken(pid)}}})
	if killed, err := Sweep(file); !errors.Is(err, ErrRunActive) || killed != nil {
		t.Errorf("a run that goes on was swept: %v, %v", killed, err)
	}
	must.Do(t, os.WriteFile(file, []byte("{"), 0o600))
	if _, err := Sweep(file); err == nil {
		t.Error("half a registry was swept without an error")
	}
	write(registryFile{RunID: "another-run", Processes: []entry{{PID: pid, PGID: pid, Start: startToken(pid)}}})
	if killed, err := Sweep(file); err != nil || len(killed) != 1 || killed[0] != pid {
		t.Errorf("the very process was not swept: %v, %v", killed, err)
	}
}
