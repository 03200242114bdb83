package deadletter

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Failure is what a dead letter says about the record it holds.
type Failure struct {
	// Reason is the text of the last error.
	Reason string
	// Attempts is the number of executions, the first included; ≥ 1.
	Attempts int32
	// Topic, Partition and Offset are where the record was consumed; Epoch is the leader epoch it was read with, -1 if unknown.
	Topic     string
	Partition int32
	Offset    int64
	Epoch     int32
	// Time is when it was dead-lettered.
	Time time.Time
}

// Sealer makes dead letters.
type Sealer interface {
	// Seal returns a new record that holds the failed one and says how it failed. The failed record is not changed; key,
	// value and header values are shared with it, so neither may be written to. Topic and Partition of the letter are the
	// caller's to set: Partition is the source's until then.
	Seal(record *kgo.Record, failure Failure) *kgo.Record
}

// Opener reads dead letters.
type Opener interface {
	// Open returns what the letter says. missing names the fields that are absent or can't be decoded; those are zero in the
	// Failure (Partition, Offset and Epoch: -1). It never fails and never panics, whatever the letter holds.
	Open(letter *kgo.Record) (failure Failure, missing []string)
	// Restore returns the original record, ready to be produced: what Seal added is gone, key, value and headers are as they
	// were, Topic is the source topic ("" if the letter doesn't say) and Partition the source partition (-1 likewise). The
	// timestamp is not set. The letter is not changed; key, value and header values are shared with it.
	Restore(letter *kgo.Record) *kgo.Record
	// IsFailureHeader reports whether Seal adds a header of this name.
	IsFailureHeader(name string) bool
}

// Dialect is one way of writing a dead letter down.
type Dialect interface {
	Sealer
	Opener
}

// Names returns the names of the known dialects.
func Names() []string { return []string{PlainName} }

// Named returns the dialect with this name; its error lists the names there are.
func Named(name string) (Dialect, error) {
	if name == PlainName {
		return Plain{}, nil
	}
	return nil, fmt.Errorf("%q is no dead-letter envelope: known are %s", name, strings.Join(Names(), ", "))
}
