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

// A segment is one Parquet file with up to segmentEvents events, sorted by time and then by the order in which they
// were recorded. It has one row group. The pages of all columns are split at the same rows, so a segment can be read
// one block of rows at a time.
const (
	// segmentEvents is the number of events at which a segment is closed. segmentAge is the longest time that an
	// event waits for its segment to be written.
	segmentEvents = 1 << 16
	segmentAge    = time.Second
	// segmentText is the total size of texts in bytes at which a segment is closed early.
	segmentText = 8 << 20
	// pageEvents is the number of rows per page.
	pageEvents = 1 << 13
)

// segmentFormat is the version of the segment format. FormatVersion is the version of a history as a whole.
const segmentFormat = 1

// The keys of a segment's own metadata.
const (
	metaFormat = "dlqbench.format"
	metaRun    = "dlqbench.run"
	metaEvents = "dlqbench.events"
	metaFirst  = "dlqbench.first_ns"
	metaLast   = "dlqbench.last_ns"
	// metaSum holds the checksum of the whole file, computed with noSum in its place. Every segment is verified
	// before it is decoded, because a decoder may trust a damaged length and allocate gigabytes. The checksum
	// protects against damage, not against a forged file.
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

// sealSegment computes the checksum of a finished segment and writes it into its reserved place.
func sealSegment(data []byte) (string, error) {
	at := bytes.LastIndex(data, []byte(sumMark+noSum))
	if at < 0 {
		return "", errors.New("the segment has no place for its checksum")
	}
	sum := fmt.Sprintf("%016x", xxhash.Sum64(data))
	copy(data[at+len(sumMark):], sum)
	return sum, nil
}

// verifySegment checks data against its embedded checksum and returns the checksum.
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
