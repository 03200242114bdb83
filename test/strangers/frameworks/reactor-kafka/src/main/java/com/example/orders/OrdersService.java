package com.example.orders;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.netty.buffer.Unpooled;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import reactor.core.Disposable;
import reactor.core.Exceptions;
import reactor.core.publisher.Mono;
import reactor.kafka.receiver.KafkaReceiver;
import reactor.kafka.receiver.ReceiverOptions;
import reactor.kafka.receiver.ReceiverRecord;
import reactor.kafka.sender.KafkaSender;
import reactor.kafka.sender.SenderOptions;
import reactor.kafka.sender.SenderRecord;
import reactor.kafka.sender.SenderResult;
import reactor.netty.http.client.HttpClient;
import reactor.util.retry.Retry;

/** Takes the payment of each order: partitions at once, the orders of a partition one after the other. */
public final class OrdersService {
  private static final Logger LOG = LoggerFactory.getLogger(OrdersService.class);
  /** A mistake that tests plant, to see it named; none otherwise. */
  private static final String PLANTED_BUG = System.getenv().getOrDefault("PLANTED_BUG", "");

  private final String deadLetters = System.getenv("KAFKA_DLQ_TOPIC");
  private final HttpClient http = HttpClient.create()
      .baseUrl(System.getenv("DOWNSTREAM_URL")).responseTimeout(Duration.ofSeconds(1));
  private final KafkaSender<byte[], byte[]> sender = KafkaSender.create(SenderOptions.create(Map.of(
      ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, System.getenv("KAFKA_BROKERS"),
      ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class,
      ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class,
      ProducerConfig.MAX_REQUEST_SIZE_CONFIG, 1_100_000))); // a dead letter is a little larger than its record
  private final CountDownLatch closed = new CountDownLatch(1);
  private volatile boolean stopping;

  /** A payment that may succeed when it is tried again. */
  private static final class PaymentFailedException extends RuntimeException {
    PaymentFailedException(String reason) {
      super(reason);
    }
  }

  /** A payment that was refused for good. */
  private static final class PaymentRefusedException extends RuntimeException {
    PaymentRefusedException(String reason) {
      super(reason);
    }
  }

  /** Tells when a Kafka consumer has been closed, which is the last thing that it does. Disposing doesn't wait for it. */
  private final class Values extends ByteArrayDeserializer {
    @Override
    public void close() {
      if (stopping) {
        closed.countDown();
      }
    }
  }

  public static void main(String[] args) throws InterruptedException {
    new OrdersService().run();
  }

  private void run() throws InterruptedException {
    ReceiverOptions<byte[], byte[]> options = ReceiverOptions.<byte[], byte[]>create(Map.of(
            ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, System.getenv("KAFKA_BROKERS"),
            ConsumerConfig.GROUP_ID_CONFIG, System.getenv("KAFKA_GROUP"),
            ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class,
            ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest"))
        .withValueDeserializer(new Values())
        .subscription(List.of(System.getenv("KAFKA_TOPIC")));
    Disposable stream = KafkaReceiver.create(options).receive()
        .groupBy(order -> order.receiverOffset().topicPartition())
        .flatMap(partition -> PLANTED_BUG.equals("flat-map")
            ? partition.flatMap(this::process) : partition.concatMap(this::process))
        .doOnError(failure -> LOG.error("The stream failed, and is started again", failure))
        .retryWhen(Retry.backoff(Long.MAX_VALUE, Duration.ofSeconds(1)).maxBackoff(Duration.ofSeconds(10))
            .transientErrors(true))
        .subscribe();
    CountDownLatch stop = new CountDownLatch(1);
    Thread main = Thread.currentThread();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      stop.countDown();
      try {
        main.join();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }));
    stop.await();
    stopping = true;
    stream.dispose();
    closed.await(20, TimeUnit.SECONDS);
    sender.close();
  }

  /** Acknowledges the order when it has been paid, or its dead letter is acknowledged. */
  private Mono<Void> process(ReceiverRecord<byte[], byte[]> order) {
    return charge(order)
        .retryWhen(Retry.backoff(2, Duration.ofMillis(100)).filter(PaymentFailedException.class::isInstance))
        .onErrorResume(failure -> deadLetter(order, Exceptions.isRetryExhausted(failure) ? failure.getCause() : failure))
        .doOnSuccess(done -> order.receiverOffset().acknowledge());
  }

  private Mono<Void> charge(ConsumerRecord<byte[], byte[]> order) {
    byte[] body = order.value() == null ? new byte[0] : order.value();
    return http.headers(headers -> headers.set("X-Kafka-Topic", order.topic())
            .set("X-Kafka-Partition", order.partition()).set("X-Kafka-Offset", order.offset()))
        .post().uri("/v1/attempt").send(Mono.fromSupplier(() -> Unpooled.wrappedBuffer(body)))
        .responseSingle((answer, content) -> content.asString().defaultIfEmpty("")
            .flatMap(text -> result(answer.status().code(), text)))
        .onErrorMap(failure -> !(failure instanceof PaymentRefusedException),
            failure -> new PaymentFailedException(failure.toString()))
        .then();
  }

  private static Mono<String> result(int status, String text) {
    String reason = status + " " + text;
    return switch (status) {
      case 200 -> Mono.just(text);
      case 400, 422 -> Mono.error(new PaymentRefusedException(reason));
      default -> Mono.error(new PaymentFailedException(reason));
    };
  }

  /** Completes when the dead letter is acknowledged. It is tried until then. */
  private Mono<Void> deadLetter(ConsumerRecord<byte[], byte[]> order, Throwable failure) {
    Mono<Void> sent = Mono.defer(() -> sender.send(Mono.just(SenderRecord.create(letter(order, failure), null)))
            .single().map(SenderResult::recordMetadata).then())
        .doOnError(e -> LOG.error("Dead letter of {}-{}@{} was not written", order.topic(), order.partition(),
            order.offset(), e));
    if (PLANTED_BUG.equals("letter-error-resumed")) {
      return sent.onErrorComplete();
    }
    return sent.retryWhen(Retry.fixedDelay(Long.MAX_VALUE, Duration.ofMillis(500)));
  }

  private ProducerRecord<byte[], byte[]> letter(ConsumerRecord<byte[], byte[]> order, Throwable failure) {
    RecordHeaders headers = new RecordHeaders(order.headers());
    headers.add("original-topic", order.topic().getBytes(UTF_8));
    headers.add("original-partition", String.valueOf(order.partition()).getBytes(UTF_8));
    headers.add("original-offset", String.valueOf(order.offset()).getBytes(UTF_8));
    headers.add("reason", String.valueOf(failure.getMessage()).getBytes(UTF_8));
    return new ProducerRecord<>(deadLetters, null, order.key(), order.value(), headers);
  }
}
