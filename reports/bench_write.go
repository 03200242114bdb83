package reports

// The files of a bench's folder.

import (
	"errors"
	"io"
	"path/filepath"
)

// benchFile is a file made from the results of a bench.
type benchFile struct {
	name   string
	render func(io.Writer, Bench) error
}

// benchFiles are all of them. The results come first: whatever happens to the others can be made again from them.
func benchFiles() []benchFile {
	return []benchFile{{BenchJSONFile, BenchJSON}, {BenchCSVFile, BenchCSV}, {BenchCellsCSVFile, BenchCellsCSV},
		{HTMLFile, BenchHTML}, {SummaryFile, BenchMarkdown}}
}

// BenchFiles are the names of the files that WriteBench writes.
func BenchFiles() (names []string) {
	for _, file := range benchFiles() {
		names = append(names, file.name)
	}
	return names
}

// WriteBenchResults writes results.json alone, from which everything else can be made: while a bench goes on that is
// enough, and it takes a small part of the time that the pages of a large one take.
func WriteBenchResults(dir string, bench Bench) error {
	return replaceFile(filepath.Join(dir, BenchJSONFile), func(w io.Writer) error { return BenchJSON(w, bench) })
}

// WriteBench writes everything that is told of a bench into dir. Each file is complete or as it was before; one that
// fails does not keep the others from being written.
func WriteBench(dir string, bench Bench) error {
	bench = bench.complete()
	var errs []error
	for _, file := range benchFiles() {
		errs = append(errs, replaceFile(filepath.Join(dir, file.name), func(w io.Writer) error {
			return file.render(w, bench)
		}))
	}
	return errors.Join(errs...)
}
