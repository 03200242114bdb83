"""Takes payments from Kafka as Avro, has each charged by the bank, and parks those that can't be charged."""

import logging
import os
import random
import signal
import threading

import requests
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from httpx2 import TransportError

TOPIC, PARKED, GROUP = "payments", "payments.parked", "payments-worker"
MAX_ATTEMPTS = 3
BACKOFF, MAX_BACKOFF, JITTER = 0.1, 1.0, 0.05

logger = logging.getLogger("payments")
stopping = threading.Event()


class Unreadable(Exception):
    """The record is no payment."""


class Declined(Exception):
    """The bank did not charge the payment."""

    def __init__(self, reason, status=None, retry_after=0.0):
        super().__init__(reason)
        self.status, self.retry_after = status, retry_after


def decode(deserialize, message):
    """Returns the payment, or None when the service is to stop. The registry may be away: that says nothing about the record."""
    context = SerializationContext(message.topic(), MessageField.VALUE)
    while not stopping.is_set():
        try:
            payment = deserialize(message.value(), context)
        except (TransportError, SchemaRegistryError) as error:
            if getattr(error, "http_status_code", 0) == 404:
                raise Unreadable(f"unknown schema: {error}") from error
            logger.error("the schema registry does not answer: %r", error)
            stopping.wait(0.5)
            continue
        except Exception as error:  # whatever decoders raise at bytes that are none of theirs
            raise Unreadable(repr(error)) from error
        if payment is None:
            raise Unreadable("no value")
        return payment
    return None


def charge(session, payment):
    body = {
        "reference": payment["payment_id"],
        "amount": str(payment["amount"]),
        "currency": payment["currency"],
        "debtor": payment["customer"]["number"],
    }
    try:
        response = session.post(os.environ["BANK_URL"] + "/v2/charges", json=body, timeout=1)
    except requests.RequestException as error:
        raise Declined(repr(error)) from error
    if not response.ok:
        raise Declined(response.text[:200], response.status_code, float(response.headers.get("Retry-After", 0)))


def park(producer, message, attempts, failure):
    """Returns True when the dead letter is acknowledged. Tries until then, or until the service is to stop."""
    headers = (message.headers() or []) + [
        ("parked-from", message.topic().encode()),
        ("parked-partition", str(message.partition()).encode()),
        ("parked-offset", str(message.offset()).encode()),
        ("parked-attempts", str(attempts).encode()),
        ("parked-because", str(failure).encode("utf-8", "replace")),
    ]
    while True:
        answers = []
        try:
            producer.produce(
                PARKED, value=message.value(), key=message.key(), headers=headers, on_delivery=lambda error, _: answers.append(error)
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
        logger.error("%s [%d] @ %d was not parked: %s", message.topic(), message.partition(), message.offset(), answers)
        stopping.wait(0.5)


def process(session, deserialize, producer, message):
    """Returns True when the record has come to its end."""
    try:
        payment = decode(deserialize, message)
    except Unreadable as failure:
        return park(producer, message, 0, failure)
    attempt = 0
    while payment is not None and not stopping.is_set():
        attempt += 1
        try:
            charge(session, payment)
            return True
        except Declined as failure:
            if failure.status == 402:
                logger.info("not covered: %s", failure)
                return True
            if failure.status == 422 or attempt == MAX_ATTEMPTS:
                return park(producer, message, attempt, failure)
            wait = min(BACKOFF * 2 ** (attempt - 1), MAX_BACKOFF) + random.uniform(0, JITTER)
            stopping.wait(max(wait, failure.retry_after))
    return False


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    servers = {"bootstrap.servers": os.environ["KAFKA_BROKERS"]}
    deserialize = AvroDeserializer(SchemaRegistryClient({"url": os.environ["SCHEMA_REGISTRY_URL"]}))
    # A parked record is a little larger than the payment: the default of 1 MB is less than brokers take.
    producer = Producer({**servers, "message.max.bytes": 1048588}, logger=logger)
    consumer = Consumer({**servers, "group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.offset.store": False}, logger=logger)
    consumer.subscribe([TOPIC])
    session = requests.Session()
    try:
        while not stopping.is_set():
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                logger.error("consuming: %s", message.error())
                continue
            if not process(session, deserialize, producer, message):
                break
            try:
                consumer.store_offsets(message=message)
            except KafkaException as error:  # the partition was taken away: its next owner has the record again
                logger.warning("not stored: %s", error)
    finally:
        consumer.close()
    logger.info("closed")


if __name__ == "__main__":
    main()
