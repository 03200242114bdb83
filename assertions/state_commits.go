package assertions

// State: commits. A commit declares that everything below an offset is done. Records that are not done are noted
// when the request is read, and held against the commit when the broker's answer is known, because a refused
// commit moved nothing.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const (
	// holeLimit is the largest number of offsets beyond the known ones that are examined for a commit.
	holeLimit = 1 << 16
	// offsetLimit keeps sums of offsets within their type, whatever offsets the events contain.
	offsetLimit = int64(1) << 60
)

type commitKey struct {
	op        int64
	topic     int16
	partition int32
}

// commit is a commit that was read. The broker's answer adds its result.
type commit struct {
	op        int64
	by        holder
	epoch     uint32
	partition *partition
	offset    int64
	at        time.Duration
	fetched   int64
	// transaction: it counts when its transaction is committed, and only then (see state_txn.go).
	transaction bool
	// joined holds the records whose dead letters or retry copies were stored in the transaction before its end
	// was requested.
	joined map[int32]bool
	// named holds the offsets beyond the commit that its metadata declares finished, if the contract gives the
	// metadata that meaning. malformed: the metadata cannot be read.
	named     ranges
	malformed bool
	// open holds the positions below it that were not done, holes those of which nothing was known yet.
	open  []openPlace
	holes []int64
	// Set by the answer.
	answered time.Duration
	accepted bool
	withheld bool
	forged   bool
	// further: it was accepted, and exceeded all commits before it.
	further bool
	// ack is how a share group's record was acknowledged (AckAccept …), or 0 for a commit of offsets. An
	// acknowledgement consists of its named offsets only.
	ack int32
	// spent: its holder rewound before it was answered.
	spent bool
	// other: its client is known not to be librdkafka.
	other bool
	// stranger: its process neither had the partition nor ever fetched from it.
	stranger bool
}

type openPlace struct {
	number int32
	offset int64
	named  bool // by the commit's metadata; it lies beyond the committed offset
	// state is the record's state when a replay began its next generation, while the commit had no answer.
	state *record
}

// pass is a record that a commit passed before it was done.
type pass struct {
	number int32
	place
	at       time.Duration
	by       holder
	offset   int64 // the committed offset
	accepted bool  // false: the broker's answer is not known
	fetched  bool  // the record had been delivered to an instance
	named    bool  // it lies beyond the committed offset, and the commit's metadata declares it finished
	ack      int32 // how a share group's record was acknowledged, 0 for a commit of offsets
	// attempts is the number of attempts until the commit was answered, math.MaxUint16 if the record was not known then;
	// delivery and rewound are those of the partition by then.
	attempts, delivery, rewound uint16
	// state is the record's state when a replay began its next generation; nil while it is in the generation of
	// the pass.
	state *record
	// further holds the first such commit for each other of its places, if it goes through retry topics.
	further []pass
}

// stateOf returns the state of the passed record in the replay generation in which it was passed.
func (w *state) stateOf(p *pass) *record {
	if p.state != nil {
		return p.state
	}
	return w.record(p.number)
}

// add notes a later commit that passed another place of the record.
func (p *pass) add(later pass) {
	same := func(known pass) bool { return known.place == later.place }
	if !same(*p) && !slices.ContainsFunc(p.further, same) {
		p.further = append(p.further, later)
	}
}

// passesOf visits the commit that passed a record, and those that passed further places of it in the same generation.
func (w *state) passesOf(p *pass, visit func(*pass)) {
	visit(p)
	for i := range p.further {
		p.further[i].state = p.state
		visit(&p.further[i])
	}
}

// owesLetter reports whether the passed record owed a dead letter: one was requested, and nothing else may have ended
// the record by then.
func (w *state) owesLetter(p *pass) bool {
	r := w.stateOf(p)
	return w.letterAsked(r) >= 0 && !w.perhapsOver(p.number, r, p.at) && !w.endedElsewhere(p.number) &&
		!w.contract.Halts(r.kind())
}

