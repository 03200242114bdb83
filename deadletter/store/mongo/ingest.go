package mongo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/dlqbench/dlqbench/deadletter/store"
)

const duplicateKey = 11000

// Ingest adds the entries whose source isn't there yet. It returns when a majority has them in its journal. After an error some of
// them may be there: ingesting them again adds the others.
func (s *Store) Ingest(ctx context.Context, entries []store.Entry) (int, error) {
	if err := s.check(ctx); err != nil {
		return 0, err
	}
	if len(entries) == 0 {
		return 0, nil
	}
	now, err := s.Now(ctx)
	if err != nil {
		return 0, err
	}
	documents, named := make([]document, len(entries)), map[string]place{}
	for i, entry := range entries {
		filled, err := fill(entry, now)
		if err != nil {
			return 0, fmt.Errorf("adding dead letters: %w", err)
		}
		if documents[i], err = fit(s.write(filled)); err != nil {
			return 0, err
		}
		if entry.ID == "" {
			continue
		}
		if _, twice := named[documents[i].ID]; twice {
			return 0, fmt.Errorf("adding dead letters: two have the id %s: leave it empty", documents[i].ID)
		}
		named[documents[i].ID] = documents[i].Coordinate
	}
	if err := s.sameSources(ctx, named); err != nil {
		return 0, err
	}
	_, err = s.messages.InsertMany(ctx, documents, options.InsertMany().SetOrdered(false))
	if err == nil {
		return len(documents), nil
	}
	duplicates, err := duplicatesIn(err)
	if err != nil {
		return 0, explain("adding dead letters", err)
	}
	return len(documents) - duplicates, s.sameSources(ctx, named)
}

// longestTopic is the length of Kafka's longest topic name; a source that is longer is no place in Kafka.
const longestTopic = 249

// fill returns the entry as it is stored: what is missing is filled in.
func fill(entry store.Entry, now time.Time) (store.Entry, error) {
	if entry.State != store.New {
		if err := store.Check(store.New, entry.State); err != nil {
			return entry, err
		}
	}
	entry.State, entry.Version = store.Pending, 1
	entry.LockedBy, entry.LockedAt, entry.LeaseUntil, entry.Resolution = "", time.Time{}, time.Time{}, store.Resolution{}
	id, err := idOf(entry.ID)
	if err != nil {
		return entry, err
	}
	entry.ID = id
	if entry.Source.Topic == "" || len(entry.Source.Topic) > longestTopic {
		entry.Source = entry.Letter
	}
	if entry.Source.Topic == "" {
		return entry, errors.New("a dead letter that has neither a source nor a place of its own can't be told from others")
	}
	if entry.CreatedAt.IsZero() {
		entry.CreatedAt = now
	}
	if entry.UpdatedAt.IsZero() {
		entry.UpdatedAt = entry.CreatedAt
	}
	entry.OriginalEvent = eventOf(entry.OriginalEvent, entry.Value, entry.Pattern, entry.EventID)
	entry.Pattern = store.EventPattern(entry.OriginalEvent)
	return entry, nil
}

// idOf is the id in the one form in which it is kept; a new one for none.
func idOf(id string) (string, error) {
	if id == "" {
		drawn, err := uuid.NewV7()
		return drawn.String(), err
	}
	parsed, err := uuid.Parse(id)
	if err != nil {
		return "", fmt.Errorf("the id %q of a dead letter is not a UUID", id)
	}
	return parsed.String(), nil
}

// eventOf is the original event as it is kept, whose pattern is the entry's.
func eventOf(original json.RawMessage, value []byte, pattern, eventID string) json.RawMessage {
	if len(original) == 0 {
		original = value
	}
	return store.OriginalEvent(original, pattern, eventID)
}

// duplicatesIn counts the documents that were refused because their key is there already; any other error is returned.
func duplicatesIn(err error) (int, error) {
	var bulk mongo.BulkWriteException
	if !errors.As(err, &bulk) || bulk.WriteConcernError != nil || len(bulk.WriteErrors) == 0 {
		return 0, err
	}
	for _, refused := range bulk.WriteErrors {
		if refused.Code != duplicateKey {
			return 0, err
		}
	}
	return len(bulk.WriteErrors), nil
}

// sameSources makes sure that no entry was left out because of its id instead of its source, which would lose it.
func (s *Store) sameSources(ctx context.Context, named map[string]place) error {
	if len(named) == 0 {
		return nil
	}
	ids := make([]string, 0, len(named))
	for id := range named {
		ids = append(ids, id)
	}
	cursor, err := s.messages.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}, options.Find().SetProjection(bson.D{{Key: "coordinate", Value: 1}}))
	if err != nil {
		return explain("looking for dead letters with the same id", err)
	}
	var found []document
	if err := cursor.All(ctx, &found); err != nil {
		return explain("looking for dead letters with the same id", err)
	}
	for _, other := range found {
		if other.Coordinate != named[other.ID] {
			return fmt.Errorf("adding dead letters: the id %s is that of the letter from %s/%d@%d already: leave it empty", other.ID,
				other.Coordinate.Topic, other.Coordinate.Partition, other.Coordinate.Offset)
		}
	}
	return nil
}
