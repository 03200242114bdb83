package reports

// This file decides what all formats say about a run: its result, the reason in one sentence, the effects of each
// fault, and the order of things.

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/units"
)

// standing is the result of a run as a whole: its verdict, or missed if all promises were kept but a threshold was
// not.
type standing string

const (
	standsPass         standing = "pass"
	standsFail         standing = "fail"
	standsInconclusive standing = "inconclusive"
	standsMissed       standing = "missed"
)

// stands never returns a better result than the verdict. An unknown verdict is inconclusive.
func stands(v *assertions.Verdict) standing {
	switch v.Verdict {
	case assertions.Fail:
		return standsFail
	case assertions.Pass:
		if len(missed(v)) > 0 {
			return standsMissed
		}
		return standsPass
	}
	return standsInconclusive
}

// word returns the banner text of the verdict.
func (s standing) word() string {
	return cmp.Or(map[standing]string{standsFail: "FAIL", standsPass: "PASS", standsMissed: "THRESHOLD MISSED"}[s],
		"INCONCLUSIVE")
}

func missed(v *assertions.Verdict) []measure.Threshold {
	var out []measure.Threshold
	for _, t := range v.Thresholds {
		if !t.Met {
			out = append(out, t)
		}
	}
	return out
}

// headline explains the result in one sentence.
func headline(v *assertions.Verdict) string {
	if v.Verdict != assertions.Pass && len(v.Reasons) > 0 {
		return text(v.Reasons[0])
	}
	switch stands(v) {
	case standsFail:
		return "A promise was broken."
	case standsInconclusive:
		return "The run does not show enough to judge it either way."
	case standsMissed:
		first := missed(v)[0]
		return fmt.Sprintf("Every promise that was judged was kept, but %s not met: %s.", wasMissed(v), thresholdText(first))
	}
	return passedHeadline(v)
}

// furtherReasons returns the reasons that neither the headline nor the roots mention. Missed thresholds are shown
// elsewhere.
func furtherReasons(v *assertions.Verdict) []string {
	if v.Verdict == assertions.Pass {
		return nil
	}
	further := v.Reasons[min(len(v.Reasons), max(1, len(v.Roots))):]
	return slices.DeleteFunc(slices.Clone(further), func(reason string) bool {
		return slices.ContainsFunc(missed(v), func(t measure.Threshold) bool {
			return strings.Contains(reason, t.Expression)
		})
	})
}

func wasMissed(v *assertions.Verdict) string {
	n := int64(len(missed(v)))
	if n == 1 {
		return "1 threshold was"
	}
	return fmt.Sprintf("%d thresholds were", n)
}

func passedHeadline(v *assertions.Verdict) string {
	held := count(v.Invariants, func(r assertions.Result) bool { return r.Status == assertions.Pass })
	out := fmt.Sprintf("%s held over %s", units.Plural(int64(held), "invariant", "invariants"),
		counted(v.Ledger.Acknowledged, "records"))
	if len(v.Faults) > 0 {
		out += " while " + tookEffect(v)
	}
	return out + "."
}

// coverage describes how much of the contract the verdict covers. A pass says nothing about what was not judged, and
// a subject that promises little is judged little.
func coverage(v *assertions.Verdict) string { return visible(v.Coverage().String(), maxCoverage) }

// judgedWords says how many promises held, and how many were judged.
func judgedWords(v *assertions.Verdict) string { return heldOf(v) + "; " + coverage(v) }

// judgedOf describes how much an invariant judged: "3,093 records", or "353 of 3,093 records" if it judged only a
// part.
func judgedOf(r assertions.Result) string {
	if r.Partial() {
		return units.Count(r.Judged) + " of " + counted(r.Judged+r.Open, text(r.Of))
	}
	return counted(r.Judged, text(r.Of))
}

// judgedCount is judgedOf without the noun.
func judgedCount(r assertions.Result) string {
	if r.Partial() {
		return units.Count(r.Judged) + " of " + units.Count(r.Judged+r.Open)
	}
	return units.Count(r.Judged)
}

