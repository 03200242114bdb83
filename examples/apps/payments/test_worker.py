import unittest
from unittest import mock

import worker
from confluent_kafka.schema_registry import SchemaRegistryError

PAYMENT = {"payment_id": "p-1", "amount": "12.50", "currency": "EUR", "customer": {"number": "c-1"}}


class Message:
    def topic(self):
        return "payments"

    def value(self):
        return b"value"


class Decode(unittest.TestCase):
    def test_waits_for_the_registry(self):
        deserialize = mock.Mock(side_effect=[SchemaRegistryError(503, 50301, "away"), PAYMENT])
        with mock.patch.object(worker.stopping, "wait") as wait:
            self.assertEqual(worker.decode(deserialize, Message()), PAYMENT)
        wait.assert_called_once()

    def test_a_record_that_is_no_payment(self):
        for failure in (ValueError("no Avro"), SchemaRegistryError(404, 40403, "no such schema")):
            with self.assertRaises(worker.Unreadable):
                worker.decode(mock.Mock(side_effect=failure), Message())


class Process(unittest.TestCase):
    def process(self, *results):
        """Returns how often the bank was called, and how the payment was parked."""
        with mock.patch.object(worker, "charge", side_effect=results) as charge:
            with mock.patch.object(worker, "park", return_value=True) as park:
                with mock.patch.object(worker.stopping, "wait"):
                    self.assertTrue(worker.process(None, mock.Mock(return_value=PAYMENT), None, Message()))
        return charge.call_count, [call.args[2] for call in park.call_args_list]

    def test_charged(self):
        self.assertEqual(self.process(None), (1, []))

    def test_charged_after_a_failure(self):
        self.assertEqual(self.process(worker.Declined("away", 503), None), (2, []))

    def test_never_charged(self):
        self.assertEqual(self.process(*[worker.Declined("away", 503)] * 3), (3, [3]))

    def test_refused(self):
        self.assertEqual(self.process(worker.Declined("no", 422)), (1, [1]))

    def test_not_covered(self):
        self.assertEqual(self.process(worker.Declined("poor", 402)), (1, []))


if __name__ == "__main__":
    unittest.main()
