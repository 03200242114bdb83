package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/internal/kafkaio"
	"github.com/dlqbench/dlqbench/store"
)

// RouterStore is the part of a store that a router needs.
type RouterStore interface {
	store.Ingester
	// Now is the store's clock.
	Now(ctx context.Context) (time.Time, error)
}

// RouterConfig configures which dead letters go into which store.
type RouterConfig struct {
	// Bootstrap are the brokers' addresses. Options are added to the client's (SASL, TLS).
	Bootstrap []string
	Options   []kgo.Opt
	// Topics are the dead-letter topics. Group is the consumer group whose offsets record the router's progress.
	Topics []string
	Group  string
	// ClientID is the router's client id.
	ClientID string
	// Dialect names the dialect of the dead letters. With "", it is detected for each dead letter.
	Dialect string
	// BatchSize is the maximum number of dead letters made durable at a time.
	BatchSize  int
	Store      RouterStore
	Strategies Strategies
	// Observer may be nil.
	Observer Observer
	Logger   zerolog.Logger
}

// DefaultBatch is the number of dead letters that a router makes durable at a time.
const DefaultBatch = 500

const (
	// routerPoll bounds one poll. A rebalance waits at most for one poll and one commit.
	routerPoll  = 250 * time.Millisecond
	commitLimit = 3 * time.Second
	// stopLimit bounds the time for leaving the group.
	stopLimit = 2 * time.Second
)

