package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/reports"
)

// compareFlags are the flags of `dlqbench compare`.
type compareFlags struct {
	baselines                 []string
	save, markdown, html, out string
	evenSo, asJSON            bool
}

func (a *app) compareCommand() *cobra.Command {
	flags := compareFlags{}
	command := &cobra.Command{
		Use: "compare BEFORE… -- AFTER…", Short: "Compare two sets of runs",
		Long: strings.TrimSpace(`
Show which invariants are newly violated or hold again, and which latencies, rates, recoveries and counts changed by
more than identical runs differ. A run is a run directory or its verdict.json, or the name or id of a run in the folder
--out, or latest. The results.json of a bench stands for all its repetitions. Several runs of one scenario on one side
are repetitions. Only repetitions can show that a figure changed, and five on each side are a good number; one against
one compares invariants only. Runs that differ in scenario, workload, plan or environment are refused, with the reason.

Exit codes: 0 no regression was found, 1 an invariant is newly violated, 2 the runs cannot be compared, 4 an invariant
that held before was not judged, 99 a watched figure is worse by more than the noise.`),
		Example: `  dlqbench compare runs/before runs/after
  dlqbench compare runs/main-* -- runs/change-*
  dlqbench compare before/results.json after/results.json
  dlqbench compare --save main.json runs/main-*
  dlqbench compare --baseline main.json runs/change-* --markdown - >> "$GITHUB_STEP_SUMMARY"`,
		ValidArgsFunction: completeDirectories,
		RunE: func(command *cobra.Command, args []string) error {
			return a.compare(args, command.ArgsLenAtDash(), flags)
		},
	}
	command.Flags().StringArrayVar(&flags.baselines, "baseline", nil,
		"baseline to compare with: a file written by --save, a run, or a bench; may be repeated")
	command.Flags().StringVar(&flags.save, "save", "",
		"write the figures of these runs to this file as a baseline, and compare nothing")
	command.Flags().StringVar(&flags.markdown, "markdown", "", "write Markdown to this file; - is stdout")
	command.Flags().StringVar(&flags.html, "html", "", "write one page that works offline to this file, for reviewers")
	lookedUpIn(command, &flags.out)
	command.Flags().BoolVar(&flags.asJSON, "json", false, "print JSON on stdout instead of the summary")
	command.Flags().BoolVar(&flags.evenSo, "even-so", false,
		"compare runs of one scenario even if their workload or environment differs, and list the differences")
	return command
}

func (a *app) compare(args []string, dash int, flags compareFlags) error {
	if flags.save != "" {
		return a.saveBaseline(args, dash, flags)
	}
	if flags.asJSON && flags.markdown == "-" || flags.html == "-" && (flags.asJSON || flags.markdown == "-") {
		return usageError{errors.New("two of --json, --markdown - and --html - want stdout: give one of them a file")}
	}
	before, after, err := sides(args, dash, flags.baselines)
	if err != nil {
		return usageError{err}
	}
	olds, err := readCompared(before, flags.out)
	if err != nil {
		return usageError{err}
	}
	news, err := readCompared(after, flags.out)
	if err != nil {
		return usageError{err}
	}
	comparison, err := reports.Compare(olds, news, flags.evenSo)
	if err != nil {
		return usageError{err}
	}
	a.code = comparedCode(comparison.Verdict)
	return a.showComparison(comparison, flags)
}

// sides splits the arguments into the runs before and after.
func sides(args []string, dash int, baselines []string) (before, after []string, err error) {
	switch {
	case len(baselines) > 0 && dash >= 0:
		return nil, nil, errors.New("with --baseline every run is one after it: leave out --")
	case len(baselines) > 0 && len(args) == 0:
		return nil, nil, errors.New("there is nothing to compare with the baseline: name the runs")
	case len(baselines) > 0:
		return baselines, args, nil
	case dash > 0 && dash < len(args):
		return args[:dash], args[dash:], nil
	case dash < 0 && len(args) == 2:
		return args[:1], args[1:], nil
	}
	return nil, nil, errors.New("say which runs are before and which after: dlqbench compare BEFORE AFTER, or dlqbench " +
		"compare BEFORE… -- AFTER…, or --baseline FILE AFTER…")
}