// tookEffect counts the faults that had their intended effect, and those that did not. A run may pass without the
// latter, but it has then shown nothing about them.
func tookEffect(v *assertions.Verdict) string {
	took, idle := int64(0), int64(0)
	for _, f := range v.Faults {
		switch became(v, f) {
		case faultVacuous, faultNotInjected, faultRefused:
			idle++
		default:
			took++
		}
	}
	switch {
	case idle == 0:
		return units.Plural(took, "fault", "faults") + " took effect"
	case took == 0:
		return units.Plural(idle, "fault", "faults") + " had no effect"
	}
	return units.Plural(took, "fault", "faults") + " took effect and " + units.Count(idle) + " had none"
}

func thresholdText(t measure.Threshold) string {
	out := text(t.Expression)
	if t.Actual != "" {
		out += " (was " + text(t.Shown()) + ")"
	}
	if t.Error != "" {
		out += ": " + text(t.Error)
	}
	return out
}

// experimentalTitle is the title above the results of experimental invariants.
const experimentalTitle = "Experimental: reported, decides nothing"

// ranked returns the invariants, worst first. Invariants with the same status keep their order.
func ranked(results []assertions.Result) []assertions.Result {
	rank := func(r assertions.Result) int {
		return slices.Index([]assertions.Status{assertions.Pass, assertions.Inconclusive, assertions.Fail}, r.Status)
	}
	out := slices.Clone(results)
	slices.SortStableFunc(out, func(a, b assertions.Result) int { return rank(b) - rank(a) })
	return out
}

// faultState is the result of a planned fault, in the word shown to the reader.
type faultState string

const (
	faultEffective   faultState = "took effect"
	faultInjected    faultState = "injected"
	faultVacuous     faultState = "no effect"
	faultNotInjected faultState = "not injected"
	faultNotHealed   faultState = "not healed"
	faultRefused     faultState = "refused"
)

// became returns the result of a fault. The judge decides, not the report, whether a fault without effect makes the
// run vacuous. If the verdict is pass, the judge was satisfied.
func became(v *assertions.Verdict, f assertions.FaultResult) faultState {
	switch {
	case f.Refused != "":
		return faultRefused
	case !f.Observed.Injected:
		return faultNotInjected
	case !f.Observed.Healed && f.For > 0:
		return faultNotHealed
	case effectsTotal(f) > 0:
		return faultEffective
	case v.Verdict == assertions.Pass && !f.MayMiss:
		return faultInjected
	}
	return faultVacuous
}

// sound reports whether the fault had its intended effect.
func (s faultState) sound() bool { return s == faultEffective || s == faultInjected }

func effectsTotal(f assertions.FaultResult) int64 {
	total := int64(0)
	for _, n := range f.Observed.Effects {
		total += n
	}
	return total
}

// effects lists a fault's effects, the most frequent first. For a fault without effects on which no result depends,
// it gives the reason.
func effects(f assertions.FaultResult) string {
	if why := whyIdle(f); why != "" {
		return why
	}
	kinds := slices.SortedFunc(maps.Keys(f.Observed.Effects), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.Observed.Effects[b], f.Observed.Effects[a]), strings.Compare(a, b))
	})
	parts := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		n := f.Observed.Effects[kind]
		parts = append(parts, units.Count(n)+" "+numbered(name(kind), n))
	}
	return strings.Join(parts, ", ")
}

// numbered returns the name of an effect in the number of its count. Its first word that ends with s is what counts.
func numbered(effect string, n int64) string {
	words := strings.Fields(effect)
	at := slices.IndexFunc(words, func(word string) bool { return strings.HasSuffix(word, "s") })
	if at < 0 {
		return effect
	}
	one, more := strings.TrimSuffix(words[at], "s"), words[at]
	switch more {
	case "process", "processes":
		one, more = "process", "processes"
	case "entries":
		one = "entry"
	}
	if words[at] = more; n == 1 {
		words[at] = one
	}
	return strings.Join(words, " ")
}

// whyIdle returns the reason why a fault without effects did nothing, if the verdict does not depend on it. For the
// others the verdict's reasons say it.
func whyIdle(f assertions.FaultResult) string {
	switch {
	case f.Refused != "":
		return text(f.Refused)
	case f.MayMiss && effectsTotal(f) == 0:
		return text(f.Observed.Idle)
	}
	return ""
}

// byHand names the person who injected a fault; "" for one of the scenario.
func byHand(f assertions.FaultResult) string {
	if f.By == "" {
		return ""
	}
	return "; injected by " + text(f.By)
}

