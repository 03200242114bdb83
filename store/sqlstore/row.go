package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/dlqbench/dlqbench/store"
)

// columns are the columns of an entry, in the order of row and scan.
const columns = `id, event_id, subscriber_id, original_event, error_message, error_type, error_code,
	error_stack_trace, error_context, retry_history, retry_count, max_retries, status,
	resolution_timestamp, resolution_strategy, resolved_by, resolution_notes, created_at, updated_at,
	version, held, source_topic, source_partition, source_offset, letter_topic, letter_partition,
	letter_offset, dialect, original_key, original_value, original_headers, first_failed_at,
	last_failed_at, dlq_retry_count, retry_strategy, next_retry_at, priority, locked_by, locked_at,
	lease_until, service, tags`

// columnCount and placeholders must match columns.
const (
	columnCount  = 42
	placeholders = "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, " +
		"?, ?, ?, ?, ?, ?, ?, ?, ?"
)

// row returns the column values of a complete entry.
func (db *DB) row(entry store.Entry, vocabulary store.Vocabulary) []any {
	moment := db.engine.moment
	status, held := vocabulary.Write(entry.State)
	return []any{
		entry.ID, orNull(store.Cut(entry.EventID, 255)), orNull(store.Cut(entry.SubscriberID, 255)),
		string(entry.OriginalEvent), orNull(store.EncodeText(entry.Error.Message)), orNull(store.Cut(entry.Error.Type, 100)),
		orNull(store.Cut(entry.Error.Code, 100)), orNull(store.EncodeText(entry.Error.Stack)),
		document(entry.Error.Context), attemptsJSON(entry.RetryHistory), entry.RetryCount, entry.MaxRetries,
		status, moment(entry.Resolution.At), orNull(entry.Resolution.How), orNull(store.Cut(entry.Resolution.By, 255)),
		orNull(store.EncodeText(entry.Resolution.Notes)), moment(entry.CreatedAt), moment(entry.UpdatedAt),
		entry.Version, held, store.EncodeText(entry.Source.Topic), entry.Source.Partition, entry.Source.Offset,
		store.EncodeText(entry.Letter.Topic), entry.Letter.Partition, entry.Letter.Offset, store.EncodeText(entry.Dialect),
		bytesOrNull(entry.Key), bytesOrNull(entry.Value), headersJSON(entry.Headers), moment(entry.FirstFailedAt),
		moment(entry.LastFailedAt),
		entry.DLQRetryCount, store.Cut(string(entry.Strategy), 50), moment(entry.NextRetryAt), entry.Priority,
		orNull(store.Cut(entry.LockedBy, 255)), moment(entry.LockedAt), moment(entry.LeaseUntil),
		store.EncodeText(entry.Service), tagsJSON(entry.Tags),
	}
}

// scanner is a row of a result.
type scanner interface{ Scan(dest ...any) error }

// each calls read with every row that a statement returns, until it fails.
func each(ctx context.Context, on querier, s *statement, read func(scanner) error) (err error) {
	rows, err := on.QueryContext(ctx, s.text.String(), s.args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// scan reads an entry. A status outside the vocabulary becomes the entry's state unchanged (Entry.Problem).
func scan(row scanner, vocabulary store.Vocabulary) (store.Entry, error) {
	var e store.Entry
	var status, held, strategy string
	var event, context, history, headers, tags []byte
	nullable := func(to *string) nullText { return nullText{to} }
	err := row.Scan(&e.ID, nullable(&e.EventID), nullable(&e.SubscriberID), &event,
		nullable(&e.Error.Message), nullable(&e.Error.Type), nullable(&e.Error.Code), nullable(&e.Error.Stack), &context,
		&history, &e.RetryCount, &e.MaxRetries, &status, moment{&e.Resolution.At}, nullable(&e.Resolution.How),
		nullable(&e.Resolution.By), nullable(&e.Resolution.Notes), moment{&e.CreatedAt}, moment{&e.UpdatedAt},
		&e.Version, &held, nullable(&e.Source.Topic), &e.Source.Partition, &e.Source.Offset,
		nullable(&e.Letter.Topic), &e.Letter.Partition, &e.Letter.Offset, nullable(&e.Dialect),
		nullBytes{&e.Key}, nullBytes{&e.Value}, &headers, moment{&e.FirstFailedAt}, moment{&e.LastFailedAt},
		&e.DLQRetryCount, nullable(&strategy), moment{&e.NextRetryAt}, &e.Priority,
		nullable(&e.LockedBy), moment{&e.LockedAt}, moment{&e.LeaseUntil}, nullable(&e.Service), &tags)
	if err != nil {
		return e, fmt.Errorf("reading a dead letter: %w", err)
	}
	e.OriginalEvent, e.Pattern, e.Strategy = event, store.EventPattern(event), store.Strategy(strategy)
	if len(context) > 0 {
		e.Error.Context = context
	}
	// An unknown word is not an error, because the entry must be visible.
	e.State, _ = vocabulary.Read(status, held)
	if e.RetryHistory, err = attempts(history); err != nil {
		return e, fmt.Errorf("reading the retry history of %s: %w", e.ID, err)
	}
	if e.Headers, err = headersOf(headers); err != nil {
		return e, fmt.Errorf("reading the headers of %s: %w", e.ID, err)
	}
	if e.Tags, err = tagsOf(tags); err != nil {
		return e, fmt.Errorf("reading the tags of %s: %w", e.ID, err)
	}
	return e, nil
}

// nullText reads a text that text stored; NULL is "".
type nullText struct{ to *string }

// Scan implements sql.Scanner.
func (n nullText) Scan(src any) error {
	switch value := src.(type) {
	case nil:
		*n.to = ""
	case string:
		*n.to = store.DecodeText(value)
	case []byte:
		*n.to = store.DecodeText(string(value))
	default:
		return fmt.Errorf("reading a text: the column has a %T", src)
	}
	return nil
}

// nullBytes reads stored bytes. NULL is nil, and an empty value is not.
type nullBytes struct{ to *[]byte }

// Scan implements sql.Scanner.
func (n nullBytes) Scan(src any) error {
	switch value := src.(type) {
	case nil:
		*n.to = nil
	case []byte:
		*n.to = append([]byte{}, value...)
	default:
		return fmt.Errorf("reading bytes: the column has a %T", src)
	}
	return nil
}

// bytesOrNull preserves the difference between nil and empty.
func bytesOrNull(value []byte) any {
	if value == nil {
		return nil
	}
	return value
}
