package consumer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type change uint8

const (
	assigned change = iota
	revoked
	lost
)

// rebalance is a change of the assignment; done is closed when the loop has dealt with it.
type rebalance struct {
	change     change
	partitions []int32
	done       chan struct{}
}

// callback returns the client's rebalance callback: it hands the change to the loop and waits, since for as long as a callback
// runs the partitions are still this member's. The loop bounds the wait.
func (l *loop) callback(change change) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		event := rebalance{change: change, partitions: partitions[l.config.Topic], done: make(chan struct{})}
		if len(event.partitions) == 0 {
			return
		}
		select {
		case l.rebalances <- event:
		case <-l.done:
			return
		}
		select {
		case <-event.done:
		case <-l.done:
		}
	}
}

func (l *loop) rebalance(event rebalance) {
	switch event.change {
	case assigned:
		for _, id := range event.partitions {
			l.partitions[id] = &partition{id: id, tracker: l.parts.NewTracker(), committed: -1, draining: l.stopping}
		}
		close(event.done)
	case revoked:
		l.drain(event.partitions, revokeLimit, revokeLimit+commitLimit/3, event.done)
	case lost:
		// Another member has them by now: nothing may be committed.
		for _, id := range event.partitions {
			if home := l.partitions[id]; home != nil {
				l.drop(home)
			}
		}
		close(event.done)
	}
	l.config.Logger.Debug().Ints32("partitions", event.partitions).Str("change", [...]string{"assigned", "revoked", "lost"}[event.change]).Msg("the assignment changed")
	l.report()
}

// drain is partitions on their way out: nothing new is begun in them, attempts and publications under way may end until work,
// the finished prefix is committed, and at until they are dropped whatever happened.
type drain struct {
	homes       []*partition
	work, until time.Time
	// tried: a commit was made since the work ended; further ones follow at the commit interval.
	tried bool
	done  chan struct{}
}

func (d *drain) deadline() time.Time {
	if d.busy() && time.Now().Before(d.work) {
		return d.work
	}
	return d.until
}

func (d *drain) busy() bool {
	for _, home := range d.homes {
		if home.busy > 0 && !home.gone {
			return true
		}
	}
	return false
}

func (l *loop) drain(partitions []int32, work, until time.Duration, done chan struct{}) {
	now := time.Now()
	d := &drain{work: now.Add(work), until: now.Add(until), done: done}
	for _, id := range partitions {
		home := l.partitions[id]
		if home == nil {
			continue
		}
		home.draining = true
		l.schedule.forget(home)
		d.homes = append(d.homes, home)
	}
	l.drains = append(l.drains, d)
}

// advanceDrains moves each drain on: wait for the work, commit, drop.
func (l *loop) advanceDrains(now time.Time) {
	l.drains = slices.DeleteFunc(l.drains, func(d *drain) bool {
		if d.busy() && now.Before(d.work) {
			return false
		}
		if l.unclean(d.homes) && now.Before(d.until) {
			if !d.tried && l.committing == nil {
				d.tried = true
				l.commit()
			}
			return false
		}
		for _, home := range d.homes {
			l.drop(home)
		}
		close(d.done)
		return true
	})
}

// unclean reports whether some finished prefix is not committed yet.
func (l *loop) unclean(homes []*partition) bool {
	for _, home := range homes {
		if next, _, _, ok := home.tracker.Prefix(); ok && next > home.committed && !home.gone {
			return true
		}
	}
	return false
}

// drop forgets a partition; what is still under way in it comes back to nothing.
func (l *loop) drop(home *partition) {
	if home.gone {
		return
	}
	home.gone, home.draining = true, true
	l.inFlight -= home.active
	l.schedule.forget(home)
	if home.paused {
		// The client remembers pauses beyond the assignment: a partition that came back would stay paused.
		l.client.ResumeFetchPartitions(map[string][]int32{l.config.Topic: {home.id}})
	}
	if l.partitions[home.id] == home {
		delete(l.partitions, home.id)
	}
}

// stop begins the orderly end: all partitions are drained, and what is in backoff is asked about.
func (l *loop) stop() {
	l.stopping = true
	var ids []int32
	for id, home := range l.partitions {
		ids = append(ids, id)
		held := l.schedule.inPhase(home, waiting)
		home.draining = true
		for _, t := range held {
			l.schedule.cancel(t)
			l.atStop(t)
		}
	}
	l.drain(ids, l.grace(workShare), l.grace(commitShare), make(chan struct{}))
}

var errStopped = errors.New("the consumer stopped while the record was in backoff")

// atStop does with a task in backoff what the part says; by default it is left as it is.
func (l *loop) atStop(t *task) {
	switch l.parts.AtStop(t.record) {
	case Finish:
		l.finish(t)
	case DeadLetter:
		l.deadLetter(t, errStopped)
	case Retry:
	}
}

// commitRequest is one commit: how far each partition is finished.
type commitRequest struct {
	marks  []commitMark
	failed map[int32]error
}

type commitMark struct {
	home *partition
	at   kgo.EpochOffset
}

func (r *commitRequest) offsets() map[int32]kgo.EpochOffset {
	offsets := make(map[int32]kgo.EpochOffset, len(r.marks))
	for _, mark := range r.marks {
		offsets[mark.home.id] = mark.at
	}
	return offsets
}

// commit has the finished prefixes committed that are further than what was accepted; one commit is under way at a time, so
// none can overtake another.
func (l *loop) commit() {
	if l.committing != nil {
		return
	}
	request := &commitRequest{}
	for _, home := range l.partitions {
		if next, epoch, _, ok := home.tracker.Prefix(); ok && next > home.committed {
			request.marks = append(request.marks, commitMark{home, kgo.EpochOffset{Epoch: epoch, Offset: next}})
		}
		if home.paused {
			l.throttle(home)
		}
	}
	if len(request.marks) > 0 {
		l.committing = request
		l.commits <- request
	}
}

func (l *loop) onCommitted(request *commitRequest) {
	l.committing = nil
	l.failing = ""
	for _, mark := range request.marks {
		err := request.failed[mark.home.id]
		if err == nil {
			mark.home.committed = mark.at.Offset
			continue
		}
		l.failing = err.Error()
		if !mark.home.gone {
			l.config.Logger.Warn().Err(err).Str("topic", l.config.Topic).Int32("partition", mark.home.id).Int64("offset", mark.at.Offset).
				Msg("committing failed; it is committed again at the next interval")
		}
	}
}
