// A service on CloudEvents' Go SDK with its sarama protocol: NewConsumer and StartReceiver as in the SDK's examples, one
// event at a time, and a second client that sends dead letters. With BRIDGE it does without clients, and receives and
// sends the protocol's messages.
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
	"strings"
	"syscall"
	"time"

	"github.com/IBM/sarama"
	"github.com/cloudevents/sdk-go/protocol/kafka_sarama/v2"
	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/binding/transformer"
	"github.com/cloudevents/sdk-go/v2/client"
)

const (
	maxAttempts = 3
	backoff     = 100 * time.Millisecond // twice as long after each attempt
)

// These are mistakes that tests plant with PLANTED_BUG, to see them named. asDocumented starts the receiver without
// options, as the SDK's examples do: each event then has a goroutine, and is marked when that is done.
// nackForRedelivery answers NACK if the dead letter is refused, which Kafka's protocol does not deliver again.
// messageForwarded has the bridge send the received message itself, which the Sender acknowledges whatever becomes of it.
const (
	asDocumented      = "as-documented"
	nackForRedelivery = "nack-for-redelivery"
	messageForwarded  = "message-forwarded"
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
	config := sarama.NewConfig()
	config.Version = sarama.V2_0_0_0
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Producer.RequiredAcks = sarama.WaitForAll

	sender, err := kafka_sarama.NewSender(brokers, config, os.Getenv("KAFKA_DLQ_TOPIC"))
	if err != nil {
		return fmt.Errorf("failed to create protocol: %w", err)
	}
	defer sender.Close(context.Background())
	letters, err := cloudevents.NewClient(sender)
	if err != nil {
		return fmt.Errorf("failed to create client: %w", err)
	}

	receiver, err := kafka_sarama.NewConsumer(brokers, config, os.Getenv("KAFKA_GROUP"), os.Getenv("KAFKA_TOPIC"))
	if err != nil {
		return fmt.Errorf("failed to create protocol: %w", err)
	}
	defer receiver.Close(context.Background())
	orders := &orders{
		letters: letters, http: &http.Client{Timeout: time.Second}, url: os.Getenv("DOWNSTREAM_URL") + "/v1/attempt",
		bug: bug,
	}
	if os.Getenv("BRIDGE") != "" {
		return orders.bridge(ctx, receiver, sender)
	}
	return orders.start(ctx, receiver)
}

type orders struct {
	letters cloudevents.Client
	http    *http.Client
	url     string
	bug     string
}

// start receives events until the context ends.
func (o *orders) start(ctx context.Context, receiver *kafka_sarama.Consumer) error {
	// Make event processing serialized (no concurrency).
	options := []client.Option{client.WithBlockingCallback(), client.WithPollGoroutines(1)}
	if o.bug == asDocumented {
		options = nil
	}
	c, err := cloudevents.NewClient(receiver, options...)
	if err != nil {
		return fmt.Errorf("failed to create client: %w", err)
	}
	if err := c.StartReceiver(ctx, o.receive); err != nil {
		return fmt.Errorf("failed to start receiver: %w", err)
	}
	return nil
}

// receive acknowledges an event that is finished. It is not if the service ends meanwhile.
func (o *orders) receive(ctx context.Context, event cloudevents.Event) cloudevents.Result {
	switch reason := o.process(ctx, event); {
	case reason == nil:
		return cloudevents.ResultACK
	case ctx.Err() != nil:
		return cloudevents.ResultNACK
	default:
		return o.deadLetter(ctx, event, reason)
	}
}

// bridge receives messages until the context ends, or a dead letter is refused. A message is acknowledged when it is
// finished without an error.
func (o *orders) bridge(ctx context.Context, receiver *kafka_sarama.Consumer, sender *kafka_sarama.Sender) error {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- receiver.OpenInbound(ctx) }()
	var failed error
	for failed == nil {
		message, err := receiver.Receive(ctx)
		if err != nil { // io.EOF
			break
		}
		failed = o.pass(ctx, message, sender)
	}
	stop()
	return errors.Join(failed, <-ended)
}

// pass returns an error if the dead letter of a message is refused.
func (o *orders) pass(ctx context.Context, message binding.Message, sender *kafka_sarama.Sender) error {
	event, err := binding.ToEvent(ctx, message)
	if err != nil {
		return message.Finish(err)
	}
	reason := o.process(ctx, *event)
	if reason == nil {
		return message.Finish(nil)
	}
	if ctx.Err() != nil {
		return message.Finish(ctx.Err())
	}
	letter := binding.Message((*binding.EventMessage)(event))
	if o.bug == messageForwarded {
		letter = message
	}
	if err := sender.Send(ctx, letter, transformer.AddExtension("failure", text(reason))); err != nil {
		return fmt.Errorf("sending event %s to the dead-letter topic: %w", event.ID(), err)
	}
	if o.bug == messageForwarded {
		return nil // Send has finished it
	}
	return message.Finish(nil)
}

// process returns why the event failed for good, and any error if the service ends meanwhile.
func (o *orders) process(ctx context.Context, event cloudevents.Event) error {
	wait := backoff
	for attempt := 1; ; attempt++ {
		status, err := o.charge(event)
		if err == nil || status == http.StatusBadRequest || status == http.StatusUnprocessableEntity ||
			attempt == maxAttempts || !sleep(ctx, wait) {
			return err
		}
		wait *= 2
	}
}

func text(reason error) string { return strings.ToValidUTF8(reason.Error(), "\uFFFD") }

// charge returns the status of the answer, 0 without one.
func (o *orders) charge(event cloudevents.Event) (int, error) {
	response, err := o.http.Post(o.url, "application/json", bytes.NewReader(event.Data()))
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

// deadLetter acknowledges the event when its dead letter is; it tries until then, or until the service ends. The event
// has the extensions kafkatopic, kafkapartition and kafkaoffset, and passes them on.
func (o *orders) deadLetter(ctx context.Context, event cloudevents.Event, reason error) cloudevents.Result {
	letter := event.Clone()
	letter.SetExtension("failure", text(reason))
	for {
		result := o.letters.Send(ctx, letter)
		if cloudevents.IsACK(result) {
			return cloudevents.ResultACK
		}
		log.Printf("ERROR sending event %s to the dead-letter topic: %v", event.ID(), result)
		if o.bug == nackForRedelivery || !sleep(ctx, time.Second) {
			return cloudevents.ResultNACK
		}
	}
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
