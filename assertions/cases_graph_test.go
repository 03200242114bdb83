package assertions

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/history"
)

// The topics of the graph in these tests: parse passes documents on to chunk or to ocr, and both pass them out of the
// graph.
const (
	inParse = int16(iota)
	inChunk
	inOCR
	dlqParse
	quarantineParse
	dlqChunk
	quarantineChunk
	dlqOCR
	quarantineOCR
	sink
)

// The nodes; each has one instance, of the same number.
const (
	parse = iota
	chunk
	ocr
)

// graphBuilder is a hand-written history of a graph. Every topic has one partition.
type graphBuilder struct {
	h      history.Header
	events []history.Event
	now    time.Duration
	op     int64
	logs   map[int16][]found
	at     map[[2]int32]int64 // the latest copy of a document at a node
	tries  map[[2]int32]int32 // attempts of that copy
	asked  map[int64]history.Event
	missed map[int16]bool // topics whose contents the audit does not find
	commit map[int]int64
}

// found is the record that a topic holds at an offset.
type found struct {
	document int32
	claim    *history.Claim
}

func newGraphBuilder() *graphBuilder {
	g := &graphBuilder{
		logs: map[int16][]found{}, at: map[[2]int32]int64{}, tries: map[[2]int32]int32{}, asked: map[int64]history.Event{},
		missed: map[int16]bool{}, commit: map[int]int64{},
	}
	contract := *newBuilder().h.Contract()
	contract.Envelope, contract.KeepsHeaders = "pipestream", false
	var nodes []history.Consumer
	for i, name := range []string{"parse", "chunk", "ocr"} {
		letters := dlqParse + 2*int16(i)
		nodes = append(nodes, history.Consumer{
			Name: name, Input: int16(i), DLQ: letters, Quarantine: letters + 1, Group: name, First: i, Instances: 1,
			Contract: contract,
		})
	}
	nodes[parse].Edges = []history.Edge{{To: chunk, Weight: 1}, {To: ocr, Weight: 1}}
	g.h = history.Header{
		Format: history.FormatVersion, RunID: "run", Scenario: "test", Records: 8, Instances: 3,
		Consumers: nodes, Graph: &history.Graph{Sink: sink, MaxReprocess: 1}, Replay: true,
		Expect: history.Expect{DuplicateShare: -1, DrainLimit: time.Second},
	}
	for i, name := range []string{
		"in.parse", "in.chunk", "in.ocr", "dlq.parse", "dlq.parse.quarantine", "dlq.chunk", "dlq.chunk.quarantine", "dlq.ocr",
		"dlq.ocr.quarantine", "sink",
	} {
		role := []history.Role{
			history.RoleInput, history.RoleNode, history.RoleNode, history.RoleDLQ, history.RoleQuarantine, history.RoleDLQ,
			history.RoleQuarantine, history.RoleDLQ, history.RoleQuarantine, history.RoleSink,
		}[i]
		g.h.Topics = append(g.h.Topics, history.Topic{Name: name, Role: role, Partitions: 1})
	}
	g.phase(history.PhaseSetup)
	for node := range nodes {
		g.start(node, 0)
	}
	return g.phase(history.PhaseWarmup).phase(history.PhaseSteady)
}

func (g *graphBuilder) put(kind history.Kind, fill func(*history.Event)) {
	g.now += ms
	e := history.New(kind, g.now)
	fill(&e)
	g.events = append(g.events, e)
}

func (g *graphBuilder) phase(name string) *graphBuilder {
	g.put(history.KindPhase, func(e *history.Event) { e.Text = name })
	return g
}

func (g *graphBuilder) start(node int, run uint16) *graphBuilder {
	instance := int16(node)
	g.put(history.KindInstanceStarting, func(e *history.Event) { e.Instance, e.Run = instance, run })
	g.put(history.KindAssigned, func(e *history.Event) {
		e.Instance, e.Run, e.Topic, e.Partition, e.N = instance, run, int16(node), 0, 1
	})
	return g
}

func (g *graphBuilder) kill(node int) *graphBuilder {
	g.put(history.KindInstanceSignal, func(e *history.Event) { e.Instance, e.Text, e.Code = int16(node), "KILL", 9 })
	g.put(history.KindInstanceExited, func(e *history.Event) {
		e.Instance, e.Text, e.Code, e.Flags = int16(node), "KILL", -1, history.Expected
	})
	return g.start(node, 1)
}

