package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/manage"
	"github.com/dlqbench/dlqbench/store/worker"
)

// changeFlags are the flags of commands that change entries.
type changeFlags struct {
	store               storeFlags
	filter              filterFlags
	by, notes           string
	dryRun, asJSON, yes bool
}

func (c *changeFlags) add(f *pflag.FlagSet) {
	c.store.add(f)
	c.filter.add(f)
	f.BoolVar(&c.dryRun, "dry-run", false, "list the selected entries, and change nothing")
	f.BoolVar(&c.asJSON, "json", false, "print the report as JSON")
}

// selected is the query for ids and filters. Without either, a command that changes entries would change all of them.
func (c *changeFlags) selected(ctx context.Context, there store.Store, ids []string) (store.Query, error) {
	if len(ids) == 0 && !c.filter.Narrow() {
		return store.Query{},
			usageError{errors.New("nothing is selected: give ids, or a filter such as --error-type or --max-age")}
	}
	return c.filter.query(ctx, there, ids)
}

// onEntry returns a function that shows the entries that a dry run selects.
func (c *changeFlags) onEntry(w io.Writer) func(store.Entry) {
	if !c.dryRun || c.asJSON {
		return nil
	}
	return func(entry store.Entry) {
		fmt.Fprintf(w, "%s  %s  %s-%d@%d  %s\n", entry.ID, entry.State, entry.Source.Topic, entry.Source.Partition,
			entry.Source.Offset, manage.Line(entry.Error.Message, 60))
	}
}

// conclude prints the report. Failures determine the exit code.
func (c *changeFlags) conclude(a *app, verb string, report manage.Report, whole any, err error) error {
	switch {
	case c.asJSON:
		if encodeErr := json.NewEncoder(a.stdout).Encode(whole); encodeErr != nil {
			return encodeErr
		}
	case c.dryRun && err == nil:
		fmt.Fprintf(a.stdout, "%d dead letters would be %s\n", report.Selected, verb)
	case report.Selected > 0 || err == nil:
		fmt.Fprintf(a.stdout, "%d dead letters selected, %d %s, %d skipped, %d failed, in %.1f s\n", report.Selected,
			report.Done, verb, report.Skipped, report.Failed, report.Seconds)
	}
	if err != nil {
		return err
	}
	if report.Skipped+report.Failed > 0 && !c.dryRun {
		return fmt.Errorf("%d of %d dead letters were not %s:\n  %s", report.Skipped+report.Failed, report.Selected, verb,
			strings.Join(report.Failures, "\n  "))
	}
	return nil
}

// decideCommand is the command discard or resolve.
func (a *app) decideCommand(use, short, verb string, state store.State) *cobra.Command {
	flags := changeFlags{by: userName()}
	command := &cobra.Command{
		Use: use + " [ID…]", Short: short, Args: cobra.ArbitraryArgs,
		Example: fmt.Sprintf("  dlqbench dlq %s 0198f3c2-8d1e-7b7a-9c55-0f3c2a9d1e77 --notes 'paid by hand'\n  dlqbench "+
			"dlq %s --error-type ValidationError --end-date 2026-01-01 --dry-run", use, use),
		RunE: a.withStore(&flags.store, func(ctx context.Context, there store.Store, ids []string) error {
			query, err := flags.selected(ctx, there, ids)
			if err != nil {
				return err
			}
			if len(query.States) == 0 && len(ids) == 0 {
				query.States = []store.State{store.Pending, store.Manual, store.Failed}
			}
			report, err := manage.Decide(ctx, there, query, manage.Decision{State: state, By: flags.by, Notes: flags.notes,
				DryRun: flags.dryRun, OnEntry: flags.onEntry(a.stdout)})
			return flags.conclude(a, verb, report, report, err)
		}),
	}
	flags.add(command.Flags())
	command.Flags().StringVar(&flags.notes, "notes", "", "reason, kept in the audit trail")
	command.Flags().StringVar(&flags.by, "by", flags.by, "name of the person who decides, kept in the audit trail")
	return command
}

func userName() string {
	if one, err := user.Current(); err == nil {
		return one.Username
	}
	return ""
}

func (a *app) dlqPurgeCommand() *cobra.Command {
	flags := changeFlags{}
	command := &cobra.Command{
		Use: "purge [ID…]", Short: "Delete dead letters from the store permanently", Args: cobra.ArbitraryArgs,
		Example: `  dlqbench dlq purge --status resolved --end-date 2026-01-01 --dry-run
  dlqbench dlq purge --status resolved --end-date 2026-01-01 --yes`,
		RunE: a.withStore(&flags.store, func(ctx context.Context, there store.Store, ids []string) error {
			query, err := flags.selected(ctx, there, ids)
			if err != nil {
				return err
			}
			if !flags.yes && !flags.dryRun {
				return usageError{errors.New("purge removes dead letters for good: look with --dry-run, then say --yes")}
			}
			report, err := manage.Purge(ctx, there, query, flags.dryRun, flags.onEntry(a.stdout))
			return flags.conclude(a, "removed", report, report, err)
		}),
	}
	flags.add(command.Flags())
	command.Flags().BoolVar(&flags.yes, "yes", false, "confirm the removal")
	return command
}

