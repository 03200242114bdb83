"""A dataflow of Bytewax: it charges orders over HTTP, and writes those that could not be charged to the dead-letter
topic. Its recovery store has the offsets. Bytewax's own KafkaSink does not look at delivery reports, so the dataflow
has a sink that does."""

import os
import time

import bytewax.operators as op
import requests
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from confluent_kafka import KafkaException, Producer

MAX_ATTEMPTS = 3
BACKOFF = 0.1
BROKERS = [os.environ["KAFKA_BROKERS"]]
PRODUCER = {"message.max.bytes": "1048588"}  # as the broker; a dead letter has more headers
# A mistake that tests plant, to see it named; none otherwise.
PLANTED_BUG = os.environ.get("PLANTED_BUG")

session = requests.Session()


def call(order):
    """Returns the status of the downstream's answer, or none without one."""
    headers = {
        "X-Kafka-Topic": order.topic,
        "X-Kafka-Partition": str(order.partition),
        "X-Kafka-Offset": str(order.offset),
    }
    url = os.environ["DOWNSTREAM_URL"] + "/v1/attempt"
    try:
        return session.post(url, data=order.value, headers=headers, timeout=1).status_code
    except requests.RequestException:
        return None


def charge(order):
    """Returns a dead letter if the order could not be charged, else none, which filter_map leaves out."""
    if order.value is None:  # deleted
        return None
    for attempt in range(MAX_ATTEMPTS):
        status = call(order)
        if status == 200:
            return None
        if status in (400, 404, 422):
            break
        if attempt < MAX_ATTEMPTS - 1:
            time.sleep(BACKOFF * 2**attempt)
    origin = {"topic": order.topic, "partition": order.partition, "offset": order.offset, "failure": f"status {status}"}
    headers = [*order.headers, *(("x-" + name, str(value).encode()) for name, value in origin.items())]
    return KafkaSinkMessage(order.key, order.value, headers=headers)


class AcknowledgedPartition(StatelessSinkPartition):
    def __init__(self, topic):
        self.topic = topic
        self.producer = Producer({"bootstrap.servers": ",".join(BROKERS), **PRODUCER})

    def write_batch(self, items):
        errors = []
        for item in items:
            self.producer.produce(
                self.topic,
                key=item.key,
                value=item.value,
                headers=item.headers,
                on_delivery=lambda error, _: error and errors.append(error),
            )
            self.producer.poll(0)
        self.producer.flush()
        if errors:
            raise KafkaException(errors[0])


class AcknowledgedSink(DynamicSink):
    """Writes to a topic, and raises if a message is not acknowledged."""

    def __init__(self, topic):
        self.topic = topic

    def build(self, step_id, worker_index, worker_count):
        return AcknowledgedPartition(self.topic)


def sink():
    topic = os.environ["KAFKA_DLQ_TOPIC"]
    return KafkaSink(BROKERS, topic, PRODUCER) if PLANTED_BUG == "own-sink" else AcknowledgedSink(topic)


flow = Dataflow("orders")
orders = op.input("orders", flow, KafkaSource(BROKERS, [os.environ["KAFKA_TOPIC"]]))
failed = op.filter_map("charge", orders, charge)
op.output("dead-letters", failed, sink())
