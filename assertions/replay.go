package assertions

// replay-round-trip: every selected dead letter goes back once, to the right topic, in the form it had before it
// failed, and is then processed. A record that fails again makes one dead letter that is no larger than the first.

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func replayInvariant() Invariant {
	return Invariant{
		Name: "replay-round-trip",
		Promise: "A replayed dead letter is written back once, restored to the original record, and is then " +
			"processed.",
		Rule: "Every selected dead letter is written once to the topic where it belongs, with the original's key, " +
			"value and headers and without failure headers, and is then finished. If the record fails again, its second " +
			"dead letter has no more headers than the first. The number of headers is judged only if the contract's " +
			"envelope is a dialect. A contract with custom headers need not list all of them, and a replay cannot remove " +
			"headers that it does not know.",
		Evidence: "the writes of the replay tool, the audits before and after it, and the answers of the downstream " +
			"stub; a record is recognised by its id, in its value or in the workload's header, and never by the " +
			"position that its dead letter names, because some dialects name only the topic",
		Cause: "The tool starts over after an error because it stores no position. Failure headers are copied along " +
			"and accumulate. After a second failure, the source topic is read from the wrong header.",
		Scenario: "a replay of dead letters (replay-round-trip)",
		Anomalies: []AnomalyNote{
			{"replay-lost", "the dead letter was selected, but not written back, or the record was never finished " +
				"again", []string{
				"12.000 s  the dead letter of record 8 is selected",
				"19.000 s  the replay is over; nothing was written back",
			}},
			{"replay-duplicated", "the record was written back more than once", []string{
				"12.000 s  the dead letter of record 8 is selected",
				"12.500 s  the replay tool writes it to the source topic",
				"12.600 s  the replay tool writes it to the source topic again",
			}},
			{"replay-altered", "the record was not written back as it was", []string{
				"12.000 s  the dead letter of record 8 is selected",
				"12.500 s  the replay tool writes it to the source topic",
				"19.000 s  the audit finds it there: it still has the header x-error-reason",
			}},
			{"replay-wrong-topic", "the record was written back to another topic", []string{
				"12.000 s  the dead letter of record 8 is selected; it names the topic orders",
				"12.500 s  the replay tool writes it to orders.retry",
			}},
			{"envelope-grew", "a second dead letter carries more headers than the first", []string{
				"5.000 s  the dead letter of record 8 has 8 headers",
				"12.500 s  the replay tool writes it back, and it fails again",
				"19.000 s  its second dead letter has 14 headers",
			}},
			{"selected-wrong", "a record was written back although it was not selected", []string{
				"12.000 s  the filter selects records whose reason is transient",
				"12.500 s  the replay tool writes record 9 back, whose reason is permanent",
			}},
		},
		of: "selected dead letters",
		needs: []precondition{{
			func(w *state) bool { return w.header.Replay || w.republishes() }, Unexercised, "the scenario replays nothing",
		}},
		check:    func(r *report) checker { return &replay{report: r} },
		observes: []history.Kind{history.KindProduceRequest},
	}
}

// envelopeSlack is the number of bytes of headers by which a second dead letter may exceed the first. Numbers may have
// more digits, and the error text may differ: the first may report a broken connection and the next an answer of the
// downstream. These texts have up to 4 KiB, and may occur twice, encoded.
const envelopeSlack = 12 << 10

type replay struct {
	*report
}

// returned is the outcome of a record's selected dead letters: one, or one for each of its copies in the dead-letter
// topic.
type returned struct {
	selected     []selection
	right, wrong int // writes to the topic it must go to, and to others
	unsettled    int // writes whose outcome the tool does not know, or that were refused
	wrongTopic   int16
	last         time.Duration
}

// observe reports writes of the replay tool without an id: dead letters of another service, none of which was selected.
func (c *replay) observe(e *history.Event) {
	if e.Instance != history.Replayer || e.Record != history.None || c.w.header.Foreign == 0 {
		return
	}
	to, at := e.Topic, e.Time
	c.saw("selected-wrong", sighting{record: none, topic: to, partition: e.Partition, offset: none, from: at, to: at,
		say: func() string {
			return fmt.Sprintf("a dead letter of another service was written to %s", c.w.topicName(to))
		}})
}

func (c *replay) finish() Result {
	all := c.gather()
	for _, number := range slices.Sorted(maps.Keys(all)) {
		c.judge(number, all[number], c.w.foundOf.of(number))
	}
	c.judgeStore()
	return c.judgedOrNot(Inconclusive, "no dead letter was selected for replay")
}

