package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/internal/kafkaio"
)

// Config defines which dead letters are replayed, and where to.
type Config struct {
	// Bootstrap are the brokers' addresses; Options are added to the client's (SASL, TLS).
	Bootstrap []string
	Options   []kgo.Opt
	// From is the dead-letter topic. To is the target topic; "" means the topic that each dead letter names.
	From, To string
	// Dialect opens the dead letters; nil means Plain.
	Dialect Opener
	// Drop names headers that are not put back, besides those of the dialect.
	Drop []string
	// Where selects dead letters by an expression such as `reason contains "timeout" && attempts >= 3`; "" selects
	// all. If Select is set, it must return true as well.
	Where  string
	Select func(letter *kgo.Record) bool
	// Limit is the maximum number of dead letters to replay; 0 = no limit. Rate is dead letters per second; 0 =
	// unlimited.
	Limit int
	Rate  float64
	// DryRun selects and reports dead letters but writes neither records nor progress.
	DryRun bool
	// OnLetter, if set, is called with each selected dead letter and the record for it, before that is produced.
	OnLetter func(letter, record *kgo.Record)
	// Group is the consumer group whose offsets hold the progress of a replay; "" means ProgressGroup. FromStart
	// ignores the progress: every dead letter still in the topic is considered, including those replayed before.
	Group     string
	FromStart bool
	// Publish, if set, wraps the publisher.
	Publish func(Publisher) Publisher
}

// Publisher writes the restored records. Records of one partition are written in the order of the calls.
type Publisher interface {
	// Produce writes the record and calls promise once, when the record is acknowledged or has failed permanently.
	Produce(ctx context.Context, record *kgo.Record, promise func(*kgo.Record, error))
	// Flush waits until all promises were called.
	Flush(ctx context.Context) error
}

// Result counts what a replay did.
type Result struct {
	Read     int64 `json:"read"`
	Selected int64 `json:"selected"`
	Replayed int64 `json:"replayed"`
	// Failed letters were refused for good; they are still in the dead-letter topic. Unreadable is how many offsets lie
	// in batches that would take too much memory to be read: they are passed over. Failures tells the first 20 of both.
	Failed     int64    `json:"failed"`
	Unreadable int64    `json:"unreadable,omitempty"`
	Failures   []string `json:"failures,omitempty"`
}

const (
	// window is the maximum number of dead letters in flight.
	window = 4096
	// checkpointEvery is the interval at which the progress is recorded. A killed replay repeats at most this much.
	checkpointEvery = time.Second
	// finishLimit is the maximum time after the end or an interruption for awaiting acknowledgements and recording
	// the progress.
	finishLimit = 10 * time.Second
	// locateLimit is the maximum time to find the start and end offsets of the topic. A longer wait means a wrong
	// address.
	locateLimit = 10 * time.Second
	// readPatience is the maximum time without records while the end of the topic is not reached.
	readPatience = 30 * time.Second
	maxFailures  = 20
)

// ConfigError reports that a Config is invalid. Nothing was read or written.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap returns the defect.
func (e *ConfigError) Unwrap() error { return e.Err }

var errNoAnswer = fmt.Errorf("no broker answered within %v", locateLimit)

