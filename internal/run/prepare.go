package run

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/subject"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// minLoad is the share of the planned records that must have been acknowledged for a run to prove anything.
const minLoad = 0.95

// prepare makes the plan and the run directory and opens the history. If it fails, nothing has been started and
// nothing is left behind.
func prepare(options Options) (*run, error) {
	if options.Subject != nil && options.Subject.ForPods() && options.Pods == nil {
		return nil, fmt.Errorf("%s says kind: deployment: use dlqbench run %s --subject %[1]s --on kubernetes",
			options.SubjectFile, options.Scenario.Name)
	}
	return prepareAnywhere(options)
}

// prepareAnywhere is prepare for a run that may be carried out elsewhere.
func prepareAnywhere(options Options) (_ *run, err error) {
	r := &run{options: options, scenario: options.Scenario, clock: history.NewClock(), lost: make(chan error, 1),
		called: []scenarios.Downstream{{}}}
	seed := r.scenario.Seed
	if options.Seed != nil {
		seed = *options.Seed
	}
	if r.plan, err = plan.Make(r.scenario, seed, options.samples(), options.halts()); err != nil {
		return nil, err
	}
	if options.Manual != nil { // people end the load manually
		r.plan = r.plan.UpTo(r.plan.Due())
	}
	if r.dir, err = newRunDir(options.Out, r.scenario.Name, time.Now()); err != nil {
		return nil, environment("preparing the run", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(r.dir.path))
		}
	}()
	if err := r.writeHeader(); err != nil {
		return nil, err
	}
	r.ids = r.header.IDs()
	if err := r.keepInputs(); err != nil {
		return nil, environment("preparing the run directory", err)
	}
	r.recorder, err = history.NewRecorder(r.dir.file(dirHistory), r.header, r.clock)
	if err != nil {
		return nil, environment("opening the history", err)
	}
	r.live = newLive(r.recorder, &r.header)
	r.live.marked = r.scenario.Workload.TransactionMarkers > 0
	r.live.replayed = func(record int32) { r.stubs.list[0].SetReplayed(record) }
	r.live.intended = r.intended
	if err := PointLatest(r.dir.path); err != nil {
		return nil, environment("preparing the run directory", errors.Join(err, r.recorder.Close()))
	}
	return r, nil
}

// writeHeader fills in the facts that judging the run requires.
func (r *run) writeHeader() error {
	values := scenarios.Values{
		RunID: r.dir.id, GroupID: r.dir.id, InputTopic: r.dir.id + ".input", InputTopics: r.dir.id + ".input",
		DLQTopic: r.dir.id + ".input.dlq", SecurityProtocol: "PLAINTEXT", Folder: r.folder(),
	}
	if config := r.options.Cluster.External; r.options.Cluster.provider().shared {
		values.SecurityProtocol, values.SASLMechanism, values.SASLUsername = config.SubjectProtocol(), config.SASL.Mechanism,
			config.SASL.Username
		values.SASLPassword = cmp.Or(config.SASL.Password.Reveal(), config.SASL.Token.Reveal())
	}
	r.header = history.Header{
		Format: history.FormatVersion, RunID: r.dir.id, Scenario: r.scenario.Name, Seed: r.plan.Seed,
		Started: time.Now().UTC(),
		Rerun:   r.rerun(), Subject: "reference",
		Instances: r.scenario.MaxInstances(),
		Records:   len(r.plan.Records), Expect: r.expect(), Replay: r.scenario.Replay != nil,
		Refusable: r.plan.Refusable(),
		Foreign:   r.scenario.Topics.DLQ.Foreign, Environment: r.environment(),
	}
	one := history.Consumer{Group: values.GroupID, Instances: r.header.Instances, DLQ: 1}
	names := scenarios.TopicNames{Inputs: []string{values.InputTopic}, DeadLetters: []string{values.DLQTopic}}
	var others []string
	switch {
	case r.scenario.Services != nil: // writeServices sets everything
	case r.options.Subject == nil:
		one.Contract = scenarios.ReferenceContract(*r.scenario.Subject.Reference)
		names.Retries = scenarios.RetryTopics(*r.scenario.Subject.Reference, values.InputTopic)
		one.ReplayTo = scenarios.ReplayTopic(*r.scenario.Subject.Reference, values.GroupID)
		if one.ReplayTo != "" { // the name in it is the one in the dead letters
			one.Contract.Service = values.GroupID
		}
	default:
		rendered, err := r.render(&values)
		if err != nil {
			return fmt.Errorf("rendering %s: %w", r.options.SubjectFile, err)
		}
		if one.Contract, err = rendered.HistoryContract(); err != nil {
			return fmt.Errorf("reading the contract of %s: %w", r.options.SubjectFile, err)
		}
		r.header.Subject = rendered.Name
		if from := r.options.samples(); from != nil {
			r.header.IDForm, r.header.Keys = from.Form, from.Keys()
		}
		one.Group = cmp.Or(rendered.Contract.Group, values.GroupID)
		if names, err = r.options.Subject.TopicNames(values); err != nil {
			return fmt.Errorf("rendering %s: %w", r.options.SubjectFile, err)
		}
		one.ReplayTo, others = rendered.Replay.To, r.furtherTopics(rendered)
	}
	r.values = values
	r.values.GroupID, r.values.DLQTopic, r.values.RetryTopics = one.Group, names.DeadLetters[0],
		strings.Join(names.Retries, ",")
	r.values.ReplayTopic = one.ReplayTo
	r.header.Consumers = []history.Consumer{one}
	r.writeTopics(names, others)
	r.header.Topics[one.DLQ].Downstream = r.lettersAt() != ""
	r.writeGraph()
	r.writeServices()
	r.writeStore()
	r.header.Expect.Patience, r.longestWait = r.patienceOfAll()
	if r.options.Manual != nil {
		r.header.Instances += r.spare()
		r.header.Consumers[len(r.header.Consumers)-1].Instances += r.spare()
		return nil // a fault is entered when it is injected
	}
	for _, fault := range r.plan.Faults {
		r.header.Faults = append(r.header.Faults, fault.PlannedFault)
	}
	return nil
}

