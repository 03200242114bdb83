package com.example.orders;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RecordDeserializationException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A consumer on kafka-clients as books and the client's own documentation write one: a poll loop, commitSync when the records of a poll are
 * finished, wakeup from a shutdown hook. All settings of the client are its defaults, but for what the work needs.
 */
public final class OrdersService implements Runnable, ConsumerRebalanceListener {
  private static final Logger log = LoggerFactory.getLogger(OrdersService.class);
  /** Unlimited: a record is tried until it succeeds or is refused for good, see {@link #attempt}. */
  private static final boolean UNLIMITED = "unlimited".equals(System.getenv("ATTEMPTS"));
  private static final int MAX_ATTEMPTS = UNLIMITED ? Integer.MAX_VALUE : 3;
  private static final long MAX_BACKOFF_MS = Long.parseLong(System.getenv().getOrDefault("MAX_BACKOFF_MS", "20000"));
  private static final long FIRST_BACKOFF_MS = 100;
  private static final ObjectMapper JSON = new ObjectMapper();
  /** A mistake that tests plant, to see it named; none otherwise. */
  private static final String PLANTED_BUG = System.getenv().getOrDefault("PLANTED_BUG", "");

  private final KafkaConsumer<byte[], byte[]> consumer;
  private final KafkaProducer<byte[], byte[]> producer;
  private final HttpClient http = HttpClient.newHttpClient();
  private final URI url = URI.create(System.getenv("DOWNSTREAM_URL") + "/v1/attempt");
  /** Where the record's customer is looked up before each call, and where its stock is reserved after one; both optional. */
  private final String customers = System.getenv("CUSTOMERS_URL");
  private final String stock = System.getenv("STOCK_URL");
  /** One topic, several with commas, or a pattern that begins with ^. */
  private final String topic = System.getenv("KAFKA_TOPIC");
  private final String dlqTopic = System.getenv("KAFKA_DLQ_TOPIC");
  /** Empty: values are not read. "end": poll throws at one that is not an order, and the process ends. "again": it is logged and polled again. */
  private final String onUnreadable = System.getenv().getOrDefault("ON_UNREADABLE", "");
  /** What PLANTED_BUG=auto-commit-beside-a-thread processes with, while the client commits what was polled. */
  private final ExecutorService worker = Executors.newSingleThreadExecutor();
  /** What is finished and not yet committed. */
  private final Map<TopicPartition, OffsetAndMetadata> done = new HashMap<>();
  /** The records that wait for their next attempt, if attempts are unlimited. Their partitions are paused. */
  private final Map<TopicPartition, Waiting> waiting = new HashMap<>();
  private volatile boolean stopping;

  /** How often a record failed, and the time of {@code System.nanoTime()} at which it is tried again. */
  private record Waiting(int attempts, long until) {}

  /** What came of an attempt: an HTTP status, or 0 without an answer. */
  private record Answer(int status, String reason, long retryAfter) {}

