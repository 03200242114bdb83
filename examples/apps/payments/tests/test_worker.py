from unittest import mock

import pytest

from payments.errors import BankFailed, NotCovered, Refused, Unavailable
from payments.worker import Stopped, Worker


class Stopping:
    """Counts the waits, and is set after some of them."""

    def __init__(self, after=100):
        self.waits, self.after = [], after

    def is_set(self):
        return len(self.waits) >= self.after

    def wait(self, seconds):
        self.waits.append(seconds)
        return self.is_set()


@pytest.fixture
def parts():
    return {name: mock.Mock() for name in ("consumer", "reader", "bank", "charges", "parking")}


def handle(parts, stopping=None):
    stopping = stopping or Stopping()
    Worker(**parts, stopping=stopping).handle("message")
    return stopping.waits


def test_charges_and_stores(parts):
    assert handle(parts) == []
    parts["charges"].store.assert_called_once_with(parts["reader"].read(), parts["bank"].charge())
    parts["parking"].park.assert_not_called()


def test_calls_again(parts):
    parts["bank"].charge.side_effect = [BankFailed("away"), BankFailed("busy", retry_after=3.0), "c-1"]
    first, second = handle(parts)
    assert 0.1 <= first <= 0.15 and second == 3.0
    parts["charges"].store.assert_called_once()


def test_parks_when_the_bank_fails(parts):
    failures = [BankFailed("away") for _ in range(3)]
    parts["bank"].charge.side_effect = failures
    assert len(handle(parts)) == 2
    parts["parking"].park.assert_called_once_with("message", 3, failures[-1])


def test_parks_what_is_refused(parts):
    parts["bank"].charge.side_effect = refused = Refused("no such account")
    assert handle(parts) == []
    parts["parking"].park.assert_called_once_with("message", 1, refused)


def test_parks_what_is_no_payment(parts):
    parts["reader"].read.side_effect = refused = Refused("not a payment")
    handle(parts)
    parts["parking"].park.assert_called_once_with("message", 0, refused)


def test_is_not_covered(parts):
    parts["bank"].charge.side_effect = NotCovered("poor")
    handle(parts)
    parts["charges"].store.assert_not_called()
    parts["parking"].park.assert_not_called()


@pytest.mark.parametrize("part, call", [("reader", "read"), ("charges", "store"), ("parking", "park")])
def test_waits_for_what_is_away(parts, part, call):
    if part == "parking":
        parts["bank"].charge.side_effect = Refused("no such account")
    getattr(parts[part], call).side_effect = [Unavailable("away"), Unavailable("away"), mock.DEFAULT]
    assert handle(parts) == [0.5, 0.5]
    assert parts["bank"].charge.call_count == 1


def test_stops_while_it_waits(parts):
    parts["charges"].store.side_effect = Unavailable("away")
    with pytest.raises(Stopped):
        handle(parts, Stopping(after=2))
    parts["parking"].park.assert_not_called()
