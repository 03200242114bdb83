package scenarios

// A run in which things were broken by hand, written as a scenario that does the same by itself.

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/internal/units"
)

// Recording is what a run did that the text of its scenario does not say.
type Recording struct {
	// Head is put before the text, as comments.
	Head []string
	Seed uint64
	// Steady is how long the steady phase was; it is shorter than the scenario's where the load was ended by hand.
	Steady time.Duration
	// Faults are all that were injected, with their times, in the order of their injection.
	Faults []catalogue.Spec
	// Subject is the subject.yaml, relative to where the recording will be; "" if the subject is the reference
	// consumer.
	Subject string
}

// Record returns the text of a scenario changed to what was recorded. Comments are lost. name and data are the
// scenario's; the error is a *Problems if it can't be read.
func Record(name string, data []byte, recording Recording) ([]byte, error) {
	d := parseDocument(name, data)
	if problems := sorted(d.problems); problems != nil {
		return nil, problems
	}
	list := make([]any, 0, len(recording.Faults))
	for _, spec := range recording.Faults {
		one, err := Written(spec)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	d.root.drop("drill")
	d.root.drop("faults")
	sets := []setting{{"seed", recording.Seed}}
	if len(list) > 0 {
		sets = append(sets, setting{"faults", list})
	}
	if recording.Subject != "" {
		sets = append(sets, setting{"subject.file", recording.Subject})
	}
	sets = append(sets, d.root.shortened(recording.Steady)...)
	for _, one := range sets {
		if err := d.give(one); err != nil {
			return nil, err
		}
	}
	text, err := yaml.Marshal(d.root.ordered())
	if err != nil {
		return nil, fmt.Errorf("writing the recorded scenario: %w", err)
	}
	var head strings.Builder
	for _, line := range recording.Head {
		fmt.Fprintf(&head, "# %s\n", printable(strings.ReplaceAll(line, "\n", " ")))
	}
	return append([]byte(head.String()), text...), nil
}

// Written is a fault as a scenario writes it, key by key. Its start is always written, unless it waits for an event.
func Written(spec catalogue.Spec) (map[string]any, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("writing the fault %s: %w", spec.Name, err)
	}
	var keys map[string]any
	if err := json.Unmarshal(text, &keys); err != nil {
		return nil, fmt.Errorf("writing the fault %s: %w", spec.Name, err)
	}
	if spec.When == "" {
		keys["at"] = spec.At.String()
	}
	return keys, nil
}

// DecodeFault reads one fault, as YAML or JSON, and holds it to the schema; whether it fits a scenario shows when that
// has it. The error says everything that is wrong.
func DecodeFault(text []byte) (catalogue.Spec, error) {
	head := "name: fault\ndescription: one fault\nworkload: {rate: 1/s, duration: 1s}\nfaults:\n  -"
	indented := "\n    " + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n    ")
	d := parseDocument("fault", []byte(head+indented+"\n"))
	scenario := defaultScenario()
	if err := d.decode(scenarioSchema, &scenario); err != nil {
		return catalogue.Spec{}, err
	}
	if problems := sorted(d.problems); problems != nil {
		return catalogue.Spec{}, errors.New(Brief(problems))
	}
	if len(scenario.Faults) != 1 {
		return catalogue.Spec{}, fmt.Errorf("this is no fault: write one, such as {downstream: {outage: true}}")
	}
	return scenario.Faults[0], nil
}

// Brief is what is wrong in one line, without where it stands.
func Brief(problems *Problems) string {
	var all []string
	for _, problem := range problems.Problems {
		all = append(all, strings.TrimSpace(printable(problem.Message+" "+problem.Hint)))
	}
	return strings.Join(all, "; ")
}

// CheckRecording tells whether what was recorded makes a sound scenario, its files relative to the working directory;
// the error is in one line.
func CheckRecording(data []byte, recording Recording) error {
	const name = "recorded.yaml"
	text, err := Record(name, data, recording)
	if err == nil {
		var scenario *Scenario
		if scenario, err = Parse(name, text); err == nil {
			if why := scenario.NeedsSubject(); why != "" {
				err = errors.New(faults.NoRegistry)
			}
		}
	}
	if problems, ok := errors.AsType[*Problems](err); ok {
		return errors.New(Brief(problems))
	}
	return err
}

// setting is a value for a path of the tree.
type setting struct {
	path  string
	value any
}

func (d *document) give(one setting) error {
	text, err := json.Marshal(one.value) // which is YAML
	if err != nil {
		return fmt.Errorf("writing %s of the recorded scenario: %w", one.path, err)
	}
	d.set(one.path + "=" + string(text))
	if problems := sorted(d.problems); problems != nil {
		return problems
	}
	return nil
}

// drop removes a key.
func (n *node) drop(name string) {
	delete(n.fields, name)
	n.names = slices.DeleteFunc(n.names, func(other string) bool { return other == name })
}

// shortened says what of the load changes when its steady phase lasts that long only: what would lie behind its end is
// cut off.
func (n *node) shortened(steady time.Duration) []setting {
	sets := n.cut("/workload/steps", "workload.steps", steady, func(_ *node, at time.Duration) time.Duration { return at })
	if sets == nil {
		sets = []setting{{"workload.duration", units.Duration(steady)}}
	}
	sets = append(sets, n.cut("/workload/failing", "workload.failing", steady,
		func(entry *node, _ time.Duration) time.Duration { return entry.duration("at") })...)
	if every := n.get("/workload/bursts"); every != nil && every.duration("every") >= steady {
		n.get("/workload").drop("bursts")
	}
	return sets
}

// cut returns a list of stretches without what lies behind the end; start tells where a stretch begins, given where the
// one before it ended.
func (n *node) cut(path, name string, end time.Duration,
	start func(entry *node, at time.Duration) time.Duration) []setting {
	list := n.get(path)
	if list == nil || list.kind != listNode {
		return nil
	}
	var (
		kept []any
		at   time.Duration
	)
	for _, entry := range list.items {
		from, length := start(entry, at), entry.duration("for")
		if at = from + length; from >= end {
			continue
		}
		one := entry.plain()
		one["for"] = units.Duration(min(length, end-from)).String()
		kept = append(kept, one)
	}
	if kept == nil {
		n.get("/workload").drop(strings.TrimPrefix(name, "workload."))
		return nil
	}
	return []setting{{name, kept}}
}

// duration reads a key of a mapping as a duration, 0 if it is none.
func (n *node) duration(key string) time.Duration {
	var d units.Duration
	if entry := n.fields[key]; entry == nil || d.UnmarshalText([]byte(fmt.Sprint(entry.scalar))) != nil {
		return 0
	}
	return d.D()
}

// plain is a mapping as values.
func (n *node) plain() map[string]any {
	all, _ := n.value(true).(map[string]any)
	if all == nil {
		all = map[string]any{}
	}
	return all
}
