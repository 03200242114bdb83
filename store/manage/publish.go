package manage

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/dlqbench/dlqbench/store/worker"
)

// Transactional is a Publisher on Kafka. The transaction commits an offset for a group of the replay's own, and the
// offset's metadata contains the ids of the batch. The ids are thus stored if and only if the records are.
type Transactional struct {
	client *kgo.Client
	name   string
}

// transactionTimeout is the time after which brokers abort an open transaction.
const transactionTimeout = time.Minute

// NewTransactional opens a publisher under a name. The transactional id and the group are both "dlqbench-replay-NAME".
func NewTransactional(bootstrap []string, name string, options ...kgo.Opt) (*Transactional, error) {
	name = "dlqbench-replay-" + name
	client, err := kgo.NewClient(append(worker.ProducerOptions(bootstrap, options...),
		kgo.TransactionalID(name), kgo.TransactionTimeout(transactionTimeout),
		kgo.MaxVersions(kversion.V4_0_0()), // from v6 on, TxnOffsetCommit uses topic ids instead of names
	)...)
	if err != nil {
		return nil, fmt.Errorf("opening the Kafka client for replays: %w", err)
	}
	return &Transactional{client: client, name: name}, nil
}

// Close closes the connections.
func (t *Transactional) Close() { t.client.Close() }

// Recall implements Publisher. A new epoch of the transactional id aborts the open transaction of the previous holder.
func (t *Transactional) Recall(ctx context.Context) (map[string]bool, error) {
	if _, _, err := t.client.ProducerID(ctx); err != nil {
		return nil, fmt.Errorf("fencing off earlier replays (transactional id %s): %w", t.name, err)
	}
	offsets, err := kadm.NewClient(t.client).FetchOffsets(kadm.RequireStable(ctx), t.name)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("reading the last batch of earlier replays (group %s): %w", t.name, err)
	}
	published := map[string]bool{}
	for _, offset := range offsets.Sorted() {
		for id := range decodeIDs(offset.Metadata) {
			published[id] = true
		}
	}
	return published, nil
}

// Publish implements Publisher. One refused record aborts the transaction, and the others go into another one. Missing
// topics are detected before, because consumers that read uncommitted records would see the aborted ones.
func (t *Transactional) Publish(ctx context.Context, batch []Outgoing) (map[string]error, error) {
	refused := map[string]error{}
	failed, err := t.homeless(ctx, batch)
	for {
		if err != nil {
			return refused, err
		}
		var rest []Outgoing
		for _, one := range batch {
			if why := failed[one.ID]; why != nil {
				refused[one.ID] = why
				continue
			}
			rest = append(rest, one)
		}
		if batch = rest; len(batch) == 0 {
			return refused, nil
		}
		if failed, err = t.transaction(ctx, batch); err == nil && len(failed) == 0 {
			return refused, nil
		}
	}
}

// homeless returns the records whose topics do not exist.
func (t *Transactional) homeless(ctx context.Context, batch []Outgoing) (map[string]error, error) {
	topics := map[string]bool{}
	for _, one := range batch {
		topics[one.Record.Topic] = true
	}
	found, err := kadm.NewClient(t.client).ListTopics(ctx, slices.Sorted(maps.Keys(topics))...)
	if err != nil {
		return nil, fmt.Errorf("looking for the topics of the records: %w", err)
	}
	failed := map[string]error{}
	for _, one := range batch {
		if topic, listed := found[one.Record.Topic]; listed && topic.Err != nil {
			if classed := worker.ProduceError(one.Record.Topic, topic.Err); classed.Class == worker.Permanent {
				failed[one.ID] = classed
			}
		}
	}
	return failed, nil
}

// transaction publishes the batch, or nothing if part of it failed.
func (t *Transactional) transaction(ctx context.Context, batch []Outgoing) (failed map[string]error, err error) {
	if err := t.client.BeginTransaction(); err != nil {
		return nil, fmt.Errorf("beginning a transaction: %w", err)
	}
	failed, err = t.produce(ctx, batch)
	if err == nil && len(failed) == 0 {
		err = t.note(ctx, batch)
	}
	if err != nil || len(failed) > 0 {
		return failed, errors.Join(err, t.abort(ctx))
	}
	if err := t.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return nil, fmt.Errorf("committing the transaction: %w", err)
	}
	return nil, nil
}

