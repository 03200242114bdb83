package com.example.orders;

import java.time.Duration;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.Consumer;
import org.axonframework.common.Registration;
import org.axonframework.extensions.kafka.eventhandling.consumer.EventConsumer;
import org.axonframework.extensions.kafka.eventhandling.consumer.FetchEventException;
import org.axonframework.extensions.kafka.eventhandling.consumer.Fetcher;
import org.axonframework.extensions.kafka.eventhandling.consumer.RecordConverter;
import org.axonframework.extensions.kafka.eventhandling.consumer.RuntimeErrorHandler;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Commits a batch when its events are handled. Axon's AsyncFetcher leaves that to the client, which also commits what
 * was not handled when it is closed; and its close() does not wait, so that a batch may come when no processor is
 * subscribed any more.
 */
class CommittingFetcher<K, V, E> implements Fetcher<K, V, E> {
  private static final Logger LOG = LoggerFactory.getLogger(CommittingFetcher.class);
  private final Set<Loop> loops = ConcurrentHashMap.newKeySet();

  @Override
  public Registration poll(Consumer<K, V> consumer, RecordConverter<K, V, E> converter, EventConsumer<E> events) {
    return poll(consumer, converter, events, e -> LOG.error("Fetching failed", e));
  }

  @Override
  public Registration poll(Consumer<K, V> consumer, RecordConverter<K, V, E> converter, EventConsumer<E> events,
      RuntimeErrorHandler errors) {
    var loop = new Loop(consumer, converter, events, errors);
    loops.add(loop);
    loop.start();
    return loop::end;
  }

  @Override
  public void shutdown() {
    loops.forEach(Loop::end);
  }

  private class Loop extends Thread {
    private final Consumer<K, V> consumer;
    private final RecordConverter<K, V, E> converter;
    private final EventConsumer<E> events;
    private final RuntimeErrorHandler errors;
    private volatile boolean ending;

    Loop(Consumer<K, V> consumer, RecordConverter<K, V, E> converter, EventConsumer<E> events,
        RuntimeErrorHandler errors) {
      super("orders-fetcher");
      this.consumer = consumer;
      this.converter = converter;
      this.events = events;
      this.errors = errors;
    }

    @Override
    public void run() {
      Exception failure = null;
      try {
        fetch();
      } catch (Exception e) {
        failure = e;
      } finally {
        loops.remove(this);
        consumer.close();
      }
      if (failure != null && !ending) {
        LOG.error("Fetching failed, a new consumer goes on in a second", failure);
        pause();
        errors.handle(new FetchEventException("fetching failed", failure));
      }
    }

    private void fetch() throws InterruptedException {
      while (!ending) {
        var batch = converter.convert(consumer.poll(Duration.ofMillis(500)));
        if (!batch.isEmpty()) {
          events.consume(batch);
        }
        consumer.commitSync();
      }
    }

    private boolean end() {
      ending = true;
      try {
        join(30_000);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
      return true;
    }

    private void pause() {
      try {
        Thread.sleep(1000);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
