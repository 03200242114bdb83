package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/manage"
)

// filterFlags select entries.
type filterFlags struct{ manage.Filter }

func (s *filterFlags) add(f *pflag.FlagSet) {
	s.Filter = manage.NewFilter()
	f.StringSliceVar(&s.ErrorTypes, "error-type", nil,
		"only errors of these types, comma-separated, such as TIMEOUT_ERROR")
	f.StringVar(&s.Start, "start-date", "",
		"only entries dead-lettered at or after this time: 2026-02-11 or 2026-02-11T12:00:00Z")
	f.StringVar(&s.End, "end-date", "", "only entries dead-lettered before this time")
	f.DurationVar(&s.MaxAge, "max-age", 0, "only entries not older than this, such as 24h")
	f.IntVar(&s.MinRetries, "min-retries", -1, "only entries with at least this many retries by workers")
	f.IntVar(&s.MaxRetries, "max-retries", -1, "only entries with at most this many retries by workers")
	f.StringVar(&s.Source, "source", "", "only entries of this service")
	f.StringSliceVar(&s.Patterns, "event-pattern", nil,
		"only events of these patterns, comma-separated, * for any text, such as 'payment.*'")
	f.StringSliceVar(&s.Statuses, "status", nil,
		"only these states, comma-separated: pending, processing, resolved, failed, manual, archived")
	f.IntVar(&s.Priority, "priority", -1, "only entries of at least this priority")
	f.StringVar(&s.OrderBy, "order-by", s.OrderBy, "sort by createdAt, updatedAt or priority")
	f.StringVar(&s.Direction, "direction", s.Direction, "sort direction, asc or desc")
}

// query is the store query for the flags and the ids, each of which must be in the store.
func (s *filterFlags) query(ctx context.Context, there store.Store, ids []string) (store.Query, error) {
	s.IDs = ids
	now, err := there.Now(ctx)
	if err != nil {
		return store.Query{}, fmt.Errorf("asking the store for the time: %w", err)
	}
	query, err := s.Query(now)
	if err != nil {
		return query, usageError{err}
	}
	for _, id := range ids {
		if _, err := there.Get(ctx, id); err != nil {
			return query, notFound(id, err)
		}
	}
	return query, nil
}

func (a *app) dlqListCommand() *cobra.Command {
	var (
		there  storeFlags
		filter filterFlags
		limit  int
		asJSON bool
	)
	command := &cobra.Command{
		Use: "list", Short: "List the dead letters of a store", Args: noArgs,
		Example: `  dlqbench dlq list --error-type TIMEOUT_ERROR --max-age 24h
  dlqbench dlq list --status failed,manual --event-pattern 'payment.*' --order-by priority --direction desc --json`,
		RunE: a.withStore(&there, func(ctx context.Context, there store.Store, _ []string) error {
			query, err := filter.query(ctx, there, nil)
			if err != nil {
				return err
			}
			return a.list(ctx, there, query, limit, asJSON)
		}),
	}
	there.add(command.Flags())
	filter.add(command.Flags())
	command.Flags().IntVar(&limit, "limit", 50, "maximum number of entries (0: no limit)")
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line with all fields of an entry")
	return command
}

// withStore returns what a command does that opens the store and reads it, or changes it.
func (a *app) withStore(flags *storeFlags,
	do func(ctx context.Context, there store.Store, args []string) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		if err := fromEnvironment(command, "store", "bootstrap"); err != nil {
			return err
		}
		there, err := flags.open(command.Context(), store.Options{})
		if err != nil {
			return err
		}
		defer closeStore(there)
		return do(command.Context(), there, args)
	}
}

func (a *app) list(ctx context.Context, there store.Store, query store.Query, limit int, asJSON bool) error {
	if limit < 0 {
		return usageError{errors.New("--limit can't be negative")}
	}
	var entries []store.Entry
	encoder := json.NewEncoder(a.stdout)
	err := manage.Each(ctx, there, query, limit, func(entry store.Entry) error {
		if asJSON {
			return encoder.Encode(manage.NewView(entry))
		}
		entries = append(entries, entry)
		return nil
	})
	if err != nil || asJSON {
		return err
	}
	all, err := there.Count(ctx, query)
	if err != nil {
		return fmt.Errorf("counting dead letters: %w", err)
	}
	return a.printEntries(entries, all)
}

