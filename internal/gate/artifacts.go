package gate

// This file writes the folder that a CI keeps: one JUnit file, one summary, one page, and verdict.json and report.html
// of each run.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/reports"
)

// Artifacts is the folder that a CI keeps.
type Artifacts struct{ dir string }

// runFolder matches the folders of runs, such as 03-dlq-publish-failure.
var runFolder = regexp.MustCompile(`^[0-9]{2,}-[a-z0-9-]+$`)

// OpenArtifacts creates the folder and removes the files of an earlier gate, because an old report beside today's would
// be taken for today's. It refuses a folder that contains other files.
func OpenArtifacts(dir string) (Artifacts, error) {
	if err := reports.OpenFolder(dir, "gate", ours); err != nil {
		return Artifacts{}, err
	}
	return Artifacts{dir}, reports.ClearFolder(dir, "gate")
}

// ArtifactsIn is a folder whose contents somebody else looks after.
func ArtifactsIn(dir string) Artifacts { return Artifacts{dir} }

// ours reports whether a gate writes the file or folder, or leaves it if it is killed while writing.
func ours(entry fs.DirEntry) bool {
	name := entry.Name()
	return entry.IsDir() && runFolder.MatchString(name) || slices.ContainsFunc([]string{reports.JUnitFile,
		reports.SummaryFile, reports.SuiteJSONFile, reports.SuiteIndexFile}, func(file string) bool {
		return name == file || strings.HasPrefix(name, "."+file)
	})
}

// Keep copies the verdict and the report of a judged run, and stores their location in the run.
func (a Artifacts) Keep(run *reports.SuiteRun) error {
	if run.Judged.Verdict == nil || run.Dir == "" {
		return nil
	}
	folder := fmt.Sprintf("%02d-%s", run.Number, run.Scenario)
	if err := os.MkdirAll(filepath.Join(a.dir, folder), 0o755); err != nil {
		return fmt.Errorf("keeping the report of %s: %w", run.Label, err)
	}
	err := copyFile(filepath.Join(a.dir, folder, reports.VerdictFile), filepath.Join(run.Dir, reports.VerdictFile))
	report := filepath.Join(a.dir, folder, reports.HTMLFile)
	if len(run.Waived) > 0 { // the report in the run directory knows no waivers
		err = errors.Join(err, reports.ReplaceFile(report, func(w io.Writer) error { return reports.HTML(w, run.Report()) }))
	} else {
		err = errors.Join(err, copyFile(report, filepath.Join(run.Dir, reports.HTMLFile)))
	}
	if err != nil {
		return fmt.Errorf("keeping the report of %s: %w", run.Label, err)
	}
	run.Artifacts = folder
	return nil
}

func copyFile(to, from string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// Write writes the current findings. Each file is replaced atomically.
func (a Artifacts) Write(suite *reports.Suite) error {
	var errs []error
	for file, render := range map[string]func(io.Writer, reports.Suite) error{
		reports.JUnitFile: reports.SuiteJUnit, reports.SummaryFile: reports.SuiteMarkdown,
		reports.SuiteJSONFile: reports.SuiteJSON, reports.SuiteIndexFile: reports.SuiteIndex,
	} {
		errs = append(errs, reports.ReplaceFile(filepath.Join(a.dir, file),
			func(w io.Writer) error { return render(w, *suite) }))
	}
	return errors.Join(errs...)
}

// AppendSummary appends the summary to a file, as GitHub Actions requires for $GITHUB_STEP_SUMMARY.
func AppendSummary(path string, suite *reports.Suite) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("appending the summary: %w", err)
	}
	if err := errors.Join(reports.SuiteMarkdown(file, *suite), file.Close()); err != nil {
		return fmt.Errorf("appending the summary to %s: %w", path, err)
	}
	return nil
}
