package cost

// This file measures the tap of PostgreSQL, before a private server.

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/pgtap"
	"github.com/dlqbench/dlqbench/internal/env/postgres"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/internal/plan"
)

// statementTrips is how often each way has its turn in one round.
const statementTrips = 2000

// BenchmarkStatement measures what the tap of PostgreSQL, and the link before it, add to one statement: a look-up by
// id, an insert outside a transaction, which is an attempt, and an insert in a transaction of three statements. The
// ways take turns statement by statement, so that other work on the machine concerns all of them, and added is the
// median of the differences. Nothing waits for the disk (fsync=off), because that would hide it.
func BenchmarkStatement(b *testing.B) {
	server, err := postgres.Start(b.Context(), map[string]string{"fsync": "off"})
	if errors.Is(err, postgres.ErrAbsent) {
		b.Skip(err)
	}
	done(b, err)
	b.Cleanup(func() { done(b, server.Close()) })
	url := must(server.Create(b.Context(), "bench"))(b)
	ids, sink := history.NewIDs("bench"), &counter{}
	ways := databaseWays(b, url, ids, sink)
	must(connect(b, url).Exec(b.Context(), "CREATE TABLE orders (id text, note text)"))(b)
	var conns []*pgx.Conn
	for _, w := range ways {
		conns = append(conns, connect(b, w.address))
	}
	for _, do := range []struct {
		name string
		// run carries out the statements for an id; statements is how many these are.
		run        func(ctx context.Context, conn *pgx.Conn, id string) error
		statements int
	}{{"select", lookUp, 1}, {"insert", insert, 1}, {"transaction", insertWithin, 3}} {
		measured := sync.OnceValue(func() [][]time.Duration {
			return takeTurns(b, conns, do.statements, func(conn *pgx.Conn, n int) error {
				return do.run(b.Context(), conn, ids.Token(int32(n)))
			})
		})
		for i, w := range ways {
			b.Run("do="+do.name+"/way="+w.name, func(b *testing.B) {
				for b.Loop() {
					measured()
				}
				reportStatement(b, measured()[i])
				if i > 0 {
					b.ReportMetric(median(differences(measured()[i], measured()[0])), "added-µs/statement")
				}
			})
		}
	}
	if seen := sink.count.Load(); seen < 2*statementTrips {
		b.Fatalf("the tap saw %d events: statements passed it by", seen)
	}
}

// databaseWays returns the ways to the database: direct, through the tap, and through a link before it as in a run.
func databaseWays(b *testing.B, url string, ids *history.IDs, sink history.Sink) []way {
	tap := must(pgtap.New(pgtap.Config{URL: url, Log: zerolog.Nop(), AttemptsConfig: workload.AttemptsConfig{
		Plan: &plan.Plan{Records: make([]plan.Record, statementTrips)}, IDs: ids, Instances: 1, Ops: &atomic.Int64{},
		Clock: history.NewClock(), Sink: sink,
	}}))(b)
	b.Cleanup(func() { done(b, tap.Close()) })
	link := must(network.NewRelay("bench", network.Upstream{Address: tap.Addr(0)}))(b)
	b.Cleanup(func() { done(b, link.Close()) })
	config := must(pgx.ParseConfig(url))(b)
	through := func(address string) string {
		return "postgres://" + config.User + "@" + address + "/" + config.Database + "?sslmode=disable"
	}
	return []way{
		{name: "straight", address: url}, {name: "tap", address: through(tap.Addr(0))},
		{name: "both", address: through(link.Address())},
	}
}

func connect(b *testing.B, url string) *pgx.Conn {
	conn := must(pgx.Connect(b.Context(), url))(b)
	b.Cleanup(func() { done(b, conn.Close(context.WithoutCancel(b.Context()))) })
	return conn
}

// takeTurns returns how long a statement took through each connection, in the order of time.
func takeTurns(b *testing.B, conns []*pgx.Conn, statements int,
	run func(conn *pgx.Conn, n int) error) [][]time.Duration {
	took := make([][]time.Duration, len(conns))
	for n := range statementTrips + statementTrips/4 {
		for i, conn := range conns {
			start := time.Now()
			done(b, run(conn, n%statementTrips))
			took[i] = append(took[i], time.Since(start)/time.Duration(statements))
		}
	}
	for i := range took { // the first ones prepared the statements and created buffers
		took[i] = took[i][statementTrips/4:]
	}
	return took
}

func reportStatement(b *testing.B, took []time.Duration) {
	sorted := slices.Sorted(slices.Values(took))
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(took), "p50-µs/statement")
	b.ReportMetric(sorted[len(sorted)*99/100].Seconds()*1e6, "p99-µs/statement")
}

func differences(all, from []time.Duration) []time.Duration {
	by := make([]time.Duration, len(all))
	for i := range all {
		by[i] = all[i] - from[i]
	}
	return by
}

// median returns the median in µs.
func median(all []time.Duration) float64 {
	return slices.Sorted(slices.Values(all))[len(all)/2].Seconds() * 1e6
}

func lookUp(ctx context.Context, conn *pgx.Conn, id string) error {
	var one int
	return conn.QueryRow(ctx, "SELECT length($1)", id).Scan(&one)
}

func insert(ctx context.Context, conn *pgx.Conn, id string) error {
	_, err := conn.Exec(ctx, "INSERT INTO orders VALUES ($1, $2)", id, strings.Repeat("x", 200))
	return err
}

func insertWithin(ctx context.Context, conn *pgx.Conn, id string) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return insert(ctx, tx.Conn(), id) })
}
