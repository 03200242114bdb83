package reports

// This file builds the parts of a run's page on records: what became of all of them, as a sum with the affected records
// for each of its differences, and the index of those with known problems. The index is short, so it can name many more
// records than there are counterexamples. The page's search covers both.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports/document"
)

const (
	// entryLinks is the maximum number of records that the page names for a difference.
	entryLinks = 20
	// indexLimit is the maximum number of records in the index. verdict.json has more of them.
	indexLimit = 1000
	// openIndex is the length from which on the index is folded.
	openIndex = 13
)

func recordBlocks(v *assertions.Verdict, shown evidence) []document.Block {
	out := []document.Block{ledgerBar(v.Ledger), document.Paragraph{Text: document.Bold(conservation(v))}}
	if c := v.Conservation; len(c.Entries) > 0 {
		sum := int64(0)
		for _, entry := range c.Entries {
			sum += entry.Count
		}
		if sum != c.Planned {
			out = append(out, document.Paragraph{Text: document.Marked(fmt.Sprintf("These are %s records, and %s were planned.",
				units.Count(sum), units.Count(c.Planned)), document.Warning)})
		}
		entries := entryBlocks(c, shown)
		if out = append(out, entries...); len(entries) > 0 && v.RunID != "" {
			out = append(out, document.KeyValues{Items: known(command("Any of them",
				"dlqbench show-record "+name(v.RunID)+" RECORD"))})
		}
	}
	l := v.Ledger
	return append(out, document.KeyValues{Across: true, Items: []document.KeyValue{
		fact("Planned", units.Count(l.Planned), ""), fact("Sent", units.Count(l.Sent), ""),
		fact("Acknowledged", units.Count(l.Acknowledged), ""),
		helped("Sent more than 10 ms after their planned time.", fact("Sent late", units.Count(l.Late), "")),
		helped("Calls of the downstream, for all records together.", fact("Attempts", units.Count(l.Attempts), "")),
		helped("Records that succeeded more than once.", fact("Duplicates", units.Count(l.Duplicates), "")),
		helped("Dead letters that were put back into their topic.", fact("Replayed", units.Count(l.Replayed), ""))}})
}

// ledgerBar returns the shares of the final states of the acknowledged records.
func ledgerBar(l measure.Ledger) document.Bar {
	open := balance(l)
	whole := max(1, l.Acknowledged, l.Acknowledged-open)
	out := document.Bar{Whole: float64(whole)}
	x := int64(0)
	for i, end := range []struct {
		name, shape string
		n           int64
	}{
		{"succeeded", "good", l.Succeeded}, {"dead-lettered", "dead", l.DeadLettered},
		{"logical failures", "odd", l.Logical}, {"unfinished", "bad", l.Unfinished},
		{"held", "odd", l.Held}, {"forfeited", "odd", l.Forfeited}, {"not accounted for", "bad", max(0, open)},
	} {
		if i < 4 || end.n > 0 {
			out.Parts = append(out.Parts, document.Part{From: float64(x), To: float64(x + end.n), Shape: end.shape,
				Name: end.name, Value: units.Count(end.n), Note: share(end.n, whole)})
		}
		x += end.n
	}
	return out
}

// share formats a part of a whole. A part above zero is never formatted as zero.
func share(n, whole int64) string {
	percent := 100 * float64(n) / float64(whole)
	switch {
	case n == 0:
		return "0 %"
	case percent < 0.01:
		return "< 0.01 %"
	case percent > 99.99 && n < whole:
		return "> 99.99 %"
	}
	return fmt.Sprintf("%.2f %%", percent)
}

