package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/testcontainers/testcontainers-go"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/faults"
	faultkafka "github.com/dlqbench/dlqbench/faults/kafka"
	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/ports"
	"github.com/dlqbench/dlqbench/internal/env/registry"
	"github.com/dlqbench/dlqbench/internal/env/subject"
	"github.com/dlqbench/dlqbench/internal/env/tap"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/internal/samples"
	"github.com/dlqbench/dlqbench/internal/security"
	"github.com/dlqbench/dlqbench/scenarios"
)

// run is one run: its plan, its recording, and everything started so far.
type run struct {
	// originals are the records that the audits found in the topics that the subject consumes.
	originals originals
	options   Options
	scenario  *scenarios.Scenario
	plan      *plan.Plan
	dir       runDir
	header    history.Header
	clock     history.Clock
	recorder  *history.Recorder
	live      *live
	ops       atomic.Int64
	ids       *history.IDs
	// longestWait is the longest promised wait before an attempt, of any consumer.
	longestWait time.Duration
	// offSchedule logs once that the workload could not keep its schedule.
	offSchedule sync.Once

	values scenarios.Values // of every instance, except its own addresses
	// output is the topic with the effects of records, rows the statement that reads them from the database; "" for none.
	output, rows string
	// called is what the subject calls, the downstream that decides first.
	called []scenarios.Downstream

	stage
	// abandoned is the error outside the subject because of which the run goes no further, nil while there is none.
	abandoned atomic.Pointer[error]
	// disturbed is such an error that also disturbed the subject, in ways that the history does not show.
	disturbed atomic.Pointer[error]
	lost      chan error // gets the error of something that the subject needs and that is gone
	phase     atomic.Pointer[string]
	awaits    atomic.Pointer[string]        // what somebody has to do before the run goes on, nil for nothing
	activity  atomic.Pointer[activity]      // what takes time while no load runs, nil for nothing
	loadedAt  atomic.Pointer[time.Duration] // when the load began, nil before
}

// stage is everything that is started for a run, in the order in which it is started. tearDown ends it in reverse
// order.
type stage struct {
	cluster    *provided
	admin      *kadm.Client
	paths      network.Links // what makes the links
	links      map[string][]network.Link
	rules      *faultkafka.Injector
	tap        *tap.Tap
	stubs      stubs
	authority  *security.Authority // of downstreams with TLS; nil without
	outputs    []*outputTopic      // the output topics among the downstreams
	letters    *letters            // the downstream that takes the dead letters; nil without
	registry   *registry.Registry  // nil if the records have no schema
	samples    *samples.Set        // what records are made from, with the names of their schemas; nil without samples
	store      storeStage
	bootstraps []string // of each instance
	ports      []served // of each instance
	producer   *workload.Producer
	subject    *subject.Group
	engine     *testcontainers.DockerClient // of a subject in containers, else nil
	replayTap  string                       // the replay tool's bootstrap, if any; replays counts its processes
	replays    uint16
	foreign    map[string]bool // headers of dead letters that are not the record's, where the contract describes none
	stopStalls func()
	// discarding says that the brokers' data is about to be removed, so that log messages about failed writes to it can
	// be dropped.
	discarding atomic.Bool
}

// setUp starts everything, the subject last, and returns when every instance is ready.
func (r *run) setUp(ctx context.Context) error {
	r.watchStalls(ctx)
	for _, step := range []struct {
		doing string
		do    func(context.Context) error
	}{
		{"looking for the container engine", r.openEngine},
		{"looking for the consumer's ports", r.checkPorts},
		{"starting the guard", r.openSubject},
		{"starting the brokers", r.startCluster},
		{"writing the dead letters of another service", r.writeForeign},
		{"opening the links", r.openLinks},
		{"opening the taps", r.openTaps},
		{"opening the dead-letter store", r.openStore},
		{"starting the workload's producer", r.openProducer},
		{"starting the service of the dead-letter store", r.startStore},
		{"setting up", r.startSubject},
		{"looking at the subject's dead-letter store", r.watchOwnStore},
	} {
		r.busy(step.doing, 0)
		if err := step.do(ctx); err != nil {
			return environment(step.doing, err)
		}
	}
	r.activity.Store(nil)
	return nil
}

