package com.example.orders;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.time.Duration;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Profile;
import org.springframework.core.retry.RetryPolicy;
import org.springframework.core.retry.RetryTemplate;
import org.springframework.integration.dsl.IntegrationFlow;
import org.springframework.integration.dsl.MessageChannels;
import org.springframework.integration.handler.advice.ErrorMessageSendingRecoverer;
import org.springframework.integration.kafka.dsl.Kafka;
import org.springframework.integration.kafka.inbound.KafkaErrorSendingMessageRecoverer;
import org.springframework.integration.kafka.inbound.KafkaMessageDrivenChannelAdapter.ListenerMode;
import org.springframework.integration.kafka.support.RawRecordHeaderErrorMessageStrategy;
import org.springframework.kafka.core.ConsumerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.kafka.support.KafkaHeaders;
import org.springframework.messaging.Message;
import org.springframework.messaging.MessageChannel;
import org.springframework.util.backoff.ExponentialBackOff;
import org.springframework.util.backoff.FixedBackOff;
import org.springframework.web.client.HttpClientErrorException.BadRequest;
import org.springframework.web.client.RestClientException;

/** The flow of the orders, and that of the dead letters. */
@Configuration
class Flows {
  /** A mistake that tests plant, to see it named; none otherwise. */
  private static final String PLANTED_BUG = System.getenv().getOrDefault("PLANTED_BUG", "");

  /** The adapter retries, with the record in hand. What its recovery cannot write comes again, by the container. */
  @Bean
  @Profile("!error-handler")
  IntegrationFlow orders(ConsumerFactory<byte[], byte[]> consumers, @Value("${orders.topic}") String topic,
      MessageChannel failed, Payments payments) {
    var retries = RetryPolicy.builder().maxRetries(2).delay(Duration.ofMillis(100)).multiplier(2)
        .excludes(BadRequest.class).build();
    var recoverer = new ErrorMessageSendingRecoverer(failed, new RawRecordHeaderErrorMessageStrategy());
    return IntegrationFlow.from(Kafka.messageDrivenChannelAdapter(consumers, ListenerMode.record, topic)
            .configureListenerContainer(container -> {
              if (!PLANTED_BUG.equals("container-gives-up")) {
                container.errorHandler(new DefaultErrorHandler(new FixedBackOff(500, FixedBackOff.UNLIMITED_ATTEMPTS)));
              }
            })
            .retryTemplate(new RetryTemplate(retries))
            .recoveryCallback(recoverer))
        .handle(payments, "take")
        .get();
  }

  /** The container retries: it seeks back to the record. */
  @Bean
  @Profile("error-handler")
  IntegrationFlow ordersAgain(ConsumerFactory<byte[], byte[]> consumers, @Value("${orders.topic}") String topic,
      MessageChannel failed, Payments payments) {
    var waits = new ExponentialBackOff(100, 2);
    waits.setMaxAttempts(2);
    var handler = new DefaultErrorHandler(new KafkaErrorSendingMessageRecoverer(failed), waits);
    handler.addNotRetryableExceptions(BadRequest.class);
    return IntegrationFlow.from(Kafka.messageDrivenChannelAdapter(consumers, ListenerMode.record, topic)
            .configureListenerContainer(container -> container.errorHandler(handler)))
        .handle(payments, "take")
        .get();
  }

  /** Writes the dead letter of the record that an error message names. By default, the adapter does not await it. */
  @Bean
  IntegrationFlow deadLetters(KafkaTemplate<byte[], byte[]> kafka, @Value("${orders.dead-letters}") String topic) {
    return IntegrationFlow.from("failed")
        .transform(Message.class, error -> letter(error, topic))
        .handle(Kafka.outboundChannelAdapter(kafka).sync(!PLANTED_BUG.equals("letter-not-awaited")))
        .get();
  }

  @Bean
  MessageChannel failed() {
    return MessageChannels.direct().getObject();
  }

  private static ProducerRecord<byte[], byte[]> letter(Message<?> error, String topic) {
    @SuppressWarnings("unchecked")
    var order = (ConsumerRecord<byte[], byte[]>) error.getHeaders().get(KafkaHeaders.RAW_DATA);
    var headers = new RecordHeaders(order.headers());
    headers.add("original-topic", order.topic().getBytes(UTF_8));
    headers.add("original-partition", String.valueOf(order.partition()).getBytes(UTF_8));
    headers.add("original-offset", String.valueOf(order.offset()).getBytes(UTF_8));
    headers.add("reason", reason((Throwable) error.getPayload()).getBytes(UTF_8));
    return new ProducerRecord<>(topic, null, order.key(), order.value(), headers);
  }

  /** What failed in the end, without the exceptions of the framework around it. */
  private static String reason(Throwable failure) {
    while (failure.getCause() != null && !(failure instanceof RestClientException)) {
      failure = failure.getCause();
    }
    return String.valueOf(failure.getMessage());
  }
}
