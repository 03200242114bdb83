package mongo

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/dlqbench/dlqbench/store"
)

// List returns a page of entries.
func (s *Store) List(ctx context.Context, query store.Query) ([]store.Entry, string, error) {
	if err := s.check(ctx); err != nil {
		return nil, "", err
	}
	limit, filter, order, err := s.page(query)
	if err != nil {
		return nil, "", fmt.Errorf("listing dead letters: %w", err)
	}
	// One more entry than the page shows whether there is a next page.
	found, err := s.messages.Find(ctx, filter, options.Find().SetSort(order).SetLimit(int64(limit+1)))
	if err != nil {
		return nil, "", explain("listing dead letters", err)
	}
	var documents []document
	if err := found.All(ctx, &documents); err != nil {
		return nil, "", explain("listing dead letters", err)
	}
	more := len(documents) > limit
	documents = documents[:min(limit, len(documents))]
	entries := make([]store.Entry, len(documents))
	for i, d := range documents {
		if entries[i], err = s.read(d); err != nil {
			return nil, "", err
		}
	}
	if !more {
		return entries, "", nil
	}
	after, err := query.Ending(entries[len(entries)-1])
	return entries, after, err
}

func (s *Store) page(query store.Query) (limit int, filter, order bson.D, err error) {
	if limit, err = query.PageSize(); err != nil {
		return 0, nil, nil, err
	}
	keys, err := orderKeys(query.OrderBy)
	if err != nil {
		return 0, nil, nil, err
	}
	direction := 1
	if query.Descending {
		direction = -1
	}
	for _, key := range keys {
		order = append(order, bson.E{Key: key, Value: direction})
	}
	filter = s.filter(query)
	if query.After == "" {
		return limit, filter, order, nil
	}
	last, err := query.Cursor()
	if err != nil {
		return 0, nil, nil, err
	}
	return limit, append(filter, bson.E{Key: "$and", Value: bson.A{beyond(keys, last, query.Descending)}}), order, nil
}

// orderKeys are the fields by which a list is sorted. The id at the end makes the order total.
func orderKeys(by string) ([]string, error) {
	switch by {
	case "", "createdAt":
		return []string{"createdAt", "_id"}, nil
	case "updatedAt":
		return []string{"updatedAt", "_id"}, nil
	case "priority":
		return []string{"metadata.priority", "createdAt", "_id"}, nil
	}
	return nil, fmt.Errorf("there is no order by %q: it is createdAt, updatedAt or priority", by)
}

// beyond selects the entries after an entry in the order of the keys: the first key is beyond, or it is equal and the
// next is beyond, and so on.
func beyond(keys []string, last store.Cursor, descending bool) bson.D {
	operator := "$gt"
	if descending {
		operator = "$lt"
	}
	var alternatives bson.A
	var equal bson.D
	for _, key := range keys {
		value := valueIn(last, key)
		alternatives = append(alternatives,
			append(slices.Clone(equal), bson.E{Key: key, Value: bson.D{{Key: operator, Value: value}}}))
		equal = append(equal, bson.E{Key: key, Value: value})
	}
	return bson.D{{Key: "$or", Value: alternatives}}
}

// valueIn is the value of a key in a cursor.
func valueIn(c store.Cursor, key string) any {
	switch key {
	case "_id":
		return c.ID
	case "metadata.priority":
		return c.Priority
	default:
		return c.At
	}
}

// filter is the filter of a query.
func (s *Store) filter(query store.Query) bson.D {
	filter := bson.D{}
	put := func(field string, value any) { filter = append(filter, bson.E{Key: field, Value: value}) }
	if len(query.States) > 0 {
		var alternatives bson.A
		for _, state := range query.States {
			alternatives = append(alternatives, s.inState(state))
		}
		put("$or", alternatives)
	}
	if len(query.ErrorTypes) > 0 {
		types := make([]string, len(query.ErrorTypes))
		for i, name := range query.ErrorTypes {
			types[i] = store.Cut(name, 100)
		}
		put("errorType", bson.D{{Key: "$in", Value: types}})
	}
	if len(query.Patterns) > 0 {
		put("pattern", bson.D{{Key: "$regex", Value: patternRegexp(query.Patterns)}})
	}
	if query.Service != "" {
		put("metadata.source", store.EncodeText(query.Service))
	}
	if query.EventID != "" {
		put("messageId", store.Cut(query.EventID, 255))
	}
	if query.SubscriberID != "" {
		put("subscriberId", store.Cut(query.SubscriberID, 255))
	}
	if created := between(query.CreatedFrom, query.CreatedTo); created != nil {
		put("createdAt", created)
	}
	if updated := between(time.Time{}, query.UpdatedBefore); updated != nil {
		put("updatedAt", updated)
	}
	var retries bson.D
	if query.MinRetries != nil {
		retries = append(retries, bson.E{Key: "$gte", Value: *query.MinRetries})
	}
	if query.MaxRetries != nil {
		retries = append(retries, bson.E{Key: "$lte", Value: *query.MaxRetries})
	}
	if retries != nil {
		put("dlqRetryCount", retries)
	}
	if query.MinPriority != nil {
		put("metadata.priority", bson.D{{Key: "$gte", Value: *query.MinPriority}})
	}
	if query.IDs != nil {
		put("_id", bson.D{{Key: "$in", Value: store.ReadIDs(query.IDs)}})
	}
	return filter
}

// between is from ≤ t < to. Stored times are whole milliseconds, so a fractional bound is rounded up.
func between(from, to time.Time) bson.D {
	var bounds bson.D
	if !from.IsZero() {
		bounds = append(bounds, bson.E{Key: "$gte", Value: roundUp(from)})
	}
	if !to.IsZero() {
		bounds = append(bounds, bson.E{Key: "$lt", Value: roundUp(to)})
	}
	return bounds
}

func roundUp(t time.Time) time.Time {
	if kept := millis(t); kept.Equal(t) {
		return kept
	}
	return millis(t).Add(time.Millisecond)
}

// patternRegexp is a regular expression for patterns in which * is any text. A pattern that begins with text can use
// the index.
func patternRegexp(patterns []string) string {
	alternatives := make([]string, len(patterns))
	for i, pattern := range patterns {
		parts := strings.Split(store.EncodeText(pattern), "*")
		for j, part := range parts {
			parts[j] = regexp.QuoteMeta(part)
		}
		alternatives[i] = strings.Join(parts, "[\\s\\S]*")
	}
	if len(alternatives) == 1 {
		return "^" + alternatives[0] + "\\z"
	}
	return "^(?:" + strings.Join(alternatives, "|") + ")\\z"
}

// Count counts the entries that a query selects, regardless of its page.
func (s *Store) Count(ctx context.Context, query store.Query) (int64, error) {
	if err := s.check(ctx); err != nil {
		return 0, err
	}
	count, err := s.messages.CountDocuments(ctx, s.filter(query))
	return count, explain("counting dead letters", err)
}
