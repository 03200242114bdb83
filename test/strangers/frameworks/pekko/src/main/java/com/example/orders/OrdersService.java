package com.example.orders;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.pekko.Done;
import org.apache.pekko.NotUsed;
import org.apache.pekko.actor.ActorSystem;
import org.apache.pekko.actor.CoordinatedShutdown;
import org.apache.pekko.kafka.CommitterSettings;
import org.apache.pekko.kafka.ConsumerMessage.Committable;
import org.apache.pekko.kafka.ConsumerMessage.CommittableMessage;
import org.apache.pekko.kafka.ConsumerSettings;
import org.apache.pekko.kafka.ProducerSettings;
import org.apache.pekko.kafka.Subscriptions;
import org.apache.pekko.kafka.javadsl.Committer;
import org.apache.pekko.kafka.javadsl.Consumer;
import org.apache.pekko.kafka.javadsl.SendProducer;
import org.apache.pekko.stream.ActorAttributes;
import org.apache.pekko.stream.RestartSettings;
import org.apache.pekko.stream.Supervision;
import org.apache.pekko.stream.javadsl.Flow;
import org.apache.pekko.stream.javadsl.RestartSource;
import org.apache.pekko.stream.javadsl.RetryFlow;
import org.apache.pekko.stream.javadsl.Sink;
import org.apache.pekko.stream.javadsl.Source;

/** Takes the payment of each order: a stream for each partition, restarted when it fails. */
public final class OrdersService {
  /** A mistake that tests plant, to see it named; none otherwise. */
  private static final String PLANTED_BUG = System.getenv().getOrDefault("PLANTED_BUG", "");
  private static final int MAX_PARTITIONS = 100;

  private final ActorSystem system = ActorSystem.create("orders");
  private final AtomicReference<Consumer.Control> control = new AtomicReference<>(Consumer.createNoopControl());
  private final HttpClient http = HttpClient.newHttpClient();
  private final URI payments = URI.create(System.getenv("DOWNSTREAM_URL") + "/v1/attempt");
  private final String topic = System.getenv("KAFKA_TOPIC");
  private final String deadLetters = System.getenv("KAFKA_DLQ_TOPIC");
  private final SendProducer<byte[], byte[]> producer = new SendProducer<>(
      ProducerSettings.create(system, new ByteArraySerializer(), new ByteArraySerializer())
          .withBootstrapServers(System.getenv("KAFKA_BROKERS")), system);

  /** What came of an attempt; status 0 stands for no answer. */
  private record Outcome(CommittableMessage<byte[], byte[]> order, int status, String reason) {
    boolean mayChange() {
      return status != 200 && status != 400 && status != 422;
    }
  }

  public static void main(String[] args) {
    new OrdersService().run();
  }

  private void run() {
    ConsumerSettings<byte[], byte[]> settings = ConsumerSettings
        .create(system, new ByteArrayDeserializer(), new ByteArrayDeserializer())
        .withBootstrapServers(System.getenv("KAFKA_BROKERS"))
        .withGroupId(System.getenv("KAFKA_GROUP"));
    RestartSettings restarts = RestartSettings.create(Duration.ofSeconds(1), Duration.ofSeconds(10), 0.2);
    CompletionStage<Done> completion = RestartSource
        .onFailuresWithBackoff(restarts, () -> orders(settings))
        .runWith(Sink.ignore(), system);
    CoordinatedShutdown.get(system).addTask(CoordinatedShutdown.PhaseServiceRequestsDone(), "drain",
        () -> control.get().drainAndShutdown(completion, system.dispatcher()).thenCompose(done -> producer.close()));
  }

  private Source<Done, ?> orders(ConsumerSettings<byte[], byte[]> settings) {
    return Consumer.committablePartitionedSource(settings, Subscriptions.topics(topic))
        .mapMaterializedValue(started -> {
          control.set(started);
          return started;
        })
        .mapAsyncUnordered(MAX_PARTITIONS, partition -> partition.second()
            .via(once())
            .via(business())
            .runWith(Committer.sink(CommitterSettings.create(system)), system));
  }

  /**
   * Leaves out what the stream has had. When a rebalance leaves the partition where it is, the consumer goes back to the
   * last commit, but the stream continues.
   */
  private static Flow<CommittableMessage<byte[], byte[]>, CommittableMessage<byte[], byte[]>, NotUsed> once() {
    return Flow.<CommittableMessage<byte[], byte[]>>create().statefulMapConcat(() -> {
      AtomicLong last = new AtomicLong(-1);
      return order -> {
        long offset = order.record().offset();
        return offset > last.getAndAccumulate(offset, Math::max) ? List.of(order) : List.of();
      };
    });
  }

  /** Emits the offset of each order that has been paid, or whose dead letter is acknowledged. */
  private Flow<CommittableMessage<byte[], byte[]>, Committable, NotUsed> business() {
    Flow<CommittableMessage<byte[], byte[]>, Outcome, NotUsed> paid = RetryFlow.withBackoff(
        Duration.ofMillis(100), Duration.ofSeconds(1), 0, 2,
        Flow.<CommittableMessage<byte[], byte[]>>create().mapAsync(1, this::charge),
        (order, outcome) -> outcome.mayChange() ? Optional.of(order) : Optional.empty());
    if (PLANTED_BUG.equals("letters-unordered")) {
      return paid.mapAsyncUnordered(10, this::finish);
    }
    Flow<CommittableMessage<byte[], byte[]>, Committable, NotUsed> finished = paid.mapAsync(1, this::finish);
    return PLANTED_BUG.equals("resumes-at-failure")
        ? finished.withAttributes(ActorAttributes.withSupervisionStrategy(Supervision.getResumingDecider()))
        : finished;
  }

  private CompletionStage<Outcome> charge(CommittableMessage<byte[], byte[]> order) {
    ConsumerRecord<byte[], byte[]> record = order.record();
    byte[] body = record.value() == null ? new byte[0] : record.value();
    HttpRequest request = HttpRequest.newBuilder(payments).timeout(Duration.ofSeconds(1))
        .header("X-Kafka-Topic", record.topic())
        .header("X-Kafka-Partition", String.valueOf(record.partition()))
        .header("X-Kafka-Offset", String.valueOf(record.offset()))
        .POST(HttpRequest.BodyPublishers.ofByteArray(body)).build();
    return http.sendAsync(request, HttpResponse.BodyHandlers.ofString())
        .handle((answer, failure) -> failure == null
            ? new Outcome(order, answer.statusCode(), answer.statusCode() + " " + answer.body())
            : new Outcome(order, 0, failure.toString()));
  }

  private CompletionStage<Committable> finish(Outcome outcome) {
    Committable offset = outcome.order().committableOffset();
    if (outcome.status() == 200) {
      return CompletableFuture.completedFuture(offset);
    }
    ConsumerRecord<byte[], byte[]> record = outcome.order().record();
    RecordHeaders headers = new RecordHeaders(record.headers());
    headers.add("original-topic", record.topic().getBytes(UTF_8));
    headers.add("original-partition", String.valueOf(record.partition()).getBytes(UTF_8));
    headers.add("original-offset", String.valueOf(record.offset()).getBytes(UTF_8));
    headers.add("reason", outcome.reason().getBytes(UTF_8));
    return producer.send(new ProducerRecord<>(deadLetters, null, record.key(), record.value(), headers))
        .thenApply(acknowledged -> offset);
  }
}
