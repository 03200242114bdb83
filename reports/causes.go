package reports

// This file tells why a run failed: the violations that no other one explains, each with an example, the violations
// that follow from it, its likely cause, and what to do next. All formats tell the same, in the same order.

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports/document"
)

// docs is where the pages of the invariants are published.
const docs = "https://github.com/dlqbench/dlqbench/blob/main/docs/invariants/"

// lead returns what stands below the title: of a failing run what was promised and how that was broken, of an
// inconclusive one what could not be judged, why, and what to do, of others the headline and the coverage.
func lead(v *assertions.Verdict) []document.Text {
	switch {
	case len(v.Roots) > 0:
		root := v.Roots[0]
		return []document.Text{document.Lines(labelled("Promised:", promise(root.Invariant)),
			labelled("Broken:", text(v.Broken(root))))}
	case v.Verdict == assertions.Inconclusive && len(v.Open) > 0:
		return []document.Text{document.Lines(openLines(v.Open)...)}
	}
	return []document.Text{document.Plain(headline(v)), document.Plain(coverage(v))}
}

// openLines says what could not be judged, and of the first of it why, and what to do.
func openLines(open []assertions.Open) []document.Text {
	return []document.Text{labelled("Not judged:", openWords(open)), labelled("Why:", text(open[0].Why)+"."),
		labelled("What to do:", text(open[0].Do)+".")}
}

// openWords names what could not be judged, with the promise of the first invariant among it.
func openWords(open []assertions.Open) string {
	var parts []string
	promised := ""
	for _, one := range open[:min(len(open), screenRoots)] {
		part := text(one.What)
		if said := promise(one.Invariant); said != "" && promised == "" {
			promised = said
			part += " (" + strings.TrimSuffix(said, ".") + ")"
		}
		parts = append(parts, part)
	}
	if more := len(open) - len(parts); more > 0 {
		parts = append(parts, units.Count(int64(more))+" more")
	}
	return strings.Join(parts, "; ") + "."
}

func labelled(label, words string) document.Text {
	if words == "" {
		return nil
	}
	return append(document.Bold(label), document.Plain(" "+words)...)
}

// causeFacts returns what a reader needs to find the cause of the first root: the likely causes, the commands that show
// more, the violations that follow from it, and its page.
func causeFacts(v *assertions.Verdict, commands ...document.KeyValue) []document.KeyValue {
	if len(v.Roots) == 0 {
		return nil
	}
	root := v.Roots[0]
	likely := cause(root.Invariant, root.Anomaly, root.Summary)
	out := append([]document.KeyValue{fact("Likely cause", likely, "")}, commands...)
	return known(append(out, command("Trace", text(root.Command)),
		document.KeyValue{Key: "Leads to", Value: document.Lines(follow(root)...)},
		document.KeyValue{Key: "Docs", Value: page(root.Invariant, root.Anomaly)})...)
}

// follow returns the consequences of a root, those with the same reason in one line.
func follow(root assertions.Root) []document.Text {
	var order []string
	of := map[string][]string{}
	for _, one := range root.Consequences {
		if of[one.Why] == nil {
			order = append(order, one.Why)
		}
		of[one.Why] = append(of[one.Why], name(one.Invariant)+": "+name(one.Anomaly)+" × "+units.Count(one.Count))
	}
	return each(order, func(why string) document.Text {
		return document.Plain(strings.Join(of[why], ", ") + " (" + text(why) + ")")
	})
}

// furtherRoots lists the violations that neither the first root nor its consequences explain.
func furtherRoots(v *assertions.Verdict) document.List {
	out := document.List{Most: screenRoots}
	for _, root := range v.Roots[min(1, len(v.Roots)):] {
		item := document.Item{Text: document.Plain(brief(root))}
		for _, one := range follow(root) {
			item.Below = append(item.Below, append(document.Plain("leads to "), one...))
		}
		if cause(root.Invariant, root.Anomaly, "") != "" {
			item.Below = append(item.Below, seeAlso("dlqbench explain "+name(root.Anomaly)))
		}
		out.Items = append(out.Items, item)
	}
	return out
}

// brief says in a sentence how a root was violated.
func brief(root assertions.Root) string {
	out := name(root.Invariant) + ": " + name(root.Anomaly) + " × " + units.Count(root.Count)
	if root.Example.Record >= 0 {
		out += ", e.g. record " + strconv.Itoa(int(root.Example.Record))
	}
	if root.Example.At > 0 {
		out += " at " + clock(root.Example.At)
	}
	if root.Summary != "" {
		out += ": " + visible(root.Summary, screenSummary)
	}
	return out
}

// cause describes the typical bugs behind an anomaly of an invariant, or behind one violation, if its summary is given.
func cause(invariant, anomaly, summary string) string {
	for _, about := range assertions.Explain(anomaly) {
		if about.Of == base(invariant) {
			return about.LikelyCause(summary)
		}
	}
	return ""
}

// page links to the page of an invariant, at one of its anomalies.
func page(invariant, anomaly string) document.Text {
	if to := pageOf(invariant, anomaly); to != "" {
		return document.Link(to, to)
	}
	return nil
}

