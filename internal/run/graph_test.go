package run

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/deadletter/pipestream"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/scenarios"
)

func graphOptions(t *testing.T) Options {
	t.Helper()
	options := small(t)
	path := filepath.Join("testdata", "graph.yaml")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if options.Scenario, options.Source, err = scenarios.ParseForSubject(path, data, nil, ""); err != nil {
		t.Fatal(err)
	}
	return options
}

// A graph runs, its nodes are judged individually and as a whole, and judging the stored run again gives the same
// verdict.
func TestAGraphRunsAndIsJudged(t *testing.T) {
	t.Parallel()
	outcome, err := Run(t.Context(), graphOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	if outcome.Verdict.Verdict != assertions.Pass {
		t.Errorf("the verdict is %s: %v", outcome.Verdict.Verdict, outcome.Verdict.Reasons)
	}
	judged := map[string]int64{}
	for _, result := range outcome.Verdict.Invariants {
		judged[result.Name] = result.Judged
	}
	for _, name := range []string{"graph-conservation", "parse/bounded-retries", "parse/dlq-fidelity", "chunk/no-loss",
		"ocr/no-loss", "embed/commit-after-outcome", "parse/stays-up", "chunk/stays-up", "ocr/stays-up", "embed/stays-up"} {
		if judged[name] == 0 {
			t.Errorf("%s judged nothing; there are %v", name, judged)
		}
	}
	again, err := LoadRun(outcome.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.Verdict.Invariants, outcome.Verdict.Invariants) {
		t.Errorf("judged again it is %+v", again.Verdict.Invariants)
	}
	if used := outcome.Verdict.Usage.Instances; runtime.GOOS == "linux" && len(used) != outcome.Verdict.Instances {
		t.Errorf("of %d instances %d were measured", outcome.Verdict.Instances, len(used))
	}
	seen := countRoles(t, outcome.Dir)
	for _, what := range []string{"sink", "dlq", "quarantine", "replayed"} {
		if seen[what] == 0 {
			t.Errorf("nothing was seen of %s: %v", what, seen)
		}
	}
}

// A process that may crash is restarted, whichever node or service of the subject it belongs to.
func TestWhatMayCrashIsSupervised(t *testing.T) {
	crashes := history.Contract{OnFailure: history.OnFailureCrash}
	halts := history.Contract{OnFailure: history.OnFailureHalt}
	several := []history.Consumer{{Instances: 1, Contract: halts}, {First: 1, Instances: 1, Contract: crashes}}
	for name, header := range map[string]history.Header{
		"graph": {Graph: &history.Graph{}, Consumers: several}, "services": {Consumers: several},
	} {
		if r := (&run{header: header}); r.mayCrash(0) || !r.mayCrash(1) {
			t.Errorf("%s: supervised are %t, %t", name, r.mayCrash(0), r.mayCrash(1))
		}
	}
	if r := (&run{header: history.Header{Consumers: []history.Consumer{{Instances: 1,
		Contract: crashes}}}}); !r.mayCrash(0) {
		t.Error("a consumer that may crash is not supervised")
	}
}

// countRoles counts the writes by the role of their topic, and those of the replay tool.
func countRoles(t *testing.T, dir string) map[string]int {
	t.Helper()
	reader, err := history.Open(filepath.Join(dir, dirHistory))
	if err != nil {
		t.Fatal(err)
	}
	header, seen := reader.Header(), map[string]int{}
	err = reader.Each(func(e *history.Event) error {
		switch {
		case e.Kind == history.KindProduceRequest && e.Instance == history.Replayer:
			seen["replayed"]++
		case e.Kind == history.KindProduceRequest:
			seen[string(header.Topics[e.Topic].Role)]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// The consumer chooses an edge by the same rule that the judge applies. The rule is implemented twice, so that
// neither implementation can hide a mistake of the other.
func TestConsumerAndJudgeChooseTheSameEdge(t *testing.T) {
	header := history.Header{Graph: &history.Graph{Sink: 9}, Consumers: []history.Consumer{
		{Name: "parse", Input: 0, Edges: []history.Edge{{To: 1, Weight: 3}, {To: 2, Weight: 1}, {To: 3, Weight: 7}}},
		{Name: "a", Input: 1}, {Name: "b", Input: 2}, {Name: "c", Input: 3},
	}}
	node := consumer.Node{Name: "parse", Sink: "9", Quarantine: "q",
		Edges: []consumer.NodeEdge{{To: "a", Topic: "1", Weight: 3}, {To: "b", Topic: "2", Weight: 1},
			{To: "c", Topic: "3", Weight: 7}}}
	ids, taken := history.NewIDs("run"), map[string]bool{}
	for seq := range int32(500) {
		id := ids.Token(seq)
		value, err := proto.Marshal(&pipestream.PipeStream{StreamId: id})
		if err != nil {
			t.Fatal(err)
		}
		topic := consumer.GraphRouter{Node: node}.Forward(&kgo.Record{Value: value}, consumer.Step{}).Topic
		if want := fmt.Sprint(header.Next(0, id)); topic != want {
			t.Fatalf("document %s goes to %s, and the judge expects it in %s", id, topic, want)
		}
		taken[topic] = true
	}
	if len(taken) != 3 || header.Next(1, "x") != 9 {
		t.Errorf("the edges taken are %v, and from a node without any a document goes to %d", taken, header.Next(1, "x"))
	}
}

func TestNewDeadLettersAreThoseSinceTheLastLook(t *testing.T) {
	got := newDeadLetters(map[int32]int64{0: 2}, map[int32]int64{0: 5, 3: 1})
	parts := strings.Split(got, " || ")
	if want := []string{"partition == 0 && offset >= 2 && offset < 5",
		"partition == 3 && offset >= 0 && offset < 1"}; !slices.Equal(parts, want) {
		t.Errorf("the expression is %q", got)
	}
}
