"""A consumer on confluent-kafka and psycopg 3 as their guides recommend: one poll loop, a transaction for each order, offsets are stored when a record is
finished. All settings of the clients are their defaults, but for what the work needs."""

import json
import logging
import os
import random
import signal
import threading

import psycopg
from confluent_kafka import Consumer, KafkaException, Producer
from psycopg.types.json import Jsonb

MAX_ATTEMPTS = 3
BACKOFF, MAX_BACKOFF, JITTER = 0.1, 1.0, 0.05
SCHEMA = "CREATE TABLE IF NOT EXISTS orders (id uuid PRIMARY KEY, customer text NOT NULL, total numeric NOT NULL, document jsonb NOT NULL)"

# A mistake that tests plant, to see it named; none otherwise.
PLANTED_BUG = os.environ.get("PLANTED_BUG")

INSERT = "INSERT INTO orders (id, customer, total, document) VALUES (%s, %s, %s, %s) ON CONFLICT (id) DO NOTHING"
if PLANTED_BUG == "key-with-offset":  # knows a record that is delivered again, but not an order that is produced again
    SCHEMA = SCHEMA.replace("id uuid PRIMARY KEY", "record text PRIMARY KEY, id uuid NOT NULL")
    INSERT = "INSERT INTO orders (id, customer, total, document, record) VALUES (%s, %s, %s, %s, %s) ON CONFLICT (record) DO NOTHING"

logger = logging.getLogger("orders")
stopping = threading.Event()


class Database:
    """A connection that is opened again after it broke."""

    def __init__(self):
        self.connection = None

    def __enter__(self):
        if self.connection is None or self.connection.closed:
            self.connection = psycopg.connect(os.environ["DATABASE_URL"], connect_timeout=2)
        return self.connection

    def __exit__(self, *_):
        if self.connection.broken:
            self.connection.close()


def row(message):
    order = json.loads(message.value())
    return [order["orderId"], order["customer"], order["total"], Jsonb(order)]


def migrate(database):
    with database as connection, connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(4711)")
        connection.execute(SCHEMA)


def write(database, message):
    values = row(message)
    if PLANTED_BUG == "key-with-offset":
        values.append(f"{message.topic()}-{message.partition()}@{message.offset()}")
    with database as connection, connection.transaction():
        connection.execute(INSERT, values)


def retryable(error):
    """The database may accept the order later. Without an SQLSTATE there was no answer."""
    return isinstance(error, psycopg.OperationalError) or (error.sqlstate or "08")[:2] in ("08", "40", "53", "55", "57", "58")


def dead_letter(producer, message, attempts, failure):
    """Returns True when the dead letter is acknowledged. Tries until then, or until the service is to stop."""
    headers = (message.headers() or []) + [("dlt-attempts", str(attempts).encode()), ("dlt-error", str(failure).encode("utf-8", "replace"))]
    while True:
        answers = []
        try:
            producer.produce(
                os.environ["KAFKA_DLQ_TOPIC"],
                value=message.value(),
                key=message.key(),
                headers=headers,
                on_delivery=lambda error, _: answers.append(error),
            )
            while not answers and not stopping.is_set():
                producer.flush(1.0)
            if not answers:  # a last chance: it may be acknowledged by now
                producer.flush(1.0)
        except (BufferError, KafkaException) as error:
            answers.append(error)
        if answers and answers[0] is None:
            return True
        if stopping.is_set():
            return False
        logger.error("dead letter of %s [%d] @ %d was not delivered: %s", message.topic(), message.partition(), message.offset(), answers)
        stopping.wait(0.5)


def process(database, producer, message, failure=None):
    """Returns True when the record has come to its end. failure is that of an attempt that was made before."""
    attempt = 0
    while not stopping.is_set():
        attempt += 1
        try:
            if failure:
                raise failure
            write(database, message)
            return True
        except (ValueError, KeyError, TypeError) as error:  # not an order
            return dead_letter(producer, message, attempt, error)
        except psycopg.errors.RaiseException as error:
            logger.info("refused by a business rule: %s", error)
            return True
        except psycopg.Error as error:
            retry = retryable(error) or PLANTED_BUG == "permanent-retried"
            if not retry or attempt == MAX_ATTEMPTS:
                return dead_letter(producer, message, attempt, error)
            stopping.wait(min(BACKOFF * 2 ** (attempt - 1), MAX_BACKOFF) + random.uniform(0, JITTER))
        failure = None
    return False


def start():
    """Returns a database, a producer and a consumer."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    database = Database()
    migrate(database)
    servers = {"bootstrap.servers": os.environ["KAFKA_BROKERS"]}
    producer = Producer({**servers, "message.max.bytes": 1048588}, logger=logger)
    consumer = Consumer(
        {**servers, "group.id": os.environ["KAFKA_GROUP"], "auto.offset.reset": "earliest", "enable.auto.offset.store": False}, logger=logger
    )
    consumer.subscribe([os.environ["KAFKA_TOPIC"]])
    return database, producer, consumer


def store(consumer, message):
    try:
        consumer.store_offsets(message=message)
    except KafkaException as error:  # the partition was taken away: its next owner has the record again
        logger.warning("not stored: %s", error)


def main():
    database, producer, consumer = start()
    try:
        while not stopping.is_set():
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                logger.error("consuming: %s", message.error())
                continue
            if not process(database, producer, message):
                break
            store(consumer, message)
    finally:
        consumer.close()
    logger.info("closed")


if __name__ == "__main__":
    main()
