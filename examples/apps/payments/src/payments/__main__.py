import logging
import os
import signal
import threading

from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient

from payments.bank import Bank
from payments.charges import Charges
from payments.parking import Parking
from payments.payment import PaymentReader
from payments.worker import Worker

TOPIC, GROUP = "payments", "payments-worker"

logger = logging.getLogger("payments")


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    charges = Charges(os.environ["DATABASE_URL"])
    try:
        charges.migrate()
        work(charges, stopping)
    finally:
        charges.close()
    logger.info("closed")


def work(charges, stopping):
    servers = {"bootstrap.servers": os.environ["KAFKA_BROKERS"]}
    # A parked payment is a little larger than it was: the default of 1 MB is less than brokers take.
    producer = Producer({**servers, "message.max.bytes": 1048588}, logger=logger)
    consumer = Consumer(
        {
            **servers,
            "group.id": GROUP,
            "session.timeout.ms": 10000,
            "auto.offset.reset": "earliest",
            "enable.auto.offset.store": False,
        },
        logger=logger,
    )
    consumer.subscribe([TOPIC])
    # The worker itself waits until the registry is there, and can be stopped meanwhile.
    registry = SchemaRegistryClient({"url": os.environ["SCHEMA_REGISTRY_URL"], "max.retries": 0})
    bank = Bank(os.environ["BANK_URL"])
    try:
        Worker(consumer, PaymentReader(registry), bank, charges, Parking(producer, stopping), stopping).run()
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
