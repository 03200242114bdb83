package history

import (
	"encoding/base64"
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
		ids := NewIDsAs("run", form)
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
		if _, ok := NewIDsAs("another run", form).Find(text); ok {
			t.Fatal("an id of another run was found")
		}
	})
}
