package reports

// This file shows what happened to all records as an equation, with the affected records for each of its differences.

import (
	"fmt"
	"strconv"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/units"
)

// entryLinks is the maximum number of records that the page names for a difference.
const entryLinks = 20

// accountView is the equation: the planned records equal the sum of their results.
type accountView struct {
	Equation    string
	Differences []entryView
	Notes       []entryView
	// Balance describes the difference of the two sides, "" if they are equal.
	Balance string
	// Command shows the trace of any record.
	Command string
}

// entryView is a group of records with the same result.
type entryView struct {
	Count, Words string
	Bad          bool
	Records      []entryRecordView
	More         string
}

type entryRecordView struct {
	Record, ID, Partition, Offset, Where string
	// Anchor is the id of its trace, "" if the page does not have it.
	Anchor string
}

func newAccountView(v *assertions.Verdict, anchors map[int32]string) accountView {
	c := v.Conservation
	var out accountView
	if len(c.Entries) == 0 {
		return out
	}
	sum := int64(0)
	for _, entry := range c.Entries {
		sum += entry.Count
		if entry.Difference && entry.Count > 0 {
			out.Differences = append(out.Differences, newEntryView(entry, anchors))
		}
	}
	out.Equation = conservation(v)
	if sum != c.Planned {
		out.Balance = fmt.Sprintf("These are %s records, and %s were planned.", units.Count(sum), units.Count(c.Planned))
	}
	for _, note := range c.Notes {
		if note.Count > 0 {
			out.Notes = append(out.Notes, newEntryView(note, anchors))
		}
	}
	if len(out.Differences)+len(out.Notes) > 0 && v.RunID != "" {
		out.Command = "dlqbench show-record " + name(v.RunID) + " RECORD"
	}
	return out
}

func newEntryView(entry measure.Entry, anchors map[int32]string) entryView {
	out := entryView{Count: units.Count(entry.Count), Words: entryWords(entry.Name) + entryMeaning(entry.Name),
		Bad: entry.Difference}
	for _, one := range entry.Records[:min(len(entry.Records), entryLinks)] {
		row := entryRecordView{
			Record: strconv.Itoa(int(one.Record)), ID: name(one.ID), Partition: numberWord(int64(one.Partition)),
			Offset: numberWord(one.Offset), Anchor: anchors[one.Record],
		}
		if one.Topic != "" && one.Partition >= 0 {
			row.Where = fmt.Sprintf("%s-%d @ %d", name(one.Topic), one.Partition, one.Offset)
		}
		out.Records = append(out.Records, row)
	}
	if more := entry.Count - int64(len(out.Records)); more > 0 {
		out.More = "and " + units.Count(more) + " more"
	}
	return out
}

// entryMeaning explains an entry of the ledger whose words do not explain it.
func entryMeaning(entry string) string {
	switch entry {
	case measure.EntryUnfinished:
		return ": acknowledged, and neither processed nor dead-lettered"
	case measure.EntryEndedTwice:
		return ": both processed and dead-lettered, and not through a replay"
	case measure.EntryUnacknowledged:
		return ": sent, and the producer gave up, so they may be in the topic or not"
	case measure.EntryNotSent:
		return ": the run ended before their time came"
	case measure.NoteDuplicates:
		return ": a disruption may explain it; where none does, duplicates is violated"
	case measure.NoteUnasked:
		return ": what was lost is the acknowledgement, not the record"
	}
	return ""
}