func (p *partition) number() int32 { return p.place.partition }

func (w *state) askCommit(e *history.Event) {
	p := w.partition(e.Topic, e.Partition)
	if p == nil || e.Instance < 0 {
		return
	}
	by := holder{e.Instance, e.Run}
	_, known := p.known[by]
	c := &commit{
		op: e.Op, by: by, epoch: p.epoch, partition: p, offset: e.Offset, at: e.Time, fetched: p.fetched,
		transaction: e.Flags.Has(history.InTransaction) && e.ProducerID >= 0, stranger: !known,
		other: e.Flags.Has(history.NotLibrdkafka),
	}
	w.committing = true
	w.readMetadata(c, e.Text)
	if c.transaction {
		w.joinCommit(c, e)
	} else {
		w.scan(p, c)
	}
	w.commits[commitKey{e.Op, e.Topic, e.Partition}] = c
	w.commit = c
}

// scan looks for positions below the commit that are not done, from the first position that can still be open. In
// a correct run that is where the last commit ended, so each position is examined about once.
func (w *state) scan(p *partition, c *commit) {
	limit := min(c.offset, max(p.log.last, p.fetched)+1+holeLimit)
	if p.log.first >= 0 && p.settled < p.log.first-holeLimit {
		p.settled = p.log.first
	}
	prefix := true
	for offset := p.settled; offset < limit; offset++ {
		number := p.log.at(offset)
		if number == none {
			prefix = false
			if len(c.holes) < holeLimit {
				c.holes = append(c.holes, offset)
			} else if offset > p.log.last {
				break // a damaged history may show fetches far beyond the known positions
			}
			continue
		}
		r := w.records.at(int(number))
		if w.perhapsDone(number, r, place{p.topic, p.place.partition, offset}, c.at) {
			if prefix {
				p.settled = offset + 1
			}
			continue
		}
		prefix = false
		c.open = append(c.open, openPlace{number: number, offset: offset})
	}
	w.scanNamed(p, c)
}

// answered returns the commit or acknowledgement that the event answers, with its result, or nil if there was no
// such request.
func (w *state) answered(e *history.Event) *commit {
	key := commitKey{e.Op, e.Topic, e.Partition}
	c := w.commits[key]
	if c == nil {
		return nil
	}
	delete(w.commits, key)
	c.answered = e.Time
	c.withheld, c.forged = e.Flags.Has(history.Withheld), e.Flags.Has(history.Forged)
	c.accepted = e.Code == 0 && !c.forged
	if c.withheld && !c.other && c.ack == 0 {
		w.unheard = append(w.unheard, c)
	}
	return c
}

func (w *state) answerCommit(e *history.Event) {
	c := w.answered(e)
	if c == nil {
		return
	}
	w.commit = c
	if !c.accepted || c.withheld {
		w.excuse(c)
	}
	if c.transaction {
		w.joined(c, e)
		return
	}
	if !c.accepted {
		return
	}
	w.passAll(c, true)
	w.advance(c)
}

// excuse justifies another delivery of what the commit covers, if the commit failed or its sender does not know
// whether it succeeded.
func (w *state) excuse(c *commit) {
	p := c.partition
	if c.epoch == p.epoch && !c.spent {
		p.lose(c.by, c.offset)
	}
	from := p.covered
	if p.log.first >= 0 {
		from = max(from, p.log.first)
	}
	for offset := from; offset < min(c.offset, p.log.last+1); offset++ {
		if number := p.log.at(offset); number != none {
			r := w.records.at(int(number))
			r.excuses = bump(r.excuses)
		}
	}
	if len(c.holes) > 0 || c.offset > p.log.last+1 {
		w.disturb(p) // it covers records of which nothing is known yet
	}
}