func (c RouterConfig) validate() error {
	var errs []error
	if len(c.Bootstrap) == 0 || len(c.Topics) == 0 || c.Group == "" {
		errs = append(errs, errors.New("a router needs brokers, dead-letter topics and a consumer group"))
	}
	if c.BatchSize < 1 {
		errs = append(errs, errors.New("the batch size must be at least 1"))
	}
	if c.Store == nil {
		errs = append(errs, errors.New("a router needs a store"))
	}
	if c.Dialect != "" && c.Dialect != deadletter.RawName {
		if _, err := deadletter.Named(c.Dialect); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(append(errs, c.Strategies.validate())...); err != nil {
		return &ConfigError{fmt.Errorf("configuring the router: %w", err)}
	}
	return nil
}

// Route ingests dead letters into the store until ctx ends. It commits an offset only after all entries below it are
// durable, and the store leaves out sources that it has. Each dead letter is therefore in the store exactly once, even
// if the router is killed, its partitions move or dead letters are redelivered. While the store is down or full,
// nothing is committed and nothing is dropped: the same dead letters are offered again, with growing pauses, and the
// log reports it at level error.
func Route(ctx context.Context, config RouterConfig) error {
	if err := config.validate(); err != nil {
		return err
	}
	r := &router{RouterConfig: config, owned: map[topicPartition]int{}, size: config.BatchSize,
		trouble: trouble{log: config.Logger}}
	connected, disconnect := context.WithCancel(context.WithoutCancel(ctx))
	defer disconnect()
	client, err := kgo.NewClient(r.options(connected)...)
	if err != nil {
		return fmt.Errorf("opening the Kafka client of the router: %w", err)
	}
	r.client = client
	r.run(ctx)
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	if err := client.LeaveGroupContext(leaving); err != nil {
		config.Logger.Warn().Err(err).Str("group", config.Group).Msg(
			"the group was not left in order; it notices by the session timeout")
	}
	disconnect() // no further requests: the client need not wait for the brokers' answers
	client.CloseAllowingRebalance()
	return nil
}

func (r *router) options(connected context.Context) []kgo.Opt {
	return slices.Concat(r.reader.Options(), []kgo.Opt{
		kgo.WithContext(connected), kgo.SeedBrokers(r.Bootstrap...), kgo.ClientID(r.ClientID),
		kgo.ConsumerGroup(r.Group), kgo.ConsumeTopics(r.Topics...), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(routerPoll),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.RebalanceTimeout(10 * time.Second),
		kgo.MetadataMaxAge(2 * time.Second), kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.RequestTimeoutOverhead(5 * time.Second),
		kgo.OnPartitionsAssigned(r.assigned), kgo.OnPartitionsRevoked(r.gone), kgo.OnPartitionsLost(r.gone),
		kgo.DisableClientMetrics(), kgo.AlwaysRetryEOF(), // a broker may close a connection before its first answer
	}, r.Options)
}

type topicPartition struct {
	topic     string
	partition int32
}

// router is the state of one run. Its goroutine owns all fields except those guarded by mu, which the client's
// callbacks write.
type router struct {
	RouterConfig
	client  *kgo.Client
	reader  kafkaio.Reader
	trouble trouble
	// size is the number of dead letters offered to the store at a time. It is halved when they are refused, so that a
	// dead letter that cannot be stored is found and named.
	size int

	mu sync.Mutex
	// owned holds the assigned partitions, each with a number that is unique to the assignment.
	owned       map[topicPartition]int
	assignments int
	ready       bool
}

func (r *router) assigned(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.assignments++
	for topic, numbers := range partitions {
		for _, number := range numbers {
			r.owned[topicPartition{topic, number}] = r.assignments
		}
	}
	if !r.ready && len(r.owned) > 0 {
		r.ready = true
		r.Logger.Log().Str(zerolog.LevelFieldName, "info").Str("state", "ready").Str("group", r.Group).Strs("topics",
			r.Topics).Int("partitions", len(r.owned)).
			Float64("time_scale", r.Strategies.Clock.scale()).Msg("the router reads dead letters")
		r.Logger.Info().Strs("declares", Declares()).Msg("what is promised, and what is not")
	}
}

// gone waits for a commit in progress, which still belongs to the assignment that ends.
func (r *router) gone(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for topic, numbers := range partitions {
		for _, number := range numbers {
			delete(r.owned, topicPartition{topic, number})
		}
	}
}

func (r *router) run(ctx context.Context) {
	for ctx.Err() == nil {
		polling, cancel := context.WithTimeout(ctx, routerPoll)
		fetches, failures := r.reader.Poll(polling, r.client, r.BatchSize)
		cancel()
		for _, failed := range failures {
			if large, ok := errors.AsType[*kgo.ErrDecompressTooLarge](failed.Err); ok {
				r.Logger.Error().Str("topic", large.Topic).Int32("partition", large.Partition).Int64("offset", large.Offset).Int64(
					"next", large.NextOffset).Msg(
					"a batch decompresses to more than is safe: the partition is not read further; set the group's offset to next, " +
						"and start the router again")
				continue
			}
			if !errors.Is(failed.Err, context.DeadlineExceeded) && !errors.Is(failed.Err, context.Canceled) {
				r.Logger.Warn().Err(failed.Err).Str("topic", failed.Topic).Int32("partition", failed.Partition).Msg(
					"fetching dead letters failed; it is tried again")
			}
		}
		// Rebalances are blocked since the poll, so this is the assignment in which the dead letters were fetched.
		fetched := r.assignment()
		letters := fetches.Records()
		for len(letters) > 0 {
			taken, err := r.store(ctx, letters)
			if err != nil {
				break // ctx has ended: uncommitted dead letters are redelivered
			}
			r.commit(ctx, letters[:taken], fetched)
			letters = letters[taken:]
		}
		r.client.AllowRebalance()
	}
}

func (r *router) assignment() map[topicPartition]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	fetched := make(map[topicPartition]int, len(r.owned))
	maps.Copy(fetched, r.owned)
	return fetched
}

// store makes a prefix of the dead letters durable and returns its length. It returns only when some are durable, or
// with ctx's error.
func (r *router) store(ctx context.Context, letters []*kgo.Record) (int, error) {
	for failures := 1; ; failures++ {
		batch := letters[:min(r.size, len(letters))]
		err := r.ingest(ctx, batch)
		if err == nil {
			r.size = min(2*r.size, r.BatchSize)
			r.trouble.over("the store takes dead letters again")
			return len(batch), nil
		}
		r.refused(batch, err)
		r.size = max(1, len(batch)/2)
		// A rebalance need not wait for the store: the next owner of the partitions offers the same dead letters, and
		// the store accepts each once.
		r.client.AllowRebalance()
		if err := sleep(ctx, pause(failures)); err != nil {
			return 0, err
		}
	}
}

