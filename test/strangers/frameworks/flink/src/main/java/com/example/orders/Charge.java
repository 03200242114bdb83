package com.example.orders;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Collections;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.functions.async.RichAsyncFunction;

/** Charges orders, and tries again what may succeed then. */
final class Charge {
  private static final int MAX_ATTEMPTS = 3;
  private static final Duration BACKOFF = Duration.ofMillis(100);

  private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  private final String url = System.getenv("DOWNSTREAM_URL") + "/v1/attempt";

  private Order charge(Order order) throws InterruptedException {
    for (int attempt = 1; ; attempt++) {
      int status = 0;
      try {
        HttpResponse<String> answer = http.send(request(order), HttpResponse.BodyHandlers.ofString());
        status = answer.statusCode();
        order.failure = status == 200 ? null : status + " " + answer.body();
      } catch (IOException e) {
        order.failure = e.toString();
      }
      if (order.failure == null || status == 400 || status == 422 || attempt == MAX_ATTEMPTS) {
        return order;
      }
      Thread.sleep(BACKOFF.multipliedBy(1L << (attempt - 1)).toMillis());
    }
  }

  private HttpRequest request(Order order) {
    return HttpRequest.newBuilder(URI.create(url)).timeout(Duration.ofSeconds(1))
        .header("X-Kafka-Topic", order.topic)
        .header("X-Kafka-Partition", Integer.toString(order.partition))
        .header("X-Kafka-Offset", Long.toString(order.offset))
        .POST(HttpRequest.BodyPublishers.ofByteArray(order.value == null ? new byte[0] : order.value)).build();
  }

  /** Charges one order after the other. */
  static final class Map extends RichMapFunction<Order, Order> {
    private transient Charge charge;

    @Override
    public void open(OpenContext context) {
      charge = new Charge();
    }

    @Override
    public Order map(Order order) throws InterruptedException {
      return charge.charge(order);
    }
  }

  /** Charges orders in other threads. */
  static final class Async extends RichAsyncFunction<Order, Order> {
    private transient Charge charge;

    @Override
    public void open(OpenContext context) {
      charge = new Charge();
    }

    @Override
    public void asyncInvoke(Order order, ResultFuture<Order> result) {
      CompletableFuture.runAsync(() -> {
        try {
          result.complete(Collections.singleton(charge.charge(order)));
        } catch (InterruptedException e) {
          result.completeExceptionally(e);
        }
      });
    }
  }
}
