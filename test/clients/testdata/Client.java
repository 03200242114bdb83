import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;

/** Copies COUNT different records from one topic to another, with the group protocol that MODE names. */
public class Client {
    private final String bootstrap, input, output, group, mode;
    private final int count;
    private final Set<String> copied = new HashSet<>();

    private Client(String[] a) {
        bootstrap = a[0];
        input = a[1];
        output = a[2];
        group = a[3];
        count = Integer.parseInt(a[4]);
        mode = a[5];
    }

    public static void main(String[] arguments) throws Exception {
        Client client = new Client(arguments);
        client.administer();
        switch (client.mode) {
            case "share" -> client.share();
            case "transactions" -> client.transactions();
            default -> client.copy();
        }
        System.out.println("copied " + client.copied.size());
    }

    private Properties properties() {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        p.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        p.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        p.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        return p;
    }

    private Properties consumer() {
        Properties p = properties();
        p.put("group.id", group);
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        p.put("max.poll.records", "50");
        switch (mode) {
            case "eager" -> p.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
            case "cooperative" -> p.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
            case "consumer" -> p.put("group.protocol", "consumer");
            case "transactions" -> p.put("isolation.level", "read_committed");
            default -> throw new IllegalArgumentException("there is no mode " + mode);
        }
        return p;
    }

    private void administer() throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        try (Admin admin = Admin.create(p)) {
            System.out.println("nodes " + admin.describeCluster().nodes().get());
            System.out.println("topics " + admin.listTopics().names().get().contains(input));
            System.out.println("described " + admin.describeTopics(List.of(input, output)).allTopicNames().get());
            System.out.println("quorum " + admin.describeMetadataQuorum().quorumInfo().get().nodes());
        }
    }

    private void copy() throws Exception {
        Properties idempotent = properties();
        idempotent.put("enable.idempotence", "true");
        idempotent.put("acks", "all");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consumer());
                KafkaProducer<String, String> producer = new KafkaProducer<>(idempotent)) {
            consumer.subscribe(List.of(input));
            while (copied.size() < count) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(500));
                List<java.util.concurrent.Future<?>> sent = new ArrayList<>();
                for (ConsumerRecord<String, String> r : records) {
                    sent.add(producer.send(new ProducerRecord<>(output, r.key(), r.value())));
                }
                for (java.util.concurrent.Future<?> one : sent) {
                    one.get();
                }
                records.forEach(r -> copied.add(r.value()));
                if (records.isEmpty()) {
                    continue;
                }
                try {
                    consumer.commitSync();
                } catch (CommitFailedException e) {
                    System.out.println("a commit failed: " + e.getMessage());
                }
            }
        }
    }

    private void transactions() {
        Properties transactional = properties();
        transactional.put("transactional.id", group);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consumer());
                KafkaProducer<String, String> producer = new KafkaProducer<>(transactional)) {
            producer.initTransactions();
            consumer.subscribe(List.of(input));
            for (int turn = 0; copied.size() < count; ) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(500));
                if (records.isEmpty()) {
                    continue;
                }
                turn++;
                try {
                    transaction(consumer, producer, records, turn);
                } catch (ProducerFencedException e) {
                    throw e;
                } catch (KafkaException e) {
                    System.out.println("a transaction failed: " + e);
                    producer.abortTransaction();
                    rewind(consumer);
                }
            }
        }
    }

    /** Every third transaction is aborted, after its records were written. */
    private void transaction(KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer,
            ConsumerRecords<String, String> records, int turn) {
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        List<String> inside = new ArrayList<>();
        for (ConsumerRecord<String, String> r : records) {
            producer.send(new ProducerRecord<>(output, r.key(), r.value()));
            offsets.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
            inside.add(r.value());
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        if (turn % 3 == 0) {
            producer.flush();
            producer.abortTransaction();
            rewind(consumer);
            return;
        }
        producer.commitTransaction();
        copied.addAll(inside);
    }

    private void rewind(KafkaConsumer<String, String> consumer) {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        for (TopicPartition partition : consumer.assignment()) {
            OffsetAndMetadata at = committed.get(partition);
            consumer.seek(partition, at == null ? 0 : at.offset());
        }
    }

    /** Every seventh record is released at its first delivery, every eleventh is rejected after it was copied. */
    private void share() throws Exception {
        Properties p = properties();
        p.put("group.id", group);
        p.put("max.poll.records", "50");
        p.put("share.acknowledgement.mode", "explicit");
        int number = 0;
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(p);
                KafkaProducer<String, String> producer = new KafkaProducer<>(properties())) {
            consumer.subscribe(List.of(input));
            while (copied.size() < count) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(500));
                for (ConsumerRecord<String, String> r : records) {
                    number++;
                    if (number % 7 == 0 && r.deliveryCount().orElse((short) 1) == 1) {
                        consumer.acknowledge(r, AcknowledgeType.RELEASE);
                        continue;
                    }
                    producer.send(new ProducerRecord<>(output, r.key(), r.value())).get();
                    copied.add(r.value());
                    consumer.acknowledge(r, number % 11 == 0 ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT);
                }
                consumer.commitSync().forEach((partition, failure) -> failure.ifPresent(e -> System.out.println("an acknowledgement failed: " + e)));
            }
        }
    }
}
