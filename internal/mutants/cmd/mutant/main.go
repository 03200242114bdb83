// Command mutant is a consumer, or a replay, with one planted bug: a subject for the tests of the checkers. It takes the
// environment that every subject gets, and
//
//	mutant --mutant NAME [--settings JSON]
//	mutant --replay-mutant NAME replay --bootstrap B --from DLQ [--to TOPIC] [--rate R] [--where EXPR] [--limit N] [--ids FILE]
//	mutant --list
//
// The name "none" is the reference without a bug.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/mutants"
	"github.com/dlqbench/dlqbench/internal/units"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("mutant", flag.ContinueOnError)
	flags.SetOutput(stderr)
	name := flags.String("mutant", "", "the consumer's bug")
	replayName := flags.String("replay-mutant", "", "the replay's bug")
	settings := flags.String("settings", "", "settings that differ from the defaults, as JSON; instead of DLQBENCH_SETTINGS")
	list := flags.Bool("list", false, "list the mutants")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("reading the flags: %w", err)
	}
	switch {
	case *list:
		return printList(stdout)
	case *replayName != "":
		return replay(ctx, *replayName, flags.Args(), stdout, stderr)
	case *name != "":
		return consume(ctx, *name, *settings, lookup, stderr)
	}
	return errors.New("reading the flags: give --mutant NAME, --replay-mutant NAME or --list")
}

func printList(out io.Writer) error {
	for _, mutant := range mutants.All() {
		if _, err := fmt.Fprintf(out, "%-32s %-32s %s\n", mutant.Name, mutant.Anomaly, mutant.What); err != nil {
			return fmt.Errorf("printing the mutants: %w", err)
		}
	}
	return nil
}

func consume(ctx context.Context, name, settings string, lookup func(string) (string, bool), stderr io.Writer) error {
	mutant, err := mutants.Named(name)
	if err != nil {
		return err
	}
	if mutant.Consumer == nil {
		return fmt.Errorf("%s is a replay's bug: run it with --replay-mutant", name)
	}
	config, err := consumer.FromEnvironment(lookup)
	if err != nil {
		return fmt.Errorf("reading the environment: %w", err)
	}
	if settings != "" {
		config.Settings = consumer.DefaultSettings()
		if err := consumer.DecodeSettings(settings, &config.Settings); err != nil {
			return fmt.Errorf("reading --settings: %w", err)
		}
	}
	config.Logger = zerolog.New(stderr).With().Timestamp().Logger()
	parts := consumer.DefaultParts(config.Settings)
	mutant.Consumer(&config, &parts)
	return consumer.Main(ctx, config, parts)
}

func replay(ctx context.Context, name string, args []string, stdout, stderr io.Writer) error {
	mutant, err := mutants.Named(name)
	if err != nil {
		return err
	}
	if mutant.Replay == nil {
		return fmt.Errorf("%s is a consumer's bug: run it with --mutant", name)
	}
	config, err := replayConfig(args, stderr)
	if err != nil {
		return err
	}
	mutant.Replay(&config)
	result, err := deadletter.Run(ctx, config)
	if _, printErr := fmt.Fprintf(stdout, "read %d, selected %d, replayed %d, failed %d\n", result.Read, result.Selected, result.Replayed, result.Failed); printErr != nil {
		return errors.Join(err, fmt.Errorf("printing the result: %w", printErr))
	}
	return err
}

// replayConfig reads the flags of dlqbench replay.
func replayConfig(args []string, stderr io.Writer) (deadletter.Config, error) {
	if len(args) == 0 || args[0] != "replay" {
		return deadletter.Config{}, errors.New("reading the flags: --replay-mutant NAME is followed by the word replay and its flags")
	}
	var config deadletter.Config
	flags := flag.NewFlagSet("replay", flag.ContinueOnError)
	flags.SetOutput(stderr)
	bootstrap := flags.String("bootstrap", "", "brokers, comma-separated")
	ids := flags.String("ids", "", "a file that lists the ids of the letters to replay")
	rate := flags.String("rate", "", "letters per second, such as 500/s")
	flags.StringVar(&config.From, "from", "", "the dead-letter topic")
	flags.StringVar(&config.To, "to", "", "the target; default: each letter's source topic")
	flags.StringVar(&config.Where, "where", "", "an expression that selects letters")
	flags.IntVar(&config.Limit, "limit", 0, "the most letters to replay")
	flags.BoolVar(&config.DryRun, "dry-run", false, "select only")
	flags.BoolVar(&config.FromStart, "from-start", false, "ignore the progress of earlier replays")
	if err := flags.Parse(args[1:]); err != nil {
		return config, fmt.Errorf("reading the flags: %w", err)
	}
	config.Bootstrap = strings.Split(*bootstrap, ",")
	if *rate != "" {
		var perSecond units.Rate
		if err := perSecond.UnmarshalText([]byte(*rate)); err != nil {
			return config, fmt.Errorf("reading --rate: %w", err)
		}
		config.Rate = perSecond.PerSecond()
	}
	if *ids != "" {
		selects, err := listed(*ids)
		if err != nil {
			return config, err
		}
		config.Select, config.FromStart = selects, true
	}
	return config, nil
}

// listed selects the letters whose record ids are listed in the file.
func listed(path string) (func(*kgo.Record) bool, error) {
	file, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, fmt.Errorf("reading --ids: %w", err)
	}
	defer file.Close()
	return deadletter.Listed(file, history.IDHeader)
}
