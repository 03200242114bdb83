package storewatch

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/dlqbench/dlqbench/history"
)

// Layout is how a table or collection keeps dead letters. A column that is "" isn't there.
type Layout struct {
	Table string
	// Audited: dead_letter_audit has every change, kept by triggers; in MongoDB, each document has its own, in
	// transitions.
	Audited bool
	Columns Columns
	// Words says which state each status word stands for.
	Words map[string]history.StoreState
}

// Columns are the names of the columns (fields of documents, with dots). ID and Status are needed.
type Columns struct {
	ID, Status, Held, LockedBy, LeaseUntil, Version, Retries, NextRetryAt, Strategy, Resolution string
	// Where the record came from, and where its dead letter is.
	SourceTopic, SourcePartition, SourceOffset string
	LetterTopic, LetterPartition, LetterOffset string
	// Payload holds the record's value, EventID a text in which its id may be found too.
	Payload, EventID string
}

// name is what may stand in a query as it is.
var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// Own is the layout of dlqbench's own tables in the vocabulary lifecycle or management.
func Own(vocabulary string) (Layout, error) {
	words, err := Words(vocabulary)
	if err != nil {
		return Layout{}, err
	}
	return Layout{
		Table: "dead_letter_queue", Audited: true, Words: words,
		Columns: Columns{
			ID: "id", Status: "status", Held: "held", LockedBy: "locked_by", LeaseUntil: "lease_until", Version: "version",
			Retries:     "dlq_retry_count",
			NextRetryAt: "next_retry_at", Strategy: "retry_strategy", Resolution: "resolution_strategy",
			SourceTopic:     "source_topic",
			SourcePartition: "source_partition", SourceOffset: "source_offset", LetterTopic: "letter_topic",
			LetterPartition: "letter_partition", LetterOffset: "letter_offset", Payload: "original_value", EventID: "event_id",
		},
	}, nil
}

// OwnMongo is the layout of dlqbench's own collection.
func OwnMongo(vocabulary string) (Layout, error) {
	words, err := Words(vocabulary)
	if err != nil {
		return Layout{}, err
	}
	return Layout{
		Table: "dlq_messages", Audited: true, Words: words,
		Columns: Columns{
			ID: "_id", Status: "status", Held: "held", LockedBy: "lockedBy", LeaseUntil: "leaseUntil", Version: "version",
			Retries:     "dlqRetryCount",
			NextRetryAt: "nextRetryAt", Strategy: "strategy", Resolution: "resolution.strategy", SourceTopic: "coordinate.topic",
			SourcePartition: "coordinate.partition", SourceOffset: "coordinate.offset", LetterTopic: "letter.topic",
			LetterPartition: "letter.partition", LetterOffset: "letter.offset", Payload: "raw.value", EventID: "messageId",
		},
	}, nil
}

// Words returns the status words of a document: lifecycle ("Dead Letter Queue Lifecycle") or management (the management
// schema, in which an entry that is held for a person or has failed is pending, and the column held says why:
// "pending/failed").
func Words(vocabulary string) (map[string]history.StoreState, error) {
	switch vocabulary {
	case "", "lifecycle":
		return map[string]history.StoreState{
			"dlq_pending": history.StorePending, "dlq_processing": history.StoreProcessing,
			"dlq_resolved": history.StoreResolved,
			"dlq_failed":   history.StoreFailed, "dlq_manual": history.StoreManual, "dlq_archived": history.StoreArchived,
		}, nil
	case "management":
		return map[string]history.StoreState{
			"pending": history.StorePending, "reprocessing": history.StoreProcessing, "resolved": history.StoreResolved,
			"discarded": history.StoreArchived, "pending/failed": history.StoreFailed, "pending/manual": history.StoreManual,
		}, nil
	}
	return nil, fmt.Errorf("no vocabulary is called %q: there are lifecycle and management, or give the words themselves",
		vocabulary)
}

// state is what a status word stands for; known is false if nobody knows.
func (l *Layout) state(status, held string) (state history.StoreState, known bool) {
	if held != "" {
		status += "/" + held
	}
	state, known = l.Words[status]
	if !known {
		return history.StoreUnknown, false
	}
	return state, true
}

// check refuses what can't be asked of a database; form is how its names are.
func (l *Layout) check(form *regexp.Regexp) error {
	if l.Columns.ID == "" || l.Columns.Status == "" || l.Table == "" {
		return fmt.Errorf("a store needs a table and the names of its columns for the id and the status")
	}
	for _, column := range append(l.Columns.list(), l.Table) {
		if column != "" && !form.MatchString(column) {
			return fmt.Errorf("%q is no name of a table or column", column)
		}
	}
	return nil
}

// list are the columns in the order in which they are asked for.
func (c *Columns) list() []string {
	return []string{
		c.ID, c.Status, c.Held, c.LockedBy, c.LeaseUntil, c.Version, c.Retries, c.NextRetryAt, c.Strategy, c.Resolution,
		c.SourceTopic, c.SourcePartition, c.SourceOffset, c.LetterTopic, c.LetterPartition, c.LetterOffset, c.Payload,
		c.EventID,
	}
}

// selected is the list for a SELECT, NULL for what isn't there; prefix stands before each.
func (c *Columns) selected(prefix string) string {
	names := c.list()
	for i, one := range names {
		if one == "" {
			names[i] = "NULL"
		} else {
			names[i] = prefix + one
		}
	}
	return strings.Join(names, ", ")
}
