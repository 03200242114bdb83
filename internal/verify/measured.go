package verify

// This file keeps measurements of runs in shipped scenarios in a file. Each measurement continues from it, and the
// tables in the documentation are generated from it.

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/internal/verify/planted"
	"github.com/dlqbench/dlqbench/scenarios"
)

// Measured are runs of planted bugs, and of the correct consumer, in shipped scenarios. A row holds for one form of the
// bug and of the scenario: once either means something else, it does not count any more. A change of the judges or of
// the reference consumer drops nothing.
type Measured struct {
	Bugs    []MeasuredRow `json:"bugs"`
	Correct []MeasuredRow `json:"correct"`
	// Pods are runs of both across the pods of a cluster. They are written into the file by hand, without a digest.
	Pods []MeasuredRow `json:"pods"`
}

// MeasuredRow is a bug, or the correct consumer, in a scenario.
type MeasuredRow struct {
	Bug      string `json:"bug,omitempty"`
	Scenario string `json:"scenario"`
	Digest   string `json:"digest"`
	// Shown are the seeds with which the bug was named or the correct consumer passed, Not the other seeds.
	Shown []uint64 `json:"shown,omitempty"`
	Not   []uint64 `json:"not,omitempty"`
	// Seconds is the mean time of a run.
	Seconds float64 `json:"seconds"`
}

// rowDigest distinguishes a bug in a scenario from earlier versions of both. The row of the correct consumer depends on
// the scenario only.
func rowDigest(bug planted.Bug, at target) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(bug.Digest()+at.digest)))[:digestLength]
}

// ReadMeasured reads the file that WriteTo writes, without the rows that are out of date. The file need not exist.
func ReadMeasured(path string) (*Measured, error) {
	measured := &Measured{}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, measured)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the runs to go on from: %w", err)
	}
	targets := map[string]target{}
	for _, row := range slices.Concat(measured.Bugs, measured.Correct, measured.Pods) {
		text, shipped := scenarios.Shipped(row.Scenario)
		if _, known := targets[row.Scenario]; known || !shipped {
			continue
		}
		if targets[row.Scenario], err = readTarget(row.Scenario, text); err != nil {
			return nil, err
		}
	}
	digest := func(row MeasuredRow) string {
		at := targets[row.Scenario]
		if row.Bug == "" {
			return at.digest
		}
		bug, err := planted.Named(row.Bug)
		if err != nil {
			return ""
		}
		return rowDigest(bug, at)
	}
	for i, row := range measured.Pods {
		measured.Pods[i].Digest = cmp.Or(row.Digest, digest(row))
	}
	for _, rows := range []*[]MeasuredRow{&measured.Bugs, &measured.Correct, &measured.Pods} {
		*rows = slices.DeleteFunc(*rows, func(row MeasuredRow) bool {
			now := digest(row)
			return now == "" || row.Digest != now
		})
	}
	return measured, nil
}

func (r MeasuredRow) key() [2]string { return [2]string{r.Bug, r.Scenario} }

// find returns the runs of a bug in a scenario. The empty name stands for the correct consumer.
func (m *Measured) find(rows []MeasuredRow, bug, scenario string) (runs []SeedRun) {
	for _, row := range rows {
		if row.Bug != bug || row.Scenario != scenario {
			continue
		}
		for _, seed := range row.Shown {
			runs = append(runs, SeedRun{Seed: seed, Shown: true, Seconds: row.Seconds})
		}
		for _, seed := range row.Not {
			runs = append(runs, SeedRun{Seed: seed, Seconds: row.Seconds})
		}
	}
	return runs
}

// Add takes over the runs of a table, which include those known before. Rows that the table lacks are kept.
func (m *Measured) Add(table *Completeness) {
	for _, row := range table.Bugs {
		m.Bugs = replaced(m.Bugs, MeasuredRow{Bug: row.Bug, Scenario: row.Scenario, Digest: row.Digest}, row.Runs)
	}
	for _, row := range table.Controls {
		m.Correct = replaced(m.Correct, MeasuredRow{Scenario: row.Scenario, Digest: row.Digest}, row.Runs)
	}
}

func replaced(rows []MeasuredRow, row MeasuredRow, runs []SeedRun) []MeasuredRow {
	rows = slices.DeleteFunc(rows, func(known MeasuredRow) bool { return known.key() == row.key() })
	if len(runs) == 0 {
		return rows
	}
	for _, run := range runs {
		if run.Shown {
			row.Shown = append(row.Shown, run.Seed)
		} else {
			row.Not = append(row.Not, run.Seed)
		}
	}
	slices.Sort(row.Shown)
	slices.Sort(row.Not)
	row.Seconds = math.Round(10*meanSeconds(runs)) / 10
	return append(rows, row)
}

// WriteTo writes one line per row, sorted, so that a diff of two files shows the measurements made in between.
func (m *Measured) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	b.WriteString("{")
	for i, part := range []struct {
		name string
		rows []MeasuredRow
	}{{"bugs", m.Bugs}, {"correct", m.Correct}, {"pods", m.Pods}} {
		slices.SortFunc(part.rows, func(x, y MeasuredRow) int {
			return cmp.Or(cmp.Compare(x.Bug, y.Bug), cmp.Compare(x.Scenario, y.Scenario))
		})
		fmt.Fprintf(&b, "%s\n%q: [", []string{"", ","}[min(i, 1)], part.name)
		for n, row := range part.rows {
			line, err := json.Marshal(row)
			if err != nil {
				return 0, fmt.Errorf("encoding the runs in %s: %w", row.Scenario, err)
			}
			fmt.Fprintf(&b, "%s\n%s", []string{"", ","}[min(n, 1)], line)
		}
		b.WriteString("\n]")
	}
	b.WriteString("\n}\n")
	return b.WriteTo(w)
}

// PodsTable is a table of the runs across pods in Markdown.
func (m *Measured) PodsTable() string {
	var b strings.Builder
	b.WriteString("| scenario | consumer | result |\n|---|---|---|\n")
	for _, row := range m.Pods {
		runs, consumer, result := len(row.Shown)+len(row.Not), "the reference consumer", "passed"
		if row.Bug != "" {
			consumer, result = "planted bug "+row.Bug, "named"
		}
		fmt.Fprintf(&b, "| %s | %s | %s %d/%d |\n", row.Scenario, consumer, result, len(row.Shown), runs)
	}
	return b.String()
}

// Table returns the known results of a suite, as selected by the aim, without running anything.
func (m *Measured) Table(aim Aim) (*Completeness, error) {
	aim.Earlier = m
	table, _, err := (&Config{}).table(aim)
	if err != nil {
		return nil, err
	}
	return table.Completeness, nil
}
