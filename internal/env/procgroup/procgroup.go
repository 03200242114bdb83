// Package procgroup starts and signals process groups: a process together with all that it starts. What systems do
// differently is here and nowhere else; on Windows, Supported says what is missing.
package procgroup

import (
	"os/exec"
	"syscall"
)

// User is the account a process runs as, if it is not this process's own.
type User struct{ UID, GID uint32 }

// KillOnCancel starts the command in a group of its own, all of which is killed when the command's context ends.
func KillOnCancel(cmd *exec.Cmd) {
	cmd.SysProcAttr = group()
	cmd.Cancel = func() error { return Signal(cmd.Process.Pid, syscall.SIGKILL) }
}
