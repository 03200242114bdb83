package com.example.orders;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.context.annotation.Profile;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.annotation.RetryableTopic;
import org.springframework.stereotype.Component;

/**
 * All settings of the retry topics are their defaults: three attempts, a second between them, and a topic -dlt. With the
 * group named here, the retry topic and the dead letters are read by groups with the suffixes of their topics.
 */
@Component
@Profile("retryable-topic")
class RetryableOrderListener {
  private final Payments payments;

  RetryableOrderListener(Payments payments) {
    this.payments = payments;
  }

  @RetryableTopic
  @KafkaListener(topics = "${orders.topic}", groupId = "${spring.kafka.consumer.group-id}")
  void on(ConsumerRecord<byte[], byte[]> record) {
    payments.take(record);
  }
}
