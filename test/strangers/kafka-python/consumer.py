"""A consumer on kafka-python as most are written: a loop over the consumer, retries with a sleep between them, and a
commit after each message. All settings of the client are its defaults, but for what the work needs."""

import logging
import os
import signal
import time

import requests
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaConnectionError, KafkaError

MAX_ATTEMPTS = 4
BACKOFF = 0.1  # doubled after each attempt
FAILURE = ("x-error-reason", "x-retry-attempt", "source-topic", "partition", "offset", "epoch")
SERVERS = os.environ["KAFKA_BROKERS"].split(",")
PLANTED_BUG = os.environ.get("PLANTED_BUG")  # a mistake that tests plant, to see it named

logger = logging.getLogger("orders")


class Refused(Exception):
    def __init__(self, reason, status=None):
        super().__init__(reason)
        self.status = status


class Stopped(Exception):
    """The message was not finished, as the service stops."""


class Worker:
    def __init__(self):
        self.consumer = KafkaConsumer(
            os.environ["KAFKA_TOPIC"],
            bootstrap_servers=SERVERS,
            group_id=os.environ["KAFKA_GROUP"],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=500,  # the loop ends now and then, to see whether the service stops
        )
        self.producer = new_producer()
        self.session = requests.Session()
        self.stopping = False

    def stop(self, *_):
        self.stopping = True

    def run(self):
        try:
            while not self.stopping:
                try:
                    self.take()
                except KafkaConnectionError as error:  # 3.0 raises it while no broker can be reached
                    logger.error("no connection: %r", error)
        except Stopped:
            pass
        finally:
            self.consumer.close()
            self.producer.close()

    def take(self):
        for message in self.consumer:
            self.process(message)
            self.commit(message)
            if self.stopping:
                break

    def commit(self, message):
        partition = TopicPartition(message.topic, message.partition)
        try:
            self.consumer.commit({partition: OffsetAndMetadata(message.offset + 1, "", -1)})
        except KafkaError as error:
            logger.error("commit of %s at %d failed: %r", partition, message.offset + 1, error)

    def process(self, message):
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                return self.call(message)
            except Refused as failure:
                if failure.status in (400, 422) or attempt == MAX_ATTEMPTS:
                    return self.dead_letter(message, attempt, str(failure))
            self.sleep(BACKOFF * 2 ** (attempt - 1))

    def call(self, message):
        try:
            url = os.environ["DOWNSTREAM_URL"] + "/v1/attempt"
            response = self.session.post(url, data=message.value or b"", timeout=1)
        except requests.RequestException as error:
            raise Refused(repr(error)) from error
        if response.status_code != 200:
            raise Refused(response.text, response.status_code)

    def dead_letter(self, message, attempts, reason):
        """Returns when the dead letter is acknowledged. After an error that it takes for fatal, such as a missing
        authorization, an idempotent producer refuses everything, so each error gets a new one."""
        headers = own_headers(message) + [
            ("x-error-reason", reason.encode("utf-8", "replace")),
            ("x-retry-attempt", str(attempts).encode()),
            ("source-topic", message.topic.encode()),
            ("partition", str(message.partition).encode()),
            ("offset", str(message.offset).encode()),
            ("epoch", b"-1"),
        ]
        while True:
            try:
                sent = self.producer.send(os.environ["KAFKA_DLQ_TOPIC"], key=message, value=message, headers=headers)
                if PLANTED_BUG != "send-not-awaited":
                    sent.get(timeout=30)
                return
            except KafkaError as error:
                logger.error("dead letter of %d at %d failed: %r", message.partition, message.offset, error)
            self.sleep(1)
            if PLANTED_BUG != "producer-not-replaced":
                self.producer.close(timeout=0)
                self.producer = new_producer()

    def sleep(self, seconds):
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self.stopping:
                raise Stopped
            time.sleep(min(left, 0.1))


def new_producer():
    """The producer refuses a record with neither key nor value before it serializes, so it is given the message for
    both."""
    return KafkaProducer(
        bootstrap_servers=SERVERS,
        key_serializer=lambda message: message.key,
        value_serializer=lambda message: message.value,
    )


def own_headers(message):
    """Returns all headers, but for the last of each in FAILURE if the message comes back from the dead-letter topic.
    The client cannot write a header without a value."""
    last = {name: index for index, (name, _) in enumerate(message.headers) if name in FAILURE}
    drop = set(last.values()) if len(last) == len(FAILURE) else ()
    return [(name, value or b"") for index, (name, value) in enumerate(message.headers) if index not in drop]


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s [%(levelname)s] %(name)s: %(message)s")
    logging.getLogger("kafka").setLevel(logging.WARNING)
    worker = Worker()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, worker.stop)
    worker.run()


if __name__ == "__main__":
    main()
