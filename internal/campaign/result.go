package campaign

// This file stores the results of cells: in a folder for each cell, and as a line that a pod's log carries.

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/reports"
)

// resultFile is written last, and atomically: with it, the cell is done.
const resultFile = "result.json"

// ResultSchema is the version of result.json.
const ResultSchema = 1

// Result is the outcome of a judged cell.
type Result struct {
	Schema int `json:"schema"`
	// Cell and Key are those of the cell that it belongs to, Version that of the dlqbench that judged it.
	Cell    string `json:"cell"`
	Key     string `json:"key"`
	Version string `json:"version"`
	// Where is the machine or the pod that ran the cell.
	Where   string        `json:"where"`
	Elapsed time.Duration `json:"elapsed_ns"`
	// Dir is the run directory on that machine, "" if it was removed.
	Dir string `json:"run_directory,omitempty"`
	// ThresholdsMissed completes the verdict, whose own JSON does not have it.
	ThresholdsMissed bool                `json:"thresholds_missed"`
	Verdict          *assertions.Verdict `json:"verdict"`
	// Report is the HTML report, stored beside result.json.
	Report []byte `json:"-"`
}

// NewResult is the result of a judged run.
func NewResult(cell Cell, version string, judged reports.Run, elapsed time.Duration) (Result, error) {
	var report bytes.Buffer
	if err := reports.HTML(&report, judged); err != nil {
		return Result{}, fmt.Errorf("writing the report of %s: %w", cell.Name, err)
	}
	where, err := os.Hostname()
	if err != nil {
		where = "unknown"
	}
	return Result{Schema: ResultSchema, Cell: cell.Name, Key: cell.Key, Version: version, Where: where, Elapsed: elapsed,
		Dir: judged.Dir, ThresholdsMissed: judged.Verdict.ThresholdsMissed, Verdict: judged.Verdict,
		Report: report.Bytes()}, nil
}

// of returns why a result is not that of a cell, "" if it is.
func (r Result) of(cell Cell) error {
	switch {
	case r.Schema != ResultSchema:
		return fmt.Errorf("the result of %s has schema %d, and %d is known", cell.Name, r.Schema, ResultSchema)
	case r.Verdict == nil:
		return fmt.Errorf("the result of %s has no verdict", cell.Name)
	case r.Key != cell.Key:
		return fmt.Errorf("the result of %s was made by dlqbench %s from other files or settings (%s)", cell.Name, r.Version,
			r.Cell)
	}
	return nil
}

// write stores the result in a cell's folder.
func (r Result) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the folder of a cell: %w", err)
	}
	for _, file := range []struct {
		name   string
		render func(io.Writer) error
	}{
		{reports.VerdictFile, func(w io.Writer) error { return reports.JSON(w, reports.Run{Verdict: r.Verdict}) }},
		{reports.HTMLFile, func(w io.Writer) error { _, err := w.Write(r.Report); return err }},
		{resultFile, func(w io.Writer) error { return json.NewEncoder(w).Encode(r) }},
	} {
		if err := reports.ReplaceFile(filepath.Join(dir, file.name), file.render); err != nil {
			return err
		}
	}
	return nil
}

// readResult reads the result in a cell's folder, without the report. The error is fs.ErrNotExist if there is none.
func readResult(dir string) (r Result, err error) {
	data, err := os.ReadFile(filepath.Join(dir, resultFile))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("reading %s: %w: remove the file to run the cell again", filepath.Join(dir, resultFile), err)
	}
	if r.Verdict != nil {
		r.Verdict.ThresholdsMissed = r.ThresholdsMissed
	}
	return r, nil
}

// lineMark begins the line with a result. Nothing else that a pod prints does.
const lineMark = "dlqbench-result-1 "

// packed is the content of a line.
type packed struct {
	Result Result `json:"result"`
	Report []byte `json:"report"`
}

// WriteLine writes the result as a line of text: a mark, the SHA-256 of the rest, and the compressed result with its
// report.
func (r Result) WriteLine(w io.Writer) error {
	var data bytes.Buffer
	zipped := gzip.NewWriter(&data)
	err := json.NewEncoder(zipped).Encode(packed{r, r.Report})
	if err = errors.Join(err, zipped.Close()); err != nil {
		return fmt.Errorf("packing the result: %w", err)
	}
	sum := sha256.Sum256(data.Bytes())
	_, err = fmt.Fprintf(w, "\n%s%s %s\n", lineMark, hex.EncodeToString(sum[:]),
		base64.StdEncoding.EncodeToString(data.Bytes()))
	return err
}

// errNoResult says that a log holds no whole result.
var errNoResult = errors.New("its log holds no result: the log was cut, or the image does not have this dlqbench")

// mostResult bounds the size of an unpacked result.
const mostResult = 256 << 20

// readLine finds the result in a log.
func readLine(log []byte) (Result, error) {
	for line := range bytes.Lines(log) {
		rest, found := strings.CutPrefix(strings.TrimSpace(string(line)), lineMark)
		if !found {
			continue
		}
		sum, text, _ := strings.Cut(rest, " ")
		data, err := base64.StdEncoding.DecodeString(text)
		if digest := sha256.Sum256(data); err != nil || hex.EncodeToString(digest[:]) != sum {
			return Result{}, errNoResult
		}
		zipped, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return Result{}, fmt.Errorf("unpacking the result: %w", err)
		}
		var one packed
		if err := json.NewDecoder(io.LimitReader(zipped, mostResult)).Decode(&one); err != nil {
			return Result{}, fmt.Errorf("unpacking the result: %w", err)
		}
		one.Result.Report = one.Report
		if one.Result.Verdict != nil {
			one.Result.Verdict.ThresholdsMissed = one.Result.ThresholdsMissed
		}
		return one.Result, nil
	}
	return Result{}, errNoResult
}
