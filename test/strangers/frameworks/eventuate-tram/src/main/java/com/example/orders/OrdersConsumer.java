package com.example.orders;

import io.eventuate.common.json.mapper.JSonMapper;
import io.eventuate.messaging.kafka.producer.EventuateKafkaProducer;
import io.eventuate.tram.messaging.common.Message;
import io.eventuate.tram.messaging.consumer.MessageConsumer;
import jakarta.annotation.PostConstruct;
import jakarta.annotation.PreDestroy;
import java.io.IOException;
import java.util.Set;
import java.util.concurrent.CompletionException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.stereotype.Component;

/**
 * Takes the payment of each order. What its handler throws ends Eventuate's consumer for good, so it tries a dead
 * letter until it is acknowledged.
 */
@Component
public class OrdersConsumer {
  private static final Logger LOG = LoggerFactory.getLogger(OrdersConsumer.class);

  private final MessageConsumer consumer;
  private final EventuateKafkaProducer producer;
  private final Payments payments;
  private final HandlersInHand inHand;
  @Value("${orders.topic}")
  private String topic;
  @Value("${orders.group}")
  private String group;
  @Value("${orders.dead-letters}")
  private String deadLetters;

  OrdersConsumer(MessageConsumer consumer, EventuateKafkaProducer producer, Payments payments, HandlersInHand inHand) {
    this.consumer = consumer;
    this.producer = producer;
    this.payments = payments;
    this.inHand = inHand;
  }

  @PostConstruct
  void subscribe() {
    consumer.subscribe(group, Set.of(topic), this::handle);
  }

  /** The consumer's close() returns at once, and the producer is closed after this. */
  @PreDestroy
  void stop() throws InterruptedException {
    consumer.close();
    inHand.awaitClosed();
  }

  private void handle(Message order) {
    try {
      payments.charge(order.getId());
    } catch (IOException | IllegalArgumentException e) {
      order.setHeader("failure", String.valueOf(e.getMessage()));
      write(order);
    }
    inHand.handled();
  }

  private void write(Message order) {
    while (true) {
      try {
        var written = producer.send(deadLetters, order.getId(), JSonMapper.toJson(order));
        if (!OrdersApplication.PLANTED_BUG.equals("letter-not-awaited")) {
          written.join();
        }
        return;
      } catch (CompletionException e) {
        if (OrdersApplication.PLANTED_BUG.equals("handler-throws")) {
          throw e;
        }
        LOG.error("Dead letter of {} was not written", order.getId(), e.getCause());
        Payments.pause(500);
      }
    }
  }
}
