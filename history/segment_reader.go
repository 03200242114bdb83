package history

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/parquet-go/parquet-go"
)

// loadSegment reads a whole segment file, verifies it, and opens it. Segments are small (about 1 MB), and only a file
// that is completely in memory can be verified before it is decoded.
func loadSegment(dir, name, run string) (file *parquet.File, info segmentInfo, err error) {
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, info, damaged(path, "the file is missing")
	case err != nil:
		return nil, info, damaged(path, "%w", err)
	}
	file, info, err = openSegment(data, run)
	if err != nil {
		return nil, info, &SegmentError{Path: path, Found: err}
	}
	info.File = name
	return file, info, nil
}

// openSegment verifies data and reads its metadata.
func openSegment(data []byte, run string) (file *parquet.File, info segmentInfo, err error) {
	sum, err := verifySegment(data)
	if err != nil {
		return nil, info, err
	}
	// The decoder allocates memory for the footer before it checks that there is one. The magic precedes the footer;
	// the footer's length and the magic follow it.
	if size := int64(binary.LittleEndian.Uint32(data[len(data)-8:])); size > int64(len(data)-12) {
		return nil, info, fmt.Errorf("its footer has %d bytes, the file %d", size, len(data))
	}
	defer recovered(&err)
	file, err = parquet.OpenFile(bytes.NewReader(data), int64(len(data)), parquet.SkipPageIndex(true),
		parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, info, fmt.Errorf("decoding its footer: %w", err)
	}
	if owner, _ := file.Lookup(metaRun); owner != run {
		return nil, info, fmt.Errorf("it belongs to the run %q, not to %q", owner, run)
	}
	var numbers [4]int64
	for i, key := range []string{metaFormat, metaEvents, metaFirst, metaLast} {
		text, _ := file.Lookup(key)
		if numbers[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, info, fmt.Errorf("its metadata %s is %q: %w", key, text, err)
		}
	}
	if numbers[0] != segmentFormat {
		return nil, info, fmt.Errorf("it has format %d, the rest of the history %d", numbers[0], segmentFormat)
	}
	info = segmentInfo{
		Events: int(numbers[1]), Bytes: len(data), First: time.Duration(numbers[2]), Last: time.Duration(numbers[3]),
		Sum: sum,
	}
	groups := file.RowGroups()
	if len(groups) != 1 || groups[0].NumRows() != numbers[1] || numbers[1] < 1 {
		return nil, info, fmt.Errorf("it says that it holds %d events and holds another number", numbers[1])
	}
	return file, info, nil
}

// recovered converts a panic of the decoder to an error: the file is the user's and may contain anything.
func recovered(err *error) {
	if cause := recover(); cause != nil {
		*err = fmt.Errorf("decoding it: %v", cause)
	}
}

// cursor iterates over the events of one segment, a page at a time.
type cursor struct {
	path    string
	columns *columns
	all     []named
	info    segmentInfo
	// order is the segment's position in the history. Of two events with the same time, the one in the earlier
	// segment comes first.
	order int
	left  int // rows after the present page
	at    int // row of the current event in the page
	rows  int // of the page
	last  time.Duration
	// now is the current event. It is assembled when it is asked for: a page of events takes megabytes, which would only
	// pass through the processor's cache.
	now Event
}

func newCursor(v *vocabulary) *cursor {
	c := &cursor{columns: newColumns(v)}
	c.all = c.columns.all()
	return c
}

// open loads the segment and moves to its first event.
func (c *cursor) open(dir, run string, want segmentInfo, order int) (err error) {
	file, info, err := loadSegment(dir, want.File, run)
	if err != nil {
		return err
	}
	c.path, c.info, c.order, c.left, c.last = filepath.Join(dir, want.File), info, order, info.Events, info.First
	if info.Sum != want.Sum {
		return &SegmentError{Path: c.path, Found: errChanged}
	}
	if err := c.openColumns(file); err != nil {
		return &SegmentError{Path: c.path, Found: err}
	}
	_, err = c.nextPage()
	return err
}

func (c *cursor) openColumns(file *parquet.File) (err error) {
	defer recovered(&err)
	rows := min(c.info.Events, pageEvents)
	chunks := file.RowGroups()[0].ColumnChunks()
	for _, column := range c.all {
		leaf, found := file.Schema().Lookup(column.name)
		if !found && column.name == claimMoreColumn {
			c.columns.claimMore.absent(rows)
			continue
		}
		if !found {
			return fmt.Errorf("it has no column %s", column.name)
		}
		if err := column.open(chunks[leaf.ColumnIndex], rows); err != nil {
			return fmt.Errorf("opening column %s: %w", column.name, err)
		}
	}
	return nil
}

// time returns the time of the current event.
func (c *cursor) time() time.Duration { return time.Duration(c.columns.time.values[c.at]) }

// event returns the current event. It is valid until the next call.
func (c *cursor) event() *Event {
	c.columns.event(&c.now, c.at)
	return &c.now
}

// nextPage decodes the next page and moves to its first event. It returns false at the end of the segment.
func (c *cursor) nextPage() (more bool, err error) {
	if c.left == 0 {
		return false, nil
	}
	if err := c.decode(min(c.left, pageEvents)); err != nil {
		return false, &SegmentError{Path: c.path, Found: err}
	}
	return true, nil
}

func (c *cursor) decode(rows int) (err error) {
	defer recovered(&err)
	for _, column := range c.all {
		if err := column.next(rows); err != nil {
			return fmt.Errorf("decoding column %s: %w", column.name, err)
		}
	}
	for _, value := range c.columns.time.values[:rows] {
		// The merge relies on the order, and judging an unsorted history would give wrong verdicts.
		at := time.Duration(value)
		if at < c.last || at > c.info.Last {
			return errors.New("its events are not sorted by time")
		}
		c.last = at
	}
	c.left -= rows
	c.at, c.rows = 0, rows
	return nil
}

func (c *cursor) close() {
	for _, column := range c.all {
		column.close()
	}
}
