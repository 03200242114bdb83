package com.example.orders;

import static com.hazelcast.jet.pipeline.DataConnectionRef.dataConnectionRef;
import static java.nio.charset.StandardCharsets.UTF_8;

import com.hazelcast.config.Config;
import com.hazelcast.config.DataConnectionConfig;
import com.hazelcast.core.Hazelcast;
import com.hazelcast.jet.config.JobConfig;
import com.hazelcast.jet.config.ProcessingGuarantee;
import com.hazelcast.jet.kafka.KafkaSinks;
import com.hazelcast.jet.kafka.KafkaSources;
import com.hazelcast.jet.pipeline.Pipeline;
import com.hazelcast.jet.pipeline.ServiceFactories;
import com.hazelcast.jet.pipeline.ServiceFactory;
import java.util.Properties;
import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Takes the payment of each order, in a member that runs the job by itself or shares it with others. */
public final class OrdersJob {
  /** A mistake that tests plant, to see it named; none otherwise. */
  private static final String PLANTED_BUG = System.getenv().getOrDefault("PLANTED_BUG", "");

  private OrdersJob() {}

  public static void main(String[] args) {
    var config = new Config().setClusterName(System.getenv("KAFKA_GROUP"));
    config.setProperty("hazelcast.phone.home.enabled", "false");
    config.getJetConfig().setEnabled(true);
    config.addDataConnectionConfig(brokers());
    config.getNetworkConfig().getInterfaces().setEnabled(true).addInterface("127.0.0.1");
    var join = config.getNetworkConfig().getJoin();
    join.getAutoDetectionConfig().setEnabled(false);
    if (System.getenv("MEMBERS") != null) {
      join.getTcpIpConfig().setEnabled(true).addMember(System.getenv("MEMBERS"));
    }
    var member = Hazelcast.newHazelcastInstance(config);
    try {
      member.getJet().newJobIfAbsent(pipeline(), new JobConfig().setName("orders")
          .setProcessingGuarantee(PLANTED_BUG.equals("auto-commit")
              ? ProcessingGuarantee.NONE : ProcessingGuarantee.AT_LEAST_ONCE)
          .setSnapshotIntervalMillis(1000)).join();
    } catch (RuntimeException e) {
      System.err.println("ERROR: the job failed: " + e);
      member.getLifecycleService().terminate();
      System.exit(1);
    }
  }

  private static Pipeline pipeline() {
    var topic = System.getenv("KAFKA_DLQ_TOPIC");
    ServiceFactory<?, Payments> payments =
        ServiceFactories.sharedService(context -> new Payments(System.getenv("DOWNSTREAM_URL"))).toNonCooperative();
    var pipeline = Pipeline.create().setPreserveOrder(!PLANTED_BUG.equals("order-by-default"));
    pipeline.readFrom(KafkaSources.<byte[], byte[], ConsumerRecord<byte[], byte[]>>kafka(
            dataConnectionRef("brokers"), order -> order, System.getenv("KAFKA_TOPIC")))
        .withoutTimestamps()
        .mapUsingService(payments, (service, order) -> {
          var reason = service.take(order);
          return reason == null ? null : letter(topic, order, reason);
        })
        .writeTo(KafkaSinks.kafka(dataConnectionRef("brokers"), letter -> letter));
    return pipeline;
  }

  /** The brokers as this member reaches them. */
  private static DataConnectionConfig brokers() {
    var properties = new Properties();
    properties.setProperty(CommonClientConfigs.BOOTSTRAP_SERVERS_CONFIG, System.getenv("KAFKA_BROKERS"));
    properties.setProperty(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class.getName());
    properties.setProperty(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class.getName());
    properties.setProperty(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
    properties.setProperty(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class.getName());
    properties.setProperty(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class.getName());
    if (PLANTED_BUG.equals("auto-commit")) {
      properties.setProperty(ConsumerConfig.GROUP_ID_CONFIG, System.getenv("KAFKA_GROUP"));
      properties.setProperty(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "true");
    }
    return new DataConnectionConfig("brokers").setType("Kafka").setShared(false).setProperties(properties);
  }

  private static ProducerRecord<byte[], byte[]> letter(String topic, ConsumerRecord<byte[], byte[]> order,
      String reason) {
    var headers = new RecordHeaders(order.headers());
    headers.add("original-topic", order.topic().getBytes(UTF_8));
    headers.add("original-partition", String.valueOf(order.partition()).getBytes(UTF_8));
    headers.add("original-offset", String.valueOf(order.offset()).getBytes(UTF_8));
    headers.add("reason", reason.getBytes(UTF_8));
    return new ProducerRecord<>(topic, null, order.key(), order.value(), headers);
  }
}
