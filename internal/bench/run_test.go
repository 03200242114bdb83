package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// laboratory is a runner without a Kafka. Each job takes its load's time plus a second, on a clock of its own.
type laboratory struct {
	now time.Time
	// jobs are the completed jobs, as "cell/repetition/rate".
	jobs []string
	// kill is the number, counted from 1, of the job before which the user interrupts. 0 means never.
	kill   int
	cancel context.CancelFunc
	begun  int
	// run changes the result of a job.
	run func(job Job, run *reports.BenchRun) error
	// parts are returned with each run.
	parts []reports.BenchPart
	// cpus are those of the machine; hdr is the histogram of each run.
	cpus, hdr string
}

func newLaboratory() *laboratory {
	histogram := hdrhistogram.New(1, 1000, 3)
	_ = histogram.RecordValue(80)
	hdr, err := reports.EncodeHDR(histogram)
	if err != nil {
		panic(err)
	}
	return &laboratory{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), cpus: "2", hdr: hdr,
		run: func(Job, *reports.BenchRun) error { return nil }}
}

func (l *laboratory) Run(ctx context.Context, job Job) (Measured, error) {
	l.begun++
	if l.begun == l.kill {
		l.cancel()
	}
	select {
	case <-ctx.Done():
		l.now = l.now.Add(job.Cell.Load / 2)
		return Measured{Interrupted: true}, nil
	default:
	}
	elapsed := job.Cell.Load + time.Second
	l.now = l.now.Add(elapsed)
	rate := job.Rate
	if rate == 0 {
		rate = job.Cell.Rate
	}
	run := reports.BenchRun{
		Verdict: assertions.Pass, Elapsed: elapsed, Command: strings.Join(job.Sets, " "), Drained: true,
		Throughput: measure.Throughput{Offered: rate, Sent: rate, Processed: rate},
		Ledger:     measure.Ledger{Planned: 100, Acknowledged: 100},
		Latency: map[string]reports.BenchLatency{measure.LatencySuccess: {Quantiles: measure.Quantiles{Count: 100,
			P99: 80 * time.Millisecond}, HDR: l.hdr}},
		Thresholds: []measure.Threshold{{Expression: bound, Met: true}},
	}
	err := l.run(job, &run)
	if err == nil {
		l.jobs = append(l.jobs, fmt.Sprintf("%d/%d/%.0f", job.Cell.Number, job.Repetition, job.Rate))
	}
	return Measured{Run: run, Parts: l.parts, Environment: map[string]string{"cpus": l.cpus, "kafka": "embedded"}}, err
}

const (
	bound    = "latency.success.p99 < 100ms"
	compared = "name: b\nscenario: calm.yaml\nmatrix: {subject.reference.max_in_flight: [1, 2, 3]}\nrepetitions: 4\n"
	searches = "name: b\nscenario: calm.yaml\nmatrix: {subject.reference.max_in_flight: [1, 2]}\nrepetitions: 2\nmode: " +
		"max-throughput\nbound: " + bound + "\nsearch: {highest: 3200/s}\n"
)

// carryOut runs a bench in the laboratory, in a folder, and returns the results that it left there.
func carryOut(t *testing.T, p *Plan, l *laboratory, dir string) (reports.Bench, error) {
	t.Helper()
	folder, results, found, err := p.OpenFolder(dir, "v1", false)
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		results = p.Begin("v1", l.now)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.cancel = cancel
	var last reports.Bench
	keep := func(bench reports.Bench, _ bool) error { last = bench; return nil }
	results, err = p.Run(ctx, results, Options{
		Runner: l, Now: func() time.Time {
			return l.now
		}, Keep: keep, Begins: func(Job, Standing) {}, Ended: func(Job, reports.BenchRun, reports.Bench) {},
	})
	// Folder.Keep makes every report and syncs it. The test stores only the latest results.
	var text bytes.Buffer
	must.Do(t, errors.Join(reports.BenchJSON(&text, last), os.WriteFile(filepath.Join(folder.dir, reports.BenchJSONFile),
		text.Bytes(), 0o600)))
	kept := must.Get(Earlier(dir))(t)
	if err == nil && (kept.Interrupted != results.Interrupted || kept.Elapsed != results.Elapsed) {
		t.Errorf("kept is not what is told")
	}
	return kept, err
}

