"""The dead letter part: it consumes the shared DLQ topic with hexkit's DLQSubscriberProtocol and republishes what was reviewed to the topic
retry-<service> of the service that the event failed in, by the checklist of hexkit's DLQ document: a fresh event_id, original_topic kept, and neither
service nor exc_class nor exc_msg. What is reviewed is told by a file: one record id per line. It ends when it has seen everything that was in
the topic when it began.
"""

import asyncio
import logging
import os
from uuid import uuid4

from aiokafka import AIOKafkaConsumer, TopicPartition
from hexkit.protocols.eventsub import DLQSubscriberProtocol
from hexkit.providers.akafka import KafkaEventPublisher, KafkaEventSubscriber

from settings import kafka_config


class Reviewer(DLQSubscriberProtocol):
    """Republishes the events of one service whose ids were reviewed; leaves all others where they are."""

    def __init__(self, publisher, service, reviewed, pause):
        self.publisher, self.service, self.reviewed, self.pause = publisher, service, reviewed, pause

    async def _consume_validated(self, *, payload, type_, topic, key, event_id, timestamp, headers):
        if headers.get("service") != self.service or payload.get("id") not in self.reviewed:
            return
        # The subscriber has set the event's correlation id for as long as this runs, so the publisher sends it along.
        await self.publisher.publish(
            payload=payload, type_=type_, key=key, topic="retry-" + self.service, event_id=uuid4(),
            headers={"original_topic": headers["original_topic"]},
        )
        await asyncio.sleep(self.pause)


async def count_events(config):
    """Returns how many events the DLQ topic holds."""
    consumer = AIOKafkaConsumer(bootstrap_servers=config.kafka_servers)
    await consumer.start()
    try:
        partitions = consumer.partitions_for_topic(config.kafka_dlq_topic) or await found(consumer, config.kafka_dlq_topic)
        topic = [TopicPartition(config.kafka_dlq_topic, number) for number in partitions]
        begin, end = await consumer.beginning_offsets(topic), await consumer.end_offsets(topic)
        return sum(end[partition] - begin[partition] for partition in topic)
    finally:
        await consumer.stop()


async def found(consumer, topic):
    """A consumer knows the partitions of topics that it was told of."""
    consumer.assign([TopicPartition(topic, 0)])
    while not (partitions := consumer.partitions_for_topic(topic)):
        await asyncio.sleep(0.05)
    return partitions


async def main():
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    environment = os.environ
    with open(environment["DLQBENCH_IDS_FILE"], encoding="ascii") as lines:
        reviewed = set(lines.read().split())
    service = environment["DLQBENCH_GROUP_ID"]
    config = kafka_config(environment).model_copy(
        update={"service_name": service + "-dlq", "service_instance_id": "reviewer", "kafka_enable_dlq": False, "kafka_max_retries": 0}
    )
    events = await count_events(config)
    async with KafkaEventPublisher.construct(config=config) as publisher:
        reviewer = Reviewer(publisher, service, reviewed, 1 / float(environment["DLQBENCH_REPLAY_RATE"]))
        async with KafkaEventSubscriber.construct(config=config, translator=reviewer) as subscriber:
            for _ in range(events):
                await subscriber.run(forever=False)


if __name__ == "__main__":
    asyncio.run(main())
