// A consumer on segmentio's kafka-go as its documentation of ConsumerGroup writes one: a reader for each assigned
// partition, whose messages are handled and committed one by one. All settings of the client are its defaults, but for
// what the work needs.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	maxAttempts = 3
	backoff     = 100 * time.Millisecond // after the nth attempt n times as long
)

// These are mistakes that tests plant with PLANTED_BUG, to see them named. committedFirst commits before the message is
// handled. reader uses the client's Reader, which commits messages of partitions that it has lost
// (https://github.com/segmentio/kafka-go/issues/1308). markers takes transaction markers for messages.
const (
	committedFirst = "committed-first"
	reader         = "reader"
	markers        = "markers"
)

func main() {
	log.SetFlags(log.LstdFlags | log.Lmicroseconds)
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	brokers := strings.Split(os.Getenv("KAFKA_BROKERS"), ",")
	consumer := &Consumer{
		brokers: brokers, group: os.Getenv("KAFKA_GROUP"), topic: os.Getenv("KAFKA_TOPIC"),
		writer: &kafka.Writer{
			Addr: kafka.TCP(brokers...), Topic: os.Getenv("KAFKA_DLQ_TOPIC"), RequiredAcks: kafka.RequireAll,
			BatchTimeout: 10 * time.Millisecond, // the default of a second is for loads, not for single letters
		},
		http: &http.Client{Timeout: time.Second}, url: os.Getenv("DOWNSTREAM_URL") + "/v1/attempt",
		bug: os.Getenv("PLANTED_BUG"),
	}
	run := consumer.run
	if consumer.bug == reader {
		run = consumer.read
	}
	err := run(ctx)
	if closing := consumer.writer.Close(); closing != nil {
		log.Printf("closing the writer: %v", closing)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// Consumer handles the messages of a partition one after the other.
type Consumer struct {
	brokers      []string
	group, topic string
	writer       *kafka.Writer
	http         *http.Client
	url          string
	bug          string
}

// run takes part in one generation of the group after the other.
func (c *Consumer) run(ctx context.Context) error {
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: c.group, Brokers: c.brokers, Topics: []string{c.topic}, ErrorLogger: kafka.LoggerFunc(log.Printf),
	})
	if err != nil {
		return fmt.Errorf("joining: %w", err)
	}
	defer group.Close()
	for {
		generation, err := group.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			log.Printf("ERROR in the group: %v", err)
			sleep(ctx, time.Second)
			continue
		}
		for _, assigned := range generation.Assignments[c.topic] {
			generation.Start(func(ctx context.Context) { c.consume(ctx, generation, assigned) })
		}
	}
}

// consume handles a partition until the generation ends.
func (c *Consumer) consume(ctx context.Context, generation *kafka.Generation, assigned kafka.PartitionAssignment) {
	partition := kafka.NewReader(kafka.ReaderConfig{
		Brokers: c.brokers, Topic: c.topic, Partition: assigned.ID, ErrorLogger: kafka.LoggerFunc(log.Printf),
	})
	defer partition.Close()
	if err := partition.SetOffset(assigned.Offset); err != nil {
		log.Printf("ERROR at %s/%d: %v", c.topic, assigned.ID, err)
		return
	}
	commit := func(message kafka.Message) {
		offsets := map[string]map[int]int64{c.topic: {message.Partition: message.Offset + 1}}
		if err := generation.CommitOffsets(offsets); err != nil {
			log.Printf("ERROR committing %s/%d/%d: %v", message.Topic, message.Partition, message.Offset, err)
		}
	}
	for {
		message, err := partition.ReadMessage(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			log.Printf("ERROR reading %s/%d: %v", c.topic, assigned.ID, err)
			sleep(ctx, time.Second)
			continue
		}
		if c.bug == committedFirst {
			commit(message)
		}
		if !c.handle(ctx, message) {
			return // the message is the next owner's
		}
		commit(message)
	}
}

// read is run with the client's Reader, as its README shows it.
func (c *Consumer) read(ctx context.Context) error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: c.brokers, GroupID: c.group, Topic: c.topic, ErrorLogger: kafka.LoggerFunc(log.Printf),
	})
	defer reader.Close()
	for {
		message, err := reader.FetchMessage(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("fetching: %w", err)
		}
		if !c.handle(ctx, message) {
			return nil // stopped: the message is the next owner's
		}
		if err := reader.CommitMessages(context.WithoutCancel(ctx), message); err != nil {
			log.Printf("ERROR committing %s/%d/%d: %v", message.Topic, message.Partition, message.Offset, err)
		}
	}
}

type failure struct {
	status int
	reason string
}

func (f *failure) Error() string { return f.reason }

// isMarker reports whether the message is a transaction marker, which the client hands out like any other message
// (https://github.com/segmentio/kafka-go/pull/1446): a version and a type as its key, a version and an epoch as its
// value, and no headers.
func isMarker(message kafka.Message) bool {
	return len(message.Key) == 4 && len(message.Value) == 6 && len(message.Headers) == 0 &&
		bytes.HasPrefix(message.Key, []byte{0, 0, 0}) && bytes.HasPrefix(message.Value, []byte{0, 0})
}

func (c *Consumer) handle(ctx context.Context, message kafka.Message) bool {
	if isMarker(message) && c.bug != markers {
		return true
	}
	for attempt := 1; ctx.Err() == nil; attempt++ {
		failed := c.post(message)
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

func (c *Consumer) post(message kafka.Message) *failure {
	request, err := http.NewRequest(http.MethodPost, c.url, bytes.NewReader(message.Value))
	if err != nil {
		return &failure{reason: err.Error()}
	}
	request.Header.Set("X-Kafka-Topic", message.Topic)
	request.Header.Set("X-Kafka-Partition", strconv.Itoa(message.Partition))
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

// deadLetter returns true when the dead letter is acknowledged; it tries until then, or until the consumer is stopped.
func (c *Consumer) deadLetter(ctx context.Context, message kafka.Message, attempts int, failed *failure) bool {
	for ctx.Err() == nil {
		err := c.writer.WriteMessages(ctx, letter(message, attempts, failed))
		if err == nil {
			return true
		}
		log.Printf("ERROR writing %s/%d/%d to the dead-letter topic: %v", message.Topic, message.Partition, message.Offset, err)
		sleep(ctx, time.Second)
	}
	return false
}

func letter(message kafka.Message, attempts int, failed *failure) kafka.Message {
	added := map[string]string{
		"x-error-reason":  strings.ToValidUTF8(failed.reason, "\uFFFD"),
		"x-retry-attempt": strconv.Itoa(attempts),
		"source-topic":    message.Topic,
		"partition":       strconv.Itoa(message.Partition),
		"offset":          strconv.FormatInt(message.Offset, 10),
		"epoch":           "-1", // kafka-go does not tell it
	}
	latest := map[string]int{}
	for i, header := range message.Headers {
		if _, ours := added[header.Key]; ours {
			latest[header.Key] = i
		}
	}
	var headers []kafka.Header
	for i, header := range message.Headers {
		// One that comes back from the dead-letter topic has all of them; one that has a few has them from its
		// application.
		if at, ours := latest[header.Key]; !ours || at != i || len(latest) < len(added) {
			headers = append(headers, header)
		}
	}
	for key, value := range added {
		headers = append(headers, kafka.Header{Key: key, Value: []byte(value)})
	}
	return kafka.Message{Key: message.Key, Value: message.Value, Headers: headers}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
