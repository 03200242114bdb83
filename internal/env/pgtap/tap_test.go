package pgtap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/postgres"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/internal/plan"
)

// server is the PostgreSQL of all tests; absent says why there is none.
var (
	server *postgres.Server
	absent error
)

func TestMain(m *testing.M) {
	server, absent = postgres.Start(context.Background(), map[string]string{"fsync": "off"})
	code := m.Run()
	if server != nil {
		server.Close()
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	os.Exit(code)
}

// events is a sink that keeps everything.
type events struct {
	mu  sync.Mutex
	all []history.Event
}

func (e *events) Record(event history.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

// told returns what became of each attempt: its record, its outcome, and whether its client left.
func (e *events) told() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []string
	for _, event := range e.all {
		switch event.Kind {
		case history.KindAttemptEnd:
			text := fmt.Sprintf("%d.%d %s", event.Record, event.N, event.Outcome)
			if event.Flags.Has(history.ClientGone) {
				text += " gone"
			}
			if event.Flags.Has(history.Withheld) {
				text += " carried out"
			}
			all = append(all, text)
		case history.KindCallEnd:
			all = append(all, fmt.Sprintf("call %d.%d %s %s", event.Record, event.Sequence, event.Outcome, event.Flags))
		case history.KindUnreadable:
			all = append(all, "several")
		case history.KindTxnEndResponse:
			all = append(all, []string{"aborted", "committed"}[event.N])
		}
	}
	return strings.Join(all, ", ")
}

type bed struct {
	*Tap
	t    *testing.T
	ids  *history.IDs
	sink *events
}

// newBed returns a tap before a database with the table orders (id, note).
func newBed(t *testing.T, form history.IDForm, change func(*Config), records ...plan.Record) *bed {
	t.Helper()
	if errors.Is(absent, postgres.ErrAbsent) {
		t.Skip(absent)
	}
	if absent != nil {
		t.Fatal(absent)
	}
	url, err := server.Create(t.Context(), strings.NewReplacer("/", "-", " ", "-").Replace(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, ids: history.NewIDsAs("run", form, len(records)), sink: &events{}}
	config := Config{
		AttemptsConfig: workload.AttemptsConfig{
			Plan: &plan.Plan{Records: records}, IDs: b.ids, Instances: 2, Ops: &atomic.Int64{}, Clock: history.NewClock(),
			Sink: b.sink,
		},
		URL: url, Log: zerolog.Nop(), Errors: map[history.Outcome]Error{
			history.OutcomeTransient: {SQLState: "40001"}, history.OutcomeRateLimited: {SQLState: "53300"},
			history.OutcomePermanent: {SQLState: "22P02", Constraint: "orders_total"},
			history.OutcomeLogical:   {SQLState: "P0001", Message: "no"},
		},
	}
	if change != nil {
		change(&config)
	}
	if b.Tap, err = New(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	b.exec(b.direct(url), "CREATE TABLE orders (id text PRIMARY KEY, note text)")
	return b
}

func (b *bed) direct(url string) *pgx.Conn {
	b.t.Helper()
	conn, err := pgx.Connect(b.t.Context(), url)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// connect connects through the tap, as an instance.
func (b *bed) connect(options ...func(*pgx.ConnConfig)) *pgx.Conn {
	b.t.Helper()
	config, err := pgx.ParseConfig(b.cfg.URL)
	if err != nil {
		b.t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(b.Addr(1))
	config.Host = host
	fmt.Sscan(port, &config.Port)
	for _, option := range options {
		option(config)
	}
	conn, err := pgx.ConnectConfig(b.t.Context(), config)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func simple(c *pgx.ConnConfig) { c.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol }

func (b *bed) exec(conn *pgx.Conn, sql string, args ...any) {
	b.t.Helper()
	if _, err := conn.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) rows() (count int) {
	b.t.Helper()
	if err := b.direct(b.cfg.URL).QueryRow(b.t.Context(), "SELECT count(*) FROM orders").Scan(&count); err != nil {
		b.t.Fatal(err)
	}
	return count
}

// leaving returns the context of a client that gives up a moment after something was seen: one that gives up after a
// fixed time has sent nothing yet on a busy machine. stop ends it.
func (b *bed) leaving(seen func() bool) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil && !seen() {
			time.Sleep(time.Millisecond)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond): // what was seen in the server has come to the tap, too
		}
		cancel()
	}()
	return ctx, func() { cancel(); <-done }
}

func (b *bed) want(rows int, told string) {
	b.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for b.sink.told() != told && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	if got := b.sink.told(); got != told {
		b.t.Errorf("recorded %q, want %q", got, told)
	}
	if got := b.rows(); got != rows {
		b.t.Errorf("there are %d rows, want %d", got, rows)
	}
	if open := b.InFlight(); open != 0 {
		b.t.Errorf("%d attempts are open", open)
	}
}

func (b *bed) insert(conn interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
}, record int32) error {
	_, err := conn.Exec(b.t.Context(), "INSERT INTO orders VALUES ($1, 'x')", b.ids.Token(record))
	return err
}

// code returns the SQLSTATE of an error.
func code(err error) string {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refused.Code
	}
	return fmt.Sprint(err)
}

// Each way to send a statement gives the same answers: prepared, unprepared, in the simple protocol.
func modes() map[string]func(*pgx.ConnConfig) {
	return map[string]func(*pgx.ConnConfig){
		"prepared": func(*pgx.ConnConfig) {}, "simple": simple,
		"described": func(c *pgx.ConnConfig) { c.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec },
		"exec":      func(c *pgx.ConnConfig) { c.DefaultQueryExecMode = pgx.QueryExecModeExec },
	}
}

func TestAttemptsAreAnsweredAsPlanned(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, history.IDText, nil, plan.Record{}, plan.Record{Outcome: history.OutcomeTransient, Failures: 2},
				plan.Record{Outcome: history.OutcomePermanent}, plan.Record{Outcome: history.OutcomeLogical})
			conn := b.connect(mode)
			for record, codes := range [][]string{{"<nil>"}, {"40001", "40001", "<nil>"}, {"22P02"}, {"P0001"}} {
				for _, want := range codes {
					if got := code(b.insert(conn, int32(record))); got != want {
						t.Errorf("record %d is answered %s, want %s", record, got, want)
					}
				}
			}
			b.want(2, "0.1 success, 1.1 transient, 1.2 transient, 1.3 success, 2.1 permanent, 3.1 logical")
		})
	}
}

