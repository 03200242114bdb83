package com.example.orders;

import io.micronaut.core.annotation.Nullable;
import io.micronaut.http.annotation.Body;
import io.micronaut.http.annotation.Header;
import io.micronaut.http.annotation.Post;
import io.micronaut.http.client.annotation.Client;

/** The payment service. */
@Client("${downstream.url}")
public interface Payments {
  @Post("/v1/attempt")
  void charge(@Header("X-Kafka-Topic") String topic, @Header("X-Kafka-Partition") int partition,
      @Header("X-Kafka-Offset") long offset, @Body @Nullable byte[] order);
}