// TestRepetitionsTakeTurns checks that each round has every cell once, and that the rounds have different orders, which
// depend only on the seed.
func TestRepetitionsTakeTurns(t *testing.T) {
	l := newLaboratory()
	results, err := carryOut(t, plan(t, compared), l, t.TempDir())
	if err != nil || results.Interrupted || results.Count(reports.BenchOK) != 3 {
		t.Fatalf("%v: %+v", err, results)
	}
	orders := map[string]bool{}
	for round := range 4 {
		var cells []string
		for _, job := range l.jobs[3*round : 3*round+3] {
			cell, rest, _ := strings.Cut(job, "/")
			if !strings.HasPrefix(rest, fmt.Sprint(round+1)) {
				t.Errorf("%s is run in round %d", job, round+1)
			}
			cells = append(cells, cell)
		}
		orders[strings.Join(cells, "")] = true
		slices.Sort(cells)
		if strings.Join(cells, "") != "123" {
			t.Errorf("round %d has the cells %v", round+1, cells)
		}
	}
	if len(orders) < 2 {
		t.Errorf("all rounds have the same order: what drifts favours the same cells each time")
	}
	again, other := newLaboratory(), newLaboratory()
	_, _ = carryOut(t, plan(t, compared), again, t.TempDir())
	_, _ = carryOut(t, plan(t, compared+"seed: 99\n"), other, t.TempDir())
	if !slices.Equal(l.jobs, again.jobs) || slices.Equal(l.jobs, other.jobs) {
		t.Errorf("the order is not that of the seed: %v, %v, with another seed %v", l.jobs, again.jobs, other.jobs)
	}
}

// capacity makes the second cell's consumer hold twice the rate of the first.
func capacity(job Job, run *reports.BenchRun) error {
	if limit := 500 * float64(job.Cell.Number); job.Rate > limit {
		run.Throughput.Processed = limit
		run.BacklogGrowth = job.Rate - limit
	}
	return nil
}

// TestResume checks that an interrupted and resumed bench gives the results of an uninterrupted one, wherever it is
// interrupted, and repeats only the interrupted run.
func TestResume(t *testing.T) {
	for name, text := range map[string]string{"fixed": compared, "max-throughput": searches} {
		t.Run(name, func(t *testing.T) {
			p := plan(t, text)
			whole := newLaboratory()
			whole.run = capacity
			want := must.Get(carryOut(t, p, whole, t.TempDir()))(t)
			for kill := 1; kill <= len(whole.jobs); kill++ {
				dir := t.TempDir()
				first, second := newLaboratory(), newLaboratory()
				first.run, second.run, first.kill = capacity, capacity, kill
				half, err := carryOut(t, p, first, dir)
				if err != nil || !half.Interrupted || len(first.jobs) != kill-1 {
					t.Fatalf("interrupted in run %d: %v, %v", kill, err, first.jobs)
				}
				got, err := carryOut(t, p, second, dir)
				if err != nil || got.Interrupted {
					t.Fatalf("resumed after run %d: %v", kill, err)
				}
				if jobs := append(first.jobs, second.jobs...); !slices.Equal(jobs, whole.jobs) {
					t.Fatalf("interrupted in run %d: the runs are %v, want %v", kill, jobs, whole.jobs)
				}
				if !reflect.DeepEqual(got.Cells, want.Cells) || got.Overhead.Runs != want.Overhead.Runs {
					t.Fatalf("interrupted in run %d, the results differ", kill)
				}
			}
		})
	}
}

// TestNothingLeft checks that a complete bench is not run again.
func TestNothingLeft(t *testing.T) {
	dir, p := t.TempDir(), plan(t, compared)
	_, _ = carryOut(t, p, newLaboratory(), dir)
	l := newLaboratory()
	if _, err := carryOut(t, p, l, dir); err != nil || len(l.jobs) != 0 {
		t.Errorf("%v, %v", err, l.jobs)
	}
}