// window formats a time window. A window without length is a moment.
func window(w assertions.FaultWindow) string {
	if w.To <= w.From {
		return moment(w.From)
	}
	return fmt.Sprintf("%.1f – %.1f s", w.From.Seconds(), w.To.Seconds())
}

func faultName(f assertions.FaultResult) string { return name(cmp.Or(f.Name, f.Kind)) }

// knownLatency is a measured latency: its display name, and its start and end points.
type knownLatency struct{ key, title, span string }

// knownLatencies returns the latencies in the order of a record's lifecycle.
func knownLatencies() []knownLatency {
	return []knownLatency{
		{measure.LatencySend, "Send", "intended send time to acknowledged"},
		{measure.LatencyFirstAttempt, "First attempt", "acknowledged to start of the first attempt"},
		{measure.LatencySuccess, "Success", "intended send time to end of the successful attempt"},
		{measure.LatencyService, "Service", "start of the first attempt to end of the successful attempt"},
		{measure.LatencyDeadLetter, "Dead letter", "intended send time to acknowledged in the DLQ"},
		{measure.LatencyBackoffError, "Backoff error", "actual gap minus promised wait"},
		{measure.LatencyCommitDelay, "Commit delay", "end of processing to covered by an accepted commit"},
		{measure.LatencyReplay, "Replay", "dead letter republished to finished again"},
		{measure.LatencySlip, "Schedule slip", "intended send time to handed to the producer"},
	}
}

func latencyAt(key string) int {
	return slices.IndexFunc(knownLatencies(), func(one knownLatency) bool { return one.key == key })
}

// latencyNames lists the measured latencies, the known ones in their order. Unknown ones, whose place -1 is the largest
// uint, follow by name.
func latencyNames(latencies map[string]measure.Latency) []string {
	return slices.SortedFunc(maps.Keys(latencies), func(a, b string) int {
		return cmp.Or(cmp.Compare(uint(latencyAt(a)), uint(latencyAt(b))), strings.Compare(a, b))
	})
}

// latencyTitle returns a latency's display name and, if known, its start and end points.
func latencyTitle(key string) (title, span string) {
	if at := latencyAt(key); at >= 0 {
		return knownLatencies()[at].title, knownLatencies()[at].span
	}
	return name(key), ""
}

// phaseNames lists the phases for which a map has figures: the whole run first, then in the order of the run.
func phaseNames[V any](byPhase map[string]V, phases []measure.Phase) []string {
	order := []string{measure.PhaseAll}
	for _, p := range phases {
		order = append(order, p.Name)
	}
	order = append(order, slices.Sorted(maps.Keys(byPhase))...)
	var out []string
	for _, key := range order {
		if _, ok := byPhase[key]; ok && !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	return out
}

// ended returns the run's length on its clock.
func ended(v *assertions.Verdict) time.Duration {
	var end time.Duration
	for _, p := range v.Phases {
		end = max(end, p.To)
	}
	return end
}

// notJudged lists how much an invariant could not judge, by reason. It returns "" if there is nothing.
func notJudged(r assertions.Result) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(r.NotJudged)) {
		if n := r.NotJudged[reason]; n > 0 {
			parts = append(parts, units.Count(n)+" not judged: "+text(reason))
		}
	}
	return strings.Join(parts, "; ")
}

// position formats a record's position, "" for a counterexample that concerns no record.
func position(w assertions.Counterexample) string {
	var out string
	if w.Topic != "" {
		out = name(w.Topic)
		if w.Partition >= 0 {
			out += fmt.Sprintf("-%d", w.Partition)
		}
		if w.Offset >= 0 {
			out += fmt.Sprintf(" @ %d", w.Offset)
		}
	}
	if w.Record >= 0 {
		out = strings.TrimSpace(fmt.Sprintf("record %d  %s", w.Record, out))
	}
	return out
}

// balance returns the acknowledged records minus the accounted ones in the ledger: positive if records are
// unaccounted for, negative if some have two final states.
func balance(l measure.Ledger) int64 {
	return l.Acknowledged - l.Succeeded - l.Logical - l.DeadLettered - l.Unfinished - l.Held - l.Forfeited
}
