package com.example.orders;

import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.ErrorHandlerContext;
import org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler;
import org.apache.kafka.streams.errors.ProductionExceptionHandler;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Takes the payment of each order. Kafka Streams writes what fails three times, or is refused for good, to its
 * dead-letter topic (KIP-1034). A dead letter that is refused ends the process.
 */
public final class OrdersLetters {
  private static final Logger LOG = LoggerFactory.getLogger(OrdersLetters.class);
  /** A mistake that tests plant, to see it named; none otherwise. */
  private static final String PLANTED_BUG = System.getenv().getOrDefault("PLANTED_BUG", "");

  /**
   * Fails the thread. By default, Kafka Streams writes a dead letter of the dead letter that was refused, from the
   * record that the thread has in work by then.
   */
  public static final class FailProductionExceptionHandler implements ProductionExceptionHandler {
    @Override
    public Response handleError(ErrorHandlerContext context, ProducerRecord<byte[], byte[]> record, Exception failure) {
      return failure instanceof RetriableException ? Response.retry() : Response.fail();
    }

    @Override
    public void configure(Map<String, ?> configs) {
    }
  }

  /** Goes on when a record cannot be written. */
  public static final class LogAndContinueProductionExceptionHandler implements ProductionExceptionHandler {
    @Override
    public Response handleError(ErrorHandlerContext context, ProducerRecord<byte[], byte[]> record, Exception failure) {
      LOG.error("Not written to {}", record.topic(), failure);
      return Response.resume();
    }

    @Override
    public void configure(Map<String, ?> configs) {
    }
  }

  public static void main(String[] args) throws InterruptedException {
    Properties config = new Properties();
    config.put(StreamsConfig.APPLICATION_ID_CONFIG, System.getenv("KAFKA_GROUP"));
    config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, System.getenv("KAFKA_BROKERS"));
    config.put(StreamsConfig.STATE_DIR_CONFIG, System.getenv("STATE_DIR"));
    config.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, System.getenv().getOrDefault("GROUP_PROTOCOL", "classic"));
    config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 2000); // half a minute by default, longer than a run has load
    config.put(StreamsConfig.PROCESSING_EXCEPTION_HANDLER_CLASS_CONFIG,
        LogAndContinueProcessingExceptionHandler.class);
    config.put(StreamsConfig.ERRORS_DEAD_LETTER_QUEUE_TOPIC_NAME_CONFIG, System.getenv("KAFKA_DLQ_TOPIC"));
    // A dead letter is a little larger than its record.
    config.put(StreamsConfig.producerPrefix(ProducerConfig.MAX_REQUEST_SIZE_CONFIG), 1_100_000);
    if (!PLANTED_BUG.equals("production-by-default")) {
      config.put(StreamsConfig.PRODUCTION_EXCEPTION_HANDLER_CLASS_CONFIG, PLANTED_BUG.equals("production-continues")
          ? LogAndContinueProductionExceptionHandler.class : FailProductionExceptionHandler.class);
    }
    Payments payments = new Payments(System.getenv("DOWNSTREAM_URL"));
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(System.getenv("KAFKA_TOPIC"), Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
        .foreach((key, order) -> {
          int status = payments.charge(order);
          if (status != 200) {
            throw new IllegalStateException("The payment failed with status " + status);
          }
        });

    KafkaStreams streams = new KafkaStreams(builder.build(), config);
    CountDownLatch failed = new CountDownLatch(1);
    streams.setUncaughtExceptionHandler(failure -> {
      LOG.error("The stream failed", failure);
      failed.countDown();
      return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    });
    Runtime.getRuntime().addShutdownHook(new Thread(() ->
        streams.close(CloseOptions.groupMembershipOperation(GroupMembershipOperation.LEAVE_GROUP))));
    streams.start();
    failed.await();
    System.exit(1);
  }
}
