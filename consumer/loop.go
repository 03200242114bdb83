package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
)

const (
	// maxConcurrency is the maximum number of concurrent attempts per instance.
	maxConcurrency = 256
	// maxPoll is the maximum number of records accepted at a time.
	maxPoll = 512
	// maxOpen is the maximum number of records of a partition that are tracked because an earlier one is unfinished.
	// Beyond that the partition is paused. Tracked records are redelivered if the process dies.
	maxOpen = 100_000
)

// The shares of the stop grace: running attempts may use it up to the first share, the final commit up to the second,
// and leaving the group has the third. When all members of a group stop at once, commits and leave requests wait for
// rebalances and use up all of this. The rest of the grace is for closing, and for a busy machine.
const (
	workShare   = 0.5
	commitShare = 0.65
	leaveShare  = 0.1
)

// partition is one assignment of a partition. If the partition is given back and assigned again, that is another one.
type partition struct {
	at      TopicPartition
	tracker Tracker
	// active is the number of records that are fetched and not finished, busy the number of attempts and publications
	// in progress.
	active, busy int
	// committed is the last committed offset, -1 before the first commit.
	committed int64
	// finished counts the records finished here, and recorded those of them that the metadata of an accepted commit
	// includes.
	finished, recorded uint64
	// restored are the offsets that earlier owners had finished beyond their commit and that are not fetched yet.
	// fetched is the last offset that was fetched.
	restored []Range
	fetched  int64
	// draining: no more work is started. gone: the partition is no longer owned, and results from workers are
	// dropped.
	draining, gone bool
	paused         bool
	// trouble describes the first dead letter that cannot be published, nil if there is none. troubled are all of
	// them.
	trouble  *Trouble
	troubled map[*task]struct{}
	surfaced time.Time
}

// outcome is a report of a worker or of the Parker.
type outcome struct {
	task *task
	err  error
	at   time.Time
}

// loop is the goroutine that owns all state. Other goroutines only send to its channels and its mailbox.
type loop struct {
	*Consumer
	client, producer *kgo.Client

	partitions map[TopicPartition]*partition
	schedule   *scheduler
	inFlight   int
	busy       int // attempts in progress
	workers    int
	stopping   bool
	exhausted  error // the reason why the consumer ends by itself
	drains     []*drain
	committing *commitRequest
	pollWanted bool // the poller waits for permission to fetch
	failing    string
	// handler is the name of the component that processes records, for dead letters.
	handler string

	outcomes   *mailbox
	tasks      chan *task
	grants     chan int
	polled     chan kgo.Fetches
	rebalances chan rebalance
	restores   chan map[TopicPartition][]Range
	commits    chan *commitRequest
	committed  chan *commitRequest
	done       chan struct{}

	// life is the context of attempts, publications and commits. It is not the context of the stop, because they may
	// finish within the grace.
	life    context.Context
	end     context.CancelFunc
	working sync.WaitGroup
	// connected is the context of the consuming client's connections. It ends when the group is left.
	connected  context.Context
	disconnect context.CancelFunc
}

func newLoop(c *Consumer) *loop {
	l := &loop{
		Consumer: c, partitions: map[TopicPartition]*partition{}, schedule: newScheduler(), pollWanted: true,
		outcomes: newMailbox(), tasks: make(chan *task), grants: make(chan int, 1), polled: make(chan kgo.Fetches),
		rebalances: make(chan rebalance), restores: make(chan map[TopicPartition][]Range),
		commits: make(chan *commitRequest, 1), committed: make(chan *commitRequest, 1),
		done: make(chan struct{}), handler: runtime.FuncForPC(reflect.ValueOf(c.config.Handler).Pointer()).Name(),
	}
	l.life, l.end = context.WithCancel(context.Background())
	l.connected, l.disconnect = context.WithCancel(context.Background())
	return l
}

func (l *loop) grace(share float64) time.Duration {
	return time.Duration(share * float64(l.config.Settings.StopGrace.D()))
}

// run is the loop. It returns when ctx has ended and everything is drained.
func (l *loop) run(ctx context.Context, stopPolling func()) {
	commits := time.NewTicker(l.config.Settings.CommitInterval.D())
	defer commits.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	stop := ctx.Done()
	for {
		l.dispatch()
		l.advanceDrains(time.Now())
		if l.stopping && len(l.drains) == 0 {
			return
		}
		l.grant()
		l.arm(timer)
		select {
		case <-l.outcomes.wake:
		case fetches := <-l.polled:
			l.pollWanted = true
			l.accept(fetches)
		case event := <-l.rebalances:
			l.rebalance(event)
		case finished := <-l.restores:
			for at, ranges := range finished {
				if home := l.partitions[at]; home != nil {
					home.restored = ranges
				}
			}
		case request := <-l.committed:
			l.onCommitted(request)
		case <-commits.C:
			l.commit()
			l.report()
		case <-timer.C:
		case <-stop:
			stop = nil
			stopPolling()
			l.stop()
		}
		l.settle()
		l.expire(time.Now())
		if l.exhausted != nil && !l.stopping {
			stop = nil
			stopPolling()
			l.stop()
		}
	}
}