  OrdersService() {
    Properties consuming = new Properties();
    consuming.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, System.getenv("KAFKA_BROKERS"));
    consuming.put(ConsumerConfig.GROUP_ID_CONFIG, System.getenv("KAFKA_GROUP"));
    consuming.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
    consuming.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, PLANTED_BUG.equals("auto-commit-beside-a-thread"));
    for (String setting : System.getenv().getOrDefault("CONSUMER_SETTINGS", "").split(",")) {
      if (!setting.isEmpty()) {
        consuming.put(setting.substring(0, setting.indexOf('=')), setting.substring(setting.indexOf('=') + 1));
      }
    }
    consumer = new KafkaConsumer<>(consuming, new ByteArrayDeserializer(),
        onUnreadable.isEmpty() ? new ByteArrayDeserializer() : new OrderDeserializer());
    Properties producing = new Properties();
    producing.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, System.getenv("KAFKA_BROKERS"));
    producer = new KafkaProducer<>(producing, new ByteArraySerializer(), new ByteArraySerializer());
  }

  public static void main(String[] args) {
    OrdersService service = new OrdersService();
    Thread main = Thread.currentThread();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      log.info("Shutting down");
      service.stop(main);
      try {
        main.join();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }));
    service.run();
  }

  /** Whole or not at all before the consumer is closed: an interrupt while it leaves its group would be an error. */
  private synchronized void stop(Thread main) {
    stopping = true;
    consumer.wakeup();
    main.interrupt();
  }

  @Override
  public void run() {
    try {
      if (topic.startsWith("^")) {
        consumer.subscribe(Pattern.compile(topic), this);
      } else {
        consumer.subscribe(List.of(topic.split(",")), this);
      }
      while (!stopping) {
        ConsumerRecords<byte[], byte[]> records;
        try {
          records = consumer.poll(resume());
        } catch (RecordDeserializationException e) {
          unreadable(e);
          continue;
        }
        if (PLANTED_BUG.equals("auto-commit-beside-a-thread")) {
          records.forEach(record -> worker.submit(() -> process(record)));
          continue;
        }
        for (ConsumerRecord<byte[], byte[]> record : records) {
          TopicPartition partition = new TopicPartition(record.topic(), record.partition());
          if (waiting.containsKey(partition) && consumer.paused().contains(partition)) {
            continue; // behind the one that waits
          }
          if (!(UNLIMITED ? attempt(partition, record) : process(record))) {
            if (waiting.containsKey(partition)) {
              continue;
            }
            break;
          }
          done.put(partition, new OffsetAndMetadata(record.offset() + 1, record.leaderEpoch(), ""));
        }
        commit();
      }
    } catch (WakeupException | InterruptException e) {
      if (!stopping) {
        throw e;
      }
    } finally {
      synchronized (this) {
        Thread.interrupted(); // closing takes its time
      }
      worker.shutdownNow();
      consumer.close();
      producer.close();
      log.info("Closed");
    }
  }

  @Override
  public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}

  @Override
  public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
    done.keySet().removeAll(partitions);
    waiting.keySet().removeAll(partitions);
  }

  /** Resumes the partitions whose records are due, and returns how long the next poll may wait. */
  private Duration resume() {
    long now = System.nanoTime();
    Duration left = Duration.ofMillis(500);
    for (Map.Entry<TopicPartition, Waiting> one : waiting.entrySet()) {
      Duration until = Duration.ofNanos(one.getValue().until() - now);
      if (until.isNegative() || until.isZero()) {
        consumer.resume(List.of(one.getKey()));
      } else if (until.compareTo(left) < 0) {
        left = until;
      }
    }
    return left;
  }

  /**
   * Tries a record once. If it fails, its partition is paused at it, and the loop goes on: it has to poll, as the group takes its
   * partitions away after max.poll.interval.ms. Returns true when the record has come to its end.
   */
  private boolean attempt(TopicPartition partition, ConsumerRecord<byte[], byte[]> record) {
    Waiting before = waiting.remove(partition);
    int attempt = before == null ? 1 : before.attempts() + 1;
    Answer answer = answer(record);
    if (answer == null) {
      return false;
    }
    if (answer.status() == 200) {
      return true;
    }
    if (answer.status() == 400 || answer.status() == 422) {
      return deadLetter(record, attempt, answer.reason());
    }
    long backoff = Math.min(FIRST_BACKOFF_MS << Math.min(attempt - 1, 30), MAX_BACKOFF_MS);
    long until = System.nanoTime() + Duration.ofMillis(Math.max(backoff, answer.retryAfter())).toNanos();
    consumer.pause(List.of(partition));
    if (!PLANTED_BUG.equals("paused-without-seek")) {
      consumer.seek(partition, new OffsetAndMetadata(record.offset(), record.leaderEpoch(), ""));
    }
    waiting.put(partition, new Waiting(attempt, until));
    return false;
  }

  private void unreadable(RecordDeserializationException e) {
    log.error("{} at {} is not an order", e.topicPartition(), e.offset(), e);
    if (PLANTED_BUG.equals("seeks-past-unreadable")) {
      consumer.seek(e.topicPartition(), e.offset() + 1); // what is processed next is committed, and this record with it
      return;
    }
    if (onUnreadable.equals("end")) {
      throw e;
    }
    sleep(500);
  }

  private void commit() {
    while (!done.isEmpty()) {
      try {
        Thread.interrupted();
        if (PLANTED_BUG.equals("letter-not-checked")) {
          consumer.commitAsync(Map.copyOf(done), null);
        } else {
          consumer.commitSync(done);
        }
        done.clear();
        return;
      } catch (WakeupException | InterruptException e) {
        // Told to stop meanwhile: the commit is done all the same, once more.
      } catch (CommitFailedException | RebalanceInProgressException e) {
        log.warn("Offsets not committed, the group rebalances: {}", e.getMessage());
        return; // after the next poll, for what is kept; who gets the other partitions reads their records again
      } catch (RetriableException e) {
        log.error("Offsets not committed", e);
        return; // again after the next poll
      }
    }
  }

  /** Returns true when the record has come to its end, false when the service is to stop. */
  private boolean process(ConsumerRecord<byte[], byte[]> record) {
    for (int attempt = 1; !stopping; attempt++) {
      Answer answer = answer(record);
      if (answer == null) {
        return false;
      }
      if (answer.status() == 200) {
        return true;
      }
      if (answer.status() == 400 || answer.status() == 422 || attempt == MAX_ATTEMPTS) {
        return deadLetter(record, attempt, answer.reason());
      }
      if (!sleep(Math.max(FIRST_BACKOFF_MS << (attempt - 1), answer.retryAfter()))) {
        return false;
      }
    }
    return false;
  }

  /** Returns what came of one attempt, or null if the service is to stop. */
  private Answer answer(ConsumerRecord<byte[], byte[]> record) {
    try {
      HttpResponse<byte[]> response = call(record);
      long retryAfter = 1000 * response.headers().firstValueAsLong("Retry-After").orElse(0);
      return new Answer(response.statusCode(), response.statusCode() == 200 ? "" : reason(response), retryAfter);
    } catch (IOException e) {
      return new Answer(0, e.toString(), 0);
    } catch (InterruptedException e) {
      return null;
    }
  }

  /** Returns the first response that is not 200, or the last. */
  private HttpResponse<byte[]> call(ConsumerRecord<byte[], byte[]> record) throws IOException, InterruptedException {
    if (customers != null && record.key() != null) {
      HttpRequest request = HttpRequest.newBuilder(URI.create(customers + HexFormat.of().formatHex(record.key())))
          .timeout(Duration.ofSeconds(1)).build();
      HttpResponse<byte[]> response = http.send(request, HttpResponse.BodyHandlers.ofByteArray());
      if (response.statusCode() != 200) {
        return response;
      }
    }
    HttpResponse<byte[]> response = post(url, record);
    return stock == null || response.statusCode() != 200 ? response : post(URI.create(stock), record);
  }

  private HttpResponse<byte[]> post(URI to, ConsumerRecord<byte[], byte[]> record) throws IOException, InterruptedException {
    byte[] body = record.value() == null ? new byte[0] : record.value();
    HttpRequest request = HttpRequest.newBuilder(to).timeout(Duration.ofSeconds(1))
        .header("X-Kafka-Topic", record.topic())
        .header("X-Kafka-Partition", Integer.toString(record.partition()))
        .header("X-Kafka-Offset", Long.toString(record.offset()))
        .POST(HttpRequest.BodyPublishers.ofByteArray(body)).build();
    return http.send(request, HttpResponse.BodyHandlers.ofByteArray());
  }

  private static String reason(HttpResponse<byte[]> response) {
    try {
      return JSON.readTree(response.body()).path("error").asText("HTTP " + response.statusCode());
    } catch (IOException e) {
      return "HTTP " + response.statusCode();
    }
  }

  /** Returns true when the dead letter is acknowledged. Tries until then, or until the service is to stop. */
  private boolean deadLetter(ConsumerRecord<byte[], byte[]> record, int attempts, String reason) {
    while (!stopping) {
      try {
        String to = dlqTopic == null ? record.topic() + ".DLT" : dlqTopic;
        Future<RecordMetadata> sent =
            producer.send(new ProducerRecord<>(to, null, record.key(), record.value(), headers(record, attempts, reason)));
        if (!PLANTED_BUG.equals("letter-not-checked")) {
          sent.get();
        }
        return true;
      } catch (InterruptedException | InterruptException e) {
        return false;
      } catch (ExecutionException e) {
        log.error("Dead letter of {}-{}@{} failed", record.topic(), record.partition(), record.offset(), e.getCause());
        if (PLANTED_BUG.equals("no-seek-after-failure")) {
          return false; // the next poll goes on behind the records of this one
        }
        sleep(500);
      }
    }
    return false;
  }

  private static Headers headers(ConsumerRecord<byte[], byte[]> record, int attempts, String reason) {
    Headers headers = new RecordHeaders(record.headers());
    Map<String, String> failure = Map.of(
        "x-original-topic", record.topic(), "x-original-partition", Integer.toString(record.partition()),
        "x-original-offset", Long.toString(record.offset()), "x-attempts", Integer.toString(attempts), "x-exception-message", reason);
    failure.forEach((name, value) -> {
      headers.remove(name);
      headers.add(name, value.getBytes(StandardCharsets.UTF_8));
    });
    return headers;
  }

  private boolean sleep(long ms) {
    try {
      Thread.sleep(ms);
      return !stopping;
    } catch (InterruptedException e) {
      return false;
    }
  }
}
