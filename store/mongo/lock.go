package mongo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/dlqbench/dlqbench/store"
)

// found holds the fields of an entry that are read before a compare-and-set.
type found struct {
	ID      string `bson:"_id"`
	Version int64  `bson:"version"`
}

func foundFields() bson.D { return bson.D{{Key: "_id", Value: 1}, {Key: "version", Value: 1}} }

// Claim locks up to limit due entries for the worker: it finds the due entries and then locks them one by one. It skips
// an entry that another worker has locked first. Each worker begins at a different one of the found entries, because
// workers that poll together find the same ones.
func (s *Store) Claim(ctx context.Context, worker string, lease time.Duration,
	limit int) (claimed []store.Entry, err error) {
	if worker == "" || lease <= 0 || limit < 1 {
		return nil, fmt.Errorf(
			"claiming dead letters: a worker's name, a lease and a limit above 0 are needed, got %q, %s, %d", worker,
			lease, limit)
	}
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	defer func() { store.SortDue(claimed) }()
	for len(claimed) < limit {
		now, err := s.Now(ctx)
		if err != nil {
			return claimed, err
		}
		candidates, err := s.due(ctx, now, limit-len(claimed))
		if err != nil || len(candidates) == 0 {
			return claimed, err
		}
		start := rand.IntN(len(candidates))
		for i := range candidates {
			entry, won, err := s.lock(ctx, candidates[(start+i)%len(candidates)], worker, now, lease)
			if err != nil {
				return claimed, err
			}
			if won {
				claimed = append(claimed, entry)
			}
		}
	}
	return claimed, nil
}

// dueFilter is the document's query for pending entries, by the server's clock.
func (s *Store) dueFilter(now time.Time) bson.D {
	return append(s.inState(store.Pending), bson.E{Key: "nextRetryAt", Value: bson.D{{Key: "$lte", Value: now}}},
		bson.E{Key: "lockedBy", Value: nil})
}

// inState selects the entries in a state. If nothing holds an entry, its field for that may also be missing.
func (s *Store) inState(state store.State) bson.D {
	status, held := s.words.Write(state)
	filter := bson.D{{Key: "status", Value: status}}
	if held == "" {
		return append(filter, bson.E{Key: "held", Value: bson.D{{Key: "$in", Value: bson.A{"", nil}}}})
	}
	return append(filter, bson.E{Key: "held", Value: held})
}

// due finds the due entries. The document's query sorts by priority, which its own schema has in metadata.
func (s *Store) due(ctx context.Context, now time.Time, limit int) ([]found, error) {
	order := bson.D{{Key: "metadata.priority", Value: -1}, {Key: "createdAt", Value: 1}, {Key: "_id", Value: 1}}
	return s.find(ctx, s.dueFilter(now), order, limit)
}

func (s *Store) find(ctx context.Context, filter, order bson.D, limit int) ([]found, error) {
	cursor, err := s.messages.Find(ctx, filter, options.Find().SetSort(order).SetLimit(int64(limit)).SetProjection(
		foundFields()))
	if err != nil {
		return nil, explain("looking for dead letters", err)
	}
	var all []found
	return all, explain("looking for dead letters", cursor.All(ctx, &all))
}

// lock is the compare-and-set. It returns true if this worker has locked the entry.
func (s *Store) lock(ctx context.Context, candidate found, worker string, now time.Time,
	lease time.Duration) (store.Entry, bool, error) {
	filter := append(bson.D{{Key: "_id", Value: candidate.ID}, {Key: "version", Value: candidate.Version}},
		s.dueFilter(now)...)
	taken := update{now: now, from: store.Pending, to: store.Processing, version: candidate.Version + 1, worker: worker,
		lease: lease, keepNext: true}
	var locked document
	err := s.messages.FindOneAndUpdate(ctx, filter, s.operators(taken),
		options.FindOneAndUpdate().SetReturnDocument(options.After)).Decode(&locked)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return store.Entry{}, false, nil
	}
	if err != nil {
		return store.Entry{}, false, explain("locking "+candidate.ID, err)
	}
	entry, err := s.read(locked)
	return entry, err == nil, err
}

// held selects an entry by a worker's lock.
func (s *Store) held(lock store.Lock) bson.D {
	return append(bson.D{{Key: "_id", Value: lock.ID}, {Key: "version", Value: lock.Version},
		{Key: "lockedBy", Value: store.Cut(lock.Worker, 255)}},
		s.inState(store.Processing)...)
}

// Renew extends the lease.
func (s *Store) Renew(ctx context.Context, lock store.Lock, lease time.Duration) error {
	if lease <= 0 {
		return fmt.Errorf("renewing the lock of %s: a lease above 0 is needed, got %s", lock.ID, lease)
	}
	now, err := s.begin(ctx)
	if err != nil {
		return err
	}
	set := bson.D{{Key: "$set", Value: bson.D{{Key: "leaseUntil", Value: millis(now.Add(lease))}}}}
	return s.compareAndSet(ctx, s.held(lock), set, "renewing the lock of "+lock.ID)
}

// compareAndSet changes the entry if the filter still selects it, otherwise it returns ErrLockLost.
func (s *Store) compareAndSet(ctx context.Context, filter, change bson.D, doing string) error {
	result, err := s.messages.UpdateOne(ctx, filter, change)
	if err != nil {
		return explain(doing, err)
	}
	if result.MatchedCount == 0 {
		return fmt.Errorf("%s: %w", doing, store.ErrLockLost)
	}
	return nil
}

// Recover releases entries whose lease has expired. A worker that renews meanwhile keeps its entry, because the lease
// is part of the comparison.
func (s *Store) Recover(ctx context.Context) (int, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	// An entry without a lease was locked without one, so its holder cannot renew.
	over := append(s.inState(store.Processing), bson.E{Key: "$or", Value: bson.A{
		bson.D{{Key: "leaseUntil", Value: nil}}, bson.D{{Key: "leaseUntil", Value: bson.D{{Key: "$lte", Value: now}}}},
	}})
	recovered := 0
	for {
		const batch = 100
		orphans, err := s.find(ctx, over, bson.D{{Key: "leaseUntil", Value: 1}}, batch)
		if err != nil || len(orphans) == 0 {
			return recovered, err
		}
		for _, orphan := range orphans {
			filter := append(bson.D{{Key: "_id", Value: orphan.ID}, {Key: "version", Value: orphan.Version}}, over...)
			freed := update{now: now, from: store.Processing, to: store.Pending, version: orphan.Version + 1, next: now}
			err := s.compareAndSet(ctx, filter, s.operators(freed), "recovering "+orphan.ID)
			if errors.Is(err, store.ErrLockLost) {
				continue // settled, renewed or recovered by another process
			}
			if err != nil {
				return recovered, err
			}
			recovered++
		}
	}
}
