package com.example.orders;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** The payments, which are tried three times. */
final class Payments {
  private static final int ATTEMPTS = 3;

  private final HttpClient http = HttpClient.newHttpClient();
  private final URI uri;

  Payments(String url) {
    uri = URI.create(url + "/v1/attempt");
  }

  /** Takes a payment, and returns why it failed for good, or null. */
  String take(ConsumerRecord<byte[], byte[]> order) throws InterruptedException {
    for (int attempt = 1; ; attempt++) {
      String reason;
      try {
        var answer = call(order);
        if (answer.statusCode() == 200) {
          return null;
        }
        reason = answer.statusCode() + " " + answer.body();
        if (answer.statusCode() == 400 || answer.statusCode() == 422) {
          return reason;
        }
      } catch (IOException e) {
        reason = e.toString();
      }
      if (attempt == ATTEMPTS) {
        return reason;
      }
      Thread.sleep(100L << (attempt - 1));
    }
  }

  private HttpResponse<String> call(ConsumerRecord<byte[], byte[]> order) throws IOException, InterruptedException {
    var body = order.value() == null ? new byte[0] : order.value();
    return http.send(HttpRequest.newBuilder(uri).timeout(Duration.ofSeconds(1))
        .header("X-Kafka-Topic", order.topic())
        .header("X-Kafka-Partition", String.valueOf(order.partition()))
        .header("X-Kafka-Offset", String.valueOf(order.offset()))
        .POST(HttpRequest.BodyPublishers.ofByteArray(body)).build(), HttpResponse.BodyHandlers.ofString());
  }
}
