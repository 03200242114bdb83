"""A consumer on confluent-kafka as its guide recommends for "at least once": one poll loop, offsets are stored when a record is finished, and the client
commits what is stored every five seconds and when it closes. All settings of the client are its defaults, but for what the work needs."""

import json
import logging
import math
import os
import random
import signal
import sqlite3
import threading
import time

import requests
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, Consumer, KafkaException, Producer, TopicPartition

# "unlimited": a record is tried until it succeeds or is refused for good.
ATTEMPTS = os.environ.get("ATTEMPTS", "3")
MAX_ATTEMPTS = math.inf if ATTEMPTS == "unlimited" else int(ATTEMPTS)
BACKOFF, MAX_BACKOFF, JITTER = 0.1, float(os.environ.get("MAX_BACKOFF", 1.0)), 0.05

# A mistake that tests plant, to see it named; none otherwise.
PLANTED_BUG = os.environ.get("PLANTED_BUG")

# "crash" ends the process with an error when a dead letter can't be written.
ON_DLQ_FAILURE = os.environ.get("ON_DLQ_FAILURE")

logger = logging.getLogger("orders")
stopping = threading.Event()


class Rejected(Exception):
    """The downstream did not take the record."""

    def __init__(self, reason, status=None, retry_after=0.0):
        super().__init__(reason)
        self.status, self.retry_after = status, retry_after


def call(session, message):
    try:
        response = session.post(
            os.environ["DOWNSTREAM_URL"] + "/v1/attempt",
            data=message.value() or b"",
            headers={
                "X-Kafka-Topic": message.topic(),
                "X-Kafka-Partition": str(message.partition()),
                "X-Kafka-Offset": str(message.offset()),
            },
            timeout=1,
        )
    except requests.RequestException as error:
        raise Rejected(repr(error)) from error
    if response.ok:
        return
    try:
        reason = response.json()["error"]
    except (ValueError, KeyError):
        reason = response.reason
    raise Rejected(reason, response.status_code, float(response.headers.get("Retry-After", 0)))


def dead_letter(producer, topic, message, attempts, failure):
    """Returns True when the dead letter is acknowledged. Tries until then, or until the service is to stop."""
    headers = [header for header in message.headers() or [] if not header[0].startswith("dlt-")] + [
        ("dlt-topic", message.topic().encode()),
        ("dlt-partition", str(message.partition()).encode()),
        ("dlt-offset", str(message.offset()).encode()),
        ("dlt-attempts", str(attempts).encode()),
        ("dlt-error", str(failure).encode("utf-8", "replace")),
    ]
    while True:
        answers = []
        try:
            producer.produce(
                topic, value=message.value(), key=message.key(), headers=headers, on_delivery=lambda error, _: answers.append(error)
            )
            if PLANTED_BUG == "letter-not-awaited":
                producer.poll(0)
                return True
            while not answers and not stopping.is_set():
                producer.flush(1.0)
            if not answers:  # a last chance: it may be acknowledged by now
                producer.flush(1.0)
        except (BufferError, KafkaException) as error:
            answers.append(error)
        if answers and (answers[0] is None or PLANTED_BUG == "delivery-error-ignored"):
            return True
        if stopping.is_set():
            return False
        logger.error("dead letter of %s [%d] @ %d was not delivered: %s", message.topic(), message.partition(), message.offset(), answers)
        if ON_DLQ_FAILURE == "crash":
            raise RuntimeError(f"dead letter was not delivered: {answers[0]}")
        stopping.wait(0.5)


def is_json(value):
    try:
        json.loads(value or b"")
        return True
    except ValueError:
        return False


def skip_to_end(consumer, partitions):
    """What PLANTED_BUG=skips-at-rebalance does with what it is given."""
    for partition in partitions:
        partition.offset = OFFSET_END
    consumer.assign(partitions)


class Offsets:
    """Offsets in a database of the service's own, in the place of Kafka. Records that are finished and their offsets could be one transaction."""

    def __init__(self, path):
        self.database = sqlite3.connect(path, isolation_level=None)
        self.database.execute("create table if not exists offsets (topic, partition, next, primary key (topic, partition))")

    def next(self, topic, partition):
        found = self.database.execute("select next from offsets where topic = ? and partition = ?", (topic, partition)).fetchone()
        return found[0] if found else OFFSET_BEGINNING

    def store(self, message):
        self.database.execute("insert or replace into offsets values (?, ?, ?)", (message.topic(), message.partition(), message.offset() + 1))


