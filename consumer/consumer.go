package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Settings of the Kafka clients, with reasons.
const (
	// sessionTimeout is the minimum that brokers allow by default, so that a killed consumer's partitions are taken
	// over soon.
	sessionTimeout = 6 * time.Second
	// heartbeatInterval is short, because members learn of a rebalance from a heartbeat.
	heartbeatInterval = 500 * time.Millisecond
	// rebalanceTimeout is the maximum time that the group waits for this member to give up partitions. It exceeds
	// revokeLimit + commitLimit.
	rebalanceTimeout = 10 * time.Second
	// fetchWait is the maximum time that the broker holds an empty fetch. A newly assigned or resumed partition waits
	// at most this long for the fetch in progress.
	fetchWait = 250 * time.Millisecond
	// fetchBytes and fetchPartitionBytes limit the size of one response, so that a slow link still delivers it within
	// answerTimeout.
	fetchBytes          = 1 << 20
	fetchPartitionBytes = 512 << 10
	// answerTimeout is the maximum time for any other response. After that the connection is closed and the request
	// repeated.
	answerTimeout = 5 * time.Second
	// metadataMaxAge and metadataMinAge: a moved leader is found within a tenth of a second of the first error. For a
	// partition without requests it takes up to two seconds.
	metadataMaxAge = 2 * time.Second
	metadataMinAge = 100 * time.Millisecond
	// commitLimit is the maximum duration of one commit. After that the finished prefix is committed again.
	commitLimit = 3 * time.Second
	// revokeLimit is the maximum time that a rebalance waits for running attempts. Longer attempts are abandoned to
	// the next owner.
	revokeLimit = 2 * time.Second
)

// reconnectBackoff returns the wait before the next connection attempt to an unreachable broker: 100 ms, doubling to
// 1 s.
func reconnectBackoff(fails int) time.Duration {
	return Backoff{Initial: 100 * time.Millisecond, Cap: time.Second, Exponential: true}.Wait(max(fails, 1), Uniform)
}

// Consumer processes one topic and its retry topics as a member of a consumer group.
type Consumer struct {
	config Config
	parts  Parts

	mu     sync.Mutex
	health Health
}

// New returns a consumer. Its error reports all defects of the configuration. It starts nothing.
func New(config Config, parts Parts) (*Consumer, error) {
	if config.Settings.Retry != RetryTopics {
		config.RetryTopics = nil
	} else if len(config.RetryTopics) == 0 {
		config.RetryTopics = RetryTopicNames(config.Topic, config.Settings.MaxRetries)
	}
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("configuring the consumer: %w", err)
	}
	config.SessionTimeout = cmp.Or(config.SessionTimeout, sessionTimeout)
	return &Consumer{config: config, parts: parts}, nil
}

// Main creates a consumer and runs it until ctx ends.
func Main(ctx context.Context, config Config, parts Parts) error {
	consumer, err := New(config, parts)
	if err != nil {
		return err
	}
	return consumer.Run(ctx)
}

// Health is how a consumer fares.
type Health struct {
	// Assigned are its partitions.
	Assigned []TopicPartition `json:"assigned"`
	// InFlight is the number of records fetched and not finished; Waiting of those are in backoff or wait to be
	// published.
	InFlight int `json:"in_flight"`
	Waiting  int `json:"waiting"`
	// Trouble tells, for each partition, the first dead letter or retry copy that can't be published: its commits wait
	// there.
	Trouble []Trouble `json:"trouble"`
	// CommitError is why the last commit was not accepted; "" when it was.
	CommitError string `json:"commit_error"`
}

// Halted reports whether the commits of some partition wait for a dead letter or a retry copy that was rejected too
// often.
func (h Health) Halted() bool {
	return slices.ContainsFunc(h.Trouble, func(trouble Trouble) bool { return trouble.State == Halted })
}

// Health returns the state of the consumer. It is at most one commit interval old. It is safe for concurrent use.
func (c *Consumer) Health() Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.health
}

func (c *Consumer) setHealth(health Health) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.health = health
}

// errGrace is returned if a handler outlives the stop grace.
var errGrace = errors.New(
	"stopping the consumer: a handler still ran at the end of the stop grace; it must honour its context")

// Run consumes until ctx ends, then stops in order within Settings.StopGrace. It fetches no more records, waits for
// running attempts and unacknowledged publications, commits the finished prefix, and leaves the group. It returns nil
// after such a stop, and ErrRetriesExhausted if it stopped by itself because of a record that failed permanently
// (Settings.OnExhausted). Trouble with brokers or the DLQ does not end it: the trouble is reported, and records that
// cannot be finished are not committed.
func (c *Consumer) Run(ctx context.Context) error {
	switch {
	case c.config.Settings.GroupProtocol == ProtocolShare:
		return c.runShare(ctx)
	case c.config.Settings.Transactions:
		return c.runTransactions(ctx)
	}
	return c.runLoop(ctx)
}

// runLoop consumes as a member of a consumer group with the classic or the consumer protocol, without transactions.
func (c *Consumer) runLoop(ctx context.Context) error {
	l := newLoop(c)
	defer l.disconnect()
	var err error
	if l.producer, err = newProducer(c.config); err != nil {
		return err
	}
	defer l.producer.Close()
	if l.client, err = l.newClient(); err != nil {
		return err
	}
	var group sync.WaitGroup
	polling, stopPolling := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPolling()
	group.Go(func() { l.poll(polling) })
	group.Go(l.commitRequests)

	l.run(ctx, stopPolling)

	close(l.done) // from here on rebalance callbacks return at once, because nothing is owned any more
	stopPolling()
	l.end()
	close(l.tasks)
	close(l.commits)
	c.leave(l)
	group.Wait()
	return errors.Join(l.exhausted, l.awaitWorkers())
}