// render fills in the subject file, after it has put its own names into the values.
func (r *run) render(values *scenarios.Values) (*scenarios.SubjectFile, error) {
	if !r.options.Cluster.provider().shared { // there, every name must begin with the run's id
		*values = r.options.Subject.StableNames(*values)
	}
	var err error
	if *values, err = r.options.Subject.TakesFrom(*values); err != nil {
		return nil, err
	}
	return r.options.Subject.Render(*values)
}

// writeTopics puts the topics of a single consumer into the header: its first input, its first dead-letter topic, and
// then the others.
func (r *run) writeTopics(names scenarios.TopicNames, others []string) {
	partitions, least := r.scenario.Topics, 0
	if r.header.Consumers[0].Contract.SamePartition { // copies, too, go to the number of their record's partition
		least = partitions.Input.Partitions
	}
	add := func(role history.Role, partitions int, all ...string) {
		for _, name := range all {
			index := r.addTopic(name, role, partitions)
			r.header.Topics[index].Retries = role == history.RoleInput && slices.Contains(names.Retries, name)
		}
	}
	add(history.RoleInput, partitions.Input.Partitions, names.Inputs[0])
	add(history.RoleDLQ, max(partitions.DLQ.Partitions, least), names.DeadLetters...)
	for _, name := range names.Retries {
		if !slices.Contains(names.Inputs, name) {
			add(history.RoleRetry, max(partitions.Retry.Partitions, least), name)
		}
	}
	add(history.RoleInput, partitions.Input.Partitions, names.Inputs[1:]...)
	if to := r.header.Consumers[0].ReplayTo; to != "" && !slices.Contains(names.Inputs, to) {
		add(history.RoleInput, partitions.Input.Partitions, to)
	}
	add(history.RoleSink, partitions.Input.Partitions, others...)
}

// furtherTopics returns the topics that are neither read nor dead-letter topics, and notes which of them has the
// effects of records, and what the subject calls.
func (r *run) furtherTopics(rendered *scenarios.SubjectFile) []string {
	r.output, r.rows, r.called = rendered.EffectsTopic(), rendered.EffectsSQL(), rendered.Called()
	others := r.called
	if rendered.Letters() != "" { // the last one takes the dead letters: its calls are judged as writes of these
		others = others[:len(others)-1]
	}
	if len(others) > 1 {
		for _, one := range others {
			r.header.Downstreams = append(r.header.Downstreams, history.Downstream{Name: one.Called(),
				Optional: one.Optional, Topic: one.Kafka != nil})
		}
	}
	return rendered.OutputTopics()
}

