// A consumer on sarama as its consumer group example writes one: a claim per partition, messages are marked when they
// are finished, the client commits the marks every second. All settings of the client are its defaults, but for what
// the work needs.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/avro"
)

const (
	maxAttempts = 3
	backoff     = 100 * time.Millisecond // after the nth attempt n times as long
)

// Mistakes that tests plant with PLANTED_BUG, to see them named.
const (
	markedBeforeLetter    = "marked-before-letter"
	goroutinePerMessage   = "goroutine-per-message"
	newestByDefault       = "newest-by-default"
	acksByDefault         = "acks-by-default"
	registryErrorIsPoison = "registry-error-is-poison"
)

func main() {
	log.SetFlags(log.LstdFlags | log.Lmicroseconds)
	sarama.Logger = log.New(os.Stderr, "[sarama] ", log.LstdFlags)

	config := sarama.NewConfig()
	if os.Getenv("PLANTED_BUG") != newestByDefault {
		config.Consumer.Offsets.Initial = sarama.OffsetOldest
	}
	if os.Getenv("PLANTED_BUG") != acksByDefault {
		config.Producer.RequiredAcks = sarama.WaitForAll
	}
	config.Producer.Return.Successes = true // a SyncProducer needs it
	brokers := strings.Split(os.Getenv("KAFKA_BROKERS"), ",")
	client, err := sarama.NewConsumerGroup(brokers, os.Getenv("KAFKA_GROUP"), config)
	if err != nil {
		log.Fatalf("Error creating consumer group client: %v", err)
	}
	producer, err := sarama.NewSyncProducer(brokers, config)
	if err != nil {
		log.Fatalf("Error creating producer: %v", err)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()

	consumer := &Consumer{
		producer: producer, dlq: os.Getenv("KAFKA_DLQ_TOPIC"),
		http: &http.Client{Timeout: time.Second}, url: os.Getenv("DOWNSTREAM_URL") + "/v1/attempt",
		registry: os.Getenv("SCHEMA_REGISTRY_URL"), bug: os.Getenv("PLANTED_BUG"),
	}
	if consumer.bug == markedBeforeLetter {
		if consumer.async, err = asyncProducer(brokers); err != nil {
			log.Fatalf("Error creating producer: %v", err)
		}
	}
	for ctx.Err() == nil {
		// Consume returns when the group rebalances: it is called again to get the new claims.
		if err := client.Consume(ctx, strings.Split(os.Getenv("KAFKA_TOPIC"), ","), consumer); err != nil {
			if errors.Is(err, sarama.ErrClosedConsumerGroup) {
				break
			}
			log.Printf("ERROR from consumer: %v", err)
			sleep(ctx, time.Second)
		}
	}
	log.Println("terminating")
	if err := client.Close(); err != nil {
		log.Printf("ERROR closing client: %v", err)
	}
	if err := producer.Close(); err != nil {
		log.Printf("ERROR closing producer: %v", err)
	}
}

// Consumer is the sarama.ConsumerGroupHandler.
type Consumer struct {
	producer sarama.SyncProducer
	dlq      string
	http     *http.Client
	url      string
	registry string   // "" if values have no schema
	schemas  sync.Map // *avro.Schema by id
	bug      string
	async    sarama.AsyncProducer // of markedBeforeLetter
}

// asyncProducer returns a producer whose errors are written to the log, and that is all.
func asyncProducer(brokers []string) (sarama.AsyncProducer, error) {
	producer, err := sarama.NewAsyncProducer(brokers, nil)
	if err != nil {
		return nil, err
	}
	go func() {
		for err := range producer.Errors() {
			log.Printf("ERROR sending to the dead-letter topic: %v", err)
		}
	}()
	return producer, nil
}

// Setup is run at the beginning of a new session.
func (c *Consumer) Setup(sarama.ConsumerGroupSession) error { return nil }

// Cleanup is run at the end of a session, once all ConsumeClaim goroutines have exited.
func (c *Consumer) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim is called within a goroutine for each partition.
func (c *Consumer) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			if c.bug == goroutinePerMessage {
				go func() {
					if c.handle(session.Context(), message) {
						session.MarkMessage(message, "")
					}
				}()
				continue
			}
			if !c.handle(session.Context(), message) {
				return nil // the session ends: this message is the next owner's
			}
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

type failure struct {
	status int
	reason string
}

func (f *failure) Error() string { return f.reason }

func (c *Consumer) handle(ctx context.Context, message *sarama.ConsumerMessage) bool {
	body, err := c.body(ctx, message.Value)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		log.Printf("ERROR reading %s/%d/%d: %v", message.Topic, message.Partition, message.Offset, err)
		return c.deadLetter(ctx, message, 1, &failure{reason: err.Error()})
	}
	for attempt := 1; ctx.Err() == nil; attempt++ {
		failed := c.post(message, body)
		switch {
		case failed == nil:
			return true
		case failed.status == http.StatusBadRequest, failed.status == http.StatusUnprocessableEntity, attempt == maxAttempts:
			return c.deadLetter(ctx, message, attempt, failed)
		}
		sleep(ctx, time.Duration(attempt)*backoff)
	}
	return false
}

