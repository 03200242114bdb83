package measure

import "github.com/dlqbench/dlqbench/history"

// entryIndex is the index of an entry's name in entryNames.
type entryIndex uint8

const (
	entrySucceeded entryIndex = iota
	entryDeadLettered
	entryReplayed
	entryLogical
	entryCommitted
	entryHeld
	entryForfeited
	entryUnfinished
	entryEndedTwice
	entryUnacknowledged
	entryNotSent
	noteDuplicates
	noteUnasked
	noteRepeated
	entryCount
)

const (
	firstDifference = entryUnfinished
	firstNote       = noteDuplicates
)

func (i entryIndex) name() string {
	return [entryCount]string{
		EntrySucceeded, EntryDeadLettered, EntryReplayed, EntryLogical, EntryCommitted, EntryHeld, EntryForfeited,
		EntryUnfinished, EntryEndedTwice, EntryUnacknowledged, EntryNotSent, NoteDuplicates, NoteUnasked, NoteRepeated,
	}[i]
}

// conserve assigns every record to its entry. Ledger.Unfinished is one of the entries.
func (m *Measurer) conserve() {
	var entries [entryCount]Entry
	put := func(into entryIndex, number int32) {
		entry := &entries[into]
		entry.Count++
		if into >= firstDifference && len(entry.Records) < MaxEntryRecords {
			entry.Records = append(entry.Records, EntryRecord{Record: number, Partition: history.None, Offset: history.None})
		}
	}
	m.records.each(func(number int32, r *record) {
		if !r.has(sent) {
			if r.has(acked) && !m.over(r) {
				m.out.Ledger.Unfinished++ // from a history whose beginning is missing
			}
			return
		}
		entry := m.entryOf(r)
		if as, excused := m.excused[number]; excused && entry == entryUnfinished {
			entry = as
		}
		put(entry, number)
		if r.has(duplicate) {
			put(noteDuplicates, number)
		}
		if r.has(twice) {
			put(noteRepeated, number)
		}
		if !r.has(acked) && r.facts&(success|logical|dead) != 0 {
			put(noteUnasked, number)
		}
	})
	m.out.Ledger.Unfinished += entries[entryUnfinished].Count
	m.out.Ledger.Held, m.out.Ledger.Forfeited = entries[entryHeld].Count, entries[entryForfeited].Count
	m.putNotSent(&entries[entryNotSent])
	out := &m.out.Conservation
	out.Planned = max(m.out.Ledger.Planned, 0)
	for i := range entries {
		entry := &entries[i]
		entry.Name, entry.Difference = entryIndex(i).name(), entryIndex(i) >= firstDifference && entryIndex(i) < firstNote
		if entryIndex(i) >= firstNote {
			out.Notes = append(out.Notes, *entry)
		} else {
			out.Entries = append(out.Entries, *entry)
		}
	}
	out.Unseen = m.header.Contract().WireOnly
	m.locate(out)
}

// entryOf returns the entry in which a sent record ended. Of one that was produced twice, a copy may succeed and the
// other fail logically, because its work is done.
func (m *Measurer) entryOf(r *record) entryIndex {
	// A dead letter shows that a logical failure was not the end, where the contract leaves that open.
	ended := r.has(logical) && !m.header.Contract().LogicalEither
	switch {
	case !r.has(acked):
		return entryUnacknowledged
	case !m.over(r):
		return entryUnfinished
	case r.has(dead) && r.has(success) && r.has(replayed|returned) && !ended:
		return entryReplayed
	case r.has(success) && r.has(dead), r.has(success) && r.has(logical) && !r.has(twice), r.has(dead) && ended:
		return entryEndedTwice
	case r.has(success):
		return entrySucceeded
	case r.has(dead):
		return entryDeadLettered
	case r.has(logical):
		return entryLogical
	}
	return entryCommitted
}

// putNotSent counts the planned records that were never handed over. They have no state, so it searches for the first
// of them.
func (m *Measurer) putNotSent(entry *Entry) {
	entry.Count = max(m.out.Ledger.Planned, 0) - m.out.Ledger.Sent
	for number := 0; number < m.records.limit && len(entry.Records) < int(min(entry.Count, MaxEntryRecords)); number++ {
		chunk := number / recordsPerChunk
		there := chunk < len(m.records.chunks) && m.records.chunks[chunk] != nil
		if !there || !m.records.chunks[chunk][number%recordsPerChunk].has(sent) {
			entry.Records = append(entry.Records, EntryRecord{Record: int32(number), Partition: history.None,
				Offset: history.None})
		}
	}
}

// locate adds ids and positions to the listed records.
func (m *Measurer) locate(c *Conservation) {
	ids := m.header.IDs()
	listed := map[int32][]*EntryRecord{}
	for _, entries := range [][]Entry{c.Entries, c.Notes} {
		for i := range entries {
			if entries[i].Records == nil {
				entries[i].Records = []EntryRecord{}
			}
			for k := range entries[i].Records {
				one := &entries[i].Records[k]
				one.ID = ids.Token(one.Record)
				listed[one.Record] = append(listed[one.Record], one)
			}
		}
	}
	if len(listed) == 0 {
		return
	}
	for at, index := range m.partitions.at {
		if at.topic < 0 || int(at.topic) >= len(m.header.Topics) {
			continue
		}
		for offset, number := range m.partitions.all[index].records {
			for _, one := range listed[number] {
				one.Topic, one.Partition, one.Offset = m.header.Topics[at.topic].Name, at.partition, int64(offset)
			}
		}
	}
}
