package com.example.orders;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import org.axonframework.eventhandling.EventHandler;

/** Takes the payment of each order, and tries it again. What it throws goes to {@link DeadLetters}. */
public class OrdersHandler {
  private static final int ATTEMPTS = 3;
  private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  private final ObjectMapper json = new ObjectMapper();
  private final URI payments;

  OrdersHandler(String payments) {
    this.payments = URI.create(payments + "/payments");
  }

  @EventHandler
  void on(OrderPlaced order) throws Exception {
    for (int attempt = 1;; attempt++) {
      try {
        charge(order);
        return;
      } catch (IOException e) {
        if (attempt == ATTEMPTS) {
          throw e;
        }
        Thread.sleep(100L << attempt - 1);
      }
    }
  }

  private void charge(OrderPlaced order) throws IOException, InterruptedException {
    var request = HttpRequest.newBuilder(payments).timeout(Duration.ofSeconds(1))
        .header("Content-Type", "application/json")
        .POST(HttpRequest.BodyPublishers.ofByteArray(json.writeValueAsBytes(order))).build();
    int status = client.send(request, BodyHandlers.discarding()).statusCode();
    if (status == 400 || status == 422) {
      throw new IllegalArgumentException("refused: " + status);
    }
    if (status != 200) {
      throw new IOException("not paid: " + status);
    }
  }
}
