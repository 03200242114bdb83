package assertions

// dlq-fidelity: a dead letter carries the record's own key and value, its headers where that is promised, and every
// field of its dialect. The fields are true: the place, the number of attempts, the reason, the times, the epoch. Each
// field occurs once.

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func fidelityInvariant() Invariant {
	return Invariant{
		Name:    "dlq-fidelity",
		Promise: "A dead letter contains the original record unchanged and states correctly where it came from.",
		Rule: "Key and value are byte-equal (or as the dialect re-encodes them), and original headers are kept where " +
			"promised. Every field of the dialect is present, decodable and true: source topic, partition and offset, " +
			"and number of attempts, as far as the dialect can hold them. A reason that quotes an answer quotes the " +
			"last one. Times lie in the run, give or take a minute for clocks. The epoch is one that the partition had. " +
			"The envelope is present once. Transaction markers, which clients hide from their users, have no dead letters.",
		Evidence: "the audit's dead letters, compared with the records that the workload sent and with the positions " +
			"at which they were acknowledged",
		Cause: "The payload is decoded and encoded again. Headers are rebuilt and unknown ones dropped. The offset " +
			"is the consumer's position, which is already one further. Text outside ASCII breaks a header.",
		Contract: "dlq: {enabled: true}, with keeps_value: true (or keeps_key, keeps_headers), an envelope, or " +
			"partition: same",
		Scenario: "records that fail for good (smoke)",
		Anomalies: []AnomalyNote{
			{"payload-changed", "the value is not the record's", []string{
				"1.000 s  record 5 acknowledged at input-2 offset 31",
				"9.000 s  the audit finds its dead letter: its value had 256 bytes and has 258; byte 1 was 0x22 and is 0x20",
			}},
			{"key-changed", "the key is not the record's", []string{
				"1.000 s  record 5 acknowledged at input-2 offset 31",
				"9.000 s  the audit finds its dead letter: its key had 13 bytes and has 19; byte 10 was 0xff and is 0xef",
			}},
			{"headers-lost", "original headers are missing or changed", []string{
				"1.000 s  record 5 acknowledged at input-2 offset 31",
				"9.000 s  the audit finds its dead letter: header \"x-twice\": 2 with this name before, 1 now; header " +
					"\"x-null\": it was null and has 0 bytes",
			}},
			{"metadata-missing", "a field of the dialect is missing or cannot be decoded", []string{
				"1.000 s  record 5 acknowledged at input-2 offset 31",
				"9.000 s  the audit finds its dead letter, in the dialect plain: it lacks x-retry-attempt",
			}},
			{"metadata-wrong", "a field of the dialect is not true", []string{
				"1.000 s  record 5 acknowledged at input-2 offset 31",
				"9.000 s  the audit finds its dead letter: source offset 30",
			}},
			{"marker-dead-lettered", "a transaction marker was dead-lettered as if it were a record", []string{
				"2.050 s  a transaction commits on input-2, and its marker takes offset 46",
				"9.000 s  the audit finds a dead letter with the key and the value of a marker",
			}},
		},
		of:    "dead letters",
		needs: []precondition{hasDLQ()},
		// A marker is dead-lettered or not, whatever is promised of records.
		mostNeeds: &precondition{keepsSomething, Unpromised,
			"the contract promises nothing of what a dead letter contains, nor of its partition"},
		check: func(r *report) checker { return &fidelity{r} },
	}
}

// keepsSomething reports whether the contract promises something of a dead letter that its record tells.
func keepsSomething(w *state) bool {
	c := w.contract
	return !c.ChangesKey || !c.ChangesValue || c.KeepsHeaders || c.Envelope != "" || c.SamePartition
}

type fidelity struct {
	*report
}

