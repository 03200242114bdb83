package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
)

// loggedVerdict is a verdict with one violation at 10 s that involves instance 1.
func loggedVerdict() *assertions.Verdict {
	first := assertions.Occurrence{Record: 7, Partition: 2, Offset: 30, At: 10 * time.Second}
	return &assertions.Verdict{Invariants: []assertions.Result{{Name: "no-loss", Anomalies: []assertions.Anomaly{{
		Name: "lost", Count: 1, First: &first,
		Counterexamples: []assertions.Counterexample{{Record: 7, Partition: 2, Offset: 30,
			Actors: []assertions.Actor{{Name: "workload"},
				{Name: "instance 1"}}}},
	}}}}}
}

// writeLog writes a log with a line for each time, and its times.
func writeLog(t *testing.T, dir, stem string, lines map[time.Duration]string, order ...time.Duration) {
	t.Helper()
	var text, times strings.Builder
	for _, at := range order {
		fmt.Fprintf(&times, "%d %d\n", text.Len(), at)
		text.WriteString(lines[at])
	}
	for name, content := range map[string]string{stem + ".log": text.String(), stem + ".log.times": times.String()} {
		if err := os.WriteFile(filepath.Join(dir, dirLogs, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLogsAroundAViolation(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, dirLogs), 0o755); err != nil {
		t.Fatal(err)
	}
	sec := time.Second
	writeLog(t, dir, "instance-0", map[time.Duration]string{9 * sec: "of another\n"}, 9*sec)
	writeLog(t, dir, "instance-1", map[time.Duration]string{
		1 * sec: "long before\n", 8 * sec: "connecting with password=hunter2 to postgres://me:pw@host/db\n",
		10 * sec: "two\r\nlines <b>\n", 12 * sec: "after \xff\n\n", 20 * sec: "long after\n",
	}, 1*sec, 8*sec, 10*sec, 12*sec, 20*sec)
	v := loggedVerdict()
	addLogs(dir, v)
	want := []assertions.LogLine{
		{Time: 8 * sec, Text: "connecting with password=***** to postgres://me:*****@host/db"}, {Time: 10 * sec, Text: "two"},
		{Time: 10 * sec, Text: "lines <b>"}, {Time: 12 * sec, Text: "after \uFFFD"},
	}
	if len(v.Logs) != 1 || v.Logs[0].Process != "instance 1" || v.Logs[0].File != "logs/instance-1.log" ||
		fmt.Sprint(v.Logs[0].Lines) != fmt.Sprint(want) || v.LogsNote != "" {
		t.Fatalf("logs %+v, note %q, want the lines %v", v.Logs, v.LogsNote, want)
	}
}

func TestLogsKeepTheNearestLines(t *testing.T) {
	var lines []assertions.LogLine
	for i := range 100 {
		lines = append(lines, assertions.LogLine{Time: time.Duration(i) * time.Second})
	}
	kept, left := nearest(lines, 90*time.Second)
	if len(kept) != logLines || left != 70 || kept[0].Time != 70*time.Second || kept[29].Time != 99*time.Second {
		t.Errorf("kept %v to %v, left out %d", kept[0].Time, kept[len(kept)-1].Time, left)
	}
}

// Without logs there is still a verdict, and it says that the logs are missing. Without a violation it says nothing
// about logs.
func TestLogsThatAreNotThere(t *testing.T) {
	v := loggedVerdict()
	addLogs(t.TempDir(), v)
	if len(v.Logs) != 0 || !strings.Contains(v.LogsNote, "no lines") {
		t.Errorf("logs %v, note %q", v.Logs, v.LogsNote)
	}
	silent := t.TempDir()
	if err := os.Mkdir(filepath.Join(silent, dirLogs), 0o755); err != nil {
		t.Fatal(err)
	}
	writeLog(t, silent, "instance-1", map[time.Duration]string{time.Second: "long before\n"}, time.Second)
	v = loggedVerdict()
	if addLogs(silent, v); len(v.Logs) != 0 || !strings.Contains(v.LogsNote, "wrote nothing") {
		t.Errorf("of processes that were silent: logs %v, note %q", v.Logs, v.LogsNote)
	}
	passed := &assertions.Verdict{}
	if addLogs(t.TempDir(), passed); passed.LogsNote != "" {
		t.Errorf("a run that passed says %q of its logs", passed.LogsNote)
	}
}