// entryBlocks returns the differences and notes of the ledger, with the records concerned.
func entryBlocks(c measure.Conservation, shown evidence) []document.Block {
	var out []document.Block
	for _, entry := range slices.Concat(c.Entries, c.Notes) {
		isNote := slices.ContainsFunc(c.Notes, func(note measure.Entry) bool { return note.Name == entry.Name })
		if entry.Count == 0 || !entry.Difference && !isNote {
			continue
		}
		block := document.Details{Mark: document.Skipped, Word: units.Count(entry.Count), Spare: true}
		block.Title, block.Note = entryWords(entry.Name, c.Unseen)
		if entry.Difference {
			block.Mark = document.Fail
		}
		list := document.List{}
		for _, one := range entry.Records[:min(len(entry.Records), entryLinks)] {
			words := traceLink(fmt.Sprintf("record %d", one.Record), shown.anchors[one.Record])
			if one.Topic != "" && one.Partition >= 0 {
				words = append(words, document.Plain(fmt.Sprintf(" %s-%d @ %d", name(one.Topic), one.Partition, one.Offset))...)
			}
			list.Items = append(list.Items, document.Item{Text: append(words, document.Plain(" "+name(one.ID))...),
				Find: find(one.Record, one.Partition, one.Offset, one.ID, "")})
		}
		if more := entry.Count - int64(len(list.Items)); more > 0 {
			list.Items = append(list.Items, document.Item{Text: document.Plain("and " + units.Count(more) + " more")})
		}
		block.Blocks = []document.Block{list}
		out = append(out, block)
	}
	return out
}

// traceLink returns words that lead to a record's trace if the page has it.
func traceLink(words, anchor string) document.Text {
	if anchor == "" {
		return document.Plain(words)
	}
	return document.Link(words, "#"+anchor)
}

// problem is a record, or a partition, with all its known problems.
type problem struct {
	assertions.Occurrence
	what []string
}

// problemSection lists the problems in the order of the run's clock. Those without a time come last.
func problemSection(v *assertions.Verdict, shown evidence) document.Section {
	problems, counted, kept := problemsOf(v)
	if len(problems) == 0 {
		return document.Section{}
	}
	table := document.Table{Columns: []document.Column{{Title: "record"}, {Title: "partition"}, {Title: "offset"},
		{Title: "key"}, {Title: "since", Help: "When it was first seen, on the run's clock."},
		{Title: "what", Help: "The anomalies that the record is an occurrence of. dlqbench explain NAME explains them."},
		{Title: "record id", Help: "The id in the record's value or header."}}}
	for _, one := range problems[:min(len(problems), indexLimit)] {
		at := "–"
		if one.At >= 0 {
			at = clock(one.At)
		}
		anchor := shown.anchors[one.Record]
		label := cmp.Or(numberWord(int64(one.Record)), "–")
		found := find(one.Record, one.Partition, one.Offset, one.ID, one.Key)
		table.Rows = append(table.Rows, document.Row{Find: found,
			Cells: append([]document.Text{traceLink(label, anchor)}, document.Cells(found["partition"], found["offset"],
				found["key"], at, strings.Join(one.what, ", "), found["id"])...)})
	}
	aside := units.Count(int64(len(table.Rows))) + " places, earliest first"
	if more := len(problems) - len(table.Rows); more > 0 {
		aside += "; " + units.Plural(int64(more), "more is", "more are") + " named in verdict.json"
	}
	if more := counted - kept; more > 0 {
		aside += "; " + units.Plural(more, "more violation is", "more violations are") + " counted but not named"
	}
	return document.Section{Title: "Problem records", Aside: aside, Blocks: []document.Block{document.Details{Spare: true,
		Title: "Show them", Open: len(table.Rows) < openIndex, Blocks: []document.Block{table}}}}
}

// problemsOf groups the occurrences by place. It returns how many occurrences were counted and how many of them are
// kept.
func problemsOf(v *assertions.Verdict) (all []*problem, counted, kept int64) {
	found := map[assertions.Occurrence]*problem{}
	for _, f := range failures(v) {
		counted += f.Count
		kept += min(f.Count, int64(len(f.Records)))
		for _, o := range f.Records {
			at := assertions.Occurrence{Record: o.Record, Topic: o.Topic, Partition: o.Partition, Offset: o.Offset}
			one := found[at]
			if one == nil {
				one = &problem{Occurrence: o}
				found[at] = one
				all = append(all, one)
			}
			if o.At >= 0 && (one.At < 0 || o.At < one.At) {
				one.At = o.At
			}
			one.what = addOnce(one.what, name(f.Name))
		}
	}
	slices.SortStableFunc(all, func(a, b *problem) int { return bySight(&a.Occurrence, &b.Occurrence) })
	return all, counted, kept
}