// TestSearchResults checks that the run stored in full is that of the found rate, and that each rate has three digits.
func TestSearchResults(t *testing.T) {
	l := newLaboratory()
	l.run = capacity
	results := must.Get(carryOut(t, plan(t, searches), l, t.TempDir()))(t)
	for _, cell := range results.Cells {
		for _, repetition := range cell.Repetitions {
			search, limit := repetition.Search, 500*float64(cell.Number)
			if search.Limit != reports.BenchLimitConsumer || search.Rate > limit || search.Rate < limit/1.1 ||
				search.Above <= limit {
				t.Errorf("%s holds %v: %v to %v, %s", cell.Name, limit, search.Rate, search.Above, search.Limit)
			}
			if repetition.Run.Throughput.Offered != search.Rate || repetition.Run.Latency[measure.LatencySuccess].HDR == "" {
				t.Errorf("%s: the run is that at %v, want %v, whole", cell.Name, repetition.Run.Throughput.Offered, search.Rate)
			}
			for _, probe := range search.Probes {
				if probe.Run.Latency[measure.LatencySuccess].HDR != "" ||
					probe.Hold == reports.BenchNotHeld && len(probe.Why) == 0 {
					t.Errorf("the probe at %v: %+v", probe.Rate, probe)
				}
			}
		}
		if cell.State != reports.BenchOK {
			t.Errorf("%s is %s: %v", cell.Name, cell.State, cell.Why)
		}
	}
}

func violating(anomaly string) []reports.BenchInvariant {
	return []reports.BenchInvariant{{Name: "no-loss", Verdict: assertions.Fail, Anomalies: map[string]int64{anomaly: 3}}}
}

// TestBrokenIsNotFast checks that a cell that loses records is broken, even if only beyond the rate that it holds, and
// that lateness beyond that rate breaks no promise.
func TestBrokenIsNotFast(t *testing.T) {
	for _, test := range []struct {
		name, text, anomaly string
		when                func(Job) bool
		want                reports.BenchState
	}{
		{"at its load", compared, "lost", func(j Job) bool { return j.Repetition == 3 }, reports.BenchBroken},
		{"late at its load", compared, "stalled", func(j Job) bool { return j.Repetition == 3 }, reports.BenchBroken},
		{"beyond what it holds", searches, "lost", func(j Job) bool { return j.Rate > 500 }, reports.BenchBroken},
		{"late beyond what it holds", searches, "stalled", func(j Job) bool { return j.Rate > 500 }, reports.BenchOK},
		{"late at the lowest rate", searches, "stalled", func(Job) bool { return true }, reports.BenchBroken},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLaboratory()
			l.run = func(job Job, run *reports.BenchRun) error {
				if job.Cell.Number == 1 && test.when(job) {
					run.Verdict, run.Invariants, run.Reasons = assertions.Fail, violating(test.anomaly),
						[]string{"3 records were " + test.anomaly}
				}
				return nil
			}
			results := must.Get(carryOut(t, plan(t, test.text), l, t.TempDir()))(t)
			first := results.Cells[0]
			if first.State != test.want || results.Cells[1].State != reports.BenchOK {
				t.Errorf("the cells are %s and %s, want %s and ok: %v", first.State, results.Cells[1].State, test.want, first.Why)
			}
			if test.want == reports.BenchBroken && (!strings.Contains(strings.Join(first.Why, " "), test.anomaly) ||
				!strings.Contains(first.Command, "max_in_flight=1")) {
				t.Errorf("it does not say what is broken, or not how to see it: %v, %q", first.Why, first.Command)
			}
		})
	}
}

// TestInconclusiveIsNotTheConsumer checks that limits of the harness are reported as such.
func TestInconclusiveIsNotTheConsumer(t *testing.T) {
	l := newLaboratory()
	l.run = func(job Job, run *reports.BenchRun) error {
		if job.Rate > 800 {
			run.Throughput.Sent, run.Verdict, run.Reasons = 800, assertions.Inconclusive,
				[]string{"the workload could not keep its schedule"}
		}
		return nil
	}
	results := must.Get(carryOut(t, plan(t, searches), l, t.TempDir()))(t)
	search := results.Cells[0].Repetitions[0].Search
	if search.Limit != reports.BenchLimitHarness || search.Rate > 800 || search.Rate < 700 {
		t.Errorf("%+v", search)
	}
	if len(results.Cells[0].Why) == 0 || !strings.Contains(results.Cells[0].Why[0], "at least") {
		t.Errorf("it is not said: %v", results.Cells[0].Why)
	}
	if figure, _ := reports.BenchMaxThroughput.Figure("rate.held"); len(results.Cells[0].Figures(figure)) != 0 {
		t.Errorf("the harness's limit is a figure of the consumer")
	}
}

