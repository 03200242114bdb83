package assertions

// The state of one record and of one partition. Records are kept in one dense array, 104 bytes each. Data that only few
// records have (copies in other topics, dead letters) is kept separately.

import (
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const (
	none = history.None
	// never is the time of an event that did not happen.
	never = time.Duration(-1)
)

// mark is a set of facts about a record.
type mark uint16

const (
	markSent mark = 1 << iota
	markAcked
	// markRefused: the workload's producer gave up; only the audit shows whether the record is in the topic.
	markRefused
	markTombstone
	markGarbage
	// markInTopic: the last audit of its topic found the record.
	markInTopic
	// markSeen: a subject has shown that it has the record; disruptions count from then on.
	markSeen
	// markCovered: an accepted commit covers its current position.
	markCovered
	// markPassed: a commit passed it before it was terminal.
	markPassed
	// markUnsettled: a dead letter or retry copy of it was requested and not acknowledged since.
	markUnsettled
	// markOver: its series has come to a terminal outcome; a further attempt starts a new count.
	markOver
	// markEnded: the latest attempt has ended. markGone: the client had disconnected before the answer.
	markEnded
	markGone
	// markJoined: its dead letter or retry copy is acknowledged, or an attempt has succeeded, within a transaction that is
	// still open.
	markJoined
	// markMixed: its series began after the process got the partition back, so it may include attempts of the earlier
	// delivery.
	markMixed
	// markLeft: workers of the subject's own dead-letter store may have attempted it.
	markLeft
)

// holder is one process of one instance.
type holder struct {
	instance int16
	run      uint16
}

// hash is 32 bits of an xxHash64, enough to detect changes: it misses one change in four billion, and never reports
// unchanged data as changed.
type hash uint32

// trait is a further set of facts about a record. Two of them say which of its times are the same, as they mostly are,
// so that only one of them is stored.
type trait uint8

const (
	// traitTerminal: it was first terminal when its latest attempt ended.
	traitTerminal trait = 1 << iota
	// traitSuccess: its latest success was then, too.
	traitSuccess
	// traitAgain: the workload produced it again.
	traitAgain
	// traitAnswered: a call that may be for several records has said something about it since its present holder has it.
	traitAnswered
	// traitEffect: the sink has had an effect of it.
	traitEffect
	// traitInCall: a call for several records that was refused was one of its attempts. The process may count that one or
	// not.
	traitInCall
)

// offset is that of a record in six bytes, which are enough for 2^48 records. The zero offset is none.
type offset history.Stamp

func offsetOf(at int64) offset { return offset(history.StampOf(time.Duration(min(at, 1<<48-2)))) }

func (o offset) at() int64 { return int64(history.Stamp(o).At()) }

// count24 is a count of disturbances. Only differences are asked for, so it may overflow.
type count24 struct{ low, middle, high uint8 }

func count24Of(count uint32) count24 {
	return count24{uint8(count), uint8(count >> 8), uint8(count >> 16)}
}

// until returns by how much the count has grown.
func (t count24) until(count uint32) uint32 {
	return (count - t.count()) & (1<<24 - 1)
}

func (t count24) count() uint32 { return uint32(t.low) | uint32(t.middle)<<8 | uint32(t.high)<<16 }

// below reports whether the count has grown since. A count from before does not make it so.
func (t count24) below(count uint32) bool {
	grown := t.until(count)
	return grown > 0 && grown < 1<<23
}

// record is the known state of one record of the workload. Counts refer to its current replay generation; a replay
// begins a new one. There is one for each record of the run, so every byte counts.
type record struct {
	keyHash, valueHash, headersHash hash
	partition                       int32
	prev, next                      int32
	offset                          offset
	disturbedFrom, disturbedTo      count24
	topic                           int16
	flags                           mark
	held                            holder
	delivery                        uint16 // enough bits of the partition's delivery to tell one from the next
	// answers is the set of outcomes of all its attempts, earlier replay generations included.
	answers                   outcomes
	attempts, inSeries, inRun uint16
	// seriesStart is the start of the series' first attempt, lastStart of its latest, lastEnd when that one ended.
	seriesStart, lastStart, lastEnd history.Stamp
	// born is when its present replay generation began: it was sent, or a replay of it was requested.
	born history.Stamp
	// These saturate at 255.
	successes, excuses uint8
	lives              uint8
	traits             trait
	outcome, planned   history.Outcome
	// seldom is the position in records.seldom, or 0.
	seldom int32
}

// seldom is the known state of a record that most records do not have.
type seldom struct {
	// letterAsked is the first request for its dead letter, letterAcked the first acknowledgement that was passed to
	// the subject.
	letterAsked, letterAcked history.Stamp
	// firstTerminal is when it was first terminal in its first replay generation, unless a trait says that.
	firstTerminal history.Stamp
	// lastTerminal is when it was last terminal. Unless it is apart, that is when it was first terminal.
	lastTerminal history.Stamp
	// lastSuccess is its latest success, unless a trait says that.
	lastSuccess history.Stamp
	apart       bool
	// hops saturates at 255. failedWrites must be as wide as deadLettered.forged, which is subtracted from it: a client
	// that retries every 100 ms fails more than 255 times in half a minute.
	hops         uint8
	failedWrites uint16
}

func newRecord() record {
	return record{
		partition: none, prev: none, next: none, topic: none,
	}
}

// recordsPerChunk is the number of records allocated at once. Chunks are never copied: growing one array would hold it
// twice.
const (
	chunkBits       = 12
	recordsPerChunk = 1 << chunkBits
)

// records holds the records by number, from 0 up to count.
type records struct {
	count  int
	chunks []*[recordsPerChunk]record
	// seldom begins with that of all records that have none.
	seldom []seldom
}

// at returns the record with the number, which must be below count.
func (rs *records) at(number int) *record {
	return &rs.chunks[number>>chunkBits][number&(recordsPerChunk-1)]
}

// reach returns the record with the number, and allocates it and all before it.
func (rs *records) reach(number int) *record {
	for number>>chunkBits >= len(rs.chunks) {
		chunk := new([recordsPerChunk]record)
		for i := range chunk {
			chunk[i] = newRecord()
		}
		rs.chunks = append(rs.chunks, chunk)
	}
	rs.count = max(rs.count, number+1)
	return rs.at(number)
}

func (r *record) has(m mark) bool { return r.flags&m != 0 }

// unnamed reports whether the downstream stub finds no id in what the subject may send of the record.
func (r *record) unnamed() bool { return r.has(markTombstone | markGarbage) }

// kind tells a record without an id: history.Tombstone, history.Garbage, or 0.
func (r *record) kind() history.Flags {
	switch {
	case r.has(markTombstone):
		return history.Tombstone
	case r.has(markGarbage):
		return history.Garbage
	}
	return 0
}

// exempt reports whether nothing can be concluded from its attempts: they have no id, or another process may have made
// some of them.
func (r *record) exempt() bool { return r.unnamed() || r.has(markLeft) }

// startLife resets the state that belongs to the replay generation before.
func (w *state) startLife(r *record) {
	if r.lives < 255 {
		r.lives++
	}
	r.flags &^= markSeen | markCovered | markPassed | markUnsettled | markOver | markEnded | markGone | markMixed |
		markJoined
	w.setEnd(r, never)
	r.lastStart, r.seriesStart = history.Stamp{}, history.Stamp{}
	r.attempts, r.inSeries, r.inRun, r.successes, r.excuses = 0, 0, 0, 0, 0
	if s := w.seldom(r); r.seldom > 0 {
		*s = seldom{firstTerminal: s.firstTerminal, lastTerminal: s.lastTerminal, apart: s.apart}
	}
	r.outcome, r.held, r.delivery = history.OutcomeNone, holder{}, 0
	if r.lives > 1 {
		r.excuses = r.lives - 1
	}
}

// seldom returns what most records do not have. It must not be changed.
func (w *state) seldom(r *record) *seldom { return &w.records.seldom[r.seldom] }

// keepSeldom returns the same to be changed.
func (w *state) keepSeldom(r *record) *seldom {
	if r.seldom == 0 {
		r.seldom = int32(len(w.records.seldom))
		w.records.seldom = append(w.records.seldom, seldom{})
	}
	return w.seldom(r)
}

// frozen returns a copy of the state that later events do not change.
func (w *state) frozen(r *record) *record {
	now := *r
	if now.seldom = 0; r.seldom > 0 {
		*w.keepSeldom(&now) = *w.seldom(r)
	}
	return &now
}

// letterAsked is the first request for the record's dead letter, or never.
func (w *state) letterAsked(r *record) time.Duration { return w.seldom(r).letterAsked.At() }

// letterAcked is the first acknowledgement of the record's dead letter that was passed to the subject, or never.
func (w *state) letterAcked(r *record) time.Duration { return w.seldom(r).letterAcked.At() }

func (w *state) failedWrite(r *record) {
	s := w.keepSeldom(r)
	s.failedWrites = bump(s.failedWrites)
}

// lastTerminal is when the record was last terminal, or never.
func (w *state) lastTerminal(r *record) time.Duration {
	if s := w.seldom(r); s.apart {
		return s.lastTerminal.At()
	}
	return w.firstTerminal(r)
}

// firstTerminal is when the record was first terminal in its first replay generation, or never.
func (w *state) firstTerminal(r *record) time.Duration {
	if r.traits&traitTerminal != 0 {
		return r.lastEnd.At()
	}
	return w.seldom(r).firstTerminal.At()
}

// lastSuccess is the record's latest success, or never.
func (w *state) lastSuccess(r *record) time.Duration {
	if r.traits&traitSuccess != 0 {
		return r.lastEnd.At()
	}
	return w.seldom(r).lastSuccess.At()
}

// setEnd notes when the record's latest attempt ended. What shared the time of the one before keeps it.
func (w *state) setEnd(r *record, at time.Duration) {
	if same := traitTerminal | traitSuccess; r.traits&same != 0 {
		first, success := w.firstTerminal(r), w.lastSuccess(r)
		r.traits &^= same
		s := w.keepSeldom(r)
		s.firstTerminal, s.lastSuccess = history.StampOf(first), history.StampOf(success)
	}
	r.lastEnd = history.StampOf(at)
}

// setSuccess notes the record's latest success.
func (w *state) setSuccess(r *record, at time.Duration) {
	if r.lastEnd.At() == at {
		r.traits |= traitSuccess
		return
	}
	r.traits &^= traitSuccess
	w.keepSeldom(r).lastSuccess = history.StampOf(at)
}

// setTerminal notes when the record was last terminal, and if it was not before, when it was first.
func (w *state) setTerminal(r *record, first, last time.Duration) {
	if w.firstTerminal(r) == never && first != never {
		if r.lastEnd.At() == first {
			r.traits |= traitTerminal
		} else {
			w.keepSeldom(r).firstTerminal = history.StampOf(first)
		}
	}
	if w.lastTerminal(r) != last {
		s := w.keepSeldom(r)
		s.lastTerminal, s.apart = history.StampOf(last), true
	}
}

// several reports whether there is more than one copy of the record: the workload produced it twice, or more than one
// was written back, because a fault had made two dead letters of it and both were selected. Not every attempt can be
// attributed to one of the copies, so each copy may be attempted, and end, as a single one would. What ends one of the
// copies that the workload produced ends the others too: a subject that recognises the id need not process them.
func (r *record) several() bool { return r.lives > 1 || r.again() > 0 }

// again is how often the workload produced the record again: once, or not at all.
func (r *record) again() int {
	if r.traits&traitAgain != 0 {
		return 1
	}
	return 0
}

// original is where the workload wrote the record. Its offset is none if that is not known.
func (r *record) original() place { return place{r.topic, r.partition, r.offset.at()} }

// copies is the number of copies that may be attempted.
func (r *record) copies() int { return max(1, int(r.lives)) + r.again() }

// place is a position in a log.
type place struct {
	topic     int16
	partition int32
	offset    int64
}

// copied is a further position of a record: a retry copy, or a record written by a replay.
type copied struct {
	place
	// created is the time of its first request; terminal outcomes before it belong to an earlier position.
	created time.Duration
	// bySubject: the subject is known to have written it as a retry copy.
	bySubject bool
}

// firstAsk is the first request for a retry copy by an idempotent producer. A later request with the same sequence
// number is for the same copy.
type firstAsk struct {
	topic     int16
	epoch     int16
	partition int32
	sequence  int32
	producer  int64
	at        time.Duration
}

// copies holds the further positions of a record.
type copies struct {
	list []copied
	// handedOn is the creation time of the latest acknowledged retry copy, which took the obligation over from the
	// positions before it.
	handedOn time.Duration
	// lost is when the latest one was acknowledged by a leader that failed before another broker had it.
	lost time.Duration
	// asked holds the requests of idempotent producers for retry copies, without repeats; latest is the time of the
	// latest request of any. unplaced is the number of requests for retry copies whose answer did not show where the
	// copy is, or that there is none.
	asked    []firstAsk
	latest   time.Duration
	unplaced int
	// audited holds the positions that the latest audits found.
	audited []auditedCopy
}

// auditedCopy is a further position of a record found by an audit.
type auditedCopy struct {
	place
	keyHash, valueHash, headersHash uint64
	// failures: it still carries headers of a dead letter.
	failures bool
	time     time.Duration
}

// partition is one partition of a topic.
type partition struct {
	place // offset unused
	log   offsets
	// The process that has it, and since when. epoch counts the changes; regained: the same process had it before.
	held     holder
	has      bool
	regained bool
	// handedOver is when a rebalance took it from its previous process, or never once a process has it.
	handedOver time.Duration
	// assigned: the tap has seen an assignment of it, so a fetch alone does not show which process has it.
	assigned bool
	// turns counts how often an instance fetched from it right after another one had, although no assignment gave it to
	// either (see readTogether).
	turns       uint32
	lastFetcher holder
	epoch       uint32
	since       time.Duration
	// delivery counts the assignments, and the rewinds of a holder to its last commit (see state_rewinds.go).
	delivery uint32
	// rewound counts all rewinds, those for no known reason included.
	rewound uint16
	rewinds
	// known holds the processes that had it, each with the last offset that it was handed, or none. That offset is kept
	// only where the contract says that the subject halts at unreadable records, or that it has retry topics.
	known map[holder]int64
	// hands holds, for each process that fetched from it, when that was.
	hands map[holder]*handouts
	halting
	// latest is the last record sent to it with each key (none: with any, if it is ordered as a whole).
	latest map[int32]int32
	// disturbances counts the events that justify one more delivery of the open records; taken is the count when the
	// present holder took the partition, untilStop the count when the subject was told to stop at the end of the run.
	disturbances, taken, untilStop uint32
	// cuts are when the work on it was cut short; none are kept unless commits follow time.
	cuts []cut
	// settled: every position below it was terminal or has been judged; covered: every position below it is committed.
	settled, covered int64
	// named holds the offsets beyond committed that the metadata of the last accepted commit declares finished.
	named     ranges
	committed int64
	fetched   int64
	began     beginning
	// deliveries holds the deliveries of a share group, by offset; it is empty if the subject is in a consumer group.
	deliveries map[int64]*delivery
	// holes holds the offsets that an accepted commit passed before the history showed which record is there, with the
	// time by which the record must be done for the commit.
	holes map[int64]time.Duration
	last  lastCommit
	// unanswered is the time of the first commit request that was never answered. It is set at the end; endless if
	// there is none.
	unanswered time.Duration
	// The findings of the last audit.
	audited                bool
	auditEnd, auditCommits int64
	auditedAt              time.Duration
}

// beginning is from where a partition was read since its last holder for which the group had committed nothing: only
// that client's auto.offset.reset decides it. Later holders begin at what it committed.
type beginning struct {
	by     holder
	at     time.Duration
	offset int64 // the lowest; none: nothing was handed out; 0 also if no such holder is known
}

// lastCommit is the latest accepted commit whose acceptance its sender knows.
type lastCommit struct {
	by       holder
	epoch    uint32
	offset   int64
	asked    time.Duration
	answered time.Duration
}

func newPartition(topic int16, number int32) partition {
	return partition{
		place: place{topic, number, none}, log: newOffsets(), committed: none, fetched: none, auditEnd: none,
		auditCommits: none,
		last:         lastCommit{offset: none}, unanswered: endless, handedOver: never, lastFetcher: holder{instance: none},
		rewinds: noRewinds(), halting: halting{unreadable: none},
	}
}

// take assigns the partition to a process, unless the process has it; it reports whether another process had it before.
func (p *partition) take(by holder, at time.Duration) bool {
	if p.has && p.held == by {
		return false
	}
	_, p.regained = p.known[by]
	p.know(by)
	p.held, p.has, p.since = by, true, at
	p.epoch++
	p.delivery++
	p.rewinds = noRewinds()
	return p.epoch > 1 // otherwise no process had it before, so nothing is delivered again
}

// wasOf reports whether a process of the instance had the partition at some time.
func (p *partition) wasOf(instance int16) bool {
	for by := range p.known {
		if by.instance == instance {
			return true
		}
	}
	return false
}

func (p *partition) know(by holder) {
	if p.known == nil {
		p.known = map[holder]int64{}
	}
	if _, known := p.known[by]; !known {
		p.known[by] = none
	}
}
