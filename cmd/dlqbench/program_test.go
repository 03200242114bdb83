package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// patience is the maximum duration of every wait in these tests. It suffices for a busy machine, and a passing test
// never waits that long in vain.
const patience = 60 * time.Second

// program is a dlqbench that runs in its own folder. Its log is read line by line.
type program struct {
	*testing.T
	dir     string
	command *exec.Cmd
	lines   chan string
	ended   chan struct{}
	code    int

	mu     sync.Mutex
	stderr strings.Builder
}

// start starts dlqbench in the folder with a complete log in the format for programs.
func start(t *testing.T, dir string, arguments ...string) *program {
	t.Helper()
	p := &program{T: t, dir: dir, lines: make(chan string, 10000), ended: make(chan struct{})}
	p.command = exec.Command("dlqbench", append(arguments, "--log-format", "json", "--log-level", "debug")...)
	p.command.Dir = dir
	stderr := must.Get(p.command.StderrPipe())(t)
	must.Do(t, p.command.Start())
	go func() {
		defer close(p.ended)
		p.read(stderr)
		_ = p.command.Wait() // the exit code is checked instead
		p.code = p.command.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		_ = p.command.Process.Kill()
		<-p.ended
	})
	return p
}

func (p *program) read(stderr io.Reader) {
	defer close(p.lines)
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		p.mu.Lock()
		p.stderr.WriteString(lines.Text() + "\n")
		p.mu.Unlock()
		p.lines <- lines.Text()
	}
}

func (p *program) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// waitFor waits until the log has a line with the text.
func (p *program) waitFor(text string) {
	p.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case line, open := <-p.lines:
			switch {
			case !open:
				p.Fatalf("it ended before it said %q:\n%s", text, p.log())
			case strings.Contains(line, text):
				return
			}
		case <-timer.C:
			p.Fatalf("it did not say %q:\n%s", text, p.log())
		}
	}
}

// waitForPhase waits until the run is in the phase.
func (p *program) waitForPhase(phase string) {
	p.Helper()
	p.waitFor(`"phase":"` + phase + `"`)
}

// waitForFile waits until a file of the newest run has the text in it.
func (p *program) waitForFile(name, text string) {
	p.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		data, _ := os.ReadFile(filepath.Join(p.dir, "runs", "latest", name))
		if strings.Contains(string(data), text) {
			return
		}
		select {
		case <-p.ended:
			p.Fatalf("it ended before %s said %q:\n%s", name, text, p.log())
		default:
		}
		if time.Now().After(deadline) {
			p.Fatalf("%s does not say %q; the log:\n%s", name, text, p.log())
		}
	}
}

func (p *program) signal(signal syscall.Signal) {
	p.Helper()
	if err := p.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.Fatal(err)
	}
}

// wantExit waits until the program has ended, and checks its exit code.
func (p *program) wantExit(code int, within time.Duration) {
	p.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	for lines := p.lines; ; {
		select {
		case _, open := <-lines: // the program must not wait for its reader
			if !open {
				lines = nil
			}
		case <-p.ended:
			if p.code != code {
				p.Fatalf("the exit code is %d, want %d:\n%s", p.code, code, p.log())
			}
			return
		case <-timer.C:
			p.Fatalf("it has not ended within %v:\n%s", within, p.log())
		}
	}
}

// run is the path of a file of the newest run.
func (p *program) run(name string) string { return filepath.Join(p.dir, "runs", "latest", name) }

// wantFiles checks whether the files of the newest run exist.
func (p *program) wantFiles(there bool, names ...string) {
	p.Helper()
	for _, name := range names {
		if _, err := os.Stat(p.run(name)); (err == nil) != there {
			p.Errorf("%s is there: %v, want %v", name, err == nil, there)
		}
	}
}

// runID is the id of the newest run.
func (p *program) runID() string {
	p.Helper()
	var header struct {
		RunID string `json:"run_id"`
	}
	data, err := os.ReadFile(p.run("history/header.json"))
	if err == nil {
		err = json.Unmarshal(data, &header)
	}
	if err != nil || header.RunID == "" {
		p.Fatalf("the run has no id: %v", err)
	}
	return header.RunID
}

// wantNoProcess waits until no process of the run is left.
func (p *program) wantNoProcess(runID string) {
	p.Helper()
	for _, left := range waitVanished(func(one process) bool {
		return strings.Contains(one.environ, "DLQBENCH_RUN_ID="+runID)
	}) {
		p.Errorf("process %d is left: %s", left.pid, left.command)
	}
}

// dlqbench runs a command to its end and returns its exit code and output.
func dlqbench(t *testing.T, dir string, arguments ...string) (code int, output string) {
	t.Helper()
	command := exec.Command("dlqbench", arguments...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), string(out)
}

// folder returns a new folder with testdata/share and the files, given as pairs of name and content.
func folder(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.CopyFS(dir, os.DirFS("testdata/share")))
	for i := 0; i < len(files); i += 2 {
		must.Do(t, os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o600))
	}
	return dir
}
