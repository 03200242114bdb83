package com.example.receipts;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.junit.jupiter.api.Test;

class TransformerTest {
  private static final TopicPartition PARTITION = new TopicPartition(Transformer.CHECKOUTS, 0);
  private static final String BAD = "bad00000-5b3d-4e6f-8a90-b1c2d3e4f506";
  private static final String GOOD = "7a1f0c2e-5b3d-4e6f-8a90-b1c2d3e4f506";

  static byte[] checkout(String id) {
    return ("{\"checkoutId\":\"" + id + "\",\"store\":\"B\",\"items\":[{\"sku\":\"4006381333931\",\"quantity\":2}]}")
        .getBytes(StandardCharsets.UTF_8);
  }

  /** Has a broker refuse the receipt of one checkout. */
  private static final class Refusing extends MockProducer<byte[], byte[]> {
    Refusing() {
      super(false, null, new ByteArraySerializer(), new ByteArraySerializer());
    }

    @Override
    public synchronized Future<RecordMetadata> send(ProducerRecord<byte[], byte[]> record, Callback callback) {
      Future<RecordMetadata> sent = super.send(record, callback);
      String text = new String(record.value(), StandardCharsets.UTF_8);
      if (record.topic().equals(Transformer.RECEIPTS) && text.contains(BAD)) {
        errorNext(new InvalidRecordException("refused"));
      } else {
        completeNext();
      }
      return sent;
    }
  }

  private static Refusing transform(byte[]... values) {
    MockConsumer<byte[], byte[]> consumer = new MockConsumer<>("earliest");
    Refusing producer = new Refusing();
    Transformer transformer = new Transformer(consumer, producer);
    consumer.schedulePollTask(() -> {
      consumer.rebalance(List.of(PARTITION));
      consumer.updateBeginningOffsets(Map.of(PARTITION, 0L));
      for (int i = 0; i < values.length; i++) {
        consumer.addRecord(new ConsumerRecord<>(Transformer.CHECKOUTS, 0, i, null, values[i]));
      }
    });
    consumer.schedulePollTask(transformer::stop);
    transformer.run();
    return producer;
  }

  private static List<String> topics(Refusing producer) {
    return producer.history().stream().map(ProducerRecord::topic).toList();
  }

  @Test
  void whatIsPolledTogetherIsOneTransaction() {
    Refusing producer = transform(checkout(GOOD), "no checkout".getBytes(StandardCharsets.UTF_8), checkout(GOOD));
    assertEquals(List.of(Transformer.RECEIPTS, Transformer.REJECTED, Transformer.RECEIPTS), topics(producer));
    assertEquals(1, producer.commitCount());
    assertEquals(3, offset(producer, 0));
  }

  @Test
  void aRefusedTransactionIsTakenApart() {
    Refusing producer = transform(checkout(GOOD), checkout(BAD), checkout(GOOD));
    assertEquals(List.of(Transformer.RECEIPTS, Transformer.REJECTED, Transformer.RECEIPTS), topics(producer));
    assertEquals(3, producer.commitCount());
    assertEquals(2, offset(producer, 1));
    ProducerRecord<byte[], byte[]> letter = producer.history().get(1);
    assertEquals("1", header(letter, "rejected-attempts"));
    assertEquals("1", header(letter, "rejected-offset"));
    assertTrue(new String(letter.value(), StandardCharsets.UTF_8).contains(BAD));
  }

  private static String header(ProducerRecord<byte[], byte[]> record, String name) {
    return new String(record.headers().lastHeader(name).value(), StandardCharsets.UTF_8);
  }

  private static long offset(Refusing producer, int transaction) {
    return producer.consumerGroupOffsetsHistory().get(transaction).values().iterator().next().get(PARTITION).offset();
  }
}
