package com.example.orders;

import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.cloud.stream.function.StreamBridge;
import org.springframework.context.annotation.Bean;
import org.springframework.kafka.support.KafkaHeaders;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;

@SpringBootApplication
public class OrdersApplication {
  /** A mistake that tests plant, to see it named; none otherwise. */
  static final String PLANTED_BUG = System.getenv().getOrDefault("PLANTED_BUG", "");

  public static void main(String[] args) {
    SpringApplication.run(OrdersApplication.class, args);
  }

  /** The binding orders-in-0. What it throws is retried, and dead-lettered in the end. */
  @Bean
  Consumer<Message<byte[]>> orders(Payments payments, StreamBridge bridge, @Value("${orders.dlq}") String dlq) {
    return switch (PLANTED_BUG) {
      case "not-awaited" -> order -> CompletableFuture.runAsync(() -> payments.take(order));
      case "letter-by-stream-bridge" -> order -> {
        try {
          payments.take(order);
        } catch (PaymentRefusedException e) {
          var key = order.getHeaders().get(KafkaHeaders.RECEIVED_KEY);
          // true at once: a producer binding is not synchronous by default
          bridge.send(dlq, MessageBuilder.fromMessage(order).setHeader(KafkaHeaders.KEY, key).build());
        }
      };
      default -> payments::take;
    };
  }
}
