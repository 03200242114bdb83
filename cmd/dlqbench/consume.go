package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/internal/env/subject"
	"github.com/dlqbench/dlqbench/internal/security"
)

// consumeCommand runs the reference consumer. plant, if set, changes it to plant a bug.
func (a *app) consumeCommand(plant func(*consumer.Config, *consumer.Parts)) *cobra.Command {
	settings := consumer.DefaultSettings()
	command := &cobra.Command{
		Use: "consume", Short: "Run the reference consumer", Args: noArgs,
		Long: `Run the reference consumer: it reads the input topic, POSTs each record to the downstream stub (or
any HTTP service with the same answers), retries with backoff, dead-letters records that fail for
good, and commits finished ones. Addresses and names come from the environment:
DLQBENCH_BOOTSTRAP_SERVERS, DLQBENCH_INPUT_TOPIC, DLQBENCH_DLQ_TOPIC, DLQBENCH_GROUP_ID,
DLQBENCH_ORACLE_URL.`,
		Example: `  DLQBENCH_BOOTSTRAP_SERVERS=127.0.0.1:9092 DLQBENCH_INPUT_TOPIC=orders DLQBENCH_DLQ_TOPIC=orders.dlq \
  DLQBENCH_GROUP_ID=orders DLQBENCH_ORACLE_URL=http://127.0.0.1:8080 dlqbench consume --max-retries 5`,
		RunE: func(command *cobra.Command, _ []string) error {
			config, err := consumer.FromEnvironment(os.LookupEnv)
			if err != nil {
				return usageError{err}
			}
			config.Logger = a.logger(a.stderr)
			config.Options = append(config.Options, kgo.WithHooks(&dialLog{log: config.Logger}))
			overrideSettings(command.Flags(), &config.Settings)
			if _, inRun := os.LookupEnv(subject.RunIDVariable); !inRun {
				defer background(command.Context(), func(ctx context.Context) { lookForTopics(ctx, config) })()
			}
			parts := consumer.PartsFor(config)
			if plant != nil {
				plant(&config, &parts)
			}
			if err := consumer.Main(command.Context(), config, parts); err != nil {
				return fmt.Errorf("consuming: %w", err)
			}
			return nil
		},
	}
	settingsFlags(command.Flags(), &settings)
	return command
}

// background runs do in a goroutine. The returned function ends it and waits for it.
func background(ctx context.Context, do func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { do(ctx) })
	return func() { cancel(); group.Wait() }
}

// lookForTopics logs missing topics. The consumer waits for them, because they may be created later.
func lookForTopics(ctx context.Context, config consumer.Config) {
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(config.Bootstrap...)}, config.Options...)...)
	if err != nil {
		return // the consumer itself reports it
	}
	defer client.Close()
	found, err := kadm.NewClient(client).ListTopics(ctx, config.Topic, config.DLQTopic)
	if err != nil {
		return // failed connections are logged elsewhere
	}
	for _, topic := range found.Sorted() {
		if errors.Is(topic.Err, kerr.UnknownTopicOrPartition) {
			config.Logger.Warn().Str("topic", topic.Topic).Msg("the topic does not exist on these brokers yet; waiting for it")
		}
	}
}

// dialLog logs that a broker is unreachable: a consumer waits for its brokers without a limit and would otherwise
// appear idle.
type dialLog struct {
	log  zerolog.Logger
	last atomic.Int64 // time of the last log line, in ns
}

// dialLogEvery is the minimum interval between two such lines, because clients retry several times a second.
const dialLogEvery = 5 * time.Second

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (d *dialLog) OnBrokerConnect(broker kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	now, last := time.Now().UnixNano(), d.last.Load()
	if err == nil || errors.Is(err, context.Canceled) || last != 0 && now-last < int64(dialLogEvery) ||
		!d.last.CompareAndSwap(last, now) {
		return
	}
	address := net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port)))
	d.log.Warn().Err(err).Str("broker", address).Msg("the broker can't be reached; it is tried again")
}

// clientOptions are the options of a Kafka client, with the security settings in the environment.
func (a *app) clientOptions() ([]kgo.Opt, error) {
	options, err := security.FromEnvironment(os.LookupEnv)
	if err != nil {
		return nil, usageError{err}
	}
	return append(options, kgo.WithHooks(&dialLog{log: a.logger(a.stderr)})), nil
}

// overrideSettings applies the flags that were given. All other settings keep the values from the environment.
func overrideSettings(given *pflag.FlagSet, settings *consumer.Settings) {
	own := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	settingsFlags(own, settings)
	given.Visit(func(flag *pflag.Flag) {
		if own.Lookup(flag.Name) != nil {
			_ = own.Set(flag.Name, flag.Value.String()) // the value was parsed before
		}
	})
}

// settingsFlags defines a flag for each setting of the reference consumer, named as in its design, with dashes.
func settingsFlags(flags *pflag.FlagSet, s *consumer.Settings) {
	flags.IntVar(&s.MaxRetries, "max-retries", s.MaxRetries,
		"attempts at a record before it is dead-lettered, the first included")
	flags.IntVar(&s.RetryBackoffMS, "retry-backoff-ms", s.RetryBackoffMS, "wait before the second attempt, in ms")
	flags.BoolVar(&s.ExponentialBackoff, "exponential-backoff", s.ExponentialBackoff,
		"double the wait after every attempt")
	flags.IntVar(&s.MaxRetryBackoffMS, "max-retry-backoff-ms", s.MaxRetryBackoffMS,
		"cap of the wait, before jitter, in ms")
	flags.IntVar(&s.RetryJitterMS, "retry-jitter-ms", s.RetryJitterMS, "maximum random addition to a wait, in ms")
	flags.StringVar(&s.Ordering, "ordering", s.Ordering, "order in which records are processed: none, partition or key")
	flags.IntVar(&s.MaxInFlight, "max-in-flight", s.MaxInFlight, "maximum number of fetched, unfinished records")
	flags.TextVar(&s.AttemptTimeout, "attempt-timeout", s.AttemptTimeout, "timeout of one attempt")
	flags.TextVar(&s.CommitInterval, "commit-interval", s.CommitInterval, "time between commits")
	flags.StringVar((*string)(&s.Envelope), "envelope", string(s.Envelope),
		"dialect of the dead letters: "+strings.Join(deadletter.Names(), ", "))
	flags.BoolVar(&s.DLQEnabled, "dlq-enabled", s.DLQEnabled, "dead-letter records that fail for good")
	flags.TextVar(&s.StopGrace, "stop-grace", s.StopGrace, "timeout of an orderly stop after TERM")
}
