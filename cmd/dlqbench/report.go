package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/reports"
)

func (a *app) reportCommand() *cobra.Command {
	files, out := map[string]*string{}, ""
	command := &cobra.Command{
		Use: "report RUN", Short: "Render a stored run as HTML, JUnit, Markdown or JSON",
		Args: func(command *cobra.Command, args []string) error {
			if len(args) == 2 && *files["json"] == "-" {
				return fmt.Errorf("report takes one run, not %q and %q: the file that verdict.json is written to is joined with "+
					"=, as in --json=%[2]s", args[0], args[1])
			}
			return takes(1, 1)(command, args)
		},
		Long: "Render a stored run as HTML, JUnit, Markdown or JSON; - is stdout, and so is --json without a file. Without " +
			"a flag, print the\n" +
			"summary. The run's history is judged again, so runs of older versions of dlqbench can be rendered, too.\n\n" +
			"RUN is a run directory, its name or id, or latest.",
		Example: `  dlqbench report latest --html report.html
  dlqbench report latest --markdown - >> "$GITHUB_STEP_SUMMARY"`,
		ValidArgsFunction: completeDirectories,
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := findRun(args[0], out)
			if err != nil {
				return err
			}
			judged, err := run.LoadRun(dir)
			if err != nil {
				return err
			}
			return a.render(judged, files)
		},
	}
	lookedUpIn(command, &out)
	a.addVerbose(command)
	for format, what := range map[string]string{
		"html": "one page that works offline", "junit": "JUnit XML", "markdown": "Markdown", "json": "verdict.json",
	} {
		files[format] = command.Flags().String(format, "", "write "+what+" to this file")
	}
	command.Flags().Lookup("json").NoOptDefVal = "-"
	return command
}

// render writes each requested format to its file.
func (a *app) render(judged reports.Run, files map[string]*string) error {
	renderers := map[string]func(io.Writer, reports.Run) error{
		"html": reports.HTML, "junit": reports.JUnit, "markdown": reports.Markdown, "json": reports.JSON,
	}
	asked := false
	for format, file := range files {
		if *file == "" {
			continue
		}
		asked = true
		if err := a.writeFile(*file, func(w io.Writer) error { return renderers[format](w, judged) }); err != nil {
			return fmt.Errorf("writing %s: %w", format, err)
		}
	}
	if !asked {
		return a.print(judged, false)
	}
	return nil
}

// printed returns what writes a text.
func printed(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

func (a *app) writeFile(path string, write func(io.Writer) error) error {
	if path == "-" {
		return write(a.stdout)
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(file); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
