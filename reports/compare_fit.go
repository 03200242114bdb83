package reports

// This file decides whether runs may be compared at all. Figures from another load or another machine differ for
// reasons that say nothing about the consumer.

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/internal/units"
)

// IncomparableError reports why runs are not compared.
type IncomparableError struct {
	// Case is the scenario, or the cell of a bench; "" if the error concerns all of them.
	Case string
	// Why has a sentence for each reason.
	Why []string
}

// Error returns all reasons.
func (e *IncomparableError) Error() string {
	why := strings.Join(e.Why, "; ")
	if e.Case == "" {
		return why
	}
	return fmt.Sprintf("%s can't be compared: %s", name(e.Case), why)
}

// Repetitions checks that the runs are repetitions of each other, case by case. The error lists the reasons why not.
func Repetitions(runs []CompareRun, evenSo bool) error {
	if err := namedOnce(runs); err != nil {
		return err
	}
	for _, of := range byCase(runs) {
		if _, differ := fits(of.name, of.runs, nil); len(differ) > 0 && !evenSo {
			return &IncomparableError{Case: of.name, Why: differ}
		}
	}
	return nil
}

// namedOnce rejects a run that is named twice. It would count as a repetition of itself and thus prove the absence of
// noise.
func namedOnce(runs []CompareRun) error {
	seen := map[string]string{}
	for _, run := range runs {
		if other, again := seen[run.RunID]; again && run.RunID != "" {
			return &IncomparableError{Case: run.Case, Why: []string{fmt.Sprintf("%s and %s are the same run, and no "+
				"repetitions of each other", visible(other, maxName), visible(run.Label, maxName))}}
		}
		seen[run.RunID] = run.Label
	}
	return nil
}

// fits returns notes about the runs of a comparison, and the differences that prevent it: another load, or another
// machine. Repetitions of one side must also match each other.
func fits(of string, before, after []CompareRun) (notes, differ []string) {
	all := slices.Concat(before, after)
	differ = append(differ, loadsDiffer(all)...)
	for _, key := range []struct{ name, what string }{
		{"kafka", "another Kafka"}, {"links", "other links"}, {"os", "another operating system"},
		{"arch", "another processor"}, {"cpus", "another number of processors"}, {"cpu", "another processor"},
	} {
		if seen := environments(all, key.name); len(seen) > 1 {
			differ = append(differ, fmt.Sprintf("they ran with %s: %s %s", key.what, key.name, strings.Join(seen, " and ")))
		}
	}
	for _, side := range [][]CompareRun{before, after} {
		if subjects := newSide(side).Subjects; len(subjects) > 1 {
			differ = append(differ, "the runs of one side are not repetitions of each other, they are of "+
				text(strings.Join(subjects, " and ")))
		}
	}
	for _, key := range []string{"dlqbench", "go", "subject_kind", environmentBench} {
		if seen := environments(all, key); len(seen) > 1 {
			notes = append(notes, fmt.Sprintf("%s: not the same %s: %s", name(of), strings.ReplaceAll(key, "_", " "),
				strings.Join(seen, " and ")))
		}
	}
	if old, now := seeds(before), seeds(after); len(after) > 0 && !slices.Equal(old, now) {
		notes = append(notes, fmt.Sprintf("%s: not the same seeds, so other records fail: before %s, after %s", name(of),
			strings.Join(old, ", "), strings.Join(now, ", ")))
	}
	return notes, differ
}

// loadsDiffer lists the differences in what the subjects were asked to do. If all runs have a digest of the load, it
// compares the digests. Otherwise it compares the known parts of the plan: with the same seed, the same scenario
// plans the same records and faults.
func loadsDiffer(all []CompareRun) []string {
	loads := environments(all, EnvironmentLoad)
	if len(loads) > 1 {
		return []string{"they ran another workload, other faults or other topics under the same name: compare runs of the " +
			"same scenario file"}
	}
	for _, run := range all {
		for _, other := range all {
			if run.Seed != other.Seed {
				continue
			}
			if run.Planned != other.Planned && run.Planned > 0 && other.Planned > 0 {
				return []string{fmt.Sprintf(
					"they ran another workload under the same name: with seed %d, %s records in %s and %s in %s",
					run.Seed, units.Count(run.Planned), visible(run.Label, maxName), units.Count(other.Planned),
					visible(other.Label, maxName))}
			}
			if !slices.Equal(run.Faults, other.Faults) {
				return []string{fmt.Sprintf("they ran with other faults under the same name: see %s and %s",
					visible(run.Label, maxName), visible(other.Label, maxName))}
			}
		}
	}
	return nil
}

// environments lists the values of a key in order of first appearance. It ignores runs without the key.
func environments(runs []CompareRun, key string) []string {
	var out []string
	for _, run := range runs {
		if v, ok := run.Environment[key]; ok && !slices.Contains(out, name(v)) {
			out = append(out, name(v))
		}
	}
	return out
}

func seeds(runs []CompareRun) []string {
	all := each(runs, func(run CompareRun) uint64 { return run.Seed })
	slices.Sort(all)
	return each(slices.Compact(all), func(seed uint64) string { return fmt.Sprint(seed) })
}
