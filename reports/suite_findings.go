package reports

// This file gathers what is wrong in a gate: each violated invariant once, with the place that promises it and all runs
// that violate it, and the other reasons why runs do not pass. Annotations and the list of what to do are made of it.

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/reports/document"
)

// suiteFinding is an invariant that is violated, and waived or not, at a place of a contract.
type suiteFinding struct {
	invariant, cause string
	where            SuitePlace
	waived           bool
	// runs are the runs that violate it, and words say how each does.
	runs  []SuiteRun
	words []string
	// root is a violation that no other one explains, in the run shown, which has it most often; nil if all follow from
	// others.
	root  *assertions.Root
	shown SuiteRun
}

// findings returns the violated invariants, those that are not waived first.
func (s Suite) findings() []suiteFinding {
	var out []suiteFinding
	for _, run := range s.Runs {
		if run.Judged.Verdict == nil {
			continue
		}
		for _, r := range causal(run.Judged.Verdict) {
			if r.Status != assertions.Fail {
				continue
			}
			one := suiteFinding{invariant: r.Name, where: run.promise(r.Name), waived: run.Report().waives(r)}
			at := slices.IndexFunc(out, func(f suiteFinding) bool {
				return f.invariant == one.invariant && f.where == one.where && f.waived == one.waived
			})
			if at < 0 {
				at, out = len(out), append(out, one)
			}
			words := violationWords(run.Judged.Verdict, r)
			if waiver := junitWaived(run.Report(), r); waiver != nil {
				words += "; " + waiver.Message
			}
			if len(r.Anomalies) > 0 && out[at].cause == "" {
				out[at].cause = cause(r.Name, r.Anomalies[0].Name, "")
			}
			if root := rootOf(run.Report(), r); root != nil && (out[at].root == nil || root.Count > out[at].root.Count) {
				out[at].root, out[at].shown = root, run
			}
			out[at].runs, out[at].words = append(out[at].runs, run), append(out[at].words, words)
		}
	}
	slices.SortStableFunc(out, func(a, b suiteFinding) int {
		switch {
		case a.waived == b.waived:
			return 0
		case b.waived:
			return -1
		}
		return 1
	})
	return out
}

// rootOf returns the root of an invariant in a run, nil if what violates it follows from another one. A violation that
// follows from a waived one stands for itself.
func rootOf(run Run, r assertions.Result) *assertions.Root {
	for _, root := range run.Verdict.Roots {
		follows := slices.ContainsFunc(root.Consequences, func(c assertions.Consequence) bool {
			return c.Invariant == r.Name
		})
		switch waived := run.waiver(root.Invariant, root.Anomaly) != nil; {
		case waived:
		case root.Invariant == r.Name:
			return &root
		case follows:
			return nil
		}
	}
	for _, a := range r.Anomalies {
		if run.waiver(r.Name, a.Name) == nil {
			return &assertions.Root{Invariant: r.Name, Anomaly: a.Name, Count: a.Count,
				Example: assertions.Occurrence{Record: -1, Partition: -1, Offset: -1, At: -1}}
		}
	}
	return nil
}

// promise returns the place that promises an invariant, or that of the run.
func (r SuiteRun) promise(invariant string) SuitePlace {
	for _, one := range r.Promised {
		if one.Invariant == invariant {
			return one.Where
		}
	}
	return r.Where
}

// otherReasons returns the reasons of a run that are not about violations.
func (r SuiteRun) otherReasons() []string {
	v := r.Judged.Verdict
	if v == nil {
		return r.Reasons
	}
	only := *v
	only.Reasons = v.Reasons[:min(len(v.Roots), len(v.Reasons))]
	told := SuiteReasons(&only, r.Waived)
	return slices.DeleteFunc(slices.Clone(r.Reasons), func(reason string) bool { return slices.Contains(told, reason) })
}

func (p SuitePlace) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

