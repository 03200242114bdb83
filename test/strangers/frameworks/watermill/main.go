// A service on Watermill and its Kafka adapter, as Watermill's examples write one: a router with the middlewares
// PoisonQueue and Retry, the settings of its documentation, and the defaults of sarama.
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
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/message/router/plugin"
)

// These are mistakes that tests plant with PLANTED_BUG, to see them named. retryOutside adds Retry before PoisonQueue,
// which then takes each message at its first failure (https://github.com/ThreeDotsLabs/watermill/issues/580).
// canceledIsPoison uses PoisonQueue without a filter, so that the message in hand is poisoned when the router closes,
// as that cancels its context (https://github.com/ThreeDotsLabs/watermill/issues/446). newestByDefault leaves the
// initial offset at sarama's default.
const (
	retryOutside     = "retry-outside"
	canceledIsPoison = "canceled-is-poison"
	newestByDefault  = "newest-by-default"
)

func main() {
	if err := run(context.Background(), os.Getenv("PLANTED_BUG")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, bug string) error {
	logger := watermill.NewStdLogger(false, false)
	router, err := message.NewRouter(message.RouterConfig{}, logger)
	if err != nil {
		return fmt.Errorf("making the router: %w", err)
	}
	router.AddPlugin(plugin.SignalsHandler)

	brokers := strings.Split(os.Getenv("KAFKA_BROKERS"), ",")
	client := kafka.DefaultSaramaSubscriberConfig()
	client.Consumer.Offsets.Initial = sarama.OffsetOldest
	if bug == newestByDefault {
		client = kafka.DefaultSaramaSubscriberConfig()
	}
	subscriber, err := kafka.NewSubscriber(kafka.SubscriberConfig{
		Brokers: brokers, Unmarshaler: kafka.DefaultMarshaler{}, OverwriteSaramaConfig: client,
		ConsumerGroup: os.Getenv("KAFKA_GROUP"),
	}, logger)
	if err != nil {
		return fmt.Errorf("making the subscriber: %w", err)
	}
	writer := kafka.DefaultSaramaSyncPublisherConfig()
	writer.Producer.RequiredAcks = sarama.WaitForAll
	publisher, err := kafka.NewPublisher(kafka.PublisherConfig{
		Brokers: brokers, Marshaler: kafka.DefaultMarshaler{}, OverwriteSaramaConfig: writer,
	}, logger)
	if err != nil {
		return fmt.Errorf("making the publisher: %w", err)
	}

	poison, err := middleware.PoisonQueueWithFilter(publisher, os.Getenv("KAFKA_DLQ_TOPIC"), func(err error) bool {
		return bug == canceledIsPoison || !errors.Is(err, context.Canceled)
	})
	if err != nil {
		return fmt.Errorf("making the poison queue: %w", err)
	}
	retry := middleware.Retry{MaxRetries: 3, InitialInterval: 100 * time.Millisecond, Logger: logger}.Middleware
	if bug == retryOutside {
		poison, retry = retry, poison
	}
	router.AddMiddleware(poison, retry) // the first one is the outermost

	payments := &payments{http: &http.Client{Timeout: time.Second}, url: os.Getenv("DOWNSTREAM_URL") + "/v1/attempt"}
	router.AddNoPublisherHandler("payments", os.Getenv("KAFKA_TOPIC"), subscriber, payments.take)
	return router.Run(ctx)
}

type payments struct {
	http *http.Client
	url  string
}

func (p *payments) take(order *message.Message) error {
	request, err := http.NewRequestWithContext(order.Context(), http.MethodPost, p.url, bytes.NewReader(order.Payload))
	if err != nil {
		return err
	}
	response, err := p.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("payments answer %s: %s", response.Status, body)
	}
	return nil
}