// newClient returns the consuming client. Rebalances wait while polled records are on their way to the loop
// (BlockRebalanceOnPoll), so a batch of an earlier assignment is never taken for one of a later assignment.
func (l *loop) newClient() (*kgo.Client, error) {
	options := slices.Concat(l.connection(), l.membership(), []kgo.Opt{
		kgo.ConsumeTopics(l.config.consumed()...),
		kgo.OnPartitionsAssigned(l.callback(assigned)), kgo.OnPartitionsRevoked(l.callback(revoked)),
		kgo.OnPartitionsLost(l.callback(lost)),
	}, l.config.Options)
	if l.config.Settings.OffsetMetadata {
		options = append(options, kgo.OnOffsetsFetched(l.restore))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("opening the Kafka client for %s: %w", l.config.Topic, err)
	}
	return client, nil
}

// consumed returns the topics that the consumer reads.
func (c *Config) consumed() []string {
	topics := append([]string{c.Topic}, c.RetryTopics...)
	if c.ReplayTopic != "" && c.ReplayTopic != c.Topic {
		topics = append(topics, c.ReplayTopic)
	}
	return topics
}

// connection returns the broker connection options of every consuming client.
func (l *loop) connection() []kgo.Opt {
	return []kgo.Opt{
		kgo.WithContext(l.connected), kgo.SeedBrokers(l.config.Bootstrap...), kgo.ClientID(l.config.ClientID),
		kgo.RequestTimeoutOverhead(answerTimeout), kgo.FetchMaxBytes(fetchBytes),
		kgo.FetchMaxPartitionBytes(fetchPartitionBytes),
		kgo.MetadataMaxAge(metadataMaxAge), kgo.MetadataMinAge(metadataMinAge), kgo.RetryBackoffFn(reconnectBackoff),
		kgo.DisableClientMetrics(), kgo.AlwaysRetryEOF(), // a broker may close a connection before its first response
	}
}

// membership returns the client options of a consumer group member, for both group protocols.
func (l *loop) membership() []kgo.Opt {
	timeout := l.config.SessionTimeout
	return append([]kgo.Opt{
		kgo.ConsumerGroup(l.config.Group), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.FetchMaxWait(fetchWait),
		// A group without commits starts at the beginning, so that it does not miss records produced before it
		// existed.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(timeout), kgo.HeartbeatInterval(min(heartbeatInterval, timeout/3)),
		kgo.RebalanceTimeout(rebalanceTimeout),
	}, assignment(l.config)...)
}

// assignment returns the options for assigning partitions. In the consumer protocol (KIP-848) the broker assigns
// them. The client's balancer only names the requested assignor, and sticky stands for the broker's "uniform".
func assignment(config Config) []kgo.Opt {
	var options []kgo.Opt
	switch {
	case config.Settings.GroupProtocol == ProtocolConsumer:
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	case config.Settings.Assignor == AssignorRange:
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	default:
		options = append(options, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	if config.Settings.StaticMembership {
		options = append(options, kgo.InstanceID(config.InstanceID))
	}
	return options
}

// leave gives the partitions back, so that the group need not wait for the session timeout. A static member does not
// leave: the client closes without a LeaveGroup, and the group keeps its partitions for it until the session times
// out.
func (c *Consumer) leave(l *loop) {
	l.client.AllowRebalance()
	leaving, cancel := context.WithTimeout(context.Background(), l.grace(leaveShare))
	defer cancel()
	if err := l.client.LeaveGroupContext(leaving); err != nil && !l.goodbye() {
		c.config.Logger.Warn().Err(err).Str("group", c.config.Group).Msg(
			"the group was not left in order; it notices by the session timeout")
	}
	// No more requests are needed. Without this, the client waits up to a second for each broker to confirm the end
	// of a fetch session, and a slow broker would make the stop exceed its grace.
	l.disconnect()
	l.client.CloseAllowingRebalance()
	// Close leaves the group, too, in a goroutine of its own, and polls what is still buffered. That poll may come
	// first and hold the goroutine for good.
	l.client.AllowRebalance()
}

// goodbye tells the coordinator that the member is gone. The client itself does so only once it has joined. So a
// member that is stopped while a rebalance waits for others would be assigned partitions after its end.
func (l *loop) goodbye() bool {
	id, _ := l.client.GroupMetadata()
	if id == "" || l.config.Settings.StaticMembership || l.config.Settings.GroupProtocol != ProtocolClassic {
		return false
	}
	leaving, cancel := context.WithTimeout(context.Background(), l.grace(leaveShare/2))
	defer cancel()
	member := kmsg.NewLeaveGroupRequestMember()
	member.MemberID = id
	request := kmsg.NewPtrLeaveGroupRequest()
	request.Group, request.MemberID, request.Members = l.config.Group, id, []kmsg.LeaveGroupRequestMember{member}
	response, err := request.RequestWith(leaving, l.client)
	return err == nil && response.ErrorCode == 0
}