// send puts a document into the entry's input.
func (g *graphBuilder) send(document int32) *graphBuilder {
	g.put(history.KindSend, func(e *history.Event) {
		e.Record, e.Topic, e.Partition, e.Aux, e.N, e.ValueHash, e.Outcome = document, inParse, 0, int64(e.Time), document, 7,
			history.OutcomeSuccess
	})
	offset := g.store(inParse, document, nil)
	g.put(history.KindAcked, func(e *history.Event) {
		e.Record, e.Topic, e.Partition, e.Offset = document, inParse, 0, offset
	})
	return g
}

// rebalance takes the node's partition from its instance, and assigns it again.
func (g *graphBuilder) rebalance(node int) *graphBuilder {
	for _, kind := range []history.Kind{history.KindRevoked, history.KindAssigned} {
		g.put(kind, func(e *history.Event) {
			e.Instance, e.Run, e.Topic, e.Partition, e.N = int16(node), g.run(node), int16(node), 0, 1
		})
	}
	return g
}

// unheard writes a document to the entry's input, and reports a failure to the workload.
func (g *graphBuilder) unheard(document int32) *graphBuilder {
	g.send(document)
	told := &g.events[len(g.events)-1]
	told.Code, told.Offset = 7, history.None
	return g
}

// unanswered makes a numbered write that is carried out and not answered. The returned function repeats it, and the
// repeat is answered.
func (g *graphBuilder) unanswered(node int, document int32, topic int16) (repeat func()) {
	ask := func() history.Event {
		g.op++
		g.put(history.KindProduceRequest, func(e *history.Event) {
			e.Op, e.Instance, e.Run, e.Record, e.Topic, e.Partition, e.ValueHash = g.op, int16(node), g.run(node), document,
				topic, 0, 7
			e.ProducerID, e.ProducerEpoch, e.Sequence = 9, 0, 0
		})
		return g.events[len(g.events)-1]
	}
	ask()
	offset := g.store(topic, document, nil)
	return func() {
		asked := ask()
		g.put(history.KindProduceResponse, func(e *history.Event) {
			at := e.Time
			*e = asked
			e.Kind, e.Time, e.Offset = history.KindProduceResponse, at, offset
		})
	}
}

func (g *graphBuilder) store(topic int16, document int32, claim *history.Claim) int64 {
	g.logs[topic] = append(g.logs[topic], found{document, claim})
	offset := int64(len(g.logs[topic]) - 1)
	if topic <= inOCR {
		g.at[[2]int32{int32(topic), document}] = offset
		g.tries[[2]int32{int32(topic), document}] = 0
	}
	return offset
}

// attempt is one call of the node's module.
func (g *graphBuilder) attempt(node int, document int32, outcome history.Outcome) *graphBuilder {
	offset := g.at[[2]int32{int32(node), document}]
	run := g.run(node)
	g.op++
	tries := g.tries[[2]int32{int32(node), document}] + 1
	g.tries[[2]int32{int32(node), document}] = tries
	fill := func(e *history.Event) {
		e.Op, e.Instance, e.Run, e.Record, e.Topic, e.Partition, e.Offset, e.N = g.op, int16(node), run, document,
			int16(node), 0, offset, tries
	}
	g.put(history.KindFetched, func(e *history.Event) {
		e.Instance, e.Run, e.Topic, e.Partition, e.Offset, e.Aux = int16(node), run, int16(node), 0, offset, offset
	})
	g.put(history.KindAttemptStart, fill)
	g.put(history.KindAttemptEnd, func(e *history.Event) { fill(e); e.Outcome = outcome })
	return g
}

func (g *graphBuilder) run(node int) (run uint16) {
	for i := range g.events {
		if e := &g.events[i]; e.Kind == history.KindInstanceStarting && e.Instance == int16(node) {
			run = e.Run
		}
	}
	return run
}

// ask is a produce request; the returned function answers it.
func (g *graphBuilder) ask(instance int16, document int32, topic int16,
	claim *history.Claim) (answer func(code int16)) {
	g.op++
	op, run := g.op, uint16(0)
	if instance >= 0 {
		run = g.run(int(instance))
	}
	fill := func(e *history.Event) {
		e.Op, e.Instance, e.Run, e.Record, e.Topic, e.Partition, e.ValueHash = op, instance, run, document, topic, 0, 7
	}
	g.put(history.KindProduceRequest, fill)
	return func(code int16) {
		offset := int64(history.None)
		if code == 0 {
			offset = g.store(topic, document, claim)
		}
		g.put(history.KindProduceResponse, func(e *history.Event) { fill(e); e.Code, e.Offset = code, offset })
	}
}

// next returns the topic to which parse passes the document.
func (g *graphBuilder) next(document int32) int16 {
	return g.h.Next(parse, g.h.IDs().Token(document))
}

