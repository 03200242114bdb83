package com.example.payments;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.SinkConnector;

/** Takes the payment of each order of its topics, by HTTP. */
public final class PaymentsSink extends SinkConnector {
  static final String URL = "payments.url";
  static final String MAX_RETRIES = "max.retries";
  static final String RETRY_BACKOFF = "retry.backoff.ms";
  static final ConfigDef CONFIG = new ConfigDef()
      .define(URL, ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "where payments are taken")
      .define(MAX_RETRIES, ConfigDef.Type.INT, 2, ConfigDef.Importance.MEDIUM, "retries of a call")
      .define(RETRY_BACKOFF, ConfigDef.Type.LONG, 200, ConfigDef.Importance.MEDIUM, "wait before a retry, in ms");

  private Map<String, String> properties;

  @Override
  public void start(Map<String, String> properties) {
    this.properties = properties;
  }

  @Override
  public Class<? extends Task> taskClass() {
    return PaymentsTask.class;
  }

  @Override
  public List<Map<String, String>> taskConfigs(int tasks) {
    return Collections.nCopies(tasks, properties);
  }

  @Override
  public void stop() {}

  @Override
  public ConfigDef config() {
    return CONFIG;
  }

  @Override
  public String version() {
    return "1.0";
  }
}
