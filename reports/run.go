package reports

// What a report is made from, and the files of a run directory that are.

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

// The files that WriteAll makes in a run directory.
const (
	VerdictFile = "verdict.json"
	HTMLFile    = "report.html"
	JUnitFile   = "junit.xml"
	SummaryFile = "summary.md"
)

// Run is everything that is told about one run.
type Run struct {
	// Verdict is what was judged; every renderer needs it.
	Verdict *assertions.Verdict
	// Measurements hold the curves and histograms of the HTML report; nil leaves the charts out.
	Measurements *measure.Measurements
	// Header tells what the run was made of; a zero Header leaves that out.
	Header history.Header
	// Dir is the run directory as the reader should see it; "" where nothing was written.
	Dir string
}

var errNoVerdict = errors.New("there is no verdict to report: judge the run first")

// WriteAll writes verdict.json, report.html, junit.xml and summary.md into dir. Each file is complete or not there: it
// is written under another name and then renamed. A renderer that fails does not keep the others from being written;
// the errors are joined.
func WriteAll(dir string, run Run) error {
	if run.Verdict == nil {
		return errNoVerdict
	}
	files := []struct {
		name   string
		render func(io.Writer, Run) error
	}{
		{VerdictFile, JSON}, {HTMLFile, HTML}, {JUnitFile, JUnit}, {SummaryFile, Markdown},
	}
	var errs []error
	for _, file := range files {
		if err := replaceFile(filepath.Join(dir, file.name), func(w io.Writer) error {
			return file.render(w, run)
		}); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// replaceFile renders the file and puts it under its name at once. It is on the disk before it has the name, so that
// after a crash the name never leads to an empty file.
func replaceFile(path string, render func(io.Writer) error) error {
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
