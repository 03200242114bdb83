// Command crasher is the reference consumer that exits by itself, with exit code 9, after RECORDS records:
//
//	crasher RECORDS MARK [failed|stale|slow|sick]
//
// It creates the file MARK before it exits. With failed, it goes on until a call has failed. If MARK exists, it runs on as a good consumer, or refuses to start if told
// that MARK is stale. With slow, it creates MARK when it starts, and its later processes take an hour to start. With
// sick, it does not exit: it leaves its group, and its health, at DLQBENCH_PORT, turns 503 until it is told to end.
package main

import (
	"context"
	"fmt"
	"net/http"
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
	// so that the next process gets the partitions soon
	config.Logger, config.SessionTimeout = zerolog.New(os.Stderr), 2*time.Second
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	consuming, giveUp := context.WithCancel(ctx)
	defer giveUp()
	sick, failed := append(args, "")[2] == "sick", append(args, "")[2] == "failed"
	if sick {
		go serveHealth(consuming)
	}
	if missing != nil {
		var handled atomic.Int64
		handle := config.Handler
		config.Handler = func(ctx context.Context, record *kgo.Record) error {
			late := handled.Add(1) > limit
			if failed || !late {
				if err := handle(ctx, record); err == nil || !late {
					return err
				}
			}
			_ = os.WriteFile(mark, nil, 0o600)
			if !sick {
				os.Exit(9)
			}
			giveUp()
			<-ctx.Done()
			return ctx.Err()
		}
	}
	err = consumer.Main(consuming, config, consumer.DefaultParts(config.Settings))
	if sick {
		<-ctx.Done()
	}
	return err
}

// serveHealth reports good health until ctx ends.
func serveHealth(ctx context.Context) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if ctx.Err() != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:"+os.Getenv("DLQBENCH_PORT"), handler))
}
