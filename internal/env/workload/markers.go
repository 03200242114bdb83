package workload

// This file writes transaction markers between the records of the input.

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Markers writes transaction markers, as the transactions of an upstream producer leave them: each takes an offset of
// its partition, and no consumer is given a record there.
type Markers struct {
	// Client are the options for reaching the brokers.
	Client []kgo.Opt
	// Topics are the topics and the numbers of their partitions, each of which gets a marker Every so long.
	Topics map[string]int
	Every  time.Duration
	// ID is the transactional id.
	ID string
}

// transactionTimeout is after what time the broker aborts a transaction that was left open.
const transactionTimeout = 10 * time.Second

// Run commits a transaction without records on all partitions again and again, until ctx ends. What cannot be written
// for a while (a broker is away) is left out. It returns an error if not one transaction was committed.
func (m Markers) Run(ctx context.Context) error {
	client, err := kgo.NewClient(append(slices.Clip(m.Client), kgo.ClientID("dlqbench-markers"),
		kgo.TransactionalID(m.ID), kgo.TransactionTimeout(transactionTimeout),
		// From Kafka 4.0 on, newer versions add partitions to a transaction by writing to them (KIP-890).
		kgo.MaxVersions(kversion.V3_7_0()))...)
	if err != nil {
		return fmt.Errorf("setting up the writer of transaction markers: %w", err)
	}
	defer client.Close()
	again := time.NewTicker(m.Every)
	defer again.Stop()
	written, failed := 0, error(nil)
	for ctx.Err() == nil {
		if err := m.commit(ctx, client); err == nil {
			written++
		} else if ctx.Err() == nil {
			failed = err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
	if written == 0 && failed != nil {
		return fmt.Errorf("no transaction marker could be written (transaction_markers; with ACLs, it takes Write and "+
			"Describe on the transactional id %s): %w", m.ID, failed)
	}
	return nil
}

// commit commits one transaction without records.
func (m Markers) commit(ctx context.Context, client *kgo.Client) error {
	id, epoch, err := client.ProducerID(ctx)
	if err != nil {
		return fmt.Errorf("asking for a producer id: %w", err)
	}
	adding := kmsg.NewPtrAddPartitionsToTxnRequest()
	adding.TransactionalID, adding.ProducerID, adding.ProducerEpoch = m.ID, id, epoch
	for topic, partitions := range m.Topics {
		one := kmsg.NewAddPartitionsToTxnRequestTopic()
		one.Topic = topic
		for number := range int32(partitions) {
			one.Partitions = append(one.Partitions, number)
		}
		adding.Topics = append(adding.Topics, one)
	}
	added, err := adding.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("adding partitions to a transaction: %w", err)
	}
	for _, topic := range added.Topics {
		for _, one := range topic.Partitions {
			if err := kerr.ErrorForCode(one.ErrorCode); err != nil {
				return fmt.Errorf("adding %s-%d to a transaction: %w", topic.Topic, one.Partition, err)
			}
		}
	}
	ending := kmsg.NewPtrEndTxnRequest()
	ending.TransactionalID, ending.ProducerID, ending.ProducerEpoch, ending.Commit = m.ID, id, epoch, true
	ended, err := ending.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(ended.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("committing a transaction: %w", err)
	}
	return nil
}
