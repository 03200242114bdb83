package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/learn"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/samples"
	"github.com/dlqbench/dlqbench/internal/scaffold"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// learnFlags are the flags of `dlqbench learn`.
type learnFlags struct {
	subject string
	write   bool
	out     string
	quiet   bool
	samples string
	format  string
	schema  string
	answer  string
	cluster clusterFlags
}

func (a *app) learnCommand() *cobra.Command {
	flags := learnFlags{}
	command := &cobra.Command{
		Use:   "learn [SUBJECT.yaml] [-- COMMAND…]",
		Short: "Watch your consumer and write down the contract that fits",
		Long: strings.TrimSpace(`
Run a consumer with little load, first without faults, then with a kill, a restart and a refused dead-letter
topic, and propose its contract: attempts, waits, classes of answers, order, dead letters, commits, stop. Each line
says what it was learned from; what was not the same every time is a question behind a comment sign. Promises that the
second run broke are listed as surprises: they are bugs, or the contract must say less.

SUBJECT.yaml (default: subject.yaml) says how the consumer is started. With a COMMAND and no such file, one is written:
the names of its environment variables are read in the code of this folder; its topics, its group, what it calls and
where the id of a record is in it are seen when it runs. --samples names a file with records as it takes them, one in
each line. A file that is there already is completed by --samples and --answer.`),
		Example: `  dlqbench learn --samples orders.jsonl -- java -jar target/orders.jar
  dlqbench learn services/orders/subject.yaml --write`,
		Args: func(command *cobra.Command, args []string) error {
			if at := command.ArgsLenAtDash(); at > 1 || at < 0 && len(args) > 1 {
				return usageError{errors.New("learn takes one subject file; the consumer's command stands behind --")}
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			before, words := args, []string(nil)
			if at := command.ArgsLenAtDash(); at >= 0 {
				before, words = args[:at], args[at:]
			}
			flags.subject = "subject.yaml"
			if len(before) == 1 {
				flags.subject = before[0]
			}
			return a.learn(command.Context(), flags, words)
		},
	}
	command.Flags().BoolVar(&flags.write, "write", false, "put the contract into the file, in the place of its own")
	command.Flags().StringVar(&flags.out, "out", "runs", "folder for run directories")
	command.Flags().StringVar(&flags.samples, "samples", "", "file with records to send, one in each line, as JSON")
	command.Flags().StringVar(&flags.format, "format", "",
		"how records are written: json, json-schema, avro or protobuf (default: as the one schema in this folder is)")
	command.Flags().StringVar(&flags.schema, "schema", "", "file with their schema")
	command.Flags().StringVar(&flags.answer, "answer", "",
		`body with which its calls are answered, such as '{"payment": "p-{{.ID}}"}'`)
	command.Flags().BoolVar(&flags.quiet, "quiet", false, "print no progress")
	flags.cluster.add(command.Flags())
	return command
}

func (a *app) learn(ctx context.Context, flags learnFlags, words []string) error {
	text, made, given, err := subjectToLearn(flags, words)
	if err != nil {
		return usageError{err}
	}
	if made {
		fmt.Fprintf(a.stderr, "wrote  %s\n", flags.subject)
	}
	kafka, err := a.kafkaOptions(flags.cluster)
	if err != nil {
		return usageError{err}
	}
	executable, err := executable()
	if err != nil {
		return err
	}
	report, err := learn.Learn(ctx, learn.Config{
		File: flags.subject, Text: text, Made: made, Given: given, Answer: flags.answer,
		Topics:  scaffold.TopicNames(os.DirFS(filepath.Dir(flags.subject))),
		Options: run.Options{Out: flags.out, Executable: executable, Version: programVersion(), Cluster: kafka},
		Discover: func(ctx context.Context, options run.Options) (string, error) {
			a.sayLearning(flags, "a run without records: what it reads")
			return run.Discover(ctx, options)
		},
		Run: func(ctx context.Context, options run.Options) (*run.Outcome, error) {
			a.sayLearning(flags, learnStep(options.Scenario.Name))
			return a.carryOut(ctx, options, runFlags{quiet: flags.quiet})
		},
	})
	if errors.Is(err, learn.ErrGiven) {
		return usageError{err}
	}
	complete := report != nil && report.Subject != nil
	if err != nil && !complete {
		if report != nil && made {
			err = fmt.Errorf("%w\n%s stays: correct it and go on with dlqbench learn %[2]s, or remove it to begin anew",
				errors.Join(err, os.WriteFile(flags.subject, report.Text, 0o644)), flags.subject)
		}
		return err
	}
	if made || flags.write {
		if err := os.WriteFile(flags.subject, report.Text, 0o644); err != nil {
			return fmt.Errorf("writing what was learned: %w", err)
		}
	}
	return errors.Join(err, a.printLearned(flags, report, made || flags.write))
}

// learnStep says what a run of learning is for.
func learnStep(scenario string) string {
	switch scenario {
	case "learn-look":
		return "a run with a few records: what it calls and writes"
	case "learn-watch":
		return "a run without faults: what it promises"
	}
	return "a run with faults: whether it keeps its promises"
}

// sayLearning says what comes next. Files and pipes are told, too: with a slow consumer, each step takes minutes.
func (a *app) sayLearning(flags learnFlags, step string) {
	if !flags.quiet {
		a.say("learn  %s", step)
	}
}

// subjectToLearn reads the subject file. If there is none and a command is given, it writes one. given is what the
// flags say of records beside a file that is there already.
func subjectToLearn(flags learnFlags, words []string) (text []byte, made bool, given learn.Given, err error) {
	path := flags.subject
	text, err = os.ReadFile(path)
	there := err == nil
	switch {
	case there && len(words) > 0:
		if err := sameCommand(path, text, words); err != nil {
			return nil, false, given, err
		}
	case there:
	case !errors.Is(err, fs.ErrNotExist):
		return nil, false, given, fmt.Errorf("reading the subject: %w", err)
	case len(words) == 0:
		return nil, false, given, fmt.Errorf("there is no %s: write one (dlqbench init), or say how your consumer is "+
			"started: dlqbench learn --samples orders.jsonl -- java -jar target/orders.jar", path)
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, false, given, err
	}
	records, err := recordsToLearn(flags, folder)
	if err != nil {
		return nil, false, given, err
	}
	if there {
		given = learn.Given{Samples: records.Samples, Lines: records.Lines, Format: records.Format, Schema: records.Schema}
		if len(records.IDs) > 0 {
			given.ID = records.IDs[0]
		}
		return text, false, given, nil
	}
	if err := findProgram(folder, words[0]); err != nil {
		return nil, false, given, err
	}
	records.Answer = flags.answer
	if text, err = scaffold.ToLearn(os.DirFS(folder), filepath.Base(folder), words, records); err != nil {
		return nil, false, given, err
	}
	return text, true, given, os.WriteFile(path, text, 0o644)
}

// findProgram reports a program that is not there, before a file is written that starts it. A path counts from the
// folder of the file.
func findProgram(folder, name string) error {
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		name = filepath.Join(folder, name)
	}
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Errorf("the command can't be started: %w", err)
	}
	return nil
}

