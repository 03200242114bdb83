package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/open"
)

// dlqCommand groups the commands for a dead-letter store.
func (a *app) dlqCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "dlq", Short: "Run a dead-letter store: keep dead letters in a database and retry them",
		Long: strings.TrimSpace(`
Run and manage a dead-letter store. A router copies dead letters from Kafka to a database, workers retry them, and
people list, replay, edit, discard and purge them. --store names the database: sqlite:PATH,
postgres://USER:PASSWORD@HOST/DB or mongodb://HOST/DB.

DLQBENCH_STORE_URL sets the store, too. Every flag of router and worker has such a variable: --poll-interval is
DLQBENCH_POLL_INTERVAL. Flags take precedence.`),
		Example: `  dlqbench dlq migrate --store sqlite:letters.db
  dlqbench dlq router --store sqlite:letters.db --bootstrap localhost:9092 --dlq-topic orders.dlq
  dlqbench dlq worker --store sqlite:letters.db --bootstrap localhost:9092
  dlqbench dlq list --store sqlite:letters.db --error-type TIMEOUT_ERROR --max-age 24h`,
		RunE: helpOrUnknown,
	}
	command.AddCommand(
		a.dlqListCommand(), a.dlqShowCommand(), a.dlqStatsCommand(), a.dlqReplayCommand(),
		a.decideCommand("discard", "Mark dead letters as given up: kept, and never retried", "discarded", store.Archived),
		a.decideCommand("resolve", "Mark dead letters as resolved by other means", "resolved", store.Resolved),
		a.dlqEditCommand(), a.dlqPurgeCommand(), a.dlqRetainCommand(), a.dlqArchiveCommand(), a.dlqMigrateCommand(),
		a.dlqRouterCommand(nil), a.dlqWorkerCommand(nil),
	)
	return command
}

// storeFlags are the flags that select a store.
type storeFlags struct {
	address string
}

func (s *storeFlags) add(f *pflag.FlagSet) {
	f.StringVar(&s.address, "store", "",
		"the dead-letter store: sqlite:PATH, postgres://… or mongodb://… (also DLQBENCH_STORE_URL)")
}

// open opens the store. A wrong address is a usage error; a database that does not answer is an environment error.
func (s *storeFlags) open(ctx context.Context, options store.Options) (store.Store, error) {
	if s.address == "" {
		return nil, usageError{errors.New(
			"no store is given: --store sqlite:PATH, postgres://… or mongodb://…, or DLQBENCH_STORE_URL")}
	}
	there, err := open.Store(ctx, s.address, options)
	if errors.Is(err, open.ErrAddress) {
		return nil, usageError{fmt.Errorf("--store: %w", err)}
	}
	return there, err
}

// closeStore closes the connections. All writes are durable before that.
func closeStore(there io.Closer) { there.Close() }

// fromEnvironment sets flags that were not given from their environment variables: only the named flags, or all.
func fromEnvironment(command *cobra.Command, only ...string) error {
	var errs []error
	command.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		name := variable(flag.Name)
		value, set := os.LookupEnv(name)
		if flag.Changed || !set || value == "" || flag.Name == "help" || len(only) > 0 && !slices.Contains(only, flag.Name) {
			return
		}
		if err := command.Flags().Set(flag.Name, value); err != nil {
			errs = append(errs, fmt.Errorf("reading %s: %w", name, err))
		}
	})
	if err := errors.Join(errs...); err != nil {
		return usageError{err}
	}
	return nil
}

// variable is the environment variable of a flag. Settings that consumers also receive have the same names as there.
func variable(flag string) string {
	switch flag {
	case "store":
		flag = "store-url"
	case "bootstrap":
		flag = "bootstrap-servers"
	}
	return "DLQBENCH_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func (a *app) dlqMigrateCommand() *cobra.Command {
	var (
		flags   storeFlags
		options store.Options
	)
	command := &cobra.Command{
		Use: "migrate", Short: "Create or update the tables of a dead-letter store", Args: noArgs,
		Long: strings.TrimSpace(`
Bring the schema of the store up to date. It is safe to repeat: an interrupted migration is completed.

--vocabulary applies to a new store only and sets the words in its status column.`),
		Example: `  dlqbench dlq migrate --store sqlite:letters.db
  dlqbench dlq migrate --store postgres://dlq@localhost/dlq --vocabulary management`,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := fromEnvironment(command, "store"); err != nil {
				return err
			}
			return a.migrate(command.Context(), flags, options)
		},
	}
	flags.add(command.Flags())
	command.Flags().StringVar(&options.Vocabulary, "vocabulary", "",
		"status words of a new store: "+store.VocabularyLifecycle+" or "+store.VocabularyManagement)
	command.Flags().BoolVar(&options.Audit, "audit", false,
		"also record every change of state in an audit table, for observers")
	return command
}

func (a *app) migrate(ctx context.Context, flags storeFlags, options store.Options) error {
	if options.Vocabulary != "" {
		if _, err := store.NamedVocabulary(options.Vocabulary); err != nil {
			return usageError{fmt.Errorf("--vocabulary: %w", err)}
		}
	}
	there, err := flags.open(ctx, options)
	if err != nil {
		return err
	}
	defer closeStore(there)
	made, err := there.Migrate(ctx)
	for _, one := range made {
		fmt.Fprintf(a.stdout, "made %s\n", one)
	}
	if err != nil {
		return fmt.Errorf("migrating the store: %w", err)
	}
	if len(made) == 0 {
		fmt.Fprintln(a.stdout, "the schema is up to date")
	}
	return nil
}
