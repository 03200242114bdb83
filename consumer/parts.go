package consumer

import (
	"hash/maphash"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
)

// Parts are what the consumer is made of; each can be replaced. All but Parker and Committer are called by one
// goroutine, and none of them may block, but for the Committer.
type Parts struct {
	// Lane says which records go one after another: those with the same lane within a partition. ordered = false: the
	// record waits for none.
	Lane func(record *kgo.Record) (lane uint64, ordered bool)
	// Policy decides after each attempt.
	Policy Policy
	// Sealer makes the dead letter, Copier the copy for a retry topic.
	Sealer deadletter.Sealer
	Copier Copier
	// Router says where records go that are finished; nil: nowhere, their offsets are committed and that is all.
	Router Router
	// Parker publishes what the others make.
	Parker Parker
	// NewTracker makes the tracker of a newly assigned partition. In share groups and with transactions nobody asks it,
	// nor the Committer.
	NewTracker func() Tracker
	// Committer commits what the trackers say.
	Committer Committer
	// AtStop says what becomes of a record that is in backoff when the consumer stops. Retry leaves it, unfinished and
	// uncommitted, to whoever is given the partition next.
	AtStop func(record *kgo.Record) Action
	// AtRevoke says the same of a record whose partition is taken away.
	AtRevoke func(record *kgo.Record) Action
	// Surface reports dead letters and retry copies that can't be published.
	Surface func(log zerolog.Logger, trouble Trouble)
}

// DefaultParts returns the parts that keep what the settings promise.
func DefaultParts(settings Settings) Parts {
	return Parts{
		Lane:       LaneFor(settings.Ordering),
		Policy:     Bounded{MaxAttempts: settings.MaxRetries, Backoff: settings.Backoff(), Random: Uniform},
		Sealer:     sealerFor(settings.Envelope),
		Copier:     HeaderCopier{},
		Parker:     AckedParker{},
		NewTracker: func() Tracker { return NewPrefixTracker() },
		Committer:  GroupCommitter{},
		AtStop:     func(*kgo.Record) Action { return Retry },
		AtRevoke:   func(*kgo.Record) Action { return Retry },
		Surface:    LogTrouble,
	}
}

// sealerFor returns the dialect; a name that is none is reported by Settings.Validate.
func sealerFor(envelope string) deadletter.Sealer {
	if dialect, err := deadletter.Named(envelope); err == nil {
		return dialect
	}
	return deadletter.Plain{}
}

// LaneFor returns the lanes of an ordering: none, partition, or key (the default). Under key, records without a key
// wait for none, since there is no order among them to keep; two keys may share a lane by chance, which costs a little
// time and nothing else.
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
