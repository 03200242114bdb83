package pgtap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
)

func batches(c *Config) { c.Batch = true }

// outcomes are records, of which one is planned to have each outcome, at its first call; others succeed.
func outcomes(all ...history.Outcome) (records []plan.Record) {
	for _, one := range all {
		record := plan.Record{Outcome: one}
		switch one {
		case history.OutcomeSuccess:
			record.Outcome = 0
		case history.OutcomeTransient, history.OutcomeTimeout, history.OutcomeReset:
			record.Failures = 1
		}
		records = append(records, record)
	}
	return records
}

const (
	fine      = history.OutcomeSuccess
	transient = history.OutcomeTransient
	permanent = history.OutcomePermanent
	logical   = history.OutcomeLogical
)

// write inserts records in a transaction that it begins.
func (b *bed) write(conn *pgx.Conn, records ...int32) string {
	return code(pgx.BeginFunc(b.t.Context(), conn, func(tx pgx.Tx) error {
		for _, one := range records {
			if err := b.insert(tx, one); err != nil {
				return fmt.Errorf("statement: %w", err)
			}
		}
		return nil
	}))
}

// rowsOf is a list of rows in the text of a statement.
func (b *bed) rowsOf(records ...int32) string {
	var rows []string
	for _, one := range records {
		rows = append(rows, "('"+b.ids.Token(one)+"', 'x')")
	}
	return strings.Join(rows, ", ")
}

// What is planned for a record of a transaction fails its COMMIT, after all its records were seen.
func TestTransactionsForSeveralRecords(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, history.IDText, batches, outcomes(fine, transient, permanent, logical)...)
			conn := b.connect(mode)
			var got []string
			for _, records := range [][]int32{{0, 1}, {0, 1}, {2}, {2, 3}, {3}} {
				got = append(got, b.write(conn, records...))
				if status := conn.PgConn().TxStatus(); status != 'I' {
					t.Errorf("the connection's state is %c", status)
				}
			}
			if want := []string{"40001", "<nil>", "22P02", "22P02", "P0001"}; !slices.Equal(got, want) {
				t.Errorf("answered %q, want %q", got, want)
			}
			b.want(2, "0.1 transient, 1.1 transient, aborted, 0.2 success, 1.2 success, committed, 2.1 permanent, aborted, "+
				"2.2 permanent, 3.1 permanent, aborted, 3.2 logical, aborted")
		})
	}
}

// One statement with several rows is decided as it comes, if it is not in a transaction.
func TestStatementsForSeveralRecords(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, history.IDText, batches, outcomes(fine, transient, fine)...)
			conn := b.connect(mode)
			var got []string
			for range 2 {
				_, err := conn.Exec(t.Context(), "INSERT INTO orders SELECT unnest($1::text[])",
					[]string{b.ids.Token(0), b.ids.Token(1)})
				got = append(got, code(err))
			}
			got = append(got, code(b.insert(conn, 2)))
			if want := []string{"40001", "<nil>", "<nil>"}; !slices.Equal(got, want) {
				t.Errorf("answered %q, want %q", got, want)
			}
			b.want(3, "0.1 transient, 1.1 transient, aborted, 0.2 success, 1.2 success, committed, 2.1 success, committed")
		})
	}
}

// Several statements in one text fail as one, wherever their transaction begins and ends.
func TestTextsOfSeveralStatements(t *testing.T) {
	for name, text := range map[string]string{
		"alone":       "INSERT INTO orders VALUES %s; INSERT INTO orders VALUES %s",
		"a block":     "BEGIN; INSERT INTO orders VALUES %s; INSERT INTO orders VALUES %s; COMMIT",
		"its end":     "BEGIN|INSERT INTO orders VALUES %s|INSERT INTO orders VALUES %s; COMMIT",
		"its begin":   "BEGIN; INSERT INTO orders VALUES %s|INSERT INTO orders VALUES %s|END",
		"its control": "BEGIN|INSERT INTO orders VALUES %s|INSERT INTO orders VALUES %s|COMMIT WORK",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, history.IDText, batches, outcomes(fine, transient)...)
			conn := b.connect()
			run := func() (err error) {
				for text := range strings.SplitSeq(fmt.Sprintf(text, b.rowsOf(0), b.rowsOf(1)), "|") {
					if _, err = conn.Exec(t.Context(), text); err != nil {
						b.exec(conn, "ROLLBACK")
						return err
					}
				}
				return nil
			}
			if first, second := code(run()), code(run()); first != "40001" || second != "<nil>" {
				t.Errorf("answered %s and %s", first, second)
			}
			b.want(2, "0.1 transient, 1.1 transient, aborted, 0.2 success, 1.2 success, committed")
		})
	}
}

