package assertions

// The state of one record and of one partition. Records are kept in one dense array, 136 bytes each; what only few
// records have (copies in other topics, dead letters) is kept beside it.

import (
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const (
	none = history.None
	// never is the time of what did not happen.
	never = time.Duration(-1)
)

// mark is a set of facts about a record.
type mark uint16

const (
	markSent mark = 1 << iota
	markAcked
	// markRefused: the workload's producer gave up; only the audit knows whether the record is in the topic.
	markRefused
	markTombstone
	markGarbage
	// markInTopic: the last audit of its topic found it.
	markInTopic
	// markSeen: a subject has shown that it has the record, so disruptions count from there.
	markSeen
	// markCovered: an accepted commit covers its open position.
	markCovered
	// markPassed: a commit passed it before it was terminal.
	markPassed
	// markUnsettled: a dead letter or retry copy of it was asked for and not acknowledged since.
	markUnsettled
	// markOver: its series has come to a terminal outcome; a further attempt begins a new count.
	markOver
	// markEnded: the latest attempt has ended. markGone: and the client had gone before it was answered.
	markEnded
	markGone
	// markJoined: its dead letter or retry copy is acknowledged within a transaction that is still open.
	markJoined
	// markMixed: its series began when the process had got the partition back, so attempts of before may be among its
	// attempts.
	markMixed
	// markLeft: workers of the subject's own dead-letter store may have tried it.
	markLeft
)

// holder is one process of one instance.
type holder struct {
	instance int16
	run      uint16
}

// stamp is a time in six bytes, exact to the nanosecond for three days and more: what is read seldom is kept in it.
type stamp [6]byte

// at returns the time, never if it was not set.
func (s stamp) at() time.Duration {
	return time.Duration(uint64(s[0])|uint64(s[1])<<8|uint64(s[2])<<16|uint64(s[3])<<24|uint64(s[4])<<32|uint64(
		s[5])<<40) - 1
}

func stampOf(at time.Duration) stamp {
	n := uint64(max(at, never)) + 1
	return stamp{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24), byte(n >> 32), byte(n >> 40)}
}

// hash is enough of an xxHash64 to tell what was changed from what was not: one change in four billion would be missed,
// and nothing that is unchanged is called changed.
type hash uint32

// record is what is known of one record of the workload. Counts are of its current life: a replay begins a new one.
// There are as many as the run has records, so every byte counts.
type record struct {
	offset int64
	// firstTerminal is when it was first terminal in its first life, lastTerminal when it was last.
	firstTerminal time.Duration
	// seriesStart is the start of the series' first attempt, lastStart of its latest, lastEnd when that one ended.
	lastStart, lastEnd time.Duration
	// letterAsked is the first request for its dead letter, letterAcked the first acknowledgement that was passed to
	// the subject.
	letterAsked time.Duration
	// born is when its present life began: it was sent, or a replay of it was asked for.
	born                                                time.Duration
	lastTerminal, seriesStart, lastSuccess, letterAcked stamp
	// answers are the outcomes of all its attempts, of earlier lives too, as a set.
	answers                         outcomes
	topic                           int16
	delivery                        uint16 // as much of the partition's as tells one from the next
	flags                           mark
	keyHash, valueHash, headersHash hash
	partition                       int32
	prev, next                      int32
	disturbedFrom                   uint32
	disturbedTo                     uint32
	held                            holder
	attempts                        uint16
	inSeries                        uint16
	inRun                           uint16
	// failedWrites must be as wide as lettered.forged, which is subtracted from it: a client that retries every 100 ms
	// fails more than 255 times in half a minute.
	failedWrites uint16
	// These count up to 255.
	successes, excuses uint8
	hops               uint8
	lives              uint8
	outcome            history.Outcome
	planned            history.Outcome
}

func newRecord() record {
	return record{
		offset: none, firstTerminal: never, lastStart: never, lastEnd: never, letterAsked: never, born: never,
		partition: none, prev: none, next: none, topic: none,
	}
}

// recordsPerChunk is how many records are made room for at once. Chunks are never copied: growing one array would hold
// it twice.
const (
	chunkBits       = 12
	recordsPerChunk = 1 << chunkBits
)

// records are the records by number, from 0 up to count.
type records struct {
	count  int
	chunks []*[recordsPerChunk]record
}

// at returns the record with the number, which is below count.
func (rs *records) at(number int) *record {
	return &rs.chunks[number>>chunkBits][number&(recordsPerChunk-1)]
}

// reach returns the record with the number, and makes room for it and all before it.
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

// unnamed: the oracle finds no id in what the subject may send of it.
func (r *record) unnamed() bool { return r.has(markTombstone | markGarbage) }

