package consumer

import (
	"hash/maphash"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
)

// Parts are the replaceable parts of the consumer. All but Parker and Committer are called by one goroutine. Only the
// Committer may block.
type Parts struct {
	// Lane defines which records are processed one after another: those with the same lane within a partition. If
	// ordered is false, the record waits for no other.
	Lane func(record *kgo.Record) (lane uint64, ordered bool)
	// Policy decides what follows each attempt.
	Policy Policy
	// Sealer creates the dead letter, Copier the copy for a retry topic.
	Sealer deadletter.Sealer
	Copier Copier
	// Router decides where finished records go. If it is nil, their offsets are committed and nothing is forwarded.
	Router Router
	// Parker publishes the records that Sealer, Copier and Router create.
	Parker Parker
	// NewTracker returns the tracker of a newly assigned partition. Share groups and transactions use neither it nor
	// the Committer.
	NewTracker func() Tracker
	// Committer commits the prefixes of the trackers.
	Committer Committer
	// AtStop decides about a record that is in backoff when the consumer stops. Retry leaves the record unfinished
	// and uncommitted to the next owner of the partition.
	AtStop func(record *kgo.Record) Action
	// AtRevoke decides in the same way about a record whose partition is revoked.
	AtRevoke func(record *kgo.Record) Action
	// Surface reports dead letters and retry copies that cannot be published.
	Surface func(log zerolog.Logger, trouble Trouble)
}

// DefaultParts returns the parts that keep the promises of the settings.
func DefaultParts(settings Settings) Parts {
	return Parts{
		Lane:       LaneFor(settings.Ordering),
		Policy:     Bounded{MaxAttempts: settings.MaxRetries, Backoff: settings.Backoff(), Random: Uniform},
		Sealer:     sealerFor(string(settings.Envelope)),
		Copier:     HeaderCopier{},
		Parker:     AckedParker{},
		NewTracker: func() Tracker { return NewPrefixTracker() },
		Committer:  GroupCommitter{},
		AtStop:     func(*kgo.Record) Action { return Retry },
		AtRevoke:   func(*kgo.Record) Action { return Retry },
		Surface:    LogTrouble,
	}
}

// sealerFor returns the dialect with the name. Settings.Validate reports unknown names.
func sealerFor(envelope string) deadletter.Sealer {
	if dialect, err := deadletter.Named(envelope); err == nil {
		return dialect
	}
	return deadletter.Plain{}
}

// LaneFor returns the lanes of an ordering: none, partition, or key (the default). With key, records without a key
// wait for no other, because there is no order among them to keep. Two keys may share a lane by chance, which only
// costs a little time.
func LaneFor(ordering string) func(*kgo.Record) (uint64, bool) {
	switch ordering {
	case OrderingNone:
		return func(*kgo.Record) (uint64, bool) { return 0, false }
	case OrderingPartition:
		return func(*kgo.Record) (uint64, bool) { return 0, true }
	}
	seed := maphash.MakeSeed()
	return func(record *kgo.Record) (uint64, bool) {
		if record.Key == nil {
			return 0, false
		}
		return maphash.Bytes(seed, record.Key), true
	}
}
