package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/runs"
	"github.com/dlqbench/dlqbench/reports"
)

// runsFlags are the flags of `dlqbench runs`.
type runsFlags struct {
	out, addr    string
	list, asJSON bool
}

func (a *app) runsCommand() *cobra.Command {
	flags := runsFlags{}
	command := &cobra.Command{
		Use: "runs", Short: "Show all stored runs on a local page, or list them", Args: noArgs,
		Long: `Serve a page of all stored runs on this machine until Ctrl-C: filter them, see how the verdicts and figures of
a scenario went, open reports, and choose two runs to compare them. A reload shows runs that have ended meanwhile.

Without a terminal, or with --list or --json, the runs are printed instead, newest first.`,
		Example: `  dlqbench runs
  dlqbench runs --list
  dlqbench runs --json`,
		RunE: func(command *cobra.Command, _ []string) error { return a.runs(command.Context(), flags) },
	}
	command.Flags().StringVar(&flags.out, "out", "runs", "folder of run directories")
	command.Flags().StringVar(&flags.addr, "addr", "127.0.0.1:0",
		"address of the page, on this machine only; port 0 takes any free port")
	command.Flags().BoolVar(&flags.list, "list", false, "print the runs")
	command.Flags().BoolVar(&flags.asJSON, "json", false, "print the runs as JSON")
	return command
}

func (a *app) runs(ctx context.Context, flags runsFlags) error {
	if !flags.list && !flags.asJSON && isTerminal(a.stdout) {
		return a.serveRuns(ctx, flags)
	}
	all, err := runs.List(flags.out, time.Now())
	switch {
	case err != nil:
		return err
	case flags.asJSON:
		return reports.RunsJSON(a.stdout, all)
	}
	return reports.RunsTerminal(a.stdout, all, flags.out, reports.UseColor(a.stdout))
}

func (a *app) serveRuns(ctx context.Context, flags runsFlags) error {
	server, err := runs.Listen(flags.addr, flags.out)
	if err != nil {
		return usageError{err}
	}
	if a.openInBrowser(server.Link()) {
		fmt.Fprintf(a.stdout, "opened %s; Ctrl-C ends it\n", server.Link())
	} else {
		fmt.Fprintf(a.stdout, "open %s in a browser; Ctrl-C ends it\n", server.Link())
	}
	return server.Serve(ctx)
}

func (a *app) openCommand() *cobra.Command {
	var out string
	command := &cobra.Command{
		Use: "open [RUN]", Short: "Open the report of a stored run in a browser", Args: takes(0, 1),
		Long: `Open the report of a stored run in a browser. Without a browser or a terminal, its path is printed.

RUN is a run directory, its name or id, or latest (the default).`,
		Example:           "  dlqbench open\n  dlqbench open runs/latest",
		ValidArgsFunction: completeDirectories,
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := findRun(append(args, "latest")[0], out)
			if err != nil {
				return err
			}
			report, err := filepath.Abs(filepath.Join(dir, reports.HTMLFile))
			if err != nil {
				return fmt.Errorf("looking for the report: %w", err)
			}
			if _, err := os.Stat(report); err != nil {
				return usageError{fmt.Errorf("%s has no report: judge the run first with dlqbench check %s", dir, dir)}
			}
			if isTerminal(a.stdout) && a.openInBrowser(report) {
				fmt.Fprintf(a.stdout, "opened %s\n", report)
				return nil
			}
			fmt.Fprintln(a.stdout, report)
			return nil
		},
	}
	lookedUpIn(command, &out)
	return command
}

// openInBrowser opens an address or a file in the user's browser. It reports whether there is one to ask.
func (a *app) openInBrowser(address string) bool {
	var command []string
	switch {
	case runtime.GOOS == "darwin":
		command = []string{"open", address}
	case runtime.GOOS == "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", address}
	case os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != "":
		command = []string{"xdg-open", address}
	default:
		return false
	}
	started := exec.Command(command[0], command[1:]...)
	if started.Start() != nil {
		return false
	}
	go func() { _ = started.Wait() }() // it is the desktop's from here on
	return true
}
