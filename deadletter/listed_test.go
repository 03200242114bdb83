package deadletter

import (
	"bufio"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestListedSelectsByOneHeaderOnly(t *testing.T) {
	selects, err := Listed(strings.NewReader("a1\n\n  b2  \r\nc3"), "id", Plain{})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		key, value string
		want       bool
	}{
		{"id", "a1", true}, {"id", "b2", true}, {"id", "c3", true},
		{"id", "A1", false}, {"id", "", false}, {"id", "b2 ", false}, {"other", "a1", false},
	} {
		letter := &kgo.Record{Headers: []kgo.RecordHeader{{Key: "first", Value: []byte("x")}, {Key: test.key, Value: []byte(test.value)}}}
		if got := selects(letter); got != test.want {
			t.Errorf("%s=%q: selected is %v, want %v", test.key, test.value, got, test.want)
		}
	}
	if selects(&kgo.Record{Value: []byte("a1"), Key: []byte("a1")}) {
		t.Error("a letter without the header is selected")
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
	if _, err := Listed(strings.NewReader(strings.Repeat("x", bufio.MaxScanTokenSize+1)), "id", Plain{}); !errors.Is(err, bufio.ErrTooLong) {
		t.Errorf("a line that is no id: %v", err)
	}
}
