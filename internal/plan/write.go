package plan

// The plan on disk: plan.json with the seed, the phases and the faults, and plan-records.csv.gz with a line for each
// record. Equal plans give equal bytes: the files contain nothing about the time or place of writing.

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// The names of a plan's files in a run's folder.
const (
	File        = "plan.json"
	RecordsFile = "plan-records.csv.gz"
)

// Phase is a stretch of the plan; times count from the start of the warm-up.
type Phase struct {
	Name string        `json:"name"`
	From time.Duration `json:"from_ns"`
	To   time.Duration `json:"to_ns"`
}

// Phases returns the load phases: warm-up, steady, fault (from the first fault's start to the last one's end, if
// there are faults), and the rest of the steady phase after them.
func (p *Plan) Phases() []Phase {
	phases := []Phase{{history.PhaseWarmup, 0, p.WarmUp}}
	end := p.WarmUp + p.Steady
	from, to, found := p.FaultWindow()
	if !found {
		return append(phases, Phase{history.PhaseSteady, p.WarmUp, end})
	}
	from, to = from+p.WarmUp, to+p.WarmUp
	phases = append(phases, Phase{history.PhaseSteady, p.WarmUp, from}, Phase{history.PhaseFault, from, to})
	if to < end {
		phases = append(phases, Phase{history.PhaseHeal, to, end})
	}
	return phases
}

// FaultWindow returns the time from the first fault's start to the last one's end, relative to the start of the
// steady phase. found is false if there are none. A fault with a trigger may be in force at any time after the
// trigger is first considered.
func (p *Plan) FaultWindow() (from, to time.Duration, found bool) {
	for i, fault := range p.Faults {
		if i == 0 || fault.At < from {
			from = fault.At
		}
		end := fault.At + fault.For
		if fault.When != "" {
			end = max(end, p.Steady)
		}
		to = max(to, end)
	}
	return from, to, len(p.Faults) > 0
}

// Failures returns how often a record may fail at most if its waits are those of the contract: as often as it is
// planned, and throughout the load and the faults.
func (p *Plan) Failures(contract *history.Contract) int {
	planned := uint8(0)
	for i := range p.Records {
		planned = max(planned, p.Records[i].Failures)
	}
	_, to, _ := p.FaultWindow()
	return contract.AttemptsWithin(p.WarmUp+max(p.Steady, to)) + int(planned)
}

// summary is the content of plan.json.
type summary struct {
	Format     int              `json:"format"`
	Seed       uint64           `json:"seed"`
	WarmUp     time.Duration    `json:"warm_up_ns"`
	Steady     time.Duration    `json:"steady_ns"`
	Phases     []Phase          `json:"phases"`
	RetryAfter time.Duration    `json:"retry_after_ns"`
	ErrorText  string           `json:"error_text"`
	Records    int              `json:"records"`
	Spare      int              `json:"spare,omitempty"`
	Outcomes   map[string]int   `json:"outcomes"`
	Healed     int              `json:"healed"`
	FailAgain  int              `json:"fail_again"`
	Tombstones int              `json:"tombstones,omitempty"`
	Garbage    int              `json:"garbage,omitempty"`
	Malformed  int              `json:"malformed,omitempty"`
	Repeated   int              `json:"repeated,omitempty"`
	Faults     []plannedSummary `json:"faults"`
}

type plannedSummary struct {
	history.PlannedFault
	Seed uint64 `json:"seed"`
	Spec any    `json:"spec"`
}

// Write writes the plan's files to the folder, which must exist.
func (p *Plan) Write(dir string) error {
	text, err := json.MarshalIndent(p.summarize(), "", "  ")
	if err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, File), append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	for node := range 1 + len(p.Nodes) {
		if err := p.Node(node).writeRecordsFile(filepath.Join(dir, recordsFile(node))); err != nil {
			return fmt.Errorf("writing the planned records: %w", err)
		}
	}
	return nil
}

// recordsFile returns RecordsFile, or its counterpart for a further node of a graph.
func recordsFile(node int) string {
	if node == 0 {
		return RecordsFile
	}
	return fmt.Sprintf("plan-records-node-%d.csv.gz", node)
}

func (p *Plan) writeRecordsFile(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(p.writeRecords(file), file.Close())
}

func (p *Plan) summarize() summary {
	s := summary{
		Format: 1, Seed: p.Seed, WarmUp: p.WarmUp, Steady: p.Steady, Phases: p.Phases(), RetryAfter: p.RetryAfter,
		ErrorText: p.ErrorText, Records: p.Due(), Spare: p.Spare, Outcomes: map[string]int{}, Faults: []plannedSummary{},
	}
	for i := range p.Due() {
		record := &p.Records[i]
		s.Outcomes[record.Outcome.String()]++
		s.Healed += flag(record.Healed)
		s.FailAgain += flag(record.FailsAgain)
		s.Tombstones += flag(record.Tombstone)
		s.Garbage += flag(record.Garbage)
		s.Malformed += flag(record.Malformed != 0)
		s.Repeated += flag(record.Repeated)
	}
	for _, fault := range p.Faults {
		s.Faults = append(s.Faults, plannedSummary{fault.PlannedFault, fault.Seed, fault.Written})
	}
	return s
}

// writeRecords writes the records as gzipped CSV. The header of the gzip stream has no name and no time.
func (p *Plan) writeRecords(to io.Writer) error {
	packed, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(packed, 1<<16)
	if _, err := out.WriteString(
		"record,at_ns,warm_up,outcome,failures,key,partition,size,value,healed,fails_again\n"); err != nil {
		return err
	}
	var line []byte
	for seq := range p.Records {
		line = p.Records[seq].appendLine(line[:0], seq)
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	return errors.Join(out.Flush(), packed.Close())
}

// appendLine appends the record as a line of CSV. A record without a key has an empty key field; one whose key is its
// id has "id", and one with a key of the samples has the number of that key among them: "sample-key-0".
func (r *Record) appendLine(line []byte, seq int) []byte {
	number := func(n int) { line = append(strconv.AppendInt(line, int64(n), 10), ',') }
	number(seq)
	number(int(r.At))
	number(flag(r.Warmup))
	line = append(append(line, r.Outcome.String()...), ',')
	number(int(r.Failures))
	switch {
	case r.Key == history.None:
	case r.Key == history.KeyIsID:
		line = append(line, "id"...)
	case r.Key >= history.SampleKey && r.Key < history.BinaryKey:
		line = strconv.AppendInt(append(line, "sample-key-"...), int64(r.Key-history.SampleKey), 10)
	default:
		line = AppendKey(line, r.Key)
	}
	line = append(line, ',')
	number(int(r.Partition))
	number(int(r.Size))
	line = append(append(line, r.value()...), ',')
	number(flag(r.Healed))
	number(flag(r.FailsAgain))
	line[len(line)-1] = '\n'
	return line
}

// flag is 1 if it is set.
func flag(set bool) int {
	if set {
		return 1
	}
	return 0
}

// value returns the kind of the record's value (a message, a tombstone, garbage, or how it is malformed), and what else
// is unusual about the record.
func (r *Record) value() string {
	value := "message"
	switch {
	case r.Tombstone:
		value = "tombstone"
	case r.Garbage:
		value = "garbage"
	case r.Malformed != 0:
		value = r.Malformed.String()
	}
	if r.Repeated {
		value += "+repeated"
	}
	if r.OddHeaders {
		value += "+odd-headers"
	}
	return value
}