// body returns what is sent on: the value, as JSON where it has a schema. The error says why it can't be read.
func (c *Consumer) body(ctx context.Context, value []byte) ([]byte, error) {
	if c.registry == "" || value == nil {
		return value, nil
	}
	if len(value) < 5 || value[0] != 0 {
		return nil, errors.New("the value names no schema")
	}
	schema, err := c.schema(ctx, binary.BigEndian.Uint32(value[1:]))
	if err != nil {
		return nil, err
	}
	var order any
	if rest, err := schema.Decode(value[5:], &order); err != nil || len(rest) > 0 {
		return nil, fmt.Errorf("the value does not fit its schema, with %d bytes left: %v", len(rest), err)
	}
	return json.Marshal(order)
}

// schema asks the registry for a schema until it is there, or until the session ends. Only a schema that the registry
// does not know is the record's fault, and an error.
func (c *Consumer) schema(ctx context.Context, id uint32) (*avro.Schema, error) {
	if known, found := c.schemas.Load(id); found {
		return known.(*avro.Schema), nil
	}
	for ctx.Err() == nil {
		schema, status, err := c.ask(id)
		if err == nil {
			c.schemas.Store(id, schema)
			return schema, nil
		}
		if status == http.StatusNotFound || c.bug == registryErrorIsPoison {
			return nil, err
		}
		log.Printf("ERROR loading schema %d: %v", id, err)
		sleep(ctx, 500*time.Millisecond)
	}
	return nil, ctx.Err()
}

func (c *Consumer) ask(id uint32) (*avro.Schema, int, error) {
	response, err := c.http.Get(fmt.Sprintf("%s/schemas/ids/%d", c.registry, id))
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, response.StatusCode, fmt.Errorf("the registry answered %s", response.Status)
	}
	var answer struct{ Schema string }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, 0, err
	}
	schema, err := avro.Parse(answer.Schema)
	return schema, response.StatusCode, err
}

func (c *Consumer) post(message *sarama.ConsumerMessage, sent []byte) *failure {
	request, err := http.NewRequest(http.MethodPost, c.url, bytes.NewReader(sent))
	if err != nil {
		return &failure{reason: err.Error()}
	}
	request.Header.Set("X-Kafka-Topic", message.Topic)
	request.Header.Set("X-Kafka-Partition", strconv.Itoa(int(message.Partition)))
	request.Header.Set("X-Kafka-Offset", strconv.FormatInt(message.Offset, 10))
	response, err := c.http.Do(request)
	if err != nil {
		return &failure{reason: err.Error()}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return &failure{reason: err.Error()}
	case response.StatusCode == http.StatusOK:
		return nil
	}
	answer := struct{ Error string }{fmt.Sprintf("HTTP %d", response.StatusCode)}
	_ = json.Unmarshal(body, &answer)
	return &failure{status: response.StatusCode, reason: answer.Error}
}

// deadLetter returns true when the dead letter is acknowledged; it tries until then, or until the session ends.
func (c *Consumer) deadLetter(ctx context.Context, message *sarama.ConsumerMessage, attempts int,
	failed *failure) bool {
	topic := c.dlq
	if topic == "" {
		topic = message.Topic + ".dlt"
	}
	if c.bug == markedBeforeLetter {
		c.async.Input() <- letter(topic, message, attempts, failed)
		return true
	}
	for ctx.Err() == nil {
		_, _, err := c.producer.SendMessage(letter(topic, message, attempts, failed))
		if err == nil {
			return true
		}
		log.Printf("ERROR sending %s/%d/%d to the dead-letter topic: %v", message.Topic, message.Partition,
			message.Offset, err)
		sleep(ctx, time.Second)
	}
	return false
}

func letter(topic string, message *sarama.ConsumerMessage, attempts int, failed *failure) *sarama.ProducerMessage {
	added := map[string]string{
		"x-error-reason":  strings.ToValidUTF8(failed.reason, "\uFFFD"),
		"x-retry-attempt": strconv.Itoa(attempts),
		"source-topic":    message.Topic,
		"partition":       strconv.Itoa(int(message.Partition)),
		"offset":          strconv.FormatInt(message.Offset, 10),
		"epoch":           "-1", // sarama does not tell it
	}
	latest := map[string]int{}
	for i, header := range message.Headers {
		if _, ours := added[string(header.Key)]; ours {
			latest[string(header.Key)] = i
		}
	}
	var headers []sarama.RecordHeader
	for i, header := range message.Headers {
		// One that comes back from the dead-letter topic has all of them; one that has a few has them from its
		// application.
		if at, ours := latest[string(header.Key)]; !ours || at != i || len(latest) < len(added) {
			headers = append(headers, *header)
		}
	}
	for key, value := range added {
		headers = append(headers, sarama.RecordHeader{Key: []byte(key), Value: []byte(value)})
	}
	out := &sarama.ProducerMessage{Topic: topic, Headers: headers}
	if message.Key != nil {
		out.Key = sarama.ByteEncoder(message.Key)
	}
	if message.Value != nil {
		out.Value = sarama.ByteEncoder(message.Value)
	}
	return out
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
