package run

// A run whose subject is a graph of nodes. Every node is a consumer with its own topics, group, instances and module
// (a downstream stub over gRPC).

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/downstream"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/workload"
)

// writeGraph puts the graph into the header. Its topics replace those of a single consumer: the entry's input, every
// other node's input, every node's dead-letter topic and quarantine, and the sink.
func (r *run) writeGraph() {
	written := r.scenario.Graph
	if written == nil {
		return
	}
	h, partitions := &r.header, r.scenario.Topics.Input.Partitions
	h.Topics, h.Consumers = nil, nil
	for i, node := range written.Nodes {
		role := history.RoleNode
		if i == 0 {
			role = history.RoleInput
		}
		one := history.Consumer{
			Name: node.Name, Group: r.dir.id + "." + node.Name, First: written.First(i), Instances: node.Instances,
			Input: r.addTopic(r.dir.id+".input."+node.Name, role, partitions), Contract: written.Contract(i),
		}
		for _, edge := range node.Edges {
			one.Edges = append(one.Edges, history.Edge{To: written.Index(edge.To), Weight: edge.Weight})
		}
		h.Consumers = append(h.Consumers, one)
	}
	for i := range h.Consumers {
		one, letters := &h.Consumers[i], fmt.Sprintf("%s.dlq.%s.%s", r.dir.id, written.Cluster, h.Consumers[i].Name)
		one.DLQ = r.addTopic(letters, history.RoleDLQ, r.scenario.Topics.DLQ.Partitions)
		one.Quarantine = r.addTopic(letters+".quarantine", history.RoleQuarantine, r.scenario.Topics.DLQ.Partitions)
	}
	h.Graph = &history.Graph{Sink: r.addTopic(r.dir.id+".sink", history.RoleSink, partitions),
		MaxReprocess: written.MaxReprocess}
	r.firstValues()
}

// entry returns the name of the graph's entry, "" if the subject is not a graph.
func (r *run) entry() string {
	if r.header.Graph == nil {
		return ""
	}
	return r.header.Consumers[0].Name
}

// nodeEnvironment returns the environment that tells an instance its node.
func (r *run) nodeEnvironment(instance int) ([]string, error) {
	graph := r.header.Graph
	if graph == nil {
		return nil, nil
	}
	node := r.consumerOf(instance)
	told := consumer.Node{
		Name: node.Name, Sink: r.header.Topics[graph.Sink].Name, Quarantine: r.header.Topics[node.Quarantine].Name,
		MaxReprocess: graph.MaxReprocess,
	}
	for _, edge := range node.Edges {
		to := r.header.Consumers[edge.To]
		told.Edges = append(told.Edges, consumer.NodeEdge{To: to.Name, Topic: r.header.Topics[to.Input].Name,
			Weight: edge.Weight})
	}
	text, err := json.Marshal(told)
	if err != nil {
		return nil, fmt.Errorf("writing the node of instance %d: %w", instance, err)
	}
	return []string{"DLQBENCH_NODE=" + string(text)}, nil
}

// stubs are the downstreams of a run: those that the subject calls, the one that decides first, or the module of each
// node of a graph.
type stubs struct {
	list []called
	// names are those of the list; nil for one without a name.
	names []string
	// nodes returns the index of the downstream stub that an instance calls; nil means that all instances call all.
	nodes func(instance int16) int
}

// of returns the downstreams that an instance calls, the one that decides first.
func (o stubs) of(instance int) []called {
	if o.nodes == nil {
		return o.list
	}
	at := o.nodes(int16(instance))
	return o.list[at : at+1]
}

func (o stubs) inFlight() int64 {
	var sum int64
	for _, one := range o.list {
		sum += one.InFlight()
	}
	return sum
}

func (o stubs) close() error {
	var errs []error
	for _, one := range o.list {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

// openDownstreams starts what the subject calls: the downstreams that it declares, or the modules of all nodes.
func (r *run) openDownstreams(ctx context.Context) error {
	if r.header.Graph != nil {
		return r.openModules()
	}
	for i, spec := range r.called {
		one, err := r.openDownstream(ctx, spec, i)
		if err != nil {
			return err
		}
		r.stubs.list = append(r.stubs.list, one)
		if name := spec.Called(); name != "" {
			r.stubs.names = append(r.stubs.names, name)
		}
	}
	return nil
}

// openModules starts the modules of all nodes of a graph.
func (r *run) openModules() error {
	r.stubs.nodes = r.header.ConsumerOf
	for i, node := range r.header.Consumers {
		attempts := r.attemptsConfig()
		attempts.Plan, attempts.First, attempts.Instances = r.plan.Node(i), node.First, node.Instances
		one, err := workload.NewStub(workload.StubConfig{AttemptsConfig: attempts,
			RPC: workload.NewModule(r.ids, r.header.Topics)})
		if err != nil {
			return err
		}
		r.stubs.list = append(r.stubs.list, stub{Stub: one, scheme: "grpc://"})
		r.stubs.names = append(r.stubs.names, node.Name)
	}
	return nil
}

// modules returns the injector of downstream faults, which affect one of several downstreams, one node's module or all
// of them.
func (r *run) modules() faults.Injector {
	all := modules{names: r.stubs.names}
	for _, one := range r.stubs.list {
		all.injectors = append(all.injectors, downstream.NewInjector(one))
	}
	all.usual = all.injectors
	if r.header.Graph == nil {
		all.usual = all.injectors[:1:1]
	}
	if r.store.stub != nil { // the workers' downstream stub takes part in the same faults
		all.usual = append(all.usual, downstream.NewInjector(r.store.stub))
	}
	return all
}

// modules are the injectors of all downstreams with their names, and those that a fault without a name affects.
type modules struct {
	injectors, usual []faults.Injector
	names            []string
}

// Inject implements faults.Injector.
func (m modules) Inject(ctx context.Context, active faults.Active) (faults.Heal, error) {
	hit := m.usual
	if spec, is := active.Fault.(*downstream.Downstream); is && spec.Node+spec.Name != "" {
		name := cmp.Or(spec.Name, spec.Node)
		at := slices.Index(m.names, name)
		if at < 0 {
			return nil, fmt.Errorf("breaking the downstream: there is none called %s", name)
		}
		hit = m.injectors[at : at+1]
	}
	var heals []faults.Heal
	for _, injector := range hit {
		heal, err := injector.Inject(ctx, active)
		if err != nil {
			return nil, errors.Join(err, healAll(ctx, heals))
		}
		heals = append(heals, heal)
	}
	return func(ctx context.Context) error { return healAll(ctx, heals) }, nil
}

func healAll(ctx context.Context, heals []faults.Heal) error {
	var errs []error
	for _, heal := range heals {
		errs = append(errs, heal(ctx))
	}
	return errors.Join(errs...)
}
