// Package containers_test judges a consumer that runs in containers, as a user would have it judged. It needs Linux and
// a container engine, and is asked for with DLQBENCH_DOCKER_TESTS=1 (.ci/docker.sh).
package containers_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/internal/testkit/programtest"
)

const (
	image = "dlqbench-test/consumer:1"
	// limit bounds everything that the tests wait for.
	limit = 4 * time.Minute
)

// rig is dlqbench as a program, and a subject file.
type rig struct {
	*testing.T
	program, out, subject string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	if os.Getenv("DLQBENCH_DOCKER_TESTS") != "1" {
		t.Skip("skipped: needs a container engine; .ci/docker.sh starts one and sets DLQBENCH_DOCKER_TESTS=1")
	}
	dir := t.TempDir()
	r := &rig{T: t, out: filepath.Join(dir, "runs"), subject: filepath.Join(dir, "subject.yaml")}
	var err error
	if r.program, err = programtest.Build(); err != nil {
		t.Fatal(err)
	}
	r.run("../../examples/go", "go", "build", "-o", filepath.Join(dir, "consumer"), ".")
	for _, name := range []string{"Dockerfile", "paused.yaml"} {
		r.write(name, r.read(filepath.Join("testdata", name)))
	}
	r.run(dir, "docker", "build", "--quiet", "--tag", image, dir)
	// What the example promises, and another way to start it.
	_, contract, found := strings.Cut(r.read("../../examples/go/subject.yaml"), "contract:")
	if !found {
		t.Fatal("the example has no contract")
	}
	r.write("subject.yaml", "name: contained\nkind: container\nimage: "+image+"\ncontract:"+contract)
	return r
}

func (r *rig) read(path string) string {
	r.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		r.Fatal(err)
	}
	return string(data)
}

func (r *rig) write(name, text string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(filepath.Dir(r.subject), name), []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) run(dir, program string, arguments ...string) string {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	command := exec.CommandContext(ctx, program, arguments...)
	command.Dir, command.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	output, err := command.CombinedOutput()
	if err != nil {
		r.Fatalf("%s: %v\n%s", strings.Join(command.Args, " "), err, output)
	}
	return string(output)
}

func (r *rig) command(arguments ...string) (*exec.Cmd, *bytes.Buffer) {
	command := exec.Command(r.program, append(arguments, "--out", r.out)...)
	output := &bytes.Buffer{}
	command.Stdout, command.Stderr = output, output
	return command, output
}

// dlqbench runs it and returns its exit code and what it printed.
func (r *rig) dlqbench(arguments ...string) (code int, output string) {
	r.Helper()
	command, printed := r.command(arguments...)
	timer := time.AfterFunc(limit, func() { _ = command.Process.Kill() })
	defer timer.Stop()
	var exit *exec.ExitError
	if err := command.Run(); err != nil && !errors.As(err, &exit) {
		r.Fatal(err)
	}
	return command.ProcessState.ExitCode(), printed.String()
}

// left names the containers of runs.
func (r *rig) left() []string {
	r.Helper()
	return strings.Fields(r.run(".", "docker", "ps", "--all", "--filter", "label=dlqbench.run", "--format", "{{.Names}}"))
}

// A consumer in containers is judged like one that is a process, whatever is done to it, and nothing of it stays.
func TestConsumerInContainers(t *testing.T) {
	r := newRig(t)
	scenarios := []string{"consumer-kill", "term-during-backoff"}
	code, output := r.dlqbench(append([]string{"run", "--quiet", "--subject", r.subject}, scenarios...)...)
	if code != 0 || strings.Count(output, "PASS") != len(scenarios) {
		t.Errorf("exit code %d:\n%s", code, output)
	}
	code, output = r.dlqbench("run", "--quiet", filepath.Join(filepath.Dir(r.subject), "paused.yaml"))
	if code != 0 {
		t.Errorf("paused: exit code %d:\n%s", code, output)
	}
	if left := r.left(); len(left) > 0 {
		t.Errorf("containers are left: %v", left)
	}
	logs, err := filepath.Glob(filepath.Join(r.out, "2*", "logs", "instance-0.log"))
	if err != nil || len(logs) != len(scenarios)+1 {
		t.Errorf("logs of the instances: %v, %v", logs, err)
	}
}

// A consumer in a container calls the stub by TLS, with the run's authority, which is mounted into the container.
// Without it no attempt is seen, and the run does not pass.
func TestContainersTrustTheStub(t *testing.T) {
	r := newRig(t)
	r.write("subject.yaml", r.read(r.subject)+"downstreams: [{http: {tls: true}}]\nenv: {SSL_CERT_FILE: \"{{.CAFile}}\"}\n")
	if code, output := r.dlqbench("run", "--quiet", "--subject", r.subject, "term-during-backoff"); code != 0 {
		t.Errorf("exit code %d:\n%s", code, output)
	}
}

// A run that is killed outright takes its containers with it.
func TestNothingOutlivesAKilledRun(t *testing.T) {
	r := newRig(t)
	killed, output := r.command("run", "--quiet", "--subject", r.subject, "steady-load")
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	await := func(what string, done func() bool) {
		for deadline := time.Now().Add(limit); !done(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				_ = killed.Process.Kill()
				t.Fatalf("waited in vain: %s\n%s", what, output)
			}
		}
	}
	await("the containers run", func() bool { return len(r.left()) > 0 })
	if err := killed.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	await("the containers are gone", func() bool { return len(r.left()) == 0 })
}

func TestWhatKeepsContainersFromStarting(t *testing.T) {
	r := newRig(t)
	r.write("subject.yaml", "name: contained\nkind: container\nimage: localhost:1/nothing:0\n")
	if code, output := r.dlqbench("run", "--quiet", "--subject", r.subject, "smoke"); code != 3 ||
		!strings.Contains(output, "there is no image localhost:1/nothing:0") {
		t.Errorf("without an image: exit code %d:\n%s", code, output)
	}
	r.write("subject.yaml", "name: contained\nkind: container\nimage: "+image+"\ncommand: [/nothing]\n")
	if code, output := r.dlqbench("run", "--quiet", "--subject", r.subject, "smoke"); code != 3 ||
		!strings.Contains(output, "/nothing") {
		t.Errorf("with a command that is not there: exit code %d:\n%s", code, output)
	}
	t.Setenv("DOCKER_HOST", "unix:///nowhere.sock")
	if code, output := r.dlqbench("run", "--quiet", "--subject", r.subject, "smoke"); code != 3 ||
		!strings.Contains(output, "no container engine answers at unix:///nowhere.sock") {
		t.Errorf("without an engine: exit code %d:\n%s", code, output)
	}
}
