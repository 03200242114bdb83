package plan

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/faults/downstream"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/scenarios"
)

const base = `name: test
description: For tests.
subject: {reference: {instances: 3}}
`

func scenario(t rapid.TB, text string) *scenarios.Scenario {
	t.Helper()
	s, err := scenarios.Parse("test.yaml", []byte(base+text))
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return s
}

func planOf(t rapid.TB, s *scenarios.Scenario, seed uint64) *Plan {
	t.Helper()
	p, err := Make(s, seed, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// everything is a workload that uses every random choice of a plan.
const everything = `workload:
  steps: [{rate: 100/s, for: 1s}, {rate: 200/s, for: 500ms}]
  arrivals: poisson
  keys: {count: 10, skew: 1, null: 10%, hot: 20%}
  outcomes: {success: 1, transient: {weight: 10, failures: 2}, exhausted: 5, permanent: 3, logical: 2,
    rate_limited: 1, timeout: 1, reset: 1}
  bursts: {every: 300ms, records: 40}
  failing: [{partitions: [1, 4], at: 100ms, for: 300ms, outcome: exhausted}]
  tombstones: 5%
  garbage: 5%
  malformed: {share: 5%}
  large: {share: 5%, size: 2KiB}
replay: {healed: 50%, fail_again: 30%}
faults:
  - {at: 100ms, for: 100ms, kafka: {api: Produce, topic: dlq, error: NOT_ENOUGH_REPLICAS, probability: 50%}}
  - {at: 200ms, when: backoff, for: 300ms, subject: {signal: KILL, all: true}}
  - {when: lag > 10, for: 100ms, downstream: {outage: true}}
`

// drawn varies the load of a scenario.
func drawn(t *rapid.T, from scenarios.Scenario) *scenarios.Scenario {
	load := &from.Workload
	rate := units.Rate(rapid.IntRange(1, 1000).Draw(t, "rate"))
	first := units.Duration(rapid.Int64Range(2e8, 15e8).Draw(t, "first"))
	load.Steps = []scenarios.Step{{Rate: rate, For: first}, {Rate: rate * 2, For: 5e8}}
	load.Duration, load.WarmUp = first+5e8, units.Duration(rapid.Int64Range(0, 6e8).Draw(t, "warm-up"))
	load.Arrivals = rapid.SampledFrom([]string{"constant", "poisson"}).Draw(t, "arrivals")
	load.Keys = scenarios.Keys{
		Count: rapid.IntRange(1, 5000).Draw(t, "keys"), Skew: rapid.SampledFrom([]float64{0, 0.5, 1, 2}).Draw(t, "skew"),
		Null: units.Percent(rapid.Float64Range(0, 1).Draw(t, "null")),
	}
	load.Keys.Hot = units.Percent(rapid.Float64Range(0, 1-load.Keys.Null.Share()).Draw(t, "hot"))
	load.Bursts = &scenarios.Bursts{Every: units.Duration(rapid.Int64Range(1e8, 2e9).Draw(t, "every")),
		Records: rapid.IntRange(1, 50).Draw(t, "burst")}
	load.Outcomes.Success = rapid.IntRange(0, 100).Draw(t, "success")
	return &from
}

func written(t rapid.TB, p *Plan) map[string][]byte {
	t.Helper()
	dir, err := os.MkdirTemp("", "plan")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := p.Write(dir); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, name := range []string{File, RecordsFile} {
		if files[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func TestSameSeedSameBytes(t *testing.T) {
	from := *scenario(t, everything)
	rapid.Check(t, func(t *rapid.T) {
		s, seed := drawn(t, from), rapid.Uint64().Draw(t, "seed")
		one := planOf(t, s, seed)
		two := planOf(t, s, seed)
		if !reflect.DeepEqual(one, two) {
			t.Fatal("two plans of the same scenario and seed differ")
		}
		if a, b := written(t, one), written(t, two); !reflect.DeepEqual(a, b) {
			t.Fatal("the files of two equal plans differ")
		}
		if other := planOf(t, s, seed+1); len(one.Records) > 20 && reflect.DeepEqual(one.Records, other.Records) {
			t.Fatal("another seed makes the same records")
		}
	})
}

// TestRecordsAreInOrderAndInRange checks that each record is within its phase and the ranges of its fields.
func TestRecordsAreInOrderAndInRange(t *testing.T) {
	from := *scenario(t, everything)
	rapid.Check(t, func(t *rapid.T) {
		s := drawn(t, from)
		p := planOf(t, s, rapid.Uint64().Draw(t, "seed"))
		last := time.Duration(0)
		for i, r := range p.Records {
			if r.At < last || (r.At >= p.WarmUp+p.Steady) != (i >= p.Due()) || r.Warmup != (r.At < p.WarmUp) {
				t.Fatalf("record %d at %s (warm-up %v) after one at %s; warm-up %s, steady %s", i, r.At, r.Warmup, last, p.WarmUp,
					p.Steady)
			}
			last = r.At
			if r.Partition < 0 || int(r.Partition) >= s.Topics.Input.Partitions || r.Key < history.None ||
				int(r.Key) >= s.Workload.Keys.Count {
				t.Fatalf("record %d: %+v", i, r)
			}
			malformed := r.Malformed != 0
			if odd := r.Tombstone || r.Garbage || malformed; r.Tombstone && r.Garbage || malformed && r.Garbage ||
				malformed && r.Tombstone || odd && r.Warmup ||
				odd != (r.Outcome == history.OutcomeUnknownID) || odd && r.Failures > 0 {
				t.Fatalf("record %d: %+v", i, r)
			}
			sound := r.Size == 256 || r.Size == 2048 && !r.Garbage && !r.Warmup
			if r.Tombstone {
				sound = r.Size == 0
			}
			if !sound {
				t.Fatalf("record %d has a size of %d: %+v", i, r.Size, r)
			}
			if r.Repeated && (r.Warmup || r.Outcome == history.OutcomeUnknownID) {
				t.Fatalf("record %d is produced twice: %+v", i, r)
			}
			if r.Warmup && r.Outcome != history.OutcomeSuccess {
				t.Fatalf("record %d of the warm-up is %s", i, r.Outcome)
			}
			deadLettered := r.Outcome == history.OutcomeExhausted || r.Outcome == history.OutcomePermanent
			if r.Healed && !deadLettered || r.FailsAgain && !r.Healed {
				t.Fatalf("record %d: %+v", i, r)
			}
			if want := (map[history.Outcome]uint8{history.OutcomeTransient: 2, history.OutcomeRateLimited: 1,
				history.OutcomeTimeout: 1, history.OutcomeReset: 1})[r.Outcome]; r.Failures != want {
				t.Fatalf("record %d: %s with %d failures", i, r.Outcome, r.Failures)
			}
		}
		if p.Steady != s.Workload.Duration.D() || p.WarmUp != s.Workload.WarmUp.D() {
			t.Fatalf("phases of %s and %s", p.WarmUp, p.Steady)
		}
	})
}

func TestConstantArrivals(t *testing.T) {
	p := planOf(t, scenario(t,
		"workload: {steps: [{rate: 300/s, for: 1s}, {rate: 0/s, for: 1s}, {rate: 100/s, for: 500ms}], warm_up: 1s}"), 1)
	if len(p.Records) != 300+300+50 {
		t.Fatalf("%d records", len(p.Records))
	}
	for i, want := range map[int]time.Duration{0: 0, 150: 500 * time.Millisecond, 300: time.Second, 600: 3 * time.Second,
		601: 3*time.Second + 10*time.Millisecond} {
		if have := p.Records[i].At; have != want {
			t.Errorf("record %d at %s, want %s", i, have, want)
		}
	}
}

// TestPoissonArrivals: mean and variance of the counts per slot match the rate, and gaps are not correlated.
func TestPoissonArrivals(t *testing.T) {
	p := planOf(t, scenario(t, "workload: {rate: 1000/s, duration: 20s, warm_up: 0s, arrivals: poisson}"), 7)
	const slots, mean = 1000, 20.0
	counts := make([]float64, slots)
	for _, r := range p.Records {
		counts[int(r.At/(20*time.Millisecond))]++
	}
	sum, squares := 0.0, 0.0
	for _, n := range counts {
		sum += n
		squares += (n - mean) * (n - mean)
	}
	// Five standard deviations of the sample's mean and variance.
	if have := sum / slots; math.Abs(have-mean) > 5*math.Sqrt(mean/slots) {
		t.Errorf("%f records per slot, want %f", have, mean)
	}
	if have := squares / slots; math.Abs(have-mean) > 5*mean*math.Sqrt(2.0/slots) {
		t.Errorf("the variance is %f, a Poisson process has %f", have, mean)
	}
}

func TestOutcomesFollowTheWeights(t *testing.T) {
	p := planOf(t, scenario(t, `workload:
  rate: 20000/s
  duration: 5s
  keys: {count: 100, null: 20%}
  outcomes: {success: 60, transient: 20, exhausted: 8, permanent: 6, logical: 4, rate_limited: 1, reset: 1}
replay: {healed: 70%, fail_again: 25%}
`), 3)
	counts, steady := map[string]float64{}, 0.0
	for _, r := range p.Records {
		if r.Key == history.None {
			counts["null"]++
		}
		if r.Warmup {
			continue
		}
		steady++
		counts[r.Outcome.String()]++
		if r.Healed {
			counts["healed"]++
		}
		if r.FailsAgain {
			counts["again"]++
		}
	}
	letters := 0.14 * steady
	for name, want := range map[string]float64{
		"success": 0.6 * steady, "transient": 0.2 * steady, "exhausted": 0.08 * steady, "permanent": 0.06 * steady,
		"logical":      0.04 * steady,
		"rate-limited": 0.01 * steady, "reset": 0.01 * steady, "timeout": 0, "healed": 0.7 * letters,
		"again": 0.7 * 0.25 * letters, "null": 0.2 * float64(len(p.Records)),
	} {
		if have := counts[name]; math.Abs(have-want) > 5*math.Sqrt(want) {
			t.Errorf("%s: %.0f records, want about %.0f", name, have, want)
		}
	}
}

// TestOutcomesDoNotFollowKeys: a record's key and its outcome are independent.
func TestOutcomesDoNotFollowKeys(t *testing.T) {
	p := planOf(t, scenario(t, "workload: {rate: 20000/s, duration: 1s, warm_up: 0s, keys: {count: 100, null: 50%}, "+
		"outcomes: {success: 50, exhausted: 50}}\nreplay: {healed: 50%}"), 3)
	counts := map[string]float64{}
	for _, r := range p.Records {
		counts[fmt.Sprint(r.Key == history.None, r.Key%100 < 50, r.Outcome, r.Healed)]++
	}
	for what, want := range map[string]float64{
		"true true success false": 5000, "false true success false": 2500, "false false success false": 2500,
		"true true exhausted true": 2500, "false true exhausted true": 1250, "false false exhausted false": 1250,
	} {
		if have := counts[what]; math.Abs(have-want) > 5*math.Sqrt(want) {
			t.Errorf("%s: %.0f records, want about %.0f", what, have, want)
		}
	}
}

func TestZipf(t *testing.T) {
	p := planOf(t, scenario(t, "workload: {rate: 20000/s, duration: 5s, keys: {count: 50, skew: 1}}"), 3)
	counts := make([]float64, 50)
	for _, r := range p.Records {
		counts[r.Key]++
	}
	harmonic := 0.0
	for k := range counts {
		harmonic += 1 / float64(k+1)
	}
	for k, have := range counts {
		if want := float64(len(p.Records)) / float64(k+1) / harmonic; math.Abs(have-want) > 5*math.Sqrt(want) {
			t.Errorf("key %d: %.0f records, want about %.0f", k, have, want)
		}
	}
}

func TestUniformKeysReachAll(t *testing.T) {
	p := planOf(t, scenario(t, "workload: {rate: 20000/s, duration: 1s, keys: {count: 100}}"), 3)
	seen := map[int32]int{}
	for _, r := range p.Records {
		seen[r.Key]++
	}
	for key := range int32(100) {
		if n := seen[key]; n < 200 || n > 400 { // 300 expected, standard deviation 17
			t.Errorf("key %d is drawn %d times", key, n)
		}
	}
}

// TestPartitionsAreKafkas compares with the partitioner of another client, which follows Kafka's own.
func TestPartitionsAreKafkas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		partitions := rapid.IntRange(1, 300).Draw(t, "partitions")
		key := rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "key")
		topic := kgo.StickyKeyPartitioner(nil).ForTopic("t")
		if want, have := topic.Partition(&kgo.Record{Key: key}, partitions), Partition(key, partitions); int32(want) != have {
			t.Fatalf("key %x of %d partitions: %d, Kafka says %d", key, partitions, have, want)
		}
	})
}

func TestKeysAndPartitionsAgree(t *testing.T) {
	p := planOf(t, scenario(t,
		"workload: {rate: 1000/s, duration: 1s, keys: {count: 2000000, null: 50%}}\ntopics: {input: {partitions: 5}}"), 3)
	next := int32(0)
	for i, r := range p.Records {
		if r.Key == history.None {
			if r.Partition != next {
				t.Fatalf("record %d without a key is on %d, not round robin on %d", i, r.Partition, next)
			}
			next = (next + 1) % 5
			continue
		}
		if want := Partition(AppendKey(nil, r.Key), 5); r.Partition != want {
			t.Fatalf("record %d with key %d is on %d, not %d", i, r.Key, r.Partition, want)
		}
	}
	for index, want := range map[int32]string{
		0: "key-000000", 42: "key-000042", 999999: "key-999999", 1000000: "key-1000000",
		history.BinaryKey - 1: "key-1073741823",
		history.BinaryKey:     "key-000000\xff\xfe\x80", math.MaxInt32: "key-1073741823\xff\xfe\x80",
	} {
		if have := string(AppendKey([]byte("x"), index)); have != "x"+want {
			t.Errorf("key %d is %q", index, have)
		}
	}
}

// TestConcernsAreIndependent: an addition to one concern does not change the draws of the others.
func TestConcernsAreIndependent(t *testing.T) {
	const load = "workload: {rate: 1000/s, duration: 2s, arrivals: poisson, keys: {count: 50, skew: 1%s}, outcomes: " +
		"{success: 80, exhausted: 10, permanent: 10}}\n"
	plain := planOf(t, scenario(t, fmt.Sprintf(load, "")), 9)
	with := func(text string) *Plan { return planOf(t, scenario(t, text), 9) }
	same := func(what string, other *Plan, of func(*Record) any) {
		t.Helper()
		if other.Due() != plain.Due() {
			t.Fatalf("%s: %d records, not %d", what, other.Due(), plain.Due())
		}
		for i := range plain.Records {
			if !reflect.DeepEqual(of(&plain.Records[i]), of(&other.Records[i])) {
				t.Fatalf("%s: record %d is %+v, was %+v", what, i, other.Records[i], plain.Records[i])
			}
		}
	}
	whole := func(r *Record) any { return *r }
	same("a fault", with(fmt.Sprintf(load, "")+"faults: [{at: 1s, for: 500ms, downstream: {outage: true}}]"), whole)
	same("a replay", with(fmt.Sprintf(load, "")+"replay: {healed: 50%}"), func(r *Record) any {
		return []any{r.At, r.Outcome, r.Key}
	})
	same("null keys", with(fmt.Sprintf(load, ", null: 30%")), func(r *Record) any { return []any{r.At, r.Outcome} })
	withNull := with(fmt.Sprintf(load, ", null: 30%"))
	for i, r := range withNull.Records {
		if r.Key != history.None && r.Key != plain.Records[i].Key {
			t.Fatalf("null keys: record %d has key %d, had %d", i, r.Key, plain.Records[i].Key)
		}
	}
	same("a hot key", with(fmt.Sprintf(load, ", hot: 30%")), func(r *Record) any { return []any{r.At, r.Outcome} })
	workload := func(more string) string { return strings.Replace(fmt.Sprintf(load, ""), "}\n", ", "+more+"}\n", 1) }
	same("large records", with(workload("large: {share: 20%, size: 1KiB}")), func(r *Record) any {
		return []any{r.At, r.Outcome, r.Key, r.Partition}
	})
	same("repeated records", with(workload("repeated: 20%")), func(r *Record) any {
		plain := *r
		plain.Repeated = false
		return plain
	})
	for _, what := range []string{"tombstones: 20%", "garbage: 20%", "malformed: {share: 20%}"} {
		same(what, with(workload(what)), func(r *Record) any { return []any{r.At, r.Key, r.Partition} })
	}
	same("failing partitions", with(workload("failing: [{partitions: [2], at: 1s, for: 500ms, outcome: permanent}]")),
		func(r *Record) any { return []any{r.At, r.Key, r.Partition} })
	burst := with(workload("bursts: {every: 700ms, records: 50}"))
	burst.Records = slices.DeleteFunc(burst.Records, func(r Record) bool {
		return r.At == burst.WarmUp+700*time.Millisecond || r.At == burst.WarmUp+1400*time.Millisecond
	})
	same("bursts", burst, whole)
	two := "faults:\n  - {at: 1s, for: 500ms, name: new, downstream: {outage: true}}\n  - {at: 1s, name: a, for: 1s, " +
		"kafka: {api: Produce, delay_response: 1s}}\n"
	one := "faults:\n  - {at: 1s, name: a, for: 1s, kafka: {api: Produce, delay_response: 1s}}\n"
	if a, b := with(fmt.Sprintf(load, "") + one).Faults[0], with(fmt.Sprintf(load, "") + two).Faults[1]; a.Seed != b.Seed {
		t.Error("a fault that was put in front changes a named fault's seed")
	}
}

// TestRepeatedRecords checks that their share is that of the scenario, of the records that have an id in their value.
func TestRepeatedRecords(t *testing.T) {
	p := planOf(t, scenario(t, "workload: {rate: 10000/s, duration: 1s, repeated: 20%, tombstones: 50%}"), 5)
	repeated, told := p.Repeated(), 0
	for seq := range p.Records {
		if strings.Contains(string(p.Records[seq].appendLine(nil, seq)), ",message+repeated,") {
			told++
		}
	}
	if repeated < 900 || repeated > 1100 || told != repeated || p.summarize().Repeated != repeated {
		t.Errorf("%d of 10000 records are produced twice, %d lines of the file say so", repeated, told)
	}
}

func TestFaultsAreResolved(t *testing.T) {
	p := planOf(t, scenario(t, `workload: {rate: 10/s, duration: 10s}
faults:
  - {at: 1s, for: 2s, kafka: {api: Produce, topic: dlq, error: NOT_ENOUGH_REPLICAS}}
  - {at: 2s, name: produce-error, for: 1s, kafka: {api: OffsetCommit, instance: 2, probability: 50%,
    drop_response: true}}
  - {at: 3s, subject: {all: true, every: 1500ms, restart: true}}
  - {at: 500ms, subject: {instance: 1, signal: KILL, restart_after: 2s}}
`), 5)
	type short struct {
		name, kind, what, target string
		at, lasts                time.Duration
	}
	want := []short{
		{"produce-error-2", "kafka", "Produce to dlq answered NOT_ENOUGH_REPLICAS", "dlq", time.Second, 2 * time.Second},
		{"produce-error", "kafka", "OffsetCommit by instance 2 carried out, the answer lost (50% of the requests)",
			"instance 2", 2 * time.Second, time.Second},
		{"restart-all", "subject", "every instance restarted, one every 1.5s", "every instance", 3 * time.Second,
			3 * time.Second},
		{"kill-instance-1", "subject", "KILL to instance 1, started again after 2s", "instance 1", 500 * time.Millisecond,
			2 * time.Second},
	}
	var have []short
	seeds := map[uint64]bool{}
	for i, f := range p.Faults {
		have = append(have, short{f.Name, f.Kind, f.What, f.Target, f.At, f.For})
		seeds[f.Seed] = true
		if f.Index != i || f.Written.(catalogue.Spec).Kind() != f.Kind {
			t.Errorf("fault %d: %+v", i, f)
		}
	}
	if !slices.Equal(have, want) {
		t.Errorf("have %+v\nwant %+v", have, want)
	}
	if len(seeds) != 4 {
		t.Error("two faults have the same seed")
	}
	from, to, found := p.FaultWindow()
	if from != 500*time.Millisecond || to != 6*time.Second || !found {
		t.Errorf("faults from %s to %s, %v", from, to, found)
	}
	phases := []Phase{
		{"warm-up", 0, 500 * time.Millisecond}, {"steady", 500 * time.Millisecond, time.Second},
		{"fault", time.Second, 6500 * time.Millisecond}, {"heal", 6500 * time.Millisecond, 10500 * time.Millisecond},
	}
	if have := p.Phases(); !slices.Equal(have, phases) {
		t.Errorf("phases %+v", have)
	}
}

// A fault of the downstream that takes the dead letters is one of the dead letters.
func TestFaultsOfDeadLettersAtADownstream(t *testing.T) {
	s := scenario(t, "workload: {rate: 10/s, duration: 10s}\nfaults: [{at: 1s, for: 1s, broker: {broker: 1, stop: true}}]")
	s.Topics.DLQ.Downstream = "errors"
	if p := planOf(t, s, 5); p.Faults[0].StopsDeadLetters {
		t.Error("a broker stops dead letters that go to a downstream")
	}
	for letters, target := range map[string]string{"errors": "dlq", "mail": "downstream errors", "": "downstream errors"} {
		s.Topics.DLQ.Downstream = letters
		s.Faults[0].Broker, s.Faults[0].Downstream = nil, &downstream.Downstream{Name: "errors", Outage: true}
		if f := planOf(t, s, 5).Faults[0]; f.Target != target || f.StopsDeadLetters != (letters == "errors") ||
			(f.Idle.Needs == history.NeedDeadLetter) != f.StopsDeadLetters {
			t.Errorf("with dead letters at %q: %+v", letters, f.PlannedFault)
		}
	}
}

func TestWrittenRecords(t *testing.T) {
	p := planOf(t, scenario(t, "workload: {rate: 100/s, duration: 1s, keys: {null: 30%}, outcomes: {success: 1, "+
		"transient: 1, permanent: 1}, arrivals: poisson, tombstones: 20%, garbage: 20%, malformed: {share: 20%}}\nreplay: {}"), 5)
	files := written(t, p)
	unpacked, err := gzip.NewReader(bytes.NewReader(files[RecordsFile]))
	if err != nil {
		t.Fatal(err)
	}
	if !unpacked.ModTime.IsZero() || unpacked.Name != "" {
		t.Errorf("the file says when and as what it was packed: %s %q", unpacked.ModTime, unpacked.Name)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(rows) != len(p.Records)+1 {
		t.Fatalf("%d rows for %d records, %v", len(rows), len(p.Records), err)
	}
	if head := strings.Join(rows[0],
		" "); head != "record at_ns warm_up outcome failures key partition size value healed fails_again" {
		t.Errorf("columns %s", head)
	}
	flag := map[bool]string{true: "1", false: "0"}
	for i, r := range p.Records {
		key := ""
		if r.Key != history.None {
			key = fmt.Sprintf("key-%06d", r.Key)
		}
		want := []string{
			fmt.Sprint(i), fmt.Sprint(int64(r.At)), flag[r.Warmup], r.Outcome.String(), fmt.Sprint(r.Failures), key,
			fmt.Sprint(r.Partition), fmt.Sprint(r.Size),
			cmp.Or(map[bool]string{true: "tombstone"}[r.Tombstone], map[bool]string{true: "garbage"}[r.Garbage],
				r.Malformed.String(), "message"), flag[r.Healed],
			flag[r.FailsAgain],
		}
		if !slices.Equal(rows[i+1], want) {
			t.Fatalf("row %v, want %v", rows[i+1], want)
		}
	}
	var head struct {
		Seed     uint64
		Records  int
		Outcomes map[string]int
	}
	if err := json.Unmarshal(files[File], &head); err != nil || head.Seed != 5 ||
		head.Records != len(p.Records) || head.Outcomes["success"] == 0 {
		t.Errorf("%+v, %v", head, err)
	}
}

// TestBursts: each burst has the configured number of records at once, in the steady phase, with keys and outcomes
// like all others.
func TestBursts(t *testing.T) {
	p := planOf(t, scenario(t,
		"workload: {rate: 100/s, duration: 2s, bursts: {every: 500ms, records: 200}, outcomes: {success: 1, permanent: 1}}"),
		3)
	if len(p.Records) != 50+200+3*200 {
		t.Fatalf("%d records", len(p.Records))
	}
	plain := planOf(t, scenario(t, "workload: {rate: 100/s, duration: 2s, outcomes: {success: 1, permanent: 1}}"), 3)
	if have, want := p.Records[100], plain.Records[100]; have != want {
		t.Errorf("at the instant of a burst the record of the rate comes first: %+v, not %+v", want, have)
	}
	counts, keys, permanent := map[time.Duration]int{}, map[int32]bool{}, 0
	for _, r := range p.Records {
		counts[r.At-p.WarmUp]++
		if r.At == p.WarmUp+500*time.Millisecond {
			keys[r.Key] = true
			if r.Outcome == history.OutcomePermanent {
				permanent++
			}
		}
	}
	for at, n := range counts {
		want := 1
		if at > 0 && at%(500*time.Millisecond) == 0 {
			want = 201
		}
		if n != want {
			t.Errorf("%d records at %s, want %d", n, at, want)
		}
	}
	if len(keys) < 100 || permanent < 60 || permanent > 140 {
		t.Errorf("a burst has %d keys and %d permanent failures", len(keys), permanent)
	}
}

func TestHotKey(t *testing.T) {
	p := planOf(t, scenario(t,
		"workload: {rate: 20000/s, duration: 1s, warm_up: 0s, keys: {count: 1000, hot: 60%, null: 20%}}"), 3)
	counts := map[int32]float64{}
	for _, r := range p.Records {
		counts[r.Key]++
	}
	// The hot key is also drawn among the thousand keys: 4000 other records, so 4 on average.
	for key, want := range map[int32]float64{hotKey: 12004, history.None: 4000} {
		if have := counts[key]; math.Abs(have-want) > 5*math.Sqrt(want) {
			t.Errorf("key %d has %.0f records, want about %.0f", key, have, want)
		}
	}
	all := planOf(t, scenario(t, "workload: {rate: 1000/s, duration: 1s, keys: {hot: 40%, null: 60%}}"), 3)
	for i, r := range all.Records {
		if r.Key != history.None && r.Key != hotKey {
			t.Fatalf("record %d has key %d, where none is left to", i, r.Key)
		}
	}
}

func TestSortsOfValues(t *testing.T) {
	p := planOf(t, scenario(t, `workload:
  {rate: 20000/s, duration: 1s, warm_up: 0s, tombstones: 20%, garbage: 30%, malformed: {share: 10%,
    how: [wrong-type]}, large: {share: 30%, size: 50KiB}, outcomes: {exhausted: 1}}
replay: {}
`), 3)
	counts := map[string]float64{}
	for i, r := range p.Records {
		counts[fmt.Sprint(r.value(), " ", r.Size)]++
		if (r.Tombstone || r.Garbage || r.Malformed != 0) == r.Healed {
			t.Fatalf("record %d: what no downstream knows can't be healed, all else is here: %+v", i, r)
		}
	}
	for sort, want := range map[string]float64{"tombstone 0": 4000, "garbage 256": 6000, "message 51200": 6000,
		"wrong-type 256": 2000, "message 256": 2000} {
		if have := counts[sort]; math.Abs(have-want) > 5*math.Sqrt(want) {
			t.Errorf("%s: %.0f records, want about %.0f", sort, have, want)
		}
		delete(counts, sort)
	}
	if len(counts) > 0 {
		t.Errorf("others: %v", counts)
	}
}

// TestValuesDoNotFollowOutcomes: a record's value does not change the outcomes of the others.
func TestValuesDoNotFollowOutcomes(t *testing.T) {
	for _, sort := range []string{
		"tombstones: 50%", "garbage: 50%", "malformed: {share: 50%}", "large: {share: 50%, size: 1KiB}",
	} {
		p := planOf(t, scenario(t, "workload: {rate: 20000/s, duration: 1s, warm_up: 0s, "+sort+
			", outcomes: {success: 1, permanent: 1}}"), 3)
		counts := map[string]float64{}
		for _, r := range p.Records {
			if !r.Tombstone && !r.Garbage && r.Malformed == 0 {
				counts[fmt.Sprint(r.Size, " ", r.Outcome)]++
			}
		}
		for what, have := range counts {
			if want := 5000.0; math.Abs(have-want) > 5*math.Sqrt(want) {
				t.Errorf("%s: %.0f records are %s, want about %.0f", sort, have, what, want)
			}
		}
	}
}

func TestFailingPartitions(t *testing.T) {
	p := planOf(t, scenario(t, `workload:
  rate: 2000/s
  duration: 3s
  failing:
    - {partitions: [0, 2], at: 500ms, for: 1s, outcome: transient}
    - {partitions: [2], at: 1500ms, for: 1500ms, outcome: logical}
    - {partitions: [5], for: 3s, outcome: exhausted}
`), 3)
	for i, r := range p.Records {
		want, failures, at := history.OutcomeSuccess, uint8(0), r.At-p.WarmUp
		switch {
		case at < 0:
		case (r.Partition == 0 || r.Partition == 2) && at >= 500*time.Millisecond && at < 1500*time.Millisecond:
			want, failures = history.OutcomeTransient, 2
		case r.Partition == 2 && at >= 1500*time.Millisecond:
			want = history.OutcomeLogical
		case r.Partition == 5:
			want = history.OutcomeExhausted
		}
		if r.Outcome != want || r.Failures != failures {
			t.Fatalf("record %d, %s into the steady phase: %+v", i, at, r)
		}
	}
}

// TestFaultsThatWait: the time of such a fault is unknown, so its window reaches to the end.
func TestFaultsThatWait(t *testing.T) {
	p := planOf(t, scenario(t, `workload: {rate: 10/s, duration: 5s}
cluster: {brokers: 2}
topics: {dlq: {broker: 2}}
faults:
  - {at: 1s, when: first-dead-letter, for: 1s, broker: {broker: 2, pause: true}}
  - {at: 2s, for: 1s, broker: {broker: 1, pause: true}}
`), 1)
	if f := p.Faults[0]; f.When != "first-dead-letter" || f.At != time.Second || !f.StopsDeadLetters ||
		f.Name != "broker-2-pause" {
		t.Errorf("%+v", f.PlannedFault)
	}
	if f := p.Faults[1]; f.When != "" || f.StopsDeadLetters {
		t.Errorf("%+v", f.PlannedFault)
	}
	if from, to, found := p.FaultWindow(); from != time.Second || to != 5*time.Second || !found {
		t.Errorf("faults from %s to %s, %v", from, to, found)
	}
	if phases := p.Phases(); phases[len(phases)-1] != (Phase{"fault", 1500 * time.Millisecond, 5500 * time.Millisecond}) {
		t.Errorf("phases %+v", phases)
	}
}

// TestTheSameInEveryProcess: every run makes its plan anew, so the result must not differ between processes (as the
// order of a map does).
func TestTheSameInEveryProcess(t *testing.T) {
	if out := os.Getenv("DLQBENCH_TEST_PLAN"); out != "" {
		if err := planOf(t, scenario(t, everything), 42).Write(out); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := written(t, planOf(t, scenario(t, everything), 42))
	for range 3 {
		dir := t.TempDir()
		command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheSameInEveryProcess$")
		command.Env = append(os.Environ(), "DLQBENCH_TEST_PLAN="+dir)
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		for name, text := range want {
			if have, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(have, text) {
				t.Errorf("%s differs in another process, %v", name, err)
			}
		}
	}
}

func TestARecordIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Record{}); size > 40 {
		t.Errorf("a record takes %d bytes", size)
	}
}

func TestSenselessLoadIsRefused(t *testing.T) {
	s := scenario(t, "workload: {rate: 100/s, duration: 1s}")
	s.Workload.Rate = 1e10
	if _, err := Make(s, 1, nil, false); err == nil {
		t.Error("a rate above one record per nanosecond was planned")
	}
	s.Workload.Rate, s.Workload.Duration = 100, 0
	if _, err := Make(s, 1, nil, false); err == nil {
		t.Error("a load without a length was planned")
	}
}

func BenchmarkMake(b *testing.B) {
	s := scenario(b,
		"workload: {rate: 20000/s, duration: 50s, arrivals: poisson, keys: {skew: 1}, outcomes: {success: 9, transient: 1}}")
	for b.Loop() {
		if _, err := Make(s, 1, nil, false); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(1e6*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
