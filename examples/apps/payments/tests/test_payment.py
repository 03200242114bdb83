import json
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from unittest import mock
from uuid import UUID

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from httpx2 import ConnectError

from payments.errors import Refused, Unavailable
from payments.payment import Payment, PaymentReader

PAYMENT = {
    "payment_id": "6f1c2a90-3f0e-4d55-9f6e-0f3f4a1b7c01",
    "customer": {"number": 1017},
    "amount": "129.90",
    "currency": "EUR",
    "ordered_at": "2026-03-02T09:14:05Z",
}


class Message:
    def __init__(self, value):
        self._value = value

    def topic(self):
        return "payments"

    def value(self):
        return self._value


def message(change=(), schema_id=1):
    return Message(b"\0" + schema_id.to_bytes(4, "big") + json.dumps(PAYMENT | dict(change)).encode())


@pytest.fixture
def registry():
    registry = SchemaRegistryClient.new_client({"url": "mock://"})
    text = Path(__file__).parent.parent.joinpath("payment.schema.json").read_text(encoding="utf-8")
    registry.register_schema("payments-value", Schema(text, "JSON"))
    return registry


def test_reads_a_payment(registry):
    assert PaymentReader(registry).read(message()) == Payment(
        payment_id=UUID("6f1c2a90-3f0e-4d55-9f6e-0f3f4a1b7c01"),
        customer=1017,
        amount=Decimal("129.90"),
        currency="EUR",
        ordered_at=datetime(2026, 3, 2, 9, 14, 5, tzinfo=timezone.utc),
    )


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"payment",
        b"\0\0\0\0\1{",
        message({"amount": 129.9}).value(),
        message({"customer": {}}).value(),
        message({"currency": "DEM"}).value(),
        message({"ordered_at": "yesterday"}).value(),
    ],
)
def test_refuses_what_is_no_payment(registry, value):
    with pytest.raises(Refused, match="not a payment"):
        PaymentReader(registry).read(Message(value))


def test_refuses_an_unknown_schema(registry):
    with pytest.raises(Refused, match="unknown schema"):
        PaymentReader(registry).read(message(schema_id=7))


@pytest.mark.parametrize("error", [SchemaRegistryError(503, 50301, "away"), ConnectError("away")])
def test_says_that_the_registry_is_away(registry, error):
    with mock.patch.object(registry, "get_schema", side_effect=error), pytest.raises(Unavailable):
        PaymentReader(registry).read(message())
