package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/internal/kube"
	"github.com/dlqbench/dlqbench/internal/pods"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// usualImage is the image of dlqbench, without the version.
const usualImage = "ghcr.io/dlqbench/dlqbench"

// checkPlace checks the flags that depend on where the runs are, and takes --image for the pods.
func (f *runFlags) checkPlace() error {
	switch {
	case f.on == onLocal && f.kubernetes != (kubernetesFlags{patience: defaultPatience}):
		return errors.New("--namespace, --context, --kubeconfig, --patience and --dry-run go with --on kubernetes")
	case f.on == onLocal:
		return nil
	case f.on != onKubernetes:
		return fmt.Errorf("--on %q: write %s or %s", f.on, onLocal, onKubernetes)
	case f.parallel > 1:
		return errors.New("--parallel: with --on kubernetes, scenarios run one after another")
	case f.links != "" || f.keepData:
		return errors.New("--toxiproxy-api and --keep-data are not available with --on kubernetes")
	}
	f.kubernetes.image, f.cluster.image = f.cluster.image, ""
	if words := f.cluster.words(); len(words) > 0 {
		return fmt.Errorf("%s: with --on kubernetes, the Kafka is the embedded one", words[0])
	}
	if f.kubernetes.image == "" {
		if !strings.HasPrefix(programVersion(), "v") {
			return fmt.Errorf("--image is missing: an image that has this dlqbench (%s) as /dlqbench", programVersion())
		}
		f.kubernetes.image = usualImage + ":" + programVersion()
	}
	return nil
}

// fits checks that a subject can run where the flags say.
func (f *runFlags) fits(subject *scenarios.SubjectFile, scenario string) error {
	forPods := subject != nil && subject.ForPods()
	switch {
	case forPods && f.on != onKubernetes:
		return fmt.Errorf("%s: the consumer's kind is deployment: it runs with dlqbench run --on kubernetes", scenario)
	case !forPods && f.on == onKubernetes:
		return fmt.Errorf("%s: --on kubernetes needs a subject.yaml with kind: deployment (docs/kubernetes.md)", scenario)
	}
	return nil
}

// podsManifest describes a run in a cluster.
func (a *app) podsManifest(ctx context.Context, options run.Options, flags runFlags) (m pods.Manifest, err error) {
	subject := options.Subject
	m.Name = "dlqbench-" + strings.ToLower(rand.Text()[:10])
	if m.Copy = subject.Deployment.Running != ""; m.Copy {
		m.Workload, err = pods.ReadRunning(ctx, flags.kubernetes.kubectl(), subject.Deployment.Running, m.Name)
		if err != nil {
			return m, &run.EnvironmentError{Doing: "copying the consumer", Err: err}
		}
	} else if m.Workload, err = pods.ReadWorkload(scenarios.Beside(options.SubjectFile,
		subject.Deployment.Manifest)); err != nil {
		return m, usageError{err}
	}
	name, _, err := scenarios.Find(options.Arg)
	if err != nil {
		return m, usageError{err}
	}
	if m.Files, err = scenarios.FilesOf(name, options.SubjectFile); err != nil {
		return m, usageError{err}
	}
	estimate, err := estimateRun(options)
	if err != nil {
		return m, err
	}
	m.Args = []string{"pod", "coordinator", filepath.ToSlash(options.Arg), "--rerun", options.Rerun, "--log-level",
		a.logLevel, "--log-format", a.logFormat, "--subject", filepath.ToSlash(options.SubjectFile)}
	if flags.seed != "" {
		m.Args = append(m.Args, "--seed", flags.seed)
	}
	for _, set := range flags.sets {
		m.Args = append(m.Args, "--set", set)
	}
	m.Evict = subject.Deployment.EndBy == scenarios.EndByEviction
	m.Token, m.Image, m.Container = rand.Text(), flags.kubernetes.image, subject.Deployment.Container
	m.Instances, m.Signals = options.Scenario.MaxInstances(), signalled(options.Scenario)
	m.Limit = limitOf(forecast(estimate)) + flags.kubernetes.patience + subject.Ready.Timeout.D() + keptForCopy
	if _, err = m.Consumer("", "", nil); err != nil {
		err = usageError{err}
	}
	return m, err
}

// signalled reports whether a scenario sends signals to the consumer.
func signalled(scenario *scenarios.Scenario) bool {
	return slices.ContainsFunc(scenario.Written(), func(fault catalogue.Spec) bool {
		return fault.Subject != nil && fault.Subject.Process == ""
	})
}

// runInPods carries out a run in a cluster.
func (a *app) runInPods(ctx context.Context, options run.Options, flags runFlags,
	progress shower) (*run.Outcome, error) {
	manifest, err := a.podsManifest(ctx, options, flags)
	if err != nil {
		return nil, err
	}
	out := progress.Around(a.stderr)
	var seen []reports.Snapshot
	cluster := pods.Cluster{
		Kubectl: flags.kubernetes.kubectl(), Patience: flags.kubernetes.patience, Poll: pollEvery / 2, Log: out,
		Say: func(line string) { fmt.Fprintln(out, line) },
		Progress: func(text json.RawMessage) {
			var snapshot reports.Snapshot
			if json.Unmarshal(text, &snapshot) == nil {
				snapshot.Place = options.Place
				progress.Update(snapshot)
				seen = append(seen, snapshot)
			}
		},
		Unrecorded: func(why error) (string, error) { return run.Unrecorded(options, seen, why) },
	}
	done, dir, err := cluster.Run(ctx, manifest, flags.out)
	switch {
	case done.Version != "" && done.Version != programVersion():
		err = errors.Join(fmt.Errorf("the image %s has dlqbench %s, and this is %s: they must be the same",
			manifest.Image, done.Version, programVersion()), err)
		dir = ""
	case done.Error != "":
		err = errors.Join(errors.New(done.Error), err)
	}
	if err != nil && ctx.Err() == nil {
		err = &run.EnvironmentError{Doing: "running in the cluster", Err: err}
	}
	if dir == "" {
		return nil, err
	}
	outcome := &run.Outcome{Dir: dir, Interrupted: ctx.Err() != nil}
	err = errors.Join(err, run.PointLatest(dir))
	if done.Judged {
		judged, judging := run.JudgeRun(dir)
		outcome.Judged, outcome.Verdict, err = judged, judged.Verdict, errors.Join(err, judging)
	}
	return outcome, err
}

// printPods prints what a run creates in a cluster, and the Role that creating it takes.
func (a *app) printPods(ctx context.Context, all []run.Options, flags runFlags) error {
	for i, options := range all {
		m, err := a.podsManifest(ctx, options, flags)
		if err != nil {
			return err
		}
		m.Token = "made for each run"
		job, err := m.Job()
		if err != nil {
			return usageError{err}
		}
		needed, err := m.Needed("")
		if err != nil {
			return usageError{err}
		}
		consumer, err := m.Consumer("", "COORDINATOR", options.Subject.Env)
		if err != nil {
			return usageError{err}
		}
		objects := slices.Concat([]any{job}, needed, []any{consumer})
		if i == 0 {
			objects = slices.Insert(objects, 0, any(kube.Role("dlqbench-run", m.Rights())))
		}
		if err := a.printObjects(i == 0, "dlqbench-run", objects); err != nil {
			return err
		}
	}
	return nil
}
