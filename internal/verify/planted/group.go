package planted

// This file has bugs of group membership: what a consumer fetches, what it commits, and when it ends.

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/consumer"
)

func groupBugs() []Bug {
	committed := func(name, what, invariant, anomaly, scenario string,
		wrap func(*consumer.Config, consumer.Committer) consumer.Committer) Bug {
		return Bug{Name: name, What: what, Invariant: invariant, Anomaly: anomaly, Scenario: scenario,
			Consumer: func(config *consumer.Config, parts *consumer.Parts) {
				parts.Committer = wrap(config, parts.Committer)
			}}
	}
	return []Bug{
		committed("commit-wrong-partition", "with its own partitions it commits the others, too, at their start",
			"commit-after-outcome", "commit-wrong-partition", "mix",
			func(_ *consumer.Config, next consumer.Committer) consumer.Committer { return strayCommitter{next} }),
		committed("commit-past-end", "every third commit is a thousand records too far", "commit-after-outcome",
			"commit-past-end", "mix",
			func(_ *consumer.Config, next consumer.Committer) consumer.Committer { return &farCommitter{next: next} }),
		committed("dlq-cleaned", "it deletes its dead letters as soon as it has committed", "no-loss",
			"dropped-by-ack", "mix", func(config *consumer.Config, next consumer.Committer) consumer.Committer {
				return cleaningCommitter{next, config.DLQTopic}
			}),
		committed("partition-left-paused", "a partition that is paused after a failure is never resumed", "liveness",
			"paused-partition", "stuck", func(_ *consumer.Config, next consumer.Committer) consumer.Committer {
				return &pausingCommitter{Committer: next}
			}),
		committed("leaves-and-joins", "it leaves its group after every few commits and joins it again", "liveness",
			"rebalance-storm", "storm", func(config *consumer.Config, next consumer.Committer) consumer.Committer {
				return &leavingCommitter{Committer: next, group: config.Group}
			}),
		committed("last-commit-left-out", "a partition is not committed any more once it has come to a certain offset",
			"liveness", "stalled", "stuck",
			func(_ *consumer.Config, next consumer.Committer) consumer.Committer { return lazyCommitter{next} }),
		committed("metadata-claims-too-much", "the offset metadata names the next two hundred records as finished",
			"commit-after-outcome", "commit-past-unfinished", "metadata",
			func(_ *consumer.Config, next consumer.Committer) consumer.Committer { return boastingCommitter{next} }),
		{
			Name: "commit-on-a-timer", What: "what was fetched is committed at the next interval, whatever became of it",
			Invariant: "no-loss", Anomaly: "lost", Scenario: "kill", Consumer: func(_ *consumer.Config, parts *consumer.Parts) {
				parts.NewTracker = func() consumer.Tracker { return &fetchedTracker{} }
			},
		},
		{
			Name: "waits-at-stop", What: "a stop waits for what is in backoff, and nothing ends that",
			Invariant: "graceful-stop", Anomaly: "stop-timeout", Scenario: "stops",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) {
				parts.AtStop = func(*kgo.Record) consumer.Action { select {} }
			},
		},
		{
			Name: "backoff-in-the-loop", What: "the loop that serves all partitions sleeps the backoff", Invariant: "isolation",
			Anomaly: "head-of-line-blocked", Scenario: "isolation",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.Policy = sleepingPolicy{parts.Policy} },
		},
		{
			Name: "backoff-in-the-partition", What: "a record in backoff holds up its whole partition, though order is " +
				"promised by key only", Invariant: "isolation",
			Anomaly: "head-of-line-blocked", Scenario: "isolation",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) {
				parts.Lane = consumer.LaneFor(consumer.OrderingPartition)
			},
		},
	}
}

type marks = map[consumer.TopicPartition]consumer.Mark

type failures = map[consumer.TopicPartition]error

// strayCommitter commits partitions that it does not own.
type strayCommitter struct{ consumer.Committer }

func (c strayCommitter) Commit(ctx context.Context, client *kgo.Client, own marks) failures {
	for at := range own {
		for id := range int32(6) {
			if other := (consumer.TopicPartition{Topic: at.Topic, Partition: id}); own[other] == (consumer.Mark{}) {
				own[other] = consumer.Mark{Offset: 1, Epoch: -1}
			}
		}
		break
	}
	return c.Committer.Commit(ctx, client, own)
}

