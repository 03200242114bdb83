package plan

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/samples"
)

const keyed = `{"key":"a","value":{"id":"1"}}
{"key":"2","value":{"id":"2"}}
{"key":null,"value":{"id":"3"}}
{"value":{"id":"4"}}
{"key":"b","value":{"id":"5"}}
`

// Samples take turns, their keys replace those that were drawn, and a key decides its partition.
func TestKeysOfSamplesArePlanned(t *testing.T) {
	place, err := samples.ParsePlace("$.id")
	if err != nil {
		t.Fatal(err)
	}
	set, problems := samples.Read(strings.NewReader(keyed), samples.Options{Lines: samples.LinesEnvelope, ID: place})
	if problems != nil {
		t.Fatal(problems)
	}
	s := scenario(t, "workload: {rate: 500/s, duration: 2s, keys: {null: 10%, binary: 10%}, bursts: {every: 300ms, "+
		"records: 7},"+
		" large: {share: 5%, size: 9KiB}, value_size: 300B}\n")
	p, err := Make(s, 3, set, false)
	if err != nil {
		t.Fatal(err)
	}
	own := planOf(t, s, 3)
	seen := map[int32]int{}
	for i, record := range p.Records {
		drawn := own.Records[i]
		if record.At != drawn.At || record.Outcome != drawn.Outcome || record.Size != drawn.Size ||
			record.Large != (record.Size == 9<<10) {
			t.Fatalf("record %d is %+v, without samples %+v", i, record, drawn)
		}
		seen[record.Sample]++
		partitions := int32(s.Topics.Input.Partitions)
		switch want, sample := drawn.Key, set.At(record.Sample).Key; {
		case drawn.Key == history.None, drawn.Key < history.BinaryKey && sample.Kind == samples.KeyNull:
			if record.Key != history.None {
				t.Fatalf("record %d has the key %d, not null", i, record.Key)
			}
		case drawn.Key >= history.BinaryKey, sample.Kind == samples.KeyUnsaid:
			if record.Key != want || record.Partition != drawn.Partition {
				t.Fatalf("record %d has the key %d, want %d", i, record.Key, want)
			}
		case sample.Kind == samples.KeyID:
			if record.Key != history.KeyIsID {
				t.Fatalf("record %d has the key %d, not its id", i, record.Key)
			}
		default:
			text := p.Keys[record.Key-history.SampleKey]
			if text != set.Keys()[sample.Index] || record.Partition != Partition([]byte(text), int(partitions)) {
				t.Fatalf("record %d has the key %q in partition %d", i, text, record.Partition)
			}
		}
	}
	if len(seen) != set.Len() || seen[0]-seen[4] > 1 {
		t.Errorf("samples are taken %v times", seen)
	}
	again, err := Make(s, 3, set, false)
	if err != nil || !slices.Equal(again.Records, p.Records) {
		t.Errorf("the same seed gives another plan, %v", err)
	}
	var file bytes.Buffer
	if err := p.writeRecords(&file); err != nil {
		t.Fatal(err)
	}
	if largest := p.LargestRecord(); largest < 9<<10 {
		t.Errorf("the largest record has %d bytes", largest)
	}
}
