package deadletter

import (
	"bufio"
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestListedSelectsByOneHeaderOnly(t *testing.T) {
	selects := must.Get(Listed(strings.NewReader("a1\n\n  b2  \r\nc3"), "id", Plain{}))(t)
	for _, test := range []struct {
		key, value string
		want       bool
	}{
		{"id", "a1", true}, {"id", "b2", true}, {"id", "c3", true},
		{"id", "A1", false}, {"id", "", false}, {"id", "b2 ", false}, {"other", "a1", false},
	} {
		letter := &kgo.Record{Headers: []kgo.RecordHeader{{Key: "first", Value: []byte("x")},
			{Key: test.key, Value: []byte(test.value)}}}
		if got := selects(letter); got != test.want {
			t.Errorf("%s=%q: selected is %v, want %v", test.key, test.value, got, test.want)
		}
	}
	if selects(&kgo.Record{Key: []byte("a1")}) {
		t.Error("a dead letter is selected by its key")
	}
	if selects(&kgo.Record{Headers: []kgo.RecordHeader{header("id", "z9")}, Value: []byte("a1")}) {
		t.Error("a dead letter whose header has another value is selected by what is in its value")
	}
}

// A dead letter must be found by the record's id, whatever it keeps of the record. Two dialects do not store the
// position, and headers may be missing because the dialect does not keep them or a consumer drops them.
func TestListedFindsTheLettersOfEveryDialect(t *testing.T) {
	const id, other = "dlqbench-id-0000-0041", "dlqbench-id-0000-0042"
	selection := func(dialect Opener, wanted string) func(*kgo.Record) bool {
		t.Helper()
		selects := must.Get(Listed(strings.NewReader(wanted), "id", dialect))(t)
		return selects
	}
	bare := kgo.Record{Key: []byte("key-1"), Value: []byte(`{"id":"` + id + `","seq":41}`)}
	headed, null := bare, bare
	headed.Headers = []kgo.RecordHeader{header("trace-1", "span"), header("id", id)}
	null.Value, null.Headers = nil, headed.Headers
	for _, one := range dialects() {
		traits := one.dialect.Traits()
		keepsHeaders := traits.Headers && len(traits.OnlyHeaders) == 0
		for _, record := range []struct {
			name string
			kgo.Record
			want bool
		}{
			{"with its header", headed, true}, {"its headers dropped", bare, true}, {"a null value", null, keepsHeaders},
		} {
			letter := one.dialect.Seal(&record.Record, told())
			if got := selection(one.dialect, id)(letter); got != record.want {
				t.Errorf("%s, %s: selected is %v, want %v", one.name, record.name, got, record.want)
			}
			if selection(one.dialect, other)(letter) {
				t.Errorf("%s, %s: selected by the id of another record", one.name, record.name)
			}
			if back := one.dialect.Prepare(letter); record.want && !bytes.Contains(back.Value, []byte(id)) &&
				!slices.ContainsFunc(back.Headers, func(h kgo.RecordHeader) bool { return string(h.Value) == id }) {
				t.Errorf("%s, %s: what a replay writes has the id no more", one.name, record.name)
			}
		}
	}
}

func TestListedRefusesWhatSelectsNothing(t *testing.T) {
	if _, err := Listed(strings.NewReader(" \n\n"), "id", Plain{}); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("an empty list: %v", err)
	}
	broken := errors.New("the disk is gone")
	if _, err := Listed(iotest.ErrReader(broken), "id", Plain{}); !errors.Is(err, broken) {
		t.Errorf("a list that can't be read: %v", err)
	}
	if _, err := Listed(strings.NewReader(strings.Repeat("x", bufio.MaxScanTokenSize+1)), "id", Plain{}); !errors.Is(err,
		bufio.ErrTooLong) {
		t.Errorf("a line that is no id: %v", err)
	}
}