// farCommitter commits offsets that do not exist yet. The answer is hidden from the consumer, which would otherwise
// believe that it had finished that far.
type farCommitter struct {
	next    consumer.Committer
	commits int
}

func (c *farCommitter) Commit(ctx context.Context, client *kgo.Client, own marks) failures {
	if c.commits++; c.commits%3 != 0 {
		return c.next.Commit(ctx, client, own)
	}
	far := marks{}
	for at, mark := range own {
		mark.Offset += 1000
		far[at] = mark
	}
	return c.next.Commit(ctx, client, far)
}

// cleaningCommitter empties the dead-letter topic.
type cleaningCommitter struct {
	consumer.Committer
	topic string
}

func (c cleaningCommitter) Commit(ctx context.Context, client *kgo.Client, own marks) failures {
	failed := c.Committer.Commit(ctx, client, own)
	admin := kadm.NewClient(client)
	if ends, err := admin.ListEndOffsets(ctx, c.topic); err == nil {
		_, _ = admin.DeleteRecords(ctx, ends.Offsets())
	}
	return failed
}

// pausingCommitter pauses one of its partitions after a while.
type pausingCommitter struct {
	consumer.Committer
	commits int
}

func (c *pausingCommitter) Commit(ctx context.Context, client *kgo.Client, own marks) failures {
	if c.commits++; c.commits == 8 {
		for at := range own {
			client.PauseFetchPartitions(map[string][]int32{at.Topic: {at.Partition}})
			break
		}
	}
	return c.Committer.Commit(ctx, client, own)
}

// leavingCommitter leaves the group after a commit, at most three times a second. The client learns it from its next
// heartbeat and joins again.
type leavingCommitter struct {
	consumer.Committer
	group string
	last  time.Time
}

func (c *leavingCommitter) Commit(ctx context.Context, client *kgo.Client, own marks) failures {
	failed := c.Committer.Commit(ctx, client, own)
	if time.Since(c.last) < 300*time.Millisecond {
		return failed
	}
	c.last = time.Now()
	leave, member := kmsg.NewPtrLeaveGroupRequest(), kmsg.NewLeaveGroupRequestMember()
	member.MemberID, _ = client.GroupMetadata()
	leave.Group, leave.Members = c.group, append(leave.Members, member)
	_, _ = leave.RequestWith(ctx, client)
	return failed
}

// lazyCommitter reports commits without making them, from the twentieth record of partition 0 on.
type lazyCommitter struct{ consumer.Committer }

func (c lazyCommitter) Commit(ctx context.Context, client *kgo.Client, own marks) failures {
	for at, mark := range own {
		if at.Partition == 0 && mark.Offset > 20 {
			delete(own, at)
		}
	}
	if len(own) == 0 {
		return nil
	}
	return c.Committer.Commit(ctx, client, own)
}

// boastingCommitter names unfinished records in the commit metadata.
type boastingCommitter struct{ consumer.Committer }

func (c boastingCommitter) Commit(ctx context.Context, client *kgo.Client, own marks) failures {
	for at, mark := range own {
		if mark.Metadata != "" {
			mark.Metadata = "0-200"
			own[at] = mark
		}
	}
	return c.Committer.Commit(ctx, client, own)
}

// fetchedTracker treats fetched records as finished.
type fetchedTracker struct{ prefix consumer.Prefix }

func (t *fetchedTracker) Add(offset int64, epoch int32) uint64 {
	t.prefix = consumer.Prefix{Next: offset + 1, Epoch: epoch, OK: true}
	return 0
}

func (t *fetchedTracker) Finish(uint64) {}

func (t *fetchedTracker) Prefix(int) consumer.Prefix { return t.prefix }

// sleepingPolicy sleeps for the backoff before it answers.
type sleepingPolicy struct{ consumer.Policy }

func (p sleepingPolicy) Decide(record *kgo.Record, attempts int, err error) consumer.Decision {
	decision := p.Policy.Decide(record, attempts, err)
	if decision.Action == consumer.Retry {
		time.Sleep(decision.Wait)
		decision.Wait = 0
	}
	return decision
}

// forgetful forgets one failed record in ten.
type forgetful struct {
	consumer.Policy
	failed atomic.Int64
}

func (p *forgetful) Decide(record *kgo.Record, attempts int, err error) consumer.Decision {
	decision := p.Policy.Decide(record, attempts, err)
	if decision.Action == consumer.Retry && p.failed.Add(1)%10 == 0 {
		decision.Wait = 24 * time.Hour
	}
	return decision
}
