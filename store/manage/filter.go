package manage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/store"
)

// Filter selects entries in the form that people write. Zero fields select all. It corresponds to filterCriteria and
// prioritization of "Dead Letter Queue" (management schema).
type Filter struct {
	IDs, ErrorTypes, Patterns, Statuses []string
	Source                              string
	// Start and End bound the creation time: start ≤ t < end. They are a day (2026-02-11) or RFC 3339. MaxAge bounds
	// the age relative to now.
	Start, End string
	MaxAge     time.Duration
	// MinRetries and MaxRetries bound the number of retries by workers. A negative value is no bound.
	MinRetries, MaxRetries int
	// Priority is the minimum priority. A negative value selects all.
	Priority int
	// OrderBy is createdAt, updatedAt or priority; Direction asc or desc.
	OrderBy, Direction string
}

// NewFilter returns a filter that selects everything, oldest first.
func NewFilter() Filter {
	return Filter{MinRetries: -1, MaxRetries: -1, Priority: -1, OrderBy: "createdAt", Direction: "asc"}
}

// Narrow reports whether the filter excludes anything.
func (f Filter) Narrow() bool {
	return len(f.IDs)+len(f.ErrorTypes)+len(f.Patterns)+len(f.Statuses) > 0 || f.Source != "" ||
		f.Start != "" || f.End != "" || f.MaxAge > 0 ||
		f.MinRetries >= 0 || f.MaxRetries >= 0 || f.Priority >= 0
}

// Query returns the query for the store. now is the store's time. The error names the value that cannot be parsed.
func (f Filter) Query(now time.Time) (store.Query, error) {
	query := store.Query{ErrorTypes: f.ErrorTypes, Patterns: f.Patterns, Service: f.Source, OrderBy: f.OrderBy}
	if len(f.IDs) > 0 { // some stores distinguish an empty list from none
		query.IDs = f.IDs
	}
	switch f.Direction {
	case "asc", "desc":
		query.Descending = f.Direction == "desc"
	default:
		return query, fmt.Errorf("direction %q: write asc or desc", f.Direction)
	}
	if !slices.Contains([]string{"createdAt", "updatedAt", "priority"}, f.OrderBy) {
		return query, fmt.Errorf("order %q: write createdAt, updatedAt or priority", f.OrderBy)
	}
	for _, word := range f.Statuses {
		state, err := ReadState(word)
		if err != nil {
			return query, err
		}
		query.States = append(query.States, state)
	}
	if f.MinRetries >= 0 {
		query.MinRetries = &f.MinRetries
	}
	if f.MaxRetries >= 0 {
		query.MaxRetries = &f.MaxRetries
	}
	if f.MinRetries >= 0 && f.MaxRetries >= 0 && f.MinRetries > f.MaxRetries {
		return query, fmt.Errorf("at least %d and at most %d retries: nothing is both", f.MinRetries, f.MaxRetries)
	}
	if f.Priority >= 0 {
		query.MinPriority = &f.Priority
	}
	return query, f.period(&query, now)
}

// period sets the bounds of the creation time.
func (f Filter) period(query *store.Query, now time.Time) (err error) {
	if f.Start != "" {
		if query.CreatedFrom, err = ReadTime(f.Start); err != nil {
			return err
		}
	}
	if f.End != "" {
		if query.CreatedTo, err = ReadTime(f.End); err != nil {
			return err
		}
	}
	if f.MaxAge < 0 {
		return fmt.Errorf("an age of %s: nothing is from the future", f.MaxAge)
	}
	if youngest := now.Add(-f.MaxAge); f.MaxAge > 0 && youngest.After(query.CreatedFrom) {
		query.CreatedFrom = youngest
	}
	if !query.CreatedTo.IsZero() && !query.CreatedFrom.Before(query.CreatedTo) {
		return fmt.Errorf("from %s to %s: the end isn't after the start", query.CreatedFrom.Format(time.RFC3339),
			query.CreatedTo.Format(time.RFC3339))
	}
	return nil
}

// ReadTime parses RFC 3339, or a day, which begins at midnight UTC.
func ReadTime(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time: write 2026-02-11 or 2026-02-11T12:00:00Z", text)
}

// ReadState parses a state, or a status word of either document: failed, dlq_failed, reprocessing, discarded.
func ReadState(word string) (store.State, error) {
	switch state := store.State(strings.TrimPrefix(word, "dlq_")); {
	case state.Known():
		return state, nil
	case state == "reprocessing":
		return store.Processing, nil
	case state == "discarded":
		return store.Archived, nil
	}
	var known []string
	for _, state := range store.States() {
		known = append(known, string(state))
	}
	return "", fmt.Errorf("%q is no status: write %s", word, strings.Join(known, ", "))
}
