"""A consumer that fills a search index with the bulk helper of Elasticsearch's client. The answer to a call says of each document whether it was
indexed. Those that were refused for a while are tried again, three times in all; those that were refused for good are dead-lettered. The offsets of
a poll are committed when each of its records is either indexed or dead-lettered."""

import json
import logging
import os
import signal
import threading

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import Producer
from elasticsearch import Elasticsearch, TransportError, helpers

from bulk import Stopped, dead_letter

MAX_ATTEMPTS = 3
PLANTED_BUG = os.environ.get("PLANTED_BUG")
RETRYABLE = (429, 503)

logger = logging.getLogger("search")
stopping = threading.Event()


def index(client, documents):
    """Tries to index the documents once, and returns (document, reason, retryable) for each that was refused."""
    actions = [{"_op_type": "index", "_index": "orders", "_id": one["id"], "_source": one} for _, one in documents]
    try:
        results = list(helpers.streaming_bulk(client, actions, raise_on_error=False, raise_on_exception=False))
    except TransportError as error:  # no answer: nothing is known of any of them
        return [(one, repr(error), True) for one in documents]
    refused = []
    for document, (ok, item) in zip(documents, results):
        status, error = item["index"]["status"], item["index"].get("error")
        if ok or PLANTED_BUG == "item-errors-ignored" and status in (400, 422):
            continue
        refused.append((document, f"{status} {error}", status in RETRYABLE))
    return refused


def process(client, producer, messages):
    documents = []
    for message in messages:
        try:
            order = json.loads(message.value())
            documents.append((message, {**order, "id": order["id"]}))
        except (TypeError, ValueError, KeyError) as error:
            dead_letter(producer, message, error)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        if not documents:
            return
        refused = index(client, documents)
        again = [one for one, _, retryable in refused if retryable and attempt < MAX_ATTEMPTS]
        for document, reason, retryable in refused:
            if retryable and attempt < MAX_ATTEMPTS:
                continue
            if PLANTED_BUG == "wrong-item-parked":
                document = documents[0]
            dead_letter(producer, document[0], reason)
        if PLANTED_BUG == "all-repeated" and again:
            again = documents
        documents = again
        if documents and stopping.wait(0.1 * 2**attempt):
            raise Stopped("documents were not indexed")


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    servers = {"bootstrap.servers": os.environ["KAFKA_BROKERS"]}
    producer = Producer({**servers, "message.max.bytes": 1048588}, logger=logger)
    consumer = Consumer({**servers, "group.id": os.environ["KAFKA_GROUP"], "auto.offset.reset": "earliest", "enable.auto.commit": False}, logger=logger)
    consumer.subscribe([os.environ["KAFKA_TOPIC"]])
    client = Elasticsearch(os.environ["SEARCH_URL"], request_timeout=1, max_retries=0)
    try:
        while not stopping.is_set():
            messages = [one for one in consumer.consume(100, 0.2) if not one.error()]
            if not messages:
                continue
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
    main()
