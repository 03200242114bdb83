"""Copies COUNT different records from one topic to another with librdkafka, under the group protocol that MODE names."""

import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer

bootstrap, source, target, group, count, mode = sys.argv[1:]
settings = {
    "bootstrap.servers": bootstrap,
    "group.id": group,
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "group.protocol": "consumer" if mode == "consumer" else "classic",
}
if mode == "cooperative":
    settings["partition.assignment.strategy"] = "cooperative-sticky"
producer_settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all", "linger.ms": 5}
if mode == "transactions":
    settings["isolation.level"] = "read_committed"
    producer_settings["transactional.id"] = group

consumer = Consumer(settings)
producer = Producer(producer_settings)
failures = []
copied = set()


def stored(error, message):
    if error is not None:
        failures.append(str(error))


def commit():
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        print("a commit failed:", error)


if mode == "transactions":
    producer.init_transactions(60)
consumer.subscribe([source])
limit = time.monotonic() + 90
while len(copied) < int(count):
    if time.monotonic() > limit:
        sys.exit(f"only {len(copied)} records came in time")
    messages = [m for m in consumer.consume(50, 0.5) if m.error() is None]
    if not messages:
        continue
    if mode == "transactions":
        producer.begin_transaction()
    for message in messages:
        producer.produce(target, value=message.value(), key=message.key(), on_delivery=stored)
    if mode == "transactions":
        producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 30)
        producer.commit_transaction(30)
    else:
        left = producer.flush(30)
        if left:
            sys.exit(f"{left} records were not acknowledged")
        commit()
    if failures:
        sys.exit(f"writes failed: {failures}")
    copied.update(message.value() for message in messages)
consumer.close()
print("copied", len(copied))
