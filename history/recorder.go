package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxWaiting is the maximum number of full segments that wait to be written. It allows a million events in less
	// than 140 MB, so that the audit may read a large topic faster than the disk writes.
	maxWaiting = 16
	// spareSegments is the number of written buffers that are kept for reuse.
	spareSegments = 2
)

// ErrOverflow is wrapped by the recorder's error if events arrived faster than they could be written for too long.
var ErrOverflow = errors.New("events come faster than they can be written")

// Recorder is the Sink of a run. It takes events from many goroutines and writes them to segments in the background.
// Record only appends to a bounded buffer in memory. If the disk is full, or too slow for too long, the recorder
// drops and counts every event from then on, and Err and Failed report it. So the files always hold a history without
// holes, and one that lost its end is never sealed.
type Recorder struct {
	dir    string
	run    string
	clock  Clock
	write  writeFile
	lastOp atomic.Int64

	mu      sync.Mutex
	header  Header // as it was last written
	buffer  []Event
	text    int // bytes of text in buffer
	waiting [][]Event
	spare   [][]Event
	closed  bool
	limit   int // events per segment
	ignored int64
	dropped int64
	err     error

	wake   chan struct{} // has capacity 1: signals that there is something to write
	failed chan struct{}
	done   chan struct{} // closed when the writing goroutine has ended

	// Only the writing goroutine uses these until done is closed.
	encoder  *segmentWriter
	segments []segmentInfo
	events   int64

	sealing sync.Mutex
	sealErr error
	sealed  bool
}

// writeFile writes a file atomically: it exists completely or not at all.
type writeFile func(path string, data []byte) error

// NewRecorder starts a history in dir, which it creates if necessary. It writes the header and starts the goroutine
// that writes segments, which Seal or Close ends. It sets the header's Format. It returns an error if dir already
// holds a history.
func NewRecorder(dir string, header Header, clock Clock) (*Recorder, error) {
	return newRecorder(dir, header, clock, writeWhole)
}

func newRecorder(dir string, header Header, clock Clock, write writeFile) (*Recorder, error) {
	if err := writeHeader(dir, header, write); err != nil {
		return nil, err
	}
	r := &Recorder{
		dir: dir, run: header.RunID, header: header, clock: clock, write: write, encoder: newSegmentWriter(header.RunID),
		limit: segmentEvents, wake: make(chan struct{}, 1), failed: make(chan struct{}), done: make(chan struct{}),
	}
	go r.writeSegments()
	return r, nil
}

// Amend rewrites the header with facts that became known during the setup of the run. The header must be of the same
// run.
func (r *Recorder) Amend(header Header) error {
	if header.RunID != r.run {
		return fmt.Errorf("amending the history's header: it is of run %s, and the history of run %s", header.RunID, r.run)
	}
	data, err := encodeHeader(header)
	if err != nil {
		return err
	}
	path := filepath.Join(r.dir, headerFile)
	if err := r.write(path, data); err != nil {
		return writeError(path, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.header = header
	return nil
}

// Fail amends the header with the reason why the run could not be carried out to its end, and with whether that
// disturbed the subject, too.
func (r *Recorder) Fail(reason string, disturbed bool) error {
	r.mu.Lock()
	header := r.header
	r.mu.Unlock()
	header.Failure, header.Disturbed = reason, disturbed
	return r.Amend(header)
}

func encodeHeader(header Header) ([]byte, error) {
	header.Format = FormatVersion
	data, err := json.MarshalIndent(header, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the history's header: %w", err)
	}
	return append(data, '\n'), nil
}

func writeHeader(dir string, header Header, write writeFile) error {
	data, err := encodeHeader(header)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating the history's directory: %w", err)
	}
	path := filepath.Join(dir, headerFile)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("creating history %s: there is one already (%s): give every run a directory of its own", dir,
			headerFile)
	}
	if err := write(path, data); err != nil {
		return writeError(path, err)
	}
	return nil
}

// NextOp returns an operation number that is unique in the run, from 1.
func (r *Recorder) NextOp() int64 { return r.lastOp.Add(1) }

// Record takes an event. It never waits for the disk. Events after Seal or Close are counted and ignored.
func (r *Recorder) Record(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		r.ignored++
		return
	}
	if r.err != nil {
		r.dropped++
		return
	}
	if r.buffer == nil {
		r.buffer = r.newBuffer()
	}
	r.buffer = append(r.buffer, e)
	r.text += len(e.Text)
	if e.Claim != nil {
		r.text += len(e.Claim.Missing) + len(e.Claim.More)
	}
	if len(r.buffer) >= r.limit || r.text >= segmentText {
		r.handOver()
	}
}

// Backlog returns the number of events in full segments that wait to be written. At maxWaiting segments the recorder
// gives up.
func (r *Recorder) Backlog() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := 0
	for _, events := range r.waiting {
		waiting += len(events)
	}
	return waiting
}

func (r *Recorder) newBuffer() []Event {
	if n := len(r.spare); n > 0 {
		buffer := r.spare[n-1]
		r.spare = r.spare[:n-1]
		return buffer
	}
	return make([]Event, 0, r.limit)
}