// Run replays the selected dead letters. It reads From up to the end offsets at its start, so dead letters that come
// back while it runs are left for the next run. It produces idempotently with acks=all: a write that the broker
// rejects temporarily or does not acknowledge is retried under the same sequence number, and so is written once. A
// record goes to its source's partition number (modulo the target's partitions) in the order of the dead letters, so
// the order per key is kept.
//
// A second run does not replay a dead letter again. After all acknowledgements for the dead letters read so far, the
// position is committed to the consumer group (see Config.Group), and the next run starts there. Only dead letters in
// flight when a replay was killed are repeated. Progress belongs to the selection, see ProgressGroup. Do not run two
// replays of one selection at the same time: they repeat each other's work.
//
// A dead letter that cannot be restored (no source topic) or is rejected permanently (too large, not allowed) is
// counted in Failed, and the others continue. When ctx ends, Run stops reading, waits up to 10 s for records in
// flight, records the progress and returns ctx's error.
func Run(ctx context.Context, config Config) (Result, error) {
	r, err := newReplay(config)
	if err != nil {
		return Result{}, &ConfigError{err}
	}
	defer r.client.Close()
	locating, cancel := context.WithTimeoutCause(ctx, locateLimit, errNoAnswer)
	defer cancel()
	if err := r.locate(locating); err != nil {
		if errors.Is(context.Cause(locating), errNoAnswer) {
			err = fmt.Errorf("%w: %w", errNoAnswer, err)
		}
		return Result{}, err
	}
	runErr := r.read(ctx)
	finishing, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishLimit)
	defer cancel()
	err = errors.Join(runErr, r.checkpoint(finishing))
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result, err
}

// ProgressGroup returns the consumer group that holds the progress of a replay unless Config.Group names one. It is
// "<from>.replay" for everything, and a separate group for each Where and To, because dead letters that one selection
// skipped must be found by the next.
func ProgressGroup(from, to, where string) string {
	if to == "" && where == "" {
		return from + ".replay"
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(to + "\x00" + where)) // a hash never fails
	return fmt.Sprintf("%s.replay-%016x", from, sum.Sum64())
}

// replay is one run. The reading goroutine owns everything except the fields guarded by mu, which the promises write.
type replay struct {
	config Config
	filter filter
	client *kgo.Client
	reader kafkaio.Reader
	out    Publisher
	// position is the next offset to read in each partition, end the offset at which reading ends.
	position, end map[int32]int64
	noted         map[int32]int64
	lastNote      time.Time
	pace          *Pace
	slots         chan struct{}

	mu     sync.Mutex
	result Result
}

func newReplay(config Config) (*replay, error) {
	if config.Dialect == nil {
		config.Dialect = Plain{}
	}
	switch {
	case len(config.Bootstrap) == 0:
		return nil, errors.New("replaying dead letters: no broker address is given")
	case config.From == "":
		return nil, errors.New("replaying dead letters: no dead-letter topic is given")
	case config.From == config.To:
		return nil, fmt.Errorf("replaying dead letters: %s would be replayed to itself", config.From)
	case config.Limit < 0 || config.Rate < 0:
		return nil, errors.New("replaying dead letters: limit and rate can't be negative")
	case config.Select != nil && config.Group == "" && !config.FromStart:
		return nil, errors.New(
			"replaying dead letters: Select needs a Group of its own or FromStart, since progress belongs to a selection")
	}
	config.Group = cmp.Or(config.Group, ProgressGroup(config.From, config.To, config.Where))
	where, err := compileWhere(config.Where, config.Dialect)
	if err != nil {
		return nil, err
	}
	r := &replay{config: config, filter: where, slots: make(chan struct{}, window), pace: &Pace{Rate: config.Rate}}
	connection := append([]kgo.Opt{kgo.SeedBrokers(config.Bootstrap...), kgo.ClientID("dlqbench-replay")},
		config.Options...)
	r.client, err = kgo.NewClient(slices.Concat(connection, kafkaio.Writing(connection), r.reader.Options(), []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0),
		kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int { return partitionOf })),
		kgo.ProduceRequestTimeout(1500 * time.Millisecond), kgo.RequestTimeoutOverhead(3 * time.Second),
		kgo.MetadataMaxAge(2 * time.Second), kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(250 * time.Millisecond),
		kgo.DisableClientMetrics(), kgo.AlwaysRetryEOF(), // a broker may close a connection before its first response
	})...)
	if err != nil {
		return nil, fmt.Errorf("opening a Kafka client for the replay: %w", err)
	}
	r.out = r.client
	if config.Publish != nil {
		r.out = config.Publish(r.client)
	}
	return r, nil
}

