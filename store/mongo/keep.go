package mongo

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/dlqbench/dlqbench/store"
)

// Settle unlocks the entry and stores the result.
func (s *Store) Settle(ctx context.Context, lock store.Lock, change store.Change) error {
	now, err := s.begin(ctx)
	if err != nil {
		return err
	}
	doing := "settling " + lock.ID
	if err := store.Changeable(store.Processing, change.State); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if change.State == store.Resolved && change.Resolution == nil {
		change.Resolution = &store.Resolution{How: store.AutomaticRetry}
	}
	if err := store.CheckEnd(change); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	settled := update{now: now, from: store.Processing, to: change.State, version: lock.Version + 1, change: change}
	settled.schedule()
	if change.Resolution != nil || change.Value != nil || change.OriginalEvent != nil {
		// Values that cannot change during the lock are read before. The compare-and-set then verifies the lock.
		entry, err := s.Get(ctx, lock.ID)
		if errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("%s: %w: it was removed", doing, store.ErrLockLost)
		}
		if err != nil {
			return err
		}
		settled.created, settled.event = entry.CreatedAt, edited(entry, change)
	}
	return s.compareAndSet(ctx, s.held(lock), s.operators(settled), doing)
}

// edited is the entry with the message of a change, or nil if the change has none.
func edited(entry store.Entry, change store.Change) *store.Entry {
	if change.Value == nil && change.OriginalEvent == nil {
		return nil
	}
	if change.Value != nil {
		entry.Value = change.Value
	}
	entry.OriginalEvent = store.EventOf(change.OriginalEvent, change.Value, "", entry.EventID)
	entry.Pattern = store.EventPattern(entry.OriginalEvent)
	return &entry
}

// Alter changes an unlocked entry that still has this version.
func (s *Store) Alter(ctx context.Context, id string, version int64, change store.Change) error {
	now, err := s.begin(ctx)
	if err != nil {
		return err
	}
	doing := "changing " + id
	entry, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	if err := store.Alterable(entry, version, change); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if change.State == store.Resolved && change.Resolution == nil {
		change.Resolution = &store.Resolution{How: store.ManualResolution}
	}
	if err := store.CheckEnd(change); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	altered := update{
		now: now, from: entry.State, to: change.State, version: version + 1, worker: change.Worker, lease: change.Lease,
		change: change, created: entry.CreatedAt, event: edited(entry, change),
	}
	altered.schedule()
	filter := append(bson.D{{Key: "_id", Value: entry.ID}, {Key: "version", Value: version},
		{Key: "lockedBy", Value: nil}}, s.inState(entry.State)...)
	err = s.compareAndSet(ctx, filter, s.operators(altered), doing)
	if errors.Is(err, store.ErrLockLost) {
		return fmt.Errorf("%s: %w", doing, s.whatHappened(ctx, id))
	}
	return err
}

// whatHappened returns what changed between the reading of an entry and its update.
func (s *Store) whatHappened(ctx context.Context, id string) error {
	entry, err := s.Get(ctx, id)
	switch {
	case err != nil:
		return err
	case entry.LockedBy != "" || entry.State == store.Processing:
		return store.ErrLocked
	default:
		return store.ErrStale
	}
}

// Remove deletes entries that are unlocked and have a known status.
func (s *Store) Remove(ctx context.Context, ids []string) (int, error) {
	if err := s.check(ctx); err != nil {
		return 0, err
	}
	removed := 0
	for _, transition := range store.Transitions() {
		if transition.To != store.Gone {
			continue
		}
		filter := append(bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: store.ReadIDs(ids)}}},
			{Key: "lockedBy", Value: nil}}, s.inState(transition.From)...)
		result, err := s.messages.DeleteMany(ctx, filter)
		if err != nil {
			return removed, explain("removing dead letters", err)
		}
		removed += int(result.DeletedCount)
	}
	return removed, nil
}

// Get returns one entry.
func (s *Store) Get(ctx context.Context, id string) (store.Entry, error) {
	if err := s.check(ctx); err != nil {
		return store.Entry{}, err
	}
	ids := store.ReadIDs([]string{id})
	if len(ids) == 0 {
		return store.Entry{}, fmt.Errorf("%w with the id %q", store.ErrNotFound, id)
	}
	var d document
	err := s.messages.FindOne(ctx, bson.D{{Key: "_id", Value: ids[0]}}, options.FindOne()).Decode(&d)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return store.Entry{}, fmt.Errorf("%w with the id %q", store.ErrNotFound, id)
	}
	if err != nil {
		return store.Entry{}, explain("reading "+id, err)
	}
	return s.read(d)
}
