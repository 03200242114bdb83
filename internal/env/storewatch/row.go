package storewatch

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// row is an entry as it was read.
type row struct {
	id, status, held, lockedBy, strategy, resolution string
	version, retries                                 int64 // history.None if absent
	next, lease                                      time.Time
	source, letter                                   spot
	payload                                          []byte
	eventID                                          string
}

// spot is a position in Kafka; Offset is history.None if it is not known.
type spot struct {
	topic     string
	partition int32
	offset    int64
}

// change is a change of an entry: its previous status, and the row after it, as far as it is known. A status is "" if
// the entry did not, or does not, exist.
type change struct {
	oldStatus, oldHeld string
	now                *row
	at                 time.Time // zero: the table does not contain it
	polled             bool
}

// scanned creates a row from the columns' values, in the order of Columns.list.
func scanned(values []any) *row {
	r := &row{
		id: text(values[0]), status: text(values[1]), held: text(values[2]), lockedBy: text(values[3]),
		lease:   moment(values[4]),
		version: number(values[5]), retries: number(values[6]), next: moment(values[7]), strategy: text(values[8]),
		resolution: text(values[9]), eventID: text(values[17]),
	}
	r.source = spot{text(values[10]), int32(number(values[11])), number(values[12])}
	r.letter = spot{text(values[13]), int32(number(values[14])), number(values[15])}
	r.payload = raw(values[16])
	return r
}

// text returns a value as text, "" for NULL. Some drivers return a UUID as 16 bytes.
func text(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case [16]byte:
		return fmt.Sprintf("%x-%x-%x-%x-%x", v[:4], v[4:6], v[6:8], v[8:10], v[10:])
	case []byte:
		return string(v)
	}
	return fmt.Sprint(value)
}

func raw(value any) []byte {
	if bytes, is := value.([]byte); is {
		return bytes
	}
	return []byte(text(value))
}

// number returns a value as a number, history.None for NULL and for values that are not numbers.
func number(value any) int64 {
	switch v := value.(type) {
	case int64:
		return v
	case int32:
		return int64(v)
	case int:
		return int64(v)
	case float64:
		return int64(v)
	case nil:
		return history.None
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text(value)), 10, 64)
	if err != nil {
		return history.None
	}
	return n
}

// moment returns a value as a time, the zero time for NULL and for values that are not times. Times without a zone
// are UTC; numbers are seconds or milliseconds since 1970.
func moment(value any) time.Time {
	switch v := value.(type) {
	case nil:
		return time.Time{}
	case time.Time:
		return v.UTC()
	case int64:
		if v > 1e11 {
			return time.UnixMilli(v).UTC()
		}
		return time.Unix(v, 0).UTC()
	case float64:
		return time.UnixMicro(int64(v * 1e6)).UTC()
	}
	written := strings.TrimSpace(text(value))
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999",
		"2006-01-02 15:04:05.999999999Z07:00"} {
		if at, err := time.Parse(layout, written); err == nil {
			return at.UTC()
		}
	}
	return time.Time{}
}

// same reports whether no reported property differs.
func (r *row) same(other *row) bool {
	return r.status == other.status && r.held == other.held && r.lockedBy == other.lockedBy &&
		r.version == other.version && r.retries == other.retries &&
		r.next.Equal(other.next) && r.lease.Equal(other.lease)
}

// compare returns the differences from the last look.
func compare(before, found map[string]*row) (all []change) {
	for _, id := range slices.Sorted(maps.Keys(found)) {
		now, old := found[id], before[id]
		switch {
		case old == nil:
			all = append(all, change{now: now, polled: true})
		case !old.same(now):
			all = append(all, change{now: now, oldStatus: old.status, oldHeld: old.held, polled: true})
		}
	}
	return append(all, gone(before, found)...)
}

// gone returns the entries that do not exist any more. The program that removed them, the time, and their last
// states are not known.
func gone(before, found map[string]*row) (all []change) {
	for _, id := range slices.Sorted(maps.Keys(before)) {
		if old := before[id]; found[id] == nil {
			all = append(all, change{now: &row{id: id, version: old.version, retries: old.retries}, oldStatus: old.status,
				oldHeld: old.held, polled: true})
		}
	}
	return all
}
