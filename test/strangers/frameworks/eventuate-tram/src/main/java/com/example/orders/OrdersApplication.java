package com.example.orders;

import io.eventuate.messaging.kafka.basic.consumer.DefaultKafkaConsumerFactory;
import io.eventuate.messaging.kafka.basic.consumer.KafkaConsumerFactory;
import io.eventuate.messaging.kafka.common.EventuateKafkaConfigurationProperties;
import io.eventuate.messaging.kafka.producer.EventuateKafkaProducer;
import io.eventuate.messaging.kafka.producer.EventuateKafkaProducerConfigurationProperties;
import io.eventuate.tram.spring.consumer.common.TramNoopDuplicateMessageDetectorConfiguration;
import io.eventuate.tram.spring.consumer.kafka.EventuateTramKafkaMessageConsumerConfiguration;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.context.annotation.Primary;

@SpringBootApplication
@Import({EventuateTramKafkaMessageConsumerConfiguration.class, TramNoopDuplicateMessageDetectorConfiguration.class})
public class OrdersApplication {
  /** A mistake that tests plant, to see it named; empty otherwise. */
  static final String PLANTED_BUG = System.getenv().getOrDefault("PLANTED_BUG", "");

  public static void main(String[] args) {
    SpringApplication.run(OrdersApplication.class, args);
  }

  @Bean
  HandlersInHand handlersInHand() {
    return new HandlersInHand();
  }

  /** In place of the default one, which Eventuate defines, too. */
  @Bean
  @Primary
  KafkaConsumerFactory waitingConsumerFactory(HandlersInHand inHand) {
    if (PLANTED_BUG.equals("consumer-by-default")) {
      inHand.closed();
      return new DefaultKafkaConsumerFactory();
    }
    return (subscriber, properties) -> new WaitingConsumer(properties, inHand);
  }

  @Bean(destroyMethod = "close")
  EventuateKafkaProducer producer(EventuateKafkaConfigurationProperties kafka) {
    return new EventuateKafkaProducer(kafka.getBootstrapServers(),
        EventuateKafkaProducerConfigurationProperties.empty());
  }
}
