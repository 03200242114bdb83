package samples

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
)

func mustRead(t *testing.T, text string, options Options) *Set {
	t.Helper()
	set, problems := Read(strings.NewReader(text), options)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return set
}

// Records go to the topics in turn, and are made from the samples of their topic, with its keys, headers and frames.
func TestTopicsTakeTheirOwnSamples(t *testing.T) {
	envelopes := Options{Lines: LinesEnvelope, ID: place(t, "$.id"), As: history.IDText}
	orders := mustRead(t, `{"key":"o1","headers":{"h":"1"},"value":{"id":"a","n":1}}
{"key":"o2","value":{"id":"a","n":2}}`, envelopes)
	refunds := mustRead(t, `{"key":"r1","headers":{"g":"2"},"value":{"id":"b"}}
{"key":"id","value":{"id":"id"}}
{"value":{"id":"c"}}`, envelopes)
	all := InTurn(orders, refunds).Framed(Frames{Value: Frame{Head: []byte("O")}}, Frames{Key: Frame{Head: []byte("k")},
		Value: Frame{Head: []byte("R"), Headers: []Header{{Name: "f", Value: []byte("3")}}}})
	if all.Len() != 5 || !all.HasKeys() || !slices.Equal(all.HeaderNames(), []string{"f", "g", "h"}) ||
		!slices.Equal(all.Keys(), []string{"o1", "o2", "r1"}) {
		t.Errorf("%d samples, headers %v, keys %v", all.Len(), all.HeaderNames(), all.Keys())
	}
	ids := history.NewIDsAs("run", history.IDText, 10)
	var told []string
	for seq := range 7 {
		sample := all.Turn(seq)
		value := all.AppendValue(nil, sample, ids, int32(seq), 0)
		if len(value) != all.Room(sample, ids, 0) {
			t.Errorf("record %d has %d bytes, and room for %d", seq, len(value), all.Room(sample, ids, 0))
		}
		key, headers := "", ""
		switch of := all.At(sample).Key; of.Kind {
		case KeyOwn:
			key = string(all.OwnKey(of.Index))
		case KeyID:
			key = string(all.AppendKey(nil, sample, ids, int32(seq)))
		}
		for _, header := range all.Headers(sample, true, true, 0) {
			headers += header.Name + string(header.Value)
		}
		text := fmt.Sprintf("%s %s %s", key, value, headers)
		told = append(told, strings.ReplaceAll(text, ids.Token(int32(seq)), "#"))
	}
	want := []string{`o1 O{"id":"#","n":1} h1`, `kr1 R{"id":"#"} g2f3`, `o2 O{"id":"#","n":2} `, `k# R{"id":"#"} f3`,
		`o1 O{"id":"#","n":1} h1`, ` R{"id":"#"} f3`, `o2 O{"id":"#","n":2} `}
	if !slices.Equal(told, want) {
		t.Errorf("made\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
	if broken := string(all.AppendMalformed(nil, NotJSON, 2, ids, 0)); !strings.HasPrefix(broken, "R<") {
		t.Errorf("malformed as %q", broken)
	}
	if InTurn(refunds, orders).Digest() == InTurn(orders, refunds).Digest() || InTurn(orders) != orders {
		t.Error("the order of topics does not count, or one set is not itself")
	}
}
