package com.example.orders;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.context.annotation.Profile;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.annotation.RetryableTopic;
import org.springframework.stereotype.Component;

/** All settings of the retry topics are their defaults: three attempts, a second between them, and a topic -dlt. */
@Component
@Profile("retryable-topic")
class RetryableOrderListener {
  private final Payments payments;

  RetryableOrderListener(Payments payments) {
    this.payments = payments;
  }

  @RetryableTopic
  @KafkaListener(topics = "${orders.topic}")
  void on(ConsumerRecord<byte[], byte[]> record) {
    payments.take(record);
  }
}
