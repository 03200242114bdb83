package com.example.orders;

import org.apache.camel.Exchange;
import org.apache.camel.Processor;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.component.kafka.KafkaConstants;
import org.apache.camel.component.kafka.consumer.KafkaManualCommit;
import org.apache.camel.component.http.HttpComponent;
import org.apache.camel.http.base.HttpOperationFailedException;
import org.apache.camel.main.Main;
import org.apache.hc.client5.http.impl.classic.HttpClientBuilder;

/** Takes the payment of each order. What fails three times, or is refused for good, goes to the dead-letter topic. */
public class OrdersRoute extends RouteBuilder {
  /** A mistake that tests plant, to see it named; none otherwise. */
  private static final String PLANTED_BUG = System.getenv().getOrDefault("PLANTED_BUG", "");

  /** Offsets are committed by the route, as the page of the Kafka component has it for breakOnFirstError. */
  private static final boolean MANUAL = "manual".equals(System.getenv("COMMITS"));

  private static final String ORDERS = "kafka:{{orders.topic}}?groupId={{orders.group}}&autoOffsetReset=earliest";

  private static final String MANUALLY = "&autoCommitEnable=false&allowManualCommit=true&breakOnFirstError=true"
      + "&kafkaManualCommitFactory=#class:org.apache.camel.component.kafka.consumer.DefaultKafkaManualCommitFactory";

  public static void main(String[] args) throws Exception {
    new Main(OrdersRoute.class).run(args); // which finds the routes in this package
  }

  @Override
  public void configure() {
    if (!PLANTED_BUG.equals("client-repeats")) { // by default, HttpClient repeats a call once after a 503 or 429
      getContext().getComponent("http", HttpComponent.class)
          .setHttpClientConfigurer(HttpClientBuilder::disableAutomaticRetries);
    }
    var channel = deadLetterChannel("direct:dead-letter");
    channel.useOriginalMessage().maximumRedeliveries(2).redeliveryDelay(100).useExponentialBackOff()
        .backOffMultiplier(2);
    if (MANUAL && !PLANTED_BUG.equals("new-exception-handled")) {
      channel.deadLetterHandleNewException(false); // a dead letter that is refused fails the exchange
    }
    errorHandler(channel);
    onException(HttpOperationFailedException.class).onWhen(OrdersRoute::isRefused).maximumRedeliveries(0)
        .useOriginalMessage().handled(true).to("direct:dead-letter");

    Processor nothing = exchange -> { };
    Processor commit = MANUAL ? OrdersRoute::commit : nothing;
    from(MANUAL ? ORDERS + MANUALLY : ORDERS)
        .setProperty("commit", header(KafkaConstants.MANUAL_COMMIT))
        .process(PLANTED_BUG.equals("committed-first") ? commit : nothing)
        .removeHeaders("*") // a call would have the record's headers
        .setHeader(Exchange.HTTP_METHOD, constant("POST"))
        .to("{{orders.payments}}/v1/attempt")
        .process(commit);

    from("direct:dead-letter").errorHandler(noErrorHandler())
        .process(OrdersRoute::describe)
        .to("kafka:{{orders.dlq}}")
        .process(commit);
  }

  private static boolean isRefused(Exchange exchange) {
    var code = exchange.getProperty(Exchange.EXCEPTION_CAUGHT, HttpOperationFailedException.class).getStatusCode();
    return code == 400 || code == 422;
  }

  /** Adds where the order is from, and why it is a dead letter. */
  private static void describe(Exchange exchange) {
    var letter = exchange.getMessage();
    letter.setHeader("original-topic", letter.getHeader(KafkaConstants.TOPIC, String.class));
    letter.setHeader("original-partition", letter.getHeader(KafkaConstants.PARTITION, String.class));
    letter.setHeader("original-offset", letter.getHeader(KafkaConstants.OFFSET, String.class));
    letter.setHeader("reason", exchange.getProperty(Exchange.EXCEPTION_CAUGHT, Exception.class).getMessage());
  }

  private static void commit(Exchange exchange) {
    exchange.getProperty("commit", KafkaManualCommit.class).commit();
  }
}
