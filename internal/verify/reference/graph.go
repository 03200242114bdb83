package reference

// This file judges graphs of nodes. It decides documents that nothing disturbed: every produce was answered without
// error, every partition on their way belonged to one process throughout, and only one copy existed at a time. For
// those, the rule leaves nothing open.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const conservation = "graph-conservation"

// spot is a position in a topic.
type spot struct {
	topic     int16
	partition int32
	offset    int64
}

// docCopy is a copy of a document in a node's input.
type docCopy struct {
	spot
	node int
	made time.Duration
	// replays is the number of times the document had been replayed when the copy was made.
	replays  int
	attempts []tried
	exits    []written
	commits  []commit
}

// document holds everything known about a document: its copies in the order of creation, its dead letters by position,
// and the replay.
type document struct {
	*record
	copies   []*docCopy
	letters  map[spot]*docCopy
	places   map[spot]bool
	selected []*history.Event
	replayed []written
}

// graph judges the documents as far as possible.
func (j *judge) graph() {
	troubled := slices.ContainsFunc(j.events, func(e history.Event) bool {
		return e.Kind == history.KindStall || e.Kind == history.KindInstanceSignal && e.Text == "STOP"
	})
	if troubled || len(j.header.Faults) > 0 || !j.wholeTime() {
		return
	}
	for number := range int32(j.header.Records) {
		d := j.document(number)
		if d == nil {
			continue
		}
		j.decide(OfRecord(conservation, number))
		for i, c := range d.copies {
			j.judged(conservation)
			j.conserved(d, c)
			if slices.ContainsFunc(d.copies[:i], func(o *docCopy) bool { return o.node == c.node }) {
				// The time alone does not prove which of two copies a produce was for.
				for _, anomaly := range []string{"forwarded-twice", "dual-exit", "forwarded-unprocessed", "commit-before-forward"} {
					j.open(conservation, anomaly, d.record)
				}
			}
		}
		j.conservedAt(d)
		j.putBack(d)
	}
}

// document gathers a document, or returns nil if the events are ambiguous.
func (j *judge) document(number int32) *document {
	r := j.place(number)
	if r == nil || !j.unique(number) || r.topic != j.header.Consumers[0].Input {
		return nil
	}
	d := &document{record: r, letters: map[spot]*docCopy{}, places: map[spot]bool{}}
	if !j.addCopy(d, spot{r.topic, r.partition, r.offset}, r.send.Time, 0) {
		return nil
	}
	for i := range j.events {
		e := &j.events[i]
		if e.Record != number {
			continue
		}
		told := true
		switch e.Kind {
		case history.KindReplaySelected:
			d.selected = append(d.selected, e)
		case history.KindProduceRequest:
			told = j.addWrite(d, e)
		case history.KindProduceResponse:
			told = j.begun(e, history.KindProduceRequest)
		case history.KindAttemptStart:
			told = j.addCall(d, e)
		case history.KindAttemptEnd:
			told = j.begun(e, history.KindAttemptStart)
		}
		if !told {
			return nil
		}
	}
	if !j.allFound(d) {
		return nil
	}
	return d
}

// addCopy adds a copy if one process owned the partition throughout and each of its commits was accepted without error.
func (j *judge) addCopy(d *document, at spot, made time.Duration, replays int) bool {
	probe := &record{number: history.None, topic: at.topic, partition: at.partition}
	node := j.header.ReaderOf(at.topic)
	if node < 0 || at.offset < 0 || d.places[at] || !j.steady(probe) {
		return false
	}
	d.places[at] = true
	d.copies = append(d.copies, &docCopy{spot: at, node: node, made: made, replays: replays, commits: probe.commits})
	return true
}

// latest is the most recent copy at the node.
func (d *document) latest(node int) *docCopy {
	for _, c := range slices.Backward(d.copies) {
		if c.node == node {
			return c
		}
	}
	return nil
}

