// A service on the Go CDK, as its guide writes one: a loop over Subscription.Receive, a goroutine for each message with
// a semaphore, Ack when the work is done, and Shutdown at the end. Dead letters go to a second topic.
package main

import (
	"bytes"
	"context"
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

	"github.com/IBM/sarama"
	"gocloud.dev/pubsub"
	"gocloud.dev/pubsub/kafkapubsub"
)

const (
	maxHandlers = 10
	maxAttempts = 3
	backoff     = 100 * time.Millisecond // twice as long after each attempt
)

// These are mistakes that tests plant with PLANTED_BUG, to see them named. deferredAck acknowledges every message, as
// the guide's concurrent example does. metadataCopied copies the metadata of a message to its dead letter, which the
// portable type refuses if they are not UTF-8. openedByURL opens the topic by its URL, with the driver's MinimalConfig.
const (
	deferredAck    = "deferred-ack"
	metadataCopied = "metadata-copied"
	openedByURL    = "opened-by-url"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("PLANTED_BUG")); err != nil {
		log.Fatal("ERROR ", err)
	}
}

func run(ctx context.Context, bug string) error {
	brokers := strings.Split(os.Getenv("KAFKA_BROKERS"), ",")
	config := kafkapubsub.MinimalConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Producer.RequiredAcks = sarama.WaitForAll

	letters, err := openTopic(ctx, brokers, config, os.Getenv("KAFKA_DLQ_TOPIC"), bug)
	if err != nil {
		return fmt.Errorf("could not open topic: %w", err)
	}
	subscription, err := kafkapubsub.OpenSubscription(brokers, config, os.Getenv("KAFKA_GROUP"),
		[]string{os.Getenv("KAFKA_TOPIC")}, nil)
	if err != nil {
		return fmt.Errorf("could not open topic subscription: %w", err)
	}
	orders := &orders{
		letters: letters, http: &http.Client{Timeout: time.Second}, url: os.Getenv("DOWNSTREAM_URL") + "/v1/attempt",
		bug: bug,
	}
	failed := orders.receive(ctx, subscription)
	return errors.Join(failed, subscription.Shutdown(context.Background()), letters.Shutdown(context.Background()))
}

func openTopic(ctx context.Context, brokers []string, config *sarama.Config, name, bug string) (*pubsub.Topic, error) {
	if bug == openedByURL {
		return pubsub.OpenTopic(ctx, "kafka://"+name) // the brokers are in KAFKA_BROKERS
	}
	return kafkapubsub.OpenTopic(brokers, config, name, nil)
}

type orders struct {
	letters *pubsub.Topic
	http    *http.Client
	url     string
	bug     string
}

// receive handles messages until the context ends, or until the subscription fails, which is returned.
func (o *orders) receive(ctx context.Context, subscription *pubsub.Subscription) error {
	var failed error
	sem := make(chan struct{}, maxHandlers)
recvLoop:
	for {
		msg, err := subscription.Receive(ctx)
		if err != nil {
			// Errors from Receive indicate that Receive will no longer succeed.
			if ctx.Err() == nil {
				failed = fmt.Errorf("receiving message: %w", err)
			}
			break
		}

		// Wait if there are too many active handle goroutines and acquire the semaphore. If the context is canceled, stop
		// waiting and start shutting down.
		select {
		case sem <- struct{}{}:
		case <-ctx.Done():
			break recvLoop
		}

		go func() {
			defer func() { <-sem }() // Release the semaphore.
			if o.bug == deferredAck {
				defer msg.Ack() // Messages must always be acknowledged with Ack.
			}
			if o.handle(ctx, msg) && o.bug != deferredAck {
				msg.Ack()
			}
		}()
	}

	// We're no longer receiving messages. Wait to finish handling any unacknowledged messages by totally acquiring the
	// semaphore.
	for range maxHandlers {
		sem <- struct{}{}
	}
	return failed
}

// handle returns whether the message is finished. It is not if the service ends meanwhile.
func (o *orders) handle(ctx context.Context, msg *pubsub.Message) bool {
	wait := backoff
	for attempt := 1; ; attempt++ {
		status, err := o.charge(msg)
		switch {
		case err == nil:
			return true
		case status == http.StatusBadRequest, status == http.StatusUnprocessableEntity, attempt == maxAttempts:
			return o.deadLetter(ctx, msg, err)
		}
		if !sleep(ctx, wait) {
			return false
		}
		wait *= 2
	}
}

// charge returns the status of the answer, 0 without one.
func (o *orders) charge(msg *pubsub.Message) (int, error) {
	response, err := o.http.Post(o.url, "application/json", bytes.NewReader(msg.Body))
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	if response.StatusCode != http.StatusOK {
		return response.StatusCode, fmt.Errorf("payments answer %s: %s", response.Status, body)
	}
	return response.StatusCode, nil
}

// deadLetter returns true when the dead letter is acknowledged; it tries until then, or until the service ends.
func (o *orders) deadLetter(ctx context.Context, msg *pubsub.Message, reason error) bool {
	for {
		err := o.letters.Send(ctx, o.letter(msg, reason))
		if err == nil {
			return true
		}
		log.Printf("ERROR sending %s to the dead-letter topic: %v", msg.LoggableID, err)
		if o.bug == deferredAck || !sleep(ctx, time.Second) {
			return false
		}
	}
}

// letter has the record's own key and headers, which the metadata of a message have as text.
func (o *orders) letter(msg *pubsub.Message, reason error) *pubsub.Message {
	var record *sarama.ConsumerMessage
	if !msg.As(&record) {
		panic("the driver is not Kafka's")
	}
	metadata := map[string]string{
		"original-topic":     record.Topic,
		"original-partition": strconv.Itoa(int(record.Partition)),
		"original-offset":    strconv.FormatInt(record.Offset, 10),
		"reason":             strings.ToValidUTF8(reason.Error(), "\uFFFD"),
	}
	if o.bug == metadataCopied {
		for key, value := range msg.Metadata {
			metadata[key] = value
		}
		return &pubsub.Message{Body: msg.Body, Metadata: metadata}
	}
	return &pubsub.Message{Body: msg.Body, Metadata: metadata, BeforeSend: func(asFunc func(any) bool) error {
		var letter *sarama.ProducerMessage
		if !asFunc(&letter) {
			return errors.New("the driver is not Kafka's")
		}
		if record.Key != nil {
			letter.Key = sarama.ByteEncoder(record.Key)
		}
		var headers []sarama.RecordHeader
		for _, header := range record.Headers {
			headers = append(headers, *header)
		}
		letter.Headers = append(headers, letter.Headers...) // of several of one name, the last one counts
		return nil
	}}
}

// sleep returns false if the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
