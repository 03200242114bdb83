package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// examples returns each example line of a command, with continued lines joined.
func examples(command *cobra.Command) (lines []string) {
	for line := range strings.Lines(strings.ReplaceAll(command.Example, "\\\n", " ")) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// commands returns the command and everything below it, except commands that only the program itself calls.
func commands(command *cobra.Command) (all []*cobra.Command) {
	if command.Hidden {
		return nil
	}
	all = append(all, command)
	for _, child := range command.Commands() {
		all = append(all, commands(child)...)
	}
	return all
}

// Every command has a help text with examples that work. Examples that need only a folder with a run are executed by a
// shell. For the others, the flags and arguments are checked.
func TestExamples(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	if code, out := dlqbench(t, dir, "run", "tiny.yaml", "--quiet"); code != exitPass {
		t.Fatalf("the run for the examples: exit code %d\n%s", code, out)
	}
	repository := must.Get(filepath.Abs("../.."))(t)
	must.Do(t, os.Symlink(filepath.Join(repository, "examples"), filepath.Join(dir, "examples")))
	must.Do(t, os.MkdirAll(filepath.Join(dir, "services", "orders"), 0o755))
	// These need brokers, a download, a store with dead letters, other files, or minutes. clean comes last, because it
	// removes the run.
	checkedOnly := map[string]bool{
		"dlqbench": true, "run": true, "bench": true, "compare": true, "drill": true, "gate": true, "prove": true,
		"parity": true, "kafka": true, "consume": true, "replay": true, "inspect": true, "dlq": true, "clean": true,
		"learn": true, "demo": true, "campaign": true,
	}
	root := (&app{}).root()
	for _, command := range commands(root) {
		lines := examples(command)
		needy := checkedOnly[command.Name()]
		for one := command; one.HasParent() && one.Parent() != root; one = one.Parent() {
			needy = needy || checkedOnly[one.Parent().Name()]
		}
		if len(lines) == 0 {
			t.Errorf("%s has no example", command.CommandPath())
		}
		for _, line := range lines {
			checkFlags(t, line)
			if !needy {
				carryOut(t, dir, line)
			}
		}
	}
	carryOut(t, dir, "dlqbench clean --all")
}

// checkFlags parses an example's flags and arguments as the program would.
func checkFlags(t *testing.T, line string) {
	t.Helper()
	// The shell splits the line: a function of this name prints the arguments that dlqbench would get.
	command := exec.Command("sh", "-c", `dlqbench() { for word; do printf '%s\n' "$word"; done >&3; }; exec 3>&1; `+line)
	command.Dir, command.Env = t.TempDir(), append(os.Environ(), "GITHUB_STEP_SUMMARY=step-summary")
	out, err := command.Output()
	if err != nil {
		t.Errorf("%s: it is no shell command: %v", line, err)
		return
	}
	words := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	meant, rest, err := (&app{}).root().Find(words)
	if err == nil {
		err = meant.ParseFlags(rest)
	}
	if err == nil {
		err = meant.ValidateArgs(meant.Flags().Args())
	}
	if err != nil {
		t.Errorf("%s: %v", line, err)
	}
}

func carryOut(t *testing.T, dir, line string) {
	t.Helper()
	command := exec.Command("sh", "-c", line)
	command.Dir = dir
	command.Env = append(os.Environ(), "GITHUB_STEP_SUMMARY="+filepath.Join(dir, "step-summary"))
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", line, err, out)
	}
}

// Every command has a help text.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, command := range commands((&app{}).root()) {
		arguments := append(strings.Fields(command.CommandPath())[1:], "--help")
		if code, out := dlqbench(t, t.TempDir(), arguments...); code != exitPass ||
			!strings.Contains(out, "Usage:") || !strings.Contains(out, "Examples:") {
			t.Errorf("%v: exit code %d\n%s", arguments, code, out)
		}
	}
}
