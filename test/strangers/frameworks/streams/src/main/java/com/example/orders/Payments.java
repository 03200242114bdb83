package com.example.orders;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import org.apache.kafka.common.errors.InterruptException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Takes payments. */
final class Payments {
  private static final Logger log = LoggerFactory.getLogger(Payments.class);
  private static final int MAX_ATTEMPTS = 3;
  private static final long FIRST_BACKOFF_MS = 100;

  private final HttpClient http = HttpClient.newHttpClient();
  private final URI url;

  Payments(String url) {
    this.url = URI.create(url + "/v1/attempt");
  }

  /** Logs and gives up a payment that fails three times, or is refused: there is no dead-letter topic. */
  void take(byte[] order) {
    int status = charge(order);
    if (status != 200) {
      log.warn("Given up: status {}", status);
    }
  }

  /** Returns the status of the last attempt, or 0 if there was no answer. */
  int charge(byte[] order) {
    int status = post(order);
    for (int retry = 0; retry < MAX_ATTEMPTS - 1 && status != 200 && status != 400 && status != 422; retry++) {
      log.warn("Attempt {}: status {}", retry + 1, status);
      sleep(FIRST_BACKOFF_MS << retry);
      status = post(order);
    }
    return status;
  }

  /** Returns the status, or 0 if there was no answer. */
  private int post(byte[] order) {
    HttpRequest request = HttpRequest.newBuilder(url).timeout(Duration.ofSeconds(1))
        .POST(BodyPublishers.ofByteArray(order == null ? new byte[0] : order)).build();
    try {
      return http.send(request, BodyHandlers.discarding()).statusCode();
    } catch (IOException e) {
      return 0;
    } catch (InterruptedException e) {
      throw new InterruptException(e);
    }
  }

  private static void sleep(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException e) {
      throw new InterruptException(e);
    }
  }
}