// partitionOf returns the record's source partition number, modulo the target's partitions.
func partitionOf(record *kgo.Record, partitions int) int {
	return int(max(record.Partition, 0)) % partitions
}

// locate determines the offsets at which reading starts and ends.
func (r *replay) locate(ctx context.Context) error {
	admin := kadm.NewClient(r.client)
	starts, err := admin.ListStartOffsets(ctx, r.config.From)
	if err == nil {
		err = starts.Error()
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("there is no topic %s on these brokers: %w", r.config.From, err)
	}
	if err != nil {
		return fmt.Errorf("looking for the beginning of %s: %w", r.config.From, err)
	}
	ends, err := admin.ListCommittedOffsets(ctx, r.config.From)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("looking for the end of %s: %w", r.config.From, err)
	}
	noted := kadm.OffsetResponses{}
	if !r.config.FromStart {
		noted, err = admin.FetchOffsets(ctx, r.config.Group)
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return fmt.Errorf("reading the progress of earlier replays (group %s): %w", r.config.Group, err)
		}
	}
	r.position, r.end, r.noted = map[int32]int64{}, map[int32]int64{}, map[int32]int64{}
	assign := map[int32]kgo.Offset{}
	ends.Each(func(end kadm.ListedOffset) {
		start, _ := starts.Lookup(end.Topic, end.Partition)
		at := start.Offset
		if note, found := noted.Lookup(end.Topic, end.Partition); found && note.Err == nil {
			at = max(at, note.At)
		}
		r.position[end.Partition], r.end[end.Partition], r.noted[end.Partition] = at, end.Offset, at
		if at < end.Offset {
			assign[end.Partition] = kgo.NewOffset().At(at)
		}
	})
	r.lastNote = time.Now()
	if len(assign) > 0 {
		r.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{r.config.From: assign})
	}
	return nil
}

func (r *replay) atEnd() bool {
	for partition, end := range r.end {
		if r.position[partition] < end {
			return false
		}
	}
	return true
}