// TestEnvironmentFails checks that a failed run is reported and left for later, and that the bench gives up after three
// in a row.
func TestEnvironmentFails(t *testing.T) {
	p, dir, l := plan(t, compared), t.TempDir(), newLaboratory()
	l.run = func(job Job, _ *reports.BenchRun) error {
		if job.Cell.Number == 2 && job.Repetition == 1 {
			return errors.New("the broker did not start")
		}
		return nil
	}
	results, err := carryOut(t, p, l, dir)
	if err != nil || results.Interrupted {
		t.Fatal(err)
	}
	if why := strings.Join(results.Cells[1].Why, ""); !strings.Contains(why, "did not start") ||
		results.Cells[1].State != reports.BenchOK {
		t.Errorf("%s: %s", results.Cells[1].State, why)
	}
	l = newLaboratory()
	results, err = carryOut(t, p, l, dir)
	if err != nil || !slices.Equal(l.jobs, []string{"2/1/0"}) || len(results.Cells[1].Why) != 0 {
		t.Errorf("what could not be run is not run again: %v %v %v", err, l.jobs, results.Cells[1].Why)
	}
	l = newLaboratory()
	l.run = func(Job, *reports.BenchRun) error { return errors.New("the disk is full") }
	_, err = carryOut(t, p, l, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "the disk is full") || l.begun != mostFailures {
		t.Errorf("after %d runs: %v", l.begun, err)
	}
}

// TestKeep checks that every file is written completely and that no other files remain.
func TestKeep(t *testing.T) {
	dir, p := t.TempDir(), plan(t, compared)
	results, _ := carryOut(t, p, newLaboratory(), dir)
	must.Do(t, (Folder{dir}).Keep(results, false))
	if _, err := os.Stat(filepath.Join(dir, reports.BenchCSVFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("while it goes on all is made anew after each run: %v", err)
	}
	must.Do(t, (Folder{dir}).Keep(results, true))
	entries, _ := os.ReadDir(dir)
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	want := append(reports.BenchFiles(), fileSpec)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("it holds %v, want %v", got, want)
	}
	if again, err := Earlier(dir); err != nil || !reflect.DeepEqual(again.Cells, results.Cells) {
		t.Errorf("it came back otherwise: %v", err)
	}
}

// TestSubjectOfACell checks that a cell's subject.yaml has its settings, and that its commands run in the directory of
// the original.
func TestSubjectOfACell(t *testing.T) {
	p := plan(t, "name: b\nscenario: calm.yaml\nsubject: orders.yaml\nmatrix: {subject.env.CONCURRENCY: ['1', '8']}\n")
	dir := t.TempDir()
	folder, _, _, err := p.OpenFolder(dir, "v1", false)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"1", "8"} {
		file := p.SubjectFile(folder, p.Cells[i])
		subject := must.Get(scenarios.LoadSubject(file))(t)
		runsIn, err := filepath.Abs(filepath.Join(filepath.Dir(file), subject.Dir))
		if err != nil || runsIn != filepath.Join(filepath.Dir(p.File), "app") || subject.Env["CONCURRENCY"] != want {
			t.Errorf("%s: %v, it runs in %s with %v", file, err, runsIn, subject.Env)
		}
	}
	if p := plan(t, "name: b\nscenario: calm.yaml\nsubject: orders.yaml\n"); p.SubjectFile(folder,
		p.Cells[0]) != filepath.Join(filepath.Dir(p.File), "orders.yaml") {
		t.Errorf("a cell that changes nothing has the subject %s", p.SubjectFile(folder, p.Cells[0]))
	}
}