// gather joins the selected dead letters with the tool's writes, and reports writes that were not selected.
func (c *replay) gather() map[int32]*returned {
	all := map[int32]*returned{}
	for _, one := range c.w.selected {
		if all[one.number] == nil {
			all[one.number] = &returned{wrongTopic: none}
		}
		all[one.number].selected = append(all[one.number].selected, one)
	}
	for i := range c.w.replays {
		one := &c.w.replays[i]
		back := all[one.number]
		if one.byStore {
			continue // judged per entry
		}
		if back == nil {
			c.saw("selected-wrong", c.w.about(one.number, 0, endless, func() string {
				return "replayed although it was not selected"
			}, moment{history.KindProduceRequest, one.at}))
			continue
		}
		back.last = one.at
		if !one.settled || one.refused {
			back.unsettled++
		}
		if one.topic == c.target(one.number, back, c.w.foundOf.of(one.number)) {
			back.right++
		} else {
			back.wrong++
			back.wrongTopic = one.topic
		}
	}
	return all
}

// target returns the topic that the dead letter must go to.
func (c *replay) target(number int32, back *returned, letters []*letter) int16 {
	if to := c.w.header.Consumers[0].ReplayTo; to != "" {
		return c.w.header.TopicIndex(to)
	}
	for _, one := range letters {
		if one.place == back.selected[0].place && one.claim != nil && one.claim.Topic >= 0 {
			return one.claim.Topic
		}
	}
	return c.w.record(number).topic
}

func (c *replay) judge(number int32, back *returned, letters []*letter) {
	c.result.Judged += int64(len(back.selected))
	r := c.w.record(number)
	if back.wrong > 0 {
		c.saw("replay-wrong-topic", c.w.about(number, 0, endless, func() string {
			return fmt.Sprintf("replayed to %s", c.w.topicName(back.wrongTopic))
		}, moment{history.KindProduceRequest, back.last}))
		return
	}
	target := c.target(number, back, letters)
	copies, audited := c.copiesIn(number, target)
	switch wanted := len(back.selected); {
	case back.right < wanted && !c.w.sealed:
		// The tool was ended by the user or killed, and might have written it next.
		c.result.Judged -= int64(wanted)
		c.skip("the run ended before the replay")
		return
	case back.right < wanted:
		c.saw("replay-lost", c.w.about(number, 0, endless, func() string {
			return fmt.Sprintf("%d dead letters were selected, %d written back", wanted, back.right)
		}).missingSince(c.w.replayedAt(), MissingReplayed))
		return
	case !audited:
		c.withdraw("no audit of the topic")
		return
	case len(copies) < wanted && back.unsettled > 0 && !r.has(markAcked):
		// Of a write whose position is unknown, and an original of the same kind, the audit found one: the original, if
		// that still exists.
		c.withdraw("neither the original nor what was written back was acknowledged")
		return
	case len(copies) < wanted:
		c.saw("replay-lost", c.w.about(number, 0, endless, func() string {
			return fmt.Sprintf("written back to %s %d times, but the audit found %d copies there", c.w.topicName(target),
				back.right, len(copies))
		}, moment{history.KindProduceRequest, back.last}))
		return
	case len(copies) > wanted+back.unsettled && c.unplaced(number, target):
		c.withdraw("retry copies of unknown position")
		return
	case len(copies) > wanted+back.unsettled:
		c.saw("replay-duplicated", c.w.about(number, 0, endless, func() string {
			return fmt.Sprintf("%s selected, and there are %d copies in %s",
				units.Plural(int64(wanted), "dead letter was", "dead letters were"), len(copies),
				c.w.topicName(target))
		}, moment{history.KindProduceRequest, back.last}))
	}
	for i := range copies {
		c.judgeCopy(number, r, &copies[i])
	}
	c.judgeEnd(number, r, back, letters)
}

// replayedAt is when the replay was over, or never if there was none or its end was not observed.
func (w *state) replayedAt() time.Duration {
	_, to := w.phase(history.PhaseReplay)
	return to
}

// unplaced reports whether some of the record's copies in the topic may be the subject's own, at positions that no
// answer reported.
func (c *replay) unplaced(number int32, topic int16) bool {
	known := c.w.copies[number]
	return c.w.takesRetries(topic) && known != nil && known.unplaced > 0
}

