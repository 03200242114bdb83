package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// ErrNoJava means that there is no Java, or none that is suitable.
var ErrNoJava = errors.New("no suitable Java")

// Java is a Java runtime.
type Java struct {
	// Command is the path of its java program.
	Command string
	// Major is its major version, such as 17.
	Major int
	// Build is a short identifier of the build. It may be part of a file's name.
	Build string
}

// javaLimit bounds how long java may take to print its version, which takes about 0.1 s on an idle machine.
const javaLimit = time.Minute

// FindJava returns the Java at JAVA_HOME or, if that is not set, the one in the PATH. It fails with ErrNoJava if
// there is none, or if it is older than atLeast.
func FindJava(ctx context.Context, atLeast int) (Java, error) {
	command, source, err := javaCommand()
	if err != nil {
		return Java{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, javaLimit)
	defer cancel()
	said, err := exec.CommandContext(ctx, command, "-version").CombinedOutput()
	if ctx.Err() != nil {
		return Java{}, fmt.Errorf("asking %s for its version: %w; is the machine overloaded?", command, context.Cause(ctx))
	}
	if err != nil {
		// On macOS without Java, /usr/bin/java exists, says so and fails.
		return Java{}, fmt.Errorf("%w: %s -version failed: %w: %q; install Java %d or newer, or set JAVA_HOME to it",
			ErrNoJava, command, err, firstLine(said), atLeast)
	}
	java := Java{Command: command, Major: javaMajor(string(said)), Build: javaBuild(command, said)}
	switch {
	case java.Major == 0:
		return Java{}, fmt.Errorf("%w: %s -version says %q, which names no version; set JAVA_HOME to a Java %d or newer",
			ErrNoJava, command, firstLine(said), atLeast)
	case java.Major < atLeast:
		return Java{}, fmt.Errorf("%w: %s is Java %d, and Java %d or newer is needed; install one, or set JAVA_HOME to it",
			ErrNoJava, source, java.Major, atLeast)
	}
	return java, nil
}

// javaCommand returns the program, and its source for messages.
func javaCommand() (command, source string, err error) {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		command = filepath.Join(home, "bin", "java")
		if _, err := os.Stat(command); err != nil {
			return "", "", fmt.Errorf(
				"%w: JAVA_HOME is %s, but there is no bin/java in it; set it to an installed Java, or unset it", ErrNoJava, home)
		}
		return command, "JAVA_HOME, " + home + ",", nil
	}
	command, err = exec.LookPath("java")
	if err != nil {
		return "", "", fmt.Errorf("%w: there is no java in the PATH and JAVA_HOME is not set; install Java 17 or newer",
			ErrNoJava)
	}
	return command, "the java in the PATH, " + command + ",", nil
}

var javaForm = regexp.MustCompile(`version "(\d+)(?:\.(\d+))?`)

// javaMajor parses `openjdk version "17.0.15"`, and `java version "1.8.0_292"`, which is 8. It returns 0 for other
// texts.
func javaMajor(said string) int {
	found := javaForm.FindStringSubmatch(said)
	if found == nil {
		return 0
	}
	major, _ := strconv.Atoi(found[1])
	if major == 1 {
		major, _ = strconv.Atoi(found[2])
	}
	return major
}

// javaBuild distinguishes builds: an archive of class data made for one is of no use to another.
func javaBuild(command string, said []byte) string {
	if resolved, err := filepath.EvalSymlinks(command); err == nil {
		command = resolved
	}
	sum := sha256.Sum256(append([]byte(command+"\n"), said...))
	return fmt.Sprintf("java%d-%s", javaMajor(string(said)), hex.EncodeToString(sum[:4]))
}

func firstLine(output []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(output)), "\n")
	return strings.TrimSpace(line)
}
