"""The consumer of a Django application, as django-kafka's documentation writes one, but for its producer."""

import os

import requests
from confluent_kafka import KafkaException
from django_kafka import kafka
from django_kafka.consumer import Consumer, Topics
from django_kafka.producer import Producer
from django_kafka.topic import TopicConsumer

RETRY_TOPICS = os.environ.get("RETRY") == "topics"

# The producer as it is published: the offset is stored while the dead letter or the copy is still on its way.
unconfirmed = os.environ.get("PLANTED_BUG") == "unconfirmed"


class ConfirmedProducer(Producer):
    """Waits until a message is acknowledged. If it is not, the exception ends the process."""

    def produce(self, name, *args, **kwargs):
        refused = []
        kwargs["on_delivery"] = lambda error, _: refused.append(error) if error else None
        super().produce(name, *args, **kwargs)
        if self.flush(20):
            raise TimeoutError(f"{name} did not acknowledge a message")
        if refused:
            raise KafkaException(refused[0])


class Refused(Exception):
    """The payment was refused for good."""


@kafka.retry(max_retries=3, delay=1, exclude=[Refused], blocking=not RETRY_TOPICS)
class Orders(TopicConsumer):
    name = os.environ["KAFKA_TOPIC"]

    def consume(self, msg):
        if msg.value() is None:
            return  # a deleted order
        response = requests.post(os.environ["DOWNSTREAM_URL"] + "/v1/attempt", data=msg.value(), timeout=1)
        if response.status_code in (400, 404, 422):
            raise Refused(response.text)
        response.raise_for_status()


@kafka.consumers()
class OrdersConsumer(Consumer):
    topics = Topics(Orders())

    def start(self, stop_event=None):
        if not unconfirmed:
            kafka.producer = ConfirmedProducer()  # in the consumer's process
        super().start(stop_event)
