package main

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/dlqbench/dlqbench/internal/gate"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/scenarios"
)

// gateScript is the script that every CI runs. actionScript has the steps of the GitHub Action around it.
const (
	repositoryRoot = "../.."
	gateScript     = "ci/gate.sh"
	actionScript   = "ci/action.sh"
)

// shell runs the script in a folder with only the given environment. The PATH gets the standard directories.
func shell(t *testing.T, script, dir string, environment []string, arguments ...string) (code int, output string) {
	t.Helper()
	command := exec.Command("sh", append([]string{script}, arguments...)...)
	command.Dir, command.Env = dir, environment
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), string(out)
}

// tools makes a folder with fake programs, given as pairs of name and script, and links to the few real ones that the
// script needs.
func tools(t *testing.T, programs ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(programs); i += 2 {
		must.Do(t, os.WriteFile(filepath.Join(dir, programs[i]), []byte("#!/bin/sh\n"+programs[i+1]+"\n"), 0o755))
	}
	for _, name := range []string{"sh", "dirname", "grep", "cp"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("there is no %s", name)
		}
		must.Do(t, os.Symlink(path, filepath.Join(dir, name)))
	}
	return dir
}

func script(t *testing.T) string {
	t.Helper()
	path := must.Get(filepath.Abs(filepath.Join(repositoryRoot, gateScript)))(t)
	return path
}

// The settings become flags, whatever they contain. The exit code is the gate's.
func TestGateScriptSettings(t *testing.T) {
	t.Parallel()
	path := "PATH=" + tools(t, "dlqbench", `for word; do printf '<%s>' "$word"; done; exit 99`)
	for _, test := range []struct {
		name      string
		settings  []string
		arguments []string
		code      int
		want      string
	}{
		{"none", nil, nil, 99, "<gate>"},
		{"flags", nil, []string{"--list", "a b"}, 99, "<gate><--list><a b>"},
		{"all", []string{"DLQBENCH_CONFIG=a b.yaml", "DLQBENCH_ARTIFACTS=$(x)", "DLQBENCH_SHARD=2/3",
			"DLQBENCH_FAIL_FAST=true"}, []string{"--out", "r"}, 99,
			"<gate><--fail-fast><--shard><2/3><--artifacts><$(x)><--config><a b.yaml><--out><r>"},
		{"empty ones", []string{"DLQBENCH_CONFIG=", "DLQBENCH_ARTIFACTS=", "DLQBENCH_SHARD=", "DLQBENCH_FAIL_FAST=",
			"DLQBENCH_VERSION="}, nil, 99, "<gate>"},
		{"fail fast is false", []string{"DLQBENCH_FAIL_FAST=false"}, nil, 99, "<gate>"},
		{"fail fast is neither", []string{"DLQBENCH_FAIL_FAST=yes"}, nil, exitUsage,
			"DLQBENCH_FAIL_FAST is yes: write true or false"},
		{"a version for nothing", []string{"DLQBENCH_VERSION=v1"}, nil, 99, "DLQBENCH_VERSION=v1 is not looked at"},
	} {
		code, out := shell(t, script(t), t.TempDir(), append(test.settings, path), test.arguments...)
		if code != test.code || !strings.Contains(out, test.want) {
			t.Errorf("%s: exit code %d, want %d with %s:\n%s", test.name, code, test.code, test.want, out)
		}
	}
}

