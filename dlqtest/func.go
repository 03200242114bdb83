package dlqtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// childVariable tells a test binary which test's function it is to run as a consumer.
const childVariable = "DLQTEST_CONSUMER"

// Env is what an instance is told.
type Env struct {
	// Brokers are the addresses of this instance's Kafka.
	Brokers []string
	// Topic is consumed, in Group; dead letters go to DLQTopic.
	Topic, Group, DLQTopic string
	// RetryTopics are those of retry through topics; none otherwise.
	RetryTopics []string
	// Downstream is the base URL of the stub of what the consumer calls once per attempt: POST Downstream/v1/attempt
	// with the record's value.
	Downstream string
	// Instance is 0, 1, 2 …
	Instance int
	// Port is a free TCP port of this machine for health or metrics; WorkDir is a folder of this instance's own.
	Port    int
	WorkDir string
}

// consume runs the function as one instance, until TERM or INT, and ends the process.
func (t *test) consume() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	err := t.consumer(ctx, environment())
	if err == nil && ctx.Err() == nil {
		err = errors.New("the consumer returned though nobody asked it to stop")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %s: %v\n", t.Name(), err)
		os.Exit(1)
	}
	os.Exit(0)
}

func environment() Env {
	number := func(name string) int {
		n, err := strconv.Atoi(os.Getenv(name))
		if err != nil {
			return -1
		}
		return n
	}
	list := func(name string) []string {
		return strings.FieldsFunc(os.Getenv(name), func(r rune) bool { return r == ',' })
	}
	return Env{
		Brokers: list("DLQBENCH_BOOTSTRAP_SERVERS"), Topic: os.Getenv("DLQBENCH_INPUT_TOPIC"),
		Group: os.Getenv("DLQBENCH_GROUP_ID"), DLQTopic: os.Getenv("DLQBENCH_DLQ_TOPIC"),
		RetryTopics: list("DLQBENCH_RETRY_TOPICS"), Downstream: os.Getenv("DLQBENCH_ORACLE_URL"),
		Instance: number("DLQBENCH_INSTANCE"), Port: number("DLQBENCH_PORT"), WorkDir: os.Getenv("DLQBENCH_WORK_DIR"),
	}
}

// writeSubject writes the subject file of the test's function and returns its path.
func (t *test) writeSubject() string {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatalf("finding the test binary, which is started as the consumer: %v", err)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("finding the folder of the test: %v", err)
	}
	scratch := t.TempDir()
	file := filepath.Join(scratch, "subject.yaml")
	if err := os.WriteFile(file, t.subjectFile(dir, binary, scratch), 0o600); err != nil {
		t.Fatalf("writing the subject file: %v", err)
	}
	return file
}

// subjectFile describes the test's function. JSON strings are YAML, whatever is in them. A process that is killed never
// removes the TempDir that its test made before it called Run. So it makes it in scratch, which goes with the test.
func (t *test) subjectFile(dir, binary, scratch string) []byte {
	quote := func(value any) string {
		text, _ := json.Marshal(value)
		return string(text)
	}
	command := []string{binary, "-test.run", pattern(t.Name()), "-test.timeout=0", "-test.count=1"}
	var text strings.Builder
	fmt.Fprintf(&text, "name: %s\nkind: process\ndir: %s\n", quote(subjectName(t.Name())), quote(dir))
	env := map[string]string{childVariable: t.Name(), "TMPDIR": scratch}
	fmt.Fprintf(&text, "command: %s\nenv: %s\n", quote(command), quote(env))
	if contract := strings.Trim(t.contract, "\n"); strings.TrimSpace(contract) != "" {
		fmt.Fprintf(&text, "contract:\n  %s\n", strings.ReplaceAll(contract, "\n", "\n  "))
	}
	return []byte(text.String())
}

// pattern matches one test and nothing else, as -run has it.
func pattern(test string) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// maxName is how long a subject's name may be.
const maxName = 64

// subjectName is the test's name as a subject may have it.
func subjectName(test string) string {
	name := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(test), "-"), "-")
	return name[:min(len(name), maxName)]
}