func (j *judge) addCall(d *document, ask *history.Event) bool {
	end := j.answer(ask, history.KindAttemptEnd)
	c := d.latest(j.header.ConsumerOf(ask.Instance))
	if end == nil || c == nil || end.Record != ask.Record ||
		c.spot != (spot{ask.Topic, ask.Partition, ask.Offset}) || !j.theirs(ask, c) {
		return false
	}
	gone := end.Flags.Has(history.ClientGone)
	if gone && end.Outcome != history.OutcomeTimeout {
		return false
	}
	c.attempts = append(c.attempts, tried{start: ask.Time, end: end.Time, outcome: end.Outcome, gone: gone})
	return true
}

// theirs reports whether the event is from the process that owns the copy's partition.
func (j *judge) theirs(e *history.Event, c *docCopy) bool {
	return slices.ContainsFunc(j.events, func(given history.Event) bool {
		return given.Kind == history.KindAssigned && given.Topic == c.topic &&
			given.Partition == c.partition && same(e, &given)
	})
}

func (j *judge) addWrite(d *document, ask *history.Event) bool {
	answer := j.answer(ask, history.KindProduceResponse)
	if answer == nil || !accepted(answer) || answer.Record != ask.Record || answer.Topic != ask.Topic ||
		answer.Time-ask.Time >= time.Second {
		return false
	}
	one, at := written{ask.Time, answer.Time, ask}, spot{ask.Topic, ask.Partition, answer.Offset}
	if d.places[at] {
		return false
	}
	if ask.Instance == history.Replayer {
		d.replayed = append(d.replayed, one)
		if len(d.selected) == 0 {
			return false
		}
		letter := d.selected[len(d.selected)-1]
		of := d.letters[spot{letter.Topic, letter.Partition, letter.Offset}]
		return of != nil && j.addCopy(d, at, ask.Time, of.replays+1)
	}
	c := d.latest(j.header.ConsumerOf(ask.Instance))
	if c == nil || !j.theirs(ask, c) {
		return false
	}
	c.exits = append(c.exits, one)
	if j.isDeadLetter(ask.Topic) {
		d.letters[at], d.places[at] = c, true
		return true
	}
	if j.header.ReaderOf(ask.Topic) >= 0 {
		// If two copies are at the node at once, the event does not say which one it concerns.
		next := d.latest(j.header.ReaderOf(ask.Topic))
		return (next == nil || len(next.exits) > 0) && j.addCopy(d, at, ask.Time, c.replays)
	}
	d.places[at] = true
	return true
}

func (j *judge) isDeadLetter(topic int16) bool {
	return j.role(topic) == history.RoleDLQ || j.role(topic) == history.RoleQuarantine
}

// allFound reports whether the audits found the document only at its known positions, and no event claims that another
// document is at one of them.
func (j *judge) allFound(d *document) bool {
	return !slices.ContainsFunc(j.events, func(e history.Event) bool {
		here := d.places[spot{e.Topic, e.Partition, e.Offset}]
		switch e.Kind {
		case history.KindAuditRecord:
			return here != (e.Record == d.number)
		case history.KindAcked, history.KindProduceResponse:
			return here && e.Record != d.number
		}
		return false
	})
}

// conserved implements "each copy of a document in a node's input has one exit".
func (j *judge) conserved(d *document, c *docCopy) {
	saw := func(anomaly string) { j.saw(conservation, anomaly, d.record) }
	forwards, letters := 0, 0
	for i := range c.exits {
		if j.isDeadLetter(c.exits[i].ask.Topic) {
			letters++
			j.dead(d, c, &c.exits[i])
			continue
		}
		forwards++
		j.passedOn(d, c, &c.exits[i])
	}
	if forwards > 1 {
		saw("forwarded-twice")
	}
	if forwards > 0 && letters > 0 {
		saw("dual-exit")
	}
	j.inTime(d, c)
}

