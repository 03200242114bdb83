package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// finishWithin bounds how long a member that finishes its poll after TERM takes for it.
const finishWithin = 8 * time.Second

// member is one member of the group.
type member struct {
	settings
	client  *kgo.Client
	writer  *writer
	offsets *offsets
	paused  *paused
	http    http.Client
	log     *logger
}

func brokers() kgo.Opt { return kgo.SeedBrokers(strings.Split(os.Getenv("KAFKA_BROKERS"), ",")...) }

func newMember(s settings, number int, log *logger) (*member, error) {
	m := &member{settings: s, log: log}
	m.http.Timeout = time.Second
	options := append(m.group(number), m.reading()...)
	options = append(options, brokers(), kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelError, nil)))
	if s.letters.acks != "transactional" {
		options = append(options, s.letters.options()...)
	}
	var err error
	if m.client, err = kgo.NewClient(options...); err != nil {
		return nil, err
	}
	m.offsets = &offsets{commits: s.commits, client: m.client, log: log, latest: map[int32]kgo.EpochOffset{}}
	m.paused = &paused{client: m.client, until: map[int32]wait{}}
	m.writer, err = newWriter(s.letters, m.client, fmt.Sprintf("%s-letters-%s-%d", os.Getenv("KAFKA_GROUP"),
		os.Getenv("INSTANCE"), number), log)
	return m, err
}

func (m *member) group(number int) []kgo.Opt {
	options := []kgo.Opt{
		kgo.ConsumerGroup(os.Getenv("KAFKA_GROUP")), kgo.ConsumeTopics(os.Getenv("KAFKA_TOPIC")),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.BlockRebalanceOnPoll(),
	}
	if m.elsewhere {
		options = append(options, kgo.ConsumeTopics(os.Getenv("KAFKA_TOPIC"), os.Getenv("KAFKA_SECOND_TOPIC")))
	}
	if m.balancers != nil {
		options = append(options, kgo.Balancers(m.balancers...))
	}
	if m.next {
		options = append(options, kgo.ServerSideBalancer())
	}
	if m.static {
		options = append(options, kgo.InstanceID(fmt.Sprintf("orders-%s-%d", os.Getenv("INSTANCE"), number)))
	}
	if m.session > 0 {
		options = append(options, kgo.SessionTimeout(m.session), kgo.HeartbeatInterval(m.session/5))
	}
	if m.settings.commits.each == "marks" { // the client commits what is marked, also when partitions are revoked
		return append(options, kgo.AutoCommitMarks(), kgo.AutoCommitInterval(m.settings.commits.interval))
	}
	gone := func(ctx context.Context, _ *kgo.Client, partitions map[string][]int32, commit bool) {
		for _, numbers := range partitions {
			if commit {
				m.offsets.revoked(ctx, numbers)
			}
			m.offsets.forget(numbers)
			m.paused.forget(numbers)
		}
	}
	return append(options, kgo.DisableAutoCommit(),
		kgo.OnPartitionsRevoked(func(ctx context.Context, c *kgo.Client, p map[string][]int32) { gone(ctx, c, p, true) }),
		kgo.OnPartitionsLost(func(ctx context.Context, c *kgo.Client, p map[string][]int32) { gone(ctx, c, p, false) }))
}

func (m *member) reading() []kgo.Opt {
	var options []kgo.Opt
	if m.fetchBytes > 0 {
		options = append(options, kgo.FetchMaxBytes(m.fetchBytes), kgo.FetchMaxPartitionBytes(m.fetchBytes/2))
	}
	if m.fetchMin > 0 {
		options = append(options, kgo.FetchMinBytes(m.fetchMin))
	}
	if m.fetchWait > 0 {
		options = append(options, kgo.FetchMaxWait(m.fetchWait))
	}
	if m.committed {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	return options
}

func (m *member) consume(ctx context.Context) {
	for {
		polling, cancel := ctx, context.CancelFunc(func() {})
		switch {
		case m.pause:
			polling, cancel = context.WithTimeout(ctx, 20*time.Millisecond)
		case m.settings.commits.repeated:
			polling, cancel = context.WithTimeout(ctx, time.Second)
		}
		m.paused.resume()
		fetches := m.client.PollRecords(polling, m.pollRecords)
		cancel()
		if ctx.Err() != nil {
			break // what this poll may have returned is delivered again
		}
		if polling.Err() == nil {
			fetches.EachError(func(topic string, partition int32, err error) {
				m.log.Error(fmt.Sprintf("fetching %s-%d: %v", topic, partition, err))
			})
		}
		halted := m.poll(ctx, fetches)
		if halted && m.unreadable == endsWithCode {
			os.Exit(1)
		}
		if halted && m.unreadable == leavesGroup {
			break
		}
		m.client.AllowRebalance()
	}
	m.offsets.last()
	m.client.CloseAllowingRebalance()
	m.writer.close()
	<-ctx.Done() // one that has left its group lives on
}

// poll brings the records of a poll to their ends, as far as it may, and commits. It returns whether it met a value
// that it can't read.
func (m *member) poll(ctx context.Context, fetches kgo.Fetches) (halted bool) {
	if m.finish {
		outer := ctx
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(context.WithoutCancel(outer))
		defer cancel()
		defer context.AfterFunc(outer, func() { time.AfterFunc(finishWithin, cancel) })()
	}
	b := &batch{member: m, ctx: ctx, records: fetches.Records(), finished: map[*kgo.Record]bool{}}
	var group sync.WaitGroup
	for _, lane := range b.lanes() {
		group.Go(func() { b.lane(lane) })
	}
	group.Wait()
	b.write()
	m.offsets.commit(b.prefixes())
	for _, seek := range b.seeks {
		m.paused.pause(seek)
	}
	return b.halted
}
