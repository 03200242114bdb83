package com.example.orders;

import io.eventuate.messaging.kafka.basic.consumer.KafkaMessageConsumer;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A consumer that makes up for what Eventuate's does not know of rebalances: it commits and pauses partitions that it
 * has lost, and does not wait for the messages in hand.
 */
class WaitingConsumer implements KafkaMessageConsumer, ConsumerRebalanceListener {
  private static final Logger LOG = LoggerFactory.getLogger(WaitingConsumer.class);
  private static final Duration QUIET = Duration.ofSeconds(8);

  private final KafkaConsumer<String, byte[]> delegate;
  private final HandlersInHand inHand;
  /** Behind the last message that was fetched, and the last offset that was committed, of partitions that it has. */
  private final Map<TopicPartition, OffsetAndMetadata> fetched = new HashMap<>();
  private final Map<TopicPartition, Long> committed = new HashMap<>();

  WaitingConsumer(Properties properties, HandlersInHand inHand) {
    this.delegate = new KafkaConsumer<>(properties);
    this.inHand = inHand;
  }

  @Override
  public ConsumerRecords<String, byte[]> poll(Duration limit) {
    var records = delegate.poll(limit);
    inHand.fetched(records.count());
    for (var partition : records.partitions()) {
      var batch = records.records(partition);
      fetched.put(partition, new OffsetAndMetadata(batch.get(batch.size() - 1).offset() + 1));
    }
    return records;
  }

  @Override
  public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
    commitFetched(partitions);
    partitions.forEach(this::forget);
  }

  @Override
  public void onPartitionsLost(Collection<TopicPartition> partitions) {
    inHand.await(QUIET);
    partitions.forEach(this::forget);
  }

  @Override
  public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
    for (var partition : partitions) {
      committed.put(partition, delegate.position(partition));
    }
  }

  private void forget(TopicPartition partition) {
    fetched.remove(partition);
    committed.remove(partition);
  }

  private void commitFetched(Collection<TopicPartition> partitions) {
    if (!inHand.await(QUIET)) {
      return;
    }
    var offsets = new HashMap<>(fetched);
    offsets.keySet().retainAll(partitions);
    try {
      commitOffsets(offsets);
    } catch (RuntimeException e) {
      LOG.error("Cannot commit offsets", e);
    }
  }

  /** Leaves out what a rebalance has taken away, and what it brought back since. */
  @Override
  public void commitOffsets(Map<TopicPartition, OffsetAndMetadata> offsets) {
    var mine = offsets.entrySet().stream()
        .filter(e -> committed.containsKey(e.getKey()) && e.getValue().offset() > committed.get(e.getKey()))
        .collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue));
    if (!mine.isEmpty()) {
      delegate.commitSync(mine);
      mine.forEach((partition, offset) -> committed.put(partition, offset.offset()));
    }
  }

  @Override
  public void pause(Set<TopicPartition> partitions) {
    delegate.pause(assigned(partitions));
  }

  @Override
  public void resume(Set<TopicPartition> partitions) {
    delegate.resume(assigned(partitions));
  }

  private Set<TopicPartition> assigned(Set<TopicPartition> partitions) {
    return partitions.stream().filter(delegate.assignment()::contains).collect(Collectors.toSet());
  }

  /** Called at an orderly end. */
  @Override
  public void close() {
    commitFetched(Set.copyOf(fetched.keySet()));
    delegate.close();
    inHand.closed();
  }

  /** Called when Eventuate's consumer has failed. It does not begin again, so the process ends. */
  @Override
  public void close(Duration limit) {
    LOG.error("The consumer has failed");
    delegate.close(limit);
    Runtime.getRuntime().halt(1);
  }

  @Override
  public void subscribe(List<String> topics) {
    delegate.subscribe(topics, this);
  }

  @Override
  public void subscribe(Collection<String> topics, ConsumerRebalanceListener callback) {
    delegate.subscribe(topics, callback);
  }

  @Override
  public void assign(Collection<TopicPartition> partitions) {
    delegate.assign(partitions);
  }

  @Override
  public void seekToEnd(Collection<TopicPartition> partitions) {
    delegate.seekToEnd(partitions);
  }

  @Override
  public long position(TopicPartition partition) {
    return delegate.position(partition);
  }

  @Override
  public void seek(TopicPartition partition, long position) {
    delegate.seek(partition, position);
  }

  @Override
  public List<PartitionInfo> partitionsFor(String topic) {
    return delegate.partitionsFor(topic);
  }
}
