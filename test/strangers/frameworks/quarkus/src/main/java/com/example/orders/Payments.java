package com.example.orders;

import io.smallrye.reactive.messaging.annotations.Blocking;
import io.smallrye.reactive.messaging.kafka.Record;
import jakarta.enterprise.context.ApplicationScoped;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import org.eclipse.microprofile.config.inject.ConfigProperty;
import org.eclipse.microprofile.faulttolerance.Retry;
import org.eclipse.microprofile.reactive.messaging.Incoming;

/** Takes the payment of each order. What fails four times is dead-lettered by the channel's failure strategy. */
@ApplicationScoped
public class Payments {
  private static final String PLANTED_BUG = System.getenv().getOrDefault("PLANTED_BUG", "");

  private final HttpClient client = HttpClient.newHttpClient();

  @ConfigProperty(name = "downstream.url")
  String url;

  @Incoming("orders")
  @Blocking
  @Retry(delay = 100, jitter = 0, maxRetries = 3)
  public void take(Record<byte[], byte[]> order) throws IOException, InterruptedException {
    byte[] body = order.value() == null ? new byte[0] : order.value();
    var request = HttpRequest.newBuilder(URI.create(url + "/v1/attempt")).timeout(Duration.ofSeconds(1))
        .POST(HttpRequest.BodyPublishers.ofByteArray(body)).build();
    if (PLANTED_BUG.equals("not-awaited")) {
      client.sendAsync(request, HttpResponse.BodyHandlers.discarding());
      return;
    }
    HttpResponse<String> response = client.send(request, HttpResponse.BodyHandlers.ofString());
    if (response.statusCode() != 200) {
      throw new IOException("HTTP " + response.statusCode() + ": " + response.body());
    }
  }
}
