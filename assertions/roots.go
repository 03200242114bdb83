package assertions

// The order of the violations by what follows from what. It is found from a verdict alone, and changes nothing in it.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// violation is an anomaly of a violated invariant, with its place in the order of causes.
type violation struct {
	*Anomaly
	invariant string
	// scope is the node or the service of the invariant, base the name without it.
	scope, base string
	places      []Occurrence
	// cause is the violation that it follows from, nil for a root; why is the reason.
	cause *violation
	why   string
}

// Roots returns the violations of a verdict that no other violation explains, each with those that follow from it. A
// violation follows from another if the table of consequences says so and each occurrence with a known place and time
// can be explained: by an occurrence of a cause in the same record or partition (as the table says) that is not later.
func Roots(v *Verdict) []Root {
	all := violationsOf(v)
	rows := links()
	inTable := func(f *violation) int {
		at := slices.IndexFunc(rows, func(row link) bool { return f.among(row.effects) })
		if at < 0 {
			return len(rows)
		}
		return at
	}
	ordered := slices.Clone(all)
	slices.SortStableFunc(ordered, func(a, b *violation) int { return inTable(a) - inTable(b) })
	for _, f := range ordered {
		f.explain(all, rows)
	}
	groups := map[*violation][]*violation{}
	for _, f := range all {
		if root := f.root(); root != f {
			groups[root] = append(groups[root], f)
		}
	}
	roots := slices.DeleteFunc(slices.Clone(all), func(f *violation) bool { return f.cause != nil })
	slices.SortStableFunc(roots, func(a, b *violation) int {
		return cmp.Or(boolFirst(a.clear(), b.clear()), len(groups[b])-len(groups[a]), a.sooner(b))
	})
	var out []Root
	for _, f := range roots {
		out = append(out, f.told(v, groups[f]))
	}
	return out
}

func violationsOf(v *Verdict) []*violation {
	var all []*violation
	for i := range v.Invariants {
		r := &v.Invariants[i]
		if r.Status != Fail {
			continue
		}
		for k := range r.Anomalies {
			f := &violation{Anomaly: &r.Anomalies[k], invariant: r.Name, base: r.Name}
			if scope, base, found := strings.Cut(r.Name, "/"); found {
				f.scope, f.base = scope, base
			}
			f.places = slices.Clone(f.Records)
			if len(f.places) == 0 && f.First != nil {
				f.places = append(f.places, *f.First)
			}
			if len(f.places) == 0 && len(f.Counterexamples) > 0 {
				f.places = append(f.places, f.Counterexamples[0].place())
			}
			all = append(all, f)
		}
	}
	return all
}

// explain finds the cause of a violation among the others. Several causes together may explain it; then it is said to
// follow from the one that explains most.
func (f *violation) explain(all []*violation, rows []link) {
	explained := make([]bool, len(f.places))
	var (
		best   int
		likely *violation // f has no cause before the end, so that those that follow from it have it as their root
		why    string
	)
	unknown := make([]bool, len(f.places))
	for _, row := range rows {
		if !f.among(row.effects) {
			continue
		}
		for _, cause := range all {
			if cause == f || cause.root() == f || !cause.is(row.cause) || !cause.reaches(f) {
				continue
			}
			n := 0
			for i := range f.places {
				switch {
				case cause.before(&f.places[i], row.near):
					explained[i] = true
					n++
				case cause.beyondKnown(&f.places[i]):
					unknown[i] = true
				}
			}
			if n > best {
				best, likely, why = n, cause, row.why
			}
		}
	}
	for i := range explained {
		if !explained[i] && !unknown[i] {
			return
		}
	}
	f.cause, f.why = likely, why
}

// before reports whether an occurrence of the violation explains one of another, as near as it must be. Where one of
// them has no place, the time alone decides.
func (f *violation) before(effect *Occurrence, within near) bool {
	return slices.ContainsFunc(f.places, func(one Occurrence) bool {
		if one.At >= 0 && effect.At >= 0 && one.At > effect.At+stampSlack {
			return false
		}
		switch {
		case within == anywhere || one.Partition < 0 || effect.Partition < 0:
			return true
		case within == samePartition || one.Record < 0 || effect.Record < 0:
			return one.Topic == effect.Topic && one.Partition == effect.Partition
		}
		return one.Record == effect.Record
	})
}