// TestCellsOfSeveralConsumers checks that each cell runs its own consumer, with its settings of that consumer's file,
// and that results do not outlive a change of either file.
func TestCellsOfSeveralConsumers(t *testing.T) {
	file := written(t, "name: b\nscenario: calm.yaml\nsubject: orders.yaml\ncells:\n  - {name: theirs}\n"+
		"  - {name: ours, subject: ours.yaml}\n  - {name: faster, subject: ours.yaml, set: {subject.env.CONCURRENCY: '8'}}\n")
	ours := filepath.Join(filepath.Dir(file), "ours.yaml")
	load := func(text string) *Plan {
		must.Do(t, os.WriteFile(ours, []byte(text), 0o600))
		p := must.Get(Load(file, anyKafka))(t)
		return p
	}
	p := load(strings.Replace(orders, "name: orders", "name: ours", 1))
	folder, _, _, err := p.OpenFolder(t.TempDir(), "v1", false)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"orders 1", "ours 1", "ours 8"} {
		subject := must.Get(scenarios.LoadSubject(p.SubjectFile(folder, p.Cells[i])))(t)
		if got := subject.Name + " " + subject.Env["CONCURRENCY"]; got != want {
			t.Errorf("cell %d runs %s, want %s", i+1, got, want)
		}
	}
	if p.SubjectName != "2 consumers" {
		t.Errorf("the bench measures %s", p.SubjectName)
	}
	if changed := load(orders); changed.Hash == p.Hash {
		t.Error("another consumer has the same digest")
	}
}

// TestFilesOfACell checks that a cell's subject.yaml still names the files of the original, which are beside that.
func TestFilesOfACell(t *testing.T) {
	beside := map[string]string{"orders.jsonl": `{"key":"k","value":{"id":"a"}}`, "key.avsc": `"string"`,
		"a.avsc":   `{"type":"record","name":"A","fields":[{"name":"id","type":"string"}]}`,
		"api.yaml": "asyncapi: 3.0.0\nchannels: {a: {messages: {m: {examples: [{payload: {id: a}}]}}}}\n"}
	const avro = "samples: orders.jsonl, lines: envelope, id: {at: $.id}, format: avro, schema: a.avsc"
	for input, samples := range map[string]int{
		"{" + avro + ", key: {format: avro, schema: key.avsc}}":    1,
		"{asyncapi: {file: api.yaml, channel: a}, id: {at: $.id}}": 1, "{topic: mine}": 0,
	} {
		beside["orders.yaml"] = orders + "\ninput: " + input + "\n"
		subject := subjectOfACell(t, beside)
		if (subject.Samples != nil) != (samples > 0) || samples > 0 && subject.Samples.Len() != samples {
			t.Errorf("%s: %+v", input, subject.Input)
		}
	}
}

// subjectOfACell returns the subject of a bench's cell. The bench is beside these files.
func subjectOfACell(t *testing.T, beside map[string]string) *scenarios.SubjectFile {
	t.Helper()
	file := written(t, "name: b\nscenario: calm.yaml\nsubject: orders.yaml\nmatrix: {subject.env.CONCURRENCY: ['1', '8']}\n")
	for name, text := range beside {
		must.Do(t, os.WriteFile(filepath.Join(filepath.Dir(file), name), []byte(text), 0o600))
	}
	p := must.Get(Load(file, anyKafka))(t)
	folder, _, _, err := p.OpenFolder(t.TempDir(), "v1", false)
	if err != nil {
		t.Fatal(err)
	}
	subject := must.Get(scenarios.LoadSubject(p.SubjectFile(folder, p.Cells[1])))(t)
	return subject
}