func (c *fidelity) finish() Result {
	type found struct {
		place
		number int32
	}
	first := map[found]time.Duration{}
	for i := range c.w.found {
		one := &c.w.found[i]
		if this := (found{one.place, one.number}); first[this] == 0 {
			first[this] = one.at
		}
	}
	// Backwards: if several audits found the same dead letter, the last one counts. It was wrong since the first.
	for i := len(c.w.found) - 1; i >= 0; i-- {
		one := &c.w.found[i]
		this := found{one.place, one.number}
		since, open := first[this]
		if !open || one.repeated {
			continue
		}
		delete(first, this)
		switch {
		case one.number == none && one.marker:
			c.result.Judged++
			c.sawMarker(one, since)
			continue
		case one.number == none:
			c.skip("no id and no position that would tell whose it is")
			continue
		}
		c.result.Judged++
		c.judge(one, since)
	}
	if c.result.Judged == 0 && len(c.w.letters.values) > 0 {
		return c.done(Inconclusive, "dead letters were written, but no audit read them")
	}
	if c.result.Judged == 0 && c.w.planned(history.OutcomeExhausted, history.OutcomePermanent) {
		return c.done(Inconclusive, "the plan has records that must be dead-lettered, but none was found")
	}
	return c.judgedOrNot(NotApplicable, c.w.noLetters())
}

// sawMarker notes the dead letter of a transaction marker.
func (c *fidelity) sawMarker(one *letter, since time.Duration) {
	c.saw("marker-dead-lettered", sighting{
		record: none, topic: one.topic, partition: one.partition, offset: one.offset, from: since, to: since,
		say: func() string {
			return fmt.Sprintf("dead letter at %s offset %d: it has no record's key and value, but those of a transaction "+
				"marker, which only takes an offset", c.w.partitionName(one.topic, one.partition), one.offset)
		},
		marks: []moment{{history.KindAuditRecord, since}},
	})
}

// judge judges a dead letter that an audit found first at the time since.
func (c *fidelity) judge(one *letter, since time.Duration) {
	r := c.w.record(one.number)
	contract := c.w.contract
	say := func(anomaly, format string, args ...any) {
		c.saw(anomaly, c.w.about(one.number, 0, endless, func() string {
			return fmt.Sprintf("dead letter at %s offset %d: ", c.w.partitionName(one.topic, one.partition),
				one.offset) + fmt.Sprintf(format, args...)
		}, moment{history.KindAuditRecord, since}))
	}
	more := one.claim.Beside()
	if r.has(markSent) {
		if !contract.ChangesValue && hash(one.valueHash) != r.valueHash {
			say("payload-changed", "its value differs from the record's%s", detail(more.Value))
		}
		if !contract.ChangesKey && hash(one.keyHash) != r.keyHash {
			say("key-changed", "its key differs from the record's%s", detail(more.Key))
		}
	}
	if contract.KeepsHeaders && r.has(markSent) && hash(one.headersHash) != r.headersHash {
		say("headers-lost", "the record's own headers are not all there as they were%s", detail(more.Headers))
	}
	if one.claim != nil && one.claim.Missing != "" {
		say("metadata-missing", "it lacks %s, or has it in a form that can't be decoded", one.claim.Missing)
	}
	if contract.SamePartition && c.w.elsewhere(one.number, r, one.partition) {
		say("metadata-wrong", "it is in partition %d, the record came from partition %d", one.partition, r.partition)
	}
	c.judgeClaim(one, r, say)
	c.judgeMore(one, r, &more, say)
}

