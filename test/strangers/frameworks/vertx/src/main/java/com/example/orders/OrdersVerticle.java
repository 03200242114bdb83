package com.example.orders;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.vertx.circuitbreaker.CircuitBreaker;
import io.vertx.circuitbreaker.CircuitBreakerOptions;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.VerticleBase;
import io.vertx.core.Vertx;
import io.vertx.core.buffer.Buffer;
import io.vertx.ext.web.client.WebClient;
import io.vertx.kafka.client.common.TopicPartition;
import io.vertx.kafka.client.consumer.KafkaConsumer;
import io.vertx.kafka.client.consumer.KafkaConsumerRecord;
import io.vertx.kafka.client.consumer.KafkaConsumerRecords;
import io.vertx.kafka.client.consumer.OffsetAndMetadata;
import io.vertx.kafka.client.producer.KafkaProducer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Takes the payment of each order: the partitions of a batch at once, the orders of a partition one after the other. */
public class OrdersVerticle extends VerticleBase {
  private static final Logger LOG = LoggerFactory.getLogger(OrdersVerticle.class);
  /** A mistake that tests plant, to see it named; none otherwise. */
  private static final String PLANTED_BUG = System.getenv().getOrDefault("PLANTED_BUG", "");

  private final String topic = System.getenv("KAFKA_TOPIC");
  private final String deadLetters = System.getenv("KAFKA_DLQ_TOPIC");
  private final String payments = System.getenv("DOWNSTREAM_URL") + "/v1/attempt";
  private KafkaConsumer<byte[], byte[]> consumer;
  private KafkaProducer<byte[], byte[]> producer;
  private WebClient http;
  private CircuitBreaker breaker;
  private Future<?> batch = Future.succeededFuture();
  private boolean stopping;

  /** The payment service's answer. Those that may change when it is asked again are exceptions. */
  private record Answer(int status, String body) {
    boolean ok() {
      return status == 200;
    }
  }