// Without a dlqbench the script builds one with go install, and prints its source. If that is impossible, it says what
// is missing.
func TestGateScriptBuilds(t *testing.T) {
	t.Parallel()
	fake := `case "$1 $2" in
"env GOBIN") ;;
"env GOPATH") echo "$GOPATH" ;;
*) echo "[$CGO_ENABLED go $* in $PWD]"; mkdir -p "$GOPATH/bin" && cp "$FAKE" "$GOPATH/bin/dlqbench" ;;
esac`
	folder := t.TempDir()
	program := filepath.Join(folder, "program")
	must.Do(t, os.WriteFile(program, []byte("#!/bin/sh\necho \"built and run: $*\"\n"), 0o755))
	mkdir, err := exec.LookPath("mkdir")
	if err != nil {
		t.Skip("there is no mkdir")
	}
	withGo := tools(t, "go", strings.Replace(fake, "mkdir", mkdir, 1))
	environment := func(more ...string) []string {
		return append(more, "PATH="+withGo, "GOPATH="+t.TempDir(), "FAKE="+program)
	}
	root := must.Get(filepath.EvalSymlinks(filepath.Dir(filepath.Dir(script(t)))))(t)
	code, out := shell(t, script(t), folder, environment(), "--list")
	if code != 0 || !strings.Contains(out, "[0 go install ./cmd/dlqbench in "+root+"]") ||
		!strings.Contains(out, "built and run: gate --list") || !strings.Contains(out, "gate.sh: building") {
		t.Errorf("from its own source: exit code %d\n%s", code, out)
	}
	code, out = shell(t, script(t), folder, environment("DLQBENCH_VERSION=v1.2.3"), "--list")
	if code != 0 || !strings.Contains(out, "go install github.com/dlqbench/dlqbench/cmd/dlqbench@v1.2.3 in") {
		t.Errorf("a version: exit code %d\n%s", code, out)
	}

	// A copy in a user's repository is not part of dlqbench's source.
	copied := filepath.Join(t.TempDir(), "ci", "gate.sh")
	text, err := os.ReadFile(script(t))
	if err = errors.Join(err, os.Mkdir(filepath.Dir(copied), 0o755), os.WriteFile(copied, text, 0o755)); err != nil {
		t.Fatal(err)
	}
	code, out = shell(t, copied, folder, environment())
	if code != exitEnvironment || !strings.Contains(out, "set DLQBENCH_VERSION") ||
		strings.Contains(out, "go install ") && strings.Contains(out, "[0 go") {
		t.Errorf("a copy without a version: exit code %d\n%s", code, out)
	}
	code, out = shell(t, script(t), folder, []string{"PATH=" + tools(t)})
	if code != exitEnvironment || !strings.Contains(out, "no dlqbench on the PATH, and no go to build one") {
		t.Errorf("without go: exit code %d\n%s", code, out)
	}
	failing := tools(t, "go", `[ "$1" = env ] || exit 1; echo /nowhere`)
	if code, out = shell(t, script(t), folder, []string{"PATH=" + failing}); code != exitEnvironment {
		t.Errorf("a build that fails: exit code %d\n%s", code, out)
	}
}

// This test uses the real program, as a CI does.
func TestGateScript(t *testing.T) {
	t.Parallel()
	dir := folder(t, "dlqbench.yaml", "scenarios: [tiny.yaml]\nsubjects: good.yaml\n")
	code, out := shell(t, script(t), dir, append(os.Environ(), "DLQBENCH_SHARD=1/1", "DLQBENCH_ARTIFACTS=kept"))
	if code != exitPass || !strings.Contains(out, "GATE PASS") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "kept", "junit.xml")); err != nil {
		t.Error("there is no junit.xml among the artifacts")
	}
}

// Every target that .ci/run runs in PARTS, so only a part of it with each commit, is run whole each night.
func TestNightRunsWhatACommitRunsInParts(t *testing.T) {
	t.Parallel()
	nightly := readPage(t, ".github/workflows/nightly.yml")
	whole := map[string]string{"prove-runs": "prove"} // with more seeds
	commit := readPage(t, ".ci/run")
	targets := regexp.MustCompile(`make ([a-z-]+)[^\n]* PARTS=`).FindAllStringSubmatch(commit, -1)
	if all := strings.Count(commit, "PARTS="); len(targets) == 0 || len(targets) != all {
		t.Fatalf("%d of %d targets in PARTS were found in .ci/run: %q", len(targets), all, targets)
	}
	for _, target := range targets {
		name := cmp.Or(whole[target[1]], target[1])
		if !regexp.MustCompile(`(?m)(^ +- |make )` + name + `( |$)`).MatchString(nightly) {
			t.Errorf("nightly.yml does not run %s", name)
		}
	}
}

// action is the action.yml of a composite action, with the keys that GitHub documents.
type action struct {
	Name        string            `yaml:"name"`
	Description string            `yaml:"description"`
	Author      string            `yaml:"author"`
	Branding    map[string]string `yaml:"branding"`
	Inputs      map[string]struct {
		Description string  `yaml:"description"`
		Default     *string `yaml:"default"`
	} `yaml:"inputs"`
	Outputs map[string]struct {
		Description string `yaml:"description"`
		Value       string `yaml:"value"`
	} `yaml:"outputs"`
	Runs struct {
		Using string       `yaml:"using"`
		Steps []actionStep `yaml:"steps"`
	} `yaml:"runs"`
}

