package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/worker"
)

// strategyFlags define when entries are retried. Router and worker must be given the same.
type strategyFlags struct {
	strategies   worker.Strategies
	zone, origin string
}

func (s *strategyFlags) add(f *pflag.FlagSet) {
	s.strategies = worker.DefaultStrategies()
	f.Float64Var(&s.strategies.Clock.Scale, "time-scale", 1,
		"factor by which the strategies' time is accelerated: at 600, a minute takes 100 ms")
	f.StringVar(&s.origin, "time-origin", "",
		"time at which the scaled calendar equals the real one, such as 2026-02-11T00:00:00Z (default: each midnight, UTC)")
	f.IntSliceVar(&s.strategies.OffPeak.Hours, "off-peak-hours", s.strategies.OffPeak.Hours,
		"hours in which scheduled entries are tried")
	f.StringVar(&s.zone, "off-peak-zone", "UTC", "time zone of the off-peak hours, such as Europe/Berlin")
	f.IntVar(&s.strategies.MaxRetries, "max-dlq-retries", s.strategies.MaxRetries,
		"retries by workers after which an entry is failed")
}

// read returns the strategies that the flags define.
func (s *strategyFlags) read() (worker.Strategies, error) {
	zone, err := time.LoadLocation(s.zone)
	if err != nil {
		return s.strategies, fmt.Errorf("--off-peak-zone: %w", err)
	}
	s.strategies.OffPeak.Zone = zone
	if s.origin != "" {
		if s.strategies.Clock.Origin, err = time.Parse(time.RFC3339, s.origin); err != nil {
			return s.strategies, fmt.Errorf("--time-origin %q: write a time such as 2026-02-11T00:00:00Z", s.origin)
		}
	}
	return s.strategies, nil
}

// routerFlags are the flags of `dlqbench dlq router`.
type routerFlags struct {
	store             storeFlags
	strategy          strategyFlags
	observe           observeFlags
	bootstrap, health string
	config            worker.RouterConfig
	// plant changes the configuration before the router starts. nil changes nothing.
	plant func(*worker.RouterConfig)
}

// dlqRouterCommand runs the router. plant, if not nil, changes its configuration before it starts.
func (a *app) dlqRouterCommand(plant func(*worker.RouterConfig)) *cobra.Command {
	flags := routerFlags{plant: plant}
	command := &cobra.Command{
		Use: "router", Short: "Copy dead letters from Kafka to the store", Args: noArgs,
		Long: strings.TrimSpace(`
Read dead-letter topics as a consumer group, decode each dead letter, classify its error, decide when it is retried
first, and write it to the store. An offset is committed only after its entry is durable, and the store keeps one
entry for each source partition and offset: nothing is lost or stored twice, however often routers are killed. While
the store is down or full, nothing is committed.

The router runs until TERM. It logs "state":"ready" when it has partitions. Every flag can be set as DLQBENCH_…
(--router-group: DLQBENCH_ROUTER_GROUP).`),
		Example: `  dlqbench dlq router --store sqlite:letters.db --bootstrap localhost:9092 --dlq-topic orders.dlq`,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := fromEnvironment(command); err != nil {
				return err
			}
			return a.route(command.Context(), flags)
		},
	}
	flags.store.add(command.Flags())
	flags.strategy.add(command.Flags())
	flags.observe.addMetrics(command.Flags())
	f := command.Flags()
	f.StringVar(&flags.bootstrap, "bootstrap", "", "brokers, comma-separated (also DLQBENCH_BOOTSTRAP_SERVERS)")
	f.StringSliceVar(&flags.config.Topics, "dlq-topic", nil, "dead-letter topics, comma-separated")
	f.StringVar(&flags.config.Group, "router-group", "dlqbench-dlq-router", "consumer group of the routers")
	f.StringVar(&flags.config.ClientID, "client-id", "dlqbench-dlq-router", "Kafka client id of this router")
	f.StringVar(&flags.config.Dialect, "dialect", "",
		"dialect of the dead letters: "+strings.Join(append(deadletter.Names(), deadletter.RawName), ", ")+
			" (default: detected for each)")
	f.IntVar(&flags.config.BatchSize, "batch-size", worker.DefaultBatch,
		"maximum number of dead letters written at a time")
	f.StringVar(&flags.health, "health-url", "",
		"health probe of the workers, if any; conditional entries are then due at once")
	return command
}

