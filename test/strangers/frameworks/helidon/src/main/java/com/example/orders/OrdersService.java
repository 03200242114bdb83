package com.example.orders;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.helidon.messaging.Channel;
import io.helidon.messaging.Messaging;
import io.helidon.messaging.connectors.kafka.KafkaConfigBuilder;
import io.helidon.messaging.connectors.kafka.KafkaConnector;
import io.helidon.messaging.connectors.kafka.KafkaMessage;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.locks.LockSupport;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.eclipse.microprofile.reactive.messaging.Message;
import org.eclipse.microprofile.reactive.streams.operators.ReactiveStreams;

/** Takes the payment of each order: a channel of Helidon, which acknowledges each message when it is done. */
public final class OrdersService {
  /** A mistake that tests plant, to see it named; none otherwise. */
  private static final String PLANTED_BUG = System.getenv().getOrDefault("PLANTED_BUG", "");
  private static final Logger LOGGER = Logger.getLogger(OrdersService.class.getName());
  private static final int MAX_ATTEMPTS = 3;

  private final HttpClient http = HttpClient.newHttpClient();
  private final URI payments = URI.create(System.getenv("DOWNSTREAM_URL") + "/v1/attempt");
  private final String deadLetters = System.getenv("KAFKA_DLQ_TOPIC");
  // A dead letter is a little larger than its record.
  private final Producer<byte[], byte[]> producer = new KafkaProducer<>(Map.of(
      ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, System.getenv("KAFKA_BROKERS"),
      ProducerConfig.ACKS_CONFIG, "all", // 1 by default in this client
      ProducerConfig.MAX_REQUEST_SIZE_CONFIG, 1_100_000), new ByteArraySerializer(), new ByteArraySerializer());
  private volatile boolean stopping;

  /** What an order could not be paid for. */
  private static final class PaymentFailed extends Exception {
    private static final long serialVersionUID = 1;

    PaymentFailed(String reason) {
      super(reason);
    }
  }

  public static void main(String[] args) {
    new OrdersService().run();
  }

  private void run() {
    KafkaConfigBuilder settings = KafkaConnector.configBuilder()
        .bootstrapServers(System.getenv("KAFKA_BROKERS"))
        .groupId(System.getenv("KAFKA_GROUP"))
        .topic(System.getenv("KAFKA_TOPIC"))
        .autoOffsetReset(KafkaConfigBuilder.AutoOffsetReset.EARLIEST)
        .enableAutoCommit(PLANTED_BUG.equals("auto-commit"))
        .keyDeserializer(ByteArrayDeserializer.class)
        .valueDeserializer(ByteArrayDeserializer.class);
    if (PLANTED_BUG.equals("nack-dlq")) {
      settings.property("nack-dlq", deadLetters);
    }
    Channel<byte[]> orders = Channel.<byte[]>builder().name("orders").publisherConfig(settings.build()).build();
    Messaging.Builder builder = Messaging.builder().connector(KafkaConnector.create());
    if (PLANTED_BUG.equals("listener")) {
      builder.listener(orders, this::payOrLog);
    } else {
      var subscriber = ReactiveStreams.<Message<byte[]>>builder().forEach(this::process).build();
      subscriber.getCompletion().whenComplete((done, failure) -> ended(failure));
      builder.subscriber(orders, subscriber);
    }
    Messaging messaging = builder.build().start();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(messaging)));
    new Thread(LockSupport::park, "main").start();
  }

  /** A channel that has failed does not come back, so the process ends, and is started again. */
  private void ended(Throwable failure) {
    if (failure != null && !stopping) {
      LOGGER.log(Level.SEVERE, "the channel has failed", failure);
      new Thread(() -> System.exit(1)).start();
    }
  }

  private void stop(Messaging messaging) {
    stopping = true;
    messaging.stop();
    producer.close();
  }

  private void payOrLog(byte[] value) {
    try {
      charge(value);
    } catch (PaymentFailed failed) {
      LOGGER.log(Level.SEVERE, "not paid", failed);
    }
  }

  private void process(Message<byte[]> message) {
    KafkaMessage<byte[], byte[]> order = (KafkaMessage<byte[], byte[]>) message;
    if (stopping) {
      return;
    }
    try {
      charge(order.getPayload());
    } catch (PaymentFailed failed) {
      if (stopping) {
        return;
      }
      if (PLANTED_BUG.equals("nack-dlq")) {
        order.getNack().apply(failed);
        return;
      }
      if (PLANTED_BUG.equals("acked-before-letter")) {
        order.ack();
      }
      deadLetter(order, failed);
    }
    order.ack();
  }

  private void deadLetter(KafkaMessage<byte[], byte[]> order, PaymentFailed failed) {
    RecordHeaders headers = new RecordHeaders(order.getHeaders());
    headers.add("original-topic", order.getTopic().orElseThrow().getBytes(UTF_8));
    headers.add("original-partition", order.getPartition().orElseThrow().toString().getBytes(UTF_8));
    headers.add("original-offset", order.getOffset().orElseThrow().toString().getBytes(UTF_8));
    headers.add("reason", failed.getMessage().getBytes(UTF_8));
    var letter = new ProducerRecord<>(deadLetters, null, order.getKey().orElse(null), order.getPayload(), headers);
    try {
      producer.send(letter).get();
    } catch (InterruptedException | ExecutionException e) {
      throw new IllegalStateException("the dead letter was refused", e);
    }
  }

  private void charge(byte[] value) throws PaymentFailed {
    for (int attempt = 1; ; attempt++) {
      int status = 0;
      String reason;
      try {
        byte[] body = value == null ? new byte[0] : value;
        HttpResponse<String> answer = http.send(HttpRequest.newBuilder(payments).timeout(Duration.ofSeconds(1))
            .POST(HttpRequest.BodyPublishers.ofByteArray(body)).build(), HttpResponse.BodyHandlers.ofString());
        status = answer.statusCode();
        reason = status + " " + answer.body();
      } catch (IOException | InterruptedException e) {
        reason = e.toString();
      }
      if (status == 200) {
        return;
      }
      boolean refused = status == 400 || status == 422 || status == 404;
      if (refused || attempt == MAX_ATTEMPTS || stopping) {
        throw new PaymentFailed(reason);
      }
      backOff(Duration.ofMillis(100L << (attempt - 1)));
    }
  }

  private static void backOff(Duration wait) {
    try {
      Thread.sleep(wait.toMillis());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
