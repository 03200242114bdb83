package run

// Excerpts from the logs in a run's directory: the lines that the subject's processes wrote around the first
// occurrence of each violation. A log's times are those at which its lines were read (subject.TimesSuffix), so that
// any consumer's lines can be placed on the run's clock, whatever times they contain.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/env/subject"
)

const (
	// logsAround is the distance from the violation, before and after it, within which lines are taken.
	logsAround = 3 * time.Second
	// logLines is the maximum number of lines of each process; those nearest to the violation are kept. logProcesses is
	// the maximum number of processes.
	logLines     = 30
	logProcesses = 4
	// logLineLimit bounds a line, logRangeLimit the part of a file that is read, both in bytes.
	logLineLimit  = 500
	logRangeLimit = 1 << 20
)

// addLogs fills in the verdict's logs. If a log cannot be read, the verdict says so; a judgement does not fail for
// lack of a log.
func addLogs(dir string, v *assertions.Verdict) {
	var wanted []assertions.LogExcerpt
	for _, r := range v.Invariants {
		for _, a := range r.Anomalies {
			if a.First != nil && a.First.At >= 0 {
				wanted = append(wanted, excerptsOf(dir, r.Name, &a)...)
			}
		}
	}
	if len(wanted) == 0 {
		if failed(v) {
			v.LogsNote = "The folder logs is not in the run's directory, or nothing in it says when it was written: there are " +
				"no lines of the subject's logs here."
		}
		return
	}
	for i := range wanted {
		if err := readExcerpt(dir, &wanted[i]); err != nil {
			v.LogsNote = "Not all logs could be read: " + err.Error()
			continue
		}
		if len(wanted[i].Lines) > 0 {
			v.Logs = append(v.Logs, wanted[i])
		}
	}
	if len(v.Logs) == 0 && v.LogsNote == "" {
		v.LogsNote = fmt.Sprintf("The subject's processes wrote nothing within %s of the first occurrence of any violation.",
			logsAround)
	}
}

func failed(v *assertions.Verdict) bool {
	return slices.ContainsFunc(v.Invariants, func(r assertions.Result) bool { return len(r.Anomalies) > 0 })
}

// excerptsOf returns the excerpts that an anomaly needs, still without lines: those of the processes involved in its
// first occurrence, or of all processes if none is known.
func excerptsOf(dir, invariant string, a *assertions.Anomaly) []assertions.LogExcerpt {
	concerned := map[string]bool{}
	for _, w := range a.Counterexamples {
		if w.Record != a.First.Record || w.Partition != a.First.Partition || w.Offset != a.First.Offset {
			continue
		}
		for _, actor := range w.Actors {
			concerned[actor.Name] = true
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, dirLogs, "*.log"+subject.TimesSuffix))
	if err != nil {
		return nil
	}
	sort.Strings(files)
	var all, out []assertions.LogExcerpt
	for _, file := range files {
		stem := strings.TrimSuffix(filepath.Base(file), ".log"+subject.TimesSuffix)
		one := assertions.LogExcerpt{
			Invariant: invariant, Anomaly: a.Name, Process: processName(stem), File: dirLogs + "/" + stem + ".log",
			At: a.First.At, Lines: []assertions.LogLine{},
		}
		if stem == "build" {
			continue
		}
		all = append(all, one)
		if concerned[one.Process] {
			out = append(out, one)
		}
	}
	if len(out) == 0 {
		out = all
	}
	return out[:min(len(out), logProcesses)]
}

// processName returns the name by which traces call the process that wrote the log.
func processName(stem string) string {
	if stem == "replay" {
		return string(assertions.RoleReplay)
	}
	if at := strings.LastIndexByte(stem, '-'); at > 0 {
		return stem[:at] + " " + stem[at+1:]
	}
	return stem
}

// mark is a log's position in bytes at a time.
type mark struct {
	offset int64
	at     time.Duration
}

