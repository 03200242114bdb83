package consumer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type change uint8

const (
	assigned change = iota
	revoked
	lost
)

// rebalance is a change of the assignment. done is closed when the loop has handled it.
type rebalance struct {
	change     change
	partitions []TopicPartition
	done       chan struct{}
}

// callback returns the client's rebalance callback. It passes the change to the loop and waits, because the
// partitions belong to this member until the callback returns. The loop limits the wait.
func (l *loop) callback(change change) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		event := rebalance{change: change, done: make(chan struct{})}
		for topic, ids := range partitions {
			for _, id := range ids {
				event.partitions = append(event.partitions, TopicPartition{topic, id})
			}
		}
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

// restore passes on the metadata of the group's committed offsets for an assignment. The client calls it before it
// fetches the first record from those offsets, and waits.
func (l *loop) restore(_ context.Context, _ *kgo.Client, offsets *kmsg.OffsetFetchResponse) error {
	restored := map[TopicPartition][]Range{}
	for _, group := range offsets.Groups {
		for _, topic := range group.Topics {
			for _, partition := range topic.Partitions {
				if partition.Metadata != nil && partition.Offset >= 0 {
					restored[TopicPartition{topic.Topic, partition.Partition}] = decodeRanges(partition.Offset, *partition.Metadata)
				}
			}
		}
	}
	select {
	case l.restores <- restored:
	case <-l.done:
	}
	return nil
}

func (l *loop) rebalance(event rebalance) {
	switch event.change {
	case assigned:
		for _, at := range event.partitions {
			l.partitions[at] = &partition{at: at, tracker: l.parts.NewTracker(), committed: -1, fetched: -1,
				draining: l.stopping}
		}
		close(event.done)
	case revoked:
		for _, at := range event.partitions {
			if home := l.partitions[at]; home != nil {
				l.release(home, l.parts.AtRevoke)
			}
		}
		l.drain(event.partitions, revokeLimit, revokeLimit+commitLimit/3, event.done)
	case lost:
		// Another member owns them now, so nothing may be committed.
		for _, at := range event.partitions {
			if home := l.partitions[at]; home != nil {
				l.drop(home)
			}
		}
		close(event.done)
	}
	l.config.Logger.Debug().Interface("partitions", event.partitions).Str("change",
		[...]string{"assigned", "revoked", "lost"}[event.change]).Msg("the assignment changed")
	l.report()
}

// drain is a set of partitions that are being given up. No more work is started in them. Attempts and publications in
// progress may finish until work, and then the finished prefix is committed. At until the partitions are dropped in
// any case.
type drain struct {
	homes       []*partition
	work, until time.Time
	// tried: a commit was made after the work ended. Further commits follow at the commit interval.
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
	return slices.ContainsFunc(d.homes, func(home *partition) bool { return home.busy > 0 && !home.gone })
}

func (l *loop) drain(partitions []TopicPartition, work, until time.Duration, done chan struct{}) {
	now := time.Now()
	d := &drain{work: now.Add(work), until: now.Add(until), done: done}
	for _, at := range partitions {
		home := l.partitions[at]
		if home == nil {
			continue
		}
		home.draining = true
		l.schedule.forget(home)
		d.homes = append(d.homes, home)
	}
	l.drains = append(l.drains, d)
}

// advanceDrains advances each drain: wait for the work, commit, drop.
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
	return slices.ContainsFunc(homes, func(home *partition) bool {
		return !home.gone && l.uncommitted(home, home.tracker.Prefix(0))
	})
}

// uncommitted reports whether there is something to commit: a longer prefix, or, with offset metadata, any record
// finished since the last commit.
func (l *loop) uncommitted(home *partition, prefix Prefix) bool {
	return prefix.OK && prefix.Next > home.committed || l.config.Settings.OffsetMetadata && home.finished != home.recorded
}

// drop removes a partition. Results of work in progress are ignored.
func (l *loop) drop(home *partition) {
	if home.gone {
		return
	}
	home.gone, home.draining = true, true
	l.inFlight -= home.active
	l.schedule.forget(home)
	if home.paused {
		// The client keeps pauses beyond the assignment, so a partition that is assigned again would stay paused.
		l.client.ResumeFetchPartitions(map[string][]int32{home.at.Topic: {home.at.Partition}})
	}
	if l.partitions[home.at] == home {
		delete(l.partitions, home.at)
	}
}

// stop starts the orderly stop: all partitions are drained, and AtStop decides about records in backoff.
func (l *loop) stop() {
	l.stopping = true
	var all []TopicPartition
	for at, home := range l.partitions {
		all = append(all, at)
		l.release(home, l.parts.AtStop)
	}
	l.drain(all, l.grace(workShare), l.grace(commitShare), make(chan struct{}))
}

// release starts no more work in a partition, and applies the part's decision to its records in backoff.
func (l *loop) release(home *partition, part func(*kgo.Record) Action) {
	held := l.schedule.inPhase(home, waiting)
	home.draining = true
	for _, t := range held {
		l.schedule.cancel(t)
		l.relinquish(t, part(t.record))
	}
}

var errStopped = errors.New("the consumer stopped while the record was in backoff")

// relinquish ends a task that would be retried. By default the task is left as it is.
func (l *loop) relinquish(t *task, action Action) {
	switch action {
	case Finish:
		l.finish(t)
	case DeadLetter:
		l.deadLetter(t, errStopped)
	case Retry:
	}
}

// commitRequest is one commit: the finished prefix of each partition.
type commitRequest struct {
	marks  []commitMark
	failed map[TopicPartition]error
}

// commitMark is the position to commit for a partition, with the number of its records finished by then.
type commitMark struct {
	home     *partition
	mark     Mark
	finished uint64
}

func (r *commitRequest) offsets() map[TopicPartition]Mark {
	marks := make(map[TopicPartition]Mark, len(r.marks))
	for _, each := range r.marks {
		marks[each.home.at] = each.mark
	}
	return marks
}

// commit starts a commit of the finished records that no accepted commit covers. Only one commit is in progress at a
// time, so no commit can overtake another.
func (l *loop) commit() {
	if l.committing != nil {
		return
	}
	request := &commitRequest{}
	for _, home := range l.partitions {
		if mark, ok := l.mark(home); ok {
			request.marks = append(request.marks, commitMark{home, mark, home.finished})
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

// mark returns the position to commit for a partition, if there is any.
func (l *loop) mark(home *partition) (Mark, bool) {
	if !l.uncommitted(home, home.tracker.Prefix(0)) {
		return Mark{}, false
	}
	if !l.config.Settings.OffsetMetadata {
		prefix := home.tracker.Prefix(0)
		return Mark{Offset: prefix.Next, Epoch: prefix.Epoch}, true
	}
	prefix := home.tracker.Prefix(maxRanges)
	return Mark{Offset: prefix.Next, Epoch: prefix.Epoch, Metadata: home.metadata(prefix)}, true
}

func (l *loop) onCommitted(request *commitRequest) {
	l.committing = nil
	l.failing = ""
	for _, each := range request.marks {
		at := each.home.at
		err := request.failed[at]
		if err == nil {
			each.home.committed, each.home.recorded = each.mark.Offset, each.finished
			continue
		}
		l.failing = err.Error()
		if !each.home.gone {
			l.config.Logger.Warn().Err(err).Str("topic", at.Topic).Int32("partition", at.Partition).Int64("offset",
				each.mark.Offset).
				Msg("committing failed; it is committed again at the next interval")
		}
	}
}