type actionStep struct {
	ID    string            `yaml:"id"`
	Name  string            `yaml:"name"`
	If    string            `yaml:"if"`
	Shell string            `yaml:"shell"`
	Dir   string            `yaml:"working-directory"`
	Env   map[string]string `yaml:"env"`
	Run   string            `yaml:"run"`
	Uses  string            `yaml:"uses"`
	With  map[string]string `yaml:"with"`
}

// The action is valid for GitHub and uses only declared inputs. Inputs reach commands only through the environment.
func TestAction(t *testing.T) {
	t.Parallel()
	data := must.Get(os.ReadFile(filepath.Join(repositoryRoot, "action.yml")))(t)
	var one action
	must.Do(t, yaml.UnmarshalWithOptions(data, &one, yaml.DisallowUnknownField()))
	if one.Name == "" || one.Description == "" || one.Runs.Using != "composite" || len(one.Runs.Steps) == 0 {
		t.Errorf("it is no composite action: %+v", one)
	}
	var used []string
	for _, found := range regexp.MustCompile(`inputs\.([a-z-]+)`).FindAllStringSubmatch(string(data), -1) {
		used = append(used, found[1])
		if _, there := one.Inputs[found[1]]; !there {
			t.Errorf("there is no input %s", found[1])
		}
	}
	for name, input := range one.Inputs {
		if input.Description == "" || input.Default == nil || !slices.Contains(used, name) {
			t.Errorf("the input %s is not described, has no default or is not used", name)
		}
	}
	var scripts []byte
	for _, name := range []string{gateScript, actionScript} {
		text := must.Get(os.ReadFile(filepath.Join(repositoryRoot, name)))(t)
		scripts = append(scripts, text...)
		if info, err := os.Stat(filepath.Join(repositoryRoot, name)); err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("%s can't be executed (%v)", name, err)
		}
	}
	pinned := regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40}$`)
	for _, step := range one.Runs.Steps {
		if (step.Run == "") == (step.Uses == "") || step.Run != "" && step.Shell == "" {
			t.Errorf("the step %s needs run and shell, or uses", step.Name)
		}
		if strings.Contains(step.Run, "${{") {
			t.Errorf("what somebody else writes gets into the command of %s", step.Name)
		}
		if step.Run != "" && !strings.Contains(step.Run, "$GITHUB_ACTION_PATH/"+actionScript) {
			t.Errorf("the step %s does not run %s", step.Name, actionScript)
		}
		if step.Uses != "" && !pinned.MatchString(step.Uses) {
			t.Errorf("the step %s uses %s, which is not pinned to a commit", step.Name, step.Uses)
		}
		for name := range step.Env {
			if !strings.Contains(string(scripts), name) && name != "GH_TOKEN" {
				t.Errorf("the scripts do not know %s", name)
			}
		}
	}
	for name, output := range one.Outputs {
		if output.Description == "" || !strings.Contains(output.Value, "steps.gate.outputs."+name) {
			t.Errorf("the output %s is not described or not that of the gate", name)
		}
	}
}

// The snippets for other CIs on the page about the gate are valid, and run the same script with settings that it knows.
func TestSnippets(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile(filepath.Join(repositoryRoot, "docs", "gate.md")))(t)
	text := must.Get(os.ReadFile(script(t)))(t)
	snippets := regexp.MustCompile("(?s)```(yaml|groovy|sh)\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	withScript, suites := 0, 0
	for _, snippet := range snippets {
		if snippet[1] == "yaml" {
			var decoded any
			if err := yaml.Unmarshal([]byte(snippet[2]), &decoded); err != nil {
				t.Errorf("this does not decode: %v\n%s", err, snippet[2])
			}
		}
		if strings.Contains(snippet[2], gateScript) {
			withScript++
		}
		if strings.HasPrefix(snippet[2], "subjects:") {
			suites++
			checkSuite(t, snippet[2])
		}
		for _, name := range regexp.MustCompile(`DLQBENCH_[A-Z_]+`).FindAllString(snippet[2], -1) {
			if !strings.Contains(string(text), name) {
				t.Errorf("the script does not know %s", name)
			}
		}
	}
	if withScript < 2 || suites == 0 {
		t.Errorf("%d snippets run %s, want those of GitLab CI and Jenkins; %d are suites", withScript, gateScript, suites)
	}
}

// checkSuite validates a suite against its schema.
func checkSuite(t *testing.T, text string) {
	t.Helper()
	schema := must.Get(gate.Schema())(t)
	strict, err := scenarios.DecodeStrict("docs/gate.md", []byte(text), schema, &gate.Config{})
	if err == nil {
		err = strict.Err()
	}
	if err != nil {
		t.Error(err)
	}
}
