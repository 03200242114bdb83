package history

import (
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestUUIDIsFoundHoweverItIsWritten(t *testing.T) {
	for form, version := range map[IDForm]byte{IDUUID: 8, IDUUID4: 4} {
		t.Run(string(form), func(t *testing.T) { foundHoweverWritten(t, form, version) })
	}
}

func foundHoweverWritten(t *testing.T, form IDForm, version byte) {
	ids, other := NewIDsAs("run-a", form, 0), NewIDsAs("run-b", form, 0)
	rapid.Check(t, func(t *rapid.T) {
		seq := rapid.Int32Min(0).Draw(t, "seq")
		before := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "before")
		after := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "after")
		token := ids.Token(seq)
		digits := strings.ReplaceAll(token, "-", "")
		raw, err := hex.DecodeString(digits)
		if err != nil || len(token) != ids.Len() || raw[6]>>4 != version || raw[8]>>6 != 2 {
			t.Fatalf("%q is not a UUID of version %d: %v", token, version, err)
		}
		for how, written := range map[string]string{
			"text": token, "upper case": strings.ToUpper(token), "digits": digits, "upper digits": strings.ToUpper(digits),
			"bytes": string(raw),
		} {
			data := append(append(append([]byte{}, before...), written...), after...)
			for _, carried := range [][]byte{data, []byte(base64.StdEncoding.EncodeToString(data)),
				[]byte("https://h/p/" + base64.RawURLEncoding.EncodeToString(data) + "?x=1")} {
				if got, ok := ids.Find(carried); !ok || got != seq {
					t.Fatalf("%s: found %d, %v; want %d in %q", how, got, ok, seq, carried)
				}
				if got, ok := other.Find(carried); ok {
					t.Fatalf("%s: another run's ids found %d", how, got)
				}
			}
		}
	})
}

func TestDamagedUUIDIsNotFound(t *testing.T) {
	ids := NewIDsAs("run-a", IDUUID, 0)
	token := []byte(ids.Token(1 << 30))
	for i := range token {
		for bit := range 7 {
			damaged := append([]byte{}, token...)
			if damaged[i] ^= 1 << bit; strings.EqualFold(string(damaged), string(token)) {
				continue // a letter in the other case is the same digit
			}
			if seq, ok := ids.Find(damaged); ok {
				t.Fatalf("byte %d bit %d flipped, still found as %d", i, bit, seq)
			}
		}
	}
}

// The 91 bits that tell an id from a random UUID can't be tested by drawing some. So every other UUID begins with the
// run's tag: of the 2^74 that do, 2^31 are ids.
func TestOtherUUIDsAreNotTakenForIDs(t *testing.T) {
	ids := NewIDsAs("run", IDUUID, 0)
	head := must.Get(hex.DecodeString(strings.ReplaceAll(ids.Token(0), "-", "")[:2*uuidTag]))(t)
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 200_000 {
		var id [16]byte
		for i := range id {
			id[i] = byte(random.Uint32())
		}
		version := []byte{4, 7, 8}[n%3]
		id[6], id[8] = id[6]&0x0f|version<<4, id[8]&0x3f|0x80
		if n%2 == 0 {
			copy(id[:], head)
		}
		text := hex.EncodeToString(id[:])
		text = text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
		for _, data := range [][]byte{id[:], []byte(`{"id":"` + text + `"}`)} {
			if seq, ok := ids.Find(data); ok {
				t.Fatalf("%s was taken for the id of record %d", text, seq)
			}
		}
	}
}

// An id of the run with another version is not an id: a consumer that sets the version makes a UUID of its own.
func TestUUIDOfAnotherVersionIsNotFound(t *testing.T) {
	for form, other := range map[IDForm]IDForm{IDUUID: IDUUID4, IDUUID4: IDUUID} {
		token := NewIDsAs("run", other, 0).Token(7)
		if seq, ok := NewIDsAs("run", form, 0).Find([]byte(token)); ok {
			t.Fatalf("%s was found as %d", token, seq)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	for _, form := range []IDForm{IDText, IDUUID, IDUUID4, IDInt64} {
		ids := NewIDsAs("run", form, 100_000)
		value := []byte(`{"id":"` + ids.Token(3) + `","pad":"` + strings.Repeat("lorem ipsum ", 20) + `"}`)
		for name, data := range map[string][]byte{"there": value, "not there": value[len(ids.Token(3)):]} {
			b.Run(string(form)+" "+name, func(b *testing.B) {
				for b.Loop() {
					ids.Find(data)
				}
			})
		}
	}
}
