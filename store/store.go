package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// What a change of an entry may run into.
var (
	// ErrNotFound: there is no entry with this id.
	ErrNotFound = errors.New("no such dead letter")
	// ErrLocked: a worker has the entry; it can't be changed by hand now.
	ErrLocked = errors.New("a worker has the dead letter locked")
	// ErrLockLost: the lock is no longer the worker's: its lease was over and somebody else has the entry, or had it.
	ErrLockLost = errors.New("the lock is lost")
	// ErrStale: the entry was changed since it was read.
	ErrStale = errors.New("the dead letter was changed meanwhile")
	// ErrUnknownStatus: the table has a status word that the vocabulary doesn't know.
	ErrUnknownStatus = errors.New("unknown status")
	// ErrFull: the database has no room for more.
	ErrFull = errors.New("the store is full")
	// ErrNotMigrated: the schema is older than this program, or was left half migrated.
	ErrNotMigrated = errors.New("the schema is not up to date")
)

// Lock is a worker's hold on an entry: it is void as soon as the entry has another version.
type Lock struct {
	ID      string
	Worker  string
	Version int64
}

// Change is what Settle and Alter write; nil and zero fields are left as they are, but for State, which must be set.
type Change struct {
	State    State
	Strategy Strategy
	// RetryIn is from now, by the store's clock; RetryAt is absolute and excludes it. Neither: not tried again of its
	// own accord.
	RetryIn time.Duration
	RetryAt time.Time
	// Retried counts one more DLQ retry; Attempt is added to the history.
	Retried    bool
	Attempt    *Attempt
	Resolution *Resolution
	Failure    *Failure
	// Value and OriginalEvent replace the original's (an edit by hand).
	Value         []byte
	OriginalEvent json.RawMessage
	Priority      *int
	Notes         string
	// Worker and Lease go with Processing, and with it alone: who takes the entry by hand, and for how long. The lock
	// is then Lock{id, Worker, version+1}.
	Worker string
	Lease  time.Duration
}

// Ingester takes new dead letters.
type Ingester interface {
	// Ingest adds the entries, all or none; it returns when they are durable. Entries whose Source is there already are
	// left out: fresh counts the others. All become Pending, but for those that are put back as Failed from where they
	// were kept: of these, which no worker may take, Version and the notes stay too. What is missing is filled in: ID
	// with a new UUID, CreatedAt with the store's clock, Source with Letter, OriginalEvent from Value. Texts longer
	// than their column are cut, NextRetryAt says when a worker may take it. ErrFull; *IllegalTransition for another
	// state.
	Ingest(ctx context.Context, entries []Entry) (fresh int, err error)
}

// Locker shares entries out among workers.
type Locker interface {
	// Claim locks up to limit entries that are due for the worker, highest priority first, then oldest: each by
	// compare-and-set, so that no two workers get one. An entry that comes back is Processing, with LockedBy, Version
	// and LeaseUntil as stored.
	Claim(ctx context.Context, worker string, lease time.Duration, limit int) ([]Entry, error)
	// Renew extends the lease; the version stays. ErrLockLost.
	Renew(ctx context.Context, lock Lock, lease time.Duration) error
	// Settle unlocks the entry with what became of it. ErrLockLost; *IllegalTransition. A lease that is over doesn't
	// void the lock as long as nobody else has had the entry: what became of it is known only to this worker.
	Settle(ctx context.Context, lock Lock, change Change) error
	// Recover returns the entries whose lease is over to Pending, due at once, without counting a retry; it says how
	// many.
	Recover(ctx context.Context) (int, error)
}

// Reader finds entries.
type Reader interface {
	Get(ctx context.Context, id string) (Entry, error)
	// List returns a page of entries; the next page's After is the cursor that comes with it, "" at the end.
	List(ctx context.Context, query Query) (page []Entry, after string, err error)
	Count(ctx context.Context, query Query) (int64, error)
	Stats(ctx context.Context) (Stats, error)
}

// Keeper changes entries by hand and removes them.
type Keeper interface {
	// Alter changes an unlocked entry that still has this version: by hand, or for retention. The state it has already
	// is an edit. ErrNotFound, ErrLocked, ErrStale, *IllegalTransition (ErrUnknownStatus where the table has a word
	// that nobody knows).
	Alter(ctx context.Context, id string, version int64, change Change) error
	// Remove deletes entries; those that are locked, and those whose status is unknown, stay and are not counted. A
	// letter that is routed again after its entry was removed is a new entry.
	Remove(ctx context.Context, ids []string) (removed int, err error)
	Upkeep
}

// Upkeep is of the database itself.
type Upkeep interface {
	// Now is the store's clock, by which leases end and entries become due.
	Now(ctx context.Context) (time.Time, error)
	// Migrate brings the schema up to date and says which migrations it made.
	Migrate(ctx context.Context) (made []string, err error)
	Close() error
}

// Store is a database of dead letters. Until Migrate has brought its schema up to date every method but Migrate, Now
// and Close returns ErrNotMigrated; times are kept to the millisecond. All methods are safe for concurrent use, in as
// many processes as one likes.
type Store interface {
	Ingester
	Locker
	Reader
	Keeper
}

// Options go with a database's address.
type Options struct {
	// Vocabulary of the status column: VocabularyLifecycle or VocabularyManagement. Migrate writes it into the
	// database; "" is what the database has, lifecycle for a new one.
	Vocabulary string
	// Clock replaces the database's own, in tests. The audit keeps to the database's.
	Clock func() time.Time
	// Audit lets Migrate add the table dead_letter_audit and triggers that keep every change of an entry there, whoever
	// makes it, for those who watch from outside.
	Audit bool
}

// Query selects entries; zero fields select all.
type Query struct {
	// States includes words that are unknown, as an Entry shows them.
	States     []State
	ErrorTypes []string
	// Patterns are of events, with * for any text: "payment.*".
	Patterns []string
	Service  string
	// EventID and SubscriberID are the entry's.
	EventID, SubscriberID string
	// CreatedFrom and CreatedTo bound CreatedAt: from ≤ t < to.
	CreatedFrom, CreatedTo time.Time
	// MinRetries and MaxRetries bound DLQRetryCount where they are set.
	MinRetries, MaxRetries *int
	MinPriority            *int
	IDs                    []string
	// UpdatedBefore: for retention.
	UpdatedBefore time.Time
	// OrderBy is createdAt (default), updatedAt or priority; Descending turns it round.
	OrderBy    string
	Descending bool
	// Limit of a page, 1 to 1000; default 100. After is the cursor of the page before.
	Limit int
	After string
}

// Stats is what dashboards show.
type Stats struct {
	ByState     map[State]int64
	ByErrorType map[string]int64
	// Oldest is the creation of the oldest pending entry.
	Oldest time.Time
	// Resolutions counts the resolved by how; MeanInDLQ is their mean time from creation to resolution.
	Resolutions map[string]int64
	MeanInDLQ   time.Duration
}
