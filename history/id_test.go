package history

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"
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

func TestRecordsAreKnownByTheirValues(t *testing.T) {
	ids := NewIDs("run")
	for seq, value := range []string{"no id", "none either"} {
		if _, found := ids.OfValue([]byte(value)); found {
			t.Errorf("%q is known already", value)
		}
		ids.KnowValue([]byte(value), int32(seq))
	}
	for value, want := range map[string]int32{"no id": 0, "none either": 1, "no ID": -1, "no id ": -1, "": -1} {
		if seq, found := ids.OfValue([]byte(value)); found != (want >= 0) || found && seq != want {
			t.Errorf("%q is of record %d, %v; want %d", value, seq, found, want)
		}
	}
	var sending sync.WaitGroup // the tap looks up values while the workload sends others
	sending.Go(func() {
		for seq := range int32(1000) {
			ids.KnowValue(strconv.AppendInt(nil, int64(seq), 10), seq)
		}
	})
	for range 1000 {
		ids.OfValue([]byte("999"))
	}
	sending.Wait()
	if seq, found := ids.OfValue([]byte("999")); !found || seq != 999 {
		t.Errorf("the last value is of record %d, %v", seq, found)
	}
}

// All ids of a call for several records are found, however its service writes them, and each once.
func TestAllIDs(t *testing.T) {
	uuids, numbers, texts := NewIDsAs("run", IDUUID, 9), NewIDsAs("run", IDInt64, 9), NewIDsAs("run", IDText, 9)
	bare := func(token string) string { return strings.ReplaceAll(token, "-", "") }
	binary := func(token string) string { raw, _ := hex.DecodeString(bare(token)); return string(raw) }
	in64 := func(token string) string { return base64.StdEncoding.EncodeToString([]byte(`{"id": "` + token + `"}`)) }
	for name, one := range map[string]struct {
		ids   *IDs
		write func(seq int32) string
	}{
		"texts":              {texts, texts.Token},
		"texts in base64":    {texts, func(seq int32) string { return in64(texts.Token(seq)) }},
		"UUIDs":              {uuids, uuids.Token},
		"in capital letters": {uuids, func(seq int32) string { return strings.ToUpper(uuids.Token(seq)) }},
		"without dashes":     {uuids, func(seq int32) string { return bare(uuids.Token(seq)) }},
		"16 bytes":           {uuids, func(seq int32) string { return binary(uuids.Token(seq)) }},
		"UUIDs in base64":    {uuids, func(seq int32) string { return in64(uuids.Token(seq)) }},
		"numbers":            {numbers, numbers.Token},
		"eight bytes":        {numbers, func(seq int32) string { return string(numbers.AppendAs(nil, seq, IDFixed)) }},
		"varints":            {numbers, func(seq int32) string { return string(numbers.AppendAs(nil, seq, IDVarint)) }},
	} {
		body := "[]"
		want := []int32{3, 0, 7, 8, 1}
		for _, seq := range append(want, 0, 8) {
			body += `, {"id": "` + one.write(seq) + `", "note": "` + strings.Repeat("x", int(seq)*40) + `"}`
		}
		if got := one.ids.All([]byte(body)); !slices.Equal(got, want) {
			t.Errorf("%s: found %v, want %v", name, got, want)
		}
	}
	if got := texts.All([]byte("none of them")); got != nil {
		t.Errorf("found %v where there is none", got)
	}
}
