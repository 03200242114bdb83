package history

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"
	"testing"
)

// FuzzFind checks that an id is found whatever surrounds it, raw or inside base64, and that nothing else is taken for
// one.
func FuzzFind(f *testing.F) {
	f.Add([]byte("before"), []byte("after"), int32(7), false)
	f.Add([]byte("DLQB"), []byte{0xff, 0}, int32(0), true)
	f.Fuzz(func(t *testing.T, before, after []byte, seq int32, uuid bool) {
		form := IDText
		if uuid {
			form = IDUUID
		}
		ids := NewIDsAs("run", form, 0)
		if found, ok := ids.Find(before); ok && ids.Token(found) == "" {
			t.Fatal("what was found is no id")
		}
		if _, ok := ids.Find(append(append([]byte{}, before...), after...)); ok || seq < 0 {
			return // it has an id of its own
		}
		text := append(ids.Append(append([]byte{}, before...), seq), after...)
		for _, data := range [][]byte{text, []byte(base64.StdEncoding.EncodeToString(text)),
			[]byte(base64.RawURLEncoding.EncodeToString(text))} {
			if found, ok := ids.Find(data); !ok || found != seq {
				t.Fatalf("found %d, %v in %q, put %d in", found, ok, data, seq)
			}
		}
		if _, ok := NewIDsAs("another run", form, 0).Find(text); ok {
			t.Fatal("an id of another run was found")
		}
	})
}

// FuzzFindNumber checks that an id as a number is found in any of its forms, whatever surrounds it, and that a number
// is taken for an id only if it is one.
func FuzzFindNumber(f *testing.F) {
	f.Add([]byte(`{"at":1772356364000000,"id":`), []byte("}"), int32(7))
	f.Add([]byte("1.234567890123456E15 "), []byte{0, 3}, int32(0))
	f.Add([]byte("MTIzNDU2Nzg5MDEyMzQ1Ng=="), []byte("/15"), int32(99_999))
	f.Fuzz(func(t *testing.T, before, after []byte, seq int32) {
		const records = 100_000
		ids, other := NewIDsAs("run", IDInt64, records), NewIDsAs("another run", IDInt64, records)
		if seq < 0 || seq >= records {
			if got, ok := ids.Find(ids.Append(nil, max(seq, records))); ok {
				t.Fatalf("found %d, which the run does not have", got)
			}
			return
		}
		if got, ok := ids.Find(before); ok && (got < 0 || got >= records) {
			t.Fatalf("found %d, which the run does not have", got)
		}
		number, err := strconv.ParseInt(ids.Token(seq), 10, 64)
		if err != nil || float64(number) >= 1<<53 || int64(float64(number)) != number {
			t.Fatalf("%s is not a number that a double holds: %v", ids.Token(seq), err)
		}
		// What stands around the number is not part of it: another number begins behind a space.
		before, after = append(append([]byte{}, before...), ' '), append([]byte{' '}, after...)
		surrounded := append(append([]byte{}, before...), after...)
		forms := [][]byte{
			strconv.AppendFloat(nil, float64(number), 'e', -1, 64), strconv.AppendFloat(nil, float64(number), 'f', 1, 64),
			binary.BigEndian.AppendUint64(nil, uint64(number)),
		}
		for _, as := range ids.Writings() {
			forms = append(forms, ids.AppendAs(nil, seq, as))
		}
		for _, written := range forms {
			data := append(append(append([]byte{}, before...), written...), after...)
			if got, ok := ids.Find(data); !ok || got != seq && !foundIn(ids, surrounded) {
				t.Fatalf("found %d, %v in %q, put %d in", got, ok, data, seq)
			}
			if foundIn(other, data) && !foundIn(other, surrounded) {
				t.Fatalf("an id of another run was found in %q", data)
			}
			if len(written) != numberBytes && math.Mod(float64(number), 1e4) == 0 {
				continue // base64 is searched for enough digits
			}
			for _, encoded := range []string{
				base64.StdEncoding.EncodeToString(data), base64.RawURLEncoding.EncodeToString(data),
			} {
				if got, ok := ids.Find([]byte(encoded)); !ok || got != seq && !foundIn(ids, surrounded) {
					t.Fatalf("found %d, %v in %q, put %d in", got, ok, encoded, seq)
				}
			}
		}
	})
}

func foundIn(ids *IDs, data []byte) bool {
	_, found := ids.Find(data)
	return found
}
