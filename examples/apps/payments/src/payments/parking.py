"""The topic for payments that can't be charged."""

from confluent_kafka import KafkaException

from payments.errors import Unavailable

PARKED = "payments.parked"


class Parking:
    def __init__(self, producer, stopping):
        self._producer, self._stopping = producer, stopping

    def park(self, message, attempts, failure):
        """Parks a payment. It is parked when the broker has acknowledged it."""
        headers = [header for header in message.headers() or [] if not header[0].startswith("parked-")] + [
            ("parked-from", message.topic()),
            ("parked-partition", str(message.partition())),
            ("parked-offset", str(message.offset())),
            ("parked-attempts", str(attempts)),
            ("parked-because", str(failure)),
        ]
        reports = []
        try:
            self._producer.produce(
                PARKED,
                key=message.key(),
                value=message.value(),
                headers=headers,
                on_delivery=lambda error, _: reports.append(error),
            )
            while not reports and not self._stopping.is_set():
                self._producer.flush(1.0)
            if not reports:  # it may be acknowledged by now
                self._producer.flush(1.0)
        except (BufferError, KafkaException) as error:
            raise Unavailable(f"parking: {error}") from error
        if not reports or reports[0] is not None:
            raise Unavailable(f"parking: {reports}")