func (g *graphBuilder) forward(node int, document int32) *graphBuilder {
	to := sink
	if node == parse {
		to = g.next(document)
	}
	return g.write(node, document, to)
}

func (g *graphBuilder) write(node int, document int32, topic int16) *graphBuilder {
	g.ask(int16(node), document, topic, g.claim(node, document))(0)
	return g
}

func (g *graphBuilder) claim(node int, document int32) *history.Claim {
	return &history.Claim{Topic: int16(node), Partition: 0, Offset: g.at[[2]int32{int32(node), document}],
		Attempts: g.tries[[2]int32{int32(node), document}]}
}

// commits makes the node commit its whole input.
func (g *graphBuilder) commits(node int) *graphBuilder {
	return g.commitTo(node, int64(len(g.logs[int16(node)])))
}

func (g *graphBuilder) commitTo(node int, offset int64) *graphBuilder {
	g.op++
	op, run := g.op, g.run(node)
	fill := func(e *history.Event) {
		e.Op, e.Instance, e.Run, e.Topic, e.Partition, e.Offset, e.N = op, int16(node), run, int16(node), 0, offset, 1
	}
	g.put(history.KindCommitRequest, fill)
	g.put(history.KindCommitResponse, fill)
	g.commit[node] = offset
	return g
}

// fail exhausts the document's attempts at the node.
func (g *graphBuilder) fail(node int, document int32) *graphBuilder {
	for k, wait := range []time.Duration{0, 105 * ms, 205 * ms} {
		if g.now += wait; k > 0 {
			g.now -= ms
		}
		g.attempt(node, document, history.OutcomeTransient)
	}
	return g
}

// through takes the document through parse and the node after it, all committed.
func (g *graphBuilder) through(document int32) *graphBuilder {
	next := int(g.next(document))
	g.attempt(parse, document, history.OutcomeSuccess).forward(parse, document).commits(parse)
	return g.attempt(next, document, history.OutcomeLogical).forward(next, document).commits(next)
}

// both takes two copies of the document through the last node, the copy at the offset first.
func (g *graphBuilder) both(node int, document int32, first int64) *graphBuilder {
	at := [2]int32{int32(node), document}
	second := g.at[at]
	for _, offset := range []int64{first, second} {
		g.at[at] = offset
		g.attempt(node, document, history.OutcomeSuccess).forward(node, document).commitTo(node, offset+1)
	}
	return g
}

func (g *graphBuilder) selects(node int, document int32) *graphBuilder {
	letters := g.h.Consumers[node].DLQ
	offset := slices.IndexFunc(g.logs[letters], func(f found) bool { return f.document == document })
	g.put(history.KindReplaySelected, func(e *history.Event) {
		e.Record, e.Topic, e.Partition, e.Offset = document, letters, 0, int64(offset)
	})
	return g
}

func (g *graphBuilder) replayTo(topic int16, document int32) *graphBuilder {
	g.ask(history.Replayer, document, topic, nil)(0)
	return g
}

// end audits everything and judges the history. It returns "node/invariant: anomaly" for each finding, sorted.
func (g *graphBuilder) end(t *testing.T) []string {
	t.Helper()
	g.h.Records = 0
	for _, e := range g.events {
		if e.Kind == history.KindSend {
			g.h.Records = max(g.h.Records, int(e.Record)+1)
		}
	}
	g.phase(history.PhaseDrain).phase(history.PhaseAudit)
	for topic := range int16(len(g.h.Topics)) {
		g.put(history.KindAuditStart, func(e *history.Event) { e.Topic = topic })
		for offset, one := range g.logs[topic] {
			if g.missed[topic] {
				continue
			}
			g.put(history.KindAuditRecord, func(e *history.Event) {
				e.Topic, e.Partition, e.Offset, e.Record, e.ValueHash, e.Claim = topic, 0, int64(offset), one.document, 7, one.claim
				if role := g.h.Topics[topic].Role; role != history.RoleDLQ && role != history.RoleQuarantine {
					e.Claim = nil
				}
			})
		}
	}
	for topic := range int16(len(g.h.Topics)) {
		g.put(history.KindAuditOffsets, func(e *history.Event) {
			e.Topic, e.Partition, e.Offset, e.Aux = topic, 0, int64(len(g.logs[topic])), history.None
			if committed, known := g.commit[int(topic)]; known {
				e.Aux = committed
			}
		})
	}
	g.phase(history.PhaseSeal)
	verdict, _, err := Judge(history.FromEvents(g.h, g.events))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, result := range verdict.Invariants {
		for _, anomaly := range result.Anomalies {
			found = append(found, result.Name+": "+anomaly.Name)
			for _, one := range anomaly.Counterexamples {
				ofProcess := strings.HasSuffix(result.Name, "/stays-up")
				if (one.Record < 0) != ofProcess || int(one.Record) >= g.h.Records || len(one.Trace) == 0 ||
					one.Summary == "" {
					t.Errorf("%s: a counterexample without a trace: %+v", anomaly.Name, one)
				}
			}
		}
	}
	if slices.ContainsFunc(verdict.Invariants, func(r Result) bool {
		return r.Name == graphConservation && r.Judged == 0
	}) {
		t.Error("graph-conservation judged nothing")
	}
	slices.Sort(found)
	return found
}

