package verify

// What a table of completeness says about each bug, and whether it holds.

import (
	"cmp"
	"slices"
)

// missedShare: of so many bugs of ordinary consumers one may be missed by the default suite. Of fewer, but four at
// least, one may be as well, so that any slice of them holds where all of them do.
const missedShare = 10

// bug is a planted bug over all scenarios of the suite.
type bug struct {
	*MutantRow
	// rows are those in which it was run, the best first.
	rows []*MutantRow
	// named of tried seeds: of the scenario that names it best, or of the suite as a whole.
	named, tried int
}

// full reports whether the bug was named with all seeds that were asked for.
func (b bug) full(wanted int) bool { return b.tried > 0 && b.tried >= wanted && b.named == b.tried }

// bugs returns the bugs in the order of the rows.
func (c *Completeness) bugs() []bug {
	var all []bug
	for i := range c.Mutants {
		row := &c.Mutants[i]
		at := slices.IndexFunc(all, func(b bug) bool { return b.Mutant == row.Mutant })
		if at < 0 {
			at, all = len(all), append(all, bug{MutantRow: row})
		}
		all[at].rows = append(all[at].rows, row)
	}
	for i := range all {
		b := &all[i]
		slices.SortStableFunc(b.rows, func(x, y *MutantRow) int {
			return cmp.Or(cmp.Compare(min(y.Seeds, c.Wanted), min(x.Seeds, c.Wanted)), better(x, y))
		})
		if b.named, b.tried = b.rows[0].Caught, b.rows[0].Seeds; c.Suite == SuiteDefault {
			b.named, b.tried = together(b.rows)
		}
	}
	return all
}

// together counts the seeds with which one of the scenarios named the bug, and those with which one did or all were
// run.
func together(rows []*MutantRow) (named, tried int) {
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

// named counts the bugs that were named with all seeds, and all of them, those included to which nothing applies.
func (c *Completeness) named() (full, all int) {
	for _, b := range c.bugs() {
		all++
		if b.full(c.Wanted) {
			full++
		}
	}
	return full, all + len(c.Untried)
}

// Holds reports whether every bug was caught with every seed and no correct consumer was accused; of the default suite,
// nine bugs in ten, and all but one of a few. Those to which none of its scenarios applies are told, and miss nothing:
// another slice would have to make up for them.
func (c *Completeness) Holds() bool {
	full, all := c.named()
	enough := full == all
	if tried := all - len(c.Untried); c.Suite == SuiteDefault {
		enough = tried-full <= max(tried/missedShare, min(1, tried/4))
	}
	passed := !slices.ContainsFunc(c.Controls, func(r ControlRow) bool { return r.Passed < r.Seeds })
	return enough && passed && len(c.Errors) == 0 && len(c.Mutants) > 0
}

// round is how long the scenarios of the suite take one after the other with the correct consumer, in seconds.
func (c *Completeness) round() (seconds float64) {
	for _, row := range c.Controls {
		seconds += meanSeconds(row.Runs)
	}
	return seconds
}

// aimed reports whether each bug was run in its own scenario.
func (c *Completeness) aimed() bool { return c.Suite == "" || c.Suite == SuiteAimed }
