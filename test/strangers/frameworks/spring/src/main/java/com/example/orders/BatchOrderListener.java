package com.example.orders;

import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.context.annotation.Profile;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.listener.BatchListenerFailedException;
import org.springframework.stereotype.Component;

/**
 * Takes all records of a poll, and says which of them failed: those before it are committed, those behind it come again.
 * There is a thread for each partition, because a thread forgets all counts of attempts when it has taken a whole poll.
 */
@Component
@Profile("batch")
class BatchOrderListener {
  /** A mistake that tests plant, to see it named; none otherwise. */
  private static final String PLANTED_BUG = System.getenv().getOrDefault("PLANTED_BUG", "");

  private final Payments payments;

  BatchOrderListener(Payments payments) {
    this.payments = payments;
  }

  @KafkaListener(topics = "${orders.topic}", batch = "true",
      concurrency = "#{systemEnvironment['PLANTED_BUG'] == 'one-thread' ? 1 : 8}")
  void on(List<ConsumerRecord<byte[], byte[]>> records) {
    for (var record : records) {
      try {
        payments.take(record);
      } catch (RuntimeException e) {
        if (PLANTED_BUG.equals("batch-fails-as-a-whole")) {
          throw e; // the batch comes again, and at last all of it is dead-lettered
        }
        throw new BatchListenerFailedException(e.getMessage(), e, record);
      }
    }
  }
}
