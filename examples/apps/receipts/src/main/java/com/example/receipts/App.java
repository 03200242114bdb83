package com.example.receipts;

import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Connects the transformer with Kafka. */
public final class App {
  private static final Logger log = LoggerFactory.getLogger(App.class);

  private App() {}

  public static void main(String[] args) {
    String brokers = System.getenv("KAFKA_BROKERS");
    try (var consumer = new KafkaConsumer<>(Map.<String, Object>of(
            ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, brokers,
            ConsumerConfig.GROUP_ID_CONFIG, "receipts",
            ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest",
            ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false,
            ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed",
            ConsumerConfig.MAX_POLL_RECORDS_CONFIG, 20,
            ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, 6_000,
            ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, 1_000),
            new ByteArrayDeserializer(), new ByteArrayDeserializer());
        var producer = new KafkaProducer<>(Map.<String, Object>of(
            ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, brokers,
            ProducerConfig.TRANSACTIONAL_ID_CONFIG, System.getenv("TRANSACTIONAL_ID"),
            ProducerConfig.TRANSACTION_TIMEOUT_CONFIG, 10_000,
            ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, 3_000,
            ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, 8_000,
            ProducerConfig.MAX_BLOCK_MS_CONFIG, 8_000),
            new ByteArraySerializer(), new ByteArraySerializer())) {
      Transformer transformer = new Transformer(consumer, producer);
      Thread main = Thread.currentThread();
      Runtime.getRuntime().addShutdownHook(new Thread(() -> {
        transformer.stop();
        try {
          main.join();
        } catch (InterruptedException e) {
          Thread.currentThread().interrupt();
        }
      }));
      log.info("Writing receipts");
      transformer.run();
      log.info("Stopped");
    } catch (RuntimeException e) {
      log.error("The transformer can't go on", e);
      Runtime.getRuntime().halt(1);
    }
  }
}
