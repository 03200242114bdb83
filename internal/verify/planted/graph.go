package planted

// This file has bugs of the engine of a graph node.

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/deadletter"
)

func graphBugs() []Bug {
	const conserved = "graph-conservation"
	routed := func(name, what, anomaly string, replace func(consumer.Node, consumer.Router) consumer.Router) Bug {
		return Bug{Name: name, What: what, Anomaly: anomaly, Invariant: conserved, Scenario: "graph",
			Consumer: func(config *consumer.Config, parts *consumer.Parts) {
				parts.Router = replace(*config.Node, parts.Router)
			}}
	}
	parked := func(name, what, anomaly string, replace func(letters string) consumer.Parker) Bug {
		return Bug{Name: name, What: what, Anomaly: anomaly, Invariant: conserved, Scenario: "graph",
			Consumer: func(config *consumer.Config, parts *consumer.Parts) {
				parts.Parker = forwarding{replace(config.DLQTopic), config.DLQTopic}
			}}
	}
	return []Bug{
		parked("forward-not-awaited",
			"a document counts as passed on when it is handed to the producer; the acknowledgement is awaited in the background",
			"commit-before-forward", func(string) consumer.Parker { return eagerParker{} }),
		parked("forward-dropped", "one document in twenty is not passed on, and committed", "lost-in-graph",
			func(string) consumer.Parker { return &forgetfulParker{} }),
		parked("forwarded-twice", "documents are passed on twice", "forwarded-twice",
			func(string) consumer.Parker { return doubleParker{} }),
		parked("forwarded-and-dead-lettered", "one document in twenty is passed on, and dead-lettered, too", "dual-exit",
			func(letters string) consumer.Parker { return &anxiousParker{letters: letters} }),
		routed("wrong-node-dlq", "dead letters go to the dead-letter topic of the node that comes next", "wrong-node-dlq",
			func(node consumer.Node, router consumer.Router) consumer.Router { return strayRouter{router, node} }),
		routed("random-edge", "the edge is drawn at random each time", "skipped-node",
			func(node consumer.Node, router consumer.Router) consumer.Router { return randomRouter{router, node} }),
		{
			Name: "graph-dead-letter-logical", What: "a document that the module refuses is dead-lettered",
			Anomaly: "logical-dead-lettered", Invariant: "parse/classification", Scenario: "graph",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.Policy = strictPolicy{parts.Policy} },
		},
		{
			Name: "module-skipped", What: "one document in twenty is passed on without a call of the module",
			Anomaly: "forwarded-unprocessed", Invariant: conserved, Scenario: "graph",
			Consumer: func(config *consumer.Config, _ *consumer.Parts) { config.Handler = skipping(config.Handler) },
		},
		{
			Name: "quarantined-at-once", What: "what fails is quarantined before it was ever replayed",
			Anomaly: "quarantined-early", Invariant: conserved, Scenario: "graph",
			Consumer: func(config *consumer.Config, parts *consumer.Parts) {
				node := *config.Node
				node.MaxReprocess = 0
				parts.Router = consumer.GraphRouter{Node: node}
			},
		},
		{
			Name: "never-quarantined", What: "a document is dead-lettered however often it was replayed",
			Anomaly: "quarantine-missed", Invariant: conserved,
			Scenario: "graph-replay", Consumer: func(config *consumer.Config, parts *consumer.Parts) {
				node := *config.Node
				node.MaxReprocess = math.MaxInt
				parts.Router = consumer.GraphRouter{Node: node}
			},
		},
	}
}

// graphReplays are bugs of the tool that replays the dead letters of a graph's nodes.
func graphReplays() []Bug {
	published := func(name, what, anomaly string,
		wrap func(*deadletter.Config) func(deadletter.Publisher) deadletter.Publisher) Bug {
		return Bug{Name: name, What: what, Anomaly: anomaly, Invariant: "graph-conservation", Scenario: "graph-replay",
			Replay: func(config *deadletter.Config) {
				config.Publish = wrap(config)
			}}
	}
	return []Bug{
		published("graph-replays-twice", "every dead letter of a node is replayed twice", "replayed-twice", doublePublisher),
		published("graph-replay-drops", "one dead letter in ten is not replayed", "replay-missing", droppingPublisher),
		published("graph-replay-wrong-node", "dead letters of the second node are replayed to the first",
			"replayed-to-wrong-node", strayPublisher),
	}
}

// strayPublisher writes to the entry node's input, whichever node a dead letter came from.
func strayPublisher(*deadletter.Config) func(deadletter.Publisher) deadletter.Publisher {
	return func(next deadletter.Publisher) deadletter.Publisher {
		return publisher{next, func(ctx context.Context, record *kgo.Record, promise func(*kgo.Record, error)) {
			record.Topic = strings.Replace(record.Topic, ".input.embed", ".input.parse", 1)
			next.Produce(ctx, record, promise)
		}}
	}
}

// skipping reports success for one record in twenty without calling the module.
func skipping(handler consumer.Handler) consumer.Handler {
	var count atomic.Int64
	return func(ctx context.Context, record *kgo.Record) error {
		if count.Add(1)%20 == 0 {
			return nil
		}
		return handler(ctx, record)
	}
}

// forwarding has the bug only in records passed on. It publishes dead letters correctly.
type forwarding struct {
	consumer.Parker
	letters string
}

func (f forwarding) Park(ctx context.Context, publisher consumer.Publisher, letter *kgo.Record, done func(error)) {
	if strings.HasPrefix(letter.Topic, f.letters) {
		consumer.AckedParker{}.Park(ctx, publisher, letter, done)
		return
	}
	f.Parker.Park(ctx, publisher, letter, done)
}

// forgetfulParker reports one record in twenty as written without writing it.
type forgetfulParker struct{ count atomic.Int64 }

func (p *forgetfulParker) Park(ctx context.Context, publisher consumer.Publisher, letter *kgo.Record,
	done func(error)) {
	if p.count.Add(1)%20 == 0 {
		done(nil)
		return
	}
	consumer.AckedParker{}.Park(ctx, publisher, letter, done)
}

// anxiousParker also writes one record in twenty to the dead-letter topic.
type anxiousParker struct {
	letters string
	count   atomic.Int64
}

func (p *anxiousParker) Park(ctx context.Context, publisher consumer.Publisher, letter *kgo.Record, done func(error)) {
	if p.count.Add(1)%20 == 0 {
		second := *letter
		second.Topic = p.letters
		consumer.AckedParker{}.Park(ctx, publisher, &second, func(error) {})
	}
	consumer.AckedParker{}.Park(ctx, publisher, letter, done)
}

// strayRouter uses the name of the next node as its own.
type strayRouter struct {
	consumer.Router
	node consumer.Node
}

func (r strayRouter) DeadLetterTopic(record *kgo.Record) string {
	topic, found := strings.CutSuffix(r.node.Quarantine, "."+r.node.Name+".quarantine")
	if !found || len(r.node.Edges) == 0 {
		return r.Router.DeadLetterTopic(record)
	}
	return topic + "." + r.node.Edges[0].To
}

// randomRouter takes a random edge.
type randomRouter struct {
	consumer.Router
	node consumer.Node
}

func (r randomRouter) Forward(record *kgo.Record, step consumer.Step) *kgo.Record {
	next := r.Router.Forward(record, step)
	if edges := r.node.Edges; len(edges) > 1 {
		next.Topic = edges[rand.IntN(len(edges))].Topic
	}
	return next
}
