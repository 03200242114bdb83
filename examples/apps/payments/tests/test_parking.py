from unittest import mock

import pytest

from payments.errors import Unavailable
from payments.parking import Parking


class Message:
    def topic(self):
        return "payments"

    def partition(self):
        return 2

    def offset(self):
        return 7

    def key(self):
        return b"key"

    def value(self):
        return b"value"

    def headers(self):
        return [("traceparent", b"00-1"), ("parked-from", b"elsewhere")]


class Producer:
    """Reports these errors, None for a write that was acknowledged."""

    def __init__(self, *errors):
        self.errors, self.produced, self._waiting = list(errors), [], []

    def produce(self, topic, on_delivery, **record):
        self.produced.append((topic, record))
        self._waiting.append(on_delivery)

    def flush(self, _timeout):
        for report in self._waiting if self.errors else []:
            report(self.errors.pop(0), None)


def park(producer, stopping=False):
    Parking(producer, mock.Mock(is_set=lambda: stopping)).park(Message(), 3, "no such account")


def test_parks():
    producer = Producer(None)
    park(producer)
    assert producer.produced == [
        (
            "payments.parked",
            {
                "key": b"key",
                "value": b"value",
                "headers": [
                    ("traceparent", b"00-1"),
                    ("parked-from", "payments"),
                    ("parked-partition", "2"),
                    ("parked-offset", "7"),
                    ("parked-attempts", "3"),
                    ("parked-because", "no such account"),
                ],
            },
        )
    ]


def test_says_that_it_was_not_parked():
    with pytest.raises(Unavailable, match="not authorized"):
        park(Producer("not authorized"))


def test_stops_while_nothing_is_reported():
    with pytest.raises(Unavailable):
        park(Producer(), stopping=True)