// Statements up to a Sync are a transaction. The one that is to fail does, and those behind it are skipped.
func TestPipelinesForSeveralRecords(t *testing.T) {
	b := newBed(t, history.IDText, batches, outcomes(fine, transient, fine)...)
	conn := b.connect()
	send := func() (codes []string) {
		batch := &pgx.Batch{}
		for record := range int32(3) {
			batch.Queue("INSERT INTO orders VALUES ($1, 'x')", b.ids.Token(record))
			batch.Queue("UPDATE orders SET note = 'y' WHERE id = $1", b.ids.Token(record))
		}
		results := conn.SendBatch(t.Context(), batch)
		for range 6 {
			_, err := results.Exec()
			codes = append(codes, code(err))
		}
		return append(codes, code(results.Close()))
	}
	if got := send(); !slices.Equal(got[:3], []string{"<nil>", "<nil>", "40001"}) || got[3] == "<nil>" || got[6] != "40001" {
		t.Errorf("answered %q", got)
	}
	if got := send(); slices.Max(got) != "<nil>" {
		t.Errorf("answered %q", got)
	}
	b.want(3, "0.1 transient, 1.1 transient, 2.1 transient, aborted, 0.2 success, 1.2 success, 2.2 success, committed")
}

// A client that asks for answers before its Sync gets them, and the failure at the Sync.
func TestPipelinesWithAnswersBetween(t *testing.T) {
	b := newBed(t, history.IDText, batches, outcomes(transient, fine)...)
	conn := b.connect()
	send := func() (codes []string) {
		pipeline := conn.PgConn().StartPipeline(t.Context())
		for record := range int32(2) {
			pipeline.SendQueryParams("INSERT INTO orders VALUES ($1, 'x')", [][]byte{b.ids.Append(nil, record)},
				[]uint32{25}, nil, nil)
			pipeline.SendFlushRequest()
			if err := pipeline.Flush(); err != nil {
				t.Fatal(err)
			}
			_, err := pipeline.GetResults()
			codes = append(codes, code(err))
		}
		return append(codes, code(errors.Join(pipeline.Sync(), pipeline.Close())))
	}
	if got := fmt.Sprint(send()); got != "[<nil> <nil> 40001]" {
		t.Errorf("answered %s", got)
	}
	if got := fmt.Sprint(send()); got != "[<nil> <nil> <nil>]" {
		t.Errorf("answered %s", got)
	}
	b.want(2, "0.1 transient, 1.1 transient, aborted, 0.2 success, 1.2 success, committed")
}

// A transaction may begin and end in a pipeline, with one Sync for all or one for each statement.
func TestTransactionsInPipelines(t *testing.T) {
	for name, syncs := range map[string]bool{"one Sync": false, "a Sync each": true} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, history.IDText, batches, outcomes(fine, transient, transient)...)
			conn := b.connect()
			send := func() error {
				pipeline := conn.PgConn().StartPipeline(t.Context())
				for i, text := range []string{"BEGIN", "INSERT INTO orders VALUES ($1, 'x')",
					"INSERT INTO orders VALUES ($1, 'x')", "COMMIT"} {
					var parameters [][]byte
					if i == 1 || i == 2 {
						parameters = [][]byte{b.ids.Append(nil, int32(i-1))}
					}
					pipeline.SendQueryParams(text, parameters, nil, nil, nil)
					if syncs {
						pipeline.SendPipelineSync()
					}
				}
				if !syncs {
					pipeline.SendPipelineSync()
				}
				return errors.Join(pipeline.Flush(), pipeline.Close())
			}
			if first, second := code(send()), code(send()); first != "40001" || second != "<nil>" {
				t.Errorf("answered %s and %s", first, second)
			}
			if status := conn.PgConn().TxStatus(); status != 'I' {
				t.Errorf("the connection's state is %c", status)
			}
			if got := code(b.insert(conn, 2)); got != "40001" {
				t.Errorf("a statement behind the transaction is answered %s", got)
			}
			b.want(2, "0.1 transient, 1.1 transient, aborted, 0.2 success, 1.2 success, committed, 2.1 transient, aborted")
		})
	}
}

