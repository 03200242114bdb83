// The ledger books transfers: it takes them from Kafka and writes both entries of each to PostgreSQL. Transfers that
// can't be booked go to a topic of their own.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("the ledger can't go on", "error", err)
		os.Exit(1)
	}
	slog.Info("stopped")
}

func run(ctx context.Context) error {
	books, err := openLedger(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer books.pool.Close()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Getenv("KAFKA_BROKERS"), ",")...),
		kgo.ConsumerGroup("ledger"), kgo.ConsumeTopics("transfers"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond),
		// A rejected transfer is larger than it was.
		kgo.ProducerBatchMaxBytes(1048588),
	)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	slog.Info("booking transfers")
	(&consumer{client: client, book: books.book}).consume(ctx)
	return nil
}