// readCompared reads the runs, benches and baselines to compare.
func readCompared(paths []string, out string) ([]reports.CompareRun, error) {
	var all []reports.CompareRun
	for _, path := range paths {
		file, err := comparedFile(path, out)
		if err != nil {
			return nil, err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading what to compare: %w", err)
		}
		runs, err := reports.ReadCompared(data, filepath.Clean(path))
		if err != nil {
			return nil, err
		}
		all = append(all, runs...)
	}
	return all, nil
}

// comparedFile returns the file with the results in the directory of a run or a bench. A path that does not exist may
// name a run in the folder out.
func comparedFile(path, out string) (string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		dir, missing := findRun(path, out)
		if missing != nil {
			return "", fmt.Errorf("reading what to compare: there is no %s, and %s has no run of that name or id",
				path, out)
		}
		path = dir
		info, err = os.Stat(path)
	}
	if err != nil || !info.IsDir() {
		return path, err
	}
	for _, name := range []string{reports.VerdictFile, reports.BenchJSONFile} {
		if _, err := os.Stat(filepath.Join(path, name)); err == nil {
			return filepath.Join(path, name), nil
		}
	}
	return "", fmt.Errorf("reading what to compare: %s has no %s of a run and no %s of a bench: if it is a run that was "+
		"killed, judge it first with dlqbench check %s",
		path, reports.VerdictFile, reports.BenchJSONFile, path)
}

// showComparison writes the requested formats. stdout gets one of them.
func (a *app) showComparison(c reports.Comparison, flags compareFlags) error {
	if flags.markdown != "" {
		if err := a.writeFile(flags.markdown, func(w io.Writer) error { return reports.CompareMarkdown(w, c) }); err != nil {
			return fmt.Errorf("writing Markdown: %w", err)
		}
	}
	if flags.html != "" {
		if err := a.writeFile(flags.html, func(w io.Writer) error { return reports.CompareHTML(w, c) }); err != nil {
			return fmt.Errorf("writing the page: %w", err)
		}
	}
	switch {
	case flags.asJSON:
		return reports.CompareJSON(a.stdout, c)
	case flags.markdown == "-", flags.html == "-":
		return nil
	}
	return reports.CompareTerminal(a.stdout, c, reports.UseColor(a.stdout))
}

// saveBaseline writes a baseline. It refuses runs that are not repetitions of each other.
func (a *app) saveBaseline(args []string, dash int, flags compareFlags) error {
	if len(args) == 0 || dash >= 0 || len(flags.baselines) > 0 || flags.asJSON ||
		flags.markdown != "" || flags.html != "" {
		return usageError{errors.New(
			"--save writes a baseline of the runs that are named, and compares nothing: dlqbench compare --save FILE RUN…")}
	}
	runs, err := readCompared(args, flags.out)
	if err != nil {
		return usageError{err}
	}
	if err := reports.Repetitions(runs, flags.evenSo); err != nil {
		return usageError{fmt.Errorf("these runs make no baseline: %w", err)}
	}
	if err := a.writeFile(flags.save, func(w io.Writer) error {
		return reports.WriteBaseline(w, runs, time.Now())
	}); err != nil {
		return fmt.Errorf("writing the baseline: %w", err)
	}
	if flags.save != "-" {
		of := fmt.Sprintf("%d runs", len(runs))
		if len(runs) == 1 {
			of = "1 run: repeat it, of a single one no figure can be told from noise"
		}
		fmt.Fprintf(a.stdout, "%s: a baseline of %s\n", flags.save, of)
	}
	return nil
}

// comparedCode is the exit code of a comparison.
func comparedCode(verdict reports.CompareVerdict) int {
	return map[reports.CompareVerdict]int{ // the others are exitPass
		reports.CompareViolated: exitViolated, reports.CompareFirstViolated: exitViolated,
		reports.CompareUnproven: exitInconclusive, reports.CompareRegressed: exitThreshold,
	}[verdict]
}
