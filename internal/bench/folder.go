package bench

// This file manages the folder of a bench's results: results.json after each run, so that the bench can be resumed, and
// the tables and pages made from it.

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

const (
	// fileSpec is a copy of the bench's file. dirSubjects holds the subject.yaml of each cell that changes it.
	fileSpec    = "bench.yaml"
	dirSubjects = "subjects"
)

// Folder is a bench's folder.
type Folder struct{ dir string }

// Earlier reads the results in a folder. The error is fs.ErrNotExist if there are none.
func Earlier(dir string) (reports.Bench, error) {
	path := filepath.Join(dir, reports.BenchJSONFile)
	file, err := os.Open(path)
	if err != nil {
		return reports.Bench{}, err
	}
	defer file.Close()
	bench, err := reports.ReadBench(file)
	if err != nil {
		return bench, fmt.Errorf("%s: %w", path, err)
	}
	return bench, nil
}

// OpenFolder creates a bench's folder, or finds in it the results of an earlier execution of the same bench; found is
// true then. fresh removes earlier results. Results of another bench, or of another version of dlqbench, are never
// continued, and never removed unless requested.
func (p *Plan) OpenFolder(dir, version string,
	fresh bool) (folder Folder, earlier reports.Bench, found bool, err error) {
	folder = Folder{dir}
	if err := reports.OpenFolder(dir, "bench", ours); err != nil {
		return folder, earlier, false, err
	}
	earlier, err = Earlier(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return folder, reports.Bench{}, false, p.prepare(folder)
	case fresh:
		return folder, reports.Bench{}, false, errors.Join(reports.ClearFolder(dir, "bench"), p.prepare(folder))
	case err != nil:
		return folder, earlier, false, fmt.Errorf("%w (--fresh removes it)", err)
	}
	if why := p.unlike(earlier, version); why != "" {
		return folder, earlier, false, fmt.Errorf("cannot resume the results in %s: %s; --fresh removes them and starts "+
			"over, --artifacts selects another folder", dir, why)
	}
	return folder, earlier, true, p.prepare(folder)
}

// unlike returns why earlier results do not belong to this plan, or "" if they do.
func (p *Plan) unlike(earlier reports.Bench, version string) string {
	switch {
	case earlier.Name != p.Spec.Name:
		return fmt.Sprintf("they are of the bench %s, and this is %s", earlier.Name, p.Spec.Name)
	case earlier.Version != version:
		return fmt.Sprintf("they are of dlqbench %s, and this is %s", earlier.Version, version)
	case earlier.SpecHash != p.Hash:
		return fmt.Sprintf("%s, the scenario or the subject has changed since", p.File)
	case !p.complete(earlier):
		return "they have other cells than this bench: somebody changed them"
	}
	return ""
}

// complete reports whether results have exactly the plan's cells and repetitions.
func (p *Plan) complete(earlier reports.Bench) bool {
	if len(earlier.Cells) != len(p.Cells) || earlier.Repetitions != p.Spec.Repetitions || earlier.Mode != p.Mode {
		return false
	}
	for i, cell := range earlier.Cells {
		if cell.Name != p.Cells[i].Name || cell.Number != i+1 || len(cell.Repetitions) > earlier.Repetitions {
			return false
		}
	}
	return true
}

// ours reports whether a bench writes the file. Names that begin with a dot are unfinished files.
func ours(entry fs.DirEntry) bool {
	name := entry.Name()
	base, _, _ := strings.Cut(strings.TrimPrefix(name, "."), ".")
	known := append(reports.BenchFiles(), fileSpec, dirSubjects)
	return slices.Contains(known, name) ||
		strings.HasPrefix(name, ".") && slices.ContainsFunc(known, func(one string) bool {
			return strings.HasPrefix(one, base+".")
		})
}

// prepare writes the bench's file and the subjects of its cells.
func (p *Plan) prepare(folder Folder) error {
	if err := os.WriteFile(filepath.Join(folder.dir, fileSpec), p.Text, 0o644); err != nil {
		return fmt.Errorf("keeping the bench's file: %w", err)
	}
	for _, cell := range p.Cells {
		if len(cell.SubjectSets) == 0 {
			continue
		}
		if err := p.writeSubject(folder, cell); err != nil {
			return fmt.Errorf("writing the subject of %s: %w", cell.Name, err)
		}
	}
	return nil
}

// SubjectFile is the subject.yaml of a cell, or "" for the scenario's own.
func (p *Plan) SubjectFile(folder Folder, cell PlannedCell) string {
	if len(cell.SubjectSets) == 0 {
		return cell.consumer.file
	}
	return filepath.Join(folder.dir, dirSubjects, fmt.Sprintf("%02d.yaml", cell.Number))
}

// writeSubject writes a cell's subject.yaml. Its commands still run in the directory of the original.
func (p *Plan) writeSubject(folder Folder, cell PlannedCell) error {
	from, data := cell.consumer.from, cell.consumer.text
	original, err := scenarios.ParseSubject(from, data)
	if err != nil {
		return err
	}
	path := p.SubjectFile(folder, cell)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	here, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return err
	}
	there, err := filepath.Abs(filepath.Join(filepath.Dir(from), original.Dir))
	if err != nil {
		return err
	}
	relative, err := filepath.Rel(here, there)
	if err != nil {
		return err
	}
	sets := append(slices.Clone(cell.SubjectSets), "dir="+strconv.Quote(filepath.ToSlash(relative)))
	files := original.Input.Files()
	for _, key := range slices.Sorted(maps.Keys(files)) {
		file := files[key]
		if !filepath.IsAbs(file) {
			if file, err = filepath.Abs(filepath.Join(filepath.Dir(from), file)); err != nil {
				return err
			}
		}
		sets = append(sets, key+"="+strconv.Quote(filepath.ToSlash(file)))
	}
	text, err := scenarios.Apply(from, data, sets)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// Keep writes the current results. When the bench has ended, for whatever reason, it also writes all reports made from
// them. Each file is replaced atomically.
func (f Folder) Keep(bench reports.Bench, ended bool) error {
	if !ended {
		return reports.WriteBenchResults(f.dir, bench)
	}
	return reports.WriteBench(f.dir, bench)
}
