package verify

// What completeness is measured on: the scenario at which each bug is aimed, the shipped ones, or the suite that init
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
	// SuiteAimed runs each bug in the one scenario of testdata that was written for it.
	SuiteAimed = "aimed"
	// SuiteLibrary looks for a shipped scenario that names the bug and runs that one with all seeds, then each bug once
	// in every scenario that applies to it, then the two that name it best with all seeds: a measurement that ends
	// early knows something of every bug.
	SuiteLibrary = "library"
	// SuiteDefault runs the bugs of ordinary consumers in the scenarios that dlqbench init writes, one after the other
	// until one names the bug.
	SuiteDefault = "default"
)

// Suites are the suites that completeness can be measured on.
func Suites() []string { return []string{SuiteAimed, SuiteLibrary, SuiteDefault} }

// again is how many shipped scenarios each bug is run in with all seeds.
const again = 2

// Aim says what completeness is measured on.
type Aim struct {
	Suite string
	// Mutants and Scenarios narrow what is run, by names; empty: all of the suite's. The default suite's scenarios must
	// be named.
	Mutants, Scenarios []string
	// First is the seed of the first runs, Seeds how many follow each other.
	First uint64
	Seeds int
	// Limit is the time after which no run begins; 0: none.
	Limit time.Duration
	// Earlier runs in shipped scenarios count, and are not done again; nil: there are none.
	Earlier *Measured
}

// digestLength is how many hexadecimal digits of a digest are kept.
const digestLength = 12

// target is a scenario in which bugs are run.
type target struct {
	name     string
	text     []byte
	scenario *scenarios.Scenario
	// digest tells it from an earlier form that meant something else.
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
	meaning, err := json.Marshal(meant)
	if err != nil {
		return target{}, fmt.Errorf("encoding the scenario %s: %w", name, err)
	}
	return target{name: name, text: text, scenario: scenario,
		digest: fmt.Sprintf("%x", sha256.Sum256(meaning))[:digestLength]}, nil
}

func aimedAt(mutant planted.Mutant) (target, error) {
	text, err := aimed.ReadFile("testdata/" + mutant.Scenario + ".yaml")
	if err != nil {
		return target{}, fmt.Errorf("reading the scenario at which %s is aimed: %w", mutant.Name, err)
	}
	return readTarget(mutant.Scenario, text)
}

// shippedTargets are the shipped scenarios that run on the embedded Kafka, or those of them that are named, in the
// order of the names.
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
		if !all || one.scenario.RunsOnEmbedded() {
			found = append(found, one)
		}
	}
	return found, nil
}

// aims pairs every bug that is asked for with the scenarios of the suite that apply to it, none included.
func (a *Aim) aims() (bugs []planted.Mutant, of map[string][]target, err error) {
	var shipped []target
	if a.Suite != SuiteAimed {
		if shipped, err = shippedTargets(a.Scenarios); err != nil {
			return nil, nil, err
		}
	}
	of = map[string][]target{}
	owns := map[string]target{}
	for _, mutant := range planted.All() {
		if len(a.Mutants) > 0 && !slices.Contains(a.Mutants, mutant.Name) {
			continue
		}
		own, known := owns[mutant.Scenario]
		if !known {
			if own, err = aimedAt(mutant); err != nil {
				return nil, nil, err
			}
			owns[mutant.Scenario] = own
		}
		plain := ordinary(own.scenario) && own.scenario.Unfit(scenarios.ContractSpec{}) == ""
		if a.Suite == SuiteDefault && (mutant.Kind() != "consume" || !plain) {
			continue
		}
		bugs = append(bugs, mutant)
		if a.Suite == SuiteAimed {
			of[mutant.Name] = []target{own}
			continue
		}
		for _, one := range shipped {
			if applies(own.scenario, one.scenario) {
				of[mutant.Name] = append(of[mutant.Name], one)
			}
		}
	}
	return bugs, of, nil
}

// shape is the kind of subject that a scenario has: bugs of one are none of another.
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
		of.retry, of.envelope = cmp.Or(r.Retry, string(history.RetryInPlace)), r.Envelope
	}
	return of
}

// parts are what a scenario has besides, without which some bugs can't be seen; more of them do no harm.
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
// and the other has all of its parts.
func applies(own, other *scenarios.Scenario) bool {
	has := parts(other)
	return other.Drill == nil && other.Subject.File == "" && shapeOf(own) == shapeOf(other) &&
		!slices.ContainsFunc(parts(own), func(part string) bool { return !slices.Contains(has, part) })
}

// sameName reports whether an invariant is the wanted one: of the same name, and of some node or service where that one
// is.
func sameName(got, want string) bool {
	gotOf, gotName, gotPart := strings.Cut(got, "/")
	wantOf, wantName, wantPart := strings.Cut(want, "/")
	if !gotPart || !wantPart {
		return got == want
	}
	return gotOf != "" && wantOf != "" && gotName == wantName
}