  public static void main(String[] args) {
    Vertx vertx = Vertx.vertx();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> vertx.close().await()));
    vertx.deployVerticle(new OrdersVerticle()).onFailure(failure -> {
      LOG.error("Not started", failure);
      System.exit(1);
    });
  }

  @Override
  public Future<?> start() {
    http = WebClient.create(vertx);
    CircuitBreakerOptions options = new CircuitBreakerOptions().setMaxRetries(2);
    if (!PLANTED_BUG.equals("circuit-opens")) {
      options.setMaxFailures(Integer.MAX_VALUE); // only its retries are wanted
    }
    breaker = CircuitBreaker.create("payments", vertx, options).retryPolicy((failure, retry) -> 100L << (retry - 1));
    producer = KafkaProducer.create(vertx, Map.of(
        "bootstrap.servers", System.getenv("KAFKA_BROKERS"),
        "key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer",
        "value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer",
        "max.request.size", "1100000")); // a dead letter is a little larger than its record
    Map<String, String> config = new HashMap<>();
    config.put("bootstrap.servers", System.getenv("KAFKA_BROKERS"));
    config.put("group.id", System.getenv("KAFKA_GROUP"));
    config.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
    config.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
    config.put("auto.offset.reset", "earliest");
    if (!PLANTED_BUG.equals("auto-commit")) {
      config.put("enable.auto.commit", "false");
    }
    consumer = KafkaConsumer.create(vertx, config);
    consumer.exceptionHandler(failure -> LOG.error("Kafka consumer", failure));
    consumer.batchHandler(this::receive);
    return consumer.subscribe(topic);
  }

  @Override
  public Future<?> stop() {
    LOG.info("Stopping");
    stopping = true;
    return batch.transform(any -> consumer.close()).transform(any -> producer.close());
  }

  /** The consumer is paused while a batch is processed: Vert.x polls again as soon as this returns. */
  private void receive(KafkaConsumerRecords<byte[], byte[]> records) {
    if (!PLANTED_BUG.equals("not-paused")) {
      consumer.pause();
    }
    Map<TopicPartition, List<KafkaConsumerRecord<byte[], byte[]>>> partitions = new HashMap<>();
    for (int i = 0; i < records.size(); i++) {
      KafkaConsumerRecord<byte[], byte[]> record = records.recordAt(i);
      partitions.computeIfAbsent(new TopicPartition(record.topic(), record.partition()), p -> new ArrayList<>())
          .add(record);
    }
    Map<TopicPartition, OffsetAndMetadata> done = new HashMap<>();
    List<Future<Void>> running = new ArrayList<>();
    partitions.forEach((partition, orders) -> {
      Future<Void> last = Future.succeededFuture();
      for (KafkaConsumerRecord<byte[], byte[]> order : orders) {
        last = last.compose(v -> process(order))
            .onSuccess(v -> done.put(partition, new OffsetAndMetadata(order.offset() + 1, "")));
      }
      running.add(last.recover(failure -> again(partition, orders, done, failure)));
    });
    batch = Future.join(running).transform(any -> commit(done)).onComplete(any -> {
      if (!stopping) {
        consumer.resume();
      }
    });
  }

  /** Has the partition's records read again that were not processed. */
  private Future<Void> again(TopicPartition partition, List<KafkaConsumerRecord<byte[], byte[]>> orders,
      Map<TopicPartition, OffsetAndMetadata> done, Throwable failure) {
    if (stopping) {
      return Future.succeededFuture();
    }
    LOG.error("An order of {} was not processed", partition, failure);
    return consumer.seek(partition, done.containsKey(partition) ? done.get(partition).getOffset() : orders.get(0).offset());
  }

  private Future<Void> commit(Map<TopicPartition, OffsetAndMetadata> done) {
    if (PLANTED_BUG.equals("auto-commit") || done.isEmpty()) {
      return Future.succeededFuture();
    }
    Future<?> committed = PLANTED_BUG.equals("not-paused") ? consumer.commit() : consumer.commit(done);
    return committed.<Void>mapEmpty().recover(failure -> {
      // The records are delivered again, if the next commit doesn't cover them.
      LOG.warn("Offsets were not committed", failure);
      return Future.succeededFuture();
    });
  }

  private Future<Void> process(KafkaConsumerRecord<byte[], byte[]> order) {
    if (stopping) {
      return Future.failedFuture("stopping");
    }
    return breaker.execute(() -> charge(order)).transform(result -> {
      if (result.failed()) {
        return deadLetter(order, result.cause().toString());
      }
      Answer answer = result.result();
      return answer.ok() ? Future.succeededFuture() : deadLetter(order, answer.status() + " " + answer.body());
    });
  }

  private Future<Answer> charge(KafkaConsumerRecord<byte[], byte[]> order) {
    Buffer body = order.value() == null ? Buffer.buffer() : Buffer.buffer(order.value());
    return http.postAbs(payments).timeout(1000)
        .putHeader("X-Kafka-Topic", order.topic())
        .putHeader("X-Kafka-Partition", String.valueOf(order.partition()))
        .putHeader("X-Kafka-Offset", String.valueOf(order.offset()))
        .sendBuffer(body)
        .compose(response -> response.statusCode() == 429 || response.statusCode() >= 500
            ? Future.failedFuture(response.statusCode() + " " + response.bodyAsString())
            : Future.succeededFuture(new Answer(response.statusCode(), response.bodyAsString())));
  }

  /** Completes when the dead letter is acknowledged. It is tried until then, or until the verticle is to stop. */
  private Future<Void> deadLetter(KafkaConsumerRecord<byte[], byte[]> order, String reason) {
    return send(order, reason).recover(failure -> {
      LOG.error("Dead letter of {}-{}@{} was not written", order.topic(), order.partition(), order.offset(), failure);
      if (stopping) {
        return Future.failedFuture(failure);
      }
      Promise<Void> again = Promise.promise();
      vertx.setTimer(500, timer -> deadLetter(order, reason).onComplete(again));
      return again.future();
    });
  }

  private Future<Void> send(KafkaConsumerRecord<byte[], byte[]> order, String reason) {
    // The headers are the client's, because Vert.x' own fail at one whose value is null.
    RecordHeaders headers = new RecordHeaders(order.record().headers());
    headers.add("original-topic", order.topic().getBytes(UTF_8));
    headers.add("original-partition", String.valueOf(order.partition()).getBytes(UTF_8));
    headers.add("original-offset", String.valueOf(order.offset()).getBytes(UTF_8));
    headers.add("reason", reason.getBytes(UTF_8));
    return producer.asStream().send(new ProducerRecord<>(deadLetters, null, order.key(), order.value(), headers))
        .mapEmpty();
  }
}
