package assertions

// The basis of a verdict: the promises that were judged, those that were not, and the reasons. A pass makes no
// statement about promises that were not judged.

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// Coverage is the number of judged promises, out of those that could apply to a run's subject. Invariants that cannot
// apply to such a run, as a graph's invariant to a plain consumer, are not counted.
type Coverage struct {
	// Judged counts the promises that passed or failed, Promises all of them.
	Judged   int
	Promises int
	// Parts holds the promises that were judged only in part, those with the most open cases first. Gaps holds those
	// that were not judged, in the order of the verdict.
	Parts []Result
	Gaps  []Result
}

// Coverage returns the number of promises that the verdict judged.
func (v *Verdict) Coverage() Coverage { return Together(v) }

// Together returns the coverage of several runs of a subject: a promise counts as judged if one of them judged it. Nil
// verdicts are skipped.
func Together(verdicts ...*Verdict) Coverage {
	best := map[string]Result{}
	var names []string
	for _, v := range verdicts {
		if v == nil {
			continue
		}
		for _, r := range v.Invariants {
			if r.Unjudged == Inapplicable {
				continue
			}
			known, met := best[r.Name]
			if !met {
				names = append(names, r.Name)
			}
			if !met || r.known() > known.known() {
				best[r.Name] = r
			}
		}
	}
	c := Coverage{Promises: len(names)}
	for _, name := range names {
		switch r := best[name]; {
		case !r.decided():
			c.Gaps = append(c.Gaps, r)
		case r.Partial():
			c.Parts = append(c.Parts, r)
			fallthrough
		default:
			c.Judged++
		}
	}
	return c
}

func (r Result) decided() bool { return r.Status == Pass || r.Status == Fail }

// known ranks results of an invariant by their significance: judged, judged in part, not judged yet, and not judgeable
// in any run of such a subject.
func (r Result) known() int {
	switch {
	case r.decided() && !r.Partial():
		return 4
	case r.decided():
		return 3
	case r.Status == Inconclusive:
		return 2
	case r.Unjudged == Unexercised:
		return 1
	}
	return 0
}

// Extent states the numbers: "12 of 14 promises judged".
func (c Coverage) Extent() string {
	if c.Promises == 1 {
		return fmt.Sprintf("%d of 1 promise judged", c.Judged)
	}
	return fmt.Sprintf("%d of %d promises judged", c.Judged, c.Promises)
}

// String describes it in one line: "12 of 14 promises judged; not judged: ordering (the contract promises no order)".
func (c Coverage) String() string {
	out := c.Extent()
	if len(c.Parts) > 0 {
		var parts []string
		for _, r := range c.Parts {
			parts = append(parts, fmt.Sprintf("%s (%s)", r.Name, r.Share()))
		}
		out += "; in part: " + strings.Join(parts, ", ")
	}
	if len(c.Gaps) > 0 {
		out += "; not judged: " + c.gaps()
	}
	return out
}

// gaps lists the promises that were not judged, grouped by reason.
func (c Coverage) gaps() string {
	byWhy, order := map[string][]string{}, []string{}
	for _, r := range c.Gaps {
		why := r.Why
		if r.Status == Inconclusive {
			why = "inconclusive: " + why
		}
		if byWhy[why] == nil {
			order = append(order, why)
		}
		byWhy[why] = append(byWhy[why], r.Name)
	}
	var parts []string
	for _, why := range order {
		part := strings.Join(byWhy[why], ", ")
		if why != "" {
			part += " (" + why + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

// partialBelow is the share, in percent, of an invariant's cases below which it counts as judged only in part.
const partialBelow = 90

// Partial reports whether the invariant judged some cases, and left more than a tenth of them open.
func (r Result) Partial() bool {
	return r.Judged > 0 && r.Open > 0 && r.Judged*100 < (r.Judged+r.Open)*partialBelow
}

// Share states how much was judged, and the most frequent reason for the rest: "353 of 3,093 records, most of the
// others not: stall".
func (r Result) Share() string {
	out := fmt.Sprintf("%s of %s %s", units.Count(r.Judged), units.Count(r.Judged+r.Open), r.Of)
	if why := r.MostOpen(); why != "" {
		out += "; the others mostly not: " + why
	}
	return out
}

// MostOpen returns the most frequent reason for cases that could not be judged, or "" if all were judged.
func (r Result) MostOpen() string {
	most := ""
	for _, why := range slices.Sorted(maps.Keys(r.NotJudged)) {
		if most == "" || r.NotJudged[why] > r.NotJudged[most] {
			most = why
		}
	}
	return most
}

// Outlook says of each invariant whether runs of a subject like this can judge it, as far as the contract decides. An
// invariant that cannot be judged has the result that every such run has; the others have a name only. The header is
// that of a run with everything that such a subject can be exercised with.
func Outlook(header history.Header) []Result {
	w := newState(&header)
	var all []Result
	for _, one := range catalogue() {
		if one.Experimental {
			continue
		}
		result := Result{Name: one.Name}
		if not, _ := one.unmet(w); not != nil {
			result = *not
		}
		all = append(all, result)
	}
	return all
}

// ByContract reports whether no run of such a subject can judge the invariant, whatever its scenario.
func (r Result) ByContract() bool {
	return r.Unjudged == Unpromised || r.Unjudged == Unseen
}