// pageOf returns the address of that page; "" if it is not of the catalogue, as no text from outside becomes a part of
// an address.
func pageOf(invariant, anomaly string) string {
	if !slices.Contains(assertions.Names(), base(invariant)) {
		return ""
	}
	to := docs + base(invariant) + ".md"
	if slices.Contains(assertions.AnomalyNames(), anomaly) {
		to += "#" + anomaly
	}
	return to
}

// followsFrom says of an anomaly from which root it follows, "" if it is a root.
func followsFrom(v *assertions.Verdict, invariant, anomaly string) string {
	for _, root := range v.Roots {
		for _, one := range root.Consequences {
			if one.Invariant == invariant && one.Anomaly == anomaly {
				return "follows from " + name(root.Invariant) + ": " + name(root.Anomaly) + " (" + text(one.Why) + ")"
			}
		}
	}
	return ""
}

// causal returns the results, worst first, and the violated ones in the order of the roots, each before its
// consequences.
func causal(v *assertions.Verdict) []assertions.Result {
	var order []string
	for _, root := range v.Roots {
		order = append(order, root.Invariant)
		for _, one := range root.Consequences {
			order = append(order, one.Invariant)
		}
	}
	out := ranked(v.Invariants)
	slices.SortStableFunc(out, func(a, b assertions.Result) int {
		if a.Status != assertions.Fail || b.Status != assertions.Fail {
			return 0
		}
		return slices.Index(order, a.Name) - slices.Index(order, b.Name)
	})
	return out
}

// failure is an anomaly with the name of its invariant.
type failure struct {
	invariant string
	assertions.Anomaly
}

func failures(v *assertions.Verdict) []failure {
	var out []failure
	for _, r := range causal(v) {
		if r.Status != assertions.Fail {
			continue
		}
		for _, a := range r.Anomalies {
			out = append(out, failure{r.Name, a})
		}
	}
	return out
}

// bySight compares occurrences by the run's clock. Those without a time come last.
func bySight(a, b *assertions.Occurrence) int {
	at := func(o *assertions.Occurrence) uint64 {
		if o == nil {
			return math.MaxUint64
		}
		return uint64(o.At) // no time is -1
	}
	return cmp.Compare(at(a), at(b))
}

// whereFacts says where and when the example of a root is, with links to its trace and to the faults in force.
func whereFacts(v *assertions.Verdict, root assertions.Root, shown evidence) []document.KeyValue {
	var out []document.KeyValue
	where := document.Plain(whereWords(&root.Example))
	if anchor := shown.anchors[root.Example.Record]; anchor != "" {
		where = append(append(where, document.Plain(" ")...), traceLink("its trace", anchor)...)
	}
	if root.Example.Partition >= 0 || root.Example.Record >= 0 {
		out = append(out, document.KeyValue{Key: "Where", Value: where})
	}
	if root.Example.At > 0 {
		out = append(out, document.KeyValue{Key: "When",
			Value: append(document.Plain(sinceWords(v, &root.Example)), faultTags(v, root.Example.At)...)})
	}
	return out
}

// whereWords describes the position of an occurrence: topic, partition, offset, record, key.
func whereWords(o *assertions.Occurrence) string {
	var parts []string
	if o.Topic != "" {
		parts = append(parts, "topic "+name(o.Topic))
	}
	if o.Partition >= 0 {
		parts = append(parts, "partition "+strconv.Itoa(int(o.Partition)))
	}
	if o.Offset >= 0 {
		parts = append(parts, "offset "+strconv.FormatInt(o.Offset, 10))
	}
	if o.Record >= 0 {
		parts = append(parts, "record "+strconv.Itoa(int(o.Record)))
	}
	if o.Key != "" {
		parts = append(parts, "key "+name(o.Key))
	}
	if len(parts) == 0 {
		return "the run as a whole"
	}
	return strings.Join(parts, ", ")
}

// missingWords explains how it is known that a missing event will not come any more.
func missingWords(m assertions.Missing) string {
	return map[assertions.Missing]string{
		assertions.MissingCommitted: ": committed past, so it is not delivered again",
		assertions.MissingDrained:   ": the drain ended, and it was still missing",
		assertions.MissingReplayed:  ": the replay ended, and it was still missing",
		assertions.MissingAudited:   ": the audit looked for it, and it was not there",
	}[m]
}

func sinceWords(v *assertions.Verdict, o *assertions.Occurrence) string {
	return clock(o.At) + " on the run's clock" + phaseWords(v, o) + missingWords(o.Missing)
}

func phaseWords(v *assertions.Verdict, o *assertions.Occurrence) string {
	if o.Phase == "" {
		return ""
	}
	out := ", in the phase " + name(o.Phase)
	for _, p := range v.Phases {
		if p.Name == o.Phase && o.At >= p.From && o.At <= max(p.To, p.From) {
			out += " (" + units.Text((o.At - p.From).Round(time.Millisecond)) + " into it)"
			break
		}
	}
	return out
}

// InvariantPage returns the address of the page about an invariant, "" if it is not of the catalogue.
func InvariantPage(invariant string) string { return pageOf(invariant, "") }
