package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/dlqbench/dlqbench/internal/livemetrics"
	"github.com/dlqbench/dlqbench/reports"
)

// app is one execution of the program.
type app struct {
	stdout, stderr *os.File
	stdin          io.Reader
	// code is the exit code of a command that ended without error.
	code int
	// started distinguishes an error in the command line from one that a command found.
	started             bool
	logFormat, logLevel string
	// verbose prints the results of runs in full.
	verbose bool
	// metrics, if not nil, show the runs in progress.
	metrics *livemetrics.Metrics
	// stopped is the token with which GitHub Actions takes up workflow commands again, "" if it follows them.
	stopped string
	// screen, if not nil, is the view that owns the terminal.
	screen atomic.Pointer[onScreen]
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "dlqbench",
		Short: "Judge the retry and dead-letter handling of a Kafka consumer",
		Long: strings.TrimSpace(`
dlqbench tests the retry and dead-letter handling of Kafka consumers. It starts a Kafka and a consumer, sends a load,
injects faults on a schedule, records from the outside what happens, and judges it: no loss, commit after DLQ, backoff
timing, replay round trip and more.

Exit codes: 0 pass, 1 an invariant was violated, 2 bad usage or scenario, 3 environment, 4 inconclusive, 99 a
threshold was missed, 130 interrupted.`),
		Example: `  dlqbench demo
  dlqbench run smoke
  dlqbench run dlq-publish-failure --subject examples/python/subject.yaml`,
		Version:      versionLine(),
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if a.logFormat != "text" && a.logFormat != "json" {
				return fmt.Errorf("--log-format %q: write text or json", a.logFormat)
			}
			if _, err := zerolog.ParseLevel(a.logLevel); err != nil {
				return fmt.Errorf("--log-level %q: write debug, info, warn or error", a.logLevel)
			}
			a.started = true
			return nil
		},
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(wrongFlag)
	root.SetVersionTemplate("{{.Version}}\n")
	root.PersistentFlags().StringVar(&a.logFormat, "log-format", "text", "format of the log on stderr: text or json")
	root.PersistentFlags().StringVar(&a.logLevel, "log-level", "warn",
		"minimum level of the log: debug, info, warn, error")
	for _, group := range a.commandGroups() {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title + ":"})
		for _, command := range group.commands {
			command.GroupID = group.title
			root.AddCommand(command)
		}
	}
	root.AddCommand(a.versionCommand(), a.bugCommand(), a.guardCommand(), a.containerCommand(), a.podCommand())
	return root
}

// commandGroup is a heading of the program's help, with its commands.
type commandGroup struct {
	title    string
	commands []*cobra.Command
}

func (a *app) commandGroups() []commandGroup {
	return []commandGroup{
		{"Run and judge", []*cobra.Command{
			a.demoCommand(), a.runCommand(), a.gateCommand(), a.campaignCommand(), a.benchCommand(), a.drillCommand(),
			a.compareCommand(),
		}},
		{"Results", []*cobra.Command{
			a.openCommand(), a.runsCommand(), a.checkCommand(), a.reportCommand(), a.showRecordCommand(), a.explainCommand(),
		}},
		{"Scenarios and subjects", []*cobra.Command{
			a.learnCommand(), a.initCommand(), a.listCommand(), a.showCommand(), a.validateCommand(), a.schemaCommand(),
			a.subjectCommand(), a.consumeCommand(nil),
		}},
		{"Dead letters", []*cobra.Command{a.inspectCommand(), a.replayCommand(nil), a.dlqCommand()}},
		{"Environment and proof", []*cobra.Command{a.kafkaCommand(), a.cleanCommand(), a.proveCommand(), a.parityCommand()}},
	}
}

// noArgs rejects arguments. cobra's own check would report them as unknown commands.
func noArgs(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, only flags: %q", command.CommandPath(), args)
	}
	return nil
}

// helpOrUnknown is what a command does that only has others below it.
func helpOrUnknown(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return command.Help()
	}
	var names []string
	for _, one := range command.Commands() {
		names = append(names, one.Name())
	}
	return usageError{fmt.Errorf("unknown command %q for %q: write %s", args[0], command.CommandPath(),
		strings.Join(names, ", "))}
}

// logger writes to w: lines for people, or JSON.
func (a *app) logger(w io.Writer) zerolog.Logger {
	level, _ := zerolog.ParseLevel(a.logLevel) // checked before any command runs
	if a.logFormat == "text" {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: !reports.UseColor(a.stderr)}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}

// complain prints an error on stderr, in the log's format if that is for programs.
func (a *app) complain(err error) {
	if a.logFormat == "json" {
		log := a.logger(a.stderr)
		log.WithLevel(zerolog.ErrorLevel).Msg(err.Error())
		return
	}
	fmt.Fprintln(a.stderr, reports.Flow(a.stderr, "dlqbench: "+err.Error()))
}

// executable is this program's own file.
func executable() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program's own file: %w", err)
	}
	return path, nil
}

// conclude sets the exit code of a command whose findings are printed, and reports what went wrong besides.
func (a *app) conclude(code int, err error) {
	if a.code = code; err != nil {
		a.code = worst(code, exitEnvironment)
		a.complain(err)
	}
}

// progressLog receives progress when the log is in the format for programs. Each line becomes a line of the log.
type progressLog struct{ log zerolog.Logger }

func (p progressLog) Write(line []byte) (int, error) {
	p.log.Log().Str("progress", strings.TrimSpace(string(line))).Send()
	return len(line), nil
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
