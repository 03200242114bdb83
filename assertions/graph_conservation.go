package assertions

// graph-conservation: every acknowledged document leaves the graph or lies in exactly one node's dead-letter topic (or
// quarantine), and takes the path that its id determines.
//
// The invariant is judged for each copy of a document in a node's input, and so for the whole path, because the output
// of one node is the input of the next. A copy has one exit. More are justified by a disruption of the copy (its
// instance was killed, lost the partition, its commit failed …, as for duplicates), and by a write that its instance
// had reason to repeat. A copy that a disruption or a replay made is a copy like any other, with one exit of its own. A
// replayed dead letter is an exit of the copy for which it was written, and the replayed copy has another.
//
// A document has several copies at a node only after a disruption or a replay. The copy that a write was for is then
// the one that the writing instance attempted last. Where that is not certain, the document's writes at the node are
// counted together with all its copies there.

import (
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

func graphConservationInvariant() Invariant {
	return Invariant{
		Name: graphConservation,
		Promise: "Every acknowledged document leaves the graph or lies in exactly one node's dead-letter topic or " +
			"quarantine, and takes the path that its id determines.",
		Rule: "Each copy of a document in a node's input has one exit: it is forwarded along the edge that its id " +
			"selects, dead-lettered to the node's own topic, or quarantined there once it was replayed as often as the " +
			"graph allows. Disruptions justify further exits, as they justify duplicates, and so do writes that had to " +
			"be repeated; a copy made by a disruption or a replay has an exit of its own. The commit that covers a " +
			"processed copy comes after its exit was acknowledged. A selected dead letter is written once, to the input " +
			"of its own node.",
		Evidence: "the writes and commits of the nodes' instances, the modules' answers, the replay tool's writes, " +
			"and audits of all topics and committed offsets",
		Cause: "The write to the next topic is not awaited before the commit. A failed document is both forwarded " +
			"and dead-lettered. Topic names are built from the wrong node. The edge is selected by something that " +
			"changes between two attempts.",
		Anomalies: graphConservationAnomalies(),
		of:        copiesOfDocuments,
		needs: []precondition{{
			func(*state) bool { return false }, Inapplicable, "the subject is not a graph of nodes",
		}},
	}
}

func graphConservationAnomalies() []AnomalyNote {
	return []AnomalyNote{
		{"lost-in-graph", "a node committed past the document, and it is neither in the next topic nor " +
			"dead-lettered", []string{
			"2.000 s  node parse: the module answers, success",
			"2.010 s  node parse commits past the document",
			"2.030 s  the write into the next input is acknowledged",
		}},
		{"commit-before-forward", "the commit came before the next topic acknowledged the document", []string{
			"1.000 s  node parse writes record 3 to its next topic",
			"1.001 s  it commits past record 3",
			"1.050 s  the write is accepted",
		}},
		{"dual-exit", "one copy was forwarded and dead-lettered", []string{
			"1.000 s  node parse passes record 3 on",
			"1.010 s  it writes record 3 to its dead-letter topic",
		}},
		{"forwarded-twice", "one copy was forwarded more often than disruptions explain", []string{
			"1.000 s  node parse passes record 3 on",
			"1.200 s  it passes record 3 on again; nothing happened in between",
		}},
		{"forwarded-unprocessed", "the document was forwarded before the module had processed it", []string{
			"1.000 s  node parse passes record 3 on",
			"1.010 s  the module of parse is called with record 3",
		}},
		{"skipped-node", "the document was written to a topic that its edge does not lead to", []string{
			"the edge leads from parse to chunk",
			"1.000 s  node parse writes record 3 to the topic of embed",
		}},
		{"wrong-node-dlq", "the document was dead-lettered to another node's topic", []string{
			"1.000 s  node parse writes record 3 to the dead-letter topic of chunk",
		}},
		{"quarantine-missed", "the document was dead-lettered although it had been replayed as often as allowed", []string{
			"2 replays are allowed",
			"9.000 s  record 3 fails after its second replay",
			"9.010 s  node parse writes it to its dead-letter topic",
		}},
		{"quarantined-early", "the document was quarantined although a replay was still allowed", []string{
			"2 replays are allowed",
			"9.000 s  record 3 fails after its first replay",
			"9.010 s  node parse quarantines it",
		}},
		{"replayed-to-wrong-node", "a dead letter was replayed to another node's input", []string{
			"12.000 s  a dead letter of node parse is selected",
			"12.500 s  it is written to the input of chunk",
		}},
		{"replay-missing", "a selected dead letter was not replayed", []string{
			"12.000 s  a dead letter of node parse is selected",
			"19.000 s  the replay is over; it was not written back",
		}},
		{"replayed-twice", "a selected dead letter was replayed more than once", []string{
			"12.000 s  a dead letter of node parse is selected",
			"12.500 s  it is written back",
			"12.600 s  it is written back again",
		}},
	}
}

const (
	graphConservation = "graph-conservation"
	copiesOfDocuments = "copies of documents"
)

func (g *graphWalk) name(node int) string { return g.header.Consumers[node].Name }

// sight returns a sighting of a copy.
func (g *graphWalk) sight(ref copyRef, to time.Duration, say func() string, marks ...moment) sighting {
	one := &g.copies[ref.node][ref.number]
	return sighting{
		record: one.document, topic: one.topic, partition: one.partition, offset: one.offset, from: one.sent, to: to,
		say: say, marks: marks,
	}
}

// judgeTarget reports a write to a topic other than the one that the document's id and past determine.
func (g *graphWalk) judgeTarget(ref copyRef, e *history.Event, letter bool) {
	node, document := &g.header.Consumers[ref.node], e.Record
	say := func(anomaly, what string) {
		g.saw(anomaly, g.sight(ref, e.Time, func() string { return what }, moment{e.Kind, e.Time}))
	}
	to := g.w.topicName(e.Topic)
	switch {
	case letter && e.Topic != node.DLQ && e.Topic != node.Quarantine:
		say("wrong-node-dlq", fmt.Sprintf("it failed at node %s, and its dead letter went to %s", node.Name, to))
	case letter:
		g.judgeQuarantine(ref, e)
	case e.Topic != g.header.Next(ref.node, g.ids.Token(document)):
		say("skipped-node", fmt.Sprintf("from node %s it goes on to %s, and it was written to %s", node.Name,
			g.w.topicName(g.header.Next(ref.node, g.ids.Token(document))), to))
	}
	if !letter && !g.processed(ref.node, document) {
		say("forwarded-unprocessed", fmt.Sprintf("node %s passed it on to %s before its module had processed it",
			node.Name, to))
	}
}

// processed reports whether the document's step at the node is done by now.
func (g *graphWalk) processed(node int, document int32) bool {
	for _, number := range g.of[node][document] {
		if g.copies[node][number].done != never {
			return true
		}
	}
	return false
}

// judgeQuarantine checks that exactly those documents are quarantined that were replayed as often as the graph allows.
func (g *graphWalk) judgeQuarantine(ref copyRef, e *history.Event) {
	node, most := &g.header.Consumers[ref.node], g.header.Graph.MaxReprocess
	times := g.replayedBefore(ref, e.Time)
	switch {
	case times < 0:
		g.remark("not known how often it was replayed")
	case times >= most && e.Topic == node.DLQ:
		g.saw("quarantine-missed", g.sight(ref, e.Time, func() string {
			return fmt.Sprintf("it was replayed %d times, failed at node %s again, and was dead-lettered instead of quarantined",
				times, node.Name)
		}, moment{e.Kind, e.Time}))
	case times < most && e.Topic == node.Quarantine:
		g.saw("quarantined-early", g.sight(ref, e.Time, func() string {
			return fmt.Sprintf("it was replayed %d times, and node %s quarantined it: that is for what was replayed %d times",
				times, node.Name, most)
		}, moment{e.Kind, e.Time}))
	}
}

// judgeCovered reports a processed copy whose exit was not acknowledged before the covering commit was read. The
// acknowledgement is stamped before it is written to the instance and the commit after it was read. So for an instance
// that waited, the acknowledgement never has the later stamp. A commit may be answered after one that was read later,
// so the copies that those cover are judged again: each when its own commit was read.
func (g *graphWalk) judgeCovered(ref copyRef) {
	numbers := g.of[ref.node][g.copies[ref.node][ref.number].document]
	asked := g.copies[ref.node][ref.number].covered
	for _, number := range numbers {
		one := &g.copies[ref.node][number]
		if one.covered == never || one.covered < asked || one.done == never || one.done > one.covered {
			continue // not processed by then: commit-after-outcome and commit-after-dlq judge that
		}
		missing := g.unacknowledged(ref.node, numbers, one.covered)
		// Of another copy it was reported before if the new one is not the first that is too many.
		if missing != 1 && (missing < 1 || number != ref.number) {
			continue
		}
		at := one.covered
		g.saw("commit-before-forward", g.sight(copyRef{ref.node, number}, at, func() string {
			return fmt.Sprintf("node %s committed past it, and had no acknowledgement that the next topic has it",
				g.name(ref.node))
		}, moment{history.KindCommitRequest, at}))
	}
}

// unacknowledged returns how many more of the copies were committed past by a time than exits were acknowledged.
func (g *graphWalk) unacknowledged(node int, numbers []int32, by time.Duration) int {
	missing := 0
	for _, number := range numbers {
		one := &g.copies[node][number]
		for _, out := range one.exits {
			if out.acked != never && out.acked <= by {
				missing--
			}
		}
		if one.covered != never && one.covered <= by {
			missing++
		}
	}
	return missing
}

// conclude judges the rules that need the end of the history. disruptions returns how many more exits of a copy its
// node's history justifies.
func (g *graphWalk) conclude(disruptions func(copyRef) int) Result {
	whole := g.w.sealed && g.drained
	for node := range g.copies {
		for document := range int32(len(g.documents)) {
			numbers := g.of[node][document]
			if len(numbers) == 0 {
				continue
			}
			for _, number := range numbers {
				if one := &g.copies[node][number]; len(one.exits) > 0 || one.covered != never {
					g.result.Judged++
				}
			}
			g.judgeExits(node, numbers, disruptions)
			if whole {
				g.judgeLost(node, document, numbers)
			}
		}
	}
	if whole {
		g.judgeReplays()
	}
	return g.judgedOrNot(Inconclusive, "no document was passed on, dead-lettered or committed, so nothing was judged")
}

// judgeExits reports more exits than copies, disruptions and repeats allow.
func (g *graphWalk) judgeExits(node int, numbers []int32, disruptions func(copyRef) int) {
	stored, letters, allowed, latest := 0, 0, 0, never
	twice, both := false, false // one copy was passed on several times; it was also dead-lettered
	ref := copyRef{node, numbers[0]}
	for _, number := range numbers {
		one := &g.copies[node][number]
		if one.offset < 0 {
			continue
		}
		allowed += 1 + disruptions(copyRef{node, number})
		forwards, dead := one.passage.counts()
		twice, both, letters = twice || forwards > 1, both || forwards > 0 && dead > 0, letters+dead
		for _, out := range one.exits {
			if out.doubtful {
				allowed++
			}
			if !out.stored {
				continue
			}
			if stored++; out.at > latest {
				latest, ref.number = out.at, number
			}
		}
	}
	if stored <= allowed || stored == letters { // dlq-once judges copies of one dead letter
		return
	}
	anomaly, what := "forwarded-twice", "passed it on %d times, and %d can be explained"
	if letters > 0 && (both || !twice) {
		anomaly, what = "dual-exit", "both passed it on and dead-lettered it, %d writes in all, and %d can be explained"
	}
	g.saw(anomaly, g.sight(ref, latest, func() string {
		return fmt.Sprintf("node %s "+what, g.name(node), stored, allowed)
	},
		moment{history.KindProduceRequest, latest}))
}

// counts returns the numbers of acknowledged forwards and dead letters.
func (p *passage) counts() (forwards, letters int) {
	for _, out := range p.exits {
		switch {
		case !out.stored:
		case out.letter:
			letters++
		default:
			forwards++
		}
	}
	return forwards, letters
}

// judgeLost reports a document with too few exits: if all its copies at a node are committed past, it has as many exits
// there, whichever copy each belongs to. An acknowledged exit must exist where it was written.
func (g *graphWalk) judgeLost(node int, document int32, numbers []int32) {
	covered, exits := true, 0
	for _, number := range numbers {
		one := &g.copies[node][number]
		covered = covered && one.offset >= 0 && g.ended[placeOf{one.topic, one.partition}] > one.offset
		for _, out := range one.exits {
			if out.stored && g.audited[out.topic] && g.present[out.topic][document] == 0 {
				g.saw("lost-in-graph", g.sight(copyRef{node, number}, out.at, func() string {
					return fmt.Sprintf("node %s had the acknowledgement that it is in %s, and it is not there", g.name(node),
						g.w.topicName(out.topic))
				}, moment{history.KindProduceRequest, out.at}))
			}
			if out.stored || g.present[out.topic][document] > 0 {
				exits++
			}
		}
	}
	if !covered || exits >= len(numbers) {
		return
	}
	ref := copyRef{node, numbers[len(numbers)-1]}
	for _, number := range numbers {
		if len(g.copies[node][number].exits) == 0 {
			ref.number = number
		}
	}
	at := max(g.copies[node][ref.number].covered, 0)
	g.saw("lost-in-graph", g.sight(ref, endless, func() string {
		return fmt.Sprintf("node %s committed past it, and it is neither in the next topic nor among the node's dead letters",
			g.name(node))
	}, moment{history.KindCommitRequest, at}))
}
