package history

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
)

// A segment is one Parquet file with up to segmentEvents events, sorted by time, then by the order in which they were
// recorded. It has one row group; the pages of all columns are cut at the same rows, so that a segment can be read a
// block of rows at a time.
const (
	// segmentEvents is where a segment is closed; segmentAge is how long an event waits at most for its segment to be
	// written.
	segmentEvents = 1 << 16
	segmentAge    = time.Second
	// segmentText is the size in bytes of all texts after which a segment is closed early.
	segmentText = 8 << 20
	// pageEvents is the number of rows per page.
	pageEvents = 1 << 13
)

// segmentFormat is the version of the segments' format; FormatVersion is that of a history as a whole.
const segmentFormat = 1

// The keys of a segment's own metadata.
const (
	metaFormat = "dlqbench.format"
	metaRun    = "dlqbench.run"
	metaEvents = "dlqbench.events"
	metaFirst  = "dlqbench.first_ns"
	metaLast   = "dlqbench.last_ns"
	// metaSum holds the checksum of the whole file, itself read as noSum. Every segment is checked before it is
	// decoded, because a decoder may believe a damaged length and ask for gigabytes. It guards against damage, not
	// against a file made on purpose.
	metaSum = "dlqbench.sum"
	sumMark = "xxh64:"
	noSum   = "0000000000000000"
)

// segmentInfo is what is known of a segment without reading its events.
type segmentInfo struct {
	File   string        `json:"file"`
	Events int           `json:"events"`
	Bytes  int           `json:"bytes"`
	First  time.Duration `json:"first_ns"`
	Last   time.Duration `json:"last_ns"`
	// Sum is the xxHash64 of the file with the 16 digits of its own sum read as zeros.
	Sum string `json:"xxh64"`
}

var (
	errCutShort = errors.New("the file is cut short")
	errChanged  = errors.New("the file was changed after it was written: its checksum is wrong")

	segmentName = regexp.MustCompile(`^[0-9]{6,}\.parquet$`)
)

func segmentFile(number int) string { return fmt.Sprintf("%06d.parquet", number) }

// sealSegment computes the checksum of a finished segment and writes it into the place held for it.
func sealSegment(data []byte) (string, error) {
	at := bytes.LastIndex(data, []byte(sumMark+noSum))
	if at < 0 {
		return "", errors.New("the segment has no place for its checksum")
	}
	sum := fmt.Sprintf("%016x", xxhash.Sum64(data))
	copy(data[at+len(sumMark):], sum)
	return sum, nil
}

// verifySegment checks data against the checksum that it carries and returns that.
func verifySegment(data []byte) (string, error) {
	const magic = "PAR1"
	at := bytes.LastIndex(data, []byte(sumMark))
	if len(data) < 12 || string(data[len(data)-len(magic):]) != magic || at < 0 || at+len(sumMark)+len(noSum) > len(data) {
		return "", errCutShort
	}
	at += len(sumMark)
	digest := xxhash.New()
	_, _ = digest.Write(data[:at])
	_, _ = digest.WriteString(noSum)
	_, _ = digest.Write(data[at+len(noSum):])
	sum := string(data[at : at+len(noSum)])
	if want, err := strconv.ParseUint(sum, 16, 64); err != nil || want != digest.Sum64() {
		return "", errChanged
	}
	return sum, nil
}