// sameCommand reports a command other than the one of the subject file. The same one is given again by those who repeat
// a call of theirs.
func sameCommand(path string, text []byte, words []string) error {
	subject, err := scenarios.ParseSubject(path, text)
	if err != nil {
		return err
	}
	started := slices.Concat(subject.Command, subject.Args)
	if slices.Equal(started, words) {
		return nil
	}
	return fmt.Errorf("%s is there already and starts the consumer with %q: leave the command out to learn more of that "+
		"one, change it there, remove the file to begin anew, or name another file", path, strings.Join(started, " "))
}

// recordsToLearn returns what the records of a consumer are made from, for a subject file in the folder.
func recordsToLearn(flags learnFlags, folder string) (records scaffold.Records, err error) {
	if flags.samples == "" {
		if flags.format+flags.schema != "" {
			return records, errors.New("--format and --schema say how samples are written: name them, too (--samples)")
		}
		return records, nil
	}
	file, err := os.Open(flags.samples)
	if err != nil {
		return records, fmt.Errorf("reading the samples: %w", err)
	}
	guess, err := samples.GuessOf(file)
	if err = errors.Join(err, file.Close()); err != nil {
		err = fmt.Errorf("%s: %w", flags.samples, err)
		if syntax := new(json.SyntaxError); errors.As(err, &syntax) {
			err = fmt.Errorf("%w. Samples that are not JSON need a %s, with input: {samples: …, format: text, id: {match: "+
				"\"order=(.*)$\"}} in it; dlqbench learn then finds out the rest", err, flags.subject)
		}
		return records, err
	}
	records.Lines, records.Format, records.Schema = guess.Lines, flags.format, flags.schema
	for _, id := range guess.IDs {
		records.IDs = append(records.IDs, id.At)
	}
	if records.Samples, err = within(folder, flags.samples); err != nil {
		return records, err
	}
	switch {
	case flags.format == "" && flags.schema == "":
		records.Format, records.Schema = scaffold.FindSchema(os.DirFS(folder), fitting(folder, records))
		records.Guessed = records.Format != ""
	case flags.schema != "":
		records.Schema, err = within(folder, flags.schema)
	}
	return records, err
}

