package store

// This file has the checks that every database of dead letters makes before it writes: completing and checking a new
// entry, the permitted changes, and the end of a page of a list.

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// longestTopic is the maximum length of a Kafka topic name. A longer source is not a place in Kafka.
const longestTopic = 249

// Complete returns a new entry as it is stored: it fills in missing values, as Ingester promises. now is the store's
// clock. It fails for an entry that cannot be stored: a state that no new entry may have, an id that is not a UUID, or
// an entry without a place. Databases call it.
func Complete(entry Entry, now time.Time) (Entry, error) {
	if entry.State != New {
		if err := Check(New, entry.State); err != nil {
			return entry, err
		}
	}
	entry.LockedBy, entry.LockedAt, entry.LeaseUntil = "", time.Time{}, time.Time{}
	if entry.State == Failed { // from an earlier life
		entry.Version, entry.NextRetryAt, entry.Resolution = max(entry.Version, 1), time.Time{},
			Resolution{Notes: entry.Resolution.Notes}
	} else {
		entry.State, entry.Version, entry.Resolution = Pending, 1, Resolution{}
	}
	if entry.ID == "" {
		drawn, err := uuid.NewV7()
		if err != nil {
			return entry, fmt.Errorf("making an id: %w", err)
		}
		entry.ID = drawn.String()
	}
	id, err := uuid.Parse(entry.ID)
	if err != nil {
		return entry, fmt.Errorf("the id %q of a dead letter is not a UUID", entry.ID)
	}
	entry.ID = id.String()
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
	entry.OriginalEvent = EventOf(entry.OriginalEvent, entry.Value, entry.Pattern, entry.EventID)
	entry.Pattern = EventPattern(entry.OriginalEvent)
	return entry, nil
}

// SortDue sorts claimed entries in the order in which workers take them: the highest priority first, then the oldest.
func SortDue(claimed []Entry) {
	slices.SortFunc(claimed, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
}

// EventOf returns the original event as it is stored: the given one, or else one made from the value.
func EventOf(original json.RawMessage, value []byte, pattern, eventID string) json.RawMessage {
	if len(original) == 0 {
		original = value
	}
	return OriginalEvent(original, pattern, eventID)
}

// ReadID returns an id in its stored form. The error is ErrNotFound for an id that is not a UUID, because no entry can
// have it.
func ReadID(id string) (string, error) {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return "", fmt.Errorf("%w: %q is not an id", ErrNotFound, id)
	}
	return parsed.String(), nil
}

// ReadIDs returns those ids that an entry can have. The result is never nil.
func ReadIDs(ids []string) []string {
	known := make([]string, 0, len(ids))
	for _, id := range ids {
		if parsed, err := ReadID(id); err == nil {
			known = append(known, parsed)
		}
	}
	return known
}

// Changeable is Check for a change that neither creates nor removes an entry.
func Changeable(from, to State) error {
	if !to.Known() {
		return &IllegalTransition{From: from, To: to, Legal: slices.DeleteFunc(from.Next(), func(s State) bool {
			return s == Gone
		})}
	}
	return Check(from, to)
}

// Alterable returns the reason why an entry, as read, cannot be changed by a caller that has seen the version:
// ErrLocked, ErrStale or *IllegalTransition.
func Alterable(entry Entry, version int64, change Change) error {
	if entry.LockedBy != "" || entry.State == Processing {
		return fmt.Errorf("%w: %s has %s until %s", ErrLocked, entry.LockedBy, entry.ID,
			entry.LeaseUntil.UTC().Format(time.RFC3339))
	}
	if entry.Version != version {
		return fmt.Errorf("%w: %s is at version %d, %d was read: read it again", ErrStale, entry.ID, entry.Version, version)
	}
	if err := Changeable(entry.State, change.State); err != nil {
		return fmt.Errorf("changing %s: %w", entry.ID, err)
	}
	if takes := change.State == Processing; takes != (change.Worker != "" && change.Lease > 0) {
		return fmt.Errorf("changing %s: a worker and a lease go with processing, and with nothing else", entry.ID)
	}
	return nil
}

// CheckEnd rejects a resolution that does not fit the state of the change.
func CheckEnd(change Change) error {
	end := change.Resolution
	if end == nil {
		return nil
	}
	if change.State != Resolved && change.State != Archived {
		return fmt.Errorf("a resolution goes with resolved and archived, not with %s", change.State)
	}
	ways := []string{AutomaticRetry, ManualRetry, ManualResolution, Discard}
	if !slices.Contains(ways, end.How) {
		return fmt.Errorf("a dead letter is resolved by %s, not by %q", strings.Join(ways, ", "), end.How)
	}
	if (end.How == Discard) != (change.State == Archived) {
		return fmt.Errorf("what is %s was not resolved by %s: discard goes with archived, the other ways with resolved",
			change.State, end.How)
	}
	return nil
}

// These are the limits of the number of entries on a page.
const (
	defaultPage = 100
	longestPage = 1000
)

// PageSize is the number of entries on a page of the query.
func (q Query) PageSize() (int, error) {
	switch {
	case q.Limit == 0:
		return defaultPage, nil
	case q.Limit < 1 || q.Limit > longestPage:
		return 0, fmt.Errorf("a page has 1 to %d entries, not %d", longestPage, q.Limit)
	}
	return q.Limit, nil
}

// Cursor is where a page ended: at its last entry, in an order.
type Cursor struct {
	Order    string    `json:"o"`
	Down     bool      `json:"d,omitempty"`
	Priority int       `json:"p,omitempty"`
	At       time.Time `json:"t"`
	ID       string    `json:"i"`
}

// Ending returns, as text, the cursor of a page of the query whose last entry is the given one.
func (q Query) Ending(last Entry) (string, error) {
	c := Cursor{Order: q.OrderBy, Down: q.Descending, At: last.CreatedAt, ID: last.ID, Priority: last.Priority}
	if q.OrderBy == "updatedAt" {
		c.At = last.UpdatedAt
	}
	text, err := json.Marshal(c)
	return base64.RawURLEncoding.EncodeToString(text), err
}

// Cursor parses the query's After, which must come from a list in the same order.
func (q Query) Cursor() (Cursor, error) {
	var c Cursor
	text, err := base64.RawURLEncoding.DecodeString(q.After)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return c, fmt.Errorf("the cursor %q is not one that a page came with", q.After)
	}
	if c.Order != q.OrderBy || c.Down != q.Descending {
		return c, errors.New("the cursor is of a list in another order: begin again at the first page")
	}
	_, err = ReadID(c.ID)
	return c, err
}
