package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// job is a job of GitHub Actions, as far as the scripts of action.yml see it.
type job struct {
	*testing.T
	dir, bin    string
	script      string
	environment []string
}

// newJob returns a job whose PATH has no dlqbench. Fake programs are given as pairs of name and script.
func newJob(t *testing.T, programs ...string) *job {
	t.Helper()
	script := must.Get(filepath.Abs(filepath.Join(repositoryRoot, actionScript)))(t)
	j := &job{T: t, dir: t.TempDir(), bin: t.TempDir(), script: script}
	path := []string{j.bin}
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(folder, "dlqbench")); err != nil {
			path = append(path, folder)
		}
	}
	for i := 0; i < len(programs); i += 2 {
		j.program(programs[i], programs[i+1])
	}
	j.environment = append(os.Environ(), "PATH="+strings.Join(path, string(os.PathListSeparator)), "RUNNER_TEMP="+j.dir,
		"GITHUB_OUTPUT="+j.file("output"), "GITHUB_PATH="+j.file("path"), "DLQBENCH_FOLDER="+j.file("bin"),
		"DLQBENCH_RELEASES="+j.file("releases"), "GITHUB_REPOSITORY=shop/orders", "CALLS="+j.file("calls"))
	return j
}

func (j *job) file(name string) string { return filepath.Join(j.dir, name) }

