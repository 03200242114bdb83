package run

// A consumer that somebody else starts, or that has its addresses in its code. The run gives out addresses and names
// that stay the same. It says which to those who start the consumer, and waits until it has joined.

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dlqbench/dlqbench/internal/env/procgroup"
	"github.com/dlqbench/dlqbench/internal/env/subject"
	"github.com/dlqbench/dlqbench/scenarios"
)

// fixed are the ports of an instance, each 0 if any free one will do. alone: only the first downstream has one.
type fixed struct {
	kafka, first, registry int
	alone                  bool
}

// downstream returns the port of a downstream by its number.
func (f fixed) downstream(number int) int {
	if f.first == 0 || f.alone && number > 0 {
		return 0
	}
	return scenarios.OtherDownstreamPort(f.first, number)
}

// external describes where somebody else starts the consumer, nil if nobody does.
func (r *run) external() *scenarios.External {
	if r.options.Subject == nil {
		return nil
	}
	return r.options.Subject.External
}

func (r *run) portsOf(instance int) fixed {
	if r.options.Subject == nil || instance >= r.options.Subject.MostInstances() { // nobody starts it
		return fixed{}
	}
	if l := r.options.Subject.Listen; l != nil {
		return fixed{l.Kafka, l.Downstream, l.Registry, true}
	}
	if e := r.external(); e != nil {
		return fixed{e.KafkaPort(instance), e.DownstreamPort(instance), e.Registry, false}
	}
	return fixed{}
}

// checkPorts fails if a port of the consumer's is in use, before anything is started.
func (r *run) checkPorts(ctx context.Context) error {
	if r.options.Subject == nil {
		return nil
	}
	key := "listen"
	if r.external() != nil {
		key = "external"
	}
	check := func(name string, port int) error {
		if port == 0 {
			return nil
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return fmt.Errorf("port %d of %s.%s can't be listened on: %w: end what listens there, such as another run or a "+
				"Kafka of your own, or configure the consumer for another port and write it in %s", port, key, name, err,
				r.options.SubjectFile)
		}
		return listener.Close()
	}
	for instance := range min(r.header.Instances, r.options.Subject.MostInstances()) {
		ports := r.portsOf(instance)
		for broker := range r.scenario.Cluster.Brokers {
			if ports.kafka == 0 {
				break
			}
			if err := check("kafka", ports.kafka+broker); err != nil {
				return err
			}
		}
		for number := range r.called {
			if err := check("downstream", ports.downstream(number)); err != nil {
				return err
			}
		}
	}
	if len(r.options.Subject.Formats()) == 0 {
		return nil
	}
	return check("registry", r.portsOf(0).registry)
}

// outside returns an instance that somebody else starts. What is done to it is done by the user's commands, or in its
// pod.
func (r *run) outside(e *scenarios.External, instance int) *subject.Outside {
	can := func(act string) bool { return len(e.Signals.Command(strings.ToLower(act))) > 0 }
	act := func(ctx context.Context, act string) error {
		command := procgroup.Command{Args: e.Signals.Command(strings.ToLower(act)), Dir: r.subjectDir(),
			Env: append(subject.CleanEnvironment(os.Environ()), r.settingsOf(instance)...)}
		if err := command.Run(ctx); err != nil {
			return fmt.Errorf("the command for %s failed: %w", act, err)
		}
		return nil
	}
	absent := func(connected bool) string {
		if connected {
			return "it is connected to " + r.bootstraps[instance] + "; if it ran before this run began, start it again, as " +
				"this Kafka is new, and otherwise compare its topic and its group with the settings printed above"
		}
		return "nothing is connected to " + r.bootstraps[instance] + ": start your consumer with the settings printed above"
	}
	if pods := r.options.Pods; pods != nil {
		absent = func(connected bool) string {
			if connected {
				return "it is connected: compare its topic and its group with those under env in " + r.options.SubjectFile
			}
			return "its pod has no connection to Kafka: look at its log, and give it the addresses under env in " +
				r.options.SubjectFile
		}
		can = pods.Can
		act = func(ctx context.Context, act string) error { return pods.Act(ctx, instance, act) }
	}
	return &subject.Outside{
		Can: can, Act: act, Absent: absent, Address: r.bootstraps[instance],
		// Pods that end at the end would be replaced, and their logs would be gone.
		Stays:     r.options.Pods != nil,
		Connected: func() bool { return r.tap.Connected(instance) },
		Cut: func() {
			r.tap.Cut(instance)
			for number := range r.stubs.of(instance) {
				for _, link := range r.links[r.downstreamLink(instance, number)] {
					_ = link.Close() // tearDown closes it again, and reports what is left of it
				}
			}
		},
	}
}

// settingsOf returns what an instance must be told, as NAME=value: the variables that an instance of dlqbench's own
// gets, without those that are empty, that lead to a folder of the run, or that are secret.
func (r *run) settingsOf(instance int) []string {
	variables := r.valuesOf(instance).Environment()
	for name, value := range variables {
		switch {
		case value == "", name == "DLQBENCH_WORK_DIR", strings.HasPrefix(name, "DLQBENCH_PORT"),
			name == "DLQBENCH_SASL_PASSWORD",
			name == "DLQBENCH_DATABASE_PASSWORD", name == subject.RunIDVariable:
			delete(variables, name)
		case strings.HasSuffix(name, "_URL"):
			if address, err := url.Parse(value); err == nil {
				variables[name] = address.Redacted()
			}
		}
	}
	return environ(variables)
}

// announce says how the consumer is to be started: to its pods, or on the screen, in a form for a shell, and in a file
// for an IDE or for docker compose.
func (r *run) announce() error {
	if r.external() == nil {
		return nil
	}
	if pods := r.options.Pods; pods != nil {
		told, err := r.options.Subject.Render(r.valuesOf(0))
		if err != nil {
			return fmt.Errorf("rendering %s: %w", r.options.SubjectFile, err)
		}
		lose := r.lose("running the consumer in its pods")
		return pods.Begin(told.Env, func(err error) {
			r.disturbed.CompareAndSwap(nil, &err)
			lose(err)
		})
	}
	var text strings.Builder
	for instance := range r.scenario.InstanceCount() {
		file := r.dir.file(fmt.Sprintf("external-%d.env", instance))
		settings := r.settingsOf(instance)
		if err := os.WriteFile(file, []byte(strings.Join(settings, "\n")+"\n"), 0o600); err != nil {
			return fmt.Errorf("writing the settings of the consumer: %w", err)
		}
		fmt.Fprintf(&text, "instance %d of %s must run with these settings (also in %s):\n", instance, r.header.Subject,
			filepath.ToSlash(file))
		for _, setting := range settings {
			name, value, _ := strings.Cut(setting, "=")
			fmt.Fprintf(&text, "  export %s=%s\n", name, Quoted(value))
		}
	}
	if r.options.Announce == nil {
		r.options.Log.Warn().Msg(text.String())
		return nil
	}
	r.options.Announce(text.String())
	return nil
}

// waitFor notes which instance the run waits for, if somebody else starts it.
func (r *run) waitFor(instance int) {
	if r.external() == nil {
		return
	}
	values := r.valuesOf(instance)
	text := fmt.Sprintf("instance %d of %s to consume %s in group %s from %s", instance, r.header.Subject,
		values.InputTopic, values.GroupID, values.BootstrapServers)
	r.awaits.Store(&text)
}