// What is held back is bounded. The failure of a record whose statement was sent strikes the Sync.
func TestLargePipelines(t *testing.T) {
	b := newBed(t, history.IDText, batches, outcomes(transient, fine)...)
	batch := &pgx.Batch{}
	for record := range int32(2) {
		batch.Queue("INSERT INTO orders VALUES ($1, $2)", b.ids.Token(record), strings.Repeat("x", maxHeld*2/3))
	}
	results := b.connect().SendBatch(t.Context(), batch)
	var got []string
	for range 2 {
		_, err := results.Exec()
		got = append(got, code(err))
	}
	got = append(got, code(results.Close()))
	if want := []string{"<nil>", "<nil>", "40001"}; !slices.Equal(got, want) {
		t.Errorf("answered %q, want %q", got, want)
	}
	b.want(0, "0.1 transient, 1.1 transient, aborted")
}

// Behind a statement that fails, the server skips what comes up to the Sync, and nothing more is attempted.
func TestSkippedStatements(t *testing.T) {
	b := newBed(t, history.IDText, batches, outcomes(transient, permanent)...)
	conn := b.connect()
	b.exec(conn, "BEGIN; SAVEPOINT s")
	batch := &pgx.Batch{}
	for record := range int32(2) {
		batch.Queue("INSERT INTO orders VALUES ($1, 'x')", b.ids.Token(record))
	}
	if got := code(conn.SendBatch(t.Context(), batch).Close()); got != "40001" {
		t.Errorf("answered %s", got)
	}
	b.exec(conn, "ROLLBACK TO s; COMMIT")
	b.want(0, "0.1 transient, committed")
}

// Behind a savepoint a record fails alone, and the others are committed.
func TestSavepointsTellWhichRecordFails(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, history.IDText, batches, outcomes(fine, permanent, fine, fine)...)
			conn, ctx := b.connect(mode), t.Context()
			b.exec(conn, "INSERT INTO orders VALUES ($1)", b.ids.Token(3))
			var got []string
			if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
				for record := range int32(4) {
					got = append(got, code(pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return b.insert(tx, record) })))
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if want := []string{"<nil>", "22P02", "<nil>", "23505"}; !slices.Equal(got, want) {
				t.Errorf("answered %q, want %q", got, want)
			}
			b.want(3, "3.1 success, committed, 1.1 permanent, 3.2 logical, 0.1 success, 2.1 success, committed")
		})
	}
}

// What a subject rolls back to a savepoint was given up, whatever becomes of the transaction. It may come again in it.
func TestRolledBackToASavepoint(t *testing.T) {
	for name, undo := range map[string][]string{
		"apart":      {"ROLLBACK TO SAVEPOINT s", "RELEASE SAVEPOINT s"},
		"one text":   {`ROLLBACK TO "s"; RELEASE "s"`},
		"not at all": nil,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, history.IDText, batches, outcomes(fine, fine, permanent)...)
			conn := b.connect()
			b.exec(conn, "BEGIN")
			for _, one := range []int32{0, 1} {
				b.exec(conn, "SAVEPOINT s")
				if err := b.insert(conn, one); err != nil {
					t.Fatal(err)
				}
				if one == 1 {
					for _, text := range undo {
						b.exec(conn, text)
					}
				} else {
					b.exec(conn, "RELEASE SAVEPOINT s")
				}
			}
			if undo == nil {
				b.exec(conn, "COMMIT")
				b.want(2, "0.1 success, 1.1 success, committed")
				return
			}
			// Behind the savepoint that is over, a record fails the COMMIT, and not its own statement.
			if err := b.insert(conn, 1); err != nil {
				t.Error(err)
			}
			if err := b.insert(conn, 2); err != nil {
				t.Error(err)
			}
			if _, err := conn.Exec(t.Context(), "COMMIT"); code(err) != "22P02" {
				t.Errorf("answered %v", err)
			}
			b.want(0, "1.1 timeout gone, 0.1 permanent, 1.2 permanent, 2.1 permanent, aborted")
		})
	}
}

// A record that failed behind a savepoint may be tried again behind the next, in the same transaction. Behind none, one
// fails the COMMIT.
func TestRetriesBehindSavepoints(t *testing.T) {
	b := newBed(t, history.IDText, batches, outcomes(transient, permanent)...)
	conn := b.connect()
	b.exec(conn, "BEGIN; SAVEPOINT s")
	if got := code(b.insert(conn, 0)); got != "40001" {
		t.Errorf("answered %s", got)
	}
	b.exec(conn, "ROLLBACK TO s; RELEASE s")
	for _, record := range []int32{0, 1} {
		if err := b.insert(conn, record); err != nil {
			t.Errorf("record %d is answered %v", record, err)
		}
	}
	if _, err := conn.Exec(t.Context(), "COMMIT"); code(err) != "22P02" {
		t.Errorf("answered %v", err)
	}
	b.want(0, "0.1 transient, 0.2 permanent, 1.1 permanent, aborted")
}

