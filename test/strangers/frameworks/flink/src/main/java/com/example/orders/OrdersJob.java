package com.example.orders;

import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Charges orders, and writes those that could not be charged to the dead-letter topic. */
public final class OrdersJob {
  /** A mistake that tests plant, to see it named; none otherwise. */
  private static final String PLANTED_BUG = System.getenv().getOrDefault("PLANTED_BUG", "");

  private OrdersJob() {}

  public static void main(String[] args) throws Exception {
    Configuration configuration = new Configuration();
    configuration.set(RestartStrategyOptions.RESTART_STRATEGY, System.getenv().getOrDefault("RESTART_STRATEGY", "none"));
    StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
    env.setParallelism(2);
    env.enableCheckpointing(1000);
    DataStream<Order> orders = env.fromSource(source(), WatermarkStrategy.noWatermarks(), "orders");
    charged(orders).filter(order -> order.failure != null).sinkTo(deadLetters());
    env.execute("orders");
  }

  /** Async I/O keeps the orders in hand in its state, and a checkpoint commits their offsets all the same. */
  private static DataStream<Order> charged(DataStream<Order> orders) {
    return PLANTED_BUG.equals("async-io")
        ? AsyncDataStream.orderedWait(orders, new Charge.Async(), 1, TimeUnit.MINUTES)
        : orders.map(new Charge.Map());
  }

  private static KafkaSource<Order> source() {
    return KafkaSource.<Order>builder()
        .setBootstrapServers(System.getenv("KAFKA_BROKERS"))
        .setTopics(System.getenv("KAFKA_TOPIC"))
        .setGroupId(System.getenv("KAFKA_GROUP"))
        .setStartingOffsets(OffsetsInitializer.committedOffsets(OffsetResetStrategy.EARLIEST))
        .setDeserializer(new Orders())
        .build();
  }

  private static KafkaSink<Order> deadLetters() {
    return KafkaSink.<Order>builder()
        .setBootstrapServers(System.getenv("KAFKA_BROKERS"))
        .setRecordSerializer(new Letters(System.getenv("KAFKA_DLQ_TOPIC")))
        .setDeliveryGuarantee(
            PLANTED_BUG.equals("no-guarantee") ? DeliveryGuarantee.NONE : DeliveryGuarantee.AT_LEAST_ONCE)
        .setProperty("max.request.size", "1100000") // a dead letter is a little larger than its record
        .build();
  }

  private static final class Orders implements KafkaRecordDeserializationSchema<Order> {
    @Override
    public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<Order> out) {
      out.collect(new Order(record));
    }

    @Override
    public TypeInformation<Order> getProducedType() {
      return TypeInformation.of(Order.class);
    }
  }

  private record Letters(String topic) implements KafkaRecordSerializationSchema<Order> {
    @Override
    public ProducerRecord<byte[], byte[]> serialize(Order order, KafkaSinkContext context, Long timestamp) {
      return order.deadLetter(topic);
    }
  }
}
