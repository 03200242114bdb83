package process

import (
	"os/exec"
	"runtime"
	"syscall"

	"github.com/dlqbench/dlqbench/internal/env/procgroup"
)

// Starter starts commands so that they end when dlqbench does, however it ends. The caller waits for the command,
// and then calls ended.
type Starter interface {
	Start(cmd *exec.Cmd) (ended func(), err error)
}

// direct is the default Starter. Each process gets its own group, and on Linux the kernel kills it when this process
// is gone.
type direct struct{}

// Start keeps a thread for the process: Linux kills a child when the thread that started it ends, and Go ends
// threads at any time.
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