// read processes the topic until its end, the limit, or the end of ctx.
func (r *replay) read(ctx context.Context) error {
	for !r.atEnd() {
		polling, cancel := context.WithTimeout(ctx, readPatience)
		fetches, failures := r.reader.Poll(polling, r.client, 1000)
		cancel()
		if ctx.Err() != nil {
			return fmt.Errorf("replaying %s: %w", r.config.From, ctx.Err())
		}
		if err := fetches.Err0(); errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("reading %s: nothing came for %s, and the end is not reached", r.config.From, readPatience)
		}
		for _, failed := range failures {
			if !r.passOver(failed.Err) {
				return fmt.Errorf("reading %s/%d: %w", failed.Topic, failed.Partition, failed.Err)
			}
		}
		for _, letter := range fetches.Records() {
			if more, err := r.take(ctx, letter); err != nil || !more {
				return err
			}
		}
		if time.Since(r.lastNote) >= checkpointEvery {
			if err := r.checkpoint(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// passOver continues after a batch that is too large to read. It returns false if the error is another one.
func (r *replay) passOver(err error) bool {
	var large *kgo.ErrDecompressTooLarge
	if !errors.As(err, &large) {
		return false
	}
	// A partition fails only if nothing precedes the batch: earlier dead letters were returned by an earlier poll.
	next := min(large.NextOffset, r.end[large.Partition])
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Unreadable += next - max(large.Offset, r.position[large.Partition])
	r.tell(fmt.Sprintf("%s-%d@%d to %d: the batch decompresses to more than %d MiB or holds more than %d records",
		large.Topic, large.Partition, large.Offset, next-1, kafkaio.MaxBatch>>20, kafkaio.MaxRecords))
	r.position[large.Partition] = next
	r.client.SetOffsets(
		map[string]map[int32]kgo.EpochOffset{large.Topic: {large.Partition: {Epoch: -1, Offset: large.NextOffset}}})
	return true
}

// take processes the next dead letter. more is false when the limit is reached.
func (r *replay) take(ctx context.Context, letter *kgo.Record) (more bool, err error) {
	if letter.Offset >= r.end[letter.Partition] {
		return true, nil
	}
	selected := false
	if !letter.Attrs.IsControl() {
		r.count(&r.result.Read)
		if selected, err = r.selects(letter); err != nil {
			return false, err
		}
	}
	if selected {
		if err := r.put(ctx, letter); err != nil {
			return false, err
		}
	}
	// Only here: put returns early when ctx ends, and then the dead letter must not count as read.
	r.position[letter.Partition] = letter.Offset + 1
	return r.config.Limit == 0 || r.result.Selected < int64(r.config.Limit), nil
}

func (r *replay) selects(letter *kgo.Record) (bool, error) {
	if r.config.Select != nil && !r.config.Select(letter) {
		return false, nil
	}
	return r.filter.selects(letter)
}

// put sends one selected dead letter.
func (r *replay) put(ctx context.Context, letter *kgo.Record) error {
	record := r.config.Dialect.Prepare(letter)
	record.Headers = slices.DeleteFunc(slices.Clone(record.Headers), func(header kgo.RecordHeader) bool {
		return slices.Contains(r.config.Drop, header.Key)
	})
	if r.config.To != "" {
		record.Topic = r.config.To
	}
	if record.Partition < 0 {
		record.Partition = letter.Partition
	}
	if err := r.pace.Wait(ctx); err != nil {
		return fmt.Errorf("replaying %s: %w", r.config.From, err)
	}
	if r.config.OnLetter != nil {
		r.config.OnLetter(letter, record)
	}
	if r.config.DryRun {
		r.count(&r.result.Selected)
		return nil
	}
	if record.Topic == "" {
		r.count(&r.result.Selected)
		r.settle(letter, errors.New("the dead letter does not say which topic it goes back to; give the target with To"))
		return nil
	}
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("replaying %s: %w", r.config.From, ctx.Err())
	}
	r.count(&r.result.Selected)
	// Not ctx: an interruption must not cancel a record whose write may have happened.
	r.out.Produce(context.WithoutCancel(ctx), record, func(_ *kgo.Record, err error) {
		r.settle(letter, err)
		<-r.slots
	})
	return nil
}

func (r *replay) count(counter *int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*counter++
}

// settle records the result for a selected dead letter. If the client was closed, the result is unknown, and the dead
// letter stays unaccounted for.
func (r *replay) settle(letter *kgo.Record, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.result.Replayed++
	case errors.Is(err, kgo.ErrClientClosed):
	default:
		r.result.Failed++
		r.tell(fmt.Sprintf("%s: %v", position(letter), err))
	}
}

// tell records a failure; mu is held.
func (r *replay) tell(failure string) {
	if len(r.result.Failures) < maxFailures {
		r.result.Failures = append(r.result.Failures, failure)
	}
}

// checkpoint waits for every acknowledgement, then commits the position. This order makes a second run safe: a
// position is never committed before all dead letters below it are settled.
func (r *replay) checkpoint(ctx context.Context) error {
	if r.config.DryRun {
		return nil
	}
	if err := r.out.Flush(ctx); err != nil {
		return fmt.Errorf(
			"waiting for the acknowledgements of replayed records (the progress is not noted; a next run repeats them): %w", err)
	}
	offsets := kadm.Offsets{}
	for partition, at := range r.position {
		if at > r.noted[partition] {
			offsets.AddOffset(r.config.From, partition, at, -1)
		}
	}
	r.lastNote = time.Now()
	if len(offsets) == 0 {
		return nil
	}
	if err := kadm.NewClient(r.client).CommitAllOffsets(ctx, r.config.Group, offsets); err != nil {
		return fmt.Errorf("noting the progress in group %s (a next run repeats what was replayed since): %w",
			r.config.Group, err)
	}
	offsets.Each(func(offset kadm.Offset) { r.noted[offset.Partition] = offset.At })
	return nil
}