// abort aborts the transaction. If that fails, the next Recall aborts it.
func (t *Transactional) abort(ctx context.Context) error {
	if err := t.client.AbortBufferedRecords(ctx); err != nil {
		return fmt.Errorf("aborting the transaction: %w", err)
	}
	if err := t.client.EndTransaction(ctx, kgo.TryAbort); err != nil {
		return fmt.Errorf("aborting the transaction: %w", err)
	}
	return nil
}

// produce writes the records. failed holds those that the brokers will never accept; err is any other problem.
func (t *Transactional) produce(ctx context.Context, batch []Outgoing) (failed map[string]error, err error) {
	var mu sync.Mutex
	failed = map[string]error{}
	var group sync.WaitGroup
	for _, one := range batch {
		group.Add(1)
		t.client.Produce(ctx, one.Record, func(_ *kgo.Record, produceErr error) {
			defer group.Done()
			if produceErr == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			classed := worker.ProduceError(one.Record.Topic, produceErr)
			if classed.Class == worker.Permanent {
				failed[one.ID] = classed
			} else if err == nil {
				err = classed
			}
		})
	}
	group.Wait()
	return failed, err
}

// note adds the ids to the transaction.
func (t *Transactional) note(ctx context.Context, batch []Outgoing) error {
	id, epoch, err := t.client.ProducerID(ctx)
	if err != nil {
		return fmt.Errorf("noting the batch: %w", err)
	}
	adding := kmsg.NewPtrAddOffsetsToTxnRequest()
	adding.TransactionalID, adding.ProducerID, adding.ProducerEpoch, adding.Group = t.name, id, epoch, t.name
	added, err := adding.RequestWith(ctx, t.client)
	if err == nil {
		err = kerr.ErrorForCode(added.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("noting the batch: adding the group %s to the transaction: %w", t.name, err)
	}
	metadata := encodeIDs(batch)
	partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	partition.Offset, partition.Metadata = int64(len(batch)), &metadata
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic, topic.Partitions = batch[0].Record.Topic, []kmsg.TxnOffsetCommitRequestTopicPartition{partition}
	noting := kmsg.NewPtrTxnOffsetCommitRequest()
	noting.TransactionalID, noting.ProducerID, noting.ProducerEpoch, noting.Group = t.name, id, epoch, t.name
	noting.Generation, noting.Topics = -1, []kmsg.TxnOffsetCommitRequestTopic{topic}
	noted, err := noting.RequestWith(ctx, t.client)
	if err != nil {
		return fmt.Errorf("noting the batch in group %s: %w", t.name, err)
	}
	for _, topic := range noted.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return fmt.Errorf("noting the batch in group %s: %w", t.name, err)
			}
		}
	}
	return nil
}

// encodeIDs encodes each UUID in 22 characters, so that MaxBatch of them fit in the 4096 bytes that brokers accept by
// default (offset.metadata.max.bytes).
func encodeIDs(batch []Outgoing) string {
	words := make([]string, len(batch))
	for i, one := range batch {
		words[i] = one.ID // ids of other stores are not encoded
		if id, err := uuid.Parse(one.ID); err == nil {
			words[i] = "." + base64.RawURLEncoding.EncodeToString(id[:])
		}
	}
	return strings.Join(words, ",")
}

func decodeIDs(text string) map[string]bool {
	ids := map[string]bool{}
	for word := range strings.SplitSeq(text, ",") {
		if encoded, short := strings.CutPrefix(word, "."); short {
			raw, err := base64.RawURLEncoding.DecodeString(encoded)
			if err != nil {
				continue
			}
			id, err := uuid.FromBytes(raw)
			if err != nil {
				continue
			}
			word = id.String()
		}
		if word != "" {
			ids[word] = true
		}
	}
	return ids
}