// readExcerpt reads the lines of an excerpt.
func readExcerpt(dir string, into *assertions.LogExcerpt) error {
	path := filepath.Join(dir, filepath.FromSlash(into.File))
	marks, err := readMarks(path + subject.TimesSuffix)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the log was removed, its times were not
	}
	if err != nil {
		return fmt.Errorf("reading a log: %w", err)
	}
	defer file.Close()
	first := sort.Search(len(marks), func(i int) bool { return marks[i].at >= into.At-logsAround })
	last := sort.Search(len(marks), func(i int) bool { return marks[i].at > into.At+logsAround })
	if first == last {
		return nil
	}
	from, to := marks[first].offset, int64(-1)
	if last < len(marks) {
		to = marks[last].offset
	}
	text, err := readRange(file, from, to)
	if err != nil {
		return fmt.Errorf("reading a log: %w", err)
	}
	lines := cutLines(text, from, marks[first:last])
	into.Lines, into.LeftOut = nearest(lines, into.At)
	return nil
}

func readMarks(path string) ([]mark, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the times of a log: %w", err)
	}
	defer file.Close()
	var out []mark
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var one mark
		// A line that a killed run left incomplete ends the list.
		if n, err := fmt.Sscanf(lines.Text(), "%d %d", &one.offset, &one.at); n != 2 || err != nil ||
			len(out) > 0 && one.offset < out[len(out)-1].offset {
			break
		}
		out = append(out, one)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the times of a log: %w", err)
	}
	return out, nil
}

// readRange reads the bytes from one position up to another (-1 is the end), but at most logRangeLimit bytes.
func readRange(file *os.File, from, to int64) ([]byte, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if to < 0 || to > info.Size() {
		to = info.Size()
	}
	text := make([]byte, max(0, min(to-from, logRangeLimit)))
	n, err := file.ReadAt(text, from)
	if n == len(text) {
		err = nil
	}
	return text[:n], err
}

// cutLines splits a part of a log into lines. The time of a line is that of the mark before its beginning.
func cutLines(text []byte, from int64, marks []mark) []assertions.LogLine {
	var out []assertions.LogLine
	next := 0
	for at := from; len(text) > 0; {
		line, rest, _ := bytes.Cut(text, []byte{'\n'})
		for next+1 < len(marks) && marks[next+1].offset <= at {
			next++
		}
		if words := bytes.TrimRight(line, "\r"); len(words) > 0 {
			out = append(out, assertions.LogLine{Time: marks[next].at, Text: redacted(words)})
		}
		at += int64(len(text) - len(rest))
		text = rest
	}
	return out
}

// nearest keeps the lines nearest to a time, in their order.
func nearest(lines []assertions.LogLine, at time.Duration) (kept []assertions.LogLine, leftOut int64) {
	for len(lines) > logLines {
		if (at - lines[0].Time).Abs() >= (lines[len(lines)-1].Time - at).Abs() {
			lines = lines[1:]
		} else {
			lines = lines[:len(lines)-1]
		}
		leftOut++
	}
	return append([]assertions.LogLine{}, lines...), leftOut
}

// The subject's output already has its configured secrets masked. These patterns match the forms in which other,
// unconfigured secrets may appear.
var (
	secretPair = regexp.MustCompile(
		`(?i)((?:pass(?:word|wd|phrase)?|secret|token|api_?key|access_?key)["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,;&"']+)`)
	secretBearer = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`)
	secretInURL  = regexp.MustCompile(`(://[^/\s:@]*:)[^@\s/]+@`)
)

// redacted returns a line without anything that looks like a password, as valid UTF-8 of bounded length.
func redacted(line []byte) string {
	words := strings.ToValidUTF8(string(line[:min(len(line), 4*logLineLimit)]), "\uFFFD")
	words = secretPair.ReplaceAllString(words, "${1}*****")
	words = secretBearer.ReplaceAllString(words, "${1} *****")
	words = secretInURL.ReplaceAllString(words, "${1}*****@")
	if len(words) > logLineLimit {
		words = strings.ToValidUTF8(words[:logLineLimit], "") + "…"
	}
	return words
}