// exempt: nothing can be concluded from its attempts, as they have no id, or others may have made some of them.
func (r *record) exempt() bool { return r.unnamed() || r.has(markLeft) }

// startLife forgets what a replay makes history.
func (r *record) startLife() {
	if r.lives < 255 {
		r.lives++
	}
	r.flags &^= markSeen | markCovered | markPassed | markUnsettled | markOver | markEnded | markGone | markMixed |
		markJoined
	r.lastStart, r.lastEnd, r.letterAsked = never, never, never
	r.seriesStart, r.lastSuccess, r.letterAcked = stamp{}, stamp{}, stamp{}
	r.attempts, r.inSeries, r.inRun, r.successes, r.failedWrites, r.excuses, r.hops = 0, 0, 0, 0, 0, 0, 0
	r.outcome, r.held, r.delivery = history.OutcomeNone, holder{}, 0
	if r.several() {
		r.excuses = r.lives - 1
	}
}

// several reports whether more than one copy of the record was written back: a fault had made it two dead letters, and
// both were selected. Which of the copies an attempt is of is not always told, so each of them may be attempted, and
// end, as a single one would.
func (r *record) several() bool { return r.lives > 1 }

// place is a position in a log.
type place struct {
	topic     int16
	partition int32
	offset    int64
}

// copied is a further position of a record: a retry copy, or what a replay wrote.
type copied struct {
	place
	// created is when it was first asked for; terminal outcomes before it are those of an earlier position.
	created time.Duration
	// bySubject: a retry copy that the subject is known to have written.
	bySubject bool
}

// firstAsk is the first request for a retry copy by an idempotent producer: what it asks for again with the same
// sequence number is that copy.
type firstAsk struct {
	topic     int16
	epoch     int16
	partition int32
	sequence  int32
	producer  int64
	at        time.Duration
}

// copies are the further positions of a record.
type copies struct {
	list []copied
	// handedOn is the creation of the latest retry copy that was acknowledged: it took the obligation over from what
	// was before it.
	handedOn time.Duration
	// asked are the requests of idempotent producers for retry copies, repeats left out; unplaced is how many requests
	// for retry copies have not been answered in a way that tells where the copy is, or that there is none.
	asked    []firstAsk
	unplaced int
	// audited are those that the latest audits found.
	audited []auditedCopy
}

// auditedCopy is a further position of a record as an audit found it.
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
	// The process that has it, and since when. epoch counts the changes; regained tells that the same process had it
	// before.
	held     holder
	has      bool
	regained bool
	// handedOver is when a rebalance took it from the process that had it, never once somebody has it.
	handedOver time.Duration
	// assigned: the tap has seen an assignment of it, so that fetching alone doesn't show who has it.
	assigned    bool
	lastFetcher holder
	epoch       uint32
	since       time.Duration
	// delivery counts the assignments, and the times that a holder went back to its last commit (see state_rewinds.go).
	delivery uint32
	rewinds
	known map[holder]bool
	// disturbances counts what justifies one more delivery of what is open; taken is how many there were when it was
	// taken.
	disturbances, taken uint32
	// settled: every position below it was terminal or has been judged; covered: every position below it is committed.
	settled, covered int64
	// named are the offsets beyond committed that the metadata of the last accepted commit says are finished.
	named     ranges
	committed int64
	fetched   int64
	// deliveries are those of a share group, by offset; none where the subject is a member of a consumer group.
	deliveries map[int64]*delivery
	// holes are positions that an accepted commit passed before the history said which record is there: offset → when
	// what is done counts for the commit.
	holes map[int64]time.Duration
	last  lastCommit
	// unanswered is when the first commit was asked for that was never answered; known at the end, endless if there is
	// none.
	unanswered time.Duration
	// What the last audit found.
	audited                bool
	auditEnd, auditCommits int64
	auditedAt              time.Duration
}

// lastCommit is the latest accepted commit that its sender knows of.
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
		rewinds: noRewinds(),
	}
}

// take gives the partition to a process, unless that has it; it reports whether it was another's.
func (p *partition) take(by holder, at time.Duration) bool {
	if p.has && p.held == by {
		return false
	}
	p.regained = p.known[by]
	p.know(by)
	p.held, p.has, p.since = by, true, at
	p.epoch++
	p.delivery++
	p.rewinds = noRewinds()
	return p.epoch > 1 // otherwise nobody had it before, so nothing is delivered again
}

func (p *partition) know(by holder) {
	if p.known == nil {
		p.known = map[holder]bool{}
	}
	p.known[by] = true
}
