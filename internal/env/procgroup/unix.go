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

// Supported says what this system lacks to run consumers and to inject faults of processes.
func Supported() error { return nil }

func group() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Session starts a process in a session of its own: signals of the terminal do not reach it.
func Session() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// Own is the id of the group that this process is in.
func Own() int { return syscall.Getpgrp() }

// Signal signals all processes of a group; syscall.ESRCH if none is left. Signal 0 only asks.
func Signal(group int, signal syscall.Signal) error { return syscall.Kill(-group, signal) }

// Kill kills one process.
func Kill(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }

// SignalName returns "SIGTERM" for that signal, "" for one that has no name.
func SignalName(signal syscall.Signal) string { return unix.SignalName(signal) }

// ProcessorTime is how much this process has used since it began.
func ProcessorTime() (used time.Duration, known bool) {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0, false
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), true
}
