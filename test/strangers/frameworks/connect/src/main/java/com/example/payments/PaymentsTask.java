package com.example.payments;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.sink.ErrantRecordReporter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/**
 * Calls the payment service for each record. After a failure that may pass, it asks Connect for the batch
 * once more. What is refused, or fails too often, is reported, and Connect writes it to the dead-letter queue.
 */
public final class PaymentsTask extends SinkTask {
  private static final String PLANTED_BUG = System.getenv().getOrDefault("PLANTED_BUG", "");
  private static final Set<Integer> REFUSED = Set.of(400, 404, 422);

  private final HttpClient client = HttpClient.newHttpClient();
  /** The first offset of each partition that is not done, as a batch that is put again begins with records that are. */
  private final Map<TopicPartition, Long> next = new HashMap<>();
  private final Map<SinkRecord, Integer> failures = new HashMap<>();
  /** When the next call may be made, by System.nanoTime. */
  private long notBefore = System.nanoTime();

  private URI url;
  private int maxRetries;
  private long backoff;
  private ErrantRecordReporter reporter;

  @Override
  public void start(Map<String, String> properties) {
    var config = new AbstractConfig(PaymentsSink.CONFIG, properties);
    url = URI.create(config.getString(PaymentsSink.URL));
    maxRetries = config.getInt(PaymentsSink.MAX_RETRIES);
    backoff = config.getLong(PaymentsSink.RETRY_BACKOFF);
    reporter = context.errantRecordReporter();
  }

  @Override
  public void put(Collection<SinkRecord> records) {
    waitOut();
    for (SinkRecord record : records) {
      var partition = partitionOf(record);
      if (record.originalKafkaOffset() < next.getOrDefault(partition, 0L) && !PLANTED_BUG.equals("batch-again")) {
        continue;
      }
      take(record);
      next.put(partition, record.originalKafkaOffset() + 1);
    }
    failures.clear();
  }

  /** Connect puts a batch again earlier than it was asked to if a commit is due. */
  private void waitOut() {
    try {
      TimeUnit.NANOSECONDS.sleep(notBefore - System.nanoTime());
    } catch (InterruptedException e) {
      throw new ConnectException(e);
    }
  }

  private static TopicPartition partitionOf(SinkRecord record) {
    return new TopicPartition(record.originalTopic(), record.originalKafkaPartition());
  }

  private void take(SinkRecord record) {
    String failure;
    boolean refused = false;
    try {
      HttpResponse<String> response = client.send(request(record), HttpResponse.BodyHandlers.ofString());
      if (response.statusCode() == 200) {
        return;
      }
      failure = "HTTP " + response.statusCode() + ": " + response.body();
      refused = REFUSED.contains(response.statusCode());
    } catch (IOException e) {
      failure = e.toString();
    } catch (InterruptedException e) {
      throw new ConnectException(e);
    }
    if (!refused && failures.merge(record, 1, Integer::sum) <= maxRetries) {
      context.timeout(backoff);
      notBefore = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(backoff);
      throw new RetriableException(failure);
    }
    report(record, new ConnectException(failure));
  }

  private HttpRequest request(SinkRecord record) {
    byte[] body = record.value() == null ? new byte[0] : (byte[]) record.value();
    return HttpRequest.newBuilder(url).timeout(Duration.ofSeconds(1))
        .POST(HttpRequest.BodyPublishers.ofByteArray(body)).build();
  }

  /**
   * Waits until the record is in the dead-letter queue. Connect awaits what was reported before it commits, too, but if
   * that fails, it ends the task with a commit behind the record.
   */
  private void report(SinkRecord record, ConnectException failure) {
    var reported = reporter.report(record, failure);
    if (PLANTED_BUG.equals("report-not-awaited")) {
      return;
    }
    try {
      reported.get();
    } catch (ExecutionException e) {
      throw new ConnectException("the dead letter of " + record + " was not written", e.getCause());
    } catch (InterruptedException e) {
      throw new ConnectException(e);
    }
  }

  /**
   * Returns the offsets that put has come to. Connect's own may be behind records that it took out of a failed batch when
   * it lost their partition.
   */
  @Override
  public Map<TopicPartition, OffsetAndMetadata> preCommit(Map<TopicPartition, OffsetAndMetadata> current) {
    var done = new HashMap<TopicPartition, OffsetAndMetadata>();
    for (TopicPartition partition : current.keySet()) {
      if (next.containsKey(partition)) {
        done.put(partition, new OffsetAndMetadata(next.get(partition)));
      }
    }
    return done;
  }

  @Override
  public void close(Collection<TopicPartition> partitions) {
    next.keySet().removeAll(partitions);
    failures.keySet().removeIf(record -> partitions.contains(partitionOf(record)));
  }

  @Override
  public void stop() {}

  @Override
  public String version() {
    return "1.0";
  }
}
