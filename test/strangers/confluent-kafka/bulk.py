"""A consumer that writes to its downstream in bulk, as services do that fill a search index or a warehouse: a poll returns up to 100 records, one call has
all of them, and the offsets are committed when the whole poll is finished. A call that is refused may be so because of any of its records, so what is not
accepted in three tries is tried again record by record."""

import json
import logging
import os
import signal
import threading

import requests
from confluent_kafka import Consumer, KafkaException, Producer

MAX_ATTEMPTS = 3
PLANTED_BUG = os.environ.get("PLANTED_BUG")

logger = logging.getLogger("bulk")
stopping = threading.Event()


class Stopped(Exception):
    """The service is to stop: what is not committed is for others."""


class Rejected(Exception):
    def __init__(self, reason, retryable, retry_after=0.0):
        super().__init__(reason)
        self.retryable, self.retry_after = retryable, retry_after


def write(session, orders):
    try:
        response = session.post(os.environ["WAREHOUSE_URL"] + "/orders/_bulk", json={"orders": orders}, timeout=1)
    except requests.RequestException as error:
        raise Rejected(repr(error), True) from error
    if not response.ok:
        retryable = response.status_code in (429, 503)
        raise Rejected(f"{response.status_code} {response.text}", retryable, float(response.headers.get("Retry-After", 0)))


def try_to_write(session, orders):
    """Returns why they were rejected in the end, or None."""
    for attempt in range(1, MAX_ATTEMPTS + 1):
        try:
            return write(session, orders)
        except Rejected as failure:
            if not failure.retryable or attempt == MAX_ATTEMPTS:
                return failure
            stopping.wait(max(0.1 * 2**attempt, failure.retry_after))
            if stopping.is_set():
                raise Stopped("records were not written") from failure


def dead_letter(producer, message, reason):
    """Tries until the dead letter is acknowledged, or until the service is to stop."""
    headers = (message.headers() or []) + [("source", message.topic().encode()), ("error", str(reason).encode("utf-8", "replace"))]
    while True:
        answers = []
        try:
            producer.produce(
                os.environ["KAFKA_DLQ_TOPIC"], value=message.value(), key=message.key(), headers=headers, on_delivery=lambda error, _: answers.append(error)
            )
            while not answers and PLANTED_BUG != "letter-not-checked" and not stopping.is_set():
                producer.flush(1)  # librdkafka itself tries for five minutes
            producer.flush(1)
        except (BufferError, KafkaException) as error:
            answers.append(error)
        if PLANTED_BUG == "letter-not-checked" or answers and answers[-1] is None:
            return
        logger.error("dead letter: %s", answers)
        if stopping.wait(0.5):
            raise Stopped("a dead letter was not accepted")


def process(session, producer, messages):
    orders = []
    for message in messages:
        try:
            order = json.loads(message.value())
            orders.append((message, {**order, "id": order["id"]}))
        except (TypeError, ValueError, KeyError) as error:
            dead_letter(producer, message, error)
    if not orders:
        return
    failure = try_to_write(session, [order for _, order in orders])
    if failure is None or PLANTED_BUG == "failed-bulk-committed":
        return
    if PLANTED_BUG == "only-first-parked":
        return dead_letter(producer, orders[0][0], failure)
    if PLANTED_BUG == "bulk-parked":
        for message, _ in orders:
            dead_letter(producer, message, failure)
        return
    for message, order in orders:
        if len(orders) > 1:
            failure = try_to_write(session, [order])
        if failure:
            dead_letter(producer, message, failure)


def main(client, process):
    """Polls, processes and commits until it is told to stop. client is what process writes with."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    servers = {"bootstrap.servers": os.environ["KAFKA_BROKERS"]}
    producer = Producer({**servers, "message.max.bytes": 1048588}, logger=logger)
    consumer = Consumer(
        {**servers, "group.id": os.environ["KAFKA_GROUP"], "auto.offset.reset": "earliest", "enable.auto.commit": False}, logger=logger
    )
    consumer.subscribe([os.environ["KAFKA_TOPIC"]])
    try:
        while not stopping.is_set():
            messages = [one for one in consumer.consume(100, 0.2) if not one.error()]
            if not messages:
                continue
            if PLANTED_BUG == "commits-first":
                consumer.commit(asynchronous=False)
            process(client, producer, messages)
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as error:  # the partitions may be another's by now, which then has these records again
                logger.warning("offsets were not committed: %s", error)
    except Stopped as reason:
        logger.info("stops in the middle of its work: %s", reason)
    finally:
        consumer.close()


if __name__ == "__main__":
    main(requests.Session(), process)
