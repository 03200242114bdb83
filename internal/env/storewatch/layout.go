package storewatch

import (
	"fmt"
	"regexp"

	"github.com/dlqbench/dlqbench/history"
)

// Layout describes how a table or collection stores dead letters. A column that is "" does not exist.
type Layout struct {
	Table string
	// Audited says that dead_letter_audit contains every change, recorded by triggers. In MongoDB, each document
	// contains its own changes, in transitions.
	Audited bool
	Columns Columns
	// Words maps each status word to its state.
	Words map[string]history.StoreState
}

// Columns are the names of the columns (fields of documents, with dots). ID and Status are required.
type Columns struct {
	ID, Status, Held, LockedBy, LeaseUntil, Version, Retries, NextRetryAt, Strategy, Resolution string
	// The origin of the record, and the position of its dead letter.
	SourceTopic, SourcePartition, SourceOffset string
	LetterTopic, LetterPartition, LetterOffset string
	// Payload contains the record's value. EventID is a text that may contain its id too.
	Payload, EventID string
}

// name matches names that can be used in a query without quoting.
var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// Own is the layout of dlqbench's own tables in the vocabulary lifecycle or management.
func Own(vocabulary string) (Layout, error) {
	return audited(vocabulary, "dead_letter_queue", Columns{
		ID: "id", Status: "status", Held: "held", LockedBy: "locked_by", LeaseUntil: "lease_until", Version: "version",
		Retries:     "dlq_retry_count",
		NextRetryAt: "next_retry_at", Strategy: "retry_strategy", Resolution: "resolution_strategy",
		SourceTopic:     "source_topic",
		SourcePartition: "source_partition", SourceOffset: "source_offset", LetterTopic: "letter_topic",
		LetterPartition: "letter_partition", LetterOffset: "letter_offset", Payload: "original_value", EventID: "event_id",
	})
}

// OwnMongo is the layout of dlqbench's own collection.
func OwnMongo(vocabulary string) (Layout, error) {
	return audited(vocabulary, "dlq_messages", Columns{
		ID: "_id", Status: "status", Held: "held", LockedBy: "lockedBy", LeaseUntil: "leaseUntil", Version: "version",
		Retries:     "dlqRetryCount",
		NextRetryAt: "nextRetryAt", Strategy: "strategy", Resolution: "resolution.strategy", SourceTopic: "coordinate.topic",
		SourcePartition: "coordinate.partition", SourceOffset: "coordinate.offset", LetterTopic: "letter.topic",
		LetterPartition: "letter.partition", LetterOffset: "letter.offset", Payload: "raw.value", EventID: "messageId",
	})
}

func audited(vocabulary, table string, columns Columns) (Layout, error) {
	words, err := Words(vocabulary)
	return Layout{Table: table, Audited: true, Words: words, Columns: columns}, err
}

// Words returns the status words of a specification. vocabulary is lifecycle ("Dead Letter Queue Lifecycle") or
// management (the management schema). In the latter, an entry that is held for a person or has failed is pending,
// and the column held gives the reason: "pending/failed".
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

// state returns the state of a status word; known is false for an unknown word.
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

// check rejects layouts that cannot be queried; form is the permitted form of names.
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

// list returns the columns in the order in which queries select them.
func (c *Columns) list() []string {
	return []string{
		c.ID, c.Status, c.Held, c.LockedBy, c.LeaseUntil, c.Version, c.Retries, c.NextRetryAt, c.Strategy, c.Resolution,
		c.SourceTopic, c.SourcePartition, c.SourceOffset, c.LetterTopic, c.LetterPartition, c.LetterOffset, c.Payload,
		c.EventID,
	}
}
