package com.example.orders;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Counts the messages that were fetched and are not handled yet: Eventuate hands them to threads of its own. */
class HandlersInHand {
  private final CountDownLatch closed = new CountDownLatch(1);
  private int count;

  synchronized void fetched(int messages) {
    count += messages;
  }

  synchronized void handled() {
    count--;
    notifyAll();
  }

  /** Waits until all are handled, or until none was for so long: a handler that fails ends Eventuate's thread. */
  synchronized boolean await(Duration quiet) {
    var left = count;
    var end = System.nanoTime() + quiet.toNanos();
    while (count > 0) {
      if (count < left) {
        left = count;
        end = System.nanoTime() + quiet.toNanos();
      }
      var millis = (end - System.nanoTime()) / 1_000_000;
      if (millis <= 0) {
        return false;
      }
      try {
        wait(millis);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        return false;
      }
    }
    return true;
  }

  void closed() {
    closed.countDown();
  }

  /** Waits until the consumer is closed. Eventuate only tells it to stop. */
  void awaitClosed() throws InterruptedException {
    closed.await(35, TimeUnit.SECONDS);
  }
}
