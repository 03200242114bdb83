package com.example.orders;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.confluent.parallelconsumer.PCRetriableException;
import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelConsumerOptions.CommitMode;
import io.confluent.parallelconsumer.ParallelConsumerOptions.ProcessingOrder;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import io.confluent.parallelconsumer.RecordContext;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A consumer on Confluent's Parallel Consumer: records of a key in order, up to 100 keys at once, commits every five seconds. */
public final class OrdersService {
  private static final Logger log = LoggerFactory.getLogger(OrdersService.class);
  private static final int MAX_ATTEMPTS = 3;
  private static final long FIRST_BACKOFF_MS = 100;
  private static final ObjectMapper JSON = new ObjectMapper();
  /** A mistake that tests plant, to see it named; none otherwise. */
  private static final String PLANTED_BUG = System.getenv().getOrDefault("PLANTED_BUG", "");

  private final KafkaProducer<byte[], byte[]> producer;
  private final ParallelStreamProcessor<byte[], byte[]> processor;
  private final HttpClient http = HttpClient.newHttpClient();
  private final URI url = URI.create(System.getenv("DOWNSTREAM_URL") + "/v1/attempt");
  private final String dlqTopic = System.getenv("KAFKA_DLQ_TOPIC");
  private volatile boolean stopping;

  OrdersService() {
    Properties consuming = new Properties();
    consuming.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, System.getenv("KAFKA_BROKERS"));
    consuming.put(ConsumerConfig.GROUP_ID_CONFIG, System.getenv("KAFKA_GROUP"));
    consuming.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
    consuming.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
    Properties producing = new Properties();
    producing.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, System.getenv("KAFKA_BROKERS"));
    producer = new KafkaProducer<>(producing, new ByteArraySerializer(), new ByteArraySerializer());
    processor = ParallelStreamProcessor.createEosStreamProcessor(ParallelConsumerOptions.<byte[], byte[]>builder()
        .consumer(new KafkaConsumer<>(consuming, new ByteArrayDeserializer(), new ByteArrayDeserializer()))
        .ordering(ProcessingOrder.KEY)
        .maxConcurrency(100)
        .commitMode(CommitMode.PERIODIC_CONSUMER_SYNC)
        .retryDelayProvider(record -> Duration.ofMillis(FIRST_BACKOFF_MS << (record.getNumberOfFailedAttempts() - 1)))
        .build());
  }

  public static void main(String[] args) throws InterruptedException {
    OrdersService service = new OrdersService();
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
    service.run(stop);
  }

  private void run(CountDownLatch stop) throws InterruptedException {
    processor.subscribe(List.of(System.getenv("KAFKA_TOPIC")));
    processor.poll(context -> process(context.getSingleRecord()));
    stop.await();
    log.info("Shutting down");
    stopping = true;
    processor.close();
    producer.close();
    log.info("Closed");
  }

  /** Returns when the record has come to its end. An exception has it called again, after the delay. */
  private void process(RecordContext<byte[], byte[]> context) {
    ConsumerRecord<byte[], byte[]> record = context.getConsumerRecord();
    int attempt = context.getNumberOfFailedAttempts() + 1;
    int status = 0;
    String reason;
    try {
      HttpResponse<byte[]> response = call(record);
      status = response.statusCode();
      if (status == 200) {
        return;
      }
      reason = reason(response);
    } catch (IOException e) {
      reason = e.toString();
    } catch (InterruptedException e) {
      throw new PCRetriableException("stopping");
    }
    if (status != 400 && status != 422 && attempt < MAX_ATTEMPTS) {
      throw new PCRetriableException(reason);
    }
    deadLetter(record, attempt, reason);
  }

  private HttpResponse<byte[]> call(ConsumerRecord<byte[], byte[]> record) throws IOException, InterruptedException {
    byte[] body = record.value() == null ? new byte[0] : record.value();
    HttpRequest request = HttpRequest.newBuilder(url).timeout(Duration.ofSeconds(1))
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

  /** Returns when the dead letter is acknowledged. Tries until then, or until the service is to stop. */
  private void deadLetter(ConsumerRecord<byte[], byte[]> record, int attempts, String reason) {
    while (!stopping) {
      try {
        Future<RecordMetadata> sent =
            producer.send(new ProducerRecord<>(dlqTopic, null, record.key(), record.value(), headers(record, attempts, reason)));
        if (!PLANTED_BUG.equals("letter-not-awaited")) {
          sent.get();
        }
        return;
      } catch (ExecutionException e) {
        log.error("Dead letter of {}-{}@{} failed", record.topic(), record.partition(), record.offset(), e.getCause());
        sleep(500);
      } catch (InterruptedException e) {
        break;
      }
    }
    throw new PCRetriableException("stopping");
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

  private static void sleep(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
