package com.example.orders;

import java.time.Duration;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.http.client.JdkClientHttpRequestFactory;
import org.springframework.messaging.Message;
import org.springframework.stereotype.Service;
import org.springframework.web.client.RestClient;

/** Takes the payment of an order. Every answer but 2xx is an exception, as RestClient has it. */
@Service
public class Payments {
  private final RestClient client;

  Payments(RestClient.Builder builder, @Value("${orders.payments}") String url) {
    var factory = new JdkClientHttpRequestFactory();
    factory.setReadTimeout(Duration.ofSeconds(1));
    client = builder.baseUrl(url).requestFactory(factory).build();
  }

  /** The payload of a record without a value is KafkaNull. */
  public void take(Message<?> order) {
    var body = order.getPayload() instanceof byte[] value ? value : new byte[0];
    client.post().uri("/v1/attempt").body(body).retrieve().toBodilessEntity();
  }
}
