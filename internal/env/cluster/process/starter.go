package process

import (
	"os/exec"
	"runtime"
	"syscall"

	"github.com/dlqbench/dlqbench/internal/env/procgroup"
)

// Starter starts commands so that they end when dlqbench does, whatever ends it. The caller waits for the command, and
// calls ended then.
type Starter interface {
	Start(cmd *exec.Cmd) (ended func(), err error)
}

// direct is the Starter of those who have none: each process gets a group of its own, and on Linux the kernel kills it
// when this process is gone.
type direct struct{}

// Start keeps a thread for the process: Linux kills a child when the thread that started it ends, and Go ends threads
// as it likes.
func (direct) Start(cmd *exec.Cmd) (ended func(), err error) {
	cmd.SysProcAttr = procgroup.Child(syscall.SIGKILL, nil)
	started, over, gone := make(chan error), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		runtime.LockOSThread()
		started <- cmd.Start()
		<-over
	}()
	ended = func() { close(over); <-gone }
	if err := <-started; err != nil {
		ended()
		return nil, err
	}
	return ended, nil
}
