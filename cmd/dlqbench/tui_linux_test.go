package main

import (
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/sys/unix"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// shows is the present content of the terminal.
func (x *terminal) shows() *vt {
	x.Helper()
	v := newVT(x, x.rows, x.columns)
	at := 0
	text := x.text()
	for _, one := range x.resized { // earlier output was written to a window of another size
		v.resize(one.rows, one.columns)
		v.write(text[at:one.at])
		at = one.at
	}
	v.resize(x.rows, x.columns)
	v.write(text[at:])
	return v
}

// waitForScreen waits until the screen shows all of the texts.
func (x *terminal) waitForScreen(texts ...string) string {
	x.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		screen, missing := x.shows().text(), ""
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				missing = text
			}
		}
		if missing == "" {
			return screen
		}
		if time.Now().After(deadline) {
			x.Fatalf("the screen does not show %q:\n%s", missing, screen)
		}
	}
}

// waitForGone waits until the screen does not show the text any more.
func (x *terminal) waitForGone(text string) {
	x.Helper()
	for deadline := time.Now().Add(patience); strings.Contains(x.shows().text(), text); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			x.Fatalf("the screen still shows %q:\n%s", text, x.shows().text())
		}
	}
}

// resize changes the size of the window.
func (x *terminal) resize(rows, columns int) {
	x.Helper()
	x.resized = append(x.resized, size{len(x.text()), x.rows, x.columns})
	x.rows, x.columns = rows, columns
	must.Do(x, unix.IoctlSetWinsize(int(x.master.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Row: uint16(rows), Col: uint16(columns)}))
}

func (x *terminal) press(keys string) {
	x.Helper()
	must.Get(x.master.WriteString(keys))(x)
}

// cooked reports whether the terminal is in the mode that shells expect.
func (x *terminal) cooked() bool {
	x.Helper()
	settings := must.Get(unix.IoctlGetTermios(int(x.master.Fd()), unix.TCGETS))(x)
	return settings.Lflag&unix.ECHO != 0 && settings.Lflag&unix.ICANON != 0 && settings.Lflag&unix.ISIG != 0
}

// wantGivenBack checks that nothing of the view is left on the terminal.
func (x *terminal) wantGivenBack() {
	x.Helper()
	v := x.shows()
	if v.onAlt || v.hiddenCursor || !x.cooked() {
		x.Errorf("the terminal was not given back (alternate screen: %t, cursor hidden: %t, cooked: %t)", v.onAlt,
			v.hiddenCursor, x.cooked())
	}
}

// The view shows a run in progress, in windows of every size. Ctrl-C interrupts the run, and the terminal is restored.
func TestTUI(t *testing.T) {
	t.Parallel()
	x := onTerminal(t, nil, "run", "tiny.yaml", "--tui", "--log-level", "info", "--set", "workload.duration=5m", "--set",
		"faults=[{name: the-outage, at: 1s, for: 4m, downstream: {outage: true}}]")
	x.waitForScreen("dlqbench  tiny", "seed 0", "instance 0    running", "Events", "instance 0 is ready",
		"phase      steady", "Ctrl-C end the run")
	x.waitForScreen("✖ the-outage", "workload", "first attempt", "1 of 1 run", "fault    ", "p99", "▁")
	x.resize(24, 80)
	x.waitForScreen("dlqbench  tiny", "✖ the-outage", "instance 0    running", "Events")
	x.resize(10, 40)
	if screen := x.waitForScreen("dlqbench  tiny", "sent 1", "dead letters"); strings.Count(screen, "\n") > 9 {
		t.Errorf("it does not fit:\n%s", screen)
	}
	x.resize(40, 100)
	x.waitForScreen("first attempt", "phase      fault")
	x.press("?")
	x.waitForScreen("Keys", "a second time: at once")
	x.press("?")
	x.press("\x03")
	x.wantExit(exitInterrupted)
	x.wantGivenBack()
	screen := x.shows().text()
	for _, want := range []string{"dlqbench: tiny: interrupted; what there was has been sealed and judged"} {
		if !strings.Contains(screen, want) {
			t.Errorf("the screen does not show %q:\n%s", want, screen)
		}
	}
	// Log lines written meanwhile are not lost.
	if !strings.Contains(ansi.Strip(x.text()[strings.LastIndex(x.text(), "\x1b[?1049l"):]),
		"WRN interrupted: healing, ending and judging") {
		t.Errorf("the log is not there in the end:\n%s", screen)
	}
	if !x.shows().colored {
		t.Error("nothing is coloured")
	}
}

