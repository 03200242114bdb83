package reports

// This file builds the index of all records with known problems. It is short, so it can name many more records than
// there are counterexamples. The page's search covers both.

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/units"
)

// indexLimit is the maximum number of records that the page names. verdict.json has more of them.
const indexLimit = 1000

type indexView struct {
	Rows []indexRow
	// Untold is the number of records not named here, "" if all are.
	Untold string
}

type indexRow struct {
	Record, ID, Key, Topic, Partition, Offset, At, What string
	// Anchor is the id of the record's trace in this page, "" if the page does not have it.
	Anchor string
}

// problem is a record, or a partition, with all its known problems.
type problem struct {
	assertions.Occurrence
	what []string
}

// problemPlace identifies a problem: occurrences with the same place belong to the same problem.
type problemPlace struct {
	record    int32
	topic     string
	partition int32
	offset    int64
}

// newIndexView lists the problems in the order of the run's clock. Those without a time come last.
func newIndexView(v *assertions.Verdict, anchors map[int32]string) indexView {
	problems, counted, kept := problemsOf(v)
	out := indexView{}
	for _, one := range problems[:min(len(problems), indexLimit)] {
		row := indexRow{ID: name(one.ID), Key: name(one.Key), Topic: name(one.Topic), What: strings.Join(one.what, ", "),
			At: "–"}
		row.Record, row.Partition, row.Offset = numberWord(int64(one.Record)), numberWord(int64(one.Partition)),
			numberWord(one.Offset)
		row.Anchor = anchors[one.Record]
		if one.At >= 0 {
			row.At = clock(one.At)
		}
		out.Rows = append(out.Rows, row)
	}
	var parts []string
	if more := len(problems) - len(out.Rows); more > 0 {
		parts = append(parts, units.Plural(int64(more), "more is", "more are")+" named in verdict.json")
	}
	if more := counted - kept; more > 0 {
		parts = append(parts, units.Plural(more, "more violation is", "more violations are")+" counted but not named")
	}
	out.Untold = strings.Join(parts, "; ")
	return out
}

// problemsOf groups the occurrences by place. It returns how many occurrences were counted and how many of them are
// kept.
func problemsOf(v *assertions.Verdict) (all []*problem, counted, kept int64) {
	known := map[problemPlace]*problem{}
	for _, f := range failures(v) {
		counted += f.Count
		kept += min(f.Count, int64(len(f.Records)))
		for _, o := range f.Records {
			at := problemPlace{o.Record, o.Topic, o.Partition, o.Offset}
			one := known[at]
			if one == nil {
				one = &problem{Occurrence: o}
				known[at] = one
				all = append(all, one)
			}
			if o.At >= 0 && (one.At < 0 || o.At < one.At) {
				one.At = o.At
			}
			if what := name(f.Name); !slices.Contains(one.what, what) {
				one.what = append(one.what, what)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *problem) int { return cmp.Compare(sortTime(a.At), sortTime(b.At)) })
	return all, counted, kept
}

// sortTime sorts problems without a time after all others.
func sortTime(at time.Duration) time.Duration {
	if at < 0 {
		return 1<<63 - 1
	}
	return at
}
