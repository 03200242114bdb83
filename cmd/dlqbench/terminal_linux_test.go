package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// terminal is a pseudo-terminal with a program on it.
type terminal struct {
	*testing.T
	master  *os.File
	command *exec.Cmd
	ended   chan struct{}

	mu  sync.Mutex
	out strings.Builder

	rows, columns int
	// resized are the sizes of the window, with the amount of output at the time of each change.
	resized []size
}

type size struct{ at, rows, columns int }

// onTerminal starts dlqbench on a terminal of 100 columns, as a shell would.
func onTerminal(t *testing.T, environ []string, arguments ...string) *terminal {
	t.Helper()
	return onTerminalIn(t, folder(t), environ, arguments...)
}

// onTerminalIn does the same in a given folder.
func onTerminalIn(t *testing.T, dir string, environ []string, arguments ...string) *terminal {
	t.Helper()
	master, slave := openTerminal(t)
	x := &terminal{T: t, master: master, command: exec.Command("dlqbench", arguments...), ended: make(chan struct{}),
		rows: 40, columns: 100}
	x.command.Dir = dir
	x.command.Env = append(append(os.Environ(), "TERM=xterm-256color", "NO_COLOR="), environ...)
	x.command.Stdin, x.command.Stdout, x.command.Stderr = slave, slave, slave
	x.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must.Do(t, x.command.Start())
	slave.Close()
	go func() {
		defer close(x.ended)
		chunk := make([]byte, 4096)
		for {
			n, err := master.Read(chunk)
			x.mu.Lock()
			x.out.Write(chunk[:n])
			x.mu.Unlock()
			if err != nil { // EIO: no process has the terminal open any more
				break
			}
		}
		_ = x.command.Wait() // the exit code is checked instead
	}()
	t.Cleanup(func() {
		_ = x.command.Process.Kill()
		<-x.ended
		master.Close()
	})
	return x
}

func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("SKIPPED: there is no pseudo-terminal here (%v), so what is on a terminal is not tested", err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100})
	}
	if err != nil {
		t.Fatal(err)
	}
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return master, slave
}

func (x *terminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.out.String()
}

func (x *terminal) waitFor(text string) {
	x.Helper()
	for deadline := time.Now().Add(patience); !strings.Contains(x.text(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			x.Fatalf("it did not show %q:\n%q", text, x.text())
		}
	}
}

func (x *terminal) wantExit(code int) {
	x.Helper()
	select {
	case <-x.ended:
	case <-time.After(patience):
		x.Fatalf("it has not ended:\n%q", x.text())
	}
	if got := x.command.ProcessState.ExitCode(); got != code {
		x.Errorf("the exit code is %d, want %d:\n%q", got, code, x.text())
	}
}

// screen returns the final content of the terminal. It emulates enough to follow the progress display.
func (x *terminal) screen() string {
	lines, row := []string{""}, 0
	put := func(text string) {
		for _, part := range strings.SplitAfter(text, "\n") {
			whole := strings.HasSuffix(part, "\n")
			lines[row] += strings.Trim(part, "\r\n")
			if whole {
				if row++; row == len(lines) {
					lines = append(lines, "")
				}
			}
		}
	}
	text := x.text()
	sequence := regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)
	for text != "" {
		at := sequence.FindStringIndex(text)
		if at == nil {
			put(text)
			break
		}
		put(text[:at[0]])
		switch command := text[at[0]:at[1]]; {
		case command == "\x1b[2K":
			lines[row] = ""
		case command == "\x1b[1A":
			row--
		case strings.HasSuffix(command, "m"):
		default:
			x.Errorf("an unknown sequence: %q", command)
		}
		text = text[at[1]:]
	}
	return strings.Join(lines, "\n")
}

// On a terminal the progress is redrawn in place. Ctrl-C ends the run in order and leaves the terminal clean.
func TestTerminal(t *testing.T) {
	t.Parallel()
	x := onTerminal(t, nil, "run", "tiny.yaml", "--set", "workload.duration=5m")
	x.waitFor("steady")
	x.waitFor(" s / 300.2 s") // the time of the load, and the progress bar
	must.Get(x.master.Write([]byte{3}))(t)
	x.wantExit(exitInterrupted)
	screen := x.screen()
	if strings.Contains(screen, "░") || strings.Contains(screen, "sent ") {
		t.Errorf("the progress is left on the screen:\n%s", screen)
	}
	for _, want := range []string{"WRN interrupted: healing, ending and judging", " INCONCLUSIVE  tiny\n",
		"\ndlqbench: tiny: interrupted; what there was has been sealed and judged\n"} {
		if !strings.Contains(screen, want) {
			t.Errorf("the screen does not show %q:\n%s", want, screen)
		}
	}
	if !strings.HasSuffix(screen, "\n") {
		t.Errorf("the next prompt would not begin a line:\n%s", screen)
	}
	if !strings.Contains(x.text(), "\x1b[1;") && !strings.Contains(x.text(), "\x1b[3") {
		t.Errorf("nothing is coloured:\n%q", x.text())
	}
}

// NO_COLOR removes the colours and nothing else.
func TestTerminalWithoutColor(t *testing.T) {
	t.Parallel()
	x := onTerminal(t, []string{"NO_COLOR=1"}, "run", "tiny.yaml", "--log-level", "info")
	x.wantExit(exitPass)
	if regexp.MustCompile(`\x1b\[[0-9;]*m`).MatchString(x.text()) {
		t.Errorf("there is colour:\n%q", x.text())
	}
	if !strings.Contains(x.screen(), " PASS  tiny\n") || strings.Contains(x.screen(), "░") {
		t.Errorf("the screen is:\n%s", x.screen())
	}
}