func TestTransactionsAreAttempts(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, history.IDText, nil, plan.Record{}, plan.Record{Outcome: history.OutcomeTransient, Failures: 1})
			conn, ctx := b.connect(mode), t.Context()
			write := func(record int32) error {
				return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
					var one int
					if err := tx.QueryRow(ctx, "SELECT count(*) FROM orders WHERE id = $1",
						b.ids.Token(record)).Scan(&one); err != nil {
						return err
					}
					if _, err := tx.Exec(ctx, "INSERT INTO orders VALUES ('a' || $1, 'line')", b.ids.Token(record)); err != nil {
						return err
					}
					return b.insert(tx, record)
				})
			}
			if err := write(0); err != nil {
				t.Fatal(err)
			}
			if got := code(write(1)); got != "40001" {
				t.Errorf("answered %s", got)
			}
			if err := write(1); err != nil {
				t.Fatal(err)
			}
			b.want(4, "0.1 success, 1.1 transient, 1.2 success")
		})
	}
}

// After a planned failure the transaction is in the state that the server's own failure leaves.
func TestPlannedFailureFailsTheTransaction(t *testing.T) {
	b := newBed(t, history.IDText, nil, plan.Record{Outcome: history.OutcomeTransient, Failures: 1})
	conn, ctx := b.connect(), t.Context()
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b.exec(tx.Conn(), "SAVEPOINT a")
	if got := code(b.insert(tx, 0)); got != "40001" || conn.PgConn().TxStatus() != 'E' {
		t.Errorf("answered %s, the transaction's state is %c", got, conn.PgConn().TxStatus())
	}
	if got := code(b.insert(tx, 0)); got != "25P02" {
		t.Errorf("a statement in a failed transaction is answered %s", got)
	}
	b.exec(tx.Conn(), "ROLLBACK TO SAVEPOINT a")
	if err := b.insert(tx, 0); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	b.want(1, "0.1 transient, 0.2 success")
}

