package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// These are the errors of changes of an entry.
var (
	// ErrNotFound means that no entry has this id.
	ErrNotFound = errors.New("no such dead letter")
	// ErrLocked means that a worker has locked the entry, so that it cannot be changed by hand now.
	ErrLocked = errors.New("a worker has the dead letter locked")
	// ErrLockLost means that the worker no longer holds the lock: its lease expired, and another worker has, or had,
	// the entry.
	ErrLockLost = errors.New("the lock is lost")
	// ErrStale means that the entry was changed since it was read.
	ErrStale = errors.New("the dead letter was changed meanwhile")
	// ErrUnknownStatus means that the table has a status word outside the vocabulary.
	ErrUnknownStatus = errors.New("unknown status")
	// ErrFull means that the database has no more space.
	ErrFull = errors.New("the store is full")
	// ErrNotMigrated means that the schema is older than this program, or that a migration was interrupted.
	ErrNotMigrated = errors.New("the schema is not up to date")
)

// Lock is a worker's lock on an entry. It becomes void when the entry's version changes.
type Lock struct {
	ID      string
	Worker  string
	Version int64
}

// Change is what Settle and Alter write. Nil and zero fields leave their value unchanged, except State, which must be
// set.
type Change struct {
	State    State
	Strategy Strategy
	// RetryIn counts from now, by the store's clock. RetryAt is absolute; only one of the two may be set. With neither,
	// workers do not retry the entry.
	RetryIn time.Duration
	RetryAt time.Time
	// Retried counts one more DLQ retry. Attempt is appended to the history.
	Retried    bool
	Attempt    *Attempt
	Resolution *Resolution
	Failure    *Failure
	// Value and OriginalEvent replace those of the entry (an edit by hand).
	Value         []byte
	OriginalEvent json.RawMessage
	Priority      *int
	Notes         string
	// Worker and Lease are for Processing only: the person or process that takes the entry by hand, and for how long.
	// The lock is then Lock{id, Worker, version+1}.
	Worker string
	Lease  time.Duration
}

// Ingester takes new dead letters.
type Ingester interface {
	// Ingest adds the entries, all or none, and returns when they are durable. It leaves out entries whose Source
	// exists; fresh counts the others. All become Pending, except restored ones, which become Failed. Workers may not
	// take those, and they keep their Version and notes. Missing values are filled in: ID with a new UUID, CreatedAt
	// with the store's clock, Source with Letter, OriginalEvent from Value. Texts longer than their column are cut.
	// NextRetryAt is the earliest time at which a worker may take an entry. Errors: ErrFull; *IllegalTransition for
	// another state.
	Ingest(ctx context.Context, entries []Entry) (fresh int, err error)
}

// Locker distributes entries among workers.
type Locker interface {
	// Claim locks up to limit due entries for the worker, highest priority first, then oldest. It locks each by
	// compare-and-set, so that no two workers get the same one. A returned entry is Processing, with LockedBy, Version
	// and LeaseUntil as stored.
	Claim(ctx context.Context, worker string, lease time.Duration, limit int) ([]Entry, error)
	// Renew extends the lease. The version stays. Error: ErrLockLost.
	Renew(ctx context.Context, lock Lock, lease time.Duration) error
	// Settle unlocks the entry and stores the result. Errors: ErrLockLost, *IllegalTransition. An expired lease does
	// not void the lock as long as no other worker has had the entry, because only this worker knows the result.
	Settle(ctx context.Context, lock Lock, change Change) error
	// Recover sets the entries whose lease has expired to Pending, due at once, without counting a retry. It returns
	// their number.
	Recover(ctx context.Context) (int, error)
}

// Reader finds entries.
type Reader interface {
	Get(ctx context.Context, id string) (Entry, error)
	// List returns a page of entries. after is the After of the next page, or "" at the end.
	List(ctx context.Context, query Query) (page []Entry, after string, err error)
	Count(ctx context.Context, query Query) (int64, error)
	Stats(ctx context.Context) (Stats, error)
}

// Keeper changes entries by hand and removes them.
type Keeper interface {
	// Alter changes an unlocked entry that still has this version: by hand, or for retention. If the state is the
	// present one, the change is an edit. Errors: ErrNotFound, ErrLocked, ErrStale, *IllegalTransition (which wraps
	// ErrUnknownStatus if the table has an unknown word).
	Alter(ctx context.Context, id string, version int64, change Change) error
	// Remove deletes entries. Locked ones and those with an unknown status stay and are not counted. A dead letter that
	// is routed again after its entry was removed becomes a new entry.
	Remove(ctx context.Context, ids []string) (removed int, err error)
	Upkeep
}

// Upkeep maintains the database itself.
type Upkeep interface {
	// Now is the store's clock, by which leases expire and entries become due.
	Now(ctx context.Context) (time.Time, error)
	// Migrate brings the schema up to date and returns the applied migrations.
	Migrate(ctx context.Context) (made []string, err error)
	Close() error
}

// Store is a database of dead letters. Until Migrate has brought its schema up to date, every method except Migrate,
// Now and Close returns ErrNotMigrated. Times have millisecond precision. All methods are safe for concurrent use, in
// any number of processes.
type Store interface {
	Ingester
	Locker
	Reader
	Keeper
}

// Options configure a store, in addition to its address.
type Options struct {
	// Vocabulary of the status column: VocabularyLifecycle or VocabularyManagement. Migrate writes it into the
	// database. "" selects the database's vocabulary, and lifecycle for a new database.
	Vocabulary string
	// Clock replaces the database's own clock in tests. The audit uses the database's.
	Clock func() time.Time
	// Audit makes Migrate add the table dead_letter_audit and triggers that record every change of an entry there,
	// whoever makes it, for outside observers.
	Audit bool
}

// Query selects entries. Zero fields select all.
type Query struct {
	// States may include unknown words, as an Entry shows them.
	States     []State
	ErrorTypes []string
	// Patterns match events, with * for any text: "payment.*".
	Patterns []string
	Service  string
	// EventID and SubscriberID are those of the entry.
	EventID, SubscriberID string
	// CreatedFrom and CreatedTo bound CreatedAt: from ≤ t < to.
	CreatedFrom, CreatedTo time.Time
	// MinRetries and MaxRetries bound DLQRetryCount if they are set.
	MinRetries, MaxRetries *int
	MinPriority            *int
	IDs                    []string
	// UpdatedBefore selects entries last changed before the time; retention uses it.
	UpdatedBefore time.Time
	// OrderBy is createdAt (default), updatedAt or priority. Descending reverses the order.
	OrderBy    string
	Descending bool
	// Limit is the size of a page, 1 to 1000, default 100. After is the cursor of the page before.
	Limit int
	After string
}

// Stats are the counts for dashboards.
type Stats struct {
	ByState     map[State]int64
	ByErrorType map[string]int64
	// Oldest is the creation time of the oldest pending entry.
	Oldest time.Time
	// Resolutions counts the resolved entries by how. MeanInDLQ is their mean time from creation to resolution.
	Resolutions map[string]int64
	MeanInDLQ   time.Duration
}
