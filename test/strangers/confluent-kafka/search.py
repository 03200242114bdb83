"""A consumer that fills a search index with the bulk helper of Elasticsearch's client. The answer to a call says of each document whether it was
indexed. Those that were refused for a while are tried again, three times in all; those that were refused for good are dead-lettered. The offsets of
a poll are committed when each of its records is either indexed or dead-lettered."""

import json
import os

from elasticsearch import Elasticsearch, TransportError, helpers

import bulk
from bulk import Stopped, dead_letter, stopping

MAX_ATTEMPTS = 3
PLANTED_BUG = os.environ.get("PLANTED_BUG")
RETRYABLE = (429, 503)


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


if __name__ == "__main__":
    bulk.main(Elasticsearch(os.environ["SEARCH_URL"], request_timeout=1, max_retries=0), process)
