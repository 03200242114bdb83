"""Payments as other services send them: JSON, with the schema in the schema registry."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from confluent_kafka.schema_registry import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from httpx2 import TransportError

from payments.errors import Refused, Unavailable


@dataclass(frozen=True)
class Payment:
    payment_id: UUID
    customer: int
    amount: Decimal
    currency: str
    ordered_at: datetime

    @classmethod
    def from_dict(cls, value, _context=None):
        return cls(
            payment_id=UUID(value["payment_id"]),
            customer=value["customer"]["number"],
            amount=Decimal(value["amount"]),
            currency=value["currency"],
            ordered_at=datetime.fromisoformat(value["ordered_at"].replace("Z", "+00:00")),
        )


class PaymentReader:
    def __init__(self, registry):
        self._deserialize = JSONDeserializer(None, from_dict=Payment.from_dict, schema_registry_client=registry)

    def read(self, message):
        """Returns the payment in a message. The first of each schema asks the registry for it."""
        context = SerializationContext(message.topic(), MessageField.VALUE)
        try:
            payment = self._deserialize(message.value(), context)
        except (TransportError, SchemaRegistryError) as error:
            if getattr(error, "http_status_code", 0) == 404:
                raise Refused(f"unknown schema: {error}") from error
            raise Unavailable(f"the schema registry: {error!r}") from error
        except Exception as error:  # the deserializer raises many kinds at bytes that are no payment
            raise Refused(f"not a payment: {error!r}"[:500]) from error
        if payment is None:
            raise Refused("not a payment: no value")
        return payment
