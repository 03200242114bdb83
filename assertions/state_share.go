package assertions

// State: share groups (KIP-932). A member is assigned records instead of partitions: the broker hands each record to
// one member at a time, and the member acknowledges each separately. The delivery of one offset takes the role that an
// assignment has in a consumer group. The acknowledgement that makes the broker forget the record, accept or reject,
// takes the role of a commit.
//
// A broker may deliver any record again, regardless of its member: a session ends with its connection, a lock expires,
// a new leader may have lost acknowledgements. So each further delivery justifies one more attempt, success and dead
// letter. There is one exception: if a member releases a record that it had just processed, the member itself caused
// the next delivery.

import (
	"fmt"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// delivery is the latest delivery of one offset to a member of a share group.
type delivery struct {
	by holder
	at time.Duration
	// number counts the deliveries that the history shows, count is the broker's own count.
	number uint16
	count  int32
	// excused are the further deliveries that justify another success; forced those that the member did not request by
	// a release.
	excused, forced uint16
	// released: its member gave it back; wasted: the member had processed it; stopping: the member was told to stop.
	released, wasted, stopping bool
	// returned: the previous delivery was given back by a member that might have continued with it. regained: the same
	// process had the record before and never acknowledged it, so it may still be processing it.
	returned, regained bool
	// open holds the processes to which it was delivered and that did not acknowledge it.
	open []holder
}

// handOut notes records that are handed to a member.
func (w *state) handOut(e *history.Event) {
	w.sharing = true
	p := w.partition(e.Topic, e.Partition)
	if p == nil || e.Instance < 0 || e.Offset < 0 || !w.share {
		return
	}
	by := holder{e.Instance, e.Run}
	if p.deliveries == nil {
		p.deliveries = map[int64]*delivery{}
	}
	to := min(e.Aux, e.Offset+holeLimit, offsetLimit)
	p.fetched = max(p.fetched, to)
	for offset := e.Offset; offset <= to; offset++ {
		d := p.deliveries[offset]
		if d == nil {
			d = &delivery{}
			p.deliveries[offset] = d
		}
		d.deliver(by, e)
	}
}

func (d *delivery) deliver(by holder, e *history.Event) {
	if d.number > 0 {
		if !d.wasted {
			d.excused = bump(d.excused)
		}
		if !d.released {
			d.forced = bump(d.forced)
		}
	}
	d.returned, d.regained = d.released && !d.stopping, slices.Contains(d.open, by)
	d.released, d.wasted, d.stopping = false, false, false
	d.by, d.at, d.number, d.count = by, e.Time, bump(d.number), e.N
	if !d.regained {
		d.open = append(d.open, by)
	}
}

// acknowledge notes that the process has finished its delivery, with any kind of acknowledgement.
func (d *delivery) acknowledge(by holder) {
	d.open = slices.DeleteFunc(d.open, func(one holder) bool { return one == by })
}

// askAck notes a range of offsets that a member acknowledges in the same way.
func (w *state) askAck(e *history.Event) {
	w.sharing = true
	p := w.partition(e.Topic, e.Partition)
	if p == nil || e.Instance < 0 || e.Offset < 0 || e.Aux < e.Offset || !w.share {
		return
	}
	by := holder{e.Instance, e.Run}
	to := min(e.Aux, e.Offset+holeLimit, offsetLimit)
	if to < e.Offset {
		return
	}
	c := &commit{
		op: e.Op, by: by, partition: p, offset: to + 1, at: e.Time, fetched: p.fetched, ack: e.N,
		named: ranges{{e.Offset, to}},
	}
	switch e.N {
	case history.AckAccept, history.AckReject:
		w.askLetters(p, c)
		w.scanNamed(p, c)
	case history.AckRelease:
		w.release(p, c)
	default:
		return
	}
	for offset := e.Offset; offset <= to; offset++ {
		if d := p.deliveries[offset]; d != nil {
			d.acknowledge(by)
		}
	}
	w.commits[commitKey{e.Op, e.Topic, e.Partition}] = c
	if c.ack != history.AckRelease {
		w.commit = c
	}
}

// askLetters notes the dead letters that a reject requests, where the broker writes them. Only the audit shows whether
// they exist: a broker that cannot write one archives the record all the same.
func (w *state) askLetters(p *partition, c *commit) {
	if c.ack != history.AckReject || !w.contract.BrokerLetters {
		return
	}
	for offset := c.named[0].from; offset <= min(c.named[0].to, p.log.last); offset++ {
		number := p.log.at(offset)
		r := w.record(number)
		if r == nil {
			continue
		}
		one := w.newWrite(number, r, c.by)
		one.op, one.topic, one.at, one.letter, one.rejected = c.op, p.topic, c.at, true, true
		w.askLetter(&one, r)
		w.rejected = append(w.rejected, one)
	}
}

// release gives records back when the release is requested, because the broker may deliver them again before its answer
// is seen.
func (w *state) release(p *partition, c *commit) {
	for offset := c.named[0].from; offset <= c.named[0].to; offset++ {
		if d := p.deliveries[offset]; d != nil && d.by == c.by {
			d.released, d.stopping = true, w.instance(c.by.instance).term != never
		}
	}
}

// answerAck notes the result of an acknowledgement.
func (w *state) answerAck(e *history.Event) {
	c := w.answered(e)
	switch {
	case c == nil, c.ack == history.AckGap: // there was no such request, or in a damaged history it was a commit
		return
	case c.ack == history.AckRelease:
		w.released(c)
		return
	}
	w.commit = c
	if c.accepted {
		w.passAll(c, true)
		w.takeDone(c)
	}
}

// released notes records that were processed in the delivery that their member gave back with the broker's consent. The
// release is the only reason why they will be processed again.
func (w *state) released(c *commit) {
	p := c.partition
	for offset := c.named[0].from; offset <= c.named[0].to; offset++ {
		d, number := p.deliveries[offset], p.log.at(offset)
		if d == nil || d.by != c.by || d.at > c.at || number == none {
			continue
		}
		r := w.records.at(int(number))
		d.wasted = c.accepted && !c.withheld && r.held == c.by && w.lastSuccess(r) >= d.at && w.lastSuccess(r) <= c.at
	}
}

// takeDone moves the partition's marks to an acknowledgement that the broker accepted.
func (w *state) takeDone(c *commit) {
	p, one := c.partition, c.named[0]
	w.passHoles(c)
	p.named = p.named.with(one)
	for offset := one.from; offset <= min(one.to, p.log.last); offset++ {
		if number := p.log.at(offset); number != none {
			w.coverIfAll(number, w.records.at(int(number)), place{p.topic, p.place.partition, offset})
		}
	}
}

// deed describes the commit or acknowledgement that passed the record. It names the partition where that is not the
// one in which the record was sent.
func (w *state) deed(p *pass) string {
	of := ""
	if r := w.record(p.number); p.topic != r.topic || p.partition != r.partition {
		of = " of " + w.partitionName(p.topic, p.partition)
	}
	switch p.ack {
	case history.AckAccept:
		return fmt.Sprintf("offset %d%s was accepted", p.place.offset, of)
	case history.AckReject:
		return fmt.Sprintf("offset %d%s was rejected", p.place.offset, of)
	}
	return fmt.Sprintf("offset %d%s was committed", p.offset, of)
}

// reached describes how far the group has come in the partition, according to the audit.
func (w *state) reached(p *partition) string {
	switch {
	case w.share:
		return fmt.Sprintf("the share group begins at %d", p.auditCommits)
	case w.contract.OffsetsOutside:
		return fmt.Sprintf("its process was handed offsets up to %d", p.fetched)
	}
	return fmt.Sprintf("the group is at %d", p.auditCommits)
}

// deliveryOf returns the latest delivery of the record's current position, or nil if there was none or the position is
// not known yet.
func (w *state) deliveryOf(number int32, r *record) *delivery {
	if !w.share {
		return nil
	}
	at := w.position(number, r)
	p := w.partition(at.topic, at.partition)
	if p == nil || at.offset < 0 {
		return nil
	}
	return p.deliveries[at.offset]
}

// custody returns the delivery of a share group in which an attempt is made, and notes whether its process has that
// delivery. A record may be attempted before the workload learns its position; then this is its first delivery.
func (w *state) custody(a *attempt, r *record) (delivery uint16) {
	d := w.deliveryOf(a.number, r)
	if d == nil {
		return 1
	}
	a.stray, a.early, a.returned = d.by != a.by, d.regained, d.returned
	return d.number
}

// lastDelivery is the delivery after which a broker gives a record up, by default (group.share.delivery.count.limit).
const lastDelivery = 5

// enough reports whether a dead letter was requested after as many deliveries as the contract allows attempts, where
// the broker counts them. A delivery without an attempt, because its member was stopped, counts as well. A record may
// be dead-lettered at any time in its last delivery, because it would otherwise be lost.
func (w *state) enough(one *write) bool {
	return one.deliveries >= lastDelivery ||
		w.contract.Counter == history.CounterDelivery && one.deliveries >= w.contract.MaxAttempts
}
