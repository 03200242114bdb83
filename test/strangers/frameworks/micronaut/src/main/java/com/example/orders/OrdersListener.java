package com.example.orders;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.micronaut.configuration.kafka.annotation.ErrorStrategy;
import io.micronaut.configuration.kafka.annotation.ErrorStrategyValue;
import io.micronaut.configuration.kafka.annotation.KafkaListener;
import io.micronaut.configuration.kafka.annotation.OffsetReset;
import io.micronaut.configuration.kafka.annotation.Topic;
import io.micronaut.configuration.kafka.exceptions.KafkaListenerException;
import io.micronaut.configuration.kafka.exceptions.KafkaListenerExceptionHandler;
import io.micronaut.http.client.exceptions.HttpClientException;
import io.micronaut.http.client.exceptions.HttpClientResponseException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Takes the payment of each order. Micronaut retries it; what it gives up goes to the dead letters. */
@KafkaListener(
    groupId = "${orders.group}",
    offsetReset = OffsetReset.EARLIEST,
    errorStrategy = @ErrorStrategy(
        value = ErrorStrategyValue.RETRY_EXPONENTIALLY_ON_ERROR,
        retryDelay = "100ms",
        retryCount = 2,
        exceptionTypes = PaymentFailedException.class))
public class OrdersListener implements KafkaListenerExceptionHandler {
  private static final Logger LOG = LoggerFactory.getLogger(OrdersListener.class);
  /** A mistake that tests plant, to see it named; empty otherwise. */
  private static final String PLANTED_BUG = System.getenv().getOrDefault("PLANTED_BUG", "");

  private final Payments payments;
  private final DeadLetters deadLetters;

  OrdersListener(Payments payments, DeadLetters deadLetters) {
    this.payments = payments;
    this.deadLetters = deadLetters;
  }

  @Topic("${orders.topic}")
  public void receive(ConsumerRecord<byte[], byte[]> order) {
    try {
      payments.charge(order.topic(), order.partition(), order.offset(), order.value());
    } catch (HttpClientResponseException e) {
      int status = e.getStatus().getCode();
      if (status == 400 || status == 422) {
        throw e;
      }
      throw new PaymentFailedException(e);
    } catch (HttpClientException e) {
      throw new PaymentFailedException(e);
    }
  }

  /** Micronaut goes on to the next record when this returns, and also when it throws. */
  @Override
  public void handle(KafkaListenerException failure) {
    var failed = failure.getConsumerRecord();
    if (failed.isEmpty()) {
      LOG.error("Consuming failed", failure);
      return;
    }
    while (true) {
      try {
        publish(failed.get(), failure);
        return;
      } catch (RuntimeException e) {
        if (PLANTED_BUG.equals("handler-throws")) {
          throw e;
        }
        LOG.error("Dead letter of {} was not written", failed.get(), e);
        pause();
      }
    }
  }

  private void publish(ConsumerRecord<?, ?> order, KafkaListenerException failure) {
    var headers = new RecordHeaders(order.headers());
    headers.add("original-topic", order.topic().getBytes(UTF_8));
    headers.add("original-partition", String.valueOf(order.partition()).getBytes(UTF_8));
    headers.add("original-offset", String.valueOf(order.offset()).getBytes(UTF_8));
    headers.add("reason", String.valueOf(failure.getMessage()).getBytes(UTF_8));
    deadLetters.send((byte[]) order.key(), (byte[]) order.value(), headers);
  }

  private static void pause() {
    try {
      Thread.sleep(500);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted", e);
    }
  }
}
