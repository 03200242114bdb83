package run

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/dlqbench/dlqbench/internal/env/subject"
	"github.com/dlqbench/dlqbench/scenarios"
)

// needPrefix begins the names of the logs and work folders of what the subject needs.
const needPrefix = "need-"

// startNeeds starts what the subject needs, in the order of its file: a later one may use the address of an earlier
// one.
func (r *run) startNeeds(ctx context.Context) error {
	if r.options.Subject == nil || len(r.options.Subject.Needs) == 0 {
		return nil
	}
	needs := r.options.Subject.Needs
	free, err := freePorts(len(needs), r.options.Subject.PortNames)
	if err != nil {
		return err
	}
	r.values.Needs = map[string]string{}
	for i, need := range needs {
		r.busy("starting "+need.Name+", which the consumer needs", 0)
		launch, err := r.launchNeed(need, free[i])
		if err != nil {
			return fmt.Errorf("starting %s: %w", need.Name, err)
		}
		if err := r.subject.Serve(ctx, needPrefix+need.Name, launch, r.lose("running what the subject needs")); err != nil {
			return err
		}
		r.values.Needs[need.Name] = "127.0.0.1:" + strconv.Itoa(free[i].port)
	}
	return nil
}

// forward makes the downstreams send calls on to the user's stubs, whose addresses may be those of needs.
func (r *run) forward() error {
	for i, one := range r.stubs.list {
		if i >= len(r.called) {
			break
		}
		to, err := r.called[i].HTTP.ForwardTo(r.values)
		if err != nil {
			return fmt.Errorf("reading forward in %s: %w", r.options.SubjectFile, err)
		}
		if http, is := one.(stub); is && to != nil {
			http.ForwardTo(to)
		}
	}
	return nil
}

// lose returns a function that ends the run, because something that it can't do without is gone. The first is enough.
func (r *run) lose(doing string) func(error) {
	return func(err error) {
		select {
		case r.lost <- environment(doing, err):
		default:
		}
	}
}

func (r *run) launchNeed(need scenarios.Need, own served) (launch subject.Launch, err error) {
	values := r.values
	values.Port, values.Ports = strconv.Itoa(own.port), own.named
	for _, one := range r.stubs.list {
		if d, is := one.(*database); is {
			d.tell(&values, *d.url) // not over the link: what it does there is neither an attempt nor broken by a fault
		}
	}
	if values.WorkDir, err = filepath.Abs(filepath.Join(r.dir.path, dirWork, needPrefix+need.Name)); err != nil {
		return launch, fmt.Errorf("finding its work folder: %w", err)
	}
	rendered, err := need.Render(values)
	if err != nil {
		return launch, err
	}
	launch = subject.Launch{Command: rendered.Command, Dir: r.subjectDir(), Env: environ(rendered.Env),
		Files: rendered.Files, WorkDir: values.WorkDir}
	if rendered.Dir != "" {
		launch.Dir = r.inFolder(rendered.Dir)
	}
	launch.Ready, err = readiness(rendered.Ready)
	launch.Ready.End = need.Once
	if !need.Once && launch.Ready.Log == nil && launch.Ready.Port == 0 && launch.Ready.URL == "" {
		launch.Ready.Port = own.port
	}
	return launch, err
}
