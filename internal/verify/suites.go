package verify

// This file selects the scenarios for completeness: the one aimed at each bug, the shipped ones, or the suite that init
// writes.

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/verify/planted"
	"github.com/dlqbench/dlqbench/scenarios"
)

//go:embed testdata/*.yaml
var aimed embed.FS

// The suites.
const (
	// SuiteAimed runs each bug in the scenario of testdata that was written for it.
	SuiteAimed = "aimed"
	// SuiteLibrary looks for a shipped scenario that names the bug and runs that one with all seeds. It then runs each
	// bug once in every scenario that applies to it, and finally the two scenarios that name it best with all seeds. A
	// measurement that ends early thus has a result for every bug.
	SuiteLibrary = "library"
	// SuiteDefault runs the bugs of ordinary consumers in the scenarios that dlqbench init writes, one after another
	// until one names the bug.
	SuiteDefault = "default"
)

// Suites are the suites that completeness can be measured on.
func Suites() []string { return []string{SuiteAimed, SuiteLibrary, SuiteDefault} }

// again is the number of shipped scenarios in which each bug is run with all seeds.
const again = 2

// Aim selects the scope of a completeness measurement.
type Aim struct {
	Suite string
	// Bugs and Scenarios restrict the runs by name; empty means all of the suite's. The default suite's scenarios
	// must be named.
	Bugs, Scenarios []string
	// First is the first seed, Seeds the number of consecutive seeds.
	First uint64
	Seeds int
	// Limit is the time after which no run begins. 0 means no limit.
	Limit time.Duration
	// Earlier holds earlier runs in shipped scenarios. They count and are not repeated. nil means none.
	Earlier *Measured
}

// digestLength is the number of hexadecimal digits of a digest.
const digestLength = 12

// target is a scenario in which bugs are run.
type target struct {
	name     string
	text     []byte
	scenario *scenarios.Scenario
	// digest distinguishes the scenario from earlier versions with another meaning.
	digest string
}

func readTarget(name string, text []byte) (target, error) {
	scenario, err := scenarios.Parse(name, text)
	if err != nil {
		return target{}, fmt.Errorf("reading the scenario %s: %w", name, err)
	}
	var meant map[string]any
	if err := yaml.Unmarshal(text, &meant); err != nil {
		return target{}, fmt.Errorf("reading the scenario %s: %w", name, err)
	}
	delete(meant, "description")
	delete(meant, "group")
	meaning, err := json.Marshal(meant)
	if err != nil {
		return target{}, fmt.Errorf("encoding the scenario %s: %w", name, err)
	}
	return target{name: name, text: text, scenario: scenario,
		digest: fmt.Sprintf("%x", sha256.Sum256(meaning))[:digestLength]}, nil
}

func aimedAt(bug planted.Bug) (target, error) {
	text, err := aimed.ReadFile("testdata/" + bug.Scenario + ".yaml")
	if err != nil {
		return target{}, fmt.Errorf("reading the scenario at which %s is aimed: %w", bug.Name, err)
	}
	return readTarget(bug.Scenario, text)
}

// shippedTargets returns the shipped scenarios that the reference consumer can run on the embedded Kafka, or the named
// ones of them, in the order of the names.
func shippedTargets(names []string) ([]target, error) {
	all := len(names) == 0
	if all {
		names = scenarios.Names()
	}
	var found []target
	for _, name := range names {
		text, ok := scenarios.Shipped(name)
		if !ok {
			return nil, fmt.Errorf("there is no shipped scenario %q: dlqbench list shows them", name)
		}
		one, err := readTarget(name, text)
		if err != nil {
			return nil, err
		}
		if !all || one.scenario.RunsOnEmbedded() && one.scenario.NeedsSubject() == "" {
			found = append(found, one)
		}
	}
	return found, nil
}

// aims pairs every requested bug with the scenarios of the suite that apply to it, of which there may be none.
func (a *Aim) aims() (bugs []planted.Bug, of map[string][]target, err error) {
	var shipped []target
	if a.Suite != SuiteAimed {
		if shipped, err = shippedTargets(a.Scenarios); err != nil {
			return nil, nil, err
		}
	}
	of = map[string][]target{}
	owns := map[string]target{}
	for _, bug := range planted.All() {
		if len(a.Bugs) > 0 && !slices.Contains(a.Bugs, bug.Name) {
			continue
		}
		own, known := owns[bug.Scenario]
		if !known {
			if own, err = aimedAt(bug); err != nil {
				return nil, nil, err
			}
			owns[bug.Scenario] = own
		}
		plain := ordinary(own.scenario) && own.scenario.Unfit(&scenarios.SubjectFile{}) == ""
		if a.Suite == SuiteDefault && (bug.Kind() != "consume" || !plain) {
			continue
		}
		bugs = append(bugs, bug)
		if a.Suite == SuiteAimed {
			of[bug.Name] = []target{own}
			continue
		}
		for _, one := range shipped {
			if applies(own.scenario, one.scenario) {
				of[bug.Name] = append(of[bug.Name], one)
			}
		}
	}
	return bugs, of, nil
}

// shape is the kind of subject that a scenario has. A bug of one kind cannot occur in another.
type shape struct {
	graph, services, store, republished bool
	letters, share, transactions        bool
	retry, envelope                     string
}

func shapeOf(s *scenarios.Scenario) shape {
	of := shape{graph: s.Graph != nil, services: len(s.Services) > 0, store: s.Store != nil}
	if of.store {
		of.republished = s.Store.Retry == scenarios.RetryByRepublish
	}
	if r := s.Subject.Reference; r != nil && !of.graph && !of.services {
		of.letters, of.share, of.transactions = r.DLQEnabled, r.GroupProtocol == consumer.ProtocolShare, r.Transactions
		of.retry, of.envelope = cmp.Or(r.Retry, string(history.RetryInPlace)), string(r.Envelope)
	}
	return of
}

// parts lists the scenario's additional parts, which some bugs need to be visible. Further parts do no harm.
func parts(s *scenarios.Scenario) (has []string) {
	for part, there := range map[string]bool{
		"replay":          s.Replay != nil,
		"offset metadata": s.Subject.Reference != nil && s.Subject.Reference.OffsetMetadata,
		"health probe":    s.Store != nil && s.Store.Probe,
		"retention":       s.Store != nil && s.Store.Retention != nil,
		"retry promised":  s.Subject.Reference != nil && s.Subject.Reference.DLQOnFailure == consumer.FailureRetry,
		"crash promised":  s.Subject.Reference != nil && s.Subject.Reference.DLQOnFailure == consumer.FailureCrash,
	} {
		if there {
			has = append(has, part)
		}
	}
	return has
}

// applies reports whether a bug that shows in one scenario could show in another: both have the same kind of subject,
// and the other scenario has all parts of the first.
func applies(own, other *scenarios.Scenario) bool {
	has := parts(other)
	return other.Drill == nil && other.Subject.File == "" && shapeOf(own) == shapeOf(other) &&
		!slices.ContainsFunc(parts(own), func(part string) bool { return !slices.Contains(has, part) })
}

// sameName reports whether an invariant is the wanted one: the names are equal, or got is the wanted invariant of some
// node or service.
func sameName(got, want string) bool {
	gotOf, gotName, gotPart := strings.Cut(got, "/")
	wantOf, wantName, wantPart := strings.Cut(want, "/")
	if !gotPart || !wantPart {
		return got == want
	}
	return gotOf != "" && wantOf != "" && gotName == wantName
}