// arm sets the timer to the time of the next due action.
func (l *loop) arm(timer *time.Timer) {
	at, ok := l.schedule.wake()
	for _, d := range l.drains {
		if next := d.deadline(); !ok || next.Before(at) {
			at, ok = next, true
		}
	}
	if !ok {
		timer.Stop()
		return
	}
	timer.Reset(time.Until(at))
}

// accept accepts polled records. Records of partitions that are not owned, or are being given up, are left to the
// next owner.
func (l *loop) accept(fetches kgo.Fetches) {
	l.warn(fetches)
	fetches.EachPartition(func(fetched kgo.FetchTopicPartition) {
		home := l.partitions[TopicPartition{fetched.Topic, fetched.Partition}]
		if home == nil || home.draining {
			return
		}
		for _, record := range fetched.Records {
			l.begin(home, record)
		}
		l.throttle(home)
	})
}

// warn logs failed fetches.
func (l *loop) warn(fetches kgo.Fetches) {
	for _, failed := range fetches.Errors() {
		if l.stopping || failed.Topic == "" {
			continue
		}
		l.config.Logger.Warn().Err(failed.Err).Str("topic", failed.Topic).Int32("partition", failed.Partition).Msg(
			"fetching failed; it is tried again")
	}
}

// begin accepts a record. It is tried in its turn, or when it is due if it is a retry copy, or not at all if an
// earlier owner has finished it.
func (l *loop) begin(home *partition, record *kgo.Record) {
	slot := home.tracker.Add(record.Offset, record.LeaderEpoch)
	if home.skips(record.Offset) {
		home.tracker.Finish(slot)
		home.finished++
		return
	}
	t := &task{record: record, home: home, slot: slot, origin: originOf(record), place: -1}
	home.active++
	l.inFlight++
	if home.at.Topic == l.config.Topic || home.at.Topic == l.config.ReplayTopic {
		lane, ordered := l.parts.Lane(record)
		l.schedule.add(t, lane, ordered)
		return
	}
	// A copy waits only for its own due time. An earlier failure may be due after it.
	due := l.parts.Copier.Open(t.record, &t.origin)
	t.attempts = t.origin.Attempts
	l.schedule.later(t, waiting, due)
}

// throttle pauses the partition when it has more than its share of records in flight, and resumes it at half of that.
// So a partition that waits for a slow key, or for the DLQ, does not use up what the others need. Pausing stops
// fetching, not heartbeats.
func (l *loop) throttle(home *partition) {
	share := max(1, l.config.Settings.MaxInFlight/max(1, len(l.partitions)))
	open := home.tracker.Prefix(0).Open
	which := map[string][]int32{home.at.Topic: {home.at.Partition}}
	switch {
	case !home.paused && (home.active >= share || open >= maxOpen):
		home.paused = true
		l.client.PauseFetchPartitions(which)
	case home.paused && home.active <= share/2 && open <= maxOpen/2:
		home.paused = false
		l.client.ResumeFetchPartitions(which)
	}
}

// grant allows the poller to fetch as many records as may be in flight.
func (l *loop) grant() {
	free := min(maxPoll, l.config.Settings.MaxInFlight-l.inFlight)
	if l.pollWanted && !l.stopping && free > 0 {
		l.pollWanted = false
		l.grants <- free
	}
}

// dispatch passes ready tasks to workers. It starts a worker if none is idle.
func (l *loop) dispatch() {
	limit := min(maxConcurrency, l.config.Settings.MaxInFlight)
	for l.busy < limit {
		t := l.schedule.next()
		if t == nil {
			return
		}
		t.phase = running
		t.attempts++
		t.home.busy++
		l.busy++
		select {
		case l.tasks <- t:
		default:
			if l.workers < limit {
				l.workers++
				l.working.Go(func() { l.work(t) })
				continue
			}
			l.tasks <- t // an idle worker exists: it is about to receive
		}
	}
}

// settle processes the reports of workers and the Parker.
func (l *loop) settle() {
	for _, result := range l.outcomes.take() {
		t := result.task
		t.home.busy--
		if t.phase == publishing {
			l.onPublished(t, result.err)
			continue
		}
		l.busy--
		if !t.home.gone {
			l.onAttempt(t, result)
		}
	}
}