// graphCase is a history of a graph with the expected anomalies, each after its invariant; NEXT is the node after
// parse.
type graphCase struct {
	name string
	tell func(*graphBuilder)
	want []string
}

func graphCases() []graphCase {
	const conserved = graphConservation + ": "
	return append(nodeLifeCases(), []graphCase{
		{"documents go through", func(g *graphBuilder) { g.send(0).through(0).send(1).through(1) }, nil},
		{"a document fails and is dead-lettered at its node", func(g *graphBuilder) {
			g.send(0).through(0).send(1).fail(parse, 1).write(parse, 1, dlqParse).commits(parse)
		}, nil},
		{"committed before the next topic has it", func(g *graphBuilder) {
			g.send(0).attempt(parse, 0, history.OutcomeSuccess)
			answer := g.ask(parse, 0, g.next(0), nil)
			g.commits(parse)
			answer(0)
			next := int(g.next(0))
			g.attempt(next, 0, history.OutcomeSuccess).forward(next, 0).commits(next)
		}, []string{conserved + "commit-before-forward"}},
		{"never passed on", func(g *graphBuilder) {
			g.send(1).through(1).send(0).attempt(parse, 0, history.OutcomeSuccess).commits(parse)
		},
			[]string{conserved + "commit-before-forward", conserved + "lost-in-graph"}},
		{"passed on, acknowledged, and not there", func(g *graphBuilder) { g.send(0).through(0); g.missed[sink] = true },
			[]string{conserved + "lost-in-graph"}},
		{"passed on twice", func(g *graphBuilder) {
			g.send(0).attempt(parse, 0, history.OutcomeSuccess).forward(parse, 0)
			first := g.at[[2]int32{int32(g.next(0)), 0}]
			g.forward(parse, 0).commits(parse).both(int(g.next(0)), 0, first)
		}, []string{conserved + "forwarded-twice"}},
		{"passed on twice, because of a kill before the commit", func(g *graphBuilder) {
			next := int(g.next(0))
			g.send(0).attempt(parse, 0, history.OutcomeSuccess).forward(parse, 0).attempt(next, 0,
				history.OutcomeSuccess).forward(next, 0).commits(next).kill(parse)
			g.attempt(parse, 0, history.OutcomeSuccess).forward(parse, 0).commits(parse).attempt(next, 0,
				history.OutcomeSuccess).forward(next, 0).commits(next)
		}, nil},
		{"passed on again after a refusal", func(g *graphBuilder) {
			g.send(0).attempt(parse, 0, history.OutcomeSuccess)
			g.ask(parse, 0, g.next(0), nil)(19)
			next := int(g.next(0))
			g.forward(parse, 0).commits(parse).attempt(next, 0, history.OutcomeSuccess).forward(next, 0).commits(next)
		}, nil},
		{"at the first place there is, though all that the workload heard of it was an error", func(g *graphBuilder) {
			g.unheard(0).through(0)
		}, nil},
		{"passed on by a write that was answered when the next node had lost it and had it again", func(g *graphBuilder) {
			next := int(g.next(0))
			g.send(0).attempt(parse, 0, history.OutcomeSuccess)
			repeat := g.unanswered(parse, 0, g.next(0))
			g.fail(next, 0).rebalance(next).fail(next, 0).write(next, 0, g.h.Consumers[next].DLQ).commits(next)
			repeat()
			g.commits(parse)
		}, nil},
		{"passed on and dead-lettered", func(g *graphBuilder) {
			g.send(0).fail(parse, 0).write(parse, 0, dlqParse)
			g.attempt(parse, 0, history.OutcomeSuccess).forward(parse, 0).commits(parse)
			next := int(g.next(0))
			g.attempt(next, 0, history.OutcomeSuccess).forward(next, 0).commits(next)
		}, []string{conserved + "dual-exit", "parse/classification: dual-terminal"}},
		{"passed on before it was processed", func(g *graphBuilder) {
			next := int(g.next(0))
			g.send(0).forward(parse, 0).attempt(parse, 0, history.OutcomeSuccess).commits(parse).attempt(next, 0,
				history.OutcomeSuccess).forward(next, 0).commits(next)
		}, []string{conserved + "forwarded-unprocessed"}},
		{"passed on by the other edge", func(g *graphBuilder) {
			other := inChunk + inOCR - g.next(0)
			g.send(0).attempt(parse, 0, history.OutcomeSuccess).write(parse, 0, other).commits(parse)
			g.attempt(int(other), 0, history.OutcomeSuccess).forward(int(other), 0).commits(int(other))
		}, []string{conserved + "skipped-node"}},
		{"out of the graph at the first node", func(g *graphBuilder) {
			g.send(0).attempt(parse, 0, history.OutcomeSuccess).write(parse, 0, sink).commits(parse)
		}, []string{conserved + "skipped-node"}},
		{"among another node's dead letters", func(g *graphBuilder) {
			g.send(0).fail(parse, 0).write(parse, 0, dlqChunk).commits(parse)
		},
			[]string{conserved + "wrong-node-dlq", "parse/commit-after-outcome: commit-past-unfinished"}},
		{"a module's refusal is dead-lettered", func(g *graphBuilder) {
			g.send(0).attempt(parse, 0, history.OutcomeLogical).write(parse, 0, dlqParse).commits(parse)
		}, []string{"parse/classification: logical-dead-lettered"}},
		{"replayed, and it goes through", func(g *graphBuilder) {
			g.send(0).fail(parse, 0).write(parse, 0, dlqParse).commits(parse).phase(history.PhaseDrain).phase(
				history.PhaseReplay).selects(parse, 0).replayTo(inParse, 0).through(0)
		}, nil},
		{"replayed, fails once more, and is quarantined", func(g *graphBuilder) {
			g.send(0).fail(parse, 0).write(parse, 0, dlqParse).commits(parse).phase(history.PhaseDrain).phase(
				history.PhaseReplay).selects(parse, 0).replayTo(inParse, 0)
			g.fail(parse, 0).write(parse, 0, quarantineParse).commits(parse)
		}, nil},
		{"replayed, processed, and neither passed on nor dead-lettered again", func(g *graphBuilder) {
			g.send(0).fail(parse, 0).write(parse, 0, dlqParse).commits(parse).phase(history.PhaseDrain).phase(
				history.PhaseReplay).selects(parse, 0).replayTo(inParse, 0)
			g.attempt(parse, 0, history.OutcomeSuccess).commits(parse)
		}, []string{conserved + "lost-in-graph", conserved + "commit-before-forward"}},
		{"replayed, and then passed on twice", func(g *graphBuilder) {
			next := int(g.next(0))
			g.send(0).fail(parse, 0).write(parse, 0, dlqParse).commits(parse).phase(history.PhaseDrain).phase(
				history.PhaseReplay).selects(parse, 0).replayTo(inParse, 0)
			g.attempt(parse, 0, history.OutcomeSuccess).forward(parse, 0).attempt(next, 0, history.OutcomeSuccess).forward(next,
				0).commits(next)
			g.forward(parse, 0).commits(parse).attempt(next, 0, history.OutcomeSuccess).forward(next, 0).commits(next)
		}, []string{conserved + "forwarded-twice"}},
		{"what failed goes to the other node in place of the dead-letter topic", func(g *graphBuilder) {
			other := inChunk + inOCR - g.next(0)
			g.send(0).fail(parse, 0).write(parse, 0, other).commits(parse)
			g.attempt(int(other), 0, history.OutcomeSuccess).forward(int(other), 0).commits(int(other))
		}, []string{conserved + "forwarded-unprocessed", conserved + "skipped-node",
			"parse/commit-after-outcome: commit-past-unfinished"}},
		{"replayed as often as allowed, and dead-lettered", func(g *graphBuilder) {
			g.send(0).fail(parse, 0).write(parse, 0, dlqParse).commits(parse).phase(history.PhaseDrain).phase(
				history.PhaseReplay).selects(parse, 0).replayTo(inParse, 0)
			g.fail(parse, 0).write(parse, 0, dlqParse).commits(parse)
		}, []string{conserved + "quarantine-missed"}},
		{"quarantined at the first failure", func(g *graphBuilder) {
			g.send(0).fail(parse, 0).write(parse, 0, quarantineParse).commits(parse)
		},
			[]string{conserved + "quarantined-early"}},
		{"replayed, passed on, and its count goes with it", func(g *graphBuilder) {
			next := int(g.next(0))
			g.send(0).fail(parse, 0).write(parse, 0, dlqParse).commits(parse).phase(history.PhaseDrain).phase(
				history.PhaseReplay).selects(parse, 0).replayTo(inParse, 0)
			g.attempt(parse, 0, history.OutcomeSuccess).forward(parse, 0).commits(parse)
			g.fail(next, 0).write(next, 0, g.h.Consumers[next].Quarantine).commits(next)
		}, nil},
		{"replayed, passed on, and dead-lettered at the next node as if it were new", func(g *graphBuilder) {
			next := int(g.next(0))
			g.send(0).fail(parse, 0).write(parse, 0, dlqParse).commits(parse).phase(history.PhaseDrain).phase(
				history.PhaseReplay).selects(parse, 0).replayTo(inParse, 0)
			g.attempt(parse, 0, history.OutcomeSuccess).forward(parse, 0).commits(parse)
			g.fail(next, 0).write(next, 0, g.h.Consumers[next].DLQ).commits(next)
		}, []string{conserved + "quarantine-missed"}},
		{"passed on twice, and once more after a refusal", func(g *graphBuilder) {
			g.send(0).attempt(parse, 0, history.OutcomeSuccess)
			g.ask(parse, 0, g.next(0), nil)(19)
			g.forward(parse, 0)
			first := g.at[[2]int32{int32(g.next(0)), 0}]
			g.forward(parse, 0).commits(parse).both(int(g.next(0)), 0, first)
		}, []string{conserved + "forwarded-twice"}},
		{"replayed to another node", func(g *graphBuilder) {
			next := int(g.next(0))
			g.send(0).fail(parse, 0).write(parse, 0, dlqParse).commits(parse).phase(history.PhaseDrain).phase(
				history.PhaseReplay).selects(parse, 0).replayTo(int16(next), 0)
			g.attempt(next, 0, history.OutcomeSuccess).forward(next, 0).commits(next)
		}, []string{conserved + "replay-missing", conserved + "replayed-to-wrong-node"}},
		{"selected and not replayed", func(g *graphBuilder) {
			g.send(0).fail(parse, 0).write(parse, 0, dlqParse).commits(parse).phase(history.PhaseDrain).phase(
				history.PhaseReplay).selects(parse, 0)
		}, []string{conserved + "replay-missing"}},
		{"replayed twice", func(g *graphBuilder) {
			next := int(g.next(0))
			g.send(0).fail(parse, 0).write(parse, 0, dlqParse).commits(parse).phase(history.PhaseDrain).phase(
				history.PhaseReplay).selects(parse, 0).replayTo(inParse, 0)
			g.attempt(parse, 0, history.OutcomeSuccess).forward(parse, 0).replayTo(inParse, 0).attempt(parse, 0,
				history.OutcomeSuccess)
			first := g.at[[2]int32{int32(next), 0}]
			g.forward(parse, 0).commits(parse).both(next, 0, first)
		}, []string{conserved + "replayed-twice"}},
		{"an inner node commits past what it has not done", func(g *graphBuilder) {
			g.send(0).attempt(parse, 0, history.OutcomeSuccess).forward(parse, 0).commits(parse).commits(int(g.next(0)))
		}, []string{"NEXT/commit-after-outcome: commit-past-unfinished", conserved + "lost-in-graph"}},
	}...)
}

