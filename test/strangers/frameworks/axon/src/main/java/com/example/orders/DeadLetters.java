package com.example.orders;

import java.util.Map;
import org.axonframework.eventhandling.EventMessage;
import org.axonframework.eventhandling.EventMessageHandler;
import org.axonframework.eventhandling.ListenerInvocationErrorHandler;
import org.axonframework.extensions.kafka.eventhandling.producer.KafkaPublisher;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Publishes the events that could not be handled. Whatever it throws would end the consumer, which commits the whole
 * batch when it closes, so it tries until the broker has acknowledged the event.
 */
public class DeadLetters implements ListenerInvocationErrorHandler {
  private static final Logger LOG = LoggerFactory.getLogger(DeadLetters.class);
  private final KafkaPublisher<?, ?> publisher;

  DeadLetters(KafkaPublisher<?, ?> publisher) {
    this.publisher = publisher;
  }

  @Override
  public void onError(Exception failure, EventMessage<?> event, EventMessageHandler handler) throws Exception {
    var letter = event.andMetaData(Map.of("failure", String.valueOf(failure.getMessage())));
    while (true) {
      try {
        publisher.send(letter);
        return;
      } catch (RuntimeException e) {
        if (Orders.PLANTED_BUG.equals("error-propagated")) {
          throw e;
        }
        LOG.error("Dead letter of {} was not written", event.getIdentifier(), e);
        Thread.sleep(500);
      }
    }
  }
}
