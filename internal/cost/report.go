package main

// This file prints the results, as a table for people and as JSON for machines.

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"time"
)

// report is everything measured in one run of bench.
type report struct {
	OS       string    `json:"os"`
	Arch     string    `json:"arch"`
	Go       string    `json:"go"`
	CPUs     int       `json:"cpus"`
	Sections []section `json:"sections"`

	to io.Writer
}

// section is the figures on one question.
type section struct {
	Number int      `json:"number"`
	Title  string   `json:"title"`
	How    []string `json:"how"`
	Rows   []row    `json:"rows"`
	// After are lines that stand below the figures.
	After []string      `json:"after,omitempty"`
	Took  time.Duration `json:"took_ns"`
}

// row is one figure: the median of several measurements with the least and the largest, or one measurement.
type row struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Count  int     `json:"count"` // 1 or 0: not repeated, Min and Max mean nothing
	Unit   string  `json:"unit"`
	Goal   string  `json:"goal,omitempty"`
	Detail string  `json:"detail,omitempty"`
}

func newReport(to io.Writer) *report {
	r := &report{OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(), CPUs: runtime.NumCPU(), to: to}
	fmt.Fprintf(to,
		"What dlqbench costs: %s/%s, %d CPUs, %s. Ratios are measured in turns; absolute figures are this machine's, now.\n",
		r.OS, r.Arch, r.CPUs, r.Go)
	return r
}

// add adds a section and prints it.
func (r *report) add(s section) {
	r.Sections = append(r.Sections, s)
	fmt.Fprintf(r.to, "\n%d  %s  (%.0f s)\n", s.Number, s.Title, s.Took.Seconds())
	for _, line := range s.How {
		fmt.Fprintf(r.to, "   %s\n", line)
	}
	fmt.Fprintf(r.to, "   %-50s %15s   %-31s %-9s %s\n", "", "median", "least – most", "goal", "beside it")
	for _, row := range s.Rows {
		spread := ""
		if row.Count > 1 {
			spread = number(row.Min, row.Unit) + " – " + number(row.Max, row.Unit)
		}
		fmt.Fprintf(r.to, "   %-50s %15s   %-31s %-9s %s\n", row.Name, number(row.Value, row.Unit), spread, row.Goal,
			row.Detail)
	}
	for _, line := range s.After {
		fmt.Fprintf(r.to, "   %s\n", line)
	}
}

// number formats a figure with three significant digits, its unit, and a prefix of the unit if it is large.
func number(value float64, unit string) string {
	if unit == "×" {
		return fmt.Sprintf("%.2f×", value)
	}
	prefix := ""
	switch {
	case math.Abs(value) >= 1e6:
		value, prefix = value/1e6, "M"
	case math.Abs(value) >= 1e4:
		value, prefix = value/1e3, "k"
	}
	digits := 0
	if size := math.Abs(value); size < 100 && size > 0 {
		digits = min(3, 2-int(math.Floor(math.Log10(size))))
	}
	if prefix != "" && !strings.HasPrefix(unit, "/") {
		prefix += " "
	}
	return strings.TrimSpace(fmt.Sprintf("%.*f %s%s", digits, value, prefix, unit))
}
