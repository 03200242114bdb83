package com.example.orders;

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/** An order as it came, and why it was not charged. */
public final class Order {
  public String topic;
  public int partition;
  public long offset;
  public byte[] key;
  public byte[] value;
  public String[] names;
  public byte[][] headers;
  /** Null while it may still be charged. */
  public String failure;

  /** For Flink. */
  public Order() {}

  Order(ConsumerRecord<byte[], byte[]> record) {
    topic = record.topic();
    partition = record.partition();
    offset = record.offset();
    key = record.key();
    value = record.value();
    Header[] all = record.headers().toArray();
    names = new String[all.length];
    headers = new byte[all.length][];
    for (int i = 0; i < all.length; i++) {
      names[i] = all[i].key();
      headers[i] = all[i].value();
    }
  }

  ProducerRecord<byte[], byte[]> deadLetter(String to) {
    List<Header> all = new ArrayList<>();
    for (int i = 0; i < names.length; i++) {
      all.add(new RecordHeader(names[i], headers[i]));
    }
    all.add(new RecordHeader("original-topic", topic.getBytes()));
    all.add(new RecordHeader("original-partition", Integer.toString(partition).getBytes()));
    all.add(new RecordHeader("original-offset", Long.toString(offset).getBytes()));
    all.add(new RecordHeader("failure", failure.getBytes()));
    return new ProducerRecord<>(to, null, key, value, all);
  }
}
