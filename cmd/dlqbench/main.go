// Command dlqbench judges the retry and dead-letter handling of Kafka consumers. This folder contains flags, signals
// and exit codes, and no logic: internal/run and the packages it names implement the commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/rs/zerolog/log"
)

func main() { os.Exit(execute(os.Args[1:])) }

// execute runs the command line and returns the exit code. The first interrupt ends the run in order (heal, seal,
// judge), the second one at once.
func execute(args []string) int {
	log.Logger = zerolog.Nop() // the toxics of toxiproxy log there
	app := &app{stdout: os.Stdout, stderr: os.Stderr, stdin: os.Stdin}
	ctx, stop := untilInterrupted(app.leave)
	defer stop()
	root := app.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil || errors.Is(err, syscall.EPIPE) { // a reader that closed our output has seen enough
		return app.code
	}
	app.complain(err)
	return worst(app.code, app.exitCode(ctx, err)) // the verdict stands even if it cannot be printed
}

// untilInterrupted returns a context that ends with the first SIGINT, SIGTERM or SIGHUP. The second signal ends the
// process at once, after leave has been called: the subprocess reaper and the kernel end its children, and `dlqbench
// check` can still judge the recorded history.
func untilInterrupted(leave func()) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	interrupts, pipes, done := make(chan os.Signal, 2), make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // under nohup, SIGHUP stays ignored
		signal.Notify(interrupts, syscall.SIGHUP)
	}
	// A closed pipe must not kill a run. SIGPIPE is caught, not ignored, because the subject would inherit that.
	signal.Notify(pipes, syscall.SIGPIPE)
	go func() {
		for range 2 {
			select {
			case <-interrupts:
			case <-done:
				return
			}
			if ctx.Err() != nil {
				leave()
				fmt.Fprintln(os.Stderr,
					"\ndlqbench: ended at once; dlqbench check judges what was recorded, and what is left is removed later")
				os.Exit(exitInterrupted)
			}
			cancel()
		}
	}()
	return ctx, func() {
		signal.Stop(interrupts)
		signal.Stop(pipes)
		close(done)
		cancel()
	}
}
