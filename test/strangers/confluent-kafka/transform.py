"""A consumer on confluent-kafka that writes a result of each record to another topic: one poll loop, a flush for each result, stored offsets that the
client commits every five seconds. All settings of the client are its defaults, but for what the work needs."""

import base64
import logging
import os
import signal
import threading

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

MAX_ATTEMPTS = 3
BACKOFF, MAX_BACKOFF = 0.1, 1.0

# A mistake that tests plant, to see it named; none otherwise.
PLANTED_BUG = os.environ.get("PLANTED_BUG")

logger = logging.getLogger("transform")
stopping = threading.Event()


def write(producer, topic, key, value, headers=None):
    """Returns what the broker says: None, or an error."""
    answers = []
    try:
        producer.produce(topic, value=value, key=key, headers=headers, on_delivery=lambda error, _: answers.append(error))
    except KafkaException as failure:  # the client knows an error of the topic already
        return failure.args[0]
    while not answers:
        producer.flush(1.0)
    return answers[0]


def dead_letter(producer, message, failure):
    """Returns True when the dead letter is acknowledged. Tries until then, or until the service is to stop."""
    headers = (message.headers() or []) + [
        ("from-topic", message.topic().encode()),
        ("from-partition", str(message.partition()).encode()),
        ("from-offset", str(message.offset()).encode()),
        ("from-error", str(failure).encode()),
    ]
    while not stopping.is_set():
        error = write(producer, os.environ["KAFKA_DLQ_TOPIC"], message.key(), message.value(), headers)
        if error is None:
            return True
        logger.error("dead letter of %s [%d] @ %d was not delivered: %s", message.topic(), message.partition(), message.offset(), error)
        stopping.wait(0.5)
    return False


def process(producer, message):
    """Returns True when the record has come to its end."""
    value = b'{"processed":"' + base64.b64encode(message.value() or b"") + b'"}'
    attempt = 0
    while not stopping.is_set():
        attempt += 1
        error = write(producer, os.environ["KAFKA_OUTPUT_TOPIC"], message.key(), value)
        if error is None:
            return True
        if PLANTED_BUG == "delivery-error-ignored":
            logger.warning("result of %s [%d] @ %d: %s", message.topic(), message.partition(), message.offset(), error)
            return True
        if error.code() == KafkaError.POLICY_VIOLATION:
            logger.info("refused: %s", error)
            return True
        if error.code() == KafkaError.INVALID_RECORD or attempt == MAX_ATTEMPTS:
            return dead_letter(producer, message, error)
        stopping.wait(min(BACKOFF * 2 ** (attempt - 1), MAX_BACKOFF))
    return False


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    servers = {"bootstrap.servers": os.environ["KAFKA_BROKERS"]}
    producer = Producer({**servers, "message.max.bytes": 4 << 20}, logger=logger)
    consumer = Consumer(
        {**servers, "group.id": os.environ["KAFKA_GROUP"], "auto.offset.reset": "earliest", "enable.auto.offset.store": False}, logger=logger
    )
    consumer.subscribe([os.environ["KAFKA_TOPIC"]])
    try:
        while not stopping.is_set():
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                logger.error("consuming: %s", message.error())
                continue
            if not process(producer, message):
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
