package scenarios

import (
	"cmp"
	"fmt"
	"strings"
)

// Group is what a shipped scenario is about, as a heading of the list.
type Group string

// The groups, in the order of the list.
const (
	GroupStart       Group = "start"
	GroupDeadLetters Group = "dead-letters"
	GroupRetries     Group = "retries"
	GroupBrokers     Group = "brokers"
	GroupGroups      Group = "groups"
	GroupStores      Group = "stores"
	GroupSystems     Group = "systems"
)

// Groups returns all groups in the order of the list.
func Groups() []Group {
	return []Group{GroupStart, GroupDeadLetters, GroupRetries, GroupBrokers, GroupGroups, GroupStores, GroupSystems}
}

// Title returns the heading.
func (g Group) Title() string {
	return cmp.Or(map[Group]string{
		GroupStart: "Start here", GroupDeadLetters: "Dead letters", GroupRetries: "Retries and downstreams",
		GroupBrokers: "Brokers and links", GroupGroups: "Consumer groups", GroupStores: "Dead-letter stores",
		GroupSystems: "Published systems",
	}[g], string(g))
}

// Entry is a shipped scenario as it is listed.
type Entry struct {
	Name        string `json:"name"`
	Group       Group  `json:"group"`
	Description string `json:"description"`
	// Real says why only a real Kafka shows what the scenario is about, "" if the embedded one does.
	Real string `json:"real_kafka,omitempty"`
	// NeedsSubject says why the reference consumer can't run it, "" if it can.
	NeedsSubject string `json:"needs_subject,omitempty"`
	// Unfit says why the subject that was asked for cannot show what the scenario is about, "" if it can.
	Unfit string `json:"unfit,omitempty"`
}

// Line returns what happens in the scenario: the first sentence of its description.
func (e Entry) Line() string {
	line, _, _ := strings.Cut(e.Description, ". ")
	line = strings.TrimSuffix(line, ".")
	if e.Real != "" {
		line = "(real Kafka) " + line
	}
	return line
}

// List returns the shipped scenarios, by group and then by name. With a subject, which may be nil, it says which of
// them have nothing to show of it.
func List(subject *SubjectFile) ([]Entry, error) {
	of := map[Group][]Entry{}
	for _, name := range Names() {
		data, _ := Shipped(name)
		scenario, err := Parse(name, data)
		if err != nil {
			return nil, fmt.Errorf("reading the shipped scenario %s: %w", name, err)
		}
		one := Entry{Name: name, Group: scenario.Group, Description: scenario.Description, Real: scenario.Cluster.Real,
			NeedsSubject: scenario.NeedsSubject()}
		if subject != nil {
			one.Unfit = scenario.Unfit(subject)
		}
		of[one.Group] = append(of[one.Group], one)
	}
	var all []Entry
	for _, group := range Groups() {
		all = append(all, of[group]...)
	}
	return all, nil
}