def take(consumer, topic, share, offsets):
    """Takes partitions without a group: of "1/3", those with the number 1, 4, 7 … Committed offsets are the group's all the same."""
    number, of = map(int, share.split("/"))
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign(
        [
            TopicPartition(topic, one, offsets.next(topic, one) if offsets else OFFSET_INVALID)
            for one in partitions
            if one % of == number or PLANTED_BUG == "takes-all"
        ]
    )


class Taken(Exception):
    """The record's partition was taken away: its next owner has the record again. The same poll may have given a message of the new assignment."""

    def __init__(self, message):
        super().__init__("the partition was taken away")
        self.message = message


class Paused:
    """Waits with all partitions paused, and polls meanwhile: who doesn't for max.poll.interval.ms is put out of the group."""

    def __init__(self, consumer):
        self.consumer, self.taken = consumer, set()

    def on_assign(self, consumer, partitions):
        consumer.assign(partitions)
        if PLANTED_BUG != "not-resumed":
            consumer.resume(partitions)  # librdkafka keeps those paused that were when they were taken away

    def on_revoke(self, _, partitions):
        self.taken.update((one.topic, one.partition) for one in partitions)

    def wait(self, message, seconds):
        here, until, polled = (message.topic(), message.partition()), time.monotonic() + seconds, None
        self.taken.clear()
        if PLANTED_BUG != "polls-without-pause":
            self.consumer.pause(self.consumer.assignment())
        while here not in self.taken and not stopping.is_set() and (left := until - time.monotonic()) > 0:
            polled = self.consumer.poll(min(left, 0.2))
        self.consumer.resume(self.consumer.assignment())
        if here in self.taken:
            raise Taken(polled)


def process(session, producer, message, wait):
    """Returns True when the record has come to its end."""
    if PLANTED_BUG == "garbage-committed" and not is_json(message.value()):
        logger.warning("not JSON: %s [%d] @ %d", message.topic(), message.partition(), message.offset())
        return True
    attempt = 0
    while not stopping.is_set():
        attempt += 1
        try:
            call(session, message)
            return True
        except Rejected as failure:
            if failure.status == 422:
                logger.info("refused: %s", failure)
                return True
            if failure.status == 400 or attempt == MAX_ATTEMPTS:
                return dead_letter(producer, os.environ.get("KAFKA_DLQ_TOPIC") or message.topic() + ".dlt", message, attempt, failure)
            seconds = min(BACKOFF * 2 ** min(attempt - 1, 30), MAX_BACKOFF) + random.uniform(0, JITTER)
            wait(message, max(seconds, failure.retry_after))
    return False


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    servers = {"bootstrap.servers": os.environ["KAFKA_BROKERS"]}
    # A dead letter is a little larger than its record: the default of 1 MB is less than brokers take.
    producer = Producer({**servers, "message.max.bytes": 1048588}, logger=logger)
    settings = dict(setting.split("=", 1) for setting in os.environ.get("CONSUMER_SETTINGS", "").split(",") if setting)
    consumer = Consumer(
        {**servers, "group.id": os.environ["KAFKA_GROUP"], "auto.offset.reset": "earliest", "enable.auto.offset.store": False, **settings},
        logger=logger,
    )
    listener = {"on_assign": skip_to_end} if PLANTED_BUG == "skips-at-rebalance" else {}
    wait = lambda _, seconds: stopping.wait(seconds)
    if ATTEMPTS == "unlimited":
        paused = Paused(consumer)
        wait, listener = paused.wait, {"on_assign": paused.on_assign, "on_revoke": paused.on_revoke}
    offsets = Offsets(os.environ["OFFSETS_DATABASE"]) if "OFFSETS_DATABASE" in os.environ else None
    if share := os.environ.get("KAFKA_PARTITIONS"):
        take(consumer, os.environ["KAFKA_TOPIC"], share, offsets)
    else:
        consumer.subscribe(os.environ["KAFKA_TOPIC"].split(","), **listener)
    session, upcoming = requests.Session(), None
    try:
        while not stopping.is_set():
            message, upcoming = consumer.poll(1.0) if upcoming is None else upcoming, None
            if message is None:
                continue
            if message.error():
                logger.error("consuming: %s", message.error())
                continue
            if offsets and PLANTED_BUG == "stored-first":
                offsets.store(message)
            try:
                if not process(session, producer, message, wait):
                    break
            except Taken as taken:
                logger.warning("taken away: %s [%d] @ %d", message.topic(), message.partition(), message.offset())
                upcoming = taken.message
                continue
            if offsets:
                offsets.store(message)
                continue
            try:
                consumer.store_offsets(message=message)
            except KafkaException as error:  # the partition was taken away: its next owner has the record again
                logger.warning("not stored: %s", error)
    finally:
        consumer.close()
    logger.info("closed")


if __name__ == "__main__":
    main()