// life is one event of the node's process.
func (g *graphBuilder) life(node int, kind history.Kind, fill func(*history.Event)) *graphBuilder {
	g.put(kind, func(e *history.Event) {
		e.Instance, e.Run = int16(node), g.run(node)
		fill(e)
	})
	return g
}

// nodeLifeCases check that the processes of every node are judged alike, whether or not the workload sends to it.
func nodeLifeCases() []graphCase {
	members := func(g *graphBuilder, node int, count int32, why string) *graphBuilder {
		return g.life(node, history.KindMembership, func(e *history.Event) { e.N, e.Text = count, why })
	}
	leaves := func(g *graphBuilder, node int, why string) {
		members(g, node, 1, "")
		members(g, node, 0, why).now += 4 * time.Second
	}
	ends := func(g *graphBuilder, node int, code int16, flags history.Flags) {
		g.life(node, history.KindInstanceExited, func(e *history.Event) { e.Code, e.Flags = code, flags })
		g.start(node, 1)
	}
	told := func(g *graphBuilder, node int) {
		g.life(node, history.KindInstanceSignal, func(e *history.Event) { e.Text, e.Code = "TERM", 15 })
	}
	var cases []graphCase
	for node, name := range []string{"parse", "chunk", "ocr"} {
		for _, one := range []struct {
			what, shows string
			does        func(*graphBuilder)
		}{
			{"ends by itself", "crashed", func(g *graphBuilder) { ends(g, node, 2, 0) }},
			{"is told to stop", "", func(g *graphBuilder) { told(g, node); ends(g, node, 0, history.Expected) }},
			{"is told to stop and fails", "unclean-exit", func(g *graphBuilder) {
				told(g, node)
				ends(g, node, 1, history.Expected)
			}},
			{"leaves its group for good", "gave-up", func(g *graphBuilder) { leaves(g, node, "leave") }},
			{"falls silent", "gave-up", func(g *graphBuilder) { leaves(g, node, "silent") }},
			{"leaves its group and comes back", "", func(g *graphBuilder) {
				leaves(g, node, "leave")
				members(g, node, 1, "")
			}},
		} {
			var want []string
			if one.shows != "" {
				want = []string{name + "/stays-up: " + one.shows}
			}
			cases = append(cases, graphCase{"a process of " + name + " " + one.what, func(g *graphBuilder) {
				g.send(0).through(0).send(1).through(1)
				one.does(g)
			}, want})
		}
	}
	return cases
}

