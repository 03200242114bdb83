package com.example.orders;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.stereotype.Service;

/** The payment service, which is called up to three times for an order. */
@Service
public class Payments {
  private static final int ATTEMPTS = 3;
  private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  private final String url;

  Payments(@Value("${orders.payments}") String url) {
    this.url = url;
  }

  public void charge(String order) throws IOException {
    for (int attempt = 1;; attempt++) {
      try {
        call(order);
        return;
      } catch (IOException e) {
        if (attempt == ATTEMPTS) {
          throw e;
        }
        pause(100L << attempt - 1);
      }
    }
  }

  private void call(String order) throws IOException {
    var request = HttpRequest.newBuilder(URI.create(url + "/payments/" + order)).timeout(Duration.ofSeconds(1))
        .POST(HttpRequest.BodyPublishers.noBody()).build();
    int status;
    try {
      status = client.send(request, BodyHandlers.discarding()).statusCode();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted", e);
    }
    if (status == 400 || status == 422) {
      throw new IllegalArgumentException("refused: " + status);
    }
    if (status != 200) {
      throw new IOException("not paid: " + status);
    }
  }

  static void pause(long millis) {
    try {
      Thread.sleep(millis);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted", e);
    }
  }
}
