package history

import (
	"encoding/base64"
	"testing"

	"pgregory.net/rapid"
)

func TestIDIsFoundWhereverItIsCarried(t *testing.T) {
	ids, other := NewIDs("run-a"), NewIDs("run-b")
	rapid.Check(t, func(t *rapid.T) {
		seq := rapid.Int32Min(0).Draw(t, "seq")
		before := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "before")
		after := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "after")
		raw := append(ids.Append(append([]byte{}, before...), seq), after...)
		carried := map[string][]byte{
			"raw":     raw,
			"base64":  []byte(base64.StdEncoding.EncodeToString(raw)),
			"rawurl":  []byte("{\"v\":\"" + base64.RawURLEncoding.EncodeToString(raw) + "\"}"),
			"decoy":   append(append([]byte{}, ids.Token(0)[:idHeadLen]...), raw...),
			"trimmed": raw[len(before) : len(before)+IDLen],
		}
		for how, data := range carried {
			if got, ok := ids.Find(data); !ok || got != seq {
				t.Fatalf("%s: found %d, %v; want %d in %q", how, got, ok, seq, data)
			}
			if got, ok := other.Find(data); ok {
				t.Fatalf("%s: another run's ids found %d", how, got)
			}
		}
	})
}

func TestDamagedIDIsNotFound(t *testing.T) {
	ids := NewIDs("run-a")
	token := []byte(ids.Token(12345))
	for i := range token {
		for bit := range 7 {
			damaged := append([]byte{}, token...)
			damaged[i] ^= 1 << bit
			if seq, ok := ids.Find(damaged); ok {
				t.Fatalf("byte %d bit %d flipped, still found as %d", i, bit, seq)
			}
		}
	}
}
