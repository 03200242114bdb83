package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/dlqbench/dlqbench/store"
)

// Count implements store.Reader.
func (db *DB) Count(ctx context.Context, query store.Query) (int64, error) {
	vocabulary, err := db.ready(ctx)
	if err != nil {
		return 0, err
	}
	s := db.statement("SELECT count(*) FROM dead_letter_queue WHERE 1 = 1")
	s.filter(query, vocabulary)
	var n int64
	err = db.read.QueryRowContext(ctx, s.text.String(), s.args...).Scan(&n)
	return n, refused("counting dead letters", err)
}

// Stats implements store.Reader.
func (db *DB) Stats(ctx context.Context) (store.Stats, error) {
	stats := store.Stats{ByState: map[store.State]int64{}, ByErrorType: map[string]int64{},
		Resolutions: map[string]int64{}}
	vocabulary, err := db.ready(ctx)
	if err != nil {
		return stats, err
	}
	err = errors.Join(
		db.counted(ctx, "SELECT status, held, count(*) FROM dead_letter_queue GROUP BY status, held",
			func(status, held string, n int64) {
				// An unknown word is counted under itself.
				state, _ := vocabulary.Read(status, held)
				stats.ByState[state] += n
			}),
		db.counted(ctx, "SELECT error_type, '', count(*) FROM dead_letter_queue GROUP BY error_type",
			func(kind, _ string, n int64) {
				stats.ByErrorType[kind] += n
			}))
	if err != nil {
		return stats, refused("counting dead letters", err)
	}
	pending, held := vocabulary.Write(store.Pending)
	oldest := db.statement("SELECT min(created_at) FROM dead_letter_queue WHERE status = ? AND held = ?", pending, held)
	if err := db.read.QueryRowContext(ctx, oldest.text.String(), oldest.args...).Scan(moment{&stats.Oldest}); err != nil {
		return stats, refused("finding the oldest dead letter", err)
	}
	return stats, refused("counting resolutions", db.resolutions(ctx, vocabulary, &stats))
}

func (db *DB) counted(ctx context.Context, text string, add func(a, b string, n int64)) error {
	return each(ctx, db.read, db.statement(text), func(row scanner) error {
		var a, b string
		var n int64
		err := row.Scan(nullText{&a}, nullText{&b}, &n)
		if err == nil {
			add(a, b, n)
		}
		return err
	})
}

// resolutions counts the resolved entries by how, and computes their mean time in the store.
func (db *DB) resolutions(ctx context.Context, vocabulary store.Vocabulary, stats *store.Stats) error {
	status, _ := vocabulary.Write(store.Resolved)
	s := db.statement("SELECT resolution_strategy, count(*), COALESCE(sum("+db.engine.seconds+
		"), 0) FROM dead_letter_queue WHERE status = ? GROUP BY resolution_strategy", status)
	all, seconds := int64(0), 0.0
	err := each(ctx, db.read, s, func(row scanner) error {
		var how string
		var n int64
		var took float64
		err := row.Scan(nullText{&how}, &n, &took)
		stats.Resolutions[how] += n
		all, seconds = all+n, seconds+took
		return err
	})
	if all > 0 {
		stats.MeanInDLQ = time.Duration(seconds / float64(all) * float64(time.Second)).Round(time.Millisecond)
	}
	return err
}