func (a *app) route(ctx context.Context, flags routerFlags) error {
	config := flags.config
	if flags.bootstrap == "" || len(config.Topics) == 0 {
		return usageError{errors.New("the router needs --bootstrap and --dlq-topic: the brokers, and the dead-letter topics")}
	}
	config.Bootstrap = strings.Split(flags.bootstrap, ",")
	var err error
	if config.Strategies, err = flags.strategy.read(); err != nil {
		return usageError{err}
	}
	config.Strategies.Probed = flags.health != ""
	if config.Options, err = a.clientOptions(); err != nil {
		return err
	}
	config.Logger = a.logger(a.stderr)
	there, observer, end, err := a.observedStore(ctx, flags.store, flags.observe, config.Logger)
	if err != nil {
		return err
	}
	defer end()
	config.Store, config.Observer = there, observer
	if flags.plant != nil {
		flags.plant(&config)
	}
	return wrongConfig(worker.Route(ctx, config))
}

// observedStore opens a store and its observers, and checks that the program knows its schema. Routers and workers
// would otherwise wait for ever for a store that was never created. end closes both.
func (a *app) observedStore(ctx context.Context, flags storeFlags, observe observeFlags,
	log zerolog.Logger) (there store.Store, observer worker.Observer, end func(), err error) {
	if there, err = flags.open(ctx, store.Options{}); err != nil {
		return nil, nil, nil, err
	}
	if _, err := there.Count(ctx, store.Query{States: []store.State{store.Processing}}); errors.Is(err,
		store.ErrNotMigrated) {
		return nil, nil, nil, errors.Join(err, there.Close())
	}
	observer, stop, err := observe.open(there, log)
	if err != nil {
		return nil, nil, nil, errors.Join(err, there.Close())
	}
	return there, observer, func() { stop(); closeStore(there) }, nil
}

// wrongConfig turns an error about the configuration into a usage error.
func wrongConfig(err error) error {
	if _, ok := errors.AsType[*worker.ConfigError](err); ok {
		return usageError{err}
	}
	return err
}

// workerFlags are the flags of `dlqbench dlq worker`.
type workerFlags struct {
	store    storeFlags
	strategy strategyFlags
	retry    retryFlags
	observe  observeFlags
	settings worker.Settings
	rate     units.Rate
	health   string
	name     string
	offset   time.Duration
	// plant changes the configuration before the workers of the store at the address start. nil changes nothing.
	plant func(address string, config *worker.Config)
}

// dlqWorkerCommand runs the workers. plant, if not nil, changes their configuration, for the store at the address,
// before they start.
func (a *app) dlqWorkerCommand(plant func(address string, config *worker.Config)) *cobra.Command {
	flags := workerFlags{settings: worker.DefaultSettings(), plant: plant}
	command := &cobra.Command{
		Use: "worker", Short: "Retry the dead letters of a store", Args: noArgs,
		Long: strings.TrimSpace(`
Find entries that are due, lock a batch, and retry each by its strategy: immediate (after 1, 5, 15, 30 and 60 min),
scheduled (in off-peak hours), conditional (when --health-url reports a closed circuit breaker, CPU < 80 %, memory <
85 % and available connections), or manual (wait for a person). --retry call POSTs the original value to
--downstream-url, as the reference consumer does; --retry republish produces it to its topic.

An entry that succeeds is resolved. One that fails waits for its next retry, and is failed after --max-dlq-retries.
Locks are leases, so those of a dead worker are recovered. If a worker dies between a retry and writing its result,
the entry is tried again: retries happen at least once.

The worker runs until TERM. It logs "state":"ready" when the store answers. Every flag can be set as DLQBENCH_…
(--lease: DLQBENCH_LEASE).`),
		Example: `  dlqbench dlq worker --store sqlite:letters.db --bootstrap localhost:9092
  dlqbench dlq worker --store sqlite:letters.db --retry call --downstream-url http://127.0.0.1:8080 \
    --off-peak-zone Europe/Berlin`,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := fromEnvironment(command); err != nil {
				return err
			}
			return a.work(command.Context(), flags)
		},
	}
	flags.add(command.Flags())
	return command
}

func (w *workerFlags) add(f *pflag.FlagSet) {
	w.store.add(f)
	w.strategy.add(f)
	w.retry.add(f)
	w.observe.add(f)
	f.IntVar(&w.settings.Workers, "workers", w.settings.Workers,
		"number of workers in this process, each with batches of its own")
	f.DurationVar(&w.settings.PollInterval, "poll-interval", w.settings.PollInterval,
		"interval at which due entries are looked for; scaled by --time-scale")
	f.IntVar(&w.settings.BatchSize, "batch-size", w.settings.BatchSize, "number of entries a worker locks at a time")
	f.IntVar(&w.settings.Concurrency, "concurrency", w.settings.Concurrency,
		"number of entries of a batch retried at a time")
	f.DurationVar(&w.settings.Lease, "lease", w.settings.Lease,
		"duration of a lock unless renewed; scaled by --time-scale")
	f.TextVar(&w.rate, "rate", units.Rate(0), "maximum rate of retries, such as 100/s (0/s: no limit)")
	f.DurationVar(&w.settings.Grace, "stop-grace", w.settings.Grace, "timeout of an orderly stop after TERM")
	f.StringVar(&w.health, "health-url", "", "health probe for conditional retries, a URL that answers GET with JSON")
	f.DurationVar(&w.offset, "clock-offset", 0, "for tests: this machine's clock is so much ahead (negative: behind)")
	_ = f.MarkHidden("clock-offset") // the flag was just defined
	f.StringVar(&w.name, "worker-name", "",
		"name in locks and histories, unique per process (default: host, process id and a random part)")
}

