package assertions

// Explanations of the names in a verdict, for its readers.

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/history"
)

// Invariant is an entry of the catalogue: the promise, in words, and the checker that judges it. Each is defined in the
// file of its checker.
type Invariant struct {
	Name string
	// Promise is the invariant in one sentence. For an anomaly, it is the promise that the anomaly contradicts.
	Promise string
	// Rule is the precise rule.
	Rule string
	// Evidence says what the history must contain for a judgement.
	Evidence string
	// Cause describes the typical bug behind a violation.
	Cause string
	// Contract says what a contract must contain for the invariant to be judged; "" if it is judged for every subject
	// that calls the downstream stub. Scenario says what exercises it, with a shipped scenario that does; "" if any
	// load does.
	Contract, Scenario string
	// Experimental invariants are judged and reported, but affect neither the verdict nor the requirements of a suite.
	Experimental bool
	// Anomalies are its violations.
	Anomalies []AnomalyNote

	// of names what it judges, in the plural; needs lists what must hold so that it is judged. Without mostNeeds, which
	// may be nil, most of it is not judged, but some anomalies can still be found.
	of        string
	needs     []precondition
	mostNeeds *precondition
	check     func(*report) checker
	observes  []history.Kind
}

// AnomalyNote describes an anomaly briefly, with the shortest timeline that shows it, one event per line.
type AnomalyNote struct {
	Name, Meaning string
	Example       []string
}

// Explanation describes an invariant or an anomaly.
type Explanation struct {
	Invariant
	// Of is the invariant that an anomaly violates, and Anomalies then holds this anomaly alone. Of is empty for an
	// invariant.
	Of string
	// general is Cause without the clues.
	general string
}

// String returns the explanation as text for a terminal.
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", e.Name)
	switch {
	case e.Of != "":
		fmt.Fprintf(&b, " (violates %s)", e.Of)
	case e.Experimental:
		fmt.Fprintf(&b, " (experimental: reported, decides nothing)")
	}
	fmt.Fprintf(&b, "\n\n%s\n\nRule: %s\n\nEvidence: %s\n\nExample of a violation:\n", e.Promise, e.Rule, e.Evidence)
	for _, line := range e.Anomalies[0].Example {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	fmt.Fprintf(&b, "\nTypical causes: %s\n", e.Cause)
	if needs := e.Needs(); needs != "" {
		fmt.Fprintf(&b, "\nTo be judged, it needs %s.\n", needs)
	}
	if e.Of == "" {
		b.WriteString("\nAnomalies:\n")
		for _, a := range e.Anomalies {
			fmt.Fprintf(&b, "  %-32s %s\n", a.Name, a.Meaning)
		}
	}
	return b.String()
}

// Needs says what makes a run judge the invariant: "a contract with ordering: key, or partition", "a scenario with a
// replay"; "" if it has no requirements.
func (i Invariant) Needs() string {
	var needs []string
	if i.Contract != "" {
		needs = append(needs, "a contract with "+i.Contract)
	}
	if i.Scenario != "" {
		needs = append(needs, "a scenario with "+i.Scenario)
	}
	return strings.Join(needs, ", and ")
}

// Explain returns the explanation of an invariant, or of an anomaly for each invariant that uses its name; none if the
// name is unknown.
func Explain(name string) []Explanation {
	var found []Explanation
	for _, one := range catalogue() {
		if one.Name == name {
			return []Explanation{{Invariant: one}}
		}
		for _, a := range one.Anomalies {
			if a.Name == name {
				found = append(found, one.narrowed(a))
			}
		}
	}
	return found
}

// narrowed returns the explanation of one anomaly of an invariant.
func (i Invariant) narrowed(a AnomalyNote) Explanation {
	of := i.Name
	if cause, known := catalogueCauses()[i.Name+": "+a.Name]; known {
		i.Cause = cause
	}
	general := i.Cause
	for _, clue := range clues()[of+": "+a.Name] {
		i.Cause += " If " + strings.Join(clue.words, " or ") + ", " + clue.advice + "."
	}
	i.Promise = strings.ToUpper(a.Meaning[:1]) + a.Meaning[1:] + ". The promise: " + i.Promise
	i.Name, i.Anomalies = a.Name, []AnomalyNote{a}
	return Explanation{i, of, general}
}

// Names returns the names of the invariants in the order in which they are reported.
func Names() []string {
	var names []string
	for _, one := range catalogue() {
		names = append(names, one.Name)
	}
	return names
}

// Deciding returns the names of the invariants on which a verdict depends: all but the experimental ones.
func Deciding() []string { return deciding(catalogue()) }

func deciding(all []Invariant) []string {
	var names []string
	for _, one := range all {
		if !one.Experimental {
			names = append(names, one.Name)
		}
	}
	return names
}

// AnomalyNames returns the names of all anomalies, by invariant.
func AnomalyNames() []string {
	var names []string
	for _, one := range catalogue() {
		for _, a := range one.Anomalies {
			names = append(names, a.Name)
		}
	}
	return names
}

// experimental reports whether a result belongs to an experimental invariant. In a graph, the result's name begins with
// its node's.
func experimental(all []Invariant, name string) bool {
	return slices.ContainsFunc(all, func(one Invariant) bool {
		return one.Experimental && (name == one.Name || strings.HasSuffix(name, "/"+one.Name))
	})
}
