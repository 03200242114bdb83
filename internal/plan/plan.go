// Package plan derives the plan from a scenario and a seed. The plan has every random choice of a run, made before
// anything is started. The same scenario and seed give the same plan, byte for byte. A run uses no randomness other
// than its plan.
package plan

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/samples"
)

// Record is one planned record of the workload. Its index in Plan.Records is its sequence number.
type Record struct {
	// At is the intended send time, from the start of the warm-up.
	At time.Duration
	// Outcome is the record's planned outcome. Failures is the number of attempts that fail first (transient,
	// rate-limited, timeout, reset). Tombstones, garbage and malformed values carry no id that the downstream stub could
	// find, so theirs is OutcomeUnknownID.
	Outcome  history.Outcome
	Failures uint8
	Warmup   bool
	// Key is the index of its key, None for a null key, history.KeyIsID for its own id. Indices from history.SampleKey
	// are those of Plan.Keys.
	Key       int32
	Partition int32
	// Size is the size of the value in bytes; 0 for a tombstone.
	Size int32
	// Sample is the number of the sample that it is made from, if there are any.
	Sample int32
	// Tombstone: its value is null. Garbage: its value is random bytes. Large: its value is larger than usual.
	Tombstone, Garbage, Large bool
	// Malformed is how its value is malformed, 0 if it is not.
	Malformed samples.How
	// Repeated: it is produced twice.
	Repeated bool
	// OddHeaders: it carries unusual headers that can break careless code.
	OddHeaders bool
	// Healed: once dead-lettered, it is selected for replay. FailsAgain: after the replay it exhausts its retries
	// again.
	Healed, FailsAgain bool
}

// Plan is every choice of a run.
type Plan struct {
	Seed    uint64
	Faults  []faults.Planned
	Records []Record
	// Nodes are the records as each further node of a graph sees them, from the second on. They differ only in their
	// outcome there. Records is the view of the entry.
	Nodes [][]Record
	// Store are the records with the outcomes of the attempts by the workers of the dead-letter store, nil without a
	// store.
	Store []Record
	// Spare is the number of Records, at the end, that lie after the steady phase. They are sent only while a fault
	// has not ended.
	Spare int
	// WarmUp and Steady are the lengths of the two load phases.
	WarmUp, Steady time.Duration
	// RetryAfter is the wait that rate-limited answers ask for.
	RetryAfter time.Duration
	// ErrorText is the kind of error texts: plain, non-ascii, long, hostile.
	ErrorText string
	// Keys are the keys of the samples.
	Keys []string
	// largestSample is the size of the largest record that is made from a sample.
	largestSample int
}

// Unidentified reports whether no call about the record can carry its id: its value has none, or can't be read.
func (r Record) Unidentified() bool { return r.Tombstone || r.Garbage || r.Malformed.Unreadable() }

// Refusable returns whether there are records that the consumer may process or refuse.
func (p *Plan) Refusable() bool {
	return slices.ContainsFunc(p.Records, func(r Record) bool { return r.Malformed.Refusable() })
}

// Due returns the number of records that are sent in any case.
func (p *Plan) Due() int { return len(p.Records) - p.Spare }

// UpTo returns a plan with the first records alone, in every view, and without the spare ones.
func (p *Plan) UpTo(records int) *Plan {
	cut := *p
	cut.Records, cut.Spare = p.Records[:records], 0
	cut.Nodes = slices.Clone(p.Nodes)
	for i, seen := range cut.Nodes {
		cut.Nodes[i] = seen[:min(records, len(seen))]
	}
	cut.Store = p.Store[:min(records, len(p.Store))]
	return &cut
}

// Repeated returns the number of records that are produced twice.
func (p *Plan) Repeated() (count int) {
	for i := range p.Records {
		if p.Records[i].Repeated {
			count++
		}
	}
	return count
}

// LargestRecord returns the maximum size of a record in bytes, with its key and headers.
func (p *Plan) LargestRecord() int {
	largest := p.largestSample
	for i := range p.Records {
		largest = max(largest, int(p.Records[i].Size))
	}
	return largest + besidesValue
}

// besidesValue is room for a record's key, headers and framing, in bytes.
const besidesValue = 2 << 10
