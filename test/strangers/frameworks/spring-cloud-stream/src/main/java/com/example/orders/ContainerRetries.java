package com.example.orders;

import java.util.function.BiFunction;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.springframework.cloud.stream.binder.kafka.ListenerContainerWithDlqAndRetryCustomizer;
import org.springframework.context.annotation.Profile;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.AbstractMessageListenerContainer;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.stereotype.Component;
import org.springframework.util.backoff.BackOff;
import org.springframework.util.backoff.FixedBackOff;

/** Moves retries and dead letters from the binder to the listener container, as the binder's documentation shows. */
@Component
@Profile("container")
class ContainerRetries implements ListenerContainerWithDlqAndRetryCustomizer {
  private final KafkaTemplate<?, ?> template;

  ContainerRetries(KafkaTemplate<?, ?> template) {
    this.template = template;
  }

  @Override
  public void configure(AbstractMessageListenerContainer<?, ?> container, String destination, String group,
      BiFunction<ConsumerRecord<?, ?>, Exception, TopicPartition> dlq, BackOff backOff) {
    if (OrdersApplication.PLANTED_BUG.equals("back-off-counts-retries")) {
      backOff = new FixedBackOff(1000, 3); // four attempts
    }
    var handler = new DefaultErrorHandler(new DeadLetterPublishingRecoverer(template, dlq), backOff);
    handler.addNotRetryableExceptions(PaymentRefusedException.class);
    handler.setResetStateOnExceptionChange(false);
    container.setCommonErrorHandler(handler);
  }

  @Override
  public boolean retryAndDlqInBinding(String destination, String group) {
    return false;
  }
}
