package measure

import (
	"math"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// none is a time that is not known.
const none time.Duration = -1 << 62

// facts are what is known of a record.
type facts uint16

const (
	sent facts = 1 << iota
	warmup
	acked
	attempted
	success
	duplicate
	logical
	dead     // it is in the dead-letter topic
	deadTold // and the subject was told
	covered  // by an accepted commit
	settled  // was terminal and committed
	replayed
	skipped  // by contract
	retrying // has failed and is not finished yet
	returned // a worker of the dead-letter store has written it back
	tried    // by its place: the downstream could not tell which record it was
)

// record is the state of one record; there are as many as the run has records, so every byte counts.
type record struct {
	intended time.Duration
	terminal time.Duration
	// due is when the next attempt was promised at the earliest; none when nothing was promised. Before the first
	// attempt it is when the record was acknowledged.
	due time.Duration
	// begun is the start of the first attempt; none before it, and again from when its dead letter is sent back.
	begun    time.Duration
	holder   holder
	recent   int32  // attempts within the last second, as far as recentAttempts knows
	attempts uint16 // in the current series
	facts    facts
	// home is the partition that the record was sent to.
	home  homeIndex
	phase phaseIndex
}

// holder is who has the record: a count in memory survives only within it.
type holder struct {
	revoked  uint32
	instance int16
	run      uint16
}

func (r *record) has(f facts) bool { return r.facts&f != 0 }
func (r *record) set(f facts)      { r.facts |= f }

const recordsPerChunk = 1 << 14

// records holds the states, by record number, in chunks that are made when they are needed: the number of records in a
// header is a claim.
type records struct {
	limit  int
	chunks []*[recordsPerChunk]record
}

// at returns the record's state, nil for a number that is not of this run.
func (rs *records) at(number int32) *record {
	if number < 0 || int(number) >= rs.limit {
		return nil
	}
	chunk := int(number) / recordsPerChunk
	for len(rs.chunks) <= chunk {
		rs.chunks = append(rs.chunks, nil)
	}
	if rs.chunks[chunk] == nil {
		rs.chunks[chunk] = newChunk()
	}
	return &rs.chunks[chunk][number%recordsPerChunk]
}

func newChunk() *[recordsPerChunk]record {
	chunk := new([recordsPerChunk]record)
	for i := range chunk {
		chunk[i].terminal, chunk[i].due, chunk[i].begun = none, none, none
	}
	return chunk
}

// each visits the states that there are, by record number.
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

// partition follows the commits of one partition.
type partition struct {
	// records by offset, -1 where there is none.
	records []int32
	// end is one past the highest acknowledged offset, committed the last accepted commit, covered the highest one.
	end, committed, covered int64
	// taken are the offsets that a member of a share group was done with before the record was known that has them.
	taken map[int64]bool
	// lag is this partition's share of the lag, as last counted.
	lag     int64
	revoked uint32
}

// homeIndex is the index of a partition in partitions.all; 0 is none.
type homeIndex uint16

// partitions are those that events have named.
type partitions struct {
	at  map[place]homeIndex
	all []*partition
	// near has the index of each partition with a small number, by topic and number: most events name one, and a map
	// takes its time.
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

// of returns the partition that the event names. More partitions than an index can name share one that is never used.
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

// offsetLimit bounds the offsets that are believed: a run's topics are new, so theirs are not much more than its
// records.
func (m *Measurer) offsetLimit() int64 { return 8*int64(max(m.header.Records, 0)) + 1<<16 }

// add notes that the record has the offset; it reports false for an offset that can't be.
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

// committed takes the broker's answer to a commit. One that a fault kept from the subject counts all the same, one that
// a fault made up doesn't.
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

// auditedOffsets learns of commits whose answers nobody saw. When they were accepted is not known, so they make no
// samples.
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
	r.set(covered)
	switch {
	case !seen:
		m.settle(r, r.terminal)
	case r.terminal != none:
		m.latencies.record(commitDelay, r, at-r.terminal)
		m.settle(r, at)
	default:
		m.settle(r, at)
	}
}

// acknowledgedInShare takes the broker's answer to an acknowledgement in a share group (KIP-932): an accept or a reject
// stands for the commit of each record by itself. The lag goes by those that are acknowledged without a gap.
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
		p.taken[offset] = true // before the workload has heard which record it is
	}
	m.advance(p)
	m.follow(p)
}

// advance moves a share group's mark over what is acknowledged without a gap.
func (m *Measurer) advance(p *partition) {
	for p.committed < int64(len(p.records)) {
		if r := m.records.at(p.records[p.committed]); r == nil || !r.has(covered) {
			break
		}
		p.committed++
	}
	p.covered = max(p.covered, p.committed)
}

// follow brings the lag up to date after a change in p.
func (m *Measurer) follow(p *partition) {
	lag := max(0, p.end-p.committed)
	m.lag += lag - p.lag
	p.lag = lag
	m.out.LagMax, m.slot.lagPeak = max(m.out.LagMax, m.lag), max(m.slot.lagPeak, m.lag)
	m.recoveries.lagged(m.now, m.lag)
}

// auditedRecord learns of dead letters whose acknowledgements nobody saw. One that was already known says nothing about
// the record's replay, so it changes nothing.
func (m *Measurer) auditedRecord(e *history.Event) {
	r := m.records.at(e.Record)
	if r == nil && e.Claim.Present { // a dead letter without an id is whose it says
		r = m.records.at(m.lying(e.Claim.Topic, e.Claim.Partition, e.Claim.Offset))
	}
	if r == nil || m.role(e.Topic) != history.RoleDLQ || r.has(dead) {
		return
	}
	m.died(r)
}

// lying returns the number of the record at a place, None if none is known there.
func (m *Measurer) lying(topic int16, number int32, offset int64) int32 {
	index, known := m.partitions.at[place{topic, number}]
	if !known || offset < 0 || offset >= int64(len(m.partitions.all[index].records)) {
		return history.None
	}
	return m.partitions.all[index].records[offset]
}

// unnamed is an attempt in which the downstream found no id; its place is what the subject said of it.
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
