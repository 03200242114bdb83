package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]string{
		"4.1.0": "", "4.0.0": "", "3.9.1": "", "4.1.12": "", "4.2.2": "", "4.4.0": "",
		"4.1": "write it whole", "": "write it whole", "4.1.0-rc1": "write it whole", "4.1.0\n": "write it whole",
		"../4.1.0": "write it whole",
		"3.8.0":    "is not supported", "4.5.0": "choose one of 3.9.x and 4.0.x to 4.4.x", "5.0.0": "is not supported",
		"9999.1.0": "write it whole",
	} {
		version, err := ParseVersion(text)
		if want == "" && (err != nil || version.String() != text) ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q is read as %v, %v, want %q", text, version, err, want)
		}
	}
	if old, fresh := (Version{3, 9, 1}), (Version{4, 0, 0}); old.MinJava() != 11 || fresh.MinJava() != 17 ||
		old.AtLeast(4, 0) || !fresh.AtLeast(3, 9) {
		t.Error("versions are not in order, or need another Java")
	}
}

func TestPom(t *testing.T) {
	for _, version := range []Version{{3, 9, 1}, {4, 1, 0}} {
		want, err := os.ReadFile(filepath.Join("testdata", "pom-"+version.String()+".xml"))
		if err != nil || string(want) != pom(version) {
			t.Errorf("the pom of %s is not the file's (%v):\n%s", version, err, pom(version))
		}
	}
}

// program creates a program with this name as the only one in the PATH.
func program(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755))
	t.Setenv("PATH", dir)
	t.Setenv("JAVA_HOME", "")
}

