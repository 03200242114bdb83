// Package plan turns a scenario and a seed into the plan: every random choice of a run, made once, before anything is
// started. The same scenario and seed give the same plan, byte for byte; a run consults nothing random but its plan.
package plan

import (
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
)

// Record is one planned record of the workload; its index in Plan.Records is its sequence number.
type Record struct {
	// At is the intended send time, from the start of the warm-up.
	At time.Duration
	// Outcome is what becomes of it; Failures is how many attempts fail first (transient, rate-limited, timeout,
	// reset). A tombstone and garbage carry no id that the downstream could find, so theirs is OutcomeUnknownID.
	Outcome  history.Outcome
	Failures uint8
	Warmup   bool
	// Key is the index of its key, None for a null key.
	Key       int32
	Partition int32
	// Size is its value's, in bytes; 0 for a tombstone.
	Size int32
	// Tombstone: its value is null. Garbage: its value is random bytes.
	Tombstone, Garbage bool
	// OddHeaders: it carries headers that careless code breaks.
	OddHeaders bool
	// Healed: once dead-lettered it is selected for replay; FailsAgain: after the replay it is exhausted once more.
	Healed, FailsAgain bool
}

// Plan is every choice of a run.
type Plan struct {
	Seed    uint64
	Faults  []faults.Planned
	Records []Record
	// Nodes are the records as each further node of a graph sees them, from the second on: the same but for what
	// becomes of them there. Records is how the entry sees them.
	Nodes [][]Record
	// Store are the records as the workers of the dead-letter store have them answered, nil without a store.
	Store []Record
	// Spare is how many of Records, the last ones, lie behind the steady phase: they are sent only while a fault has
	// not come to its end.
	Spare int
	// WarmUp and Steady are the lengths of the two load phases.
	WarmUp, Steady time.Duration
	// RetryAfter is what rate-limited answers say.
	RetryAfter time.Duration
	// ErrorText is the kind of error texts: plain, non-ascii, long, hostile.
	ErrorText string
}

// Due is how many records are sent in any case.
func (p *Plan) Due() int { return len(p.Records) - p.Spare }

// DropSpare leaves the spare records out, of every view of them.
func (p *Plan) DropSpare() {
	due := p.Due()
	p.Records, p.Spare = p.Records[:due], 0
	for i := range p.Nodes {
		p.Nodes[i] = p.Nodes[i][:min(due, len(p.Nodes[i]))]
	}
	p.Store = p.Store[:min(due, len(p.Store))]
}

// LargestRecord is how many bytes the largest record has at most, with its key and headers.
func (p *Plan) LargestRecord() int {
	largest := 0
	for i := range p.Records {
		largest = max(largest, int(p.Records[i].Size))
	}
	return largest + besidesValue
}

// besidesValue is room for a record's key, headers and framing, in bytes.
const besidesValue = 2 << 10