// printEntries prints the shown ones of all entries that were selected.
func (a *app) printEntries(entries []store.Entry, all int64) error {
	if all == 0 {
		fmt.Fprintln(a.stdout, "no dead letters")
		return nil
	}
	if err := manage.Table(a.stdout, entries); err != nil {
		return err
	}
	if int64(len(entries)) < all {
		fmt.Fprintf(a.stdout, "%d of %d; --limit 0 lists all\n", len(entries), all)
	}
	return nil
}

func (a *app) dlqShowCommand() *cobra.Command {
	var (
		there  storeFlags
		asJSON bool
	)
	command := &cobra.Command{
		Use: "show ID…", Short: "Show all fields of dead letters", Args: needIDs,
		Example: `  dlqbench dlq show 0198f3c2-8d1e-7b7a-9c55-0f3c2a9d1e77`,
		RunE: a.withStore(&there, func(ctx context.Context, there store.Store, ids []string) error {
			for _, id := range ids {
				entry, err := there.Get(ctx, id)
				if err != nil {
					return notFound(id, err)
				}
				if asJSON {
					err = json.NewEncoder(a.stdout).Encode(manage.NewView(entry))
				} else {
					err = manage.Show(a.stdout, entry)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}),
	}
	there.add(command.Flags())
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return command
}

// needIDs rejects a command without ids.
func needIDs(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%s needs the ids of dead letters; dlqbench dlq list shows them", command.CommandPath())
	}
	return nil
}

// notFound turns an unknown id into a usage error.
func notFound(id string, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return usageError{fmt.Errorf("%w: %s; dlqbench dlq list shows those there are", store.ErrNotFound, id)}
	}
	return fmt.Errorf("reading %s: %w", id, err)
}

func (a *app) dlqStatsCommand() *cobra.Command {
	var (
		there  storeFlags
		asJSON bool
	)
	command := &cobra.Command{
		Use: "stats", Short: "Count the dead letters of a store", Args: noArgs,
		Example: `  dlqbench dlq stats`,
		RunE: a.withStore(&there, func(ctx context.Context, there store.Store, _ []string) error {
			stats, err := there.Stats(ctx)
			if err != nil {
				return fmt.Errorf("counting dead letters: %w", err)
			}
			if asJSON {
				return json.NewEncoder(a.stdout).Encode(manage.NewStatistics(stats))
			}
			printStats(a.stdout, stats)
			return nil
		}),
	}
	there.add(command.Flags())
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return command
}

func printStats(w io.Writer, stats store.Stats) {
	for _, state := range store.States() {
		fmt.Fprintf(w, "%-11s %d\n", state, stats.ByState[state])
	}
	for _, state := range slices.Sorted(maps.Keys(stats.ByState)) {
		if !state.Known() {
			fmt.Fprintf(w, "%-11s %d  (no status of this store's vocabulary: set it right in the table)\n",
				manage.Line(string(state), 40), stats.ByState[state])
		}
	}
	if !stats.Oldest.IsZero() {
		fmt.Fprintf(w, "oldest pending: %s\n", stats.Oldest.UTC().Format(time.RFC3339))
	}
	for _, list := range []struct {
		name string
		of   map[string]int64
	}{{"by error type", stats.ByErrorType}, {"resolved by", stats.Resolutions}} {
		if len(list.of) == 0 {
			continue
		}
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(list.of)) {
			parts = append(parts, fmt.Sprintf("%s %d", manage.Line(key, 60), list.of[key]))
		}
		fmt.Fprintf(w, "%s: %s\n", list.name, strings.Join(parts, ", "))
	}
	if stats.MeanInDLQ > 0 {
		fmt.Fprintf(w, "mean time until resolved: %s\n", units.Text(stats.MeanInDLQ))
	}
}