func (l *loop) onAttempt(t *task, result outcome) {
	decision := l.parts.Policy.Decide(t.record, t.attempts, result.err)
	switch decision.Action {
	case Finish:
		l.note(t, result.err)
		l.forward(t, result)
	case DeadLetter:
		l.deadLetter(t, result.err)
	case Retry:
		l.retry(t, result.at.Add(decision.Wait))
	}
}

// note logs a record that is finished although it failed.
func (l *loop) note(t *task, err error) {
	if err != nil {
		l.config.Logger.Info().Err(err).Str("class", ClassOf(err).String()).Str("topic", t.record.Topic).
			Int32("partition", t.record.Partition).Int64("offset", t.record.Offset).Msg(
			"the record was not accepted; it is finished")
	}
}

// retry sets the time of a task's next attempt. In a partition that is being given up, no more work is started: the
// task stays unfinished. AtStop is consulted only at a stop. With retry topics, the task is passed on in either case.
func (l *loop) retry(t *task, due time.Time) {
	switch {
	case len(l.config.RetryTopics) > 0:
		origin := t.origin
		origin.Attempts = t.attempts
		t.letter = l.parts.Copier.Seal(t.record, origin, due)
		t.letter.Topic = l.config.RetryTopics[min(t.attempts, len(l.config.RetryTopics))-1]
		l.publish(t)
	case !t.home.draining:
		l.schedule.later(t, waiting, due)
	case l.stopping:
		l.relinquish(t, l.parts.AtStop(t.record))
	}
}

func (l *loop) finish(t *task) {
	t.home.tracker.Finish(t.slot)
	t.home.finished++
	t.home.active--
	l.inFlight--
	l.schedule.release(t)
	if t.home.paused {
		l.throttle(t.home)
	}
}

func (l *loop) deadLetter(t *task, cause error) {
	switch {
	case l.config.Settings.DLQEnabled:
	case l.config.Settings.OnExhausted == ExhaustedExit:
		l.giveUp(t, cause)
		return
	default:
		l.discard(t, cause)
		l.finish(t)
		return
	}
	l.seal(t, cause)
	l.publish(t)
}

// discard logs a record that failed permanently and leaves no dead letter.
func (l *loop) discard(t *task, cause error) {
	end := "dead-lettering is off, so it is finished"
	if l.config.Settings.DLQEnabled {
		end = "it is rejected, so that the broker dead-letters it"
	}
	l.config.Logger.Warn().Err(cause).Str("topic", t.record.Topic).Int32("partition", t.record.Partition).
		Int64("offset", t.record.Offset).Int("attempts", t.attempts).Msg("the record failed for good; " + end)
}

// ErrRetriesExhausted is returned by Run if a record failed permanently and Settings.OnExhausted is exit.
var ErrRetriesExhausted = errors.New("all retries are exhausted")

// ErrLetterRefused is returned by Run if a dead letter was rejected and Settings.DLQOnFailure is crash.
var ErrLetterRefused = errors.New("the dead letter was refused")

// giveUp starts the end of the consumer. The record stays unfinished, so nothing is committed past it.
func (l *loop) giveUp(t *task, cause error) {
	if l.stopping {
		return // it is already ending, and the next process receives the record again
	}
	l.exhausted = fmt.Errorf("processing %s-%d offset %d: %w after %d attempts: %w", t.record.Topic, t.record.Partition,
		t.record.Offset, ErrRetriesExhausted, t.attempts, cause)
	l.config.Logger.Error().Err(l.exhausted).Msg(
		"the record failed for good and dead-lettering is off; the consumer ends, and commits nothing past it")
}

// seal creates the task's dead letter.
func (l *loop) seal(t *task, cause error) {
	failure := deadletter.Failure{
		Attempts: int32(t.attempts), MaxAttempts: int32(l.config.Settings.MaxRetries), Topic: t.origin.Topic,
		Partition: t.origin.Partition, Offset: t.origin.Offset, Epoch: t.origin.Epoch, Time: time.Now(),
		Group: l.config.Group, Service: l.config.Group, Instance: l.config.Instance, Handler: l.handler,
	}
	describe(cause, &failure)
	if t.origin.Topic == t.record.Topic { // the timestamp of a retry copy is that of the copy
		failure.SourceTime, failure.SourceTimeType = t.record.Timestamp, timestampType(t.record)
	}
	t.letter = l.parts.Sealer.Seal(t.record, failure)
	t.letter.Topic = l.deadLetterTopic(t)
}

// timestampType returns the type of the record's timestamp, in Kafka's terms.
func timestampType(record *kgo.Record) string {
	switch record.Attrs.TimestampType() {
	case 0:
		return deadletter.CreateTime
	case 1:
		return deadletter.LogAppendTime
	}
	return deadletter.NoTimestampType
}