func (r *run) watchStalls(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { workload.MonitorStalls(ctx, r.clock, r.live) })
	group.Go(func() { r.sampleHealth(ctx) })
	r.stopStalls = func() { cancel(); group.Wait() }
}

// silentWhen drops log messages from the moment at which the condition is set.
func silentWhen(condition *atomic.Bool) zerolog.HookFunc {
	return func(event *zerolog.Event, _ zerolog.Level, _ string) {
		if condition.Load() {
			event.Discard()
		}
	}
}

// openLink puts a link before an upstream, under its name and those of the groups that it belongs to.
func (r *run) openLink(name string, upstream network.Upstream, port int, groups ...string) (network.Link, error) {
	names := append(groups, name)
	link, err := network.Link(network.Straight{Upstream: upstream}), error(nil)
	if port > 0 || r.needsLink(names) {
		link, err = r.paths.Open(name, upstream, port)
	}
	if err != nil {
		return nil, err
	}
	for _, group := range names {
		r.links[group] = append(r.links[group], link)
	}
	return link, nil
}

// needsLink reports whether a path with these names needs a link: a network fault can act on it, its connections are
// counted (those to the store's database are), or it is to be cut at another end than that of the run (a consumer that
// somebody else starts). A link at a fixed port is there in any case, and so are those of a toxiproxy server, which
// were asked for.
func (r *run) needsLink(names []string) bool {
	return r.options.Manual != nil || r.options.Cluster.Toxiproxy != "" || r.external() != nil ||
		slices.Contains(names, network.LinkStore) ||
		slices.ContainsFunc(r.plan.Faults, func(f faults.Planned) bool {
			spec, is := f.Fault.(*network.Network)
			return is && slices.Contains(names, spec.Link)
		})
}

// openLinks puts a link before every broker and, one per instance, before the downstream stub.
func (r *run) openLinks(ctx context.Context) error {
	for _, broker := range r.cluster.Brokers() {
		groups := []string{"brokers"}
		if int(broker.Number) == r.scenario.Topics.DLQ.Broker {
			groups = append(groups, "dlq")
		}
		if _, err := r.openLink(fmt.Sprintf("broker %d", broker.Number),
			r.cluster.upstream(broker), 0, groups...); err != nil {
			return err
		}
	}
	if err := r.openDownstreams(ctx); err != nil {
		return err
	}
	if err := r.openRegistry(ctx); err != nil {
		return err
	}
	if err := r.findPorts(); err != nil {
		return err
	}
	for instance := range r.header.Instances {
		for number, one := range r.stubs.of(instance) {
			upstream := one.Upstream(instance)
			if upstream.Address == "" {
				continue // it has no address of its own
			}
			if _, err := r.openLink(r.downstreamLink(instance, number), upstream, r.portsOf(instance).downstream(number),
				r.downstreamGroups(instance, number)...); err != nil {
				return err
			}
		}
	}
	return nil
}

// downstreamLink is the name of an instance's own link to one of its downstreams.
func (r *run) downstreamLink(instance, number int) string {
	if number == 0 {
		return fmt.Sprintf("downstream of instance %d", instance)
	}
	return fmt.Sprintf("%s%s of instance %d", history.TargetOther, r.stubs.names[number], instance)
}

// downstreamGroups are the names by which faults break an instance's link to one of its downstreams.
func (r *run) downstreamGroups(instance, number int) []string {
	var groups []string
	if number == 0 {
		groups = append(groups, "downstream")
	}
	switch {
	case r.header.Graph != nil:
		groups = append(groups, network.DownstreamOf(r.consumerOf(instance).Name))
	case r.stubs.names != nil:
		groups = append(groups, history.TargetOther+r.stubs.names[number])
	}
	return groups
}

