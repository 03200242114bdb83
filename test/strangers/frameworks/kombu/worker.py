"""A worker as kombu's user guide writes one: a ConsumerProducerMixin whose callback acknowledges each message.

Kafka's transport takes one message at a time (prefetch_count=1). The worker waits for the delivery report of a dead
letter, which the transport does not look at by itself, and ends if it was refused. With MANUAL_COMMIT it commits by the
transport's consumer, and waits for that, in the place of Message.ack, which does not.
"""

import logging
import os
import signal
import time

import requests
from confluent_kafka import KafkaException
from kombu import Connection, Queue
from kombu.mixins import ConsumerProducerMixin

ATTEMPTS = 3
BACKOFF = 0.1  # seconds, twice as long after each attempt

# A mistake that tests plant, to see it named. no-report: the transport's producer has its defaults, and what the broker
# refuses is lost.
BUG = os.environ.get("PLANTED_BUG", "")
MANUAL_COMMIT = bool(os.environ.get("MANUAL_COMMIT"))


class Failure(Exception):
    def __init__(self, reason, permanent):
        super().__init__(reason)
        self.permanent = permanent


def report(error, _):
    if error is not None:
        raise KafkaException(error)


class Worker(ConsumerProducerMixin):
    def __init__(self, connection):
        self.connection = connection
        self.http = requests.Session()

    def get_consumers(self, Consumer, channel):
        orders = Queue(os.environ["KAFKA_TOPIC"])
        consumer = Consumer(queues=[orders], callbacks=[self.on_order], accept=["json"], no_ack=MANUAL_COMMIT)
        consumer.qos(prefetch_count=1)
        return [consumer]

    def ack(self, message):
        if MANUAL_COMMIT:
            message.channel._get_consumer(message.topic).commit(asynchronous=False)
        else:
            message.ack()

    def on_order(self, order, message):
        try:
            self.charge(order, message)
        except Failure as failure:
            self.producer.publish(
                order,
                exchange="",
                routing_key=os.environ["KAFKA_DLQ_TOPIC"],
                serializer="json",
                headers={**message.headers, "failure": str(failure)},
            )
        self.ack(message)

    def charge(self, order, message):
        for attempt in range(ATTEMPTS):
            try:
                return self.call(order, message)
            except Failure as failure:
                if failure.permanent or attempt == ATTEMPTS - 1:
                    raise
                time.sleep(BACKOFF * 2**attempt)

    def call(self, order, message):
        try:
            answer = self.http.post(
                os.environ["DOWNSTREAM_URL"] + "/v1/attempt",
                json={"id": message.headers["id"], **order},
                timeout=1,
            )
        except requests.RequestException as error:
            raise Failure(str(error), False) from error
        if answer.status_code != 200:
            raise Failure(f"{answer.status_code} {answer.text}", answer.status_code in (400, 422))


def main():
    logging.basicConfig(level=logging.INFO)
    first = os.environ["KAFKA_BROKERS"].split(",")[0]
    options = {"kafka_common_config": {"bootstrap.servers": os.environ["KAFKA_BROKERS"]}}
    if BUG != "no-report":
        options["kafka_producer_config"] = {"on_delivery": report}
    with Connection(f"confluentkafka://{first}", transport_options=options) as connection:
        worker = Worker(connection)

        def stop(*_):
            worker.should_stop = True

        signal.signal(signal.SIGTERM, stop)
        worker.run()


if __name__ == "__main__":
    main()
