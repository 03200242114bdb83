package assertions

// store-lifecycle, part three: each dead letter arrives in the store once, before its offset is committed.

import (
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// judgeSources reports two entries that stand for the same record at the same place. The place is the one stated by the
// entry and, where the run's own routers made the entry, the one stated by the dead letter. A dead letter that names no
// topic of the run belongs to another service.
func (c *storeLifecycle) judgeSources() {
	// A record's place and a dead letter's are in different topics, so one map holds both.
	first, claimed := map[place]*storeEntry{}, c.claimed()
	for _, entry := range c.entries {
		if len(entry.changes) == 0 {
			continue
		}
		var other *storeEntry
		of, known := claimed[entry.letter]
		if !known {
			of = place{none, none, none}
		}
		for _, at := range []place{entry.source, entry.letter, of} {
			switch {
			case at.offset < 0:
			case first[at] == nil:
				first[at] = entry
			case first[at] != entry: // an entry whose source is the place of its own dead letter is not a second one
				other = first[at]
			}
		}
		if other == nil {
			continue
		}
		created := &entry.changes[0]
		if c.forgotten(other, entry.letter, created) {
			c.remark("removed by the retention before its dead letter was committed")
			continue
		}
		c.saw("doubled-in-store", c.of(entry, created.seen, func() string {
			return fmt.Sprintf("entries %d and %d are of the same dead letter, or of the same record at the same place",
				other.number, entry.number)
		}, changeMark(created)))
	}
}

// forgotten reports whether an entry had been removed at the end of its retention when the next entry was made of the
// same dead letter, and no router had committed that dead letter. After a router's restart the dead letter is read
// again, and the table no longer shows that it was there.
func (c *storeLifecycle) forgotten(other *storeEntry, letter place, next *storeChange) bool {
	last := &other.changes[len(other.changes)-1]
	if last.To != history.StoreAbsent || last.made == never || next.made == never || last.made > next.made {
		return false
	}
	commit, passed := c.passedBy(letter)
	return !passed || commit.at > next.made
}

// claimed returns the places at which the records failed, by the places of their dead letters.
func (c *storeLifecycle) claimed() map[place]place {
	of := map[place]place{}
	if c.contract.Routers == 0 {
		return of
	}
	for i := range c.w.found {
		if one := &c.w.found[i]; one.claim != nil && one.claim.Topic >= 0 && one.claim.Offset >= 0 {
			of[one.place] = place{one.claim.Topic, one.claim.Partition, one.claim.Offset}
		}
	}
	return of
}

// arrivals finds the entry of a dead letter: by its own place or, for a further copy of it, by the source position that
// both state.
type arrivals struct{ byLetter, bySource map[place]*storeEntry }

func (c *storeLifecycle) arrivals() arrivals {
	found := arrivals{map[place]*storeEntry{}, map[place]*storeEntry{}}
	for _, entry := range c.entries {
		if entry.letter.offset >= 0 && found.byLetter[entry.letter] == nil {
			found.byLetter[entry.letter] = entry
		}
		if entry.source.offset >= 0 && found.bySource[entry.source] == nil {
			found.bySource[entry.source] = entry
		}
	}
	return found
}

func (a arrivals) of(one *letter) *storeEntry {
	if entry := a.byLetter[one.place]; entry != nil {
		return entry
	}
	if one.claim != nil && one.claim.Offset >= 0 {
		return a.bySource[place{one.claim.Topic, one.claim.Partition, one.claim.Offset}]
	}
	return nil
}

// judgeRouters checks that an offset is committed only when everything below it is durable in the table. The commit is
// stamped after it was read from the router, and the database dates the row. A row dated later did not exist at the
// time of the commit.
func (c *storeLifecycle) judgeRouters() {
	known := c.arrivals()
	for i := range c.w.found {
		one := &c.w.found[i]
		if one.audit != c.w.audits[one.topic] {
			continue
		}
		commit, passed := c.passedBy(one.place)
		if !passed {
			continue
		}
		c.result.Judged++
		entry := known.of(one)
		if entry == nil || len(entry.changes) == 0 {
			continue // judged by judgeArrival
		}
		created := &entry.changes[0]
		if created.made == never || created.polled || created.From != history.StoreAbsent ||
			created.made-c.s.blur-clockGrain <= commit.at {
			continue
		}
		c.saw("committed-before-stored", c.of(entry, created.seen, func() string {
			return fmt.Sprintf("%s committed past the dead letter at %s-%d offset %d, and its entry was made %s later",
				serviceName(commit.by), c.w.topicName(one.topic), one.partition, one.offset, units.Text(created.made-commit.at))
		}, moment{history.KindCommitRequest, commit.at}, changeMark(created)))
	}
}

// passedBy returns the first accepted commit of a router that passes the place.
func (c *storeLifecycle) passedBy(at place) (routerCommit, bool) {
	first, found := routerCommit{}, false
	for _, one := range c.s.commits {
		if one.place.topic == at.topic && one.place.partition == at.partition &&
			one.place.offset > at.offset && (!found || one.at < first.at) {
			first, found = one, true
		}
	}
	return first, found
}

// judgeArrival reports a dead letter in its topic that never reached the store. Once a router has committed past it, no
// router delivers it any more. A router that was alive, with all faults lifted, had the drain to deliver it.
func (c *storeLifecycle) judgeArrival() {
	// A gap in the observation does not prevent the judgement, because the audit table shows later what was missed.
	if c.contract.Routers == 0 || !c.s.audited || c.s.polled {
		return
	}
	c.judgeVanished()
	for _, entry := range c.entries {
		if entry.letter.offset < 0 && entry.source.offset < 0 {
			// It was removed before it could be observed, and may belong to any of the dead letters.
			c.remark("an entry of which it isn't known whose it was")
			return
		}
	}
	known := c.arrivals()
	whole := c.w.standsStill() && c.w.healed() && c.routed()
	for i := range c.w.found {
		one := &c.w.found[i]
		if one.audit != c.w.audits[one.topic] || known.of(one) != nil {
			continue
		}
		commit, passed := c.passedBy(one.place)
		switch {
		case passed:
			c.lostLetter(one, moment{history.KindCommitRequest, commit.at},
				"a router has committed past it, and it is not in the store")
		case whole:
			c.lostLetter(one, moment{history.KindAuditRecord, one.at},
				"it is not in the store though a router was alive all through the drain")
		default:
			c.remark("not in the store, and no router had its whole time")
		}
	}
}

// judgeVanished reports an entry that was there, that nothing removed, and that is missing at the end. Committed rows
// survive a crash of the database.
func (c *storeLifecycle) judgeVanished() {
	for _, entry := range c.entries {
		if n := len(entry.changes); n == 0 || entry.there || entry.changes[n-1].To == history.StoreAbsent {
			continue
		}
		last := &entry.changes[len(entry.changes)-1]
		c.saw("lost-in-store", c.of(entry, endless, func() string {
			return fmt.Sprintf("entry %d was %s when it was last seen; nothing removed it, and it is not in the table any more",
				entry.number, last.To)
		}, changeMark(last)))
	}
}

func (c *storeLifecycle) lostLetter(one *letter, mark moment, why string) {
	s := c.w.about(one.number, 0, endless, func() string {
		return fmt.Sprintf("the dead letter at %s offset %d: %s", c.w.partitionName(one.topic, one.partition), one.offset,
			why)
	}, mark)
	if one.number < 0 {
		s.topic, s.partition, s.offset = one.topic, one.partition, one.offset
	}
	c.saw("lost-in-store", s)
}

// routed reports whether a router ran during the whole drain.
func (c *storeLifecycle) routed() bool {
	from, to := c.w.phase(history.PhaseDrain)
	for instance, process := range c.s.processes {
		if kind, _ := history.StoreProcess(instance); kind != "router" || process.stopped != never {
			continue
		}
		for _, alive := range process.alive {
			if alive.from <= from && alive.to >= to && !touches(process.still, from, to) {
				return true
			}
		}
	}
	return false
}

func touches(spans []span, from, to time.Duration) bool {
	for _, one := range spans {
		if one.lasted >= answerStall && one.from <= to && one.to >= from {
			return true
		}
	}
	return false
}