// retryFlags define how an entry is retried.
type retryFlags struct {
	how, bootstrap, to, downstream string
	timeout                        time.Duration
}

// These are the ways to retry an entry.
const (
	retryByCall      = "call"
	retryByRepublish = "republish"
)

func (r *retryFlags) add(f *pflag.FlagSet) {
	f.StringVar(&r.how, "retry", retryByRepublish, retryByRepublish+": produce the record to its topic; "+retryByCall+
		": POST its value to --downstream-url")
	f.StringVar(&r.bootstrap, "bootstrap", "",
		"brokers, comma-separated, for --retry republish (also DLQBENCH_BOOTSTRAP_SERVERS)")
	f.StringVar(&r.to, "to", "", "topic to produce to (default: the topic that each dead letter names)")
	f.StringVar(&r.downstream, "downstream-url", "",
		"the downstream, for --retry call (also DLQBENCH_ORACLE_URL)")
	f.DurationVar(&r.timeout, "call-timeout", worker.DefaultCallTimeout,
		"timeout of a call to the downstream, in real time")
}

// open returns the retrier and a function that closes it.
func (r *retryFlags) open(a *app) (worker.Retrier, func(), error) {
	switch r.how {
	case retryByCall:
		if r.downstream = cmp.Or(r.downstream, os.Getenv("DLQBENCH_ORACLE_URL")); r.downstream == "" {
			return nil, nil, usageError{errors.New("--retry call needs --downstream-url: the downstream that processes records")}
		}
		call, err := worker.NewCall(r.downstream, r.timeout)
		if err != nil {
			return nil, nil, usageError{fmt.Errorf("--downstream-url: %w", err)}
		}
		return call, func() {}, nil
	case retryByRepublish:
		if r.bootstrap == "" {
			return nil, nil, usageError{errors.New("--retry republish needs --bootstrap: the brokers to produce to")}
		}
		options, err := a.clientOptions()
		if err != nil {
			return nil, nil, err
		}
		client, err := kgo.NewClient(worker.ProducerOptions(strings.Split(r.bootstrap, ","), options...)...)
		if err != nil {
			return nil, nil, fmt.Errorf("opening the Kafka client for replays: %w", err)
		}
		return &worker.Republish{Producer: client, To: r.to}, client.Close, nil
	}
	return nil, nil, usageError{fmt.Errorf("--retry %s: write %s or %s", r.how, retryByCall, retryByRepublish)}
}

func (a *app) work(ctx context.Context, flags workerFlags) error {
	config := worker.Config{Settings: flags.settings, Name: flags.name, Logger: a.logger(a.stderr)}
	config.Settings.Rate = flags.rate.PerSecond()
	config.Clock = func() time.Time { return time.Now().Add(flags.offset) }
	var err error
	if config.Strategies, err = flags.strategy.read(); err != nil {
		return usageError{err}
	}
	if flags.health != "" {
		probe, err := worker.NewProbe(flags.health)
		if err != nil {
			return usageError{fmt.Errorf("--health-url: %w", err)}
		}
		config.Strategies.Probed, config.Unmet = true, probe.Unmet
	}
	if grace := flags.settings.Grace; flags.retry.how == retryByCall && flags.retry.timeout > grace*3/4 {
		return usageError{fmt.Errorf(
			"--call-timeout %s is too long for --stop-grace %s: calls under way are awaited for three quarters of it",
			flags.retry.timeout, grace)}
	}
	retrier, closeRetrier, err := flags.retry.open(a)
	if err != nil {
		return err
	}
	defer closeRetrier()
	there, observer, end, err := a.observedStore(ctx, flags.store, flags.observe, config.Logger)
	if err != nil {
		return err
	}
	defer end()
	config.Store, config.Retrier, config.Observer = there, retrier, observer
	if flags.plant != nil {
		flags.plant(flags.store.address, &config)
	}
	return wrongConfig(worker.Run(ctx, config))
}
