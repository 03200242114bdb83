package browsertest

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the browser and all its helpers one group of processes that is killed as one.
func ownGroup(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
}
