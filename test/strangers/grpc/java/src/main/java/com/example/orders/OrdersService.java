package com.example.orders;

import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Charges each order by a call of a gRPC service. All settings of the clients are their defaults, but for what the work needs. */
public final class OrdersService implements Runnable {
  private static final Logger log = LoggerFactory.getLogger(OrdersService.class);
  private static final int MAX_ATTEMPTS = 4;
  private static final long FIRST_BACKOFF_MS = 100;
  private static final Set<Status.Code> RETRYABLE =
      Set.of(Status.Code.UNAVAILABLE, Status.Code.RESOURCE_EXHAUSTED, Status.Code.DEADLINE_EXCEEDED, Status.Code.ABORTED);
  private static final String PLANTED_BUG = System.getenv().getOrDefault("PLANTED_BUG", "");

  private final Payments payments;
  private final KafkaConsumer<byte[], byte[]> consumer;
  private final KafkaProducer<byte[], byte[]> producer;
  private volatile boolean stopping;

  OrdersService() throws IOException {
    payments = new Payments(System.getenv("PAYMENTS_ADDR"), new File(System.getenv("CA_FILE")));
    String brokers = System.getenv("KAFKA_BROKERS");
    consumer = new KafkaConsumer<>(Map.of("bootstrap.servers", brokers, "group.id", System.getenv("KAFKA_GROUP"),
        "auto.offset.reset", "earliest", "enable.auto.commit", false), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    producer = new KafkaProducer<>(Map.of("bootstrap.servers", brokers), new ByteArraySerializer(), new ByteArraySerializer());
  }

  public static void main(String[] args) throws IOException {
    OrdersService service = new OrdersService();
    Thread main = Thread.currentThread();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      service.stopping = true;
      service.consumer.wakeup();
      try {
        main.join();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }));
    service.run();
  }

  @Override
  public void run() {
    try (payments; consumer; producer) {
      consumer.subscribe(List.of(System.getenv("KAFKA_TOPIC")));
      while (!stopping) {
        Map<TopicPartition, OffsetAndMetadata> done = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
          if (!process(record)) {
            break;
          }
          done.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        commit(done);
      }
    } catch (WakeupException e) {
      log.info("Stopping");
    }
  }

  private void commit(Map<TopicPartition, OffsetAndMetadata> done) {
    while (!done.isEmpty()) {
      try {
        consumer.commitSync(done);
        return;
      } catch (WakeupException e) {
        // Told to stop meanwhile: the commit is done all the same, once more.
      } catch (CommitFailedException | RebalanceInProgressException e) {
        log.warn("Offsets not committed, the group rebalances: {}", e.getMessage());
        return;
      } catch (RetriableException e) {
        log.error("Offsets not committed", e);
        return;
      }
    }
  }

  /** Returns true when the record has come to its end, false when the service is to stop. */
  private boolean process(ConsumerRecord<byte[], byte[]> record) {
    for (int attempt = 1; !stopping; attempt++) {
      try {
        payments.charge(record.value() == null ? "" : new String(record.value(), StandardCharsets.UTF_8));
        return true;
      } catch (StatusRuntimeException e) {
        Status.Code code = e.getStatus().getCode();
        log.warn("Attempt {} at {}-{}@{}: {}", attempt, record.topic(), record.partition(), record.offset(), e.getStatus());
        if (code == Status.Code.FAILED_PRECONDITION) {
          return true;
        }
        if (PLANTED_BUG.equals("permanent-retried") ? attempt == MAX_ATTEMPTS : !RETRYABLE.contains(code) || attempt == MAX_ATTEMPTS) {
          return deadLetter(record, attempt, e.getStatus());
        }
        sleep(FIRST_BACKOFF_MS << (attempt - 1));
      }
    }
    return false;
  }

  /** Returns true when the dead letter is acknowledged. Tries until then, or until the service is to stop. */
  private boolean deadLetter(ConsumerRecord<byte[], byte[]> record, int attempts, Status status) {
    RecordHeaders headers = new RecordHeaders(record.headers());
    headers.add("x-attempts", Integer.toString(attempts).getBytes(StandardCharsets.UTF_8));
    headers.add("x-status", status.toString().getBytes(StandardCharsets.UTF_8));
    while (!stopping) {
      try {
        producer.send(new ProducerRecord<>(System.getenv("KAFKA_DLQ_TOPIC"), null, record.key(), record.value(), headers)).get();
        return true;
      } catch (ExecutionException e) {
        log.error("Dead letter of {}-{}@{} failed", record.topic(), record.partition(), record.offset(), e.getCause());
        sleep(500);
      } catch (InterruptedException e) {
        return false;
      }
    }
    return false;
  }

  private static void sleep(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
