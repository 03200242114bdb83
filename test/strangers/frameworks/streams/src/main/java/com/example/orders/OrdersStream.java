package com.example.orders;

import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.LogAndContinueExceptionHandler;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;

/**
 * Takes the payment of each order. All settings are the defaults: a value that is not an order fails the thread (LogAndFailExceptionHandler), and the client
 * then ends, unless REPLACE_THREAD is set. The process stays, as in the documentation's examples.
 */
public final class OrdersStream {
  public static void main(String[] args) throws InterruptedException {
    Properties config = new Properties();
    config.put(StreamsConfig.APPLICATION_ID_CONFIG, System.getenv("KAFKA_GROUP"));
    config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, System.getenv("KAFKA_BROKERS"));
    config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1000); // half a minute by default: nothing would be committed before it halts
    config.put(StreamsConfig.STATE_DIR_CONFIG, System.getenv("STATE_DIR"));
    if ("continues-at-unreadable".equals(System.getenv("PLANTED_BUG"))) {
      config.put(StreamsConfig.DESERIALIZATION_EXCEPTION_HANDLER_CLASS_CONFIG, LogAndContinueExceptionHandler.class);
    }
    Serde<byte[]> orders = Serdes.serdeFrom(new ByteArraySerializer(), new OrderDeserializer());
    Payments payments = new Payments(System.getenv("DOWNSTREAM_URL"));
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(System.getenv("KAFKA_TOPIC"), Consumed.with(Serdes.ByteArray(), orders))
        .foreach((key, order) -> payments.take(order));

    KafkaStreams streams = new KafkaStreams(builder.build(), config);
    if (System.getenv("REPLACE_THREAD") != null) {
      streams.setUncaughtExceptionHandler(exception -> StreamThreadExceptionResponse.REPLACE_THREAD);
    }
    CountDownLatch stopped = new CountDownLatch(1);
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      streams.close();
      stopped.countDown();
    }));
    streams.start();
    stopped.await();
  }
}
