package verify

// This file derives the result for each bug from a completeness table, and whether the proof holds.

import (
	"cmp"
	"slices"
)

// missedShare is the number of planted bugs of ordinary consumers for which the default suite may miss one. With fewer
// bugs, but at least four, it may also miss one, so that a slice holds whenever the whole set does.
const missedShare = 10

// bugResult is the result of a planted bug over all scenarios of the suite.
type bugResult struct {
	*BugRow
	// rows are the rows in which the bug was run, the best first.
	rows []*BugRow
	// named is the number of seeds, out of tried, that named the bug: in the scenario that names it best, or in the
	// suite as a whole.
	named, tried int
}

// full reports whether the bug was named with all requested seeds.
func (b bugResult) full(wanted int) bool {
	return b.tried > 0 && b.tried >= wanted && b.named == b.tried
}

// results returns one result for each bug, in the order of the rows.
func (c *Completeness) results() []bugResult {
	var all []bugResult
	for i := range c.Bugs {
		row := &c.Bugs[i]
		at := slices.IndexFunc(all, func(b bugResult) bool { return b.Bug == row.Bug })
		if at < 0 {
			at, all = len(all), append(all, bugResult{BugRow: row})
		}
		all[at].rows = append(all[at].rows, row)
	}
	for i := range all {
		b := &all[i]
		slices.SortStableFunc(b.rows, func(x, y *BugRow) int {
			return cmp.Or(cmp.Compare(min(y.Seeds, c.Wanted), min(x.Seeds, c.Wanted)), better(x, y))
		})
		if b.named, b.tried = b.rows[0].Caught, b.rows[0].Seeds; c.Suite == SuiteDefault {
			b.named, b.tried = together(b.rows)
		}
	}
	return all
}

// together counts the seeds with which at least one scenario named the bug, and the seeds with which one scenario named
// it or all were run.
func together(rows []*BugRow) (named, tried int) {
	times := map[uint64]int{}
	for _, row := range rows {
		for _, run := range row.Runs {
			if times[run.Seed]++; run.Shown {
				times[run.Seed] += len(rows)
			}
		}
	}
	for _, n := range times {
		if n >= len(rows) {
			tried++
		}
		if n > len(rows) {
			named++
		}
	}
	return named, tried
}

// named counts the bugs that were named with all seeds, and all bugs, including those to which no scenario applies.
func (c *Completeness) named() (full, all int) {
	for _, b := range c.results() {
		all++
		if b.full(c.Wanted) {
			full++
		}
	}
	return full, all + len(c.Untried)
}

// Holds reports whether every bug was caught with every seed and no correct consumer was accused. For the default
// suite, nine bugs in ten suffice, or all but one if there are few. Bugs to which none of the scenarios applies are
// reported but do not count as missed: another slice would have to cover them.
func (c *Completeness) Holds() bool {
	full, all := c.named()
	enough := full == all
	if tried := all - len(c.Untried); c.Suite == SuiteDefault {
		enough = tried-full <= max(tried/missedShare, min(1, tried/4))
	}
	passed := !slices.ContainsFunc(c.Controls, func(r ControlRow) bool { return r.Passed < r.Seeds })
	return enough && passed && len(c.Errors) == 0 && len(c.Bugs) > 0
}

// round is the time in seconds that the scenarios of the suite take, run one after the other with the correct consumer.
func (c *Completeness) round() (seconds float64) {
	for _, row := range c.Controls {
		seconds += meanSeconds(row.Runs)
	}
	return seconds
}

// aimed reports whether each bug was run in its own scenario.
func (c *Completeness) aimed() bool { return c.Suite == "" || c.Suite == SuiteAimed }
