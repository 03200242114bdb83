package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	headerFile = "header.json"
	sealFile   = "sealed.json"
)

// seal is the content of sealed.json: written last, it says what a whole history has, so that what is missing is
// noticed.
type seal struct {
	Format int           `json:"format"`
	RunID  string        `json:"run_id"`
	At     time.Duration `json:"at_ns"`
	Events int64         `json:"events"`
	// Ignored counts events that arrived after the seal had begun; they are not part of the history.
	Ignored  int64         `json:"ignored"`
	Segments []segmentInfo `json:"segments"`
}

// Reader reads a history. It is safe for concurrent use, and Each can be called any number of times.
type Reader struct {
	dir      string
	header   Header
	sealed   bool
	segments []placed
	damaged  []error
	// hole is the position of the first unusable segment.
	hole   int
	memory []Event
}

// placed is a segment and its position in the history.
type placed struct {
	segmentInfo
	order int
}

// Open opens the history in dir and checks every file. If files are damaged or missing, the error wraps a
// *SegmentError for each of them (see OpenPartial). A history that was never sealed, because its run was killed,
// opens with the events it has: see Sealed. For a history of a newer format the error wraps ErrFormat.
func Open(dir string) (*Reader, error) {
	r, err := OpenPartial(dir)
	if err != nil {
		return nil, err
	}
	if len(r.damaged) > 0 {
		return nil, fmt.Errorf("opening history %s: %w", dir, errors.Join(r.damaged...))
	}
	return r, nil
}

// OpenPartial opens the readable part of the history in dir. Damaged returns the defects. Without a readable header
// there is no basis for judging, and OpenPartial returns an error.
func OpenPartial(dir string) (*Reader, error) {
	header, err := readHeader(dir)
	if err != nil {
		return nil, err
	}
	r := &Reader{dir: dir, header: header, hole: math.MaxInt}
	expected, err := r.readSeal()
	if err != nil {
		r.damaged = append(r.damaged, err)
	}
	found, err := listSegments(dir)
	if err != nil {
		return nil, fmt.Errorf("opening history %s: %w", dir, err)
	}
	if !r.sealed {
		expected = unsealedSegments(found)
	}
	r.checkSegments(expected)
	for _, number := range found {
		if number > len(expected) {
			r.damaged = append(r.damaged, damaged(filepath.Join(dir, segmentFile(number)),
				"it is not part of the sealed history"))
		}
	}
	return r, nil
}

func readHeader(dir string) (Header, error) {
	var header Header
	path := filepath.Join(dir, headerFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return header, fmt.Errorf("opening history %s: it has no %s: give the directory of a run's history: %w", dir,
			headerFile, err)
	}
	if err != nil {
		return header, fmt.Errorf("opening history %s: %w", dir, err)
	}
	var version struct {
		Format int `json:"format"`
	}
	// Check the format first, because the rest of a newer header may not decode.
	if err := json.Unmarshal(data, &version); err != nil {
		return header, fmt.Errorf(
			"opening history: decoding %s: %w: restore it from a copy; without it a run can't be judged", path, err)
	}
	if version.Format > FormatVersion {
		return header, fmt.Errorf("opening history: %s has format %d and this dlqbench reads up to %d: use the dlqbench "+
			"that wrote it, or a newer one: %w", path, version.Format, FormatVersion, ErrFormat)
	}
	if err := json.Unmarshal(data, &header); err != nil {
		return header, fmt.Errorf(
			"opening history: decoding %s: %w: restore it from a copy; without it a run can't be judged", path, err)
	}
	if header.Format < 1 {
		return header, fmt.Errorf("opening history: %s has no valid format number: it is no header of a history", path)
	}
	if header.Format == 1 {
		if err := header.readFormat1(data); err != nil {
			return header, fmt.Errorf("opening history: decoding %s: %w", path, err)
		}
	}
	return header, nil
}

// readSeal returns the segments that the seal lists, or none if there is no seal.
func (r *Reader) readSeal() ([]segmentInfo, error) {
	path := filepath.Join(r.dir, sealFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, damaged(path, "%w", err)
	}
	var s seal
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, damaged(path, "decoding it: %w", err)
	}
	events := int64(0)
	for i, info := range s.Segments {
		events += int64(info.Events)
		if info.File != segmentFile(i+1) {
			return nil, damaged(path, "its segment %d is called %q", i+1, info.File)
		}
	}
	if s.RunID != r.header.RunID || events != s.Events {
		return nil, damaged(path, "it does not fit the history: run %q with %d events in %d segments", s.RunID, s.Events,
			len(s.Segments))
	}
	r.sealed = true
	return s.Segments, nil
}