// advance moves the partition's marks to an accepted commit.
func (w *state) advance(c *commit) {
	p := c.partition
	c.further = c.offset > p.covered || len(c.named) > len(p.named)
	w.passHoles(c)
	w.coverNamed(p, c)
	before := p.committed
	p.committed, p.named = c.offset, c.named
	p.settled = max(p.settled, c.offset)
	for offset := max(min(p.covered, before), p.log.first, 0); offset < min(c.offset, p.log.last+1); offset++ {
		number := p.log.at(offset)
		if number == none {
			continue
		}
		r := w.records.at(int(number))
		w.coverIfAll(number, r, place{p.topic, p.place.partition, offset})
	}
	p.covered = max(p.covered, c.offset)
	w.uncover(p, before)
}

// uncover notes that the group's offset went back from before: the next holder is handed the records between again,
// wherever copies of them lie.
func (w *state) uncover(p *partition, before int64) {
	for offset := max(p.committed, p.log.first, 0); offset < min(before, p.log.last+1); offset++ {
		if number := p.log.at(offset); number != none && !p.named.has(offset) {
			w.records.at(int(number)).flags &^= markCovered
		}
	}
}

// passHoles holds positions that were unknown when the commit was read against an accepted commit: at once if they
// are known by now, otherwise when they become known. A consumer may finish a record before its producer has
// learned the record's position. Records stored in the commit's transaction count from the answer to its end.
// Everything that counts by then is taken to have been in time, because the order can no longer be determined.
func (w *state) passHoles(c *commit) {
	p, by := c.partition, c.at
	if c.transaction {
		by = c.answered
	}
	for _, offset := range c.holes {
		if number := p.log.at(offset); number != none {
			r := w.records.at(int(number))
			at := place{p.topic, p.place.partition, offset}
			if !c.joined[number] && !w.perhapsDone(number, r, at, by) {
				w.pass(number, r, pass{at: c.at, by: c.by, place: at, accepted: true, offset: c.offset,
					fetched: offset <= c.fetched, ack: c.ack, attempts: r.attempts, delivery: uint16(p.delivery),
					rewound: p.rewound})
			}
			continue
		}
		if _, known := p.holes[offset]; known || len(p.holes) >= holeLimit {
			continue
		}
		if p.holes == nil {
			p.holes = map[int64]time.Duration{}
		}
		p.holes[offset] = by
	}
}

// passAll holds the positions that were not done against the commit.
func (w *state) passAll(c *commit, accepted bool) {
	for _, open := range c.open {
		r := w.records.at(int(open.number))
		w.pass(open.number, r, pass{
			at: c.at, by: c.by, offset: c.offset, accepted: accepted, fetched: open.offset <= c.fetched, named: open.named,
			ack: c.ack, place: place{c.partition.topic, c.partition.place.partition, open.offset}, state: open.state,
			attempts: r.attempts, delivery: uint16(c.partition.delivery), rewound: c.partition.rewound,
		})
	}
}

// pass notes the first commit that passed a record, in its replay generation, too early, and likewise for its copies.
func (w *state) pass(number int32, r *record, one pass) {
	one.number = number
	if one.state != nil {
		r = one.state
	}
	if r.has(markPassed) {
		if w.hops && one.state == nil {
			w.passes[w.passOf[number]].add(one)
		}
		return
	}
	r.flags |= markPassed
	if one.state == nil {
		w.passOf[number] = len(w.passes)
	}
	w.passes = append(w.passes, one)
}

// keepState keeps the state of a record whose next replay generation begins, for the commits that passed it and have no
// answer so far: whether they count is known later.
func (w *state) keepState(number int32, r *record) {
	var kept *record // one for all: of several commits, one passed it first
	for _, c := range w.commits {
		for i := range c.open {
			open := &c.open[i]
			if open.number != number || open.state != nil {
				continue
			}
			if kept == nil {
				w.placeUnnamed() // while their replay generation is known
				kept = w.frozen(r)
			}
			open.state = kept
		}
	}
}