// conservedAt checks that what a node committed past is "in the next topic" or "dead-lettered", for each copy
// separately, and that every acknowledged record exists.
func (j *judge) conservedAt(d *document) {
	for node := range j.header.Consumers {
		copies, exits, past := 0, 0, true
		for _, c := range d.copies {
			if c.node != node {
				continue
			}
			copies, exits, past = copies+1, exits+len(c.exits), past && j.committedPast(c)
			for i := range c.exits {
				if topic := c.exits[i].ask.Topic; j.audits(topic) > 0 && !j.inLast(d, topic) {
					j.saw(conservation, "lost-in-graph", d.record)
				}
			}
		}
		if copies > exits && past {
			j.saw(conservation, "lost-in-graph", d.record)
		}
	}
}

// inLast reports whether the last audit of the topic found the document.
func (j *judge) inLast(d *document, topic int16) bool {
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		return e.Kind == history.KindAuditRecord && e.Record == d.number && e.Topic == topic && j.audit(&e) == j.audits(topic)
	})
}

// inTime implements "the commit that covers a processed copy comes after its exit was acknowledged".
func (j *judge) inTime(d *document, c *docCopy) {
	for _, commit := range c.commits {
		out := slices.ContainsFunc(c.exits, func(one written) bool { return one.acked <= commit.asked })
		if commit.offset > c.offset && !out && j.processed(c, commit.asked) {
			j.saw(conservation, "commit-before-forward", d.record)
		}
	}
}

// processed reports whether the module had answered by then with a success or a refusal of its own.
func (j *judge) processed(c *docCopy, by time.Duration) bool {
	return slices.ContainsFunc(c.attempts, func(a tried) bool {
		done := a.outcome == history.OutcomeSuccess || j.is(j.header.Consumers[c.node].Contract.Logical, a.outcome)
		return done && !a.gone && a.end <= by
	})
}

// passedOn implements "by the one edge that its id chooses", and not "before the module had processed it".
func (j *judge) passedOn(d *document, c *docCopy, exit *written) {
	if exit.ask.Topic != j.header.Next(c.node, j.header.IDs().Token(d.number)) {
		j.saw(conservation, "skipped-node", d.record)
	}
	if !j.processed(c, exit.asked) {
		j.saw(conservation, "forwarded-unprocessed", d.record)
	}
}

// dead implements "dead-lettered to the node's own topic, or quarantined there once it was replayed as often as the
// graph allows".
func (j *judge) dead(d *document, c *docCopy, exit *written) {
	node := &j.header.Consumers[c.node]
	switch spent := c.replays >= j.header.Graph.MaxReprocess; {
	case exit.ask.Topic != node.DLQ && exit.ask.Topic != node.Quarantine:
		j.saw(conservation, "wrong-node-dlq", d.record)
	case exit.ask.Topic == node.DLQ && spent:
		j.saw(conservation, "quarantine-missed", d.record)
	case exit.ask.Topic == node.Quarantine && !spent:
		j.saw(conservation, "quarantined-early", d.record)
	}
}

func (j *judge) committedPast(c *docCopy) bool {
	return slices.ContainsFunc(c.commits, func(one commit) bool { return one.offset > c.offset })
}

// putBack implements "a selected dead letter is written once, to the input of its own node".
func (j *judge) putBack(d *document) {
	for i, letter := range d.selected {
		until := forever
		if i+1 < len(d.selected) {
			until = d.selected[i+1].Time
		}
		times := 0
		for k := range d.replayed {
			one := &d.replayed[k]
			if one.asked < letter.Time || one.asked >= until {
				continue
			}
			times++
			if c := d.letters[spot{letter.Topic, letter.Partition, letter.Offset}]; c != nil && one.ask.Topic != c.topic {
				j.saw(conservation, "replayed-to-wrong-node", d.record)
			}
		}
		switch {
		case times == 0:
			j.saw(conservation, "replay-missing", d.record)
		case times > 1:
			j.saw(conservation, "replayed-twice", d.record)
		}
	}
}
