package reports

// This file decides what all formats say about recovery, conservation and the harness's health.

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports/document"
)

// spanValue formats a time that may be unknown.
func spanValue(s measure.Span) string {
	switch s.State {
	case measure.SpanKnown:
		return units.Text(roughly(s.Time))
	case measure.SpanNever:
		return "never"
	}
	return "n/a"
}

// roughly rounds a measured time to the millisecond. It was measured to a tenth of a second, or to a few
// milliseconds.
func roughly(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// recoveryFacts returns the facts about a fault besides its effects. It returns none if the fault was never injected.
func recoveryFacts(f assertions.FaultResult) []document.KeyValue {
	r := f.Recovery
	if !f.Observed.Injected || r.Effect.State == "" {
		return nil
	}
	var out []document.KeyValue
	for _, one := range []struct {
		label string
		span  measure.Span
		bad   bool
		help  string
	}{
		{"First effect", r.Effect, false, "From when the fault was injected until it first disturbed something."},
		{"Noticed", r.Detect, false, "From when the fault was injected until the consumer first showed a reaction to it."},
		{"Lag back", r.CatchUp, true, "From when the fault was lifted until the lag was no higher than before it."},
		{"Steady again", r.Steady, true,
			"From when the fault was lifted until throughput, successes and p99 were near their level before it."},
	} {
		out = append(out, helped(one.help, warned(one.bad && one.span.State == measure.SpanNever,
			fact(one.label, spanValue(one.span), text(one.span.Note)))))
	}
	if r.LagPeak > 0 {
		peak := fact("Highest lag", units.Count(r.LagPeak), "")
		if r.Before != nil {
			peak.Note = fmt.Sprintf("%s before it", units.Count(r.Before.Lag))
		}
		out = append(out, peak)
	}
	return out
}

// recoveryWords describes the known recovery times of a fault, to follow the description of its effects.
func recoveryWords(f assertions.FaultResult) string {
	var out string
	for _, one := range []struct {
		words string
		span  measure.Span
	}{{"noticed", f.Recovery.Detect}, {"lag back", f.Recovery.CatchUp}, {"steady again", f.Recovery.Steady}} {
		switch one.span.State {
		case measure.SpanKnown:
			out += "; " + one.words + " after " + spanValue(one.span)
		case measure.SpanNever:
			out += "; never " + one.words
		}
	}
	return out
}

// entryWords describes an entry of the conservation ledger, and explains it where the words do not. unseen is that of
// the ledger.
func entryWords(key string, unseen bool) (words, meaning string) {
	known := map[string][2]string{
		measure.EntryDeadLettered: {"dead-lettered"},
		measure.EntryReplayed:     {"replayed and succeeded"},
		measure.EntryLogical:      {"logical failures"},
		measure.EntryCommitted:    {"skipped by contract"},
		measure.EntryHeld:         {"held by contract", "left where the consumer halted, as its contract says"},
		measure.EntryForfeited: {"forfeited by contract",
			"committed by time, and a stop or a rebalance came before they were finished"},
		measure.EntryUnfinished: {name(key), "acknowledged, and neither processed nor dead-lettered"},
		measure.EntryEndedTwice: {"ended in two ways",
			"both processed and dead-lettered, and not through a replay"},
		measure.EntryUnacknowledged: {"never acknowledged",
			"sent, and the producer gave up, so they may be in the topic or not"},
		measure.EntryNotSent: {"never sent", "the run ended before their time came"},
		measure.NoteDuplicates: {"succeeded more than once",
			"a disruption may explain it; where none does, duplicates is violated"},
		measure.NoteUnasked: {"handled without an acknowledgement",
			"the acknowledgement was lost, not the record"},
		measure.NoteRepeated: {"produced twice", "by workload.repeated; each counts as one record"},
	}[key]
	if key == measure.EntryCommitted && unseen {
		known[0] = "committed (whether processed is not seen)"
	}
	return cmp.Or(known[0], name(key)), known[1]
}

// conservation describes the ledger in one line: the planned records, then where they went, with unwanted entries
// last.
func conservation(v *assertions.Verdict) string {
	c := v.Conservation
	if len(c.Entries) == 0 {
		return oldConservation(v.Ledger)
	}
	var parts, wrong []string
	for _, entry := range c.Entries {
		words, _ := entryWords(entry.Name, c.Unseen)
		switch words = units.Count(entry.Count) + " " + words; {
		case entry.Count == 0 && entry.Name != measure.EntryUnfinished:
		case entry.Difference && entry.Count > 0:
			wrong = append(wrong, words)
		default:
			parts = append(parts, words)
		}
	}
	return units.Count(c.Planned) + " planned = " + strings.Join(append(parts, wrong...), " + ")
}

// oldConservation describes a verdict without a conservation ledger.
func oldConservation(l measure.Ledger) string {
	words := fmt.Sprintf("%s acknowledged = %s succeeded + %s dead-lettered + %s logical + %s unfinished",
		units.Count(l.Acknowledged), units.Count(l.Succeeded), units.Count(l.DeadLettered), units.Count(l.Logical),
		units.Count(l.Unfinished))
	switch open := balance(l); {
	case open > 0:
		words += fmt.Sprintf("; %s not accounted for", units.Count(open))
	case open < 0:
		words += fmt.Sprintf("; %s ended in two ways", units.Count(-open))
	}
	return words
}

// The limits above which the harness is reported as overloaded.
const (
	muchSlip    = 20 * time.Millisecond
	muchStalled = 200 * time.Millisecond
	muchBacklog = 500_000
)

func healthFacts(h measure.Health, l measure.Ledger) []document.KeyValue {
	out := []document.KeyValue{
		warned(h.SlipP99 > muchSlip, fact("Schedule slip p99", units.Text(h.SlipP99),
			"intended send time to handed to the producer; at most "+units.Text(h.SlipMax))),
		fact("Sent late", units.Count(l.Late), "records more than 10 ms after their time"),
		warned(h.Stalled > muchStalled, fact("Stalls", units.Count(h.Stalls), units.Text(h.Stalled)+" in all")),
		warned(h.Worst > muchStalled, fact("Worst stall", units.Text(h.Worst), "in which the machine ran something else")),
	}
	if h.CPU > 0 {
		out = append(out, fact("Processors", units.Significant(h.CPU),
			"used by the harness under load; at most "+units.Significant(h.CPUMax)),
			warned(h.BacklogMax > muchBacklog, fact("Unwritten events", units.Count(h.BacklogMax),
				"at most, waiting for the disk")))
	}
	return out
}
