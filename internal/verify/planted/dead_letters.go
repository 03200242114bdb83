package planted

// This file has bugs in the content of a dead letter: headers and keys that are not text, and the fields of the
// envelope.

import (
	"bytes"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/deadletter"
)

// oddly is a planted bug that changes dead letters of records with unusual headers and keys.
func oddly(name, what, anomaly string, change func(*kgo.Record)) Bug {
	one := sealed(name, what, anomaly, change)
	one.Scenario = "odd-headers"
	return one
}

// sealedBy is a planted bug whose dead letters have false metadata.
func sealedBy(name, what, scenario string, wrap func(deadletter.Sealer) deadletter.Sealer) Bug {
	return Bug{Name: name, What: what, Anomaly: "metadata-wrong", Invariant: "dlq-fidelity", Scenario: scenario,
		Consumer: func(_ *consumer.Config, parts *consumer.Parts) {
			parts.Sealer = wrap(parts.Sealer)
		}}
}

// failing changes the failure passed to the dead letter.
type failing struct {
	deadletter.Sealer
	change func(*deadletter.Failure)
}

func (s failing) Seal(record *kgo.Record, failure deadletter.Failure) *kgo.Record {
	s.change(&failure)
	return s.Sealer.Seal(record, failure)
}

// lastReason passes the previous failure.
type lastReason struct {
	deadletter.Sealer
	mu   sync.Mutex
	last string
}

func (s *lastReason) Seal(record *kgo.Record, failure deadletter.Failure) *kgo.Record {
	s.mu.Lock()
	if failure.Reason, s.last = s.last, failure.Reason; failure.Reason == "" {
		failure.Reason = s.last
	}
	s.mu.Unlock()
	return s.Sealer.Seal(record, failure)
}

// utf8Of returns bytes as they are after being decoded as UTF-8.
func utf8Of(value []byte) []byte {
	if value == nil {
		return nil
	}
	return bytes.ToValidUTF8(value, []byte("\uFFFD"))
}

// changeHeaders changes the headers of the dead letter in a separate list, because the encoded one is shared with the
// record.
func changeHeaders(letter *kgo.Record, change func(*kgo.RecordHeader)) {
	letter.Headers = slices.Clone(letter.Headers)
	for i := range letter.Headers {
		change(&letter.Headers[i])
	}
}

func asText(letter *kgo.Record) {
	changeHeaders(letter, func(header *kgo.RecordHeader) { header.Value = utf8Of(header.Value) })
}

func emptied(letter *kgo.Record) {
	changeHeaders(letter, func(header *kgo.RecordHeader) {
		if header.Value == nil {
			header.Value = []byte{}
		}
	})
}

func nulled(letter *kgo.Record) {
	changeHeaders(letter, func(header *kgo.RecordHeader) {
		if len(header.Value) == 0 {
			header.Value = nil
		}
	})
}

func keptOnce(letter *kgo.Record) {
	var kept []kgo.RecordHeader
	for i, header := range letter.Headers {
		if !slices.ContainsFunc(letter.Headers[i+1:], func(later kgo.RecordHeader) bool { return later.Key == header.Key }) {
			kept = append(kept, header)
		}
	}
	letter.Headers = kept
}

func overwritten(letter *kgo.Record) {
	var kept []kgo.RecordHeader
	for i, header := range letter.Headers {
		again := func(later kgo.RecordHeader) bool { return later.Key == header.Key }
		if !(deadletter.Plain{}).IsFailureHeader(header.Key) || !slices.ContainsFunc(letter.Headers[i+1:], again) {
			kept = append(kept, header)
		}
	}
	letter.Headers = kept
}

func twiceSealed(letter *kgo.Record) {
	own := slices.DeleteFunc(slices.Clone(letter.Headers), func(header kgo.RecordHeader) bool {
		return !deadletter.Plain{}.IsFailureHeader(header.Key)
	})
	letter.Headers = append(slices.Clone(letter.Headers), own...)
}
