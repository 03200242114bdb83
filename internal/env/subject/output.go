package subject

// The output of a process: kept in a file of bounded size, searched line by line for readiness and errors, with its
// last lines kept for messages.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/dlqbench/dlqbench/history"
)

const (
	// logLimit bounds one log file in bytes.
	logLimit = 50 << 20
	// longestLine is how much of a line is read, errorText how much of it an event carries, both in bytes.
	longestLine = 16 << 10
	errorText   = 300
	// tailLines is the number of last lines that messages repeat.
	tailLines = 15
	// errorsPerSecond bounds the KindSubjectError events of one process.
	errorsPerSecond = 50
)

type output struct {
	file *os.File
	left int64
	// line is called with every line, failure with those that report an error and its code (see reading). Both may be
	// nil.
	line    func([]byte)
	failure func(line []byte, code int16)
	failed  error
	mask    *mask  // removes passwords
	times   *times // records when output was written

	// lines counts the lines that are not blank, stated those that state a level.
	lines, stated atomic.Int64

	pending   []byte
	window    time.Time
	inWindow  int
	mu        sync.Mutex
	last      []string
	truncated bool
}

// newOutput returns an output that appends to the file, without the secrets, and keeps its times beside it.
func newOutput(path string, secrets [][]byte, clock history.Clock, line func([]byte),
	failure func([]byte, int16)) (*output, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log for the subject's output: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("opening the log for the subject's output: %w", err)
	}
	times, err := newTimes(path, clock)
	if err != nil {
		file.Close()
		return nil, err
	}
	return &output{file: file, left: logLimit - info.Size(), line: line, failure: failure, mask: newMask(secrets),
		times: times}, nil
}

// copy reads until the end. It must continue to read in any case, or it would block the process at its next line.
func (o *output) copy(from io.Reader) {
	chunk := make([]byte, 32<<10)
	for {
		n, err := from.Read(chunk)
		read := o.mask.next(chunk[:n])
		o.keep(read)
		o.split(read)
		if err != nil {
			rest := o.mask.rest()
			o.keep(rest)
			o.split(rest)
			if len(o.pending) > 0 {
				o.see(o.pending)
			}
			return
		}
	}
}

// keep writes as much to the file as still fits.
func (o *output) keep(chunk []byte) {
	if o.truncated || len(chunk) == 0 {
		return
	}
	if int64(len(chunk)) > o.left {
		o.truncated = true
		chunk = append(chunk[:max(o.left, 0):max(o.left, 0)], fmt.Sprintf("\n[dlqbench keeps no more than %d MiB of this]\n",
			logLimit>>20)...)
	}
	err := o.times.note(logLimit - o.left)
	if err == nil {
		var n int
		n, err = o.file.Write(chunk)
		o.left -= int64(n)
	}
	if err != nil && o.failed == nil {
		o.failed, o.truncated = err, true
	}
}

// split splits the output into lines.
func (o *output) split(chunk []byte) {
	for len(chunk) > 0 {
		line, rest, whole := bytes.Cut(chunk, []byte{'\n'})
		o.pending = append(o.pending, line[:min(len(line), longestLine-len(o.pending))]...)
		if whole {
			o.see(o.pending)
			o.pending = o.pending[:0]
		}
		chunk = rest
	}
}

func (o *output) see(line []byte) {
	line = bytes.TrimRight(line, "\r")
	o.remember(line)
	if o.line != nil {
		o.line(line)
	}
	if o.failure == nil {
		return
	}
	line = plain(line)
	read := readLine(line)
	if len(bytes.TrimSpace(line)) > 0 {
		o.lines.Add(1)
	}
	if read.stated {
		o.stated.Add(1)
	}
	if read.reports && o.mayReport(time.Now()) {
		o.failure(line, read.code)
	}
}

// mayReport limits the events of a process that reports nothing but errors.
func (o *output) mayReport(now time.Time) bool {
	if now.Sub(o.window) >= time.Second {
		o.window, o.inWindow = now, 0
	}
	o.inWindow++
	return o.inWindow <= errorsPerSecond
}

func (o *output) remember(line []byte) {
	if stackFrame(line) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = append(o.last[max(0, len(o.last)+1-tailLines):], cutText(line, 500))
}

// rustFrame matches a frame as Rust prints it. The causes of an error are numbered, too, and are sentences.
var rustFrame = regexp.MustCompile(`^\d+: (?:.*::.*|_\w+|main)$`)

// stackFrame reports whether the line is of a stack trace as the JVM, Node and Rust print it, and no message. Without
// these lines, the last ones have the exceptions that caused the end.
func stackFrame(line []byte) bool {
	text := bytes.TrimSpace(line)
	return len(text) > 0 && (line[0] == ' ' || line[0] == '\t') && (bytes.HasPrefix(text, []byte("at ")) ||
		bytes.HasPrefix(text, []byte("... ")) || rustFrame.Match(text))
}

// lastLines returns the last lines, indented, for a message. They leave out stack frames.
func (o *output) lastLines() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.last) == 0 {
		return "  (it wrote nothing)\n"
	}
	return "  " + strings.Join(o.last, "\n  ") + "\n"
}

// close closes the file. Its error includes that of an earlier write.
func (o *output) close() error {
	err := errors.Join(o.file.Close(), o.times.file.Close())
	if o.failed != nil {
		err = o.failed
	}
	if err != nil {
		return fmt.Errorf("writing the subject's output: %w", err)
	}
	return nil
}

// cutText returns at most limit bytes of a line, as valid UTF-8 and without cutting a character.
func cutText(line []byte, limit int) string {
	text := strings.ToValidUTF8(string(line[:min(len(line), limit+utf8.UTFMax)]), "?")
	for len(text) > limit {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}
