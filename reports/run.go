package reports

// This file defines the input of a report and writes the report files of a run directory.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/google/renameio/v2/maybe"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/history"
)

// The files that WriteAll writes to a run directory.
const (
	VerdictFile = "verdict.json"
	HTMLFile    = "report.html"
	JUnitFile   = "junit.xml"
	SummaryFile = "summary.md"
)

// Run is the input of the reports on one run.
type Run struct {
	// Verdict is the judgement. Every renderer needs it.
	Verdict *assertions.Verdict
	// Measurements hold the curves and histograms of the HTML report; nil leaves the charts out.
	Measurements *measure.Measurements
	// Header describes the run. A zero Header leaves that out.
	Header history.Header
	// Waived are the failures that a gate waives.
	Waived []SuiteWaived
	// Dir is the run directory as shown to the reader; "" if nothing was written.
	Dir string
}

var errNoVerdict = errors.New("there is no verdict to report: judge the run first")

// WriteAll writes verdict.json, report.html, junit.xml and summary.md to dir. Each file is either complete or
// missing: it is written under another name and then renamed. An error in one renderer does not prevent the others
// from being written. The errors are joined.
func WriteAll(dir string, run Run) error {
	if run.Verdict == nil {
		return errNoVerdict
	}
	return writeReports(dir, run, []reportFile[Run]{
		{VerdictFile, JSON}, {HTMLFile, HTML}, {JUnitFile, JUnit}, {SummaryFile, Markdown},
	})
}

// reportFile is a file that a report is written to.
type reportFile[T any] struct {
	name   string
	render func(io.Writer, T) error
}

// writeReports writes all files, also after an error.
func writeReports[T any](dir string, of T, files []reportFile[T]) error {
	var errs []error
	for _, file := range files {
		errs = append(errs, ReplaceFile(filepath.Join(dir, file.name), func(w io.Writer) error {
			return file.render(w, of)
		}))
	}
	return errors.Join(errs...)
}

// ReplaceFile renders the file and replaces the old one atomically. It syncs the data before the rename, so that
// after a crash the name never refers to an empty file.
func ReplaceFile(path string, render func(io.Writer) error) error {
	var text bytes.Buffer
	err := render(&text)
	if err == nil {
		err = maybe.WriteFile(path, text.Bytes(), 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