// listSegments returns the numbers of the segments in dir, ascending.
func listSegments(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, entry := range entries {
		if !segmentName.MatchString(entry.Name()) {
			continue
		}
		number, err := strconv.Atoi(strings.TrimSuffix(entry.Name(), ".parquet"))
		if err == nil && number > 0 && segmentFile(number) == entry.Name() {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// unsealedSegments returns the segments that a killed run must have: all numbers up to the highest one found.
func unsealedSegments(found []int) []segmentInfo {
	var expected []segmentInfo
	for i, number := range found {
		for len(expected) < number && len(expected) < found[len(found)-1] {
			// A single stray file with a huge number must not produce a list of millions.
			if number-len(expected) > len(found)+1<<16 {
				return append(expected, stray(found[i:])...)
			}
			expected = append(expected, segmentInfo{File: segmentFile(len(expected) + 1)})
		}
	}
	return expected
}

func stray(numbers []int) []segmentInfo {
	var infos []segmentInfo
	for _, number := range numbers {
		infos = append(infos, segmentInfo{File: segmentFile(number)})
	}
	return infos
}

// checkSegments loads each expected segment once and keeps the undamaged ones.
func (r *Reader) checkSegments(expected []segmentInfo) {
	files := map[string]string{} // by checksum
	for i, want := range expected {
		_, info, err := loadSegment(r.dir, want.File, r.header.RunID)
		if err == nil && r.sealed && info != want {
			err = damaged(filepath.Join(r.dir, want.File),
				"it is not the one that was sealed: %d events in %d bytes, sealed were %d in %d",
				info.Events, info.Bytes, want.Events, want.Bytes)
		}
		if first := files[info.Sum]; err == nil && !r.sealed && first != "" {
			err = damaged(filepath.Join(r.dir, want.File), "it is a copy of %s: remove it", first)
		}
		files[info.Sum] = want.File
		if err != nil {
			r.damaged = append(r.damaged, err)
			r.hole = min(r.hole, i)
			continue
		}
		r.segments = append(r.segments, placed{info, i})
	}
	slices.SortStableFunc(r.segments, func(a, b placed) int { return compareTimes(a.First, b.First) })
}

// Header returns the header of the run: its identity, contract and plan.
func (r *Reader) Header() Header { return r.header }

// Sealed reports whether the run completed its history. A history is whole if it is sealed and undamaged. One that is
// not whole can prove a violation, but never its absence.
func (r *Reader) Sealed() bool { return r.sealed }

// Damaged returns an error for each unusable file, most of them *SegmentError. Each skips the events in those files.
func (r *Reader) Damaged() []error { return slices.Clone(r.damaged) }

// Prefix returns a reader of the events before the first unusable segment, as if the run had been killed there. In a
// history with a hole, an acknowledgement may be missing while the commit that relied on it is present. That looks
// like a violation but proves none. A prefix has no holes. Without damage it is the whole history.
func (r *Reader) Prefix() *Reader {
	prefix := *r
	prefix.segments = slices.DeleteFunc(slices.Clone(r.segments), func(s placed) bool { return s.order > r.hole })
	return &prefix
}

// Each calls fn for every event, sorted by time. Events with the same time come in the order in which they were
// recorded. The event is valid until fn returns and must not be changed. Each keeps a few pages of the segments that
// overlap in time, usually one or two segments, in memory. If fn returns an error, Each stops and returns that error
// unchanged. A file that was damaged after Open gives a *SegmentError.
func (r *Reader) Each(fn func(*Event) error) error {
	for i := range r.memory {
		if err := fn(&r.memory[i]); err != nil {
			return err
		}
	}
	m := &merge{reader: r, words: newVocabulary()}
	defer m.close()
	return m.each(fn)
}

// merge iterates over segments sorted by their first event. Segments overlap slightly, because observers stamp an
// event before they record it, so merge combines the events of overlapping segments.
type merge struct {
	reader *Reader
	// waiting is the index of the first segment that is not yet open.
	waiting int
	open    []*cursor
	spare   []*cursor
	words   *vocabulary
}

func (m *merge) each(fn func(*Event) error) error {
	for {
		best, err := m.next()
		if best == nil || err != nil {
			return err
		}
		limit, order := m.limit(best)
		for {
			if at := best.time(); at > limit || at == limit && best.order > order {
				break
			}
			if err := fn(best.event()); err != nil {
				return err
			}
			if best.at++; best.at < best.rows {
				continue
			}
			more, err := best.nextPage()
			if err != nil {
				return err
			}
			if !more {
				m.retire(best)
				break
			}
		}
	}
}

// next returns the cursor with the next event, nil at the end. It opens every segment that may hold an earlier one.
func (m *merge) next() (*cursor, error) {
	for {
		best := m.first()
		if m.waiting == len(m.reader.segments) {
			return best, nil
		}
		segment := m.reader.segments[m.waiting]
		if best != nil && segment.First > best.time() {
			return best, nil
		}
		m.waiting++
		c := m.cursor()
		m.open = append(m.open, c)
		if err := c.open(m.reader.dir, m.reader.header.RunID, segment.segmentInfo, segment.order); err != nil {
			return nil, err
		}
	}
}

func (m *merge) cursor() *cursor {
	if n := len(m.spare); n > 0 {
		c := m.spare[n-1]
		m.spare = m.spare[:n-1]
		return c
	}
	return newCursor(m.words)
}

// first returns the open cursor with the earliest event.
func (m *merge) first() *cursor {
	var best *cursor
	for _, c := range m.open {
		if best == nil || before(c.time(), c.order, best.time(), best.order) {
			best = c
		}
	}
	return best
}

// limit returns the position (time and segment) up to which best can be read without looking at the others.
func (m *merge) limit(best *cursor) (time.Duration, int) {
	limit, order := time.Duration(math.MaxInt64), math.MaxInt
	for _, c := range m.open {
		if c != best && before(c.time(), c.order, limit, order) {
			limit, order = c.time(), c.order
		}
	}
	if m.waiting < len(m.reader.segments) {
		// Several segments may start at the same time. Order -1 stops best before that time, and next then opens them
		// all.
		if first := m.reader.segments[m.waiting].First; first <= limit {
			limit, order = first, -1
		}
	}
	return limit, order
}

func before(a time.Duration, orderA int, b time.Duration, orderB int) bool {
	return a < b || a == b && orderA < orderB
}

func (m *merge) retire(c *cursor) {
	c.close()
	m.open = slices.DeleteFunc(m.open, func(other *cursor) bool { return other == c })
	m.spare = append(m.spare, c)
}

func (m *merge) close() {
	for _, c := range m.open {
		c.close()
	}
}