func (r *run) expect() history.Expect {
	expect := r.scenario.Expect
	duplicates := -1.0
	if expect.Allow.Duplicates != nil {
		duplicates = expect.Allow.Duplicates.Share()
	}
	thresholds := expect.Thresholds
	if expect.Drain > 0 {
		thresholds = append(slices.Clone(thresholds), fmt.Sprintf("recovery.drain <= %s", expect.Drain.D()))
	}
	return history.Expect{
		Invariants: expect.Invariants, DuplicateShare: duplicates, Thresholds: thresholds, MaxSlip: expect.MaxSlip.D(),
		MinLoad: minLoad,
	}
}

// patienceOfAll returns the longest patience of any consumer, and the longest wait before an attempt.
func (r *run) patienceOfAll() (patience, wait time.Duration) {
	for i := range r.header.Consumers {
		contract := &r.header.Consumers[i].Contract
		failures := r.plan.Failures(contract)
		patience, wait = max(patience, contract.Patience(failures)), max(wait, contract.LongestWait(failures))
	}
	return patience + r.plan.RetryAfter, wait + r.plan.RetryAfter
}

// environment describes the machine and the components, for comparing runs. It contains no user, host or path.
func (r *run) environment() map[string]string {
	kind := "reference"
	if r.options.Subject != nil {
		kind = r.options.Subject.Kind
	}
	return map[string]string{
		environmentLinks: linksOf(r.options.Cluster.Toxiproxy), environmentSubject: kind,
		"dlqbench": r.options.Version, "go": runtime.Version(), "os": runtime.GOOS,
		"arch": runtime.GOARCH,
		"cpus": fmt.Sprint(runtime.NumCPU()), environmentKafka: r.options.Cluster.provider().name,
		reports.EnvironmentLoad: loadDigest(r.scenario, r.options.samples()),
	}
}

// keepInputs claims the run directory and writes the inputs of the run into it.
func (r *run) keepInputs() error {
	if err := subject.Claim(r.dir.path, r.dir.id); err != nil {
		return err
	}
	if err := os.WriteFile(r.dir.file(fileScenario), r.withoutSecrets(r.options.Source), 0o600); err != nil {
		return err
	}
	if r.options.SubjectFile != "" {
		data, err := os.ReadFile(r.options.SubjectFile)
		if err != nil {
			return err
		}
		if err := os.WriteFile(r.dir.file(fileSubject), r.withoutSecrets(data), 0o600); err != nil {
			return err
		}
	}
	return r.plan.Write(r.dir.path)
}

// rerun is the command line that runs the same plan again. It is empty if there is none: what watches a consumer makes
// its plans itself.
func (r *run) rerun() string {
	if r.options.Rerun == "" {
		return ""
	}
	return string(r.withoutSecrets(fmt.Appendf(nil, r.options.Rerun, r.plan.Seed)))
}

// withoutSecrets returns a text without the values that the subject file marks as secrets, and without anything that
// looks like a secret. Run directories are passed on and must not contain literal passwords.
func (r *run) withoutSecrets(text []byte) []byte {
	if r.options.Subject == nil {
		return subject.Redact(text, subject.Launch{})
	}
	given := subject.Launch{Command: slices.Concat(r.options.Subject.Command, r.options.Subject.Args),
		Files: r.options.Subject.Files}
	for name, value := range r.options.Subject.Env {
		given.Env = append(given.Env, name+"="+value)
	}
	return subject.Redact(text, given)
}

// folder is that of the subject file, "" without one.
func (r *run) folder() string {
	if r.options.Subject == nil {
		return ""
	}
	folder := filepath.Dir(r.options.SubjectFile)
	if whole, err := filepath.Abs(folder); err == nil {
		return whole
	}
	return folder // it stays as it was written, which is right as long as this process stays where it is
}

// subjectDir is the folder that commands of the subject run in. If instances run in their own work folders, other
// commands run in that of the file.
func (r *run) subjectDir() string {
	if strings.Contains(r.options.Subject.Dir, "{{") {
		return r.folder()
	}
	return r.inFolder(r.options.Subject.Dir)
}

// inFolder is a folder as the subject file has it: absolute, or relative to the file.
func (r *run) inFolder(dir string) string {
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(r.folder(), dir)
}
