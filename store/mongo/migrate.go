package mongo

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/dlqbench/dlqbench/store"
)

// Each migration is one idempotent command in extended JSON: repeating it after a crash completes it.
//
//go:embed migrations/*.json
var migrations embed.FS

// done is a document of dlq_migrations: a migration that was begun, and that has ended if EndedAt is set. The one named
// vocabulary has the words of the status field, and whether changes are recorded.
type done struct {
	Name    string     `bson:"_id"`
	BegunAt time.Time  `bson:"begunAt"`
	EndedAt *time.Time `bson:"endedAt"`
	Words   string     `bson:"words,omitempty"`
	// Audit means that every change is recorded, whoever makes it.
	Audit bool `bson:"audit,omitempty"`
}

const vocabularyName = "vocabulary"

func migrationNames() ([]string, error) {
	files, err := fs.Glob(migrations, "migrations/*.json") // sorted
	if err != nil {
		return nil, err
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(strings.TrimPrefix(file, "migrations/"), ".json")
	}
	return files, nil
}

func (s *Store) record() *mongo.Collection { return s.database.Collection("dlq_migrations") }

// Migrate brings the indexes up to date and returns the names of the migrations it made. An interrupted migration is
// repeated.
func (s *Store) Migrate(ctx context.Context) ([]string, error) {
	names, err := migrationNames()
	if err != nil {
		return nil, err
	}
	known, err := s.recorded(ctx)
	if err != nil {
		return nil, err
	}
	if err := newer(known, names); err != nil {
		return nil, err
	}
	var made []string
	for _, name := range names {
		if known[name].EndedAt != nil {
			continue
		}
		if err := s.make(ctx, name); err != nil {
			return made, fmt.Errorf("migrating %s (migrate again when the cause is gone): %w", name, err)
		}
		made = append(made, name)
	}
	if err := s.settleWords(ctx, known[vocabularyName]); err != nil {
		return made, err
	}
	return made, s.check(ctx)
}

func (s *Store) make(ctx context.Context, name string) error {
	text, err := migrations.ReadFile("migrations/" + name + ".json")
	if err != nil {
		return err
	}
	var command bson.D
	if err := bson.UnmarshalExtJSON(text, false, &command); err != nil {
		return fmt.Errorf("reading the migration: %w", err)
	}
	begun, err := s.Now(ctx)
	if err != nil {
		return err
	}
	if err := s.note(ctx, name, bson.D{{Key: "begunAt", Value: begun}, {Key: "endedAt", Value: nil}}); err != nil {
		return err
	}
	if err := s.database.RunCommand(ctx, command).Err(); err != nil {
		return explain("running it", err)
	}
	ended, err := s.Now(ctx)
	if err != nil {
		return err
	}
	return s.note(ctx, name, bson.D{{Key: "begunAt", Value: begun}, {Key: "endedAt", Value: ended}})
}

func (s *Store) note(ctx context.Context, name string, set bson.D) error {
	_, err := s.record().UpdateByID(ctx, name, bson.D{{Key: "$set", Value: set}}, options.UpdateOne().SetUpsert(true))
	return explain("noting the migration "+name, err)
}

// settleWords writes the vocabulary into a database that has none, and whether changes are recorded, if requested. It
// does not change an existing vocabulary.
func (s *Store) settleWords(ctx context.Context, has done) error {
	if has.Words != "" {
		if err := s.agree(has.Words); err != nil || !s.audit || has.Audit {
			return err
		}
		return s.note(ctx, vocabularyName, bson.D{{Key: "audit", Value: true}})
	}
	words, err := store.NamedVocabulary(s.asked)
	if err != nil {
		return err
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	return s.note(ctx, vocabularyName, bson.D{{Key: "words", Value: words.Name()}, {Key: "audit", Value: s.audit},
		{Key: "begunAt", Value: now}, {Key: "endedAt", Value: now}})
}

func (s *Store) agree(has string) error {
	if s.asked != "" && s.asked != has {
		return fmt.Errorf("opening the dead-letter store: its status field has the words of the vocabulary %s, not of %s: "+
			"name that vocabulary, or none, or another database", has, s.asked)
	}
	return nil
}

// check returns store.ErrNotMigrated until the schema is up to date, and caches that it is.
func (s *Store) check(ctx context.Context) error {
	if s.ready.Load() {
		return nil
	}
	select {
	case s.settling <- struct{}{}:
		defer func() { <-s.settling }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.ready.Load() {
		return nil
	}
	names, err := migrationNames()
	if err != nil {
		return err
	}
	known, err := s.recorded(ctx)
	if err != nil {
		return err
	}
	if err := newer(known, names); err != nil {
		return err
	}
	for _, name := range append(names, vocabularyName) {
		switch found, begun := known[name]; {
		case !begun:
			return fmt.Errorf("%w: %s is missing: migrate it (dlqbench dlq migrate)", store.ErrNotMigrated, name)
		case found.EndedAt == nil:
			return fmt.Errorf("%w: %s was begun at %s and not ended: migrate it again (dlqbench dlq migrate)",
				store.ErrNotMigrated, name, found.BegunAt.UTC().Format(time.RFC3339))
		}
	}
	if err := s.agree(known[vocabularyName].Words); err != nil {
		return err
	}
	if s.words, err = store.NamedVocabulary(known[vocabularyName].Words); err != nil {
		return err
	}
	s.audit = s.audit || known[vocabularyName].Audit
	s.ready.Store(true)
	return nil
}

// newer returns an error for migrations that this program does not know.
func newer(known map[string]done, names []string) error {
	ours := map[string]bool{vocabularyName: true}
	for _, name := range names {
		ours[name] = true
	}
	for name := range known {
		if !ours[name] {
			return fmt.Errorf(
				"%w: the database is newer than this program, which doesn't know its migration %s: use a newer dlqbench",
				store.ErrNotMigrated, name)
		}
	}
	return nil
}

func (s *Store) recorded(ctx context.Context) (map[string]done, error) {
	cursor, err := s.record().Find(ctx, bson.D{})
	if err != nil {
		return nil, explain("reading which migrations were made", err)
	}
	var all []done
	if err := cursor.All(ctx, &all); err != nil {
		return nil, explain("reading which migrations were made", err)
	}
	known := make(map[string]done, len(all))
	for _, one := range all {
		known[one.Name] = one
	}
	return known, nil
}
