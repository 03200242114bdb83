"""A service on Quix Streams: a StreamingDataFrame whose filter keeps the orders that could not be charged, and
`to_topic`, which writes them to the dead-letter topic. Quix Streams flushes its producer, and then commits, every five
seconds. Settings are the library's defaults, but for the beginning of the topic and the size of a dead letter."""

import os
import time

import requests
from quixstreams import Application, message_context

MAX_ATTEMPTS = 3
BACKOFF = 0.1
# A mistake that tests plant, to see it named; none otherwise.
PLANTED_BUG = os.environ.get("PLANTED_BUG")

session = requests.Session()


def call(order):
    """Returns the status of the downstream's answer, or none without one."""
    try:
        return session.post(os.environ["DOWNSTREAM_URL"] + "/v1/attempt", data=order, timeout=1).status_code
    except requests.RequestException:
        return None


def charged(order):
    for attempt in range(MAX_ATTEMPTS):
        status = call(order)
        if status == 200:
            return True
        if status in (400, 404, 422):
            return False
        if attempt < MAX_ATTEMPTS - 1:
            time.sleep(BACKOFF * 2**attempt)
    return False


def with_origin(order, key, timestamp, headers):
    origin = message_context()
    return [
        *(headers or []),
        ("x-topic", origin.topic),
        ("x-partition", str(origin.partition)),
        ("x-offset", str(origin.offset)),
    ]


def logged(error, row, logger):
    """A mistake: the error is reported, and the application goes on."""
    logger.error("processing or producing failed: %s", error)
    return True


def main():
    app = Application(
        broker_address=os.environ["KAFKA_BROKERS"],
        consumer_group=os.environ["KAFKA_GROUP"],
        auto_offset_reset="earliest",
        producer_extra_config={"message.max.bytes": 1048588},  # as the broker; a dead letter has more headers
        **({"on_processing_error": logged} if PLANTED_BUG == "errors-suppressed" else {}),
    )
    orders = app.topic(os.environ["KAFKA_TOPIC"], key_deserializer="bytes", value_deserializer="bytes")
    letters = app.topic(os.environ["KAFKA_DLQ_TOPIC"], key_serializer="bytes", value_serializer="bytes")

    stream = app.dataframe(orders)
    stream = stream.filter(lambda order: order is not None)  # a deleted order
    stream = stream.filter(lambda order: not charged(order))
    stream = stream.set_headers(with_origin)
    stream.to_topic(letters)
    app.run()


if __name__ == "__main__":
    main()
