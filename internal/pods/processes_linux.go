package pods

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// SharedProcesses are the processes of a pod that shares them between its containers: all but the pod's first process
// and the sidecar itself.
type SharedProcesses struct {
	// Proc is where the processes are listed; "" means /proc.
	Proc string
	// Spared are further processes that get no signals.
	Spared []int
}

const (
	// settleLimit is how long processes may take to stop, and to continue. settleEvery is how often they are looked at.
	settleLimit, settleEvery = 5 * time.Second, 5 * time.Millisecond
)

// process is one that is not a zombie.
type process struct {
	pid int
	// state is that of proc(5), such as T.
	state string
}

// list lists the consumer's processes.
func (s SharedProcesses) list() ([]process, error) {
	root := cmp.Or(s.Proc, "/proc")
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("listing the processes of the pod: %w", err)
	}
	spared := map[int]bool{1: true, os.Getpid(): true}
	for _, pid := range s.Spared {
		spared[pid] = true
	}
	var found []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || spared[pid] {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(root, entry.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		// The name stands in parentheses and may have spaces; the state follows it.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) == 0 || string(fields[0]) == "Z" || string(fields[0]) == "X" {
			continue
		}
		found = append(found, process{pid, string(fields[0])})
	}
	return found, nil
}

// Signal sends KILL, STOP or CONT to all. It returns when STOP or CONT has taken effect on all.
func (s SharedProcesses) Signal(name string) error {
	signal := map[string]syscall.Signal{"KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}[name]
	for began := time.Now(); ; {
		all, err := s.list()
		if err != nil {
			return err
		}
		if len(all) == 0 && name != "CONT" {
			return errors.New("the consumer has no process in the pod: it has ended, or was not started yet")
		}
		left := 0
		for _, one := range all {
			if (name == "STOP" || name == "CONT") && (one.state == "T") == (name == "STOP") {
				continue
			}
			left++
			if err := syscall.Kill(one.pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("process %d: %w: the sidecar must run as the user of the consumer: write that user into the "+
					"manifest (securityContext: {runAsUser: …})", one.pid, err)
			}
		}
		if left == 0 || name == "KILL" {
			return nil
		}
		if time.Since(began) > settleLimit {
			return fmt.Errorf("%d processes have not followed %s for %s", left, name, settleLimit)
		}
		time.Sleep(settleEvery)
	}
}