func (a *app) dlqEditCommand() *cobra.Command {
	var (
		there       storeFlags
		file, notes string
	)
	command := &cobra.Command{
		Use: "edit ID", Short: "Replace the value of a dead letter", Args: oneID,
		Long: strings.TrimSpace(`
Replace the value of an entry with the contents of a file (--file -: with stdin), or edit it with $EDITOR. The state
does not change; replay the entry afterwards. An entry that a worker has locked, or that has changed meanwhile, is
left alone.`),
		Example: `  dlqbench dlq edit 0198f3c2-8d1e-7b7a-9c55-0f3c2a9d1e77 --file fixed.json --notes 'amount was negative'`,
		RunE: a.withStore(&there, func(ctx context.Context, there store.Store, ids []string) error {
			entry, err := there.Get(ctx, ids[0])
			if err != nil {
				return notFound(ids[0], err)
			}
			if entry.LockedBy != "" { // before the user edits in vain
				return manage.Explain(ctx, there, entry.ID, store.ErrLocked)
			}
			value, err := a.newValue(ctx, entry.Value, file)
			if err != nil {
				return err
			}
			if err := manage.Edit(ctx, there, entry, value, notes); err != nil {
				return fmt.Errorf("editing %s: %w", entry.ID, err)
			}
			fmt.Fprintf(a.stdout, "%s has a new value of %d bytes; dlqbench dlq replay %s tries it\n", entry.ID, len(value),
				entry.ID)
			return nil
		}),
	}
	there.add(command.Flags())
	command.Flags().StringVar(&file, "file", "", "file with the new value; - is stdin")
	command.Flags().StringVar(&notes, "notes", "", "reason, kept in the audit trail")
	return command
}

func oneID(command *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s needs the id of one dead letter; dlqbench dlq list shows them", command.CommandPath())
	}
	return nil
}

// newValue reads the new value of an entry, or lets the user edit it.
func (a *app) newValue(ctx context.Context, old []byte, file string) ([]byte, error) {
	switch {
	case file == "-":
		return io.ReadAll(a.stdin)
	case file != "":
		value, err := os.ReadFile(file)
		if err != nil {
			return nil, usageError{fmt.Errorf("reading --file: %w", err)}
		}
		return value, nil
	}
	editor := strings.Fields(os.Getenv("EDITOR"))
	if len(editor) == 0 {
		return nil, usageError{errors.New("give the new value with --file, or set EDITOR")}
	}
	draft, err := os.CreateTemp("", "dead-letter-*.json")
	if err != nil {
		return nil, fmt.Errorf("writing the value for the editor: %w", err)
	}
	defer func() { _ = os.Remove(draft.Name()) }() // a leftover draft is harmless
	_, err = draft.Write(old)
	if err = errors.Join(err, draft.Close()); err != nil {
		return nil, fmt.Errorf("writing the value for the editor: %w", err)
	}
	run := exec.CommandContext(ctx, editor[0], append(editor[1:], draft.Name())...)
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, a.stdout, a.stderr
	if err := run.Run(); err != nil {
		return nil, fmt.Errorf("editing with %s (nothing is changed): %w", editor[0], err)
	}
	return os.ReadFile(draft.Name())
}

// replayStoreFlags are the flags of `dlqbench dlq replay`.
type replayStoreFlags struct {
	changeFlags
	bootstrap, health string
	check             bool
	rate              units.Rate
	replay            manage.Replay
}

