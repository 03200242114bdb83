package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/store"
)

// unsearchedStatus is an expression for the status that no index can serve. Without statistics, PostgreSQL would scan
// all processing entries instead of searching for one id.
const unsearchedStatus = "status || ''"

// Settle implements store.Locker.
func (db *DB) Settle(ctx context.Context, lock store.Lock, change store.Change) error {
	vocabulary, err := db.ready(ctx)
	if err != nil {
		return err
	}
	if err := store.Changeable(store.Processing, change.State); err != nil {
		return err
	}
	id, err := store.ReadID(lock.ID)
	if err != nil {
		return err
	}
	if change.State == store.Resolved && change.Resolution == nil {
		change.Resolution = &store.Resolution{How: store.AutomaticRetry}
	}
	s, err := db.update(store.Processing, change, vocabulary)
	if err != nil {
		return fmt.Errorf("settling %s: %w", lock.ID, err)
	}
	processing, _ := vocabulary.Write(store.Processing)
	s.add(" WHERE id = ? AND locked_by = ? AND version = ? AND "+unsearchedStatus+" = ?", id, store.Cut(lock.Worker, 255),
		lock.Version, processing)
	changed, err := db.exec(ctx, s)
	if err != nil {
		return refused("settling "+lock.ID, err)
	}
	if changed == 0 {
		return db.lockLost(ctx, lock)
	}
	return nil
}

// Alter implements store.Keeper. It reads the entry first. The statement that changes it checks that it is unchanged.
func (db *DB) Alter(ctx context.Context, id string, version int64, change store.Change) error {
	entry, err := db.Get(ctx, id)
	if err != nil {
		return err
	}
	if err := store.Alterable(entry, version, change); err != nil {
		return err
	}
	vocabulary, err := db.ready(ctx)
	if err != nil {
		return err
	}
	if change.State == store.Resolved && change.Resolution == nil {
		change.Resolution = &store.Resolution{How: store.ManualResolution}
	}
	s, err := db.update(entry.State, change, vocabulary)
	if err != nil {
		return fmt.Errorf("changing %s: %w", id, err)
	}
	status, held := vocabulary.Write(entry.State)
	s.add(" WHERE id = ? AND version = ? AND locked_by IS NULL AND "+unsearchedStatus+" = ? AND held = ?", entry.ID,
		version, status, held)
	changed, err := db.exec(ctx, s)
	if err != nil {
		return refused("changing "+id, err)
	}
	if changed > 0 {
		return nil
	}
	// Another process was faster.
	if entry, err = db.Get(ctx, id); err != nil {
		return err
	}
	if err := store.Alterable(entry, version, change); err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", store.ErrStale, id)
}

// update is the statement for a change, without its condition.
func (db *DB) update(from store.State, change store.Change, vocabulary store.Vocabulary) (*statement, error) {
	status, held := vocabulary.Write(change.State)
	s := db.statement("UPDATE dead_letter_queue SET status = ?, held = ?, version = version + 1, updated_at = {now}",
		status, held)
	if change.State == store.Processing {
		s.add(", locked_by = ?, locked_at = {now}, lease_until = {after}", store.Cut(change.Worker, 255), change.Lease)
	} else {
		s.add(", locked_by = NULL, locked_at = NULL, lease_until = NULL")
	}
	db.scheduled(s, from, change)
	if change.Strategy != "" {
		s.add(", retry_strategy = ?", store.Cut(string(change.Strategy), 50))
	}
	if change.Retried {
		s.add(", dlq_retry_count = dlq_retry_count + 1")
	}
	if change.Attempt != nil {
		one := attemptsJSON([]store.Attempt{*change.Attempt})
		s.add(", retry_history = "+db.engine.appended[0]+"?"+db.engine.appended[1],
			strings.TrimSuffix(strings.TrimPrefix(one, "["), "]"))
	}
	if err := resolved(s, change); err != nil {
		return nil, err
	}
	if failure := change.Failure; failure != nil {
		s.add(", last_failed_at = {now}, error_message = ?, error_type = ?, error_code = ?, error_stack_trace = ?, "+
			"error_context = ?",
			orNull(store.EncodeText(failure.Message)), orNull(store.Cut(failure.Type, 100)),
			orNull(store.Cut(failure.Code, 100)), orNull(store.EncodeText(failure.Stack)), document(failure.Context))
	}
	if change.Value != nil {
		s.add(", original_value = ?", change.Value)
	}
	if change.Value != nil || change.OriginalEvent != nil {
		s.add(", original_event = ?", string(store.EventOf(change.OriginalEvent, change.Value, "", "")))
	}
	if change.Priority != nil {
		s.add(", priority = ?", *change.Priority)
	}
	return s, nil
}

// scheduled sets the time at which a worker may take the entry. An edit leaves it unchanged unless it names one, and a
// lock keeps it.
func (db *DB) scheduled(s *statement, from store.State, change store.Change) {
	switch {
	case !change.RetryAt.IsZero() && change.State == store.Pending:
		s.add(", next_retry_at = ?", change.RetryAt)
	case change.RetryIn > 0 && change.State == store.Pending:
		s.add(", next_retry_at = {after}", change.RetryIn)
	case change.State == from || change.State == store.Processing:
	default:
		s.add(", next_retry_at = NULL")
	}
}

// resolved writes the resolution and its notes.
func resolved(s *statement, change store.Change) error {
	if err := store.CheckEnd(change); err != nil {
		return err
	}
	notes := change.Notes
	if end := change.Resolution; end != nil {
		s.add(", resolution_strategy = ?, resolved_by = ?, resolution_timestamp = ", end.How, orNull(store.Cut(end.By, 255)))
		if end.At.IsZero() {
			s.add("{now}")
		} else {
			s.add("?", end.At)
		}
		if end.Notes != "" {
			notes = end.Notes
		}
	}
	if notes != "" {
		s.add(", resolution_notes = ?", store.EncodeText(notes))
	}
	return nil
}

// Remove implements store.Keeper.
func (db *DB) Remove(ctx context.Context, ids []string) (removed int, err error) {
	vocabulary, err := db.ready(ctx)
	if err != nil {
		return 0, err
	}
	for batch := range slices.Chunk(store.ReadIDs(ids), 500) {
		s := db.statement("DELETE FROM dead_letter_queue WHERE locked_by IS NULL")
		s.in("id", batch)
		s.add(" AND (")
		for i, state := range removable() {
			if i > 0 {
				s.add(" OR ")
			}
			status, held := vocabulary.Write(state)
			s.add("(status = ? AND held = ?)", status, held)
		}
		s.add(")")
		if db.engine.numbered {
			// The source coordinate is deleted with the entry.
			gone := s.text.String()
			s.text.Reset()
			s.text.WriteString("WITH gone AS (" + gone +
				" RETURNING id) DELETE FROM dead_letter_source USING gone WHERE entry_id = gone.id")
		}
		changed, err := db.exec(ctx, s)
		if err != nil {
			return removed, refused("removing dead letters", err)
		}
		removed += int(changed)
	}
	return removed, nil
}

// removable are the states in which an entry may be removed.
func removable() (from []store.State) {
	for _, transition := range store.Transitions() {
		if transition.To == store.Gone {
			from = append(from, transition.From)
		}
	}
	return from
}