// The second Ctrl-C ends the program at once, and still restores the terminal.
func TestTUIEndsAtOnce(t *testing.T) {
	t.Parallel()
	x := onTerminalIn(t, folder(t, "subject.yaml", deaf), nil, "run", "tiny.yaml", "--tui", "--subject", "subject.yaml",
		"--set", "workload.duration=5m")
	x.waitForScreen("phase      steady")
	x.press("\x03")
	x.waitForScreen("interrupt again to end at once")
	x.press("\x03")
	x.wantExit(exitInterrupted)
	x.wantGivenBack()
}

// NO_COLOR removes the colours and nothing else. A run that ends by itself leaves its verdict on the terminal.
func TestTUIWithoutColor(t *testing.T) {
	t.Parallel()
	x := onTerminal(t, []string{"NO_COLOR=1"}, "run", "tiny.yaml", "--tui")
	x.waitForScreen("dlqbench  tiny", "Events")
	x.wantExit(exitPass)
	x.wantGivenBack()
	if !strings.Contains(x.shows().text(), " PASS  tiny\n") {
		t.Errorf("the screen is:\n%s", x.shows().text())
	}
	if found := regexp.MustCompile(`\x1b\[[0-9;]*[1-9][0-9;]*m`).FindString(x.text()); found != "" {
		t.Errorf("there is colour or style: %q", found)
	}
}

// If the view cannot be shown, nothing is started.
func TestTUINeedsATerminal(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	code, out := dlqbench(t, dir, "run", "tiny.yaml", "--tui")
	if code != exitUsage || !strings.Contains(out, "--tui needs a terminal") {
		t.Errorf("exit code %d: %s", code, out)
	}
	x := onTerminal(t, []string{"TERM=dumb"}, "run", "tiny.yaml", "--tui")
	x.wantExit(exitUsage)
	if !strings.Contains(x.text(), "TERM is dumb") {
		t.Errorf("it says %s", x.text())
	}
	y := onTerminal(t, nil, "run", "tiny.yaml", "--tui", "--quiet")
	y.wantExit(exitUsage)
	if _, err := os.Stat(dir + "/runs"); err == nil {
		t.Error("a run was begun")
	}
}

// A terminal that disappears ends the run in order, as it does without the view.
func TestTUIHangup(t *testing.T) {
	t.Parallel()
	x := onTerminal(t, nil, "run", "tiny.yaml", "--tui", "--set", "workload.duration=5m")
	x.waitForScreen("phase      steady")
	must.Do(t, x.command.Process.Signal(syscall.SIGHUP))
	x.wantExit(exitInterrupted)
	x.wantGivenBack()
}

// A whole drill with the keyboard alone: inject, notice, decide, lift, kill, restart, stop.
func TestTUIDrill(t *testing.T) {
	t.Parallel()
	x := onTerminal(t, nil, "drill", "tiny.yaml", "--tui", "--addr", "127.0.0.1:0", "--set", "workload.duration=5m")
	x.waitForScreen("open ", "b break", "H heal ALL", "instance 0    running")
	x.press("b")
	x.waitForScreen("Break what?", "network.latency")
	x.press("downstream.outage")
	x.waitForScreen("▸ downstream.outage")
	x.press("\r")
	x.waitForScreen("Break downstream.outage", "for")
	x.press("\r")
	x.waitForScreen("✖ ", "not noticed yet", "Injected: ")
	x.press("n")
	x.waitForScreen("I noticed something")
	x.press("nothing gets through\r")
	x.waitForScreen("noticed after", "nothing gets through")
	x.press("d")
	x.waitForScreen("Write down a decision")
	x.press("we heal it\r")
	x.waitForScreen("the injector: we heal it")
	x.press("h")
	x.waitForScreen("Heal what?", "▸ ")
	x.press("\r")
	x.waitForScreen("Healed")
	x.waitForGone("✖ ")
	x.press("k")
	x.waitForScreen("Kill which instance?", "▸ instance 0")
	x.press("\r")
	x.waitForScreen("instance 0    killed", "0 of 1 run")
	x.press("H")
	x.waitForScreen("everything is healed", "instance 0    running")
	x.press("s")
	x.waitForScreen("Scale the consumer", "1 run now")
	x.press("none\r")
	x.waitForScreen("is not a number of instances")
	x.press("\x1b")
	x.waitForGone("Scale the consumer") // followed by another key at once it would be read as Alt
	x.press("q")
	x.waitForScreen("End the drill", "yes, stop and judge")
	x.press("1\r")
	x.wantExit(exitPass)
	x.wantGivenBack()
	if screen := x.shows().text(); !strings.Contains(screen, "debrief: ") {
		t.Errorf("the screen is:\n%s", screen)
	}
}
