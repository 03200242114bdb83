package tui

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/internal/drill"
)

// opened opens a screen on pipes. The test may read its output or not.
func opened(t *testing.T, session Drill) (screen *Screen, out *os.File) {
	t.Helper()
	in, typed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, written, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	screen = Open(Options{In: in, Out: written, Interrupt: func() {}, Drill: session})
	t.Cleanup(func() {
		screen.Done()
		for _, file := range []*os.File{out, in, typed, written} {
			file.Close()
		}
		<-screen.ended
	})
	return screen, out
}

// reading collects the output.
type reading struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *reading) Write(data []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(data)
}

func (r *reading) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// Lines logged while the screen is open are written when it is closed, in order and completely. Later lines are written
// at once.
func TestLogsWait(t *testing.T) {
	defer goleak.VerifyNone(t)
	screen, out := opened(t, nil)
	drained := make(chan struct{})
	go func() { defer close(drained); _, _ = (&reading{}).text.ReadFrom(out) }()
	var stderr reading
	logs := screen.Around(&stderr)
	screen.Update(at(3))
	fmt.Fprint(logs, "first\nsec")
	fmt.Fprint(logs, "ond\n")
	if got := stderr.String(); got != "" {
		t.Errorf("the screen is torn by %q", got)
	}
	screen.Done()
	fmt.Fprint(logs, "third\n")
	if got := stderr.String(); got != "first\nsecond\nthird\n" {
		t.Errorf("what was logged is %q", got)
	}
	if err := screen.Err(); err != nil {
		t.Error(err)
	}
	screen.Done()
	out.Close()
	<-drained
}

// A terminal that stops reading blocks nothing.
func TestTerminalThatStops(t *testing.T) {
	if underRace {
		t.Skip("Program.Kill, the last resort for such a terminal, closes the file that its reader (muesli/cancelreader " +
			"0.2.2) reads: the detector tells of that race, which is the library's")
	}
	screen, _ := opened(t, running())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for second := range 100_000 {
			screen.Update(at(second % 100))
		}
		screen.program.Send(tea.WindowSizeMsg{Width: 2000, Height: 400})
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("who shows something waits for the terminal")
	}
	closed := make(chan struct{})
	go func() { screen.Done(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("who closes it waits for the terminal")
	}
}

// broken panics when its state is read.
type broken struct{ played }

func (*broken) State() drill.State { panic("a bug in what is shown") }

// A bug in the view ends the view, not the run, and the terminal is restored.
func TestViewThatPanics(t *testing.T) {
	// After a panic, bubbletea cancels its reader by a write to a pipe, and closes pipe and epoll without waiting for it.
	// If they are closed before the reader has seen the write, epoll has forgotten it, and the reader waits for ever.
	defer goleak.VerifyNone(t, goleak.IgnoreAnyFunction("charm.land/bubbletea/v2.(*Program).readLoop"),
		goleak.IgnoreAnyFunction("github.com/muesli/cancelreader.(*epollCancelReader).wait"))
	screen, out := opened(t, &broken{})
	var shown reading
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		chunk := make([]byte, 1<<16)
		for n, err := out.Read(chunk); err == nil; n, err = out.Read(chunk) {
			_, _ = shown.Write(chunk[:n])
		}
	}()
	select {
	case <-screen.ended:
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
	screen.Update(at(1))
	screen.Done()
	if err := screen.Err(); !errors.Is(err, tea.ErrProgramPanic) {
		t.Errorf("it says %v", err)
	}
	// Output to the terminal is lost if its other end is closed before it is read.
	for deadline := time.Now().Add(time.Minute); !strings.Contains(shown.String(), "?1049l") &&
		time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	out.Close()
	<-drained
	if on, off := strings.Count(shown.String(), "?1049h"), strings.Count(shown.String(), "?1049l"); on != off {
		t.Errorf("the alternate screen was taken %d times and left %d times", on, off)
	}
}