// findPorts finds a free TCP port for each instance.
func (r *run) findPorts() error {
	var names []string
	if r.options.Subject != nil {
		names = r.options.Subject.PortNames
	}
	var err error
	r.ports, err = freePorts(r.header.Instances, names)
	return err
}

// served are the ports that a program may serve: one without a name, and those that its subject file names.
type served struct {
	port  int
	named map[string]string
}

// freePorts finds free TCP ports for this number of programs: one for each, and one for each name.
func freePorts(programs int, names []string) ([]served, error) {
	free, err := ports.Free(programs * (1 + len(names)))
	if err != nil {
		return nil, err
	}
	all := make([]served, programs)
	for i := range all {
		own := free[i*(1+len(names)):]
		all[i] = served{own[0], map[string]string{}}
		for j, name := range names {
			all[i].named[name] = strconv.Itoa(own[1+j])
		}
	}
	return all, nil
}

func (r *run) openTaps(context.Context) error {
	r.rules = faultkafka.NewInjector(r.header.Topics)
	var upstreams []tap.Upstream
	for _, broker := range r.cluster.Brokers() {
		link := r.links[fmt.Sprintf("broker %d", broker.Number)][0]
		upstream := tap.Upstream{NodeID: broker.ID, Dial: link.Connect}
		if r.cluster.tls != nil {
			upstream.TLS = r.cluster.tls(broker)
		}
		upstreams = append(upstreams, upstream)
	}
	var sink history.Sink = r.live
	var interceptor tap.Interceptor = r.rules
	for _, one := range r.outputs {
		one.next, one.rules = sink, interceptor
		sink, interceptor = one, one
	}
	if r.options.Discovery != nil {
		interceptor = discovering{r.options.Discovery, r, interceptor}
	}
	r.tap = tap.New(tap.Config{
		Clock: r.clock, Sink: sink, NextOp: func() int64 { return r.ops.Add(1) }, IDs: r.ids, Topics: r.header.Topics,
		Upstreams: upstreams, Log: r.options.Log, Interceptor: interceptor, Group: r.observedGroup(),
		KeepMetadata: slices.ContainsFunc(r.header.Consumers, func(c history.Consumer) bool {
			return c.Contract.OffsetMetadata != ""
		}), TopicIDs: r.topicIDs,
	})
	for instance := range r.header.Instances {
		bootstrap, err := r.tap.OpenAt(instance, r.portsOf(instance).kafka)
		if err != nil {
			return err
		}
		r.bootstraps = append(r.bootstraps, bootstrap)
	}
	return nil
}

func (r *run) openProducer(context.Context) error {
	var inputs []workload.Input
	for _, index := range r.inputs() {
		inputs = append(inputs, workload.Input{Topic: r.header.Topics[index].Name, Index: index})
	}
	dialect, err := r.dialect()
	if err != nil {
		return err
	}
	r.producer, err = workload.NewProducer(workload.ProducerConfig{
		Client: r.cluster.client, Inputs: inputs, Plan: r.plan, IDs: r.ids,
		Headers: r.scenario.Workload.Headers, Named: r.namedHeaders(), Odd: r.ownNames(), Kept: r.keptHeaders(),
		JSON: encodesAgain(dialect), Samples: r.samples, NoIDHeader: r.hidesIDHeader(),
		Node: r.entry(), Clock: r.clock, Sink: r.live,
	})
	return err
}

// hidesIDHeader reports whether the subject takes no records with the header that repeats the id.
func (r *run) hidesIDHeader() bool {
	return r.options.Subject != nil && r.options.Subject.Input != nil && !r.options.Subject.Input.Header
}

// namedHeaders returns the headers that the scenario gives its records, and those that the subject requires of a
// record.
func (r *run) namedHeaders() []workload.NamedHeader {
	templates := r.scenario.RecordHeaders(r.options.Subject)
	var all []workload.NamedHeader
	for _, name := range slices.Sorted(maps.Keys(templates)) {
		all = append(all, workload.NamedHeader{Name: name, Pieces: strings.Split(templates[name], scenarios.HeaderUUID)})
	}
	return all
}

