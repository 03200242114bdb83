package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// leaky is a consumer that receives secrets in every form and logs all of them before it consumes.
const leaky = `name: leaky
kind: process
command: [sh, -c, 'env | grep CANARY; cat "$DLQBENCH_WORK_DIR/client.properties"; echo "ERROR no route to $CANARY_JDBC with $CANARY_HEADER"; exec dlqbench consume', leaky, --api-key=canary-key]
env:
  CANARY_PASSWORD: canary-literal
  CANARY_JDBC: jdbc:postgresql://me:canary-jdbc@db:5432/orders
  CANARY_MONGO: "mongodb+srv://me:canary-mongo@cluster.example/db"
  CANARY_HEADER: "Authorization: Bearer canary.bearer.token"
  DLQBENCH_SETTINGS: '{"max_retries": 2, "retry_backoff_ms": 20, "max_retry_backoff_ms": 50, "retry_jitter_ms": 5}'
files:
  client.properties: |
    sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="canary-jaas";
    ssl.keystore.password=canary-store
contract:
  attempts: {max: 2}
  dlq: {envelope: plain}
`

// leakyScenario contains secrets where only people put them: in its description.
const leakyScenario = `name: tiny
description: "Against https://me:canary-scenario@staging.example, with canary-literal."
# password: canary-comment
topics: {input: {partitions: 2}}
workload: {rate: 100/s, duration: 800ms, warm_up: 200ms, outcomes: {success: 90, transient: 4, permanent: 6}}
expect: {max_slip: 10s}
`

// No file of a run or a gate contains a secret that the subject received, because these files are passed on.
func TestNoFileHasASecret(t *testing.T) {
	dir := folder(t, "leaky.yaml", leaky, "leaky-tiny.yaml", leakyScenario,
		"dlqbench.yaml", "subjects: leaky.yaml\nscenarios:\n  - leaky-tiny.yaml\n")
	dlqbench(t, dir, "gate")
	dlqbench(t, dir, "run", "leaky-tiny.yaml", "--subject", "leaky.yaml", "--set", "description=amqp://me:canary-flag@mq")
	files, logs := 0, 0
	for _, root := range []string{"runs", "gate"} {
		must.Do(t, filepath.WalkDir(filepath.Join(dir, root), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || entry.Type()&fs.ModeSymlink != 0 {
				return err
			}
			data, err := os.ReadFile(path)
			files++
			if filepath.Ext(path) == ".log" && bytes.Contains(data, []byte("ERROR no route to")) {
				logs++
			}
			wantNoCanary(t, path, data)
			return err
		}))
	}
	if files < 20 || logs < 2 {
		t.Errorf("%d files and %d logs were looked at", files, logs)
	}
	histories, err := filepath.Glob(filepath.Join(dir, "runs", "*-tiny", "history"))
	if err != nil || len(histories) < 2 {
		t.Fatal(histories, err)
	}
	for _, path := range histories {
		wantNoCanaryInEvents(t, path)
	}
}

func wantNoCanary(t *testing.T, where string, text []byte) {
	t.Helper()
	for at := 0; ; at++ {
		next := bytes.Index(text[at:], []byte("canary"))
		if next < 0 {
			return
		}
		at += next
		t.Errorf("%s has %q", where, text[max(at-60, 0):min(at+30, len(text))])
	}
}

// wantNoCanaryInEvents searches the events, which are compressed.
func wantNoCanaryInEvents(t *testing.T, path string) {
	t.Helper()
	reader, err := history.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	errors := 0
	err = reader.Each(func(e *history.Event) error {
		if e.Kind == history.KindSubjectError && strings.Contains(e.Text, "no route") {
			errors++
		}
		wantNoCanary(t, path, []byte(e.Text+e.Stated().Missing+e.Stated().More))
		return nil
	})
	if err != nil || errors == 0 {
		t.Errorf("%s has %d lines of the log: %v", path, errors, err)
	}
}