func TestFindJava(t *testing.T) {
	for _, one := range []struct{ script, want string }{
		{`echo 'openjdk version "17.0.15" 2025-04-15' >&2`, ""},
		{`echo 'openjdk version "25" 2025-09-16' >&2`, ""},
		{`echo 'java version "1.8.0_292"' >&2`, "is Java 8, and Java 17 or newer is needed"},
		{`echo 'openjdk version "11.0.2" 2019-01-15' >&2`, "is Java 11, and Java 17 or newer is needed"},
		{`echo 'no Java here' >&2; exit 1`, `"no Java here"; install Java 17 or newer`},
		{`echo hello`, `says "hello", which names no version`},
	} {
		program(t, "java", one.script)
		java, err := FindJava(t.Context(), 17)
		if one.want == "" &&
			(err != nil || java.Major < 17 || !strings.HasPrefix(java.Build, fmt.Sprintf("java%d-", java.Major))) {
			t.Errorf("%s: %v, %v", one.script, java, err)
		}
		if one.want != "" && (!errors.Is(err, ErrNoJava) || !strings.Contains(err.Error(), one.want)) {
			t.Errorf("%s: %v, want %q", one.script, err, one.want)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := FindJava(t.Context(), 17); !errors.Is(err, ErrNoJava) ||
		!strings.Contains(err.Error(), "there is no java in the PATH and JAVA_HOME is not set") {
		t.Errorf("without any: %v", err)
	}
	t.Setenv("JAVA_HOME", "/nowhere")
	if _, err := FindJava(t.Context(), 17); !errors.Is(err, ErrNoJava) ||
		!strings.Contains(err.Error(), "JAVA_HOME is /nowhere, but there is no bin/java in it") {
		t.Errorf("with a wrong JAVA_HOME: %v", err)
	}
}

// fakeMaven copies a Kafka of two jars, and records that it ran.
const fakeMaven = `for arg; do case $arg in -DoutputDirectory=*) out=${arg#*=};; esac; done
/bin/mkdir -p "$out" && echo broker > "$out/kafka_2.13-4.1.0.jar" && echo clients > "$out/kafka-clients-4.1.0.jar" && echo run >> "$COUNT"
`

func maven(t *testing.T, script string) (cache string, runs func() int) {
	t.Helper()
	program(t, "mvn", script)
	count := filepath.Join(t.TempDir(), "count")
	t.Setenv("COUNT", count)
	return t.TempDir(), func() int {
		data, _ := os.ReadFile(count)
		return strings.Count(string(data), "run")
	}
}

func TestInstall(t *testing.T) {
	cache, runs := maven(t, fakeMaven)
	version := Version{4, 1, 0}
	if _, err := Find(cache, version); !errors.Is(err, ErrNotInstalled) ||
		!strings.Contains(err.Error(), "run `dlqbench kafka install --version 4.1.0`") {
		t.Errorf("before: %v", err)
	}
	left := filepath.Join(cache, unfinished(version)+"1")
	must.Do(t, os.MkdirAll(left, 0o755))
	for range 2 { // the second time it exists already
		installed, err := Install(t.Context(), cache, version, false)
		if err != nil || len(installed.Jars) != 2 || runs() != 1 {
			t.Fatalf("installing: %+v, %v, after %d downloads", installed, err, runs())
		}
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("what an installation that was killed left is still there")
	}
	installed, err := Find(cache, version)
	if err != nil || !strings.HasSuffix(installed.ClassPath(),
		"kafka-clients-4.1.0.jar"+string(os.PathListSeparator)+filepath.Join(installed.Dir, "libs", "kafka_2.13-4.1.0.jar")) {
		t.Errorf("finding it: %v, %v", installed, err)
	}
	// An additional jar in the folder is not run.
	must.Do(t, os.WriteFile(filepath.Join(installed.Dir, "libs", "more.jar"), nil, 0o644))
	if again, err := Find(cache, version); err != nil || again.ClassPath() != installed.ClassPath() {
		t.Errorf("with another jar: %v, %v", again, err)
	}
	if _, err := Install(t.Context(), cache, version, true); err != nil || runs() != 2 {
		t.Errorf("by force: %v, %d downloads", err, runs())
	}
	listed, err := List(cache)
	if err != nil || len(listed) != 1 || listed[0].Version != version || listed[0].Jars != 2 || listed[0].Problem != nil {
		t.Errorf("the list is %+v, %v", listed, err)
	}
}

func TestDamaged(t *testing.T) {
	version := Version{4, 1, 0}
	for what, damage := range map[string]func(libs string) error{
		"kafka-clients-4.1.0.jar is missing": func(libs string) error {
			return os.Remove(filepath.Join(libs, "kafka-clients-4.1.0.jar"))
		},
		"kafka-clients-4.1.0.jar has other content": func(libs string) error {
			return os.WriteFile(filepath.Join(libs, "kafka-clients-4.1.0.jar"), []byte("CLIENTS\n"), 0o644)
		},
		"kafka-clients-4.1.0.jar has 3 bytes instead of 8": func(libs string) error {
			return os.Truncate(filepath.Join(libs, "kafka-clients-4.1.0.jar"), 3)
		},
		"manifest.json can't be read": func(libs string) error {
			return os.WriteFile(filepath.Join(libs, "..", manifestFile), []byte("{"), 0o644)
		},
		"manifest.json names no jars": func(libs string) error {
			return os.WriteFile(filepath.Join(libs, "..", manifestFile), []byte("{}"), 0o644)
		},
		`the manifest names "../x", which is no file of its own`: func(libs string) error {
			return os.WriteFile(filepath.Join(libs, "..", manifestFile), []byte(`{"jars":[{"name":"../x"}]}`), 0o644)
		},
	} {
		cache, runs := maven(t, fakeMaven)
		installed, err := Install(t.Context(), cache, version, false)
		if err != nil {
			t.Fatal(err)
		}
		must.Do(t, damage(filepath.Join(installed.Dir, "libs")))
		_, err = Find(cache, version)
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), what) ||
			!strings.Contains(err.Error(), "dlqbench kafka install --version 4.1.0 --force") {
			t.Errorf("%s: it says %v", what, err)
		}
		if listed, err := List(cache); err != nil || len(listed) != 1 || !errors.Is(listed[0].Problem, ErrCorrupt) {
			t.Errorf("%s: the list is %+v, %v", what, listed, err)
		}
		if _, err := Install(t.Context(), cache, version, false); err != nil || runs() != 2 {
			t.Errorf("%s: installing again: %v, %d downloads", what, err, runs())
		}
	}
}