// fitting tells whether the samples fit a schema of the folder.
func fitting(folder string, records scaffold.Records) func(format, schema string) bool {
	return func(format, schema string) bool {
		text := fmt.Appendf(nil, "name: samples\nkind: process\ncommand: [none]\n"+
			"input: {samples: %q, lines: %q, id: {at: %q}, format: %s, schema: %q}\n",
			records.Samples, cmp.Or(records.Lines, samples.LinesValue), records.IDs[0], format, schema)
		_, err := scenarios.ParseSubject(filepath.Join(folder, "subject.yaml"), text)
		return err == nil
	}
}

// within returns a path relative to the folder.
func within(folder, path string) (string, error) {
	whole, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	relative, err := filepath.Rel(folder, whole)
	return filepath.ToSlash(relative), err
}

// oddShown is how many surprises are printed.
const oddShown = 12

func (a *app) printLearned(flags learnFlags, report *learn.Report, written bool) error {
	out := a.stdout
	if !written {
		fmt.Fprint(out, report.Found, learn.Contract(report.Lines))
		fmt.Fprintln(out)
	}
	columns := min(reports.Columns(out), widestText)
	if len(report.Odd) > 0 {
		fmt.Fprintln(out, "Surprising:")
		for _, one := range report.Odd[:min(len(report.Odd), oddShown)] {
			for _, line := range scenarios.Hanging(" - ", one, columns) {
				fmt.Fprintln(out, line)
			}
		}
		if more := len(report.Odd) - oddShown; more > 0 {
			fmt.Fprintf(out, " and %d more: see %s\n", more, filepath.Join(report.Runs[len(report.Runs)-1], "report.html"))
		}
		fmt.Fprintln(out)
	}
	for _, note := range report.Notes {
		for _, line := range scenarios.Hanging("Note: ", note, columns) {
			fmt.Fprintln(out, line)
		}
	}
	described, err := report.Subject.Describe()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Learned from %d records in %s\n", report.Records, strings.Join(report.Runs, ", "))
	fmt.Fprintf(out, "%d invariants are judged by it; dlqbench subject check %s says which, and what else can be\n",
		len(described.Judged), flags.subject)
	if !written {
		fmt.Fprintf(out, "--write puts it into %s\n", flags.subject)
	}
	return nil
}