func (f suiteFinding) labels() string {
	return strings.Join(each(f.runs, func(run SuiteRun) string { return name(run.Label) }), ", ")
}

// suiteTodo lists what to do until the gate passes.
func suiteTodo(suite Suite) document.List {
	out := document.List{}
	for _, found := range suite.findings() {
		if found.waived || found.root == nil {
			continue
		}
		shown := found.shown
		item := document.Item{Text: append(document.Marked(name(found.invariant), document.Fail),
			document.Plain(" is violated in "+found.labels())...)}
		for _, one := range []struct{ label, words string }{{"Promised:", promise(found.invariant)},
			{"Broken:", shown.Judged.Verdict.Broken(*found.root)},
			{"Likely cause:", cause(found.invariant, found.root.Anomaly, found.root.Summary)},
			{"Leads to:", found.root.Follow()}} {
			if one.words != "" {
				item.Below = append(item.Below, labelled(one.label, text(one.words)))
			}
		}
		item.Below = append(item.Below,
			document.Plain("Promised at "+text(found.where.String())+
				". Mend the consumer, or correct the promise if it is wrong."))
		if shown.Artifacts != "" {
			item.Below = append(item.Below, append(document.Plain("Evidence: "),
				document.Link("report of "+name(shown.Label), path.Join(shown.Artifacts, HTMLFile))...))
		}
		item.Below = append(item.Below, again(shown))
		out.Items = append(out.Items, item)
	}
	told := map[string]bool{} // many runs are not run for one reason
	for _, run := range suite.Runs {
		if why := strings.Join(run.Reasons, "; "); run.Standing == StandingNotRun {
			if told[why] {
				continue
			}
			told[why] = true
		}
		out.Items = append(out.Items, runTodo(run, suite.kind())...)
	}
	for _, waiver := range suite.Waivers {
		if remark := waiver.Remark(); remark != "" {
			out.Items = append(out.Items, document.Item{Text: document.Plain(text(waiver.Where.String() + ": " + remark))})
		}
	}
	return out
}

// again returns the command that repeats a run.
func again(run SuiteRun) document.Text {
	if run.Judged.Verdict == nil || run.Judged.Verdict.Rerun == "" {
		return nil
	}
	return append(document.Plain("Again: "), document.Command(visible(run.Judged.Verdict.Rerun, document.Whole))...)
}

// runTodo returns what to do about the reasons of a run besides violations.
func runTodo(run SuiteRun, kind string) []document.Item {
	do := map[Standing]string{
		StandingInconclusive: "It proves nothing until this is changed: correct the scenario, or the place where it runs.",
		StandingThreshold:    "Meet it, or change the threshold at " + text(run.Where.String()) + ".",
		StandingFail:         "Meet it, or change the threshold at " + text(run.Where.String()) + ".",
		StandingEnvironment:  "Nothing is known of the consumer until this is mended.",
		StandingInterrupted:  "Run the " + kind + " again.",
	}[run.Standing]
	switch missing := run.Standing == StandingNotRun && run.Missing; {
	case missing && kind == SuiteCampaign:
		do = "Run the campaign again: it continues with the cells that have no result."
	case missing:
		do = "Raise the budget in dlqbench.yaml, or run the suite in parts with --shard."
	}
	reasons := run.otherReasons()
	if do == "" || len(reasons) == 0 {
		return nil
	}
	item := document.Item{Text: append(document.Marked(name(run.Label), suiteMark(run.Standing)),
		document.Plain(": "+text(strings.Join(reasons, "; ")))...), Below: []document.Text{document.Plain(do)}}
	if v := run.Judged.Verdict; run.Standing == StandingInconclusive && v != nil && len(v.Open) > 0 {
		item.Text = append(document.Marked(name(run.Label), suiteMark(run.Standing)), document.Plain(" proves nothing")...)
		item.Below = openLines(v.Open)
	}
	if more := again(run); more != nil {
		item.Below = append(item.Below, more)
	}
	return []document.Item{item}
}
