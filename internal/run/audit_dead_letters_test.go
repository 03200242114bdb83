package run

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestWhatDiffersIsShown checks the description of differences: sizes, the first differing byte, null versus empty,
// and headers by name.
func TestWhatDiffersIsShown(t *testing.T) {
	for _, one := range []struct {
		was, is []byte
		want    string
	}{
		{nil, nil, ""},
		{[]byte{}, []byte{}, ""},
		{[]byte("abc"), []byte("abc"), ""},
		{nil, []byte{}, "it was null and has 0 bytes"},
		{[]byte{}, nil, "it had 0 bytes and is null"},
		{[]byte("ab\xff"), []byte("ab\xef\xbf\xbd"), "it had 3 bytes and has 5; byte 2 was 0xff and is 0xef"},
		{[]byte("abc"), []byte("ab"), "it had 3 bytes and has 2; the first 2 are the same"},
	} {
		if got := differing(one.was, one.is); got != one.want {
			t.Errorf("%q and %q: %q, want %q", one.was, one.is, got, one.want)
		}
	}
	header := func(name string, value []byte) kgo.RecordHeader { return kgo.RecordHeader{Key: name, Value: value} }
	was := []kgo.RecordHeader{header("same", []byte("x")), header("null", nil), header("twice", []byte("1")),
		header("twice", []byte("2")), header("order", []byte("1")), header("order", []byte("2"))}
	is := []kgo.RecordHeader{header("order", []byte("2")), header("order", []byte("1")), header("twice", []byte("1")),
		header("same", []byte("x")), header("null", []byte{}), header("added", []byte("by the envelope"))}
	want := `header "null": it was null and has 0 bytes; header "twice": 2 with this name before, 1 now; ` +
		`header "order": it had 1 bytes and has 1; byte 0 was 0x31 and is 0x32`
	if got := differingHeaders(was, is, func(name string) bool { return name != "added" }); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// A transaction marker is recognised by the key and the value that brokers write (KIP-98).
func TestMarkersAreRecognised(t *testing.T) {
	for name, one := range map[string]struct {
		key, value []byte
		is         bool
	}{
		"commit":            {[]byte{0, 0, 0, 1}, []byte{0, 0, 0, 0, 0, 7}, true},
		"abort":             {[]byte{0, 0, 0, 0}, make([]byte, 6), true},
		"another type":      {[]byte{0, 0, 0, 2}, make([]byte, 6), false},
		"another version":   {[]byte{0, 1, 0, 1}, make([]byte, 6), false},
		"another value":     {[]byte{0, 0, 0, 1}, []byte("order1"), false},
		"a longer value":    {[]byte{0, 0, 0, 1}, make([]byte, 7), false},
		"a longer key":      {[]byte{0, 0, 0, 1, 0}, make([]byte, 6), false},
		"nothing":           {nil, nil, false},
		"a key and no more": {[]byte{0, 0, 0, 1}, nil, false},
	} {
		if is := isMarker(&kgo.Record{Key: one.key, Value: one.value}); is != one.is {
			t.Errorf("%s: %v", name, is)
		}
	}
}

// A dead letter that lost the value of a marker has still its key, which no record of the run has.
func TestMarkersWithoutTheirValues(t *testing.T) {
	commit := []byte{0, 0, 0, 1}
	for name, one := range map[string]struct {
		key, value []byte
		keys       []string
		is         bool
	}{
		"commit":                {commit, nil, []string{"k"}, true},
		"with a value":          {commit, []byte("{}"), nil, false},
		"another type":          {[]byte{0, 0, 0, 2}, nil, nil, false},
		"the key of the sample": {commit, nil, []string{"\x00\x00\x00\x01"}, false},
		"nothing":               {nil, nil, nil, false},
	} {
		if is := lacksMarker(&kgo.Record{Key: one.key, Value: one.value}, one.keys); is != one.is {
			t.Errorf("%s: %v", name, is)
		}
	}
}
