package com.example.orders;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.axonframework.config.Configurer;
import org.axonframework.config.DefaultConfigurer;
import org.axonframework.eventhandling.EventMessage;
import org.axonframework.extensions.kafka.configuration.KafkaMessageSourceConfigurer;
import org.axonframework.extensions.kafka.eventhandling.DefaultKafkaMessageConverter;
import org.axonframework.extensions.kafka.eventhandling.consumer.AsyncFetcher;
import org.axonframework.extensions.kafka.eventhandling.consumer.DefaultConsumerFactory;
import org.axonframework.extensions.kafka.eventhandling.consumer.Fetcher;
import org.axonframework.extensions.kafka.eventhandling.consumer.subscribable.SubscribableKafkaMessageSource;
import org.axonframework.extensions.kafka.eventhandling.producer.ConfirmationMode;
import org.axonframework.extensions.kafka.eventhandling.producer.DefaultProducerFactory;
import org.axonframework.extensions.kafka.eventhandling.producer.KafkaPublisher;
import org.axonframework.serialization.json.JacksonSerializer;

/** Takes the payment of each order, whose events come from Kafka. */
public final class Orders {
  /** A mistake that tests plant, to see it named; empty otherwise. */
  static final String PLANTED_BUG = System.getenv().getOrDefault("PLANTED_BUG", "");

  private final JacksonSerializer serializer = JacksonSerializer.builder().objectMapper(new ObjectMapper()).build();
  private final DefaultKafkaMessageConverter converter =
      DefaultKafkaMessageConverter.builder().serializer(serializer).build();
  private final Map<String, String> settings = System.getenv();
  private final ExecutorService fetchers = Executors.newCachedThreadPool();

  public static void main(String[] args) {
    var orders = new Orders();
    var configuration = orders.configure().buildConfiguration();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      configuration.shutdown();
      orders.await();
    }));
    configuration.start();
  }

  /** Waits for the threads that an AsyncFetcher was given, which it does not end. */
  private void await() {
    fetchers.shutdown();
    try {
      fetchers.awaitTermination(30, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private Configurer configure() {
    var configurer = DefaultConfigurer.defaultConfiguration().configureSerializer(configuration -> serializer);
    var orders = source();
    var sources = new KafkaMessageSourceConfigurer();
    sources.configureSubscribableSource(configuration -> orders);
    configurer.registerModule(sources);
    var processing = configurer.eventProcessing();
    processing.registerEventHandler(configuration -> new OrdersHandler(settings.get("PAYMENTS_URL")))
        .registerSubscribingEventProcessor("orders", configuration -> orders)
        .assignHandlerTypesMatching("orders", OrdersHandler.class::equals);
    if (!PLANTED_BUG.equals("logged-by-default")) {
      var letters = new DeadLetters(publisher());
      processing.registerListenerInvocationErrorHandler("orders", configuration -> letters);
    }
    return configurer;
  }

  private SubscribableKafkaMessageSource<String, byte[]> source() {
    var asDocumented = PLANTED_BUG.equals("async-fetcher") || PLANTED_BUG.equals("error-propagated");
    Fetcher<String, byte[], EventMessage<?>> fetcher =
        asDocumented ? AsyncFetcher.<String, byte[], EventMessage<?>>builder().executorService(fetchers).build()
            : new CommittingFetcher<>();
    var consumer = new HashMap<String, Object>();
    consumer.put("bootstrap.servers", settings.get("KAFKA_BROKERS"));
    consumer.put("key.deserializer", StringDeserializer.class);
    consumer.put("value.deserializer", ByteArrayDeserializer.class);
    consumer.put("auto.offset.reset", "earliest");
    consumer.put("enable.auto.commit", asDocumented);
    return SubscribableKafkaMessageSource.<String, byte[]>builder()
        .serializer(serializer)
        .topics(List.of(settings.get("KAFKA_TOPIC")))
        .groupId(settings.get("KAFKA_GROUP"))
        .consumerFactory(new DefaultConsumerFactory<>(consumer))
        .fetcher(fetcher)
        .messageConverter(converter)
        .build();
  }

  /** Waits for a dead letter as long as the producer tries; by default, a publisher waits for one second. */
  private KafkaPublisher<String, byte[]> publisher() {
    var producer = new HashMap<String, Object>();
    producer.put("bootstrap.servers", settings.get("KAFKA_BROKERS"));
    producer.put("key.serializer", StringSerializer.class);
    producer.put("value.serializer", ByteArraySerializer.class);
    var mode = PLANTED_BUG.equals("confirmation-by-default") ? ConfirmationMode.NONE : ConfirmationMode.WAIT_FOR_ACK;
    var topic = Optional.of(settings.get("KAFKA_DLQ_TOPIC"));
    return KafkaPublisher.<String, byte[]>builder()
        .serializer(serializer)
        .producerFactory(DefaultProducerFactory.<String, byte[]>builder().configuration(producer)
            .confirmationMode(mode).build())
        .messageConverter(converter)
        .topicResolver(event -> topic)
        .publisherAckTimeout(130_000)
        .build();
  }
}