// TestUsageOfEveryNode checks that the usage of the instances of all nodes is measured and limited like that of the
// entry's. The record that was attempted most often is identified by its document, at any node.
func TestUsageOfEveryNode(t *testing.T) {
	for node := range 3 {
		g := newGraphBuilder()
		document := int32(0)
		for node != parse && g.next(document) != int16(node) {
			g.send(document).through(document)
			document++
		}
		if g.send(document); node != parse {
			g.attempt(parse, document, history.OutcomeSuccess).forward(parse, document).commits(parse)
		}
		for range 9 {
			g.attempt(node, document, history.OutcomeTransient)
		}
		for one := range 3 {
			size := int64(10 + one)
			if one == node {
				size = 100
			}
			g.life(one, history.KindSample, func(e *history.Event) { e.Text, e.Aux = history.SampleInstanceRSS, size<<20 })
		}
		g.phase(history.PhaseDrain).phase(history.PhaseSeal)
		g.h.Records = int(document) + 1
		g.h.Expect.Thresholds = []string{"subject.rss.max < 50MiB", "subject.attempts_per_second.max < 9"}
		verdict, _, err := Judge(history.FromEvents(g.h, g.events))
		if err != nil {
			t.Fatal(err)
		}
		used := verdict.Usage
		if len(used.Instances) != 3 || len(verdict.Series.Instances) != 3 || used.Instances[node].RSSMax != 100<<20 ||
			used.Busiest == nil || used.Busiest.Record != document || used.Busiest.Attempts != 9 {
			t.Errorf("node %d: %+v, busiest %+v, %d curves", node, used.Instances, used.Busiest,
				len(verdict.Series.Instances))
		}
		for _, one := range verdict.Series.Instances {
			if len(one.RSS) != len(verdict.Series.Sent) {
				t.Errorf("node %d: a curve of %d points among those of %d", node, len(one.RSS), len(verdict.Series.Sent))
			}
		}
		for _, threshold := range verdict.Thresholds {
			if threshold.Met || threshold.Error != "" {
				t.Errorf("node %d: %+v", node, threshold)
			}
		}
		if !verdict.ThresholdsMissed {
			t.Errorf("node %d: no limit was missed", node)
		}
	}
}