func (j *job) program(name, script string) {
	j.Helper()
	must.Do(j, os.WriteFile(filepath.Join(j.bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
}

func (j *job) write(name, text string) {
	j.Helper()
	must.Do(j, os.MkdirAll(filepath.Dir(j.file(name)), 0o755))
	must.Do(j, os.WriteFile(j.file(name), []byte(text), 0o600))
}

func (j *job) read(name string) string {
	data, _ := os.ReadFile(j.file(name)) // a missing file counts as empty
	return string(data)
}

// step runs a step and checks its exit code and the content of a file, or of its log if the name is "".
func (j *job) step(name string, code int, file, want string, settings ...string) {
	j.Helper()
	for _, one := range []string{"output", "path", "calls"} {
		_ = os.Remove(j.file(one))
	}
	got, out := shell(j.T, j.script, j.dir, append(slices.Clip(j.environment), settings...),
		name)
	text := out
	if file != "" {
		text = j.read(file)
	}
	if got != code || !strings.Contains(text, want) {
		j.Errorf("%s %v: exit code %d, want %d and %q in %q:\n%s%s", name, settings, got, code, want, file, j.read(file), out)
	}
}

// dlqbench comes from the PATH, a release, or a build.
func TestActionPlan(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	j.step("plan", 0, "output", "mode=release\n", "DLQBENCH_VERSION=v1.2.3-rc.1")
	j.step("plan", 0, "output", "mode=release\n", "DLQBENCH_REF=v1.2.3")
	j.step("plan", 0, "output", "mode=source\n", "DLQBENCH_REF=v1")
	j.step("plan", 0, "output", "mode=source\n", "DLQBENCH_VERSION=main", "DLQBENCH_REF=v1.2.3")
	j.step("plan", 0, "output", "-main-", "DLQBENCH_VERSION=main")
	j.program("dlqbench", "exit 0")
	j.step("plan", 0, "output", "mode=path\n")
	j.step("plan", 0, "output", "mode=release\n", "DLQBENCH_VERSION=v1.2.3")
}

// The cache key of a build changes with its sources, and with nothing else. They are a copy: other tests write into the
// checkout meanwhile.
func TestActionKeyFollowsTheSources(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	script := must.Get(os.ReadFile(filepath.Join(repositoryRoot, actionScript)))(t)
	j.script = j.file("source/" + actionScript)
	j.write("source/"+actionScript, string(script))
	j.write("source/main.go", "package main")
	key := func() string {
		j.step("plan", 0, "output", "key=", "DLQBENCH_REF=main")
		return j.read("output")
	}
	first := key()
	j.write("source/docs/gate.md", "# The gate")
	j.write("source/runs/latest/summary.md", "PASS")
	if second := key(); second != first {
		t.Errorf("the key changed from %q to %q with a document and a run", first, second)
	}
	j.write("source/main.go", "package main // changed")
	if third := key(); third == first {
		t.Errorf("the key stayed %q when a source changed", third)
	}
}

// An archive is used if its checksum is correct. If the archive is missing, dlqbench is built instead, but never if a
// checksum was given.
func TestActionGet(t *testing.T) {
	t.Parallel()
	switch runtime.GOARCH {
	case "amd64", "arm64":
	default:
		t.Skip("there are no releases for this platform")
	}
	j := newJob(t,
		"curl", `while [ $# -gt 1 ]; do [ "$1" != --output ] || to=$2; shift; done; cp "$1" "$to"`,
		"go", `echo "go $*" >>"$CALLS"; printf '#!/bin/sh\necho built' >"$GOBIN/dlqbench" && chmod +x "$GOBIN/dlqbench"`)
	archive := archived(t, "#!/bin/sh\necho released\n")
	name := fmt.Sprintf("dlqbench_1.2.3_%s_%s.tar.gz", runtime.GOOS, runtime.GOARCH)
	sum := fmt.Sprintf("%x", sha256.Sum256(archive))
	j.write("releases/v1.2.3/"+name, string(archive))
	j.write("releases/v1.2.3/checksums.txt", "0000  other.tar.gz\n"+sum+"  "+name+"\n")

	release := func(more ...string) []string { return append(more, "DLQBENCH_MODE=release", "DLQBENCH_VERSION=v1.2.3") }
	j.step("get", 0, "", "released\n", release()...)
	j.step("get", 0, "path", j.file("bin")+"\n", release("DLQBENCH_CHECKSUM="+sum)...)
	must.Do(t, os.Remove(j.file("bin/dlqbench")))
	j.step("get", 3, "", "it is not used", release("DLQBENCH_CHECKSUM=00")...)
	j.write("releases/v1.2.3/checksums.txt", "")
	j.step("get", 3, "", "none was expected", release()...)
	j.step("get", 3, "calls", "", "DLQBENCH_MODE=release", "DLQBENCH_VERSION=v9.9.9", "DLQBENCH_CHECKSUM="+sum)
	if calls := j.read("calls") + j.read("bin/dlqbench"); calls != "" {
		t.Errorf("something else was installed: %s", calls)
	}
	j.step("get", 0, "calls", "go install github.com/dlqbench/dlqbench/cmd/dlqbench@v9.9.9\n",
		"DLQBENCH_MODE=release", "DLQBENCH_VERSION=v9.9.9")
	j.step("get", 0, "", "built", "DLQBENCH_MODE=source") // from the cache
	if calls := j.read("calls"); calls != "" {
		t.Errorf("a build from the cache was built again: %s", calls)
	}
	must.Do(t, os.Remove(j.file("bin/dlqbench")))
	j.step("get", 0, "calls", "go install -trimpath ./cmd/dlqbench\n", "DLQBENCH_MODE=source")
}

// archived returns an archive like that of a release, with this script as the program.
func archived(t *testing.T, script string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	packed := gzip.NewWriter(&buffer)
	archive := tar.NewWriter(packed)
	for name, text := range map[string]string{"LICENSE": "", "dlqbench": script} {
		must.Do(t, archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}))
		must.Get(archive.Write([]byte(text)))(t)
	}
	must.Do(t, archive.Close())
	must.Do(t, packed.Close())
	return buffer.Bytes()
}

// The verdict and the report are outputs for every verdict.
func TestActionGate(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	for code, verdict := range map[int]string{
		exitPass: "pass", exitViolated: "fail", exitUsage: "usage", exitEnvironment: "environment",
		exitInconclusive: "inconclusive", exitThreshold: "threshold", exitInterrupted: "interrupted",
	} {
		j.program("dlqbench", fmt.Sprintf("exit %d", code))
		j.step("gate", code, "output", "verdict="+verdict+"\n")
	}
	if strings.Contains(j.read("output"), "report=") {
		t.Error("there is a report, though nothing was run")
	}
	j.write("kept/index.html", "")
	j.program("dlqbench", "exit 1")
	j.step("gate", exitViolated, "output", "/kept/index.html\n", "DLQBENCH_ARTIFACTS=kept")
}

// A pull request has one comment. If comments are not permitted, the step prints a notice and does not fail.
func TestActionComment(t *testing.T) {
	t.Parallel()
	j := newJob(t, "gh", `echo "$*" >>"$CALLS"
case "$*" in *--paginate*) echo "$KNOWN" ;; *) cat "${6#body=@}" >>"$CALLS" ;; esac
[ -z "$REFUSED" ] || { echo "HTTP 403" >&2; exit 1; }`)
	pull := "GITHUB_REF=refs/pull/12/merge"
	j.step("comment", 0, "", "no comment is written", pull)
	j.write("gate/summary.md", "# What was judged\n")
	j.step("comment", 0, "", "no comment is written", "GITHUB_REF=refs/heads/main")
	j.step("comment", 0, "calls", "--method POST repos/shop/orders/issues/12/comments -F body=@", pull)
	j.step("comment", 0, "calls", "<!-- dlqbench gate: dlqbench -->\n# What was judged\n", pull)
	j.step("comment", 0, "calls", "--method PATCH repos/shop/orders/issues/comments/345 -F body=@", pull, "KNOWN=345")
	j.step("comment", 0, "calls", `startswith("<!-- dlqbench gate: part_1 -->")`, pull, "DLQBENCH_COMMENT=part 1")
	j.step("comment", 0, "", `::notice::dlqbench wrote no comment: HTTP 403`, pull, "REFUSED=1")
}
