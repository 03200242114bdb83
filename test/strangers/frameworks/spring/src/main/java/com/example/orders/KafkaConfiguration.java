package com.example.orders;

import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Profile;
import org.springframework.kafka.core.KafkaOperations;
import org.springframework.kafka.listener.CommonContainerStoppingErrorHandler;
import org.springframework.kafka.listener.CommonDelegatingErrorHandler;
import org.springframework.kafka.listener.CommonErrorHandler;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.kafka.support.serializer.DeserializationException;
import org.springframework.util.backoff.FixedBackOff;

@Configuration
class KafkaConfiguration {
  /** A mistake that tests plant, to see it named; none otherwise. */
  private static final String PLANTED_BUG = System.getenv().getOrDefault("PLANTED_BUG", "");

  /** No wait between the attempts, and a topic -dlt, as by default. By default, a different exception starts the count anew. */
  private static DefaultErrorHandler deadLetters(KafkaOperations<byte[], byte[]> kafka, int retries) {
    var recoverer = new DeadLetterPublishingRecoverer(kafka);
    recoverer.setVerifyPartition(!PLANTED_BUG.equals("same-partition"));
    var handler = new DefaultErrorHandler(recoverer, new FixedBackOff(0, retries));
    handler.setResetStateOnExceptionChange(PLANTED_BUG.equals("count-starts-anew"));
    return handler;
  }

  @Bean
  @Profile("!retryable-topic & !stops-at-unreadable")
  CommonErrorHandler errorHandler(KafkaOperations<byte[], byte[]> kafka, @Value("${orders.retries}") int retries) {
    return deadLetters(kafka, retries);
  }

  /** Stops the listener container at a value that is not an order, so that an operator looks at it. */
  @Bean
  @Profile("stops-at-unreadable")
  CommonErrorHandler stoppingErrorHandler(KafkaOperations<byte[], byte[]> kafka, @Value("${orders.retries}") int retries) {
    var handler = new CommonDelegatingErrorHandler(deadLetters(kafka, retries));
    if (PLANTED_BUG.equals("unreadable-recovered")) {
      return handler; // which dead-letters it
    }
    handler.addDelegate(DeserializationException.class, new CommonContainerStoppingErrorHandler());
    return handler;
  }
}