// TestGraphCases checks that each anomaly shows in a history, and that the nearest correct history has none.
func TestGraphCases(t *testing.T) {
	for _, c := range graphCases() {
		t.Run(c.name, func(t *testing.T) {
			g := newGraphBuilder()
			c.tell(g)
			name := g.h.Consumers[g.next(0)].Name
			var want []string
			for _, one := range c.want {
				want = append(want, strings.Replace(one, "NEXT", name, 1))
			}
			slices.Sort(want)
			if found := g.end(t); !slices.Equal(found, want) {
				t.Errorf("found %q\nwant  %q", found, want)
			}
		})
	}
}

// TestAnEventOfAnotherKindIsSurvived covers an answer to a commit that claims to answer a share group's
// acknowledgement, and all similar mismatches.
func TestAnEventOfAnotherKindIsSurvived(t *testing.T) {
	told := func() *graphBuilder {
		g := newGraphBuilder()
		g.send(0).through(0).send(1).fail(parse, 1).write(parse, 1, dlqParse).commits(parse).phase(history.PhaseSeal)
		g.h.Records = 2
		return g
	}
	for i, asked := range told().events {
		if asked.Kind != history.KindCommitRequest && asked.Kind != history.KindCommitResponse {
			continue
		}
		for kind := range history.Kind(40) {
			g := told()
			g.events[i].Kind = kind
			if _, _, err := Judge(history.FromEvents(g.h, g.events)); err != nil {
				t.Fatalf("event %d as %s: %v", i, kind, err)
			}
		}
	}
}

