//go:build !windows

package subject

// On Windows no process is started, so these tests do not apply.
//
// The test binary runs itself in every role of a run: a subject with one of several behaviours, the subprocess
// reaper, and a whole harness that gets killed.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/history"
)

const (
	roleVariable = "SUBJECT_TEST_ROLE"
	// quickExit keeps a binary with the race detector from sleeping for a second when it exits.
	quickExit = "GORACE=atexit_sleep_ms=0"
)

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		goleak.VerifyTestMain(m)
		return
	}
	// No child may outlive the tests, not even one whose harness is under test.
	time.AfterFunc(2*time.Minute, func() { os.Exit(99) })
	play(role)
}

// play acts out a role and exits.
func play(role string) {
	switch role {
	case "guard":
		os.Exit(GuardMain(os.Stdin, nil))
	case "harness":
		playHarness()
	case "obedient":
		term := onTerm()
		fmt.Println("up and running")
		<-term
		fmt.Println("orderly end")
	case "slow":
		term := onTerm()
		fmt.Println("up and running")
		<-term
		time.Sleep(100 * time.Millisecond)
		fmt.Println("orderly end")
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("up and running")
		select {}
	case "crashing":
		fmt.Println("connecting")
		fmt.Fprintln(os.Stderr, "ERROR no route to broker")
		os.Exit(3)
	case "environment":
		fmt.Println("env", strings.Join(os.Environ(), "\nenv "))
		dir, _ := os.Getwd()
		fmt.Println("dir", dir)
		term := onTerm()
		fmt.Println("up and running")
		<-term
	case "stand-in":
		playStandIn()
	case "hungry":
		playHungry()
	case "managed":
		playManaged()
	case "wrapper", "managing", "orphaning", "escaping", "launching":
		playParent(role)
	case "chatty":
		line := strings.Repeat("x", 1023) + "\n"
		out := bufio.NewWriter(os.Stdout)
		for range 52 << 10 {
			out.WriteString(line)
		}
		out.WriteString("the last line\n")
		out.Flush()
	}
	os.Exit(0)
}

func onTerm() <-chan os.Signal {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	return term
}

// playParent is a subject behind another process, as behind a shell script. It writes the other process's pid.
func playParent(role string) {
	var term <-chan os.Signal
	if role != "wrapper" {
		term = onTerm()
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), roleVariable+"="+map[string]string{
		"wrapper": "slow", "managing": "managed", "orphaning": "stubborn", "escaping": "stubborn", "launching": "hungry",
	}[role])
	child.Stdout = os.Stdout
	orders, err := child.StdinPipe()
	if err != nil {
		fmt.Println("FATAL", err)
		os.Exit(1)
	}
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: role == "escaping" || role == "launching"}
	if err := child.Start(); err != nil {
		fmt.Println("FATAL", err)
		os.Exit(1)
	}
	fmt.Println("other pid", child.Process.Pid)
	if role == "orphaning" {
		return
	}
	if role == "wrapper" {
		// This process dies at once of the TERM, as a shell does; the real one takes a moment.
		select {}
	}
	<-term
	if role == "managing" {
		orders.Close()
		if err := child.Wait(); err != nil {
			fmt.Println("the process that it manages:", err)
			os.Exit(1)
		}
	}
}

// playManaged ends in order when the process that started it says so, and at once of a TERM, as one of Python's
// multiprocessing does.
func playManaged() {
	fmt.Println("up and running")
	_, _ = io.Copy(io.Discard, os.Stdin)
	time.Sleep(50 * time.Millisecond) // it has something left to do
	fmt.Println("orderly end")
}

// The resources that the hungry role has used when it reports that it is up.
const (
	hungryMemory = 64 << 20
	hungryTime   = 100 * time.Millisecond
)

// playHungry is a subject that uses memory and processor time before it is ready, and none after.
func playHungry() {
	memory := make([]byte, hungryMemory)
	for usage := (syscall.Rusage{}); time.Duration(usage.Utime.Nano()) < hungryTime; _ = syscall.Getrusage(
		syscall.RUSAGE_SELF, &usage) {
		for at := range memory {
			memory[at]++
		}
	}
	fmt.Println("up and running")
	<-onTerm()
	fmt.Println("used", len(memory))
}

// playHarness is a run with two instances, one of which has a child. It reports when all are up, and waits to be
// killed.
func playHarness() {
	dir := os.Getenv("SUBJECT_TEST_DIR")
	sink := &events{}
	g, err := New(config(dir, sink, map[int]string{0: "obedient", 1: "escaping"}))
	if err != nil {
		fmt.Println("FATAL", err)
		os.Exit(1)
	}
	for instance := range 2 {
		if err := errors.Join(g.Start(context.Background(), instance),
			g.WaitReady(context.Background(), instance)); err != nil {
			fmt.Println("FATAL", err)
			os.Exit(1)
		}
	}
	fmt.Println("all up")
	select {}
}

// events is a sink that keeps everything.
type events struct {
	mu  sync.Mutex
	all []history.Event
}

func (e *events) Record(event history.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

func (e *events) of(kind history.Kind) []history.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []history.Event
	for _, event := range e.all {
		if event.Kind == kind {
			found = append(found, event)
		}
	}
	return found
}

// config returns the configuration of a group whose instances play these roles.
func config(dir string, sink history.Sink, roles map[int]string) Config {
	executable, _ := os.Executable()
	return Config{
		Name: "tested", RunID: "run-" + strings.ReplaceAll(dir, "/", "-"), Instances: len(roles), LogDir: dir, RunDir: dir,
		Grace: 5 * time.Second, GuardCommand: []string{"/usr/bin/env", roleVariable + "=guard", quickExit, executable},
		Render: func(instance int, run uint16) (Launch, error) {
			return Launch{
				Command: []string{executable}, Dir: dir, Ready: Ready{Log: readyLine},
				Env: []string{roleVariable + "=" + roles[instance], fmt.Sprintf("SAID_RUN=%d", run), quickExit},
			}, nil
		},
		Clock: history.NewClock(), Sink: sink, Log: zerolog.Nop(),
	}
}