// The subject may have its ids in the text of a statement that it prepares, and others in what it binds to it.
func TestIDsInTheTextOfAStatement(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, history.IDText, batches, outcomes(fine, fine, transient)...)
			conn := b.connect(mode)
			var got []string
			for range 2 {
				_, err := conn.Exec(t.Context(), "INSERT INTO orders VALUES "+b.rowsOf(0, 1)+", ($1, 'x')", b.ids.Token(2))
				got = append(got, code(err))
			}
			if want := []string{"40001", "<nil>"}; !slices.Equal(got, want) {
				t.Errorf("answered %q, want %q", got, want)
			}
			b.want(3, "0.1 transient, 1.1 transient, 2.1 transient, aborted, "+
				"0.2 success, 1.2 success, 2.2 success, committed")
		})
	}
}

// What stands before the savepoint is decided at COMMIT, what stands behind it is not decided again.
func TestSavepointsBehindOtherRecords(t *testing.T) {
	b := newBed(t, history.IDText, batches, outcomes(permanent, fine, fine)...)
	conn, ctx := b.connect(), t.Context()
	saved := func(tx pgx.Tx, record int32) error {
		_, err := tx.Exec(ctx, "SAVEPOINT s")
		return errors.Join(err, b.insert(tx, record))
	}
	if got := code(pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		return errors.Join(b.insert(tx, 0), saved(tx, 1))
	})); got != "22P02" {
		t.Errorf("answered %s", got)
	}
	if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		err := saved(tx, 2)
		b.Answer(func(int32, int32) (history.Outcome, time.Duration) { return transient, 0 })
		return err
	}); err != nil {
		t.Error(err)
	}
	b.want(1, "0.1 permanent, 1.1 permanent, aborted, 2.1 success, committed")
}

// A savepoint that was released tells of nothing behind it.
func TestReleasedSavepoints(t *testing.T) {
	b := newBed(t, history.IDText, batches, outcomes(fine, permanent)...)
	conn, ctx := b.connect(), t.Context()
	if got := code(pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return b.insert(tx, 0) }); err != nil {
			return err
		}
		if err := b.insert(tx, 1); err != nil {
			t.Errorf("the statement is answered %v", err)
		}
		return nil
	})); got != "22P02" {
		t.Errorf("answered %s", got)
	}
	b.want(0, "0.1 permanent, 1.1 permanent, aborted")
}