// TestAGraphsJudgeSurvivesAnything checks that arbitrary events are judged without a panic, and with the same result
// twice.
func TestAGraphsJudgeSurvivesAnything(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		g := newGraphBuilder()
		g.send(0).through(0).send(1).fail(parse, 1).write(parse, 1, dlqParse).commits(parse).phase(history.PhaseReplay).
			selects(parse, 1).replayTo(inParse, 1)
		g.through(1).phase(history.PhaseAudit).phase(history.PhaseSeal)
		g.h.Records = 2
		small := rapid.Int32Range(-2, 12)
		for range rapid.IntRange(1, 30).Draw(r, "changes") {
			e := &g.events[rapid.IntRange(0, len(g.events)-1).Draw(r, "event")]
			switch rapid.IntRange(0, 8).Draw(r, "field") {
			case 0:
				e.Record = small.Draw(r, "record")
			case 1:
				e.Topic = int16(small.Draw(r, "topic"))
			case 2:
				e.Partition = small.Draw(r, "partition")
			case 3:
				e.Offset = rapid.OneOf(rapid.Int64Range(-2, 12), rapid.Just(int64(1)<<62)).Draw(r, "offset")
			case 4:
				e.Instance = int16(small.Draw(r, "instance"))
			case 5:
				e.Op = rapid.Int64Range(0, 12).Draw(r, "op")
			case 6:
				e.Time = time.Duration(rapid.Int64Range(0, int64(g.now)).Draw(r, "time"))
			case 7:
				e.Kind = history.Kind(rapid.IntRange(0, 36).Draw(r, "kind"))
			case 8:
				e.Flags, e.Code = history.Flags(rapid.Uint32Range(0, 1023).Draw(r, "flags")), int16(small.Draw(r, "code"))
			}
		}
		judge := func() *Verdict {
			verdict, _, err := Judge(history.FromEvents(g.h, g.events))
			if err != nil {
				r.Fatal(err)
			}
			return verdict
		}
		if one, two := judge(), judge(); !reflect.DeepEqual(one.Invariants, two.Invariants) {
			r.Fatal("judged twice it is not the same")
		}
	})
}

// Two commits of a node cover copies of one document, and the one that was read later is answered first. What counts is
// what was acknowledged when each was read.
func TestCommitsOfCopiesAnsweredOutOfOrder(t *testing.T) {
	const first, second = 10 * ms, 20 * ms
	for name, one := range map[string]struct {
		acked [2]time.Duration
		want  int64
	}{
		"both exits in time":              {[2]time.Duration{5 * ms, 15 * ms}, 0},
		"the exit of the later commit":    {[2]time.Duration{5 * ms, 25 * ms}, 1},
		"the exit of the earlier commit":  {[2]time.Duration{15 * ms, 16 * ms}, 1},
		"neither exit":                    {[2]time.Duration{30 * ms, 31 * ms}, 2},
		"each by the copy of the other":   {[2]time.Duration{15 * ms, 5 * ms}, 0},
		"one just as the commit was read": {[2]time.Duration{10 * ms, 20 * ms}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			header := history.Header{Records: 1, Consumers: []history.Consumer{{Name: "n", Instances: 1}},
				Topics: []history.Topic{{Name: "in", Role: history.RoleInput, Partitions: 2}}}
			x := newGraphIndex(&header)
			g := newGraphWalk(x, newState(&header))
			for i := range int32(2) {
				ref := x.put(0, docCopy{place: place{0, i, 0}})
				at := &x.copies[0][ref.number]
				at.done, at.exits = ms, []*exit{{acked: one.acked[i], stored: true}}
			}
			for i, asked := range []time.Duration{second, first} { // in the order of the answers
				ref := copyRef{0, int32(1 - i)}
				x.copies[0][ref.number].covered = asked
				g.judgeCovered(ref)
			}
			got := int64(0)
			for _, anomaly := range g.done(Pass, "").Anomalies {
				got += anomaly.Count
			}
			if got != one.want {
				t.Errorf("commit-before-forward × %d, want %d", got, one.want)
			}
		})
	}
}
