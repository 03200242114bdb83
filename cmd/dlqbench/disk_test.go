package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// Writes fail for all processes, because files may not exceed a few blocks. Whichever file fails first, the program
// reports it in a sentence, does not panic, and does not report a pass that was not recorded.
func TestFileSizeLimit(t *testing.T) {
	t.Parallel()
	for _, blocks := range []int{2, 16, 64} { // of 512 or 1024 bytes, depending on the shell
		t.Run(fmt.Sprint(blocks), func(t *testing.T) {
			t.Parallel()
			command := exec.Command("sh", "-c", fmt.Sprintf("ulimit -f %d; exec dlqbench run tiny.yaml --quiet", blocks))
			command.Dir = folder(t)
			out, _ := command.CombinedOutput() // the exit code is checked instead
			output, code := string(out), command.ProcessState.ExitCode()
			if code != exitEnvironment || !strings.Contains(output, "file too large") {
				t.Errorf("the exit code is %d, want %d and a sentence about a file that is too large:\n%s", code, exitEnvironment,
					output)
			}
			if strings.Contains(output, "goroutine ") {
				t.Errorf("it panicked:\n%s", output)
			}
		})
	}
}
