package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/security"
	"github.com/dlqbench/dlqbench/internal/units"
)

// replayFlags are the flags of `dlqbench replay`.
type replayFlags struct {
	bootstrap, dialect, ids string
	rate                    units.Rate
	quiet                   bool
	config                  deadletter.Config
	// plant, if set, changes the configuration to plant a bug.
	plant func(*deadletter.Config)
}

func (a *app) replayCommand(plant func(*deadletter.Config)) *cobra.Command {
	flags := replayFlags{plant: plant}
	command := &cobra.Command{
		Use: "replay", Short: "Replay dead letters to their original topics", Args: noArgs,
		Long: strings.TrimSpace(`
Read the dead letters that are in a topic now, restore the original records (key, value and headers, without failure
headers) and produce each selected one once. A second call continues where the first one ended; --from-start considers
every dead letter again.

--where is an expression over topic, partition, offset, key, value, headers, reason, class, attempts, service, group,
dialect, source and timestamp.`),
		Example: `  dlqbench replay --bootstrap localhost:9092 --from orders.dlq --dry-run
  dlqbench replay --bootstrap localhost:9092 --from orders.dlq --where 'reason contains "timeout"' --rate 100/s`,
		RunE: func(command *cobra.Command, _ []string) error {
			return a.replay(command, flags)
		},
	}
	flags.add(command.Flags())
	return command
}

func (r *replayFlags) add(f *pflag.FlagSet) {
	f.StringVar(&r.bootstrap, "bootstrap", "", "brokers, comma-separated (required)")
	f.StringVar(&r.config.From, "from", "", "dead-letter topic (required)")
	f.StringVar(&r.config.To, "to", "", "topic to produce to (default: the topic that each dead letter came from)")
	f.StringArrayVar(&r.config.Drop, "drop-header", nil,
		"header that is not put back, such as one in which the consumer counts attempts; may be repeated")
	f.StringVar(&r.config.Where, "where", "", "replay only dead letters for which this expression is true")
	f.StringVar(&r.ids, "ids", "", "replay only records whose ids are in this file, one per line")
	f.StringVar(&r.dialect, "dialect", deadletter.PlainName,
		"dialect of the dead letters: "+strings.Join(deadletter.Names(), ", "))
	f.IntVar(&r.config.Limit, "limit", 0, "maximum number of dead letters (0: no limit)")
	f.TextVar(&r.rate, "rate", units.Rate(0), "maximum rate, such as 100/s (0/s: no limit)")
	f.BoolVar(&r.config.DryRun, "dry-run", false, "list the dead letters that would be replayed, and change nothing")
	f.BoolVar(&r.config.FromStart, "from-start", false,
		"also consider dead letters that an earlier call replayed or skipped")
	f.BoolVar(&r.quiet, "quiet", false, "do not print each dead letter")
}

func (a *app) replay(command *cobra.Command, flags replayFlags) error {
	config, err := a.replayConfig(flags)
	if err != nil {
		return usageError{err}
	}
	if flags.plant != nil {
		flags.plant(&config)
	}
	result, err := deadletter.Run(command.Context(), config)
	if result.Read > 0 || err == nil {
		verb := "replayed"
		if config.DryRun {
			verb = "would be replayed"
			result.Replayed = result.Selected
		}
		fmt.Fprintf(a.stdout, "%d dead letters read, %d %s, %d failed\n", result.Read, result.Replayed, verb, result.Failed)
	}
	var wrong *deadletter.ConfigError
	switch {
	case errors.As(err, &wrong):
		return usageError{err}
	case command.Context().Err() != nil:
		return errors.New("interrupted; what was replayed is noted, and the same command goes on from there")
	case err != nil:
		return fmt.Errorf("replaying %s from %s: %w", config.From, flags.bootstrap, err)
	case result.Failed > 0:
		return fmt.Errorf("%d of %d dead letters could not be replayed; they are still in %s:\n  %s",
			result.Failed, result.Selected, config.From, strings.Join(result.Failures, "\n  "))
	case result.Unreadable > 0:
		return unreadable(config.From, result)
	}
	return nil
}

// unreadable reports the batches that were skipped.
func unreadable(topic string, result deadletter.Result) error {
	return fmt.Errorf("%d offsets of %s were passed over, since reading them would take too much memory:\n  %s",
		result.Unreadable, topic, strings.Join(result.Failures, "\n  "))
}

// replayConfig is the configuration that the flags define.
func (a *app) replayConfig(flags replayFlags) (config deadletter.Config, err error) {
	config = flags.config
	if flags.bootstrap == "" || config.From == "" {
		return config, errors.New("replay needs --bootstrap and --from: the brokers, and the dead-letter topic")
	}
	config.Bootstrap, config.Rate = strings.Split(flags.bootstrap, ","), flags.rate.PerSecond()
	if config.Options, err = security.FromEnvironment(os.LookupEnv); err != nil {
		return config, err
	}
	dialect, err := deadletter.OpenerNamed(flags.dialect)
	if err != nil {
		return config, err
	}
	config.Dialect = dialect
	if flags.ids != "" { // an explicit selection does not advance the progress through the topic
		config.FromStart = true
		if config.Select, err = selectIDs(flags.ids, dialect); err != nil {
			return config, err
		}
	}
	if !flags.quiet {
		config.OnLetter = func(letter, record *kgo.Record) {
			fmt.Fprintf(a.stdout, "%s-%d@%d → %s key=%q\n", letter.Topic, letter.Partition, letter.Offset, record.Topic,
				record.Key)
		}
	}
	return config, nil
}

// selectIDs selects the dead letters whose record ids the file lists. dlqbench's own workload puts the id in a header
// and in the value.
func selectIDs(path string, dialect deadletter.Opener) (func(*kgo.Record) bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading --ids: %w", err)
	}
	defer file.Close()
	selects, err := deadletter.Listed(file, history.IDHeader, dialect)
	if err != nil {
		return nil, fmt.Errorf("reading --ids %s: %w", path, err)
	}
	return selects, nil
}