// beyondKnown reports whether an occurrence is no earlier than the last of those of which the verdict has the places.
// Its record may then be among the others.
func (f *violation) beyondKnown(effect *Occurrence) bool {
	if int64(len(f.places)) >= f.Count {
		return false
	}
	last := slices.MaxFunc(f.places, func(a, b Occurrence) int { return cmp.Compare(a.At, b.At) })
	return effect.At >= last.At
}

// reaches reports whether a violation can have effects where the other was seen: in the same consumer, or in all of
// them together.
func (f *violation) reaches(other *violation) bool {
	whole := func(f *violation) bool { return f.base == graphConservation || f.base == serviceSeparation }
	return f.scope == other.scope || whole(f) || whole(other)
}

func (f *violation) is(name string) bool { return name == f.Name || name == f.base+": "+f.Name }

func (f *violation) among(names []string) bool { return slices.ContainsFunc(names, f.is) }

func (f *violation) root() *violation {
	for f.cause != nil {
		f = f.cause
	}
	return f
}

// clear reports whether the violation does not look like noise of the clocks.
func (f *violation) clear() bool {
	return len(f.Counterexamples) == 0 || slices.ContainsFunc(f.Counterexamples, Counterexample.clear)
}

func (w Counterexample) clear() bool { return w.Margin == 0 || w.Margin >= noiseMargin }

// sooner compares failures by their first occurrence. Those without a time come last.
func (f *violation) sooner(other *violation) int {
	at := func(f *violation) uint64 {
		if f.First == nil {
			return uint64(endless)
		}
		return uint64(f.First.At) // none is -1
	}
	return cmp.Compare(at(f), at(other))
}

func boolFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// told returns the root with its consequences, those first that share its example.
func (f *violation) told(v *Verdict, follow []*violation) Root {
	out := Root{Invariant: f.invariant, Anomaly: f.Name, Count: f.Count, Example: Occurrence{Record: none, Partition: none,
		Offset: none, At: none}}
	if f.First != nil {
		out.Example = *f.First
	}
	if w := f.example(follow); w != nil {
		out.Example, out.Summary, out.Command = w.place(), w.Summary, w.Command
		out.Example.Phase = v.phaseOf(&out.Example)
	}
	for _, one := range follow {
		out.Consequences = append(out.Consequences, Consequence{one.invariant, one.Name, one.Count, one.why})
		if out.Command == "" && one.example(nil) != nil {
			out.Command = one.example(nil).Command
		}
	}
	out.Example.Command = out.Command
	return out
}

// example returns the counterexample that shows the violation and its consequences best, nil if there is none.
func (f *violation) example(follow []*violation) *Counterexample {
	shared := func(w *Counterexample) int {
		n := 0
		for _, one := range follow {
			if w.Record >= 0 && slices.ContainsFunc(one.Counterexamples, func(other Counterexample) bool {
				return other.Record == w.Record
			}) {
				n++
			}
		}
		return n
	}
	margin := func(w *Counterexample) time.Duration {
		if w.Margin == 0 { // it never came
			return endless
		}
		return w.Margin
	}
	var best *Counterexample
	for i := range f.Counterexamples {
		w := &f.Counterexamples[i]
		if best == nil || cmp.Or(boolFirst(w.clear(), best.clear()), shared(best)-shared(w),
			cmp.Compare(margin(best), margin(w)), cmp.Compare(w.At, best.At)) < 0 {
			best = w
		}
	}
	return best
}

func (w *Counterexample) place() Occurrence {
	return Occurrence{Record: w.Record, ID: w.ID, Key: w.Key, Topic: w.Topic, Partition: w.Partition, Offset: w.Offset,
		At: w.At, Missing: w.Missing}
}

// phaseOf returns the phase of the run in which something was violated. If it is sure from the end of a phase on, it is
// the phase that ended.
func (v *Verdict) phaseOf(o *Occurrence) string {
	at, name := o.At, ""
	if o.Missing == MissingDrained || o.Missing == MissingReplayed {
		at--
	}
	for _, one := range v.Phases {
		if at >= one.From && o.At >= 0 {
			name = one.Name
		}
	}
	return name
}

