package com.example.claims;

import com.example.claims.ClaimReader.UnreadableException;
import com.example.claims.RiskService.RefusedException;
import com.example.claims.SchemaRegistry.UnavailableException;
import org.apache.kafka.common.TopicPartition;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.dao.DataIntegrityViolationException;
import org.springframework.kafka.core.KafkaOperations;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.util.backoff.ExponentialBackOff;
import org.springframework.util.backoff.FixedBackOff;

@Configuration
class KafkaConfiguration {
  static final String DEAD_LETTERS = "claims.dlt";
  private static final int ANY_PARTITION = -1;

  /** Tries a claim four times in all, and then writes it to the dead-letter topic. */
  @Bean
  DefaultErrorHandler errorHandler(KafkaOperations<byte[], byte[]> kafka) {
    var recoverer = new DeadLetterPublishingRecoverer(kafka,
        (record, exception) -> new TopicPartition(DEAD_LETTERS, ANY_PARTITION));
    var backOff = new ExponentialBackOff(100, 2);
    backOff.setMaxAttempts(3);
    var handler = new DefaultErrorHandler(recoverer, backOff);
    handler.addNotRetryableExceptions(UnreadableException.class, RefusedException.class,
        DataIntegrityViolationException.class);
    // As long as the registry is away, nothing is known of the claim.
    handler.setBackOffFunction((record, exception) -> exception instanceof UnavailableException
        ? new FixedBackOff(500, FixedBackOff.UNLIMITED_ATTEMPTS) : null);
    return handler;
  }
}
