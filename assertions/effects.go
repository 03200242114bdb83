package assertions

// effects: the sink fits the outcomes. The harness reads the sink at the end, whatever it is, and records how many
// effects each record has there (history.KindEffect). This checker does not know where they came from.
//
// A repeat is justified by what justifies another delivery or success of the record, and by a request whose answer the
// subject may not have received, because it may have been carried out: a write to an output topic, or an attempt.

import (
	"cmp"
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func effectsInvariant() Invariant {
	return Invariant{
		Name:    "effects",
		Promise: "The sink has the effect of each record that succeeded, as often and as whole as the contract says.",
		Rule: "At the end, a record whose last attempt succeeded, that is committed, and that has no dead letter has an " +
			"effect in the sink. It has one, plus one for each disruption, replay, further success or copy that the " +
			"workload produced, and one for each write, attempt or call whose answer may have been lost; with repeats: " +
			"produced, only the copies that the workload or a replay produced count; with repeats: never, it has at most " +
			"one whatever happened. " +
			"With atomic: true, a record none of whose attempts succeeded has none, dead-lettered or not. Without " +
			"attempts that can be seen, a committed record without a dead letter counts as one that succeeded.",
		Evidence: "the sink as it is at the end of the run (records of an output topic that are committed, rows of a " +
			"database), the answers to attempts, dead letters, commits and disruptions",
		Cause: "The result is handed to a producer and its error is never looked at. The result is written before the step " +
			"that can fail, and written again by the retry, or left behind by a record that is then dead-lettered. An " +
			"insert has no key by which a repeat is recognised, or the key has the offset or the attempt in it, so that a " +
			"record that is produced twice is not.",
		Contract: "effects",
		Anomalies: []AnomalyNote{
			{"effect-missing", "the record succeeded and was committed, and the sink has no effect of it", []string{
				"1.000 s  attempt 1 of record 7 is answered success",
				"1.010 s  instance 0 commits up to offset 8",
				"9.000 s  the output topic is read to its end, and record 7 is not there",
			}},
			{"effect-doubled", "the sink has more effects of the record than the run's events explain", []string{
				"1.000 s  instance 0 writes the result of record 7, and it is accepted",
				"1.010 s  attempt 1 of record 7 is answered transient",
				"1.200 s  instance 0 writes the result of record 7 again, and it is accepted",
				"9.000 s  the output topic has two results of record 7; nothing happened in between",
			}},
			{"effect-partial", "a record that did not succeed left an effect, against atomic: true", []string{
				"1.000 s  instance 0 writes the result of record 7, and it is accepted",
				"1.010 s  attempt 1 of record 7 is answered permanent",
				"1.020 s  the dead letter of record 7 is accepted",
				"9.000 s  the output topic has a result of record 7",
			}},
		},
		of: "records",
		needs: []precondition{{
			func(w *state) bool { return w.contract.Effects != nil }, Inapplicable,
			"the contract says nothing about the effects of records (effects)",
		}},
		check: func(r *report) checker {
			return &effects{report: r, promised: r.w.contract.Effects, asked: map[int64]sinkWrite{}}
		},
		observes: []history.Kind{history.KindEffectsRead, history.KindEffect, history.KindProduceRequest,
			history.KindProduceResponse, history.KindAttemptEnd, history.KindCallEnd},
	}
}

type effects struct {
	*report
	promised *history.Effects
	list     []effect // by record
	// read: the sink was read; otherwise why may say for what reason not.
	read bool
	why  string
	// asked holds the writes to output topics that have no answer.
	asked map[int64]sinkWrite
}

// effect is what is known of the effects of one record. The counts saturate at 255.
type effect struct {
	found uint8
	// unsure is the number of requests without a clear answer, each of which may have made an effect.
	unsure uint8
	// successes are those of the replay generation life, earlier those of the generations before.
	life, successes, earlier uint8
	at                       history.Stamp
}

type sinkWrite struct {
	record int32
	at     time.Duration
}

func (c *effects) observe(e *history.Event) {
	switch e.Kind {
	case history.KindEffectsRead:
		c.read, c.why = e.Code == 0, e.Text
		for i := range c.list {
			c.list[i].found = 0
		}
	case history.KindEffect:
		if one := c.of(e.Record); one != nil {
			one.found, one.at = uint8(min(int(one.found)+max(int(e.N), 0), 255)), history.StampOf(e.Time)
		}
	case history.KindProduceRequest:
		if e.Instance >= 0 && c.w.role(e.Topic) == history.RoleSink && c.of(e.Record) != nil {
			c.asked[e.Op] = sinkWrite{e.Record, e.Time}
		}
	case history.KindProduceResponse:
		c.answered(e)
	case history.KindAttemptEnd:
		c.attempted()
	case history.KindCallEnd:
		if e.N > 0 && e.Outcome != history.OutcomeSuccess && c.of(e.Record) != nil && !c.certain(e) {
			c.doubt(e.Record)
		}
	}
}

// of returns what is known of a record, nil if the number belongs to no record of the run.
func (c *effects) of(number int32) *effect {
	if c.w.record(number) == nil {
		return nil
	}
	for int(number) >= len(c.list) {
		c.list = append(c.list, effect{})
	}
	return &c.list[number]
}

// answered notes a write to an output topic that was refused or carried out, and whose answer was late, withheld, or an
// error after which the record may be in the topic.
func (c *effects) answered(e *history.Event) {
	one, known := c.asked[e.Op]
	if !known {
		return
	}
	delete(c.asked, e.Op)
	if e.Flags.Has(history.Withheld) || e.Time-one.at >= slowAck || e.Code != 0 && !e.Flags.Has(history.Forged) {
		c.doubt(one.record)
	}
}

func (c *effects) doubt(number int32) {
	one := c.of(number)
	one.unsure = bump(one.unsure)
}

// certain reports whether a call of another downstream that failed had no effect there: a database undoes what failed,
// a topic's writes are counted by themselves, and what a fault answers is not carried out.
func (c *effects) certain(e *history.Event) bool {
	one, known := c.w.otherDownstream(e.N)
	return known && one.Topic || !e.Flags.Has(history.ClientGone) && e.Outcome != history.OutcomeTimeout &&
		e.Outcome != history.OutcomeReset
}

// attempted notes the successes of each replay generation, and an attempt whose client did not get the answer: the
// downstream may have done its work.
func (c *effects) attempted() {
	a := c.w.attempt
	if a == nil || c.of(a.number) == nil {
		return
	}
	one, r := c.of(a.number), c.w.record(a.number)
	if one.life != r.lives {
		one.earlier = uint8(min(int(one.earlier)+int(one.successes), 255))
	}
	one.life, one.successes = r.lives, r.successes
	if a.gone || a.outcome == history.OutcomeTimeout || a.outcome == history.OutcomeReset {
		c.doubt(a.number)
	}
}

func (c *effects) finish() Result {
	if !c.read {
		return c.judgedOrNot(Inconclusive, cmp.Or(c.why, "the sink was not read"))
	}
	for _, one := range c.asked {
		c.doubt(one.record)
	}
	for _, a := range c.w.open {
		c.doubt(a.number)
	}
	for number := range int32(c.w.records.count) {
		if r := c.w.record(number); r.has(markSent) {
			c.judge(number, r)
		}
	}
	return c.judgedOrNot(Inconclusive, "no record was processed")
}

// judge judges a record that has an effect, owes one, or must not have one.
func (c *effects) judge(number int32, r *record) {
	one := effect{}
	if int(number) < len(c.list) {
		one = c.list[number]
	}
	owes := c.owes(number, r)
	if one.found > 0 || owes || c.promised.Atomic {
		c.result.Judged++
	}
	switch {
	case one.found == 0 && owes:
		c.missing(number, r)
	case one.found == 0:
	case int(one.found) > c.allowed(number, r, &one):
		c.doubled(number, r, &one)
	case c.promised.Atomic:
		c.partial(number, r, &one)
	}
}

// allowed is the largest number of effects that the record may have.
func (c *effects) allowed(number int32, r *record, one *effect) int {
	if c.promised.Once {
		return 1
	}
	earlier, lives := int(one.earlier), int(r.lives)
	if one.life != r.lives { // it has not been attempted since its last replay
		earlier += int(one.successes)
	}
	if l := c.w.letters.of(number); l != nil {
		lives += l.disturbed
	}
	if c.promised.PerCopy {
		return 1 + r.again() + lives
	}
	return max(1+c.w.disruptions(number, r), int(r.successes)) + max(lives, earlier) + int(one.unsure)
}

func (c *effects) doubled(number int32, r *record, one *effect) {
	p := c.w.home(number, r)
	repeats := !c.promised.Once && !c.promised.PerCopy // by disruptions
	if p != nil && p.unanswered < endless && repeats {
		c.withdraw("commit unanswered")
		return
	}
	if repeats && c.w.lostAnswers(number, r) {
		c.withdraw("fault on the link to another downstream")
		return
	}
	c.saw("effect-doubled", c.w.about(number, 0, endless, func() string {
		return fmt.Sprintf("%s in the sink; %s", effectCount(int64(one.found)), cmp.Or(c.once(),
			fmt.Sprintf("what happened justifies %d", c.allowed(number, r, one))))
	}, moment{history.KindEffect, one.at.At()}))
}

func (c *effects) once() string {
	switch {
	case c.promised.Once:
		return "the contract promises one, whatever happens"
	case c.promised.PerCopy:
		return "the contract promises one for each time it was produced"
	}
	return ""
}

// partial judges a record with an effect. Without attempts, only a dead letter shows that it did not succeed.
func (c *effects) partial(number int32, r *record, one *effect) {
	lettered := c.lettered(number)
	switch {
	case r.answers&setOf(history.OutcomeSuccess) != 0, r.exempt(), c.w.contract.WireOnly && (!lettered || r.lives > 0):
		return
	case one.unsure > 0:
		c.withdraw("an attempt or a write without an answer may have had its effect")
		return
	}
	fate := "no attempt of it succeeded"
	if lettered {
		fate = "it was dead-lettered"
	}
	c.saw("effect-partial", c.w.about(number, 0, endless, func() string {
		return fmt.Sprintf("%s, and yet the sink has an effect of it", fate)
	}, moment{history.KindEffect, one.at.At()}))
}

func (c *effects) lettered(number int32) bool {
	return c.w.letters.of(number) != nil || len(c.w.foundOf.of(number)) > 0
}

// owes reports whether the record must have an effect: its last attempt succeeded, or no attempt can be seen, and no
// dead letter of it was written since it was sent or replayed.
func (c *effects) owes(number int32, r *record) bool {
	switch {
	case r.exempt(), r.offset.at() < 0, c.w.endedElsewhere(number), c.w.letterAsked(r) >= 0,
		r.lives == 0 && c.lettered(number):
		return false
	case c.w.contract.WireOnly:
		return r.lives == 0
	}
	return r.has(markEnded) && !r.has(markGone) && c.w.classes[r.outcome] == classSuccess
}

// missing judges a record that owes an effect and has none.
func (c *effects) missing(number int32, r *record) {
	at := c.w.position(number, r)
	p := c.w.partition(at.topic, at.partition)
	switch {
	case p == nil || !p.audited || !c.w.over(p, at.offset):
		c.withdraw("not committed")
		return
	case c.w.forfeited(number, r):
		c.withdraw("commits follow time, by contract")
		return
	}
	if why, hidden := c.hidden(number, r); hidden {
		c.withdraw(why)
		return
	}
	s := c.w.about(number, 0, endless, func() string { return "committed, and yet the sink has no effect of it" })
	if !c.w.contract.WireOnly {
		s.say = func() string { return "succeeded and was committed, and yet the sink has no effect of it" }
		s.marks = []moment{{history.KindAttemptEnd, r.lastEnd.At()}}
	}
	c.saw("effect-missing", s.missingSince(p.auditedAt, MissingAudited))
}

// hidden reports whether the subject may not have received the answer to the record's last attempt or, without a
// dead-letter topic, may have given it up because of another downstream.
func (c *effects) hidden(number int32, r *record) (why string, hidden bool) {
	if c.w.contract.WireOnly {
		return "", false
	}
	if len(c.w.header.Downstreams) > 1 && !c.w.contract.HasDLQ() {
		if why, hidden = c.w.answersHidden(number, r.held.instance, r.born.At(), endless); hidden {
			return why, true
		}
	}
	if c.w.missed(r.lastStart.At(), r.lastEnd.At()) {
		return "answered when the client may have given up", true
	}
	if c.w.faulted(onDownstreamLink, r.lastStart.At(), r.lastEnd.At()) {
		return "fault on the link to the downstream", true
	}
	return "", false
}

// effectWords describes the effects of a record, for its trace.
func effectWords(e *history.Event, where string) string {
	if e.Topic < 0 {
		where = cmp.Or(e.Text, "the sink")
	}
	return fmt.Sprintf("%s of it in %s", effectCount(int64(e.N)), where)
}

func effectCount(n int64) string { return units.Plural(n, "effect", "effects") }
