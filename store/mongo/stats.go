package mongo

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/dlqbench/dlqbench/store"
)

// group is a row of a $group result.
type group struct {
	Key any   `bson:"_id"`
	Sum int64 `bson:"sum"`
}

// Stats returns the counts for dashboards.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	if err := s.check(ctx); err != nil {
		return store.Stats{}, err
	}
	stats := store.Stats{ByState: map[store.State]int64{}, ByErrorType: map[string]int64{},
		Resolutions: map[string]int64{}}
	if err := s.countStates(ctx, stats.ByState); err != nil {
		return stats, err
	}
	types, err := s.grouped(ctx, bson.D{}, "$errorType", 1)
	if err != nil {
		return stats, err
	}
	for _, line := range types {
		stats.ByErrorType[store.DecodeText(text(line.Key))] = line.Sum
	}
	if err := s.addResolutions(ctx, &stats); err != nil {
		return stats, err
	}
	stats.Oldest, err = s.oldest(ctx)
	return stats, err
}

// grouped sums by a field. It uses only what FerretDB v1 supports: a single $sum, of a number, which counts, or of a
// field (a second one gets 0).
func (s *Store) grouped(ctx context.Context, match bson.D, by string, sum any) ([]group, error) {
	cursor, err := s.messages.Aggregate(ctx, bson.A{
		bson.D{{Key: "$match", Value: match}},
		bson.D{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: by}, {Key: "sum", Value: bson.D{{Key: "$sum", Value: sum}}},
		}}},
	})
	if err != nil {
		return nil, explain("counting dead letters", err)
	}
	var lines []group
	return lines, explain("counting dead letters", cursor.All(ctx, &lines))
}

// countStates counts by status. If one word stands for several states, it also counts by what holds the entries.
func (s *Store) countStates(ctx context.Context, counts map[store.State]int64) error {
	words, err := s.grouped(ctx, bson.D{}, "$status", 1)
	if err != nil {
		return err
	}
	for _, word := range words {
		holds, err := s.grouped(ctx, bson.D{{Key: "status", Value: word.Key}}, "$held", 1)
		if err != nil {
			return err
		}
		for _, hold := range holds {
			state, _ := s.words.Read(text(word.Key), text(hold.Key)) // an unknown word is counted under itself
			counts[state] += hold.Sum
		}
	}
	return nil
}

func (s *Store) addResolutions(ctx context.Context, stats *store.Stats) error {
	ends, err := s.grouped(ctx, s.inState(store.Resolved), "$resolution.strategy", 1)
	if err != nil {
		return err
	}
	spent, err := s.grouped(ctx, s.inState(store.Resolved), "$resolution.strategy", "$resolution.inDLQMillis")
	if err != nil {
		return err
	}
	var all, inDLQMillis int64
	for _, end := range ends {
		stats.Resolutions[text(end.Key)] += end.Sum
		all += end.Sum
	}
	for _, end := range spent {
		inDLQMillis += end.Sum
	}
	if all > 0 {
		stats.MeanInDLQ = time.Duration(inDLQMillis) * time.Millisecond / time.Duration(all)
	}
	return nil
}

func (s *Store) oldest(ctx context.Context) (time.Time, error) {
	cursor, err := s.messages.Find(ctx, s.inState(store.Pending),
		options.Find().SetSort(bson.D{{Key: "createdAt", Value: 1}}).SetLimit(1).SetProjection(
			bson.D{{Key: "createdAt", Value: 1}}))
	if err != nil {
		return time.Time{}, explain("looking for the oldest dead letter", err)
	}
	var first []document
	if err := cursor.All(ctx, &first); err != nil || len(first) == 0 {
		return time.Time{}, explain("looking for the oldest dead letter", err)
	}
	return first[0].CreatedAt.UTC(), nil
}

// text is a key of a group, or "" for a missing field.
func text(key any) string {
	word, _ := key.(string)
	return word
}
