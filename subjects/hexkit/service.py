"""A service built on hexkit: it consumes one topic, and what it does with an event is one call of the downstream.

Everything that has to do with retries, the dead letter queue and offsets is hexkit's own: this file only wires its classes together, as its
documentation shows it.
"""

import asyncio
import http.client
import json
import logging
import os
import signal
import urllib.parse

from hexkit.correlation import get_correlation_id
from hexkit.protocols.eventsub import EventSubscriberProtocol
from hexkit.providers.akafka import KafkaEventPublisher, KafkaEventSubscriber

from settings import EVENT_TYPE, kafka_config

CALL_TIMEOUT = 1.0  # seconds

log = logging.getLogger("service")


class DownstreamError(Exception):
    """The downstream did not do what was asked of it."""


class Downstream:
    """The service that every event is posted to, on one connection that is kept open."""

    def __init__(self, url):
        self.address = urllib.parse.urlsplit(url).netloc
        self.connection = None

    def call(self, body, headers):
        """Makes one attempt; raises DownstreamError, or what the connection raised."""
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection(self.address, timeout=CALL_TIMEOUT)
            self.connection.request("POST", "/v1/attempt", body=body, headers=headers)
            response = self.connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException):
            if self.connection is not None:
                self.connection.close()
            self.connection = None
            raise
        if response.status != 200:
            raise DownstreamError(json.loads(answer)["error"])


class Translator(EventSubscriberProtocol):
    """Hands each event to the downstream."""

    def __init__(self, topic, downstream):
        self.topics_of_interest, self.types_of_interest = [topic], [EVENT_TYPE]
        self.downstream = downstream

    async def _consume_validated(self, *, payload, type_, topic, key, event_id):
        # hexkit does not tell a translator which partition and offset the event is from.
        headers = {"X-Correlation-Id": str(get_correlation_id())}
        await asyncio.to_thread(self.downstream.call, json.dumps(payload).encode(), headers)


async def serve(environment):
    """Consumes until it is cancelled, or until hexkit gives up."""
    config = kafka_config(environment)
    translator = Translator(environment["DLQBENCH_INPUT_TOPIC"], Downstream(environment["DLQBENCH_ORACLE_URL"]))
    async with (
        KafkaEventPublisher.construct(config=config) as publisher,
        KafkaEventSubscriber.construct(config=config, translator=translator, dlq_publisher=publisher) as subscriber,
    ):
        await subscriber.run()


async def main():
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    serving = asyncio.create_task(serve(os.environ))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    try:
        await serving
    except asyncio.CancelledError:
        log.info("stopped")


if __name__ == "__main__":
    asyncio.run(main())
