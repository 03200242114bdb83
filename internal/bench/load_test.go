package bench

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/scenarios"
)

// anyKafka runs every scenario except those that need a real Kafka.
func anyKafka(scenarios.Provider) (func(*scenarios.Scenario) error, error) {
	return func(s *scenarios.Scenario) error {
		if !s.RunsOnEmbedded() {
			return errors.New("it needs a real Kafka")
		}
		return nil
	}, nil
}

const (
	orders = "name: orders\nkind: process\ndir: app\ncommand: [orders]\nenv: {CONCURRENCY: '1'}\ncontract: {dlq: " +
		"{envelope: plain}}\n"
	calm   = "name: calm\ndescription: Calm.\nworkload: {rate: 100/s, duration: 3s}\n"
	uneven = "name: uneven\ndescription: Uneven.\nworkload: {steps: [{rate: 10/s, for: 1s}, {rate: 20/s, for: 2s}]}\n"
)

// written creates a folder with a bench and the files that the tests name, and returns the path of the bench.
func written(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"bench.yaml": text, "orders.yaml": orders, "calm.yaml": calm,
		"uneven.yaml": uneven} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return filepath.Join(dir, "bench.yaml")
}

func plan(t *testing.T, text string) *Plan {
	t.Helper()
	p := must.Get(Load(written(t, text), anyKafka))(t)
	return p
}

func cellsOf(p *Plan) string {
	var all []string
	for _, cell := range p.Cells {
		all = append(all, cell.Name+" ["+strings.Join(append(cell.SubjectSets, cell.Sets...), " ")+"]")
	}
	return strings.Join(all, "\n")
}

