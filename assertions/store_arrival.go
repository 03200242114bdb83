package assertions

// store-lifecycle, part three: dead letters come into the store, each once, before their offsets are committed.

import (
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// judgeSources: no two entries stand for the same record at the same place: by what the entries say, and, where the
// run's own routers made them, by what the dead letters say that they are of. A letter that names no topic of the run
// is of another service.
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
			case first[at] != entry: // one whose source is its letter's own place is no other
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

// forgotten reports whether an entry had been removed, its time being over, when the next was made of the same letter,
// and no router had committed that: the letter is read again after a router's restart, and nothing in the table tells
// any more that it was there.
func (c *storeLifecycle) forgotten(other *storeEntry, letter place, next *storeChange) bool {
	last := &other.changes[len(other.changes)-1]
	if last.To != history.StoreAbsent || last.made == never || next.made == never || last.made > next.made {
		return false
	}
	commit, passed := c.passedBy(letter)
	return !passed || commit.at > next.made
}

// claimed are the places at which the records failed, by where their dead letters lie.
func (c *storeLifecycle) claimed() map[place]place {
	of := map[place]place{}
	if c.contract.Routers == 0 {
		return of
	}
	for i := range c.w.found {
		if one := &c.w.found[i]; one.claim.Present && one.claim.Topic >= 0 && one.claim.Offset >= 0 {
			of[one.place] = place{one.claim.Topic, one.claim.Partition, one.claim.Offset}
		}
	}
	return of
}

// arrivals finds the entry of a dead letter: by its own place, or, for a further copy of it, by the place that both say
// they come from.
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
	if one.claim.Present && one.claim.Offset >= 0 {
		return a.bySource[place{one.claim.Topic, one.claim.Partition, one.claim.Offset}]
	}
	return nil
}

// judgeRouters: an offset is committed when what is below it is durable in the table. The commit is stamped after it
// was read from the router, the row was made when the database says: made later than that, it was not there yet.
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
			continue // judgeArrival
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

// judgeArrival: a dead letter that is in its topic is in the store, or was: once a router has committed past it nobody
// brings it there any more; and a router that was alive, with everything healed, has had the drain for it.
func (c *storeLifecycle) judgeArrival() {
	// That the watcher was away for a while is no reason: the audit table tells later what it missed.
	if c.contract.Routers == 0 || !c.s.audited || c.s.polled {
		return
	}
	c.judgeVanished()
	for _, entry := range c.entries {
		if entry.letter.offset < 0 && entry.source.offset < 0 {
			// It was removed before anybody could look at it, and may be of any of them.
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

// judgeVanished: an entry that was there, and that nothing removed, is there at the end: what was committed outlives a
// crash of the database.
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
		return fmt.Sprintf("the dead letter at %s-%d offset %d: %s", c.w.topicName(one.topic), one.partition, one.offset, why)
	}, mark)
	if one.number < 0 {
		s.topic, s.partition, s.offset = one.topic, one.partition, one.offset
	}
	c.saw("lost-in-store", s)
}

// routed reports whether some router ran during all of the drain.
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
