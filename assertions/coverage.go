package assertions

// How much a verdict rests on: which promises were judged, and which were not, and why. A pass says nothing about what nobody looked at.

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/history"
)

// Coverage is how many of the promises that a run's subject could be held to were judged. What can't apply to such a run, as a graph's invariant to a
// plain consumer, is none of them.
type Coverage struct {
	// Judged counts those that passed or failed, Promises all of them.
	Judged   int
	Promises int
	// Parts are the judged ones of which most is open, Gaps those that were not judged; both in the order of the verdict.
	Parts []Result
	Gaps  []Result
}

// Coverage returns how much of what was promised the verdict is about.
func (v *Verdict) Coverage() Coverage {
	var c Coverage
	for _, r := range v.Invariants {
		switch {
		case r.Unjudged == Inapplicable:
			continue
		case r.Status == Pass || r.Status == Fail:
			c.Judged++
			if r.Partial() {
				c.Parts = append(c.Parts, r)
			}
		default:
			c.Gaps = append(c.Gaps, r)
		}
		c.Promises++
	}
	return c
}

// String says it in a line: "12 of 14 promises judged; not judged: ordering (the contract promises no order)".
func (c Coverage) String() string {
	out := fmt.Sprintf("%d of %d promises judged", c.Judged, c.Promises)
	if c.Promises == 1 {
		out = fmt.Sprintf("%d of 1 promise judged", c.Judged)
	}
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

// gaps names what was not judged, those with the same reason together.
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

// partialBelow is the share, in percent, of the things an invariant was met with, below which it has judged them in part only.
const partialBelow = 90

// Partial reports whether the invariant judged something, and left more than a tenth of it open.
func (r Result) Partial() bool {
	return r.Judged > 0 && r.Open > 0 && r.Judged*100 < (r.Judged+r.Open)*partialBelow
}

// Share says how much was judged, and why most of the rest was not: "353 of 3,093 records, most of the others not: stall".
func (r Result) Share() string {
	out := fmt.Sprintf("%s of %s %s", thousands(r.Judged), thousands(r.Judged+r.Open), r.Of)
	if why := r.MostOpen(); why != "" {
		out += "; the others mostly not: " + why
	}
	return out
}

// MostOpen is the reason for which most could not be judged, "" if everything was.
func (r Result) MostOpen() string {
	most := ""
	for _, why := range slices.Sorted(maps.Keys(r.NotJudged)) {
		if most == "" || r.NotJudged[why] > r.NotJudged[most] {
			most = why
		}
	}
	return most
}

func thousands(n int64) string {
	digits := fmt.Sprint(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// Outlook says of each invariant whether runs of a subject like this can judge it, as far as the contract decides: of those that can't be, the result
// that every such run has, of the others the name alone. The header is that of a run with everything that such a subject is put to.
func Outlook(header history.Header) []Result {
	w := newWorld(&header)
	var all []Result
	for _, one := range catalogue() {
		result := Result{Name: one.name}
		if not, known := one.make(w).(unpromised); known {
			result = not.result
		}
		all = append(all, result)
	}
	return all
}
