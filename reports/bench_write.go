package reports

// This file writes the files of a bench's folder.

import (
	"io"
	"path/filepath"
)

// benchFiles returns all of them. The results come first, because all others can be generated from them again.
func benchFiles() []reportFile[Bench] {
	return []reportFile[Bench]{{BenchJSONFile, BenchJSON}, {BenchCSVFile, BenchCSV}, {BenchCellsCSVFile, BenchCellsCSV},
		{HTMLFile, BenchHTML}, {SummaryFile, BenchMarkdown}}
}

// BenchFiles returns the names of the files that WriteBench writes.
func BenchFiles() []string {
	return each(benchFiles(), func(file reportFile[Bench]) string { return file.name })
}

// WriteBenchResults writes only results.json, from which everything else can be generated. It is used while a bench
// is running, because the pages of a large bench take much longer to write.
func WriteBenchResults(dir string, bench Bench) error {
	return ReplaceFile(filepath.Join(dir, BenchJSONFile), func(w io.Writer) error { return BenchJSON(w, bench) })
}

// WriteBench writes all files of a bench to dir. Each file is either complete or unchanged. An error in one file does
// not prevent the others from being written.
func WriteBench(dir string, bench Bench) error {
	return writeReports(dir, complete(bench), benchFiles())
}