// copiesIn returns the copies that the last audit of the topic found, other than the original and the retry copies that
// the subject wrote.
func (c *replay) copiesIn(number int32, topic int16) ([]auditedCopy, bool) {
	if topic < 0 || int(topic) >= len(c.w.audits) || c.w.audits[topic] == 0 {
		return nil, false
	}
	for i := range c.w.parts[topic] {
		if !c.w.parts[topic][i].audited {
			return nil, false
		}
	}
	var found []auditedCopy
	if known := c.w.copies[number]; known != nil {
		for _, one := range known.audited {
			if one.topic == topic && !known.bySubject(one.place) {
				found = append(found, one)
			}
		}
	}
	return found, true
}

func (c *replay) judgeCopy(number int32, r *record, one *auditedCopy) {
	what := ""
	switch {
	case !c.w.contract.ChangesValue && hash(one.valueHash) != r.valueHash:
		what = "its value differs from the original's"
	case !c.w.contract.ChangesKey && hash(one.keyHash) != r.keyHash:
		what = "its key differs from the original's"
	case one.failures:
		what = "it still carries the headers of its dead letter"
	case c.w.contract.KeepsHeaders && hash(one.headersHash) != r.headersHash:
		what = "the original's headers are not all back as they were"
	default:
		return
	}
	c.saw("replay-altered", c.w.about(number, 0, endless, func() string {
		return fmt.Sprintf("the copy at %s offset %d is not the original: %s", c.w.partitionName(one.topic, one.partition),
			one.offset, what)
	}, moment{history.KindAuditRecord, one.time}))
}

// judgeEnd checks that the copy is processed, or makes a dead letter of its own that is no larger than the first.
func (c *replay) judgeEnd(number int32, r *record, back *returned, letters []*letter) {
	if c.unended(number, r, letters) {
		c.saw("replay-lost", c.w.about(number, 0, endless, func() string { return "written back, but never finished again" },
			moment{history.KindProduceRequest, back.last}))
	}
	var first *letter
	for _, one := range letters {
		if one.place == back.selected[0].place {
			first = one
		}
	}
	if first == nil {
		return
	}
	if !c.w.contract.NamesAllHeaders() {
		c.remark("growth: the contract does not name all headers of dead letters")
		return
	}
	for _, one := range c.w.fresh(letters) {
		if one.headerCount > first.headerCount || one.headerBytes > first.headerBytes+envelopeSlack {
			c.saw("envelope-grew", c.w.about(number, 0, endless, func() string {
				return fmt.Sprintf("its first dead letter had %d headers in %d bytes, the next one has %d in %d",
					first.headerCount, first.headerBytes, one.headerCount, one.headerBytes)
			}, moment{history.KindAuditRecord, one.at}))
			return
		}
	}
}

// unended reports whether the record that was written back has no outcome and can no longer get one.
func (c *replay) unended(number int32, r *record, letters []*letter) bool {
	at := c.w.position(number, r)
	return c.w.unfinished(number, r, at, letters) && c.w.forsaken(at) && !c.w.contract.WireOnly &&
		c.w.unknowable(number, r, r.attempts, endless) == "" && !c.w.perhapsOver(number, r, endless)
}

// fresh returns the dead letters that the audit before the replay did not find.
func (w *state) fresh(letters []*letter) []*letter {
	if w.earlier == nil {
		w.earlier = map[place]bool{}
		for i := range w.found {
			if one := &w.found[i]; one.audit < w.audits[one.topic] {
				w.earlier[one.place] = true
			}
		}
	}
	var fresh []*letter
	for _, one := range letters {
		if !w.earlier[one.place] {
			fresh = append(fresh, one)
		}
	}
	return fresh
}

// unfinished reports whether nothing ended the record's obligation at its current position. A dead letter that the
// audit found ends it although its acknowledgement was lost; after a replay, only a dead letter that was not there
// before does.
func (w *state) unfinished(number int32, r *record, at place, letters []*letter) bool {
	if r.lives > 0 {
		letters = w.fresh(letters)
	}
	return len(letters) == 0 && !w.skipped(r) && !w.done(number, r, at, endless)
}

// forsaken reports whether the record at the place can no longer be finished: the place is committed, and every
// instance has ended or the subject had all its time. Where the subject has halted, what it did not commit is held.
func (w *state) forsaken(at place) bool {
	p := w.partition(at.topic, at.partition)
	if p == nil || !p.audited || !p.committedAt(at.offset) && w.held(p, at.offset) {
		return false
	}
	return w.standsStill() || p.committedAt(at.offset) && w.allExited(p.auditedAt)
}