// TestRefusedFolders checks that results of another bench are never mixed in, and never removed unless requested.
func TestRefusedFolders(t *testing.T) {
	p := plan(t, compared)
	open := func(p *Plan, dir, version string) error {
		_, _, _, err := p.OpenFolder(dir, version, false)
		return err
	}
	dir := t.TempDir()
	_, _ = carryOut(t, p, newLaboratory(), dir)
	before, _ := os.ReadFile(filepath.Join(dir, reports.BenchJSONFile))
	for name, err := range map[string]error{
		"has changed since": open(plan(t, strings.Replace(compared, "repetitions: 4", "repetitions: 5", 1)), dir, "v1"),
		"of dlqbench v1":    open(p, dir, "v2"),
		"of the bench b":    open(plan(t, strings.Replace(compared, "name: b", "name: c", 1)), dir, "v1"),
	} {
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "--fresh") {
			t.Errorf("%v, want %q", err, name)
		}
	}
	if after, _ := os.ReadFile(filepath.Join(dir, reports.BenchJSONFile)); string(after) != string(before) {
		t.Error("the results were touched")
	}
	stranger := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(stranger, "thesis.md"), []byte("years of work"), 0o600))
	if err := open(p, stranger, "v1"); err == nil || !strings.Contains(err.Error(), "thesis.md") {
		t.Errorf("a folder with other things: %v", err)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, reports.BenchJSONFile), []byte(`{"schema":9,"cells":[]}`),
		0o600))
	if err := open(p, dir, "v1"); err == nil || !strings.Contains(err.Error(), "schema 9") {
		t.Errorf("another schema: %v", err)
	}
	if _, _, found, err := p.OpenFolder(dir, "v1", true); found || err != nil {
		t.Errorf("with --fresh: %v, %v", found, err)
	}
	if _, err := Earlier(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("with --fresh the old results are still there: %v", err)
	}
}

// TestAnotherMachine checks that figures of another machine are rejected.
func TestAnotherMachine(t *testing.T) {
	p, dir := plan(t, compared), t.TempDir()
	first, second := newLaboratory(), newLaboratory()
	first.kill, second.cpus = 3, "64"
	_, _ = carryOut(t, p, first, dir)
	if _, err := carryOut(t, p, second, dir); err == nil || !strings.Contains(err.Error(), `cpus "2", and this is "64"`) {
		t.Errorf("%v", err)
	}
}

// TestEstimate checks that only a minimum is given before the first run, and that later the remaining time lies between
// the shortest and the longest observed.
func TestEstimate(t *testing.T) {
	p := plan(t, compared)
	load := p.Cells[0].Load
	begin := p.Standing(p.Begin("v1", time.Now()))
	if begin.Measured || begin.Least != 12*load || begin.Most != 0 || begin.All != 12 || begin.Done != 0 {
		t.Errorf("before the first run: %+v", begin)
	}
	l := newLaboratory()
	l.kill = 5
	results, _ := carryOut(t, p, l, t.TempDir())
	if now := p.Standing(results); !now.Measured || now.Done != 4 || now.Least != 8*(load+time.Second) ||
		now.Most != now.Least {
		t.Errorf("after four runs of %s: %+v", load+time.Second, now)
	}
	results.Cells[0].Repetitions[0].Run.Elapsed += 2 * time.Second
	now := p.Standing(results)
	if now.Least != 8*(load+time.Second) || now.Most < now.Least+4*2*time.Second || now.Most > now.Least+8*2*time.Second {
		t.Errorf("after runs that differ: %+v", now)
	}
	search := plan(t, searches)
	if at := search.Standing(search.Begin("v1", time.Now())); at.Least != 4*2*search.Cells[0].Load {
		t.Errorf("a search takes two probes at least: %+v", at)
	}
}

// TestOverhead checks that the bench's own overhead is measured, and that it excludes the time between two sessions.
func TestOverhead(t *testing.T) {
	p, dir := plan(t, compared), t.TempDir()
	l := newLaboratory()
	l.kill = 7
	half, _ := carryOut(t, p, l, dir)
	if half.Overhead.Runs != 6*(p.Cells[0].Load+time.Second) {
		t.Errorf("six runs took %s", half.Overhead.Runs)
	}
	later := newLaboratory()
	later.now = later.now.Add(24 * time.Hour)
	whole, _ := carryOut(t, p, later, dir)
	// The interrupted run counts as time, but not as a run of the bench.
	if lost := p.Cells[0].Load / 2; whole.Elapsed != whole.Overhead.Runs+lost || whole.Overhead.Share <= 0 {
		t.Errorf("%s for runs of %s: %v", whole.Elapsed, whole.Overhead.Runs, whole.Overhead.Share)
	}
}
