package com.example.orders;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.context.annotation.Profile;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.stereotype.Component;

@Component
@Profile("!retryable-topic & !batch")
class OrderListener {
  private final Payments payments;

  OrderListener(Payments payments) {
    this.payments = payments;
  }

  @KafkaListener(topics = "${orders.topic}")
  void on(ConsumerRecord<byte[], byte[]> record) {
    payments.take(record);
  }
}
