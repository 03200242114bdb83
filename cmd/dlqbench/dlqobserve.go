package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/metrics"
	"github.com/dlqbench/dlqbench/store/notify"
	"github.com/dlqbench/dlqbench/store/retention"
	"github.com/dlqbench/dlqbench/store/worker"
)

// observeFlags configure the observers of routers and workers.
type observeFlags struct{ address, webhook string }

func (o *observeFlags) add(f *pflag.FlagSet) {
	o.addMetrics(f)
	f.StringVar(&o.webhook, "webhook", "", "URL to notify (POST) of each entry that has failed or needs a person; keep "+
		"it secret by setting DLQBENCH_WEBHOOK instead")
}

// addMetrics is add for a router, which needs no webhook: only workers give entries up.
func (o *observeFlags) addMetrics(f *pflag.FlagSet) {
	f.StringVar(&o.address, "metrics-addr", "",
		"serve Prometheus metrics at http://ADDRESS/metrics, such as 127.0.0.1:9464")
}

// observeLimit bounds the time for the observers' shutdown.
const observeLimit = 2 * time.Second

// open starts the requested observers. end stops them and waits.
func (o *observeFlags) open(there store.Store, log zerolog.Logger) (observer worker.Observer, end func(), err error) {
	counts := metrics.New(there, metrics.Options{})
	observers, ends := worker.Observers{counts}, []func(context.Context){}
	end = func() {
		ending, cancel := context.WithTimeout(context.Background(), observeLimit)
		defer cancel()
		for _, one := range ends {
			one(ending)
		}
	}
	if o.webhook != "" {
		webhook, err := notify.New(notify.Options{URL: o.webhook, Failed: func(id string, err error) {
			counts.NotificationFailed()
			log.Error().Err(err).Str("entry", id).Msg("no notification of a dead letter could be delivered")
		}})
		if err != nil {
			return nil, end, usageError{err}
		}
		observers = append(observers, webhook)
		ends = append(ends, func(ctx context.Context) { _ = webhook.Close(ctx) }) // losses go to Failed
	}
	if o.address != "" {
		stop, err := serveMetrics(o.address, counts.Handler(), log)
		if err != nil {
			end()
			return nil, func() {}, err
		}
		ends = append(ends, stop)
	}
	return observers, end, nil
}

// serveMetrics serves until stop is called.
func serveMetrics(address string, handler http.Handler, log zerolog.Logger) (stop func(context.Context), err error) {
	listener, err := net.Listen("tcp", address)
	if wrong := (*net.AddrError)(nil); errors.As(err, &wrong) {
		return nil, usageError{fmt.Errorf("--metrics-addr %q: %w: write host and port, such as 127.0.0.1:9464", address,
			wrong)}
	}
	if err != nil {
		return nil, fmt.Errorf("serving metrics at %s: %w (--metrics-addr takes an address of this machine at which "+
			"nothing else listens, such as 127.0.0.1:9464)", address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error().Err(err).Msg("metrics are no longer served")
		}
	}()
	log.Info().Str("address", listener.Addr().String()).Msg("metrics are served")
	return func(ctx context.Context) {
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // remaining connections had their time
		}
		<-done
	}, nil
}

func (a *app) dlqRetainCommand() *cobra.Command {
	var (
		flags  storeFlags
		every  time.Duration
		asJSON bool
	)
	policy := retention.DefaultPolicy()
	command := &cobra.Command{
		Use: "retain", Short: "Apply retention: delete resolved entries, archive failed ones", Args: noArgs,
		Long: strings.TrimSpace(`
Delete entries resolved 30 days ago, write those that failed 90 days ago to Parquet files in --archive, and remove
them from the store after another year. Entries that are pending, in process or waiting for a person are kept for
ever. The command can be interrupted at any moment and repeated: an entry is removed only after it is in a complete
file.`),
		Example: `  dlqbench dlq retain --archive /var/lib/dead-letters --dry-run
  dlqbench dlq retain --archive /var/lib/dead-letters --every 24h`,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := fromEnvironment(command); err != nil {
				return err
			}
			if policy.Folder == "" || every < 0 {
				return usageError{errors.New(
					"retain needs --archive, the folder for what has failed, and --every can't be negative")}
			}
			return a.withStore(&flags, func(ctx context.Context, there store.Store, _ []string) error {
				return a.retain(ctx, there, policy, every, asJSON)
			})(command, nil)
		},
	}
	flags.add(command.Flags())
	f := command.Flags()
	f.StringVar(&policy.Folder, "archive", "", "folder of the archive")
	f.DurationVar(&policy.Resolved, "keep-resolved", policy.Resolved, "how long resolved entries are kept")
	f.DurationVar(&policy.Failed, "keep-failed", policy.Failed,
		"how long failed entries are kept before they are archived")
	f.DurationVar(&policy.Archived, "keep-archived", policy.Archived, "how long archived entries are kept in the store")
	f.Float64Var(&policy.Scale, "time-scale", 1, "factor by which these times are shortened")
	f.DurationVar(&every, "every", 0, "repeat at this interval until TERM; scaled by --time-scale (0s: run once)")
	f.BoolVar(&policy.DryRun, "dry-run", false, "list the changes without making them")
	f.BoolVar(&asJSON, "json", false, "print the report as JSON")
	return command
}

func (a *app) retain(ctx context.Context, there store.Store, policy retention.Policy, every time.Duration,
	asJSON bool) error {
	if every == 0 {
		report, err := retention.Run(ctx, there, policy)
		if err != nil {
			return err
		}
		return a.printRetention(report, asJSON)
	}
	log := a.logger(a.stderr)
	retention.Keep(ctx, there, policy, worker.Clock{Scale: policy.Scale}.Real(every),
		func(report retention.Report, err error) {
			if err == nil {
				err = a.printRetention(report, asJSON)
			}
			if err != nil {
				log.Error().Err(err).Msg("the retention was not applied; it is tried again")
			}
		})
	return nil
}

func (a *app) printRetention(report retention.Report, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(a.stdout).Encode(report)
	}
	would := ""
	if report.DryRun {
		would = " (nothing was changed)"
	}
	_, err := fmt.Fprintf(a.stdout, "%d resolved deleted, %d failed archived, %d archived removed, %d in use left%s\n",
		report.Deleted, report.Filed, report.Removed, report.Unchanged, would)
	return err
}