// detail describes a difference.
func detail(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// judgeMore judges the findings of the audit besides the position: the envelope's block occurs once, epochs are ones
// that the partition had, times lie in the run.
func (c *fidelity) judgeMore(one *letter, r *record, more *history.ClaimMore, say func(string, string, ...any)) {
	if len(more.Twice) > 0 {
		say("metadata-wrong", "it has more than one %s", strings.Join(more.Twice, ", "))
	}
	// The subject may choose which epoch it states: that of the leader, or that of its own assignment
	// (pyrallel-consumer).
	if e, had := more.Epoch, more.Epochs; e != nil && had != nil && *e != had[0] &&
		(*e < 0 || *e > max(had[1], c.w.assigned)) {
		say("metadata-wrong", "it says that the record was read in epoch %d; its batch has leader epoch %d, its partition "+
			"%d, and no assignment came to it", *e, had[0], had[1])
	}
	for _, name := range slices.Sorted(maps.Keys(more.Times)) {
		switch at := more.Times[name]; {
		case at < -clockSlack:
			say("metadata-wrong", "%s is %s before the run", name, units.Text(-at))
		case at > one.at+clockSlack:
			say("metadata-wrong", "%s is %s after it was found", name, units.Text(at-one.at))
		}
	}
	c.judgeReason(one, r, more.Quotes, say)
}

// judgeReason checks that a text that quotes answers quotes the one to the last attempt before the dead letter,
// possibly among others. If the last answer is unknown, it must quote one that the record got at some time.
func (c *fidelity) judgeReason(one *letter, r *record, quotes []history.Outcome, say func(string, string, ...any)) {
	l := c.w.letters.of(one.number)
	quoted, answers := setOf(quotes...), r.answers|c.w.calls.answers(one.number)
	switch {
	case quoted == 0 || answers == 0:
		return // without a reason or an attempt, classification judges
	case l == nil || l.asked == 0:
		c.remark("reason: no write of the dead letter was seen")
	case r.exempt() || c.w.anonymous(l.from, l.until):
		c.remark("reason: attempts without an id")
	case c.w.perhapsUnread(c.w.letterAsked(r)):
		c.remark("reason: " + unreadExcuse)
	case quoted&answers == 0 && len(c.w.calls.batched) > 0:
		c.remark("reason: calls for several records")
	case quoted&answers == 0:
		say("metadata-wrong", "its reason is that of a failure that is %s; the record was only ever answered %s", quoted,
			answers)
	case quoted&l.lasts != 0:
	default:
		if why := c.lastUnknown(one.number, r, l); why != "" {
			c.remark("reason: " + why)
			return
		}
		say("metadata-wrong", "its reason is that of a failure that is %s; its last attempt was answered %s", quoted, l.lasts)
	}
}

// lastUnknown returns the reason why the last answer to the dead letters' processes is unknown, or "" if it is known.
func (c *fidelity) lastUnknown(number int32, r *record, l *deadLettered) string {
	switch {
	case l.unsure:
		return "its last attempt is not known, or got no answer"
	case r.several(), c.w.hops && c.w.everDisrupted(number):
		return "several copies"
	}
	why, _ := c.w.answersHidden(number, r.held.instance, l.lastFrom, l.until)
	return why
}

func (c *fidelity) judgeClaim(one *letter, r *record, say func(string, string, ...any)) {
	claim := one.claim
	if claim == nil {
		return
	}
	if own := c.w.contract.Service; own != "" && one.service != "" && one.service != own { // none counts as missing
		say("metadata-wrong", "it says it is of the service %s; the record is one of %s", c.w.short(one.service),
			c.w.short(own))
	}
	at := place{claim.Topic, claim.Partition, claim.Offset}
	switch known, lived := c.w.lived(one.number, r, at); {
	case at.topic < 0 && claim.Missing == "":
		say("metadata-wrong", "the topic that it says it came from is none of the run's")
	case at.topic < 0:
	case !known:
		c.remark("source position not known")
	case !lived && at.partition >= 0 && at.offset >= 0:
		say("metadata-wrong", "it says it came from %s-%d offset %d; the record was at %s-%d offset %d",
			c.w.topicName(at.topic), at.partition, at.offset, c.w.topicName(r.topic), r.partition, r.offset.at())
	case !lived:
		say("metadata-wrong", "it says it came from %s; the record was in %s", c.w.topicName(at.topic),
			c.w.topicName(r.topic))
	}
	c.judgeAttempts(one, r, say)
}

// elsewhere reports whether the record was never in a partition of this number. Its position before a replay is unknown
// if the workload never received it.
func (w *state) elsewhere(number int32, r *record, partition int32) bool {
	if r.partition < 0 || r.lives > 0 && !r.has(markAcked) {
		return false
	}
	c := w.copies[number]
	return partition != r.partition && (c == nil || !slices.ContainsFunc(c.list, func(one copied) bool {
		return one.place.partition == partition
	}))
}

// lived reports whether the record was ever at the place. If the dead letter states no place within the topic (its
// dialect cannot, or it is damaged), it reports whether the record was in the topic. A record with unknown copies may
// have been anywhere.
func (w *state) lived(number int32, r *record, at place) (known, lived bool) {
	if r.offset.at() < 0 {
		return false, false
	}
	whole := at.partition >= 0 && at.offset >= 0
	was := func(there place) bool { return there == at || !whole && there.topic == at.topic }
	if was(r.original()) {
		return true, true
	}
	if c := w.copies[number]; c != nil {
		for i := range c.list {
			if was(c.list[i].place) {
				return true, true
			}
		}
	}
	if w.takesRetries(at.topic) && !w.audited(w.role(at.topic)) || r.lives > 0 && !w.audited(history.RoleInput) {
		return false, false
	}
	return true, false
}

// judgeAttempts checks that the count is that of the series, or more if the subject carried it over from an earlier
// one, at any time when a dead letter was requested. If attempts may not have reached the downstream stub, the
// subject's count is more reliable.
func (c *fidelity) judgeAttempts(one *letter, r *record, say func(string, string, ...any)) {
	l := c.w.letters.of(one.number)
	claim := int(one.claim.Attempts)
	undecodable := claim == 0 && one.claim.Missing != ""
	if claim < 0 || undecodable || c.w.contract.WireOnly {
		return
	}
	if l == nil || len(l.counts) == 0 {
		c.remark("attempts: no write of the dead letter was seen")
		return
	}
	if r.exempt() || c.w.anonymous(l.from, l.until) {
		c.remark("attempts: some without an id")
		return
	}
	if c.w.perhapsUnread(c.w.letterAsked(r)) {
		c.remark("attempts: " + unreadExcuse)
		return
	}
	severalCopies := c.w.hops && c.w.everDisrupted(one.number)
	few, many := false, false
	for _, counts := range l.counts {
		if severalCopies || c.w.repeats != nil {
			counts.from = min(counts.from, 1) // each copy carries a separate count, and repeats may look like attempts
		}
		if claim >= int(counts.from) && claim <= int(counts.to) {
			return
		}
		few, many = few || claim < int(counts.from), many || claim > int(counts.to)
	}
	if why := c.miscounted(one.number, r, l, claim, few, many); why != "" {
		c.remark("attempts: " + why)
		return
	}
	counts := l.counts[len(l.counts)-1]
	say("metadata-wrong", "it says that there were %d attempts; %d were seen", claim, counts.from)
}

// miscounted returns the reason why the subject may have counted fewer or more attempts than the downstream stub
// observed, or "" if it cannot have. In a stall it may make attempts that never reach the stub, if the promised waits
// leave time for them. But it made every attempt that the stub observed. It restarts its count only if the record
// changes hands, or after a stall long enough for the write of a dead letter to fail.
func (c *fidelity) miscounted(number int32, r *record, l *deadLettered, claim int, few, many bool) string {
	instance := r.held.instance
	if !l.parted {
		instance = l.by.instance
	}
	rush := !l.parted
	if lasted, stopped := c.w.stalls.stalled(instance, l.from-catchUp, l.until); few && (stopped || lasted >= slowAck) {
		rush = false
	}
	if many && !c.w.takesLonger(claim, l.until-l.from) {
		rush = false
	}
	if l.parted { // which instance's call failed it is not known
		if why, failed := c.w.calls.failedFor(number, none, l.from, l.until); failed {
			return why
		}
	}
	why, hidden := c.w.attemptsHidden(number, instance, l.from, l.until, rush)
	if !hidden {
		return ""
	}
	return why
}
