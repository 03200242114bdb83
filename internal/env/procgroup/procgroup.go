// Package procgroup starts and signals process groups: a process together with all the processes that it starts.
// Only this package contains the differences between systems. On Windows, Supported reports what is missing.
package procgroup

import (
	"os/exec"
	"syscall"
)

// User is the account that a process runs as, if it is not this process's own.
type User struct{ UID, GID uint32 }

// KillOnCancel starts the command in its own group, which is killed as a whole when the command's context ends.
func KillOnCancel(cmd *exec.Cmd) {
	cmd.SysProcAttr = group()
	cmd.Cancel = func() error { return Signal(cmd.Process.Pid, syscall.SIGKILL) }
}