func TestAttemptsEndOtherwise(t *testing.T) {
	t.Run("rolled back", func(t *testing.T) {
		b := newBed(t, history.IDText, nil, plan.Record{})
		tx, err := b.connect().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(b.insert(tx, 0), tx.Rollback(t.Context())); err != nil {
			t.Fatal(err)
		}
		b.want(0, "0.1 timeout gone")
	})
	t.Run("the subject leaves", func(t *testing.T) {
		b := newBed(t, history.IDText, nil, plan.Record{})
		conn := b.connect()
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := b.insert(tx, 0); err != nil {
			t.Fatal(err)
		}
		conn.PgConn().Conn().Close()
		b.want(0, "0.1 timeout gone")
	})
	t.Run("the subject leaves before the answer", func(t *testing.T) {
		b := newBed(t, history.IDText, nil, plan.Record{})
		conn := b.connect()
		if err := conn.PgConn().Conn().SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		message := encoded(t, &pgproto3.Query{
			String: "INSERT INTO orders VALUES ('" + b.ids.Token(0) + "'); SELECT pg_sleep(0.3)"})
		if _, err := conn.PgConn().Conn().Write(message); err != nil {
			t.Fatal(err)
		}
		for b.InFlight() == 0 {
			time.Sleep(time.Millisecond)
		}
		conn.PgConn().Conn().Close()
		b.want(1, "0.1 timeout gone") // the server carries out what it has
	})
	t.Run("refused by the server", func(t *testing.T) {
		b := newBed(t, history.IDText, nil, plan.Record{}, plan.Record{})
		conn := b.connect()
		if err := b.insert(conn, 0); err != nil {
			t.Fatal(err)
		}
		if got := code(b.insert(conn, 0)); got != "23505" {
			t.Errorf("a duplicate is answered %s", got)
		}
		if _, err := conn.Exec(t.Context(), "INSERT INTO orders VALUES ($1, 1/0)", b.ids.Token(1)); code(err) != "22012" {
			t.Errorf("a division by zero is answered %v", err)
		}
		b.want(1, "0.1 success, 0.2 logical, 1.1 permanent")
	})
	t.Run("several records", func(t *testing.T) {
		b := newBed(t, history.IDText, nil, plan.Record{}, plan.Record{})
		if err := pgx.BeginFunc(t.Context(), b.connect(), func(tx pgx.Tx) error {
			return errors.Join(b.insert(tx, 0), b.insert(tx, 1))
		}); err != nil {
			t.Fatal(err)
		}
		b.want(2, "several, 0.1 success")
	})
}

// Reads with an id, statements without one, COPY and migrations are no attempts.
func TestOtherStatementsAreNoAttempts(t *testing.T) {
	b := newBed(t, history.IDText, nil, plan.Record{Outcome: history.OutcomePermanent})
	conn, ctx := b.connect(), t.Context()
	var id string
	if err := conn.QueryRow(ctx, "/* find */ SELECT $1::text", b.ids.Token(0)).Scan(&id); err != nil {
		t.Fatal(err)
	}
	b.exec(conn, "CREATE TABLE other (n int); INSERT INTO other VALUES (1), (2)")
	b.exec(conn, "INSERT INTO orders VALUES ($1, 'x')", "without")
	if n, err := conn.CopyFrom(ctx, pgx.Identifier{"orders"}, []string{"id", "note"},
		pgx.CopyFromRows([][]any{{b.ids.Token(0), "copied"}})); n != 1 || err != nil {
		t.Errorf("copied %d rows, %v", n, err)
	}
	if b.Unseen() == 0 {
		t.Error("statements that change rows without an id are not counted")
	}
	b.want(2, "")
}

