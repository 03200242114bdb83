package com.example.receipts;

import com.example.receipts.Receipts.NoCheckoutException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes a receipt of each checkout. What is polled together becomes one transaction, of receipts, dead letters and
 * offsets. If a transaction is refused, nobody can tell because of which record, so each of them gets one of its own.
 */
final class Transformer {
  private static final Logger log = LoggerFactory.getLogger(Transformer.class);
  static final String CHECKOUTS = "checkouts";
  static final String RECEIPTS = "receipts";
  static final String REJECTED = "checkouts.rejected";
  static final int MAX_ATTEMPTS = 4;
  private static final long FIRST_BACKOFF_MS = 50;
  private static final long MAX_BACKOFF_MS = 400;
  private static final long REJECT_AGAIN_MS = 200;

  private final Consumer<byte[], byte[]> consumer;
  private final Producer<byte[], byte[]> producer;
  private final Receipts receipts = new Receipts();
  private final CountDownLatch stopping = new CountDownLatch(1);

  Transformer(Consumer<byte[], byte[]> consumer, Producer<byte[], byte[]> producer) {
    this.consumer = consumer;
    this.producer = producer;
  }

  /** Ends run soon. What is not committed then comes again elsewhere. */
  void stop() {
    stopping.countDown();
    consumer.wakeup();
  }

  /** Works until stop. An exception means that the producer or the consumer is of no use any more. */
  void run() {
    producer.initTransactions();
    consumer.subscribe(List.of(CHECKOUTS));
    try {
      while (stopping.getCount() > 0) {
        ConsumerRecords<byte[], byte[]> polled = consumer.poll(Duration.ofMillis(500));
        try {
          work(polled);
        } catch (NotCommittedException e) {
          log.error("{} records come again", polled.count(), e.getCause());
          backToCommitted();
        }
      }
    } catch (WakeupException e) {
      if (stopping.getCount() > 0) {
        throw e;
      }
    }
  }

  private void work(ConsumerRecords<byte[], byte[]> polled) {
    List<ConsumerRecord<byte[], byte[]>> all = new ArrayList<>();
    polled.forEach(all::add);
    if (all.size() > 1) {
      try {
        transact(all, all.stream().map(this::outcome).toList());
        return;
      } catch (RefusedException e) {
        log.info("{} records become transactions of their own: {}", all.size(), e.getMessage());
      }
    }
    for (ConsumerRecord<byte[], byte[]> record : all) {
      if (!alone(record)) {
        backToCommitted();
        return;
      }
    }
  }

  /** Works on one record. Returns false if the transformer is to stop before it is done. */
  private boolean alone(ConsumerRecord<byte[], byte[]> record) {
    ProducerRecord<byte[], byte[]> outcome = outcome(record);
    int attempts = 0;
    for (boolean rejected = outcome.topic().equals(REJECTED); ; ) {
      try {
        transact(List.of(record), List.of(outcome));
        return true;
      } catch (RefusedException e) {
        if (rejected) {
          log.error("The dead letter of {}-{} is not written", record.partition(), record.offset(), e);
          if (!waitFor(REJECT_AGAIN_MS)) {
            return false;
          }
          continue;
        }
        attempts++;
        if (attempts == MAX_ATTEMPTS || e.isFinal()) {
          rejected = true;
          outcome = deadLetter(record, attempts, e.getMessage());
        } else if (!waitFor(Math.min(FIRST_BACKOFF_MS << (attempts - 1), MAX_BACKOFF_MS))) {
          return false;
        }
      }
    }
  }

  private boolean waitFor(long millis) {
    try {
      return !stopping.await(millis, TimeUnit.MILLISECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  /** Returns what is to be written for a record: a receipt, or a dead letter. */
  private ProducerRecord<byte[], byte[]> outcome(ConsumerRecord<byte[], byte[]> record) {
    try {
      return new ProducerRecord<>(RECEIPTS, record.key(), receipts.of(record.value()));
    } catch (NoCheckoutException e) {
      return deadLetter(record, 0, e.getMessage());
    }
  }

  private static ProducerRecord<byte[], byte[]> deadLetter(ConsumerRecord<byte[], byte[]> record, int attempts,
      String reason) {
    Headers headers = new RecordHeaders(record.headers());
    Map.of("rejected-because", String.valueOf(reason), "rejected-attempts", String.valueOf(attempts),
        "rejected-topic", record.topic(), "rejected-partition", String.valueOf(record.partition()),
        "rejected-offset", String.valueOf(record.offset())).forEach((name, text) ->
            headers.remove(name).add(name, text.getBytes(StandardCharsets.UTF_8)));
    return new ProducerRecord<>(REJECTED, null, record.key(), record.value(), headers);
  }

  /**
   * Writes the outcomes of records, and their offsets, in one transaction. Either all of it is there, or nothing. What is
   * refused is told from what has nothing to do with the records, such as a rebalance.
   */
  private void transact(List<ConsumerRecord<byte[], byte[]>> records, List<ProducerRecord<byte[], byte[]>> outcomes)
      throws RefusedException {
    producer.beginTransaction();
    try {
      List<Future<RecordMetadata>> sent = new ArrayList<>();
      for (ProducerRecord<byte[], byte[]> outcome : outcomes) {
        sent.add(producer.send(outcome));
      }
      producer.flush();
      for (Future<RecordMetadata> one : sent) {
        one.get();
      }
      producer.sendOffsetsToTransaction(offsetsAfter(records), consumer.groupMetadata());
      commit();
    } catch (ExecutionException e) {
      producer.abortTransaction();
      throw new RefusedException(e.getCause());
    } catch (ProducerFencedException e) {
      throw e; // another instance has this transactional id
    } catch (KafkaException e) {
      producer.abortTransaction();
      throw new NotCommittedException(e);
    } catch (InterruptedException e) {
      throw new InterruptException(e);
    }
  }

  /** Commits. Whether a commit without an answer was carried out is known only when it is asked for again. */
  private void commit() {
    while (true) {
      try {
        producer.commitTransaction();
        return;
      } catch (TimeoutException e) {
        log.error("The transaction is not committed yet", e);
      }
    }
  }

  private static Map<TopicPartition, OffsetAndMetadata> offsetsAfter(List<ConsumerRecord<byte[], byte[]>> records) {
    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
    for (ConsumerRecord<byte[], byte[]> record : records) {
      offsets.put(new TopicPartition(record.topic(), record.partition()),
          new OffsetAndMetadata(record.offset() + 1, record.leaderEpoch(), ""));
    }
    return offsets;
  }

  /** Goes back to what is committed, for records that were polled and are not finished. */
  private void backToCommitted() {
    consumer.committed(consumer.assignment()).forEach((partition, committed) -> {
      if (committed == null) {
        consumer.seekToBeginning(List.of(partition));
      } else {
        consumer.seek(partition, committed);
      }
    });
  }

  /** A transaction is aborted, and what is committed counts. */
  private static final class NotCommittedException extends RuntimeException {
    NotCommittedException(KafkaException cause) {
      super(cause);
    }
  }

  /** What was to be written was refused, and the transaction is aborted. */
  private static final class RefusedException extends Exception {
    RefusedException(Throwable cause) {
      super(cause.getMessage(), cause);
    }

    /** Whether the record itself is refused, however often it is written. */
    boolean isFinal() {
      return getCause() instanceof InvalidRecordException || getCause() instanceof PolicyViolationException
          || getCause() instanceof RecordTooLargeException;
    }
  }
}
