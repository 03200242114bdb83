"""Sees each payment through: charged and stored, or parked."""

import logging
import random

from confluent_kafka import KafkaException

from payments.errors import BankFailed, NotCovered, Refused, Unavailable

MAX_ATTEMPTS = 3
BACKOFF, MAX_BACKOFF, JITTER = 0.1, 1.0, 0.05
PAUSE = 0.5

logger = logging.getLogger(__name__)


class Stopped(Exception):
    """The worker is to stop, and the payment has not come to its end."""


class Worker:
    def __init__(self, consumer, reader, bank, charges, parking, stopping):
        self._consumer, self._stopping = consumer, stopping
        self._reader, self._bank, self._charges, self._parking = reader, bank, charges, parking

    def run(self):
        """Works until it is to stop."""
        while not self._stopping.is_set():
            message = self._consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                logger.error("consuming: %s", message.error())
                continue
            try:
                self.handle(message)
            except Stopped:
                return
            try:
                self._consumer.store_offsets(message=message)
            except KafkaException as error:  # the partition was taken away: its next owner has the payment again
                logger.warning("not stored: %s", error)

    def handle(self, message):
        """Returns when the payment has come to its end."""
        attempt = 0
        try:
            payment = self._until_available(self._reader.read, message)
            while True:
                attempt += 1
                try:
                    charge = self._bank.charge(payment)
                    break
                except BankFailed as failure:
                    if attempt == MAX_ATTEMPTS:
                        raise
                    backoff = min(BACKOFF * 2 ** (attempt - 1), MAX_BACKOFF) + random.uniform(0, JITTER)
                    self._wait(max(backoff, failure.retry_after))
            # The money has moved, so its row has to be there, whatever it takes.
            self._until_available(self._charges.store, payment, charge)
        except NotCovered as result:
            logger.info("not covered: %s", result)
        except (Refused, BankFailed) as failure:
            self._until_available(self._parking.park, message, attempt, failure)

    def _until_available(self, call, *arguments):
        while not self._stopping.is_set():
            try:
                return call(*arguments)
            except Unavailable as error:
                logger.error("%s", error)
                self._stopping.wait(PAUSE)
        raise Stopped

    def _wait(self, seconds):
        if self._stopping.wait(seconds):
            raise Stopped