func (r *router) refused(batch []*kgo.Record, err error) {
	first := batch[0]
	if len(batch) == 1 {
		err = fmt.Errorf("storing the dead letter at %s-%d@%d (%d bytes): %w", first.Topic, first.Partition, first.Offset,
			len(first.Value), err)
	} else {
		err = fmt.Errorf("storing %d dead letters from %s-%d@%d on: %w", len(batch), first.Topic, first.Partition,
			first.Offset, err)
	}
	message := "the store does not take dead letters; nothing is committed, and it goes on"
	if errors.Is(err, store.ErrFull) {
		message = "the store is full; make room (dlqbench dlq retain, purge): nothing is committed, and it goes on"
	}
	r.trouble.complain(err, message)
}

// ingest makes one batch durable.
func (r *router) ingest(ctx context.Context, letters []*kgo.Record) error {
	// It does not use ctx: an interruption must not leave it unknown whether the dead letters are stored.
	storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
	defer cancel()
	now, err := r.Store.Now(storing)
	if err != nil {
		return fmt.Errorf("asking the store for the time: %w", err)
	}
	entries := make([]store.Entry, len(letters))
	for i, letter := range letters {
		name, opener := r.dialect(letter)
		entries[i] = newEntry(letter, name, opener)
		plan(&entries[i], r.Strategies, now)
	}
	fresh, err := r.Store.Ingest(storing, entries)
	if err != nil {
		return err
	}
	if r.Observer != nil {
		r.Observer.Ingested(entries, fresh)
	}
	r.Logger.Debug().Int("letters", len(letters)).Int("fresh", fresh).Msg("dead letters are stored")
	return nil
}

// dialect returns the dialect of the dead letter, and its opener.
func (r *router) dialect(letter *kgo.Record) (string, deadletter.Opener) {
	switch r.Dialect {
	case "":
		return deadletter.Detect(letter)
	case deadletter.RawName:
		return deadletter.RawName, deadletter.Raw{}
	}
	dialect, err := deadletter.Named(r.Dialect)
	if err != nil {
		return deadletter.RawName, deadletter.Raw{} // it was checked before
	}
	if _, missing := dialect.Open(letter); len(missing) > 0 && len(missing) == len(dialect.Traits().Fields) {
		return deadletter.RawName, deadletter.Raw{}
	}
	return r.Dialect, dialect
}

// commit commits that the dead letters are in the store. It skips partitions that were revoked since the fetch: they
// belong to another member, and a commit would set its progress back.
func (r *router) commit(ctx context.Context, letters []*kgo.Record, fetched map[topicPartition]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for _, letter := range letters {
		at := topicPartition{letter.Topic, letter.Partition}
		if number, owned := r.owned[at]; !owned || number != fetched[at] {
			continue
		}
		if offsets[at.topic] == nil {
			offsets[at.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[at.topic][at.partition] = kgo.EpochOffset{Epoch: letter.LeaderEpoch, Offset: letter.Offset + 1}
	}
	if len(offsets) == 0 {
		return
	}
	committing, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitLimit)
	defer cancel()
	var failed error
	r.client.CommitOffsetsSync(committing, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest,
		response *kmsg.OffsetCommitResponse, err error) {
		failed = commitError(response, err)
	})
	// the next commit covers it; a restart before that redelivers the dead letters, and the store leaves them out
	if failed != nil {
		r.Logger.Warn().Err(failed).Str("group",
			r.Group).Msg("the offsets of stored dead letters were not committed; they are committed with the next ones")
	}
}

func commitError(response *kmsg.OffsetCommitResponse, err error) error {
	if err != nil {
		return err
	}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return fmt.Errorf("%s-%d: %w", topic.Topic, partition.Partition, err)
			}
		}
	}
	return nil
}
