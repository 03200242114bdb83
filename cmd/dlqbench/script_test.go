package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/dlqbench/dlqbench/internal/testkit/programtest"
)

// The scripts run the real program, built once. It starts itself as the consumer, the replay tool and the subprocess
// reaper, which a test binary that only pretends to be dlqbench could not. The test also builds the consumer with
// planted bugs and one that crashes.
func TestMain(m *testing.M) {
	// Under nohup the tests start with SIGHUP ignored, and the programs that they start would inherit that and respect
	// it. A signal that is handled here has its default action there.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	// These tests mostly wait for runs, whose loads are small: more of them fit side by side than there are processors.
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set("5")
	}
	// The logs of the programs must not fold when the tests run in CI.
	for _, name := range []string{"GITHUB_ACTIONS", "GITLAB_CI", "JENKINS_URL"} {
		_ = os.Unsetenv(name)
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	path := os.Getenv("PATH")
	for _, program := range []string{".", "./testdata/crasher"} {
		built, err := programtest.Link(program, buildFlags()...)
		if err != nil {
			fmt.Fprintln(os.Stderr, "building the programs for the scripts:", err)
			return 1
		}
		path = filepath.Dir(built) + string(os.PathListSeparator) + path
	}
	os.Setenv("PATH", path)
	return m.Run()
}

// raceSettings is the environment variable of the race detector's settings.
const raceSettings = "GORACE"

func TestScripts(t *testing.T) { runScripts(t, "testdata/script") }

// TestSlowScripts runs the scripts that start many runs, or wait for sessions of Kafka: make test-scripts.
func TestSlowScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("they take minutes: make test-scripts")
	}
	runScripts(t, "testdata/slowscript")
}

// runScripts runs the scripts in a folder. Each one's own folder contains the files of testdata/share.
func runScripts(t *testing.T, dir string) {
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			env.Setenv(raceSettings, os.Getenv(raceSettings))
			return os.CopyFS(env.WorkDir, os.DirFS("testdata/share"))
		},
		Condition: func(condition string) (bool, error) {
			if condition != "root" {
				return false, fmt.Errorf("unknown condition %q", condition)
			}
			return os.Geteuid() == 0, nil // TestDiskTrouble covers as root what the scripts cannot
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      cmdExits,
			"vanished":   cmdVanished,
			"cut":        cmdCut,
			"overwrite":  cmdOverwrite,
			"shown":      cmdShown,
			"kafka":      cmdKafka,
			"letters":    cmdLetters,
			"badletters": cmdBadLetters,
			"sql":        cmdSQL,
			"topic":      cmdTopic,
			"await":      cmdAwait,
			"killed":     cmdKilled,
		},
	})
}

// cmdExits implements "exits CODE COMMAND [ARG…]": it runs a command and checks its exit code.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG…]")
	}
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("running %v: %v", args[1:], err)
		}
		code = exit.ExitCode()
	}
	if got := fmt.Sprint(code); got != args[0] {
		ts.Fatalf("%v exited with %s, want %s", args[1:], got, args[0])
	}
}

// cmdVanished implements "vanished TEXT": it waits until no process has the text in its command line, and fails if one
// still has after ten seconds.
func cmdVanished(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: vanished TEXT")
	}
	left := waitVanished(func(p process) bool { return strings.Contains(p.command, args[0]) })
	for _, p := range left {
		ts.Logf("left: %d %s", p.pid, p.command)
	}
	if len(left) > 0 {
		ts.Fatalf("%d processes are left", len(left))
	}
}

// cmdCut implements "cut FILE BYTES": it cuts a file to its first bytes.
func cmdCut(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cut FILE BYTES")
	}
	var size int64
	_, err := fmt.Sscan(args[1], &size)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), size))
}

// cmdOverwrite implements "overwrite FILE…": it overwrites the middle third of files with one byte.
func cmdOverwrite(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: overwrite FILE…")
	}
	for _, arg := range args {
		data, err := os.ReadFile(ts.MkAbs(arg))
		ts.Check(err)
		for i := len(data) / 3; i < 2*len(data)/3; i++ {
			data[i] = 0xA5
		}
		ts.Check(os.WriteFile(ts.MkAbs(arg), data, 0o644))
	}
}

// cmdShown implements "shown FILE": it queries the record of a show-record trace again, by the trace's ids of the run
// and of the record, then by its position. The last answer is left as stdout.
func cmdShown(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: shown FILE")
	}
	found := regexp.MustCompile(`input-(\d+) @ (\d+)  (DLQB\S+)\nrun (\S+),`).FindStringSubmatch(ts.ReadFile(args[0]))
	if found == nil {
		ts.Fatalf("%s is no trace", args[0])
	}
	for _, record := range []string{found[3], "input/" + found[1] + "/" + found[2]} {
		ts.Check(ts.Exec("dlqbench", "show-record", found[4], record))
	}
}

// process is one process of the machine, as reported by ps.
type process struct {
	pid              int
	command, environ string
}

// waitVanished waits up to ten seconds until no process matches, and returns those that are left.
func waitVanished(want func(process) bool) (left []process) {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left = nil
		for _, p := range processes() {
			if want(p) {
				left = append(left, p)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
	}
}