// keptHeaders returns a function that reports whether a record's dead letter keeps a header and a replay restores
// it. These are all of the record's own headers, unless the contract's dialect limits them.
func (r *run) keptHeaders() func(name string) bool {
	own := r.ownHeaders()
	dialect, err := r.dialect()
	if err != nil || dialect == nil || len(dialect.Traits().OnlyHeaders) == 0 {
		return own
	}
	only := dialect.Traits().OnlyHeaders
	return func(name string) bool { return own(name) && slices.Contains(only, name) }
}

// ownHeaders returns a function that reports whether a header is the record's own.
func (r *run) ownHeaders() func(name string) bool {
	own := workload.OriginalHeaders(r.scenario.Workload.Headers, r.namedHeaders())
	if from := r.samples; from != nil {
		workloads := own
		own = func(name string) bool { return workloads(name) || slices.Contains(from.HeaderNames(), name) }
	}
	if r.scenario.Workload.OddHeaders != nil {
		own = workload.OddHeaders(own, r.ownNames())
	}
	return own
}

// ownNames returns the names of envelope headers that the odd headers use too.
func (r *run) ownNames() []string {
	odd := r.scenario.Workload.OddHeaders
	if odd == nil || !odd.OwnNames || r.header.Contract().Envelope != deadletter.PlainName {
		return nil
	}
	return []string{deadletter.HeaderOffset, deadletter.HeaderEpoch}
}

// topic returns the name of the first topic with the role, "" if there is none.
func (r *run) topic(role history.Role) string {
	for _, index := range r.topicsOf(role) {
		return r.header.Topics[index].Name
	}
	return ""
}

// topicsOf returns the header indices of the topics with the role.
func (r *run) topicsOf(role history.Role) []int16 {
	var all []int16
	for i, topic := range r.header.Topics {
		if topic.Role == role {
			all = append(all, int16(i))
		}
	}
	return all
}

// tearDown ends everything that was started, in reverse order, even if not all of it was started. It also runs when
// setting up failed or the user interrupted. The subprocess reaper ends last, so that nothing it watches can outlive
// it. With it goes the file by which a later run knows that there is something to clean up.
func (r *run) tearDown(ctx context.Context) error {
	var errs []error
	if r.subject != nil {
		stopping, cancel := graced(ctx, teardownLimit)
		defer cancel()
		errs = append(errs, r.subject.StopAll(stopping))
	}
	if r.producer != nil {
		r.producer.Close()
	}
	if r.tap != nil {
		errs = append(errs, r.tap.Close())
	}
	for _, links := range r.links {
		for _, link := range links {
			errs = append(errs, link.Close())
		}
	}
	if r.paths != nil {
		errs = append(errs, r.paths.Close())
	}
	if r.registry != nil {
		removing, cancel := graced(ctx, teardownLimit)
		defer cancel()
		errs = append(errs, r.registry.Close(removing))
	}
	errs = append(errs, r.stubs.close(), r.closeStore())
	if r.admin != nil {
		r.admin.Close()
	}
	if r.cluster != nil {
		r.discarding.Store(!r.options.KeepData)
		errs = append(errs, r.cluster.Close())
	}
	if !r.options.KeepData {
		errs = append(errs, os.RemoveAll(r.dir.file(dirKafka)))
	}
	if r.stopStalls != nil {
		r.stopStalls()
	}
	errs = append(errs, os.RemoveAll(r.dir.file(dirWork)))
	if r.subject != nil {
		errs = append(errs, r.subject.Close())
	} else {
		errs = append(errs, os.RemoveAll(r.dir.file(subject.RegistryFile))) // claimed, but not taken over
	}
	if r.engine != nil {
		errs = append(errs, r.engine.Close())
	}
	return environment("ending what the run started", errors.Join(errs...))
}
