package com.example.orders;

import acme.v1.PaymentsGrpc;
import com.google.protobuf.StringValue;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.TlsChannelCredentials;
import java.io.File;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Charges orders. The channel repeats a call that was answered UNAVAILABLE, by its service config. */
final class Payments implements AutoCloseable {
  private static final Map<String, ?> REPEATS = Map.of("methodConfig", List.of(Map.of(
      "name", List.of(Map.of("service", "acme.v1.Payments")),
      "retryPolicy", Map.of(
          "maxAttempts", 3.0, "initialBackoff", "0.01s", "maxBackoff", "0.02s", "backoffMultiplier", 2.0,
          "retryableStatusCodes", List.of("UNAVAILABLE")))));
  /** A mistake that tests plant, to see it named; none otherwise. */
  private static final String PLANTED_BUG = System.getenv().getOrDefault("PLANTED_BUG", "");

  private final ManagedChannel channel;
  private final PaymentsGrpc.PaymentsBlockingStub stub;

  Payments(String target, File authority) throws IOException {
    channel = Grpc.newChannelBuilder(target, TlsChannelCredentials.newBuilder().trustManager(authority).build())
        .defaultServiceConfig(REPEATS).build();
    PaymentsGrpc.PaymentsBlockingStub blocking = PaymentsGrpc.newBlockingStub(channel);
    // A deadline is a point in time: that of a stub is over a second after the stub was made.
    stub = PLANTED_BUG.equals("deadline-of-the-stub") ? blocking.withDeadlineAfter(1, TimeUnit.SECONDS) : blocking;
  }

  /** Throws StatusRuntimeException if the order is not charged. */
  void charge(String order) {
    var each = PLANTED_BUG.equals("deadline-of-the-stub") ? stub : stub.withDeadlineAfter(1, TimeUnit.SECONDS);
    each.charge(StringValue.of(order));
  }

  @Override
  public void close() {
    channel.shutdown();
  }
}
