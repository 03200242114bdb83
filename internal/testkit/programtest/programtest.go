// Package programtest builds dlqbench for the tests of other packages: the harness starts the program as guard,
// consumer and replay tool. It must not know what those tests do with it.
package programtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// variable is where Main tells Path, in the same process, what it has built.
const variable = "DLQBENCH_TEST_PROGRAM"

// Main builds the program, runs a package's tests and removes it again. It returns the exit code:
// os.Exit(programtest.Main(m)).
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "dlqbench-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, "making a folder for the program:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program, err := Build(dir)
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

// Build builds the program in the folder and returns its path.
func Build(dir string) (path string, err error) {
	path = filepath.Join(dir, "dlqbench")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/dlqbench/dlqbench/cmd/dlqbench").
		CombinedOutput(); err != nil {
		return "", fmt.Errorf("building dlqbench for the tests: %w\n%s", err, out)
	}
	return path, nil
}