func TestMavenFails(t *testing.T) {
	for _, one := range []struct{ script, want string }{
		{"echo '[ERROR] Failed: Could not find artifact org.apache.kafka:kafka_2.13:jar:4.1.0 in central'; exit 1",
			"Maven finds no Apache Kafka 4.1.0: is there such a release?"},
		{"echo '[INFO] x'; echo '[ERROR] No space left on device'; exit 1",
			"resolving the jars with Maven (exit status 1): No space left on device"},
		{`echo 'java not found'; exit 127`, `resolving the jars with Maven (exit status 127): "java not found"`},
		{"for arg; do case $arg in -DoutputDirectory=*) /bin/mkdir -p \"${arg#*=}\";; esac; done",
			"no Kafka 4.1.0 is among them"},
	} {
		cache, _ := maven(t, one.script)
		if _, err := Install(t.Context(), cache, Version{4, 1, 0}, false); err == nil ||
			!strings.Contains(err.Error(), "installing Apache Kafka 4.1.0: "+one.want) &&
				!strings.Contains(err.Error(), one.want) {
			t.Errorf("it says %v, want %q", err, one.want)
		}
		if left, _ := filepath.Glob(filepath.Join(cache, ".*")); len(left) > 0 {
			t.Errorf("%v is left", left)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Install(t.Context(), t.TempDir(), Version{4, 1, 0}, false); !errors.Is(err, ErrNoMaven) ||
		!strings.Contains(err.Error(), "install Maven, or unpack a release") {
		t.Errorf("without Maven: %v", err)
	}
}

// Two concurrent installations end with one intact installation, and one download.
func TestInstallSideBySide(t *testing.T) {
	cache, runs := maven(t, "/bin/sleep 0.2\n"+fakeMaven)
	results := make(chan error)
	for range 2 {
		go func() {
			_, err := Install(context.Background(), cache, Version{4, 1, 0}, false)
			results <- err
		}()
	}
	if err := errors.Join(<-results, <-results); err != nil || runs() != 1 {
		t.Errorf("%v, %d downloads", err, runs())
	}
}

func TestLockWaitsAndGivesUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	release := must.Get(Lock(t.Context(), path))(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := Lock(ctx, path); !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "waiting for another process") {
		t.Errorf("while it is held: %v", err)
	}
	release()
	if release, err := Lock(t.Context(), path); err != nil {
		t.Errorf("once it is free: %v", err)
	} else {
		release()
	}
}

func TestHome(t *testing.T) {
	home, cache := t.TempDir(), t.TempDir()
	if _, err := FromHome(cache, home); err == nil || !strings.Contains(err.Error(), "set it to the folder of an "+
		"unpacked release") {
		t.Errorf("an empty folder: %v", err)
	}
	libs := filepath.Join(home, "libs")
	must.Do(t, os.Mkdir(libs, 0o755))
	if _, err := FromHome(cache, home); err == nil ||
		!strings.Contains(err.Error(), "there is no kafka_2.13-*.jar in "+libs) {
		t.Errorf("without jars: %v", err)
	}
	for _, name := range []string{"kafka_2.13-3.9.1.jar", "a.jar", "kafka_2.13-3.9.1.jar.asc"} {
		must.Do(t, os.WriteFile(filepath.Join(libs, name), []byte(name), 0o644))
	}
	installed, err := FromHome(cache, home)
	if err != nil || installed.Version != (Version{3, 9, 1}) || len(installed.Jars) != 2 ||
		filepath.Dir(installed.Derived) != cache {
		t.Fatalf("it is %+v, %v", installed, err)
	}
	t.Setenv("KAFKA_HOME", home)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", "")
	for version, want := range map[string]error{"": nil, "3.9.1": nil, "4.1.0": ErrNotInstalled} {
		if _, err := Open(version); !errors.Is(err, want) {
			t.Errorf("opening %q: %v, want %v", version, err, want)
		}
	}
	// Files derived from other jars are kept separately.
	must.Do(t, os.WriteFile(filepath.Join(libs, "a.jar"), []byte("another"), 0o644))
	if other, err := FromHome(cache, home); err != nil || other.Derived == installed.Derived {
		t.Errorf("with another jar: %v, %v", other, err)
	}
}