// handOver passes the buffer to the writing goroutine; r.mu is held.
func (r *Recorder) handOver() {
	if len(r.buffer) == 0 {
		return
	}
	// When the recorder closes, the last buffer is always accepted, because none follows it.
	if len(r.waiting) >= maxWaiting && !r.closed {
		r.dropped += int64(len(r.buffer))
		r.buffer, r.text = r.buffer[:0], 0
		r.fail(fmt.Errorf("recording the history in %s: %w: %d segments wait: the run can't be judged from here on; lower "+
			"the rate, or give --out a faster disk", r.dir, ErrOverflow, maxWaiting))
		return
	}
	r.waiting = append(r.waiting, r.buffer)
	r.buffer, r.text = nil, 0
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// fail remembers the first error; r.mu is held.
func (r *Recorder) fail(err error) {
	if r.err == nil {
		r.err = err
		close(r.failed)
	}
}

// writeSegments is the writing goroutine. It writes waiting segments, and at least once per segmentAge the current
// buffer.
func (r *Recorder) writeSegments() {
	defer close(r.done)
	tick := time.NewTicker(segmentAge)
	defer tick.Stop()
	for {
		select {
		case <-r.wake:
		case <-tick.C:
			r.mu.Lock()
			if len(r.waiting) == 0 {
				r.handOver()
			}
			r.mu.Unlock()
		}
		if ended := r.writeWaiting(); ended {
			return
		}
	}
}

// writeWaiting writes all waiting segments. It returns true if the recorder was closed and nothing is left.
func (r *Recorder) writeWaiting() (ended bool) {
	for {
		r.mu.Lock()
		if len(r.waiting) == 0 {
			ended := r.closed
			r.mu.Unlock()
			return ended
		}
		events := r.waiting[0]
		failed := r.err != nil && !errors.Is(r.err, ErrOverflow)
		r.mu.Unlock()

		var err error
		if !failed {
			err = r.writeSegment(events)
		}

		r.mu.Lock()
		r.waiting = append(r.waiting[:0], r.waiting[1:]...)
		if err != nil || failed {
			r.dropped += int64(len(events))
		}
		if err != nil {
			r.fail(err)
		}
		if len(r.spare) < spareSegments {
			clear(events) // release the texts
			r.spare = append(r.spare, events[:0])
		}
		r.mu.Unlock()
	}
}

func (r *Recorder) writeSegment(events []Event) error {
	data, info, err := r.encoder.encode(events)
	if err != nil {
		return err
	}
	info.File = segmentFile(len(r.segments) + 1)
	path := filepath.Join(r.dir, info.File)
	if err := r.write(path, data); err != nil {
		return writeError(path, err)
	}
	r.segments = append(r.segments, info)
	r.events += int64(info.Events)
	return nil
}

// Err returns the first write error, or nil.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Failed returns a channel that is closed when the first event is lost. Err then returns the reason.
func (r *Recorder) Failed() <-chan struct{} { return r.failed }

// Dropped returns the number of events lost because they could not be written.
func (r *Recorder) Dropped() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}

// Seal writes the remaining events and then the seal, which makes the history whole and final. If events were lost,
// or the seal cannot be written, it returns the error and leaves the history unsealed. Calling it again gives the
// same result. After Close it is an error.
func (r *Recorder) Seal() error {
	r.sealing.Lock()
	defer r.sealing.Unlock()
	if !r.finish() {
		if r.sealed {
			return r.sealErr
		}
		return fmt.Errorf("sealing history %s: it was closed before", r.dir)
	}
	r.sealed, r.sealErr = true, r.writeSeal()
	return r.sealErr
}

// Close writes the remaining events and ends the recorder's goroutine, without sealing. It does nothing after Seal or
// another Close, so it can always be deferred. It returns Err.
func (r *Recorder) Close() error {
	r.sealing.Lock()
	defer r.sealing.Unlock()
	r.finish()
	return r.Err()
}

// finish stops taking events and waits until all are written. It returns false if it was called before.
func (r *Recorder) finish() bool {
	r.mu.Lock()
	first := !r.closed
	if first {
		r.closed = true
		r.handOver()
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
	<-r.done
	return first
}

func (r *Recorder) writeSeal() error {
	r.mu.Lock()
	err, dropped, ignored := r.err, r.dropped, r.ignored
	r.mu.Unlock()
	if err != nil {
		return fmt.Errorf("sealing history %s: %d events were lost: %w", r.dir, dropped, err)
	}
	data, err := json.MarshalIndent(seal{
		Format: FormatVersion, RunID: r.run, At: r.clock.Now(), Events: r.events, Ignored: ignored, Segments: r.segments,
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("sealing history %s: %w", r.dir, err)
	}
	path := filepath.Join(r.dir, sealFile)
	if err := r.write(path, append(data, '\n')); err != nil {
		return writeError(path, err)
	}
	return nil
}

// writeWhole writes to a temporary file and renames it, so that a run killed in between leaves no partial file under
// a name that readers use.
func writeWhole(path string, data []byte) error {
	part := path + ".part"
	if err := os.WriteFile(part, data, 0o644); err != nil {
		_ = os.Remove(part) // a full disk needs every byte; the first error is the one that matters
		return err
	}
	return os.Rename(part, path)
}

func writeError(path string, err error) error {
	return fmt.Errorf("writing history file %s: %w: the run can't be judged from here on; free space there or choose "+
		"another directory with --out (a million events need about 20 MB)", path, err)
}
