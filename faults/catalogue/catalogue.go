package catalogue

import (
	"slices"

	"github.com/dlqbench/dlqbench/faults"
)

// The kinds of entries that are not faults: properties of the workload, and the schedule of faults.
const (
	KindWorkload = "workload"
	KindSchedule = "schedule"
)

// Faults returns the entries of all faults, by kind.
func Faults() []faults.Entry {
	var all []faults.Entry
	for _, kind := range (Spec{}).kinds() {
		all = append(all, kind.Entries()...)
	}
	return all
}

// Entries returns the entries of all faults, followed by those of the workload and the schedule.
func Entries() []faults.Entry {
	return slices.Concat(Faults(), shapeEntries(), valueEntries(), scheduleEntries())
}

// Lookup returns the entries with the name, of the kind ("network"), or with the key ("latency"). It returns none if
// nothing matches.
func Lookup(name string) []faults.Entry {
	return slices.DeleteFunc(Entries(), func(entry faults.Entry) bool {
		return name != entry.Name && name != entry.Kind() && name != entry.Key()
	})
}

// OfWorkload reports whether the entry belongs to the workload and not to the list of faults.
func OfWorkload(entry faults.Entry) bool { return entry.Kind() == KindWorkload }

// YAML returns the entry's example as it stands in a scenario.
func YAML(entry faults.Entry) string {
	if OfWorkload(entry) {
		return "workload:\n  " + entry.Example
	}
	return "faults:\n  - " + entry.Example
}
