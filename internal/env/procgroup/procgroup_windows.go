package procgroup

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Stop and Continue have the numbers of Linux; Windows has neither.
const (
	Stop     = syscall.Signal(19)
	Continue = syscall.Signal(18)
)

var errUnsupported = errors.New("Windows has neither the process groups nor the signals that running a consumer " +
	"needs: run this in WSL (docs/install.md); check, report, compare, explain, list, validate and init work here")

// Supported reports what this system lacks to run consumers and to inject process faults.
func Supported() error { return errUnsupported }

func group() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// Session starts a process that Ctrl-C in this console does not reach.
func Session() *syscall.SysProcAttr { return group() }

// Child starts a process that Ctrl-C in this console does not reach.
func Child(syscall.Signal, *User) *syscall.SysProcAttr { return group() }

// Own returns the id of this process: Windows has no groups.
func Own() int { return os.Getpid() }

// Signal kills one process, but not the processes that it started. Other signals are not supported.
func Signal(pid int, signal syscall.Signal) error {
	if signal != syscall.SIGKILL {
		return errUnsupported
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("finding process %d: %w", pid, err)
	}
	return errors.Join(process.Kill(), process.Release())
}

// SignalProcess does the same.
func SignalProcess(pid int, signal syscall.Signal) error { return Signal(pid, signal) }

// SignalName returns Go's name of the signal.
func SignalName(signal syscall.Signal) string { return signal.String() }

// ProcessorTime is not measured here.
func ProcessorTime() (used time.Duration, known bool) { return 0, false }
