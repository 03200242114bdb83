// A consumer on segmentio's kafka-go as its README writes one: one loop that fetches a message, handles it and commits
// it. All settings of the client are its defaults, but for what the work needs.
package main

import (
	"bytes"
	"context"
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
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	maxAttempts = 3
	backoff     = 100 * time.Millisecond // after the nth attempt n times as long
)

// committedFirst is a mistake that tests plant with PLANTED_BUG, to see it named: the offset is committed before the
// message is handled, as ReadMessage does in a group.
const committedFirst = "committed-first"

func main() {
	log.SetFlags(log.LstdFlags | log.Lmicroseconds)
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	brokers := strings.Split(os.Getenv("KAFKA_BROKERS"), ",")
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: brokers, GroupID: os.Getenv("KAFKA_GROUP"), Topic: os.Getenv("KAFKA_TOPIC"),
		ErrorLogger: kafka.LoggerFunc(log.Printf),
	})
	writer := &kafka.Writer{
		Addr: kafka.TCP(brokers...), Topic: os.Getenv("KAFKA_DLQ_TOPIC"), RequiredAcks: kafka.RequireAll,
		BatchTimeout: 10 * time.Millisecond, // the default of a second is for loads, not for single letters
	}
	consumer := &Consumer{
		reader: reader, writer: writer,
		http: &http.Client{Timeout: time.Second}, url: os.Getenv("DOWNSTREAM_URL") + "/v1/attempt",
		committedFirst: os.Getenv("PLANTED_BUG") == committedFirst,
	}
	err := consumer.run(ctx)
	if closing := errors.Join(reader.Close(), writer.Close()); closing != nil {
		log.Printf("closing: %v", closing)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// Consumer handles one message after the other.
type Consumer struct {
	reader         *kafka.Reader
	writer         *kafka.Writer
	http           *http.Client
	url            string
	committedFirst bool
}

func (c *Consumer) run(ctx context.Context) error {
	for {
		message, err := c.reader.FetchMessage(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("fetching: %w", err)
		}
		if c.committedFirst {
			c.commit(ctx, message)
		}
		if !c.handle(ctx, message) {
			return nil // stopped: the message is the next owner's
		}
		if !c.committedFirst {
			c.commit(ctx, message)
		}
	}
}

// commit logs what fails: the next commit covers the message, or it comes again.
func (c *Consumer) commit(ctx context.Context, message kafka.Message) {
	if err := c.reader.CommitMessages(context.WithoutCancel(ctx), message); err != nil {
		log.Printf("ERROR committing %s/%d/%d: %v", message.Topic, message.Partition, message.Offset, err)
	}
}

type failure struct {
	status int
	reason string
}

func (f *failure) Error() string { return f.reason }

func (c *Consumer) handle(ctx context.Context, message kafka.Message) bool {
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
