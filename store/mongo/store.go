package mongo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"

	"github.com/dlqbench/dlqbench/store"
)

// defaultDatabase is the database if the URL names none.
const defaultDatabase = "dlq"

// Store is a database of dead letters in MongoDB.
type Store struct {
	client   *mongo.Client
	database *mongo.Database
	messages *mongo.Collection
	clock    func() time.Time
	audit    bool
	// asked is the vocabulary of the options. words is set once the database's vocabulary is known, which ready
	// reports.
	asked string
	words store.Vocabulary
	ready atomic.Bool
	// settling lets one caller at a time check the schema.
	settling chan struct{}
}

var _ store.Store = (*Store)(nil)

// Open connects to the database that the URL names, "dlq" if it names none, and pings it. Writes wait until a majority
// has them in its journal.
func Open(ctx context.Context, url string, opts store.Options) (*Store, error) {
	if opts.Vocabulary != "" {
		if _, err := store.NamedVocabulary(opts.Vocabulary); err != nil {
			return nil, err
		}
	}
	address, err := connstring.ParseAndValidate(url)
	if err != nil {
		return nil, fmt.Errorf("reading the address of MongoDB: %w", err)
	}
	journal := true
	client, err := mongo.Connect(options.Client().ApplyURI(url).SetReadPreference(readpref.Primary()).
		SetWriteConcern(&writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: &journal}))
	if err != nil {
		return nil, fmt.Errorf("connecting to MongoDB: %w", err)
	}
	name := cmp.Or(address.Database, defaultDatabase)
	database := client.Database(name)
	opened := &Store{
		client: client, database: database, messages: database.Collection("dlq_messages"),
		clock: opts.Clock, audit: opts.Audit, asked: opts.Vocabulary, settling: make(chan struct{}, 1),
	}
	if err := client.Ping(ctx, nil); err != nil {
		return nil, errors.Join(fmt.Errorf("asking MongoDB at %s whether it is there: %w", strings.Join(address.Hosts, ", "),
			err), opened.Close())
	}
	return opened, nil
}

// closing is the time that Close gives to calls in progress.
const closing = 5 * time.Second

// Close ends the connections.
func (s *Store) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	if err := s.client.Disconnect(ctx); err != nil && !errors.Is(err, mongo.ErrClientDisconnected) {
		return fmt.Errorf("closing the connections to MongoDB: %w", err)
	}
	return nil
}

// Now is the server's clock, to the millisecond, at the time of its answer.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if s.clock != nil {
		return millis(s.clock()), nil
	}
	var answer struct {
		LocalTime time.Time `bson:"localTime"`
	}
	if err := s.database.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&answer); err != nil {
		return time.Time{}, fmt.Errorf("asking MongoDB for the time: %w", err)
	}
	if answer.LocalTime.IsZero() {
		return time.Time{}, errors.New("asking MongoDB for the time: its answer to hello has no localTime")
	}
	return answer.LocalTime.UTC(), nil
}

// begin starts every operation: it checks that the schema is up to date, and returns the time.
func (s *Store) begin(ctx context.Context) (time.Time, error) {
	if err := s.check(ctx); err != nil {
		return time.Time{}, err
	}
	return s.Now(ctx)
}

// These are MongoDB's error code for a full disk (OutOfDiskSpace) and Atlas's for an exhausted quota.
const (
	outOfDiskSpace = 14031
	overQuota      = 8000
)

// explain adds the operation to a server's error. An error about a lack of space becomes store.ErrFull.
func explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	var answered mongo.ServerError
	full := errors.As(err, &answered) &&
		(answered.HasErrorCode(outOfDiskSpace) || answered.HasErrorCode(overQuota) && strings.Contains(err.Error(),
			"space quota"))
	if full || strings.Contains(err.Error(), "database or disk is full") { // FerretDB only has SQLite's message
		return fmt.Errorf("%s: %w: %w", doing, store.ErrFull, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
