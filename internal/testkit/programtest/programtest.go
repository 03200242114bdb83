// Package programtest builds dlqbench for the tests of other packages: the harness starts the program as guard,
// consumer and replay tool. It must not know what those tests do with it.
package programtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// variable is where Main tells Path, in the same process, what it has built.
const variable = "DLQBENCH_TEST_PROGRAM"

// Main builds the program and runs a package's tests. It returns the exit code: os.Exit(programtest.Main(m)).
func Main(m *testing.M) int {
	program, err := Build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.Setenv(variable, program); err != nil {
		fmt.Fprintln(os.Stderr, "telling the tests where the program is:", err)
		return 1
	}
	return m.Run()
}

// Path is the program that Main has built.
func Path() string { return os.Getenv(variable) }

// Build returns the path of the program in Go's build cache.
func Build() (path string, err error) { return Link("github.com/dlqbench/dlqbench/cmd/dlqbench") }

// Link returns the path of a program in Go's build cache, where go run keeps what it links: it is linked once for all
// packages that ask for it. The flags are those of go build. One asks at a time, as Go writes a program twice that two
// ask for, and a file that is being written can't be started.
func Link(program string, flags ...string) (path string, err error) {
	cache, err := output("env", "GOCACHE")
	if err != nil {
		return "", err
	}
	unlock, err := lockedfile.MutexAt(filepath.Join(cache, "dlqbench-test.lock")).Lock()
	if err != nil {
		return "", fmt.Errorf("waiting until no other test builds %s: %w", program, err)
	}
	defer unlock()
	run := slices.Concat([]string{"run", "-exec=echo"}, flags, []string{program})
	path, err = output(run...)
	if err == nil && !strings.HasPrefix(path, cache) {
		// go run has just linked it, and names a temporary file. The next one finds the program in the cache.
		path, err = output(run...)
	}
	return path, err
}

// output is what the go command prints.
func output(arguments ...string) (string, error) {
	command := exec.Command("go", arguments...)
	var problems strings.Builder
	command.Stderr = &problems
	printed, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(arguments, " "), err, &problems)
	}
	return strings.TrimSpace(string(printed)), nil
}