func TestCells(t *testing.T) {
	const head = "name: b\nscenario: calm.yaml\n"
	for _, test := range []struct{ name, text, want string }{
		{"one cell", head + "mode: soak", "calm []"},
		{"a matrix, the first setting slowest",
			head + "matrix:\n  subject.reference.max_in_flight: [8, 64]\n  subject.reference.ordering: [key, none]",
			"max_in_flight=8 ordering=key [subject.reference.max_in_flight=8 subject.reference.ordering=key]\n" +
				"max_in_flight=8 ordering=none [subject.reference.max_in_flight=8 subject.reference.ordering=none]\n" +
				"max_in_flight=64 ordering=key [subject.reference.max_in_flight=64 subject.reference.ordering=key]\n" +
				"max_in_flight=64 ordering=none [subject.reference.max_in_flight=64 subject.reference.ordering=none]"},
		{"settings of all cells", head + "set: {workload.rate: 50/s}\nmatrix: {workload.duration: [1s, 2s]}",
			"duration=1s [workload.rate=50/s workload.duration=1s]\nduration=2s [workload.rate=50/s workload.duration=2s]"},
		{"listed cells", head + "cells: [{name: as it is}, {name: slow, set: {workload.rate: 5/s}}]",
			"as it is []\nslow [workload.rate=5/s]"},
		{"workloads and faults", head + "workloads: {a: {workload.rate: 5/s}, b: {workload.rate: 6/s}}\nfaults:\n  none: " +
			"[]\n  dead: [{at: 1s, subject: {instance: 0, signal: KILL, restart_after: 1s}}]",
			"a, none [workload.rate=5/s faults=[]]\n" +
				`a, dead [workload.rate=5/s faults=[{"at":"1s","subject":{"instance":0,"restart_after":"1s","signal":"KILL"}}]]` +
				"\n" +
				"b, none [workload.rate=6/s faults=[]]\n" +
				`b, dead [workload.rate=6/s faults=[{"at":"1s","subject":{"instance":0,"restart_after":"1s","signal":"KILL"}}]]`},
		{"settings of a subject",
			head + "subject: orders.yaml\nmatrix: {subject.env.CONCURRENCY: ['1', '8'], subject.instances: [1, 2]}",
			"CONCURRENCY=\"1\" instances=1 [env.CONCURRENCY=\"1\" subject.instances=1]\nCONCURRENCY=\"1\" instances=2 " +
				"[env.CONCURRENCY=\"1\" subject.instances=2]\n" +
				"CONCURRENCY=\"8\" instances=1 [env.CONCURRENCY=\"8\" subject.instances=1]\nCONCURRENCY=\"8\" instances=2 " +
				"[env.CONCURRENCY=\"8\" subject.instances=2]"},
		{"steps", head + "mode: step\nsteps: [{rate: 10/s, for: 1s}, {rate: 20/s, for: 1s}]",
			"calm [workload.rate=null workload.duration=null workload.steps=[{rate: 10/s, for: 1s}, {rate: 20/s, for: 1s}]]"},
		{"a search", head + "mode: max-throughput\nbound: latency.success.p99 < 1s",
			"calm [expect.thresholds=[\"latency.success.p99 < 1s\"]]"},
		{"a search where the load is stepped",
			"name: b\nscenario: uneven.yaml\nmode: max-throughput\nbound: latency.success.p99 < 1s",
			"uneven [workload.steps=null workload.duration=3s expect.thresholds=[\"latency.success.p99 < 1s\"]]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := cellsOf(plan(t, test.text)); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// All problems are reported together with their places, before anything is run.
func TestWhatIsRefused(t *testing.T) {
	const head = "name: b\nscenario: calm.yaml\n"
	for _, test := range []struct{ name, text, want string }{
		{"no scenario", "name: b", "1:1: scenario is missing"},
		{"another scenario", "name: b\nscenario: smok", "2:11: there is no scenario \"smok\": did you mean smoke?"},
		{"an empty matrix", head + "matrix: {}", "3:9: the matrix is empty"},
		{"no value", head + "matrix: {workload.rate: []}", "3:25: there is no value: write those to compare"},
		{"a value twice", head + "matrix: {workload.rate: [5/s, 5/s]}", "3:31: 5/s is here twice"},
		{"an unknown path", head + "matrix:\n  subject.reference.max_concurrency: [1, 2]",
			"4:38: unknown key max_concurrency"},
		{"a value that can't be", head + "matrix:\n  workload.rate: [5/s, fast]", "4:24: "},
		{"too many cells", head + "matrix: {seed: [" + numbers(20) + "], subject.reference.max_in_flight: [" + numbers(20) +
			"]}", "3:9: this makes more than 300 cells"},
		{"too many with workloads", head + "matrix: {seed: [" + numbers(200) +
			"]}\nworkloads: {a: {workload.rate: 5/s}, b: {workload.rate: 6/s}}",
			"3:9: this makes 400 cells; a bench can have 300 at most"},
		{"matrix and cells", head + "matrix: {seed: [1]}\ncells: [{name: a}]", "4:8: matrix and cells exclude each other"},
		{"a cell's name twice", head + "cells: [{name: a}, {name: a, set: {seed: 1}}]",
			"3:27: the cell a is here twice: line 3 names it already"},
		{"no such consumer", head + "cells: [{name: a, subject: none.yaml}]", "3:28: there is no file "},
		{"a cell twice", head + "cells: [{name: a, set: {seed: 1}}, {name: b, set: {seed: 1}}]", "3:36: b is the same as a"},
		{"a setting twice", head + "set: {seed: 1}\nmatrix: {seed: [1, 2]}",
			"4:17: seed is set twice for seed=1: in line 3, too"},
		{"no faults", head + "faults: {}", "3:9: there is nothing in it"},
		{"a fault that can't be", head + "faults:\n  a: [{at: 1s, for: 1s, kafka: {api: Produce, tpic: dlq}}]", "4:47: "},
		{"a fault that does not fit",
			head + "faults:\n  a: [{at: 9s, for: 1s, kafka: {api: Produce, topic: dlq, error: NOT_ENOUGH_REPLICAS}}]", "4:6: "},
		{"a search without a bound", head + "mode: max-throughput", "3:7: a search for the highest rate needs a bound"},
		{"a bound that is none", head + "mode: max-throughput\nbound: latency.success.p98 < 1s", "4:"},
		{"a bound elsewhere", head + "bound: latency.success.p99 < 1s",
			"3:8: bound goes with mode: max-throughput, and this is fixed"},
		{"a rate in a search", head + "mode: max-throughput\nbound: latency.success.p99 < 1s\nmatrix: {workload.rate: " +
			"[5/s, 6/s]}", "5:9: workload.rate is what the search looks for"},
		{"a search that can't be run", head + "mode: max-throughput\nbound: latency.success.p99 < 1s\nsearch: {highest: " +
			"100000000/s}", "it can't be run at 100000000/s"},
		{"a search from above its end", head + "mode: max-throughput\nbound: latency.success.p99 < 1s\nsearch: {lowest: " +
			"10/s, highest: 5/s}", "5:33: the highest rate must be more than the lowest"},
		{"steps that fall", head + "mode: step\nsteps: [{rate: 20/s, for: 1s}, {rate: 10/s, for: 1s}]",
			"4:39: the steps go up"},
		{"step without steps", head + "mode: step", "3:7: mode: step needs the steps"},
		{"a subject that is not there", head + "subject: nowhere.yaml", "3:10: there is no file"},
		{"an unknown setting of a subject", head + "subject: orders.yaml\nmatrix: {subject.contract.orderin: [key, none]}",
			"4:37: this can't be run: unknown key orderin"},
		{"an unknown key", head + "repetition: 3", "3:1: unknown key repetition"},
		{"several mistakes, first", head + "repetitions: 0\nmatrix: {workload.rat: [1]}",
			"3:14: repetitions must be at least 1"},
		{"several mistakes, second", head + "repetitions: 0\nmatrix: {workload.rat: [1]}", "4:24: unknown key rat"},
		{"several mistakes, counted", head + "repetitions: 0\nmatrix: {workload.rat: [1]}", "2 problems"},
		{"no repetitions", head + "repetitions: 0", "3:14: "},
		{"a real Kafka", "name: b\nscenario: coordinator-reload\n",
			"2:11: coordinator-reload can't be run here: it needs a real Kafka"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Load(written(t, test.text), anyKafka)
			if err == nil {
				t.Fatal("it is taken")
			}
			if _, ok := errors.AsType[*scenarios.Problems](err); !ok {
				t.Errorf("it is no list of problems: %v", err)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("got\n%v\nwant\n%s", err, test.want)
			}
		})
	}
}

func numbers(n int) string {
	var all []string
	for i := range n {
		all = append(all, strconv.Itoa(i+1))
	}
	return strings.Join(all, ", ")
}

// TestHash checks that the hash covers all inputs of the runs, so that results are never continued after a change.
func TestHash(t *testing.T) {
	const text = "name: b\nscenario: calm.yaml\nsubject: orders.yaml\n"
	path := written(t, text)
	hash := func() string {
		p := must.Get(Load(path, anyKafka))(t)
		return p.Hash
	}
	seen := map[string]string{hash(): "as it was"}
	if _, same := seen[hash()]; !same {
		t.Error("it is another each time")
	}
	for name, content := range map[string]string{
		"bench.yaml": text + "repetitions: 7\n", "calm.yaml": strings.Replace(calm, "100/s", "101/s", 1),
		"orders.yaml": strings.Replace(orders, "'1'", "'2'", 1),
	} {
		must.Do(t, os.WriteFile(filepath.Join(filepath.Dir(path), name), []byte(content), 0o600))
		now := hash()
		if before, same := seen[now]; same {
			t.Errorf("after a change of %s it is that of %s", name, before)
		}
		seen[now] = name
	}
}

// TestShipped checks that every shipped bench can be run on the embedded Kafka and states its question.
func TestShipped(t *testing.T) {
	if len(Names()) < 4 {
		t.Errorf("there are %v", Names())
	}
	for _, name := range Names() {
		p, err := Load(name, anyKafka)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if p.Spec.Name != name || p.Spec.Description == "" || len(p.Cells) < 2 || p.Spec.Repetitions != 5 {
			t.Errorf("%s: %+v", name, p.Spec)
		}
	}
}

// TestFind checks that the error about an unknown bench suggests likely alternatives.
func TestFind(t *testing.T) {
	for arg, want := range map[string]string{
		"concurency": "did you mean concurrency?", "something-else-entirely": "name a file, or one of commit-interval",
		"no/such.yaml": "reading the bench",
	} {
		if _, _, err := Find(arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

// A bound that cannot be evaluated is reported once, not again for each cell.
func TestABadBoundIsToldOnce(t *testing.T) {
	_, err := Load(written(t, "name: b\nscenario: calm.yaml\nmode: max-throughput\nbound: latency.p99 < 1s\nmatrix: "+
		"{subject.reference.ordering: [key, none]}"), anyKafka)
	var problems *scenarios.Problems
	if !errors.As(err, &problems) || len(problems.Problems) != 1 {
		t.Errorf("got %v", err)
	}
}
