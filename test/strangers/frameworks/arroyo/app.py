"""A consumer on Arroyo as its documentation writes one: a StreamProcessor, RunTask with a handler that retries by
itself, and CommitOffsets. What the handler gives up is an InvalidMessage, which the DLQ policy writes. All settings are
the library's defaults, but for what the work needs. With COMMITS=each, Arroyo commits each message itself, instead of
letting librdkafka commit what is stored."""

import logging
import os
import signal
import time

import requests
from arroyo.backends.kafka import KafkaConsumer, KafkaPayload, KafkaProducer
from arroyo.backends.kafka.configuration import build_kafka_configuration, build_kafka_consumer_configuration
from arroyo.commit import IMMEDIATE, ONCE_PER_SECOND
from arroyo.dlq import DlqLimit, DlqPolicy, InvalidMessage, KafkaDlqProducer
from arroyo.processing.processor import StreamProcessor
from arroyo.processing.strategies import CommitOffsets, ProcessingStrategyFactory, RunTask
from arroyo.types import Topic

MAX_ATTEMPTS = 3
BACKOFF = 0.1
COMMITS_EACH = os.environ.get("COMMITS") == "each"
# A mistake that tests plant, to see it named; none otherwise.
PLANTED_BUG = os.environ.get("PLANTED_BUG")

session = requests.Session()


def call(message):
    """Returns the status of the downstream's answer, or none without one."""
    place = message.value
    headers = {
        "X-Kafka-Topic": place.partition.topic.name,
        "X-Kafka-Partition": str(place.partition.index),
        "X-Kafka-Offset": str(place.offset),
    }
    url = os.environ["DOWNSTREAM_URL"] + "/v1/attempt"
    try:
        return session.post(url, data=message.payload.value, headers=headers, timeout=1).status_code
    except requests.RequestException:
        return None


def charge(message):
    for attempt in range(MAX_ATTEMPTS):
        status = call(message)
        if status == 200:
            return
        if status in (400, 422):
            break
        if attempt < MAX_ATTEMPTS - 1:
            time.sleep(BACKOFF * 2**attempt)
    raise InvalidMessage(message.value.partition, message.value.offset, reason=str(status))


class Charges(ProcessingStrategyFactory[KafkaPayload]):
    def create_with_partitions(self, commit, partitions):
        return RunTask(charge, CommitOffsets(commit))


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    brokers = [os.environ["KAFKA_BROKERS"]]
    consumer = KafkaConsumer(
        build_kafka_consumer_configuration(
            {},
            bootstrap_servers=brokers,
            group_id=os.environ["KAFKA_GROUP"],
            auto_offset_reset="earliest",
            enable_auto_commit=not COMMITS_EACH,
        )
    )
    producer = KafkaProducer(build_kafka_configuration({}, bootstrap_servers=brokers))
    policy = DlqPolicy(KafkaDlqProducer(producer, Topic(os.environ["KAFKA_DLQ_TOPIC"])), DlqLimit())
    topic = Topic(os.environ["KAFKA_TOPIC"])
    commits = IMMEDIATE if COMMITS_EACH and PLANTED_BUG != "commits-once-per-second" else ONCE_PER_SECOND
    processor = StreamProcessor(consumer, topic, Charges(), commits, dlq_policy=policy)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: processor.signal_shutdown())
    processor.run()


if __name__ == "__main__":
    main()