// exampleFirst moves the counterexamples that the roots show to the front.
func (v *Verdict) exampleFirst() {
	front := func(invariant, anomaly string, shown func(Counterexample) bool) {
		for i := range v.Invariants {
			for k := range v.Invariants[i].Anomalies {
				if a := &v.Invariants[i].Anomalies[k]; v.Invariants[i].Name == invariant && a.Name == anomaly {
					slices.SortStableFunc(a.Counterexamples, func(a, b Counterexample) int {
						return boolFirst(shown(a), shown(b))
					})
				}
			}
		}
	}
	for _, root := range v.Roots {
		front(root.Invariant, root.Anomaly, func(w Counterexample) bool { return w.Summary == root.Summary })
		for _, one := range root.Consequences {
			front(one.Invariant, one.Anomaly, func(w Counterexample) bool { return w.Command == root.Command })
		}
	}
}

// Broken says in one or two sentences how a root was violated: how often, an example, when, and under which faults.
func (v *Verdict) Broken(r Root) string {
	out := fmt.Sprintf("%s is violated: %s, %s", r.Invariant, r.Anomaly, times(r.Count))
	eg := ", e.g. "
	if r.Count == 1 {
		eg = ": "
	}
	switch at, topic := r.Example, strings.TrimPrefix(r.Example.Topic, v.RunID+"."); {
	case r.Summary == "":
	case at.Record >= 0 && at.Offset >= 0:
		out += fmt.Sprintf("%srecord %d (%s-%d offset %d): %s", eg, at.Record, topic, at.Partition, at.Offset, r.Summary)
	case at.Record >= 0:
		out += fmt.Sprintf("%srecord %d: %s", eg, at.Record, r.Summary)
	default:
		out += eg + r.Summary
	}
	if when := v.when(&r.Example); when != "" {
		out = strings.TrimSuffix(out, ".") + ". That was " + when
	}
	return strings.TrimSuffix(out, ".") + "."
}

// Reason says in sentences how a root was violated, and what follows from it.
func (v *Verdict) Reason(r Root) string {
	out := v.Broken(r)
	if follow := r.Follow(); follow != "" {
		out += " Follows from it: " + follow + "."
	}
	return out
}

// when says at what time something was violated, in which phase, and with which faults in force.
func (v *Verdict) when(o *Occurrence) string {
	clock := fmt.Sprintf("%.3f s", o.At.Seconds())
	switch {
	case o.At <= 0:
		return ""
	case o.Missing == MissingDrained:
		return "certain when the drain ended, at " + clock
	case o.Missing == MissingReplayed:
		return "certain when the replay was over, at " + clock
	case o.Missing == MissingAudited:
		return "certain when the audit did not find it, at " + clock
	}
	out := "at " + clock
	for _, one := range v.Phases {
		into := (o.At - one.From).Round(time.Millisecond)
		switch {
		case one.Name != o.Phase:
			continue
		case one.Name == history.PhaseAudit:
			return "found by the audit, at " + clock
		case into <= 0:
			out += ", at the start of the phase " + one.Name
		default:
			out += fmt.Sprintf(", %s into the phase %s", units.Text(into), one.Name)
		}
		break
	}
	return out + ", " + v.inForce(o.At)
}

// inForce names the faults that were in force at a time.
func (v *Verdict) inForce(at time.Duration) string {
	const most = 3
	var names []string
	lifted := ""
	for _, f := range v.Faults {
		switch seen := f.Observed; {
		case !seen.Injected || at < seen.From:
		case at <= seen.To:
			names = append(names, cmp.Or(f.Name, f.Kind))
		case at <= seen.To+catchUp:
			lifted = fmt.Sprintf(", %s after %s was lifted", units.Text(at-seen.To), cmp.Or(f.Name, f.Kind))
		}
	}
	switch n := len(names); {
	case n == 0:
		return "with no fault in force" + lifted
	case n > most:
		return fmt.Sprintf("with %s and %d more faults in force", strings.Join(names[:most], ", "), n-most)
	}
	return "with " + strings.Join(names, ", ") + " in force"
}

// Follow lists the consequences of a root, "" if there are none.
func (r Root) Follow() string {
	var parts []string
	for _, one := range r.Consequences {
		parts = append(parts, fmt.Sprintf("%s: %s × %s", one.Invariant, one.Anomaly, units.Count(one.Count)))
	}
	return strings.Join(parts, ", ")
}
