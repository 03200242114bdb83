// Command crasher is the reference consumer that ends by itself, with exit code 9, after so many records:
//
//	crasher RECORDS MARK [stale|slow]
//
// It makes the file MARK before it does. When MARK is there it goes on as a good consumer, or refuses to start if told
// that MARK is stale. With slow it makes MARK when it starts, and its later processes take an hour to start.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/consumer"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	limit, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return fmt.Errorf("reading how many records: %w", err)
	}
	mark := args[1]
	_, missing := os.Stat(mark)
	switch how := append(args, "")[2]; {
	case how == "stale" && missing == nil:
		fmt.Fprintln(os.Stderr, "there is a stale lock file:", mark)
		os.Exit(4)
	case how == "slow" && missing == nil:
		fmt.Println("starting slowly")
		time.Sleep(time.Hour)
	case how == "slow":
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			return err
		}
	}
	config, err := consumer.FromEnvironment(os.LookupEnv)
	if err != nil {
		return err
	}
	// the next process needn't wait long for the partitions
	config.Logger, config.SessionTimeout = zerolog.New(os.Stderr), 2*time.Second
	if missing != nil {
		var handled atomic.Int64
		handle := config.Handler
		config.Handler = func(ctx context.Context, record *kgo.Record) error {
			if handled.Add(1) > limit {
				_ = os.WriteFile(mark, nil, 0o600)
				os.Exit(9)
			}
			return handle(ctx, record)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return consumer.Main(ctx, config, consumer.DefaultParts(config.Settings))
}
