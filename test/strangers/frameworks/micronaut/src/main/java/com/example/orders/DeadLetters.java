package com.example.orders;

import io.micronaut.configuration.kafka.annotation.KafkaClient;
import io.micronaut.configuration.kafka.annotation.KafkaKey;
import io.micronaut.configuration.kafka.annotation.Topic;
import io.micronaut.core.annotation.Nullable;
import io.micronaut.messaging.annotation.MessageBody;
import org.apache.kafka.common.header.Headers;

/** Writes the dead letters, and returns when they are acknowledged. */
@KafkaClient
public interface DeadLetters {
  @Topic("${orders.dead-letters}")
  void send(@KafkaKey @Nullable byte[] key, @MessageBody @Nullable byte[] value, Headers headers);
}
