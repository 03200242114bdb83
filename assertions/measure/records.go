package measure

import (
	"math"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// none is an unknown time.
const none time.Duration = -1 << 62

// facts is the set of known facts about a record.
type facts uint32

const (
	sent facts = 1 << iota
	warmup
	acked
	attempted
	success
	duplicate
	logical
	dead     // it is in the dead-letter topic
	deadTold // the subject was told that it is there
	covered  // covered by an accepted commit
	settled  // was both terminal and committed
	replayed
	skipped  // skipped, as the contract says
	retrying // has failed and is not finished yet
	returned // a worker of the dead-letter store has written it back
	twice    // the workload produced it twice
	again    // of its copies, a second one succeeded
	// tried: attempted, according to its place, where the downstream could not identify the record; or carried out, and
	// the answer was lost on purpose; or perhaps ended by a logical failure at another downstream.
	tried
	terminal

	// The phase to which the record's latencies count takes the bits above.
	phaseShift = 24
)

// record is the state of one record; there are as many as the run has records, so every byte counts. What is needed
// only while the record is under way is kept apart.
type record struct {
	intended history.Stamp
	// home is the partition to which the record was sent.
	home  homeIndex
	facts facts
	// underway is the position in records.underway plus one, or 0 if there is nothing to keep.
	underway int32
}

// underway is what is kept of a record from its acknowledgement until it has ended and is committed, and for a second
// after its last attempt.
type underway struct {
	// due is the earliest promised time of the next attempt, or none if no wait was promised. Before the first attempt
	// it is when the record was acknowledged.
	due history.Stamp
	// begun is the start of the first attempt. It is none before that, once the record has succeeded, and when its dead
	// letter is sent back.
	begun history.Stamp
	// ended is when it became terminal, as long as no commit covers it.
	ended    history.Stamp
	attempts uint16 // in the current series
	recent   int32  // attempts within the last second, as counted by recentAttempts
	holder   holder // has no meaning before the first attempt of the series
}

// holder is the process that has the record. A count in memory survives only within one holder.
type holder struct {
	revoked  uint32
	instance int16
	run      uint16
}

func (r *record) has(f facts) bool { return r.facts&f != 0 }
func (r *record) set(f facts)      { r.facts |= f }

func (r *record) phase() phaseIndex         { return phaseIndex(r.facts >> phaseShift) }
func (r *record) setPhase(phase phaseIndex) { r.facts |= facts(phase) << phaseShift }

const recordsPerChunk = 1 << 14

// records holds the states by record number, in chunks that are allocated on demand, because the number of records in a
// header is not trusted.
type records struct {
	limit  int
	chunks []*[recordsPerChunk]record
	// underway has what is kept of records under way, at the positions that are not in free.
	underway []underway
	free     []int32
}

// track returns what is kept of a record under way, and begins to keep it. The pointer is valid until the next call.
func (rs *records) track(r *record) *underway {
	if r.underway == 0 {
		if n := len(rs.free); n > 0 {
			r.underway, rs.free = rs.free[n-1], rs.free[:n-1]
		} else {
			rs.underway = append(rs.underway, underway{})
			r.underway = int32(len(rs.underway))
		}
	}
	return &rs.underway[r.underway-1]
}

// kept returns a copy of what is kept of a record under way.
func (rs *records) kept(r *record) underway {
	if r.underway == 0 {
		return underway{}
	}
	return rs.underway[r.underway-1]
}

// endSeries ends the current series of attempts. No wait is due after it.
func (rs *records) endSeries(r *record) {
	if r.underway != 0 {
		u := rs.track(r)
		u.attempts, u.due = 0, history.Stamp{}
		rs.release(r, u)
	}
}

// release forgets what will not be asked for again, and stops keeping anything if nothing else is left.
func (rs *records) release(r *record, u *underway) {
	if r.has(success) {
		u.begun = history.Stamp{} // only the time to the first success is measured
	}
	if u.attempts == 0 && u.recent == 0 && !u.due.Known() && !u.begun.Known() && !u.ended.Known() {
		*u = underway{}
		rs.free = append(rs.free, r.underway)
		r.underway = 0
	}
}

// cover notes that a commit covers the record, and returns when it became terminal.
func (rs *records) cover(r *record) (ended history.Stamp) {
	r.set(covered)
	if r.underway != 0 {
		u := rs.track(r)
		ended, u.ended = u.ended, history.Stamp{}
		rs.release(r, u)
	}
	return ended
}

// at returns the record's state, or nil for a number that does not belong to this run.
func (rs *records) at(number int32) *record {
	if number < 0 || int(number) >= rs.limit {
		return nil
	}
	chunk := int(number) / recordsPerChunk
	for len(rs.chunks) <= chunk {
		rs.chunks = append(rs.chunks, nil)
	}
	if rs.chunks[chunk] == nil {
		rs.chunks[chunk] = new([recordsPerChunk]record)
	}
	return &rs.chunks[chunk][number%recordsPerChunk]
}

// each visits the existing states, by record number.
func (rs *records) each(fn func(int32, *record)) {
	for c, chunk := range rs.chunks {
		if chunk == nil {
			continue
		}
		for i := range chunk {
			if number := c*recordsPerChunk + i; number < rs.limit {
				fn(int32(number), &chunk[i])
			}
		}
	}
}

// place is a partition of a topic.
type place struct {
	topic     int16
	partition int32
}

// partition tracks the commits of one partition.
type partition struct {
	// records by offset, -1 where there is none.
	records []int32
	// end is one past the highest acknowledged offset, committed the last accepted commit, covered the highest one.
	end, committed, covered int64
	// taken holds the offsets that a member of a share group acknowledged before their records were known.
	taken map[int64]bool
	// lag is the contribution of this partition to the lag, as last counted.
	lag     int64
	revoked uint32
}

// homeIndex is the index of a partition in partitions.all; 0 is none.
type homeIndex uint16

// partitions holds the partitions that events have named.
type partitions struct {
	at  map[place]homeIndex
	all []*partition
	// near holds the indexes of partitions with small numbers, by topic and number: most events name one, and a map is
	// slower.
	near [][nearPartitions]homeIndex
}

const (
	nearPartitions = 64
	nearTopics     = 16
)

func newPartitions() partitions {
	return partitions{at: map[place]homeIndex{}, all: []*partition{{}},
		near: make([][nearPartitions]homeIndex, nearTopics)}
}

// of returns the partition that the event names. Partitions beyond the range of the index share one that is never used.
func (ps *partitions) of(e *history.Event) (homeIndex, *partition) {
	near := uint16(e.Topic) < nearTopics && uint32(e.Partition) < nearPartitions
	if near {
		if index := ps.near[e.Topic][e.Partition]; index != 0 {
			return index, ps.all[index]
		}
	}
	at := place{e.Topic, e.Partition}
	index, known := ps.at[at]
	if !known && len(ps.all) <= math.MaxUint16 {
		index = homeIndex(len(ps.all))
		ps.all = append(ps.all, &partition{})
		ps.at[at] = index
		if near {
			ps.near[e.Topic][e.Partition] = index
		}
	}
	if index == 0 {
		return 0, &partition{}
	}
	return index, ps.all[index]
}

// offsetLimit rejects implausible offsets: a run's topics are new, so their offsets hardly exceed the number of its
// records.
func (m *Measurer) offsetLimit() int64 { return 8*int64(max(m.header.Records, 0)) + 1<<16 }

// add notes that the record has the offset, or returns false for an implausible offset.
func (p *partition) add(offset int64, number int32, limit int64) bool {
	if offset < 0 || offset >= limit {
		return false
	}
	for int64(len(p.records)) <= offset {
		p.records = append(p.records, -1)
	}
	p.records[offset] = number
	p.end = max(p.end, offset+1)
	return true
}

// committed applies the broker's answer to a commit. An answer that a fault withheld from the subject counts; an answer
// that a fault forged does not.
func (m *Measurer) committed(e *history.Event) {
	if e.Code != 0 && e.Instance >= 0 && !e.Flags.Has(history.Withheld) {
		m.recoveries.noticed(signCommitRefused, e.Time)
	}
	if e.Code != 0 || e.Flags.Has(history.Forged) || e.Offset < 0 {
		return
	}
	_, p := m.partitions.of(e)
	m.cover(p, e.Offset, e.Time, true)
}

// auditedOffsets learns of commits whose answers were not observed. The time of their acceptance is unknown, so they
// add no samples.
func (m *Measurer) auditedOffsets(e *history.Event) {
	if _, p := m.partitions.of(e); e.Aux > p.committed {
		m.cover(p, e.Aux, e.Time, false)
	}
}

func (m *Measurer) cover(p *partition, offset int64, at time.Duration, seen bool) {
	p.committed = offset
	for _, number := range p.records[min(p.covered, int64(len(p.records))):min(max(offset, p.covered),
		int64(len(p.records)))] {
		m.coverRecord(number, at, seen)
	}
	p.covered = max(p.covered, offset)
	m.follow(p)
}

func (m *Measurer) coverRecord(number int32, at time.Duration, seen bool) {
	r := m.records.at(number)
	if r == nil || r.has(covered) {
		return
	}
	ended := m.records.cover(r)
	switch {
	case !seen:
		m.settle(r, ended.At())
	case ended.Known():
		m.latencies.record(commitDelay, r, at-ended.At())
		m.settle(r, at)
	default:
		m.settle(r, at)
	}
}

// acknowledgedInShare applies the broker's answer to an acknowledgement in a share group (KIP-932). An accept or a
// reject counts as a commit of each record by itself. The lag follows the records that are acknowledged without a gap.
func (m *Measurer) acknowledgedInShare(e *history.Event) {
	final := e.N == history.AckAccept || e.N == history.AckReject
	if !final || e.Code != 0 || e.Flags.Has(history.Forged) || e.Offset < 0 {
		return
	}
	_, p := m.partitions.of(e)
	for offset := e.Offset; offset <= min(e.Aux, m.offsetLimit()); offset++ {
		if offset < int64(len(p.records)) && p.records[offset] >= 0 {
			m.coverRecord(p.records[offset], e.Time, true)
			continue
		}
		if p.taken == nil {
			p.taken = map[int64]bool{}
		}
		p.taken[offset] = true // its record is not known yet
	}
	m.advance(p)
	m.follow(p)
}

// advance moves a share group's mark over the offsets acknowledged without a gap.
func (m *Measurer) advance(p *partition) {
	for p.committed < int64(len(p.records)) {
		if r := m.records.at(p.records[p.committed]); r == nil || !r.has(covered) {
			break
		}
		p.committed++
	}
	p.covered = max(p.covered, p.committed)
}

// follow updates the lag after a change in p.
func (m *Measurer) follow(p *partition) {
	lag := max(0, p.end-p.committed)
	m.lag += lag - p.lag
	p.lag = lag
	m.out.LagMax, m.slot.lagPeak = max(m.out.LagMax, m.lag), max(m.slot.lagPeak, m.lag)
	m.recoveries.lagged(m.now, m.lag)
}

// auditedRecord learns of dead letters whose acknowledgements were not observed. A dead letter that was already known
// says nothing about the record's replay, so it changes nothing.
func (m *Measurer) auditedRecord(e *history.Event) {
	r := m.records.at(e.Record)
	if r == nil && e.Claim != nil { // a dead letter without an id belongs to the record that it names
		r = m.records.at(m.lying(e.Claim.Topic, e.Claim.Partition, e.Claim.Offset))
	}
	if r == nil || m.role(e.Topic) != history.RoleDLQ || r.has(dead) {
		return
	}
	m.died(r)
}

// lying returns the number of the record at a place, or None if it is unknown.
func (m *Measurer) lying(topic int16, number int32, offset int64) int32 {
	index, known := m.partitions.at[place{topic, number}]
	if !known || offset < 0 || offset >= int64(len(m.partitions.all[index].records)) {
		return history.None
	}
	return m.partitions.all[index].records[offset]
}

// unnamed is an attempt in which the downstream found no id. Its place is the one that the subject stated.
type unnamed struct {
	place
	offset int64
}

// placeUnnamed attributes the attempts without an id to the records at their places: a tombstone, or garbage.
func (m *Measurer) placeUnnamed() {
	for _, one := range m.unnamed {
		if r := m.records.at(m.lying(one.topic, one.partition, one.offset)); r != nil {
			r.set(tried)
		}
	}
}
