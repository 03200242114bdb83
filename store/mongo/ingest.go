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

const duplicateKey = 11000

// Ingest adds the entries whose source is new. It returns when a majority has them in its journal. After an error some
// of them may be stored; ingesting them again adds the others.
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
		filled, err := store.Complete(entry, now)
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

// duplicatesIn counts the documents that were rejected because their key exists. It returns any other error.
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

// sameSources checks that no entry was left out because of its id instead of its source, which would lose it.
func (s *Store) sameSources(ctx context.Context, named map[string]place) error {
	if len(named) == 0 {
		return nil
	}
	ids := make([]string, 0, len(named))
	for id := range named {
		ids = append(ids, id)
	}
	cursor, err := s.messages.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}},
		options.Find().SetProjection(bson.D{{Key: "coordinate", Value: 1}}))
	if err != nil {
		return explain("looking for dead letters with the same id", err)
	}
	var found []document
	if err := cursor.All(ctx, &found); err != nil {
		return explain("looking for dead letters with the same id", err)
	}
	for _, other := range found {
		if other.Coordinate != named[other.ID] {
			return fmt.Errorf("adding dead letters: the id %s is that of the dead letter from %s/%d@%d already: leave it empty",
				other.ID, other.Coordinate.Topic, other.Coordinate.Partition, other.Coordinate.Offset)
		}
	}
	return nil
}
