package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/manage"
	"github.com/dlqbench/dlqbench/store/retention"
)

// dlqArchiveCommand lists and restores entries that the retention has archived.
func (a *app) dlqArchiveCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "archive", Short: "List archived dead letters and restore them",
		Example: `  dlqbench dlq archive list --archive /var/lib/dead-letters --error-type TIMEOUT_ERROR
  dlqbench dlq archive restore --archive /var/lib/dead-letters --event-pattern 'payment.*' --dry-run`,
		RunE: helpOrUnknown,
	}
	command.AddCommand(a.archiveListCommand(), a.archiveRestoreCommand())
	return command
}

// archiveFlags select entries of an archive.
type archiveFlags struct {
	folder string
	filter filterFlags
}

func (f *archiveFlags) add(command *cobra.Command) {
	f.filter.add(command.Flags())
	command.Flags().StringVar(&f.folder, "archive", "",
		"folder of the archive, as given to dlqbench dlq retain (also DLQBENCH_ARCHIVE)")
}

// selected returns the entries of the archive that flags and ids select, relative to the time now.
func (f *archiveFlags) selected(command *cobra.Command, ids []string, now time.Time) ([]retention.Archived, error) {
	if err := fromEnvironment(command, "archive"); err != nil {
		return nil, err
	}
	if f.folder == "" {
		return nil, usageError{errors.New("say where the archive is: --archive FOLDER, as dlqbench dlq retain has it")}
	}
	f.filter.IDs = ids
	query, err := f.filter.Query(now)
	if err != nil {
		return nil, usageError{err}
	}
	return retention.OpenArchive(f.folder).Select(command.Context(), query)
}

func (a *app) archiveListCommand() *cobra.Command {
	var (
		flags  archiveFlags
		limit  int
		asJSON bool
	)
	command := &cobra.Command{
		Use: "list", Short: "List the dead letters of an archive", Args: noArgs,
		Long: "List the newest version of each entry in the archive's complete files, with the filters of dlqbench dlq " +
			"list. No store is needed.",
		Example: `  dlqbench dlq archive list --archive /var/lib/dead-letters --source billing --json`,
		RunE: func(command *cobra.Command, _ []string) error {
			if limit < 0 {
				return usageError{errors.New("--limit can't be negative")}
			}
			found, err := flags.selected(command, nil, time.Now())
			if err != nil {
				return err
			}
			return a.listArchive(found, limit, asJSON)
		},
	}
	flags.add(command)
	command.Flags().IntVar(&limit, "limit", 50, "maximum number of entries (0: no limit)")
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line with all fields of an entry")
	return command
}

func (a *app) listArchive(found []retention.Archived, limit int, asJSON bool) error {
	shown := found
	if limit > 0 {
		shown = found[:min(limit, len(found))]
	}
	entries := make([]store.Entry, len(shown))
	encoder := json.NewEncoder(a.stdout)
	for i, one := range shown {
		entries[i] = one.Entry
		if !asJSON {
			continue
		}
		if err := encoder.Encode(manage.NewView(one.Entry)); err != nil {
			return err
		}
	}
	if asJSON {
		return nil
	}
	return a.printEntries(entries, int64(len(found)))
}

func (a *app) archiveRestoreCommand() *cobra.Command {
	var (
		there  storeFlags
		flags  archiveFlags
		dryRun bool
	)
	command := &cobra.Command{
		Use: "restore [ID…]", Short: "Put archived dead letters back into the store", Args: cobra.ArbitraryArgs,
		Long: strings.TrimSpace(`
Copy entries of an archive back to the store as failed, with their ids, histories and counts. No worker retries them;
replay them by hand. Entries that the store already has are left unchanged, so the command can be interrupted and
repeated. Ids or a filter are required.`),
		Example: `  dlqbench dlq archive restore --archive /var/lib/dead-letters --start-date 2026-01-01 --end-date 2026-02-01
  dlqbench dlq archive restore --archive /var/lib/dead-letters 0198f3c2-8d1e-7b7a-9c55-0f3c2a9d1e77`,
		RunE: func(command *cobra.Command, ids []string) error {
			return a.withStore(&there, func(ctx context.Context, there store.Store, ids []string) error {
				now, err := there.Now(ctx)
				if err != nil {
					return fmt.Errorf("asking the store for the time: %w", err)
				}
				found, err := flags.selected(command, ids, now)
				switch {
				case err != nil:
					return err
				case !flags.filter.Narrow():
					return usageError{errors.New("restore wants ids or a filter: dlqbench dlq archive list shows what there is")}
				case len(found) < len(ids):
					return usageError{fmt.Errorf(
						"the archive has %d of the %d dead letters: dlqbench dlq archive list shows those there are", len(found),
						len(ids))}
				}
				return a.restore(ctx, there, found, dryRun)
			})(command, ids)
		},
	}
	there.add(command.Flags())
	flags.add(command)
	command.Flags().BoolVar(&dryRun, "dry-run", false, "list the entries that would be restored, and change nothing")
	return command
}

func (a *app) restore(ctx context.Context, there store.Store, found []retention.Archived, dryRun bool) error {
	if dryRun {
		for _, one := range found {
			fmt.Fprintf(a.stdout, "%s  %s\n", one.ID, one.File)
		}
		fmt.Fprintf(a.stdout, "%d dead letters would be restored, if the store doesn't have them\n", len(found))
		return nil
	}
	restored, kept := 0, 0
	for _, one := range found {
		switch err := retention.Restore(ctx, one, there); {
		case errors.Is(err, retention.ErrInStore):
			kept++
		case err != nil:
			return fmt.Errorf("%w (%d were restored before; start it again)", err, restored)
		default:
			restored++
		}
	}
	_, err := fmt.Fprintf(a.stdout, "%d dead letters selected, %d restored as failed, %d are in the store and were left\n",
		len(found), restored, kept)
	return err
}