func TestTransactionsForSeveralRecordsEndOtherwise(t *testing.T) {
	insert := func(b *bed, conn *pgx.Conn) pgx.Tx {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(b.insert(tx, 0), b.insert(tx, 1)); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	t.Run("rolled back", func(t *testing.T) {
		b := newBed(t, history.IDText, batches, outcomes(fine, permanent)...)
		if err := insert(b, b.connect()).Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.want(0, "0.1 timeout gone, 1.1 timeout gone, aborted")
	})
	t.Run("the subject leaves", func(t *testing.T) {
		b := newBed(t, history.IDText, batches, outcomes(fine, permanent)...)
		conn := b.connect()
		insert(b, conn)
		conn.PgConn().Conn().Close()
		b.want(0, "0.1 timeout gone, 1.1 timeout gone, aborted")
	})
	t.Run("refused by the server", func(t *testing.T) {
		b := newBed(t, history.IDText, batches, outcomes(fine, fine)...)
		tx := insert(b, b.connect())
		if _, err := tx.Exec(t.Context(), "SELECT 1/0"); code(err) != "22012" {
			t.Errorf("answered %v", err)
		}
		if err := tx.Commit(t.Context()); err == nil {
			t.Error("a failed transaction is committed")
		}
		b.want(0, "0.1 permanent, 1.1 permanent, aborted")
	})
	t.Run("deferred by the server", func(t *testing.T) {
		b := newBed(t, history.IDText, batches, outcomes(fine, fine)...)
		conn := b.connect()
		b.exec(conn, "CREATE TABLE lines (note text REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)")
		tx := insert(b, conn)
		b.exec(tx.Conn(), "SAVEPOINT s")
		b.exec(tx.Conn(), "INSERT INTO lines VALUES ('none')")
		if err := tx.Commit(t.Context()); code(err) != "23503" {
			t.Errorf("answered %v", err)
		}
		b.want(0, "0.1 permanent, 1.1 permanent, aborted")
	})
	for _, loses := range []bool{false, true} {
		for _, outcome := range []history.Outcome{history.OutcomeTimeout, history.OutcomeReset} {
			t.Run(fmt.Sprint(outcome, loses), func(t *testing.T) {
				b := newBed(t, history.IDText, func(c *Config) { c.Batch, c.LoseCommits = true, loses },
					outcomes(fine, outcome)...)
				tx, watching, ctx := insert(b, b.connect()), b.direct(b.cfg.URL), t.Context()
				if outcome == history.OutcomeTimeout {
					var stop func()
					ctx, stop = b.leaving(func() (seen bool) {
						const query = "SELECT count(*) = 2 FROM orders"
						return !loses || watching.QueryRow(t.Context(), query).Scan(&seen) == nil && seen
					})
					defer stop()
				}
				if err := tx.Commit(ctx); err == nil {
					t.Error("the commit is answered")
				}
				ending, rows := outcome.String(), 0
				if outcome == history.OutcomeTimeout {
					ending += " gone"
				}
				if loses {
					ending, rows = ending+" carried out", 2
				}
				b.want(rows, "0.1 "+ending+", 1.1 "+ending+", aborted")
			})
		}
	}
}

// The rows of a COPY are attempts, alone and in a transaction.
func TestCopies(t *testing.T) {
	for name, form := range map[string]history.IDForm{"text": history.IDText, "uuid": history.IDUUID,
		"int8": history.IDInt64} {
		for _, inside := range []bool{false, true} {
			t.Run(fmt.Sprint(name, inside), func(t *testing.T) {
				const many = 3000
				b := newBed(t, form, batches, append(outcomes(transient), make([]plan.Record, many)...)...)
				conn := b.connect()
				b.exec(conn, "ALTER TABLE orders ALTER id TYPE "+name+" USING id::"+name)
				fill := func(to interface {
					CopyFrom(context.Context, pgx.Identifier, []string, pgx.CopyFromSource) (int64, error)
				}) error {
					_, err := to.CopyFrom(t.Context(), pgx.Identifier{"orders"}, []string{"id", "note"},
						pgx.CopyFromSlice(many, func(i int) ([]any, error) {
							return []any{b.ids.Token(int32(i)), strings.Repeat("x", 1+i%90)}, nil
						}))
					return err
				}
				for _, want := range []string{"40001", "<nil>"} {
					var err error
					if inside {
						err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
							if err := fill(tx); err != nil {
								t.Errorf("the COPY is answered %v", err)
							}
							return nil
						})
					} else {
						err = fill(conn)
					}
					if got := code(err); got != want {
						t.Errorf("answered %s, want %s", got, want)
					}
				}
				b.Close()
				if got := b.rows(); got != many {
					t.Errorf("there are %d rows", got)
				}
				told := b.sink.told()
				for _, want := range []string{" transient", " success"} {
					if got := strings.Count(told, want); got != many {
						t.Errorf("%d attempts ended with%s, want %d", got, want, many)
					}
				}
				if strings.Count(told, "aborted") != 1 || strings.Count(told, "committed") != 1 {
					t.Error("the attempts are not those of two transactions")
				}
			})
		}
	}
}

// A COPY that the statements of the subject do not include is none of its attempts.
func TestOtherCopies(t *testing.T) {
	b := newBed(t, history.IDText, func(c *Config) { c.Batch, c.Statements = true, regexp.MustCompile("INSERT") },
		outcomes(permanent)...)
	if _, err := b.connect().PgConn().CopyFrom(t.Context(), strings.NewReader(b.ids.Token(0)+"\tx\n"),
		"copy orders from stdin"); err != nil {
		t.Error(err)
	}
	b.want(1, "")
}

// A client may send the rows of a COPY in pieces of any size.
func TestCopiesInPieces(t *testing.T) {
	for name, pieces := range map[string]func(io.Reader) io.Reader{
		"bytes": iotest.OneByteReader, "halves": iotest.HalfReader,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, history.IDText, batches, outcomes(fine, transient, fine)...)
			conn := b.connect()
			var got []string
			for _, records := range [][]int32{{0, 1}, {0, 1}, {2}} {
				var rows strings.Builder
				for _, one := range records {
					rows.WriteString(b.ids.Token(one) + "\tx\n")
				}
				_, err := conn.PgConn().CopyFrom(t.Context(), pieces(strings.NewReader(rows.String())),
					"copy orders from stdin")
				got = append(got, code(err))
			}
			if want := []string{"40001", "<nil>", "<nil>"}; !slices.Equal(got, want) {
				t.Errorf("answered %q, want %q", got, want)
			}
			b.want(3, "0.1 transient, 1.1 transient, aborted, 0.2 success, 1.2 success, committed, 2.1 success, committed")
		})
	}
}
