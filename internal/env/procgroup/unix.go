//go:build unix

package procgroup

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Stop freezes a process, Continue thaws it.
const (
	Stop     = syscall.SIGSTOP
	Continue = syscall.SIGCONT
)

// Supported reports what this system lacks to run consumers and to inject process faults.
func Supported() error { return nil }

func group() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Session starts a process in its own session, where the terminal's signals do not reach it.
func Session() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// Own returns the id of this process's group.
func Own() int { return syscall.Getpgrp() }

// Signal signals all processes of a group. The error is syscall.ESRCH if none is left. Signal 0 only checks.
func Signal(group int, signal syscall.Signal) error { return syscall.Kill(-group, signal) }

// SignalProcess signals one process.
func SignalProcess(pid int, signal syscall.Signal) error { return syscall.Kill(pid, signal) }

// SignalName returns the signal's name, such as "SIGTERM"; "" for one without a name.
func SignalName(signal syscall.Signal) string { return unix.SignalName(signal) }

// ProcessorTime returns the processor time that this process has used since it began.
func ProcessorTime() (used time.Duration, known bool) {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0, false
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), true
}
