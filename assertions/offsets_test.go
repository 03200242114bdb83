package assertions

import (
	"testing"

	"pgregory.net/rapid"
)

// Whichever records lie at the offsets of a partition, near each other or not, each offset has the last that was put
// there.
func TestOffsetsKeepEveryRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, want := newOffsets(), map[int64]int32{}
		numbers := rapid.OneOf(rapid.Int32Range(0, 3*pageSize), rapid.Int32Min(0), rapid.Int32Range(1<<16, 1<<17))
		for range rapid.IntRange(0, 50).Draw(t, "records") {
			offset := rapid.Int64Range(0, 3*pageSize).Draw(t, "offset")
			record := numbers.Draw(t, "record")
			if !o.put(offset, record) {
				t.Fatalf("offset %d is refused", offset)
			}
			want[offset] = record
		}
		for offset := range int64(4 * pageSize) {
			record, known := want[offset]
			if !known {
				record = none
			}
			if got := o.at(offset); got != record {
				t.Fatalf("record %d lies at offset %d, want %d", got, offset, record)
			}
		}
	})
}