func (a *app) dlqReplayCommand() *cobra.Command {
	flags := replayStoreFlags{}
	flags.by = userName()
	command := &cobra.Command{
		Use: "replay [ID…]", Short: "Replay dead letters of a store to their topics", Args: cobra.ArbitraryArgs,
		Long: strings.TrimSpace(`
Produce the selected entries (by default those that are pending or wait for a person) to the topics that their dialects
name, batch by batch in transactions, and resolve them. The command can be interrupted at any moment: when repeated, it
continues, and nothing is replayed twice. An entry that is refused, for example because its topic is gone, is unchanged.

--health-check asks --health-url first, and replays nothing unless circuit breaker, CPU, memory and connections are
healthy.`),
		Example: `  dlqbench dlq replay --error-type TIMEOUT_ERROR --start-date 2026-02-10 --end-date 2026-02-11 --dry-run
  dlqbench dlq replay --bootstrap localhost:9092 --event-pattern 'payment.*' --max-age 24h --rate 50/s`,
		RunE: a.withStore(&flags.store, func(ctx context.Context, there store.Store, ids []string) error {
			return a.replayStore(ctx, there, flags, ids)
		}),
	}
	flags.add(command.Flags())
	f := command.Flags()
	f.StringVar(&flags.bootstrap, "bootstrap", "", "brokers, comma-separated (also DLQBENCH_BOOTSTRAP_SERVERS)")
	f.StringVar(&flags.replay.To, "to", "", "topic to produce to (default: the topic that each dead letter names)")
	f.IntVar(&flags.replay.BatchSize, "batch-size", manage.DefaultBatch, "number of entries replayed in one transaction")
	f.IntVar(&flags.replay.Concurrency, "concurrency", worker.DefaultSettings().Concurrency,
		"number of entries locked or resolved at a time")
	f.TextVar(&flags.rate, "rate", units.Rate(0), "maximum rate, such as 50/s (0/s: no limit)")
	f.StringVar(&flags.replay.Name, "name", "default",
		"name of the replay: one with the same name continues where it stopped; concurrent replays need different names")
	f.StringVar(&flags.by, "by", flags.by, "name of the person who decides, kept in the audit trail")
	f.BoolVar(&flags.check, "health-check", false, "replay nothing unless --health-url reports that all is well")
	f.StringVar(&flags.health, "health-url", "", "health probe, a URL that answers GET with JSON")
	return command
}

func (a *app) replayStore(ctx context.Context, there store.Store, flags replayStoreFlags, ids []string) error {
	replay, closePublisher, err := a.storeReplay(flags)
	if err != nil {
		return err
	}
	defer closePublisher()
	replay.Store, replay.By = there, flags.by
	if replay.Query, err = flags.filter.query(ctx, there, ids); err != nil {
		return err
	}
	if len(replay.Query.States) == 0 {
		replay.Query.States = []store.State{store.Pending, store.Manual}
		if len(ids) > 0 {
			replay.Query.States = append(replay.Query.States, store.Failed)
		}
	}
	report, err := replay.Run(ctx)
	a.endProgress(replay.Progress != nil)
	if report.Recalled > 0 && !flags.asJSON {
		fmt.Fprintf(a.stdout, "%d dead letters were left by a replay that was killed: %d had been published and are "+
			"resolved, the others are what they were\n", report.Recalled, report.Confirmed)
	}
	if ctx.Err() != nil {
		err = errors.New("interrupted; the same command goes on from there")
	}
	return flags.conclude(a, "replayed", report.Report, report, err)
}

// storeReplay is the replay that the flags define, with an open publisher unless it is a dry run.
func (a *app) storeReplay(flags replayStoreFlags) (replay manage.Replay, closePublisher func(), err error) {
	replay, closePublisher = flags.replay, func() {}
	replay.DryRun, replay.OnEntry = flags.dryRun, flags.onEntry(a.stdout)
	replay.Pace = &deadletter.Pace{Rate: flags.rate.PerSecond()}
	if flags.check != (flags.health != "") {
		return replay, closePublisher,
			usageError{errors.New("--health-check and --health-url go together: the probe says whether to replay")}
	}
	if flags.check {
		probe, err := worker.NewProbe(flags.health)
		if err != nil {
			return replay, closePublisher, usageError{fmt.Errorf("--health-url: %w", err)}
		}
		replay.Unmet = probe.Unmet
	}
	if err := replay.Validate(); err != nil {
		return replay, closePublisher, usageError{err}
	}
	if isTerminal(a.stderr) && !flags.asJSON && !flags.dryRun {
		replay.Progress = a.progressBar
	}
	if flags.dryRun {
		return replay, closePublisher, nil
	}
	if flags.bootstrap == "" {
		return replay, closePublisher,
			usageError{errors.New("replay needs --bootstrap, the brokers to produce to, or --dry-run")}
	}
	options, err := a.clientOptions()
	if err != nil {
		return replay, closePublisher, err
	}
	publisher, err := manage.NewTransactional(strings.Split(flags.bootstrap, ","), replay.Name, options...)
	if err != nil {
		return replay, closePublisher, err
	}
	replay.Publisher = publisher
	return replay, publisher.Close, nil
}

// progressBar draws the progress of a replay. Calls must not be concurrent.
func (a *app) progressBar(done, all int64) {
	const width = 40
	full := int(width * min(done, all) / max(all, 1))
	fmt.Fprintf(a.stderr, "\r[%s%s] %d of %d", strings.Repeat("#", full), strings.Repeat("-", width-full), done, all)
}

func (a *app) endProgress(drawn bool) {
	if drawn {
		fmt.Fprintln(a.stderr)
	}
}
