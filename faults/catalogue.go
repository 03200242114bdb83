package faults

// The catalogue: every fault that can be written, explained for the person who wants to use it.

import "strings"

// Entry explains one fault.
type Entry struct {
	// Name is the kind and the key that makes it: "network.latency".
	Name string
	// Summary says in one sentence what breaks.
	Summary string
	// Does is what the subject gets to see; Made is how it is done.
	Does, Made string
	// Shows is what a correct consumer does, and which bugs usually show.
	Shows string
	// Effects are the counts it reports, as they stand in the verdict. What belongs to the workload reports nothing:
	// the records themselves are the proof.
	Effects []string
	// Keys are the keys of the scenario that belong to it besides at, when, after, for and name.
	Keys []string
	// Example is an entry of a scenario's list of faults, in YAML; of what belongs to the workload it is a key of the
	// workload.
	Example string
}

// OfWorkload reports whether the entry is a part of the workload, not of the list of faults.
func (e Entry) OfWorkload() bool { return strings.HasPrefix(e.Name, KindWorkload+".") }

// YAML returns the example as it stands in a scenario.
func (e Entry) YAML() string {
	if e.OfWorkload() {
		return "workload:\n  " + e.Example
	}
	return "faults:\n  - " + e.Example
}

// The kinds of entries that are no kinds of faults: what belongs to the workload, and when faults happen.
const (
	KindWorkload = "workload"
	KindSchedule = "schedule"
)

// Lookup returns the entries with the name, or of the kind ("network"), or with that key ("latency"); none if there are
// none.
func Lookup(name string) []Entry {
	var found []Entry
	for _, entry := range Catalogue() {
		kind, key, _ := strings.Cut(entry.Name, ".")
		if name == entry.Name || name == kind || name == key {
			found = append(found, entry)
		}
	}
	return found
}

// Catalogue returns all faults, by kind, then what belongs to the workload and to the schedule.
func Catalogue() []Entry {
	var all []Entry
	for _, entries := range [][]Entry{
		slowEntries(), brokenEntries(), refusalEntries(), lossEntries(), brokerEntries(), coordinationEntries(),
		subjectEntries(), scaleEntries(),
		downstreamEntries(), storeEntries(), shapeEntries(), valueEntries(), scheduleEntries(),
	} {
		all = append(all, entries...)
	}
	return all
}
