// Command main copies COUNT different records from one topic to another with sarama.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

type copier struct {
	producer sarama.SyncProducer
	target   string
	count    int
	done     context.CancelFunc

	mu     sync.Mutex
	copied map[string]bool
}

func (c *copier) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (c *copier) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c *copier) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		copied := &sarama.ProducerMessage{Topic: c.target, Value: sarama.ByteEncoder(message.Value)}
		if _, _, err := c.producer.SendMessage(copied); err != nil {
			return err
		}
		session.MarkMessage(message, "")
		session.Commit()
		c.mu.Lock()
		c.copied[string(message.Value)] = true
		if len(c.copied) >= c.count {
			c.done()
		}
		c.mu.Unlock()
	}
	return nil
}

func main() {
	bootstrap, source, target, group := strings.Split(os.Args[1], ","), os.Args[2], os.Args[3], os.Args[4]
	count, err := strconv.Atoi(os.Args[5])
	if err != nil {
		log.Fatal(err)
	}
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes, config.Producer.Idempotent, config.Net.MaxOpenRequests = true, true, 1
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Consumer.Offsets.Initial, config.Consumer.Offsets.AutoCommit.Enable = sarama.OffsetOldest, false
	producer, err := sarama.NewSyncProducer(bootstrap, config)
	if err != nil {
		log.Fatal(err)
	}
	consumers, err := sarama.NewConsumerGroup(bootstrap, group, config)
	if err != nil {
		log.Fatal(err)
	}
	ctx, done := context.WithTimeout(context.Background(), 90*time.Second)
	defer done()
	c := &copier{producer: producer, target: target, count: count, done: done, copied: map[string]bool{}}
	for ctx.Err() == nil {
		if err := consumers.Consume(ctx, []string{source}, c); err != nil {
			log.Print(err)
		}
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		log.Fatalf("only %d records came in time", len(c.copied))
	}
	if err := errors.Join(consumers.Close(), producer.Close()); err != nil {
		log.Fatal(err)
	}
	fmt.Println("copied", len(c.copied))
}