// publish passes the dead letter or retry copy to the Parker and waits for its answer. Only that answer finishes the
// task.
func (l *loop) publish(t *task) {
	t.home.busy++
	l.schedule.later(t, publishing, time.Now().Add(patience))
	l.parts.Parker.Park(l.life, l.producer, t.letter, func(err error) {
		l.outcomes.put(outcome{task: t, err: err})
	})
}

func (l *loop) onPublished(t *task, err error) {
	l.schedule.cancel(t)
	if t.home.gone {
		return
	}
	if err == nil {
		l.calm(t)
		l.finish(t)
		return
	}
	t.tries++
	l.complain(t, err.Error())
	if l.config.Settings.DLQOnFailure == FailureCrash && l.exhausted == nil {
		l.exhausted = fmt.Errorf("dead-lettering %s-%d offset %d: %w: %w", t.record.Topic, t.record.Partition,
			t.record.Offset, ErrLetterRefused, err)
	}
	if !t.home.draining {
		l.schedule.later(t, refused, time.Now().Add(l.parts.Policy.Republish(t.tries)))
	}
}

// expire performs all due actions.
func (l *loop) expire(now time.Time) {
	for t := l.schedule.expired(now); t != nil; t = l.schedule.expired(now) {
		switch t.phase {
		case waiting:
			l.schedule.ready(t)
		case refused:
			l.publish(t)
		case publishing:
			// The Parker still has it, and it may have been written, so it is only reported. It is also reported if
			// the unresponsive brokers have cost the group its coordinator, and this member the partition.
			reason := "the write is not acknowledged after " + patience.String()
			if t.home.gone {
				reason += ", and the partition has been taken away meanwhile: whoever gets it is given the record again"
			}
			l.complain(t, reason)
			l.schedule.later(t, publishing, now.Add(patience)) // report it again for as long as it lasts
		case queued, running:
		}
	}
}

// surfaceEvery is the interval between two reports of one partition's trouble. It must not exceed patience, so that
// while a dead letter is unacknowledged, its partition gets a report within patience, if only for another dead
// letter.
const surfaceEvery = patience

// complain records that a dead letter or a retry copy cannot be published. For each partition it reports the first
// failure, then the halt, then repeats the report every few seconds. It does not report each attempt for each record.
func (l *loop) complain(t *task, reason string) {
	home := t.home
	if home.troubled == nil {
		home.troubled = map[*task]struct{}{}
	}
	home.troubled[t] = struct{}{}
	now := time.Now()
	fresh := home.trouble == nil
	if fresh {
		home.trouble = &Trouble{State: Refused, Topic: home.at.Topic, Partition: home.at.Partition, Since: now}
	}
	home.trouble.Reason = reason
	halts := home.trouble.State == Refused && t.tries >= l.config.Settings.MaxRetries
	if halts {
		home.trouble.State = Halted
	}
	if fresh || halts || now.Sub(home.surfaced) >= surfaceEvery {
		home.surfaced = now
		home.locateTrouble()
		l.parts.Surface(l.config.Logger, *home.trouble)
		l.report()
	}
}

// calm records that a dead letter was published after all.
func (l *loop) calm(t *task) {
	home := t.home
	if home.trouble == nil {
		return
	}
	delete(home.troubled, t)
	if len(home.troubled) > 0 {
		return
	}
	over := *home.trouble
	over.State, over.Letters = Recovered, 0
	home.trouble = nil
	l.parts.Surface(l.config.Logger, over)
	l.report()
}

// locateTrouble sets the trouble to the first affected record, at which commits wait.
func (p *partition) locateTrouble() {
	p.trouble.Letters = len(p.troubled)
	var first *task
	for t := range p.troubled {
		if first == nil || t.record.Offset < first.record.Offset {
			first = t
		}
	}
	p.trouble.Offset, p.trouble.Tries, p.trouble.To = first.record.Offset, first.tries, first.letter.Topic
}

// report renews the result of Health.
func (l *loop) report() {
	health := Health{InFlight: l.inFlight, Waiting: len(l.schedule.timed), CommitError: l.failing}
	for at, home := range l.partitions {
		health.Assigned = append(health.Assigned, at)
		if home.trouble != nil {
			home.locateTrouble()
			health.Trouble = append(health.Trouble, *home.trouble)
		}
	}
	slices.SortFunc(health.Assigned, compare)
	slices.SortFunc(health.Trouble, func(a, b Trouble) int {
		return compare(TopicPartition{a.Topic, a.Partition}, TopicPartition{b.Topic, b.Partition})
	})
	l.setHealth(health)
}

func compare(a, b TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}