func TestStatementsCanBeChosen(t *testing.T) {
	b := newBed(t, history.IDText, func(c *Config) { c.Statements = regexp.MustCompile("(?i)^select process") },
		plan.Record{})
	conn := b.connect()
	b.exec(conn, "CREATE FUNCTION process(id text) RETURNS void LANGUAGE sql AS 'INSERT INTO orders VALUES ($1)'")
	b.exec(conn, "INSERT INTO orders VALUES ('a' || $1)", b.ids.Token(0))
	b.exec(conn, "SELECT process($1)", b.ids.Token(0))
	b.want(2, "0.1 success")
}

// One statement may note each state of a record: of those, the one whose parameters have the state begins an attempt.
func TestStatementsCanBeChosenByTheirParameters(t *testing.T) {
	b := newBed(t, history.IDText, func(c *Config) { c.Parameters = regexp.MustCompile("SENT") },
		plan.Record{Outcome: history.OutcomeTransient, Failures: 1})
	conn := b.connect()
	note := func(state string) string {
		_, err := conn.Exec(t.Context(), "INSERT INTO orders VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET note = $2",
			b.ids.Token(0), state)
		return code(err)
	}
	got := []string{note("CLAIMED"), note("SENT"), note("RETRYING"), note("SENT")}
	if want := []string{"<nil>", "40001", "<nil>", "<nil>"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	b.exec(conn, "UPDATE orders SET note = 'DONE' WHERE id = '"+b.ids.Token(0)+"'")
	b.exec(conn, "UPDATE orders SET note = 'SENT' WHERE id = '"+b.ids.Token(0)+"'")
	b.want(1, "0.1 transient, 0.2 success, 0.3 success")
}

// A pipeline's answers stay in order, and what follows a planned failure is skipped up to Sync.
func TestPipelines(t *testing.T) {
	b := newBed(t, history.IDText, nil, plan.Record{Outcome: history.OutcomeTransient, Failures: 1}, plan.Record{})
	conn, ctx := b.connect(), t.Context()
	send := func() []string {
		batch := &pgx.Batch{}
		batch.Queue("INSERT INTO orders VALUES ('first' || random())")
		batch.Queue("INSERT INTO orders VALUES ($1)", b.ids.Token(0))
		batch.Queue("INSERT INTO orders VALUES ('a' || $1)", b.ids.Token(0))
		results := conn.SendBatch(ctx, batch)
		var codes []string
		for range 3 {
			_, err := results.Exec()
			codes = append(codes, code(err))
		}
		results.Close()
		return codes
	}
	if got := send(); got[0] != "<nil>" || got[1] != "40001" || got[2] == "<nil>" {
		t.Errorf("answered %v", got)
	}
	if got := fmt.Sprint(send()); got != "[<nil> <nil> <nil>]" {
		t.Errorf("answered %v", got)
	}
	// several Syncs at once: the answers to the first must not end the second
	pipeline := conn.PgConn().StartPipeline(ctx)
	for _, id := range []string{"plain", b.ids.Token(1)} {
		pipeline.SendQueryParams("INSERT INTO orders VALUES ('p' || $1)", [][]byte{[]byte(id)}, []uint32{25}, nil, nil)
		pipeline.SendPipelineSync()
	}
	if err := errors.Join(pipeline.Flush(), pipeline.Close()); err != nil {
		t.Fatal(err)
	}
	b.want(5, "0.1 transient, 0.2 success, 1.1 success")
}

// Ids are found in each form and format that a client gives them.
func TestIDsInEveryForm(t *testing.T) {
	for _, test := range []struct {
		name   string
		form   history.IDForm
		column string
		value  func(token string) any
	}{
		{"uuid, binary", history.IDUUID, "uuid", func(token string) any { return token }},
		{"int8, binary", history.IDInt64, "int8", func(token string) any {
			var n int64
			fmt.Sscan(token, &n)
			return n
		}},
		{"jsonb", history.IDUUID, "jsonb", func(token string) any { return `{"n": 1, "id": "` + token + `"}` }},
		{"bytea", history.IDText, "bytea", func(token string) any { return []byte("order " + token) }},
		{"json, number", history.IDInt64, "json", func(token string) any { return `{"id":` + token + `}` }},
	} {
		for mode, option := range map[string]func(*pgx.ConnConfig){"prepared": modes()["prepared"], "simple": simple} {
			t.Run(test.name+" "+mode, func(t *testing.T) {
				b := newBed(t, test.form, nil, plan.Record{}, plan.Record{})
				conn := b.connect(option)
				b.exec(conn, "CREATE TABLE typed (v "+test.column+")")
				b.exec(conn, "INSERT INTO typed VALUES ($1)", test.value(b.ids.Token(1)))
				b.want(0, "1.1 success")
			})
		}
	}
}

func TestUnansweredStatements(t *testing.T) {
	t.Run("timeout", func(t *testing.T) {
		b := newBed(t, history.IDText, nil, plan.Record{Outcome: history.OutcomeTimeout, Failures: 1})
		conn := b.connect()
		ctx, stop := b.leaving(func() bool { return b.InFlight() > 0 })
		defer stop()
		if _, err := conn.Exec(ctx, "INSERT INTO orders VALUES ($1)", b.ids.Token(0)); err == nil {
			t.Error("it is answered")
		}
		b.want(0, "0.1 timeout gone")
	})
	t.Run("reset", func(t *testing.T) {
		b := newBed(t, history.IDText, nil, plan.Record{Outcome: history.OutcomeReset, Failures: 1})
		if err := b.insert(b.connect(), 0); err == nil {
			t.Error("it is answered")
		}
		b.want(0, "0.1 reset")
	})
	t.Run("canceled", func(t *testing.T) {
		b := newBed(t, history.IDText, nil, plan.Record{Outcome: history.OutcomeTimeout, Failures: 1})
		conn := b.connect()
		answered := make(chan error, 1)
		go func() { answered <- b.insert(conn, 0) }()
		for b.InFlight() == 0 {
			time.Sleep(time.Millisecond)
		}
		var err error
		for waiting := true; waiting; {
			select {
			case err = <-answered:
				waiting = false
			case <-time.After(10 * time.Millisecond):
				if failed := conn.PgConn().CancelRequest(t.Context()); failed != nil {
					t.Fatal(failed)
				}
			}
		}
		if code(err) != "57014" {
			t.Errorf("answered %v", err)
		}
		if err := b.insert(conn, 0); err != nil {
			t.Errorf("afterwards answered %v", err)
		}
		b.want(1, "0.1 timeout gone, 0.2 success")
	})
}

// A commit whose answer is lost was carried out.
func TestUnansweredCommits(t *testing.T) {
	for _, outcome := range []history.Outcome{history.OutcomeTimeout, history.OutcomeReset} {
		for _, explicit := range []bool{true, false} {
			for name, mode := range map[string]func(*pgx.ConnConfig){"prepared": modes()["prepared"], "simple": simple} {
				t.Run(fmt.Sprint(outcome, explicit, name), func(t *testing.T) {
					b := newBed(t, history.IDText, func(c *Config) { c.LoseCommits = true },
						plan.Record{Outcome: outcome, Failures: 1})
					conn, watching := b.connect(mode), b.direct(b.cfg.URL)
					ctx, stop := b.leaving(func() bool {
						var rows int
						return watching.QueryRow(t.Context(), "SELECT count(*) FROM orders").Scan(&rows) == nil && rows == 1
					})
					defer stop()
					var err error
					if explicit {
						tx, begun := conn.Begin(t.Context())
						if begun != nil {
							t.Fatal(begun)
						}
						if err := b.insert(tx, 0); err != nil {
							t.Fatal(err)
						}
						err = tx.Commit(ctx)
					} else {
						_, err = conn.Exec(ctx, "INSERT INTO orders VALUES ($1)", b.ids.Token(0))
					}
					if err == nil {
						t.Error("the commit is answered")
					}
					told := "0.1 reset carried out"
					if outcome == history.OutcomeTimeout {
						told = "0.1 timeout gone carried out"
					}
					b.want(1, told)
				})
			}
		}
	}
}

func TestFaultsChangeAnswers(t *testing.T) {
	b := newBed(t, history.IDText, nil, plan.Record{}, plan.Record{Outcome: history.OutcomePermanent})
	conn := b.connect()
	end := b.Answer(func(int32, int32) (history.Outcome, time.Duration) { return history.OutcomeTransient, 0 })
	if got := code(b.insert(conn, 0)); got != "40001" {
		t.Errorf("answered %s", got)
	}
	end()
	var seen atomic.Int32
	end, err := b.ErrorText("hostile", func() { seen.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	var refused *pgconn.PgError
	if err := b.insert(conn, 1); !errors.As(err, &refused) || !strings.Contains(refused.Message, "<script>") ||
		refused.ConstraintName != "orders_total" || seen.Load() != 1 {
		t.Errorf("answered %v, seen %d times", err, seen.Load())
	}
	end()
	end = b.Slow(30*time.Millisecond, func() { seen.Add(1) })
	before := time.Now()
	if err := b.insert(conn, 0); err != nil || time.Since(before) < 30*time.Millisecond {
		t.Errorf("answered %v after %s", err, time.Since(before))
	}
	end()
	b.want(1, "0.1 transient, 1.1 permanent, 0.2 success")
}

// A client that insists on TLS is refused, and one that prefers it goes on without.
func TestEncryptionIsRefused(t *testing.T) {
	b := newBed(t, history.IDText, nil, plan.Record{})
	for mode, want := range map[string]bool{"prefer": true, "require": false} {
		url := strings.Replace(strings.Replace(b.cfg.URL, server.Address(), b.Addr(0), 1), "sslmode=disable",
			"sslmode="+mode, 1)
		conn, err := pgx.Connect(t.Context(), url)
		if (err == nil) != want {
			t.Errorf("sslmode=%s: %v", mode, err)
		}
		if err == nil {
			conn.Close(t.Context())
		}
	}
}

func TestCancelReachesTheServer(t *testing.T) {
	b := newBed(t, history.IDText, nil, plan.Record{})
	conn := b.connect()
	answered := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), "SELECT pg_sleep(60)")
		answered <- err
	}()
	for {
		select {
		case err := <-answered:
			if code(err) != "57014" {
				t.Errorf("answered %v", err)
			}
			return
		case <-time.After(20 * time.Millisecond):
			if err := conn.PgConn().CancelRequest(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A client that gives up on what the server carries out asks it to cancel that. Since when it has not waited any more is
// not known.
func TestAClientThatGivesUpCancels(t *testing.T) {
	b := newBed(t, history.IDText, nil, plan.Record{})
	blocking, err := b.direct(b.cfg.URL).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blocking.Exec(t.Context(), "LOCK TABLE orders"); err != nil {
		t.Fatal(err)
	}
	conn := b.connect(simple)
	ctx, stop := b.leaving(func() bool { return b.InFlight() > 0 })
	defer stop()
	if _, err := conn.Exec(ctx, "INSERT INTO orders VALUES ($1, 'x')", b.ids.Token(0)); err == nil {
		t.Error("it is answered")
	}
	for deadline := time.Now().Add(10 * time.Second); b.sink.told() == "" && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	if err := blocking.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.want(0, "0.1 timeout gone")
}

// A database that does not decide carries out everything that no fault breaks. Its own errors are told from those.
func TestADatabaseThatDoesNotDecide(t *testing.T) {
	b := newBed(t, history.IDText, func(c *Config) { c.Other = 1 }, plan.Record{Outcome: history.OutcomePermanent})
	conn := b.connect()
	const insert = "INSERT INTO orders VALUES ($1, 'x')"
	b.exec(conn, insert, b.ids.Token(0))
	var refused *pgconn.PgError
	if _, err := conn.Exec(t.Context(), insert, b.ids.Token(0)); !errors.As(err, &refused) || refused.Code != "23505" {
		t.Errorf("answered %v", err)
	}
	end := b.Answer(func(int32, int32) (history.Outcome, time.Duration) { return history.OutcomeTransient, 0 })
	if _, err := conn.Exec(t.Context(), insert, b.ids.Token(0)); !errors.As(err, &refused) || refused.Code != "40001" {
		t.Errorf("answered %v", err)
	}
	end()
	if got, want := b.sink.told(), "call 0.1 success , call 0.2 logical , call 0.3 transient forged"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}
