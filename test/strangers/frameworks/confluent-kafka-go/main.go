// A service on confluent-kafka-go as its README and Confluent's guide write one: a loop over Poll, the offset of a
// message is stored when the message is finished, and librdkafka commits what is stored every five seconds and at the
// close. All settings of the client are its defaults, but for what the work needs.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

const (
	maxAttempts = 3
	backoff     = 100 * time.Millisecond // after the first attempt; twice as long after the second
)

// These are mistakes that tests plant with PLANTED_BUG, to see them named. storedByClient leaves
// enable.auto.offset.store at its default, so an offset is stored when Poll returns the message. committedBeside does,
// too, and commits in a goroutine after each message, as Confluent's guide does for asynchronous commits.
// reportsLogged awaits no delivery report; a goroutine logs those that are errors, as in the README.
const (
	storedByClient  = "stored-by-client"
	committedBeside = "committed-beside"
	reportsLogged   = "reports-logged"
)

func main() {
	if err := run(os.Getenv("PLANTED_BUG")); err != nil {
		slog.Error(err.Error())
		os.Exit(1)
	}
}

func run(bug string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	client := kafka.ConfigMap{
		"bootstrap.servers": os.Getenv("KAFKA_BROKERS"), "group.id": os.Getenv("KAFKA_GROUP"),
		"auto.offset.reset": "earliest", "enable.auto.offset.store": bug == storedByClient || bug == committedBeside,
	}
	if bug == committedBeside {
		client["enable.auto.commit"] = false
	}
	consumer, err := kafka.NewConsumer(&client)
	if err != nil {
		return fmt.Errorf("making the consumer: %w", err)
	}
	defer consumer.Close()
	producer, err := kafka.NewProducer(&kafka.ConfigMap{
		"bootstrap.servers": os.Getenv("KAFKA_BROKERS"),
		"message.max.bytes": 1048588, // a dead letter is a little larger than its record
	})
	if err != nil {
		return fmt.Errorf("making the producer: %w", err)
	}
	defer producer.Close()
	defer producer.Flush(5000)
	go logReports(producer)
	if err := consumer.Subscribe(os.Getenv("KAFKA_TOPIC"), nil); err != nil {
		return fmt.Errorf("subscribing: %w", err)
	}
	return (&orders{
		consumer: consumer, producer: producer, letters: os.Getenv("KAFKA_DLQ_TOPIC"), bug: bug,
		http: &http.Client{Timeout: time.Second}, url: os.Getenv("DOWNSTREAM_URL") + "/v1/attempt",
	}).consume(ctx)
}

func logReports(producer *kafka.Producer) {
	for event := range producer.Events() {
		switch e := event.(type) {
		case *kafka.Message:
			if e.TopicPartition.Error != nil {
				slog.Error("delivery failed", "message", e.TopicPartition)
			}
		case kafka.Error:
			slog.Warn("producer", "error", e)
		}
	}
}

type orders struct {
	consumer *kafka.Consumer
	producer *kafka.Producer
	letters  string
	http     *http.Client
	url      string
	bug      string
}

func (o *orders) consume(ctx context.Context) error {
	for ctx.Err() == nil {
		switch e := o.consumer.Poll(100).(type) {
		case *kafka.Message:
			if !o.process(ctx, e) {
				return nil // stopped: the message is the next owner's
			}
			o.finished(e)
		case kafka.Error:
			slog.Warn("consumer", "error", e) // librdkafka recovers by itself
			if e.IsFatal() {
				return e
			}
		}
	}
	return nil
}

func (o *orders) finished(message *kafka.Message) {
	switch o.bug {
	case storedByClient:
	case committedBeside:
		go func() {
			if _, err := o.consumer.Commit(); err != nil {
				slog.Warn("not committed", "error", err)
			}
		}()
	default:
		if _, err := o.consumer.StoreMessage(message); err != nil {
			slog.Warn("not stored", "message", message.TopicPartition, "error", err) // its partition was taken away
		}
	}
}

type failure struct {
	status int
	reason string
}

func (f *failure) permanent() bool {
	return f.status == http.StatusBadRequest || f.status == http.StatusUnprocessableEntity
}

// process returns true when the message is finished, and false if the service is to stop before.
func (o *orders) process(ctx context.Context, message *kafka.Message) bool {
	wait := backoff
	for attempt := 1; ; attempt++ {
		failed := o.charge(message)
		switch {
		case failed == nil:
			return true
		case failed.permanent() || attempt == maxAttempts:
			return o.deadLetter(ctx, message, attempt, failed)
		case stopped(ctx, wait):
			return false
		}
		wait *= 2
	}
}

func (o *orders) charge(message *kafka.Message) *failure {
	response, err := o.http.Post(o.url, "application/json", bytes.NewReader(message.Value))
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
	answer := struct{ Error string }{response.Status}
	_ = json.Unmarshal(body, &answer)
	return &failure{status: response.StatusCode, reason: answer.Error}
}

// deadLetter writes the message to the dead-letter topic until it is acknowledged, and returns false if the service is
// to stop before.
func (o *orders) deadLetter(ctx context.Context, message *kafka.Message, attempts int, failed *failure) bool {
	from := message.TopicPartition
	letter := &kafka.Message{
		TopicPartition: kafka.TopicPartition{Topic: &o.letters, Partition: kafka.PartitionAny},
		Key:            message.Key, Value: message.Value,
		Headers: append(message.Headers[:len(message.Headers):len(message.Headers)],
			kafka.Header{Key: "orders.topic", Value: []byte(*from.Topic)},
			kafka.Header{Key: "orders.partition", Value: []byte(strconv.Itoa(int(from.Partition)))},
			kafka.Header{Key: "orders.offset", Value: []byte(from.Offset.String())},
			kafka.Header{Key: "orders.attempts", Value: []byte(strconv.Itoa(attempts))},
			kafka.Header{Key: "orders.reason", Value: []byte(failed.reason)}),
	}
	for {
		err := o.write(ctx, letter)
		if err == nil {
			return true
		}
		slog.Error("dead letter not written", "message", from, "error", err)
		if stopped(ctx, 500*time.Millisecond) {
			return false
		}
	}
}

func (o *orders) write(ctx context.Context, letter *kafka.Message) error {
	if o.bug == reportsLogged {
		return o.producer.Produce(letter, nil)
	}
	reports := make(chan kafka.Event, 1)
	if err := o.producer.Produce(letter, reports); err != nil {
		return err
	}
	select {
	case report := <-reports:
		return report.(*kafka.Message).TopicPartition.Error
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stopped waits, and returns true if the service is to stop.
func stopped(ctx context.Context, wait time.Duration) bool {
	select {
	case <-time.After(wait):
		return false
	case <-ctx.Done():
		return true
	}
}
