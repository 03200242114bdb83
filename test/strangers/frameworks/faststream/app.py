"""A service on FastStream with its Kafka broker, which is aiokafka. The handler retries by itself, publishes what fails
for good to a dead-letter topic, and lets exceptions be nacked, which reads the message again."""

import asyncio
import os

import aiohttp
from faststream import AckPolicy, FastStream
from faststream.kafka import KafkaBroker, KafkaMessage

MAX_ATTEMPTS = 3
BACKOFF = 0.1  # times the number of the attempt

# A mistake that tests plant, to see it named: by default, FastStream commits what is not handled yet.
ack_first = os.environ.get("PLANTED_BUG") == "ack-first-by-default"

broker = KafkaBroker(os.environ["KAFKA_BROKERS"].split(","), acks="all")
app = FastStream(broker)


class Refused(Exception):
    def __init__(self, reason, status=None):
        super().__init__(reason)
        self.status = status


@broker.subscriber(
    os.environ["KAFKA_TOPIC"],
    group_id=os.environ["KAFKA_GROUP"],
    auto_offset_reset="earliest",
    **({} if ack_first else {"ack_policy": AckPolicy.NACK_ON_ERROR}),
)
async def handle(message: KafkaMessage):
    record = message.raw_message
    if record.value is None:
        return  # a deleted order
    for attempt in range(1, MAX_ATTEMPTS + 1):
        try:
            return await take_payment(record.value)
        except Refused as failure:
            if failure.status in (400, 404, 422) or attempt == MAX_ATTEMPTS:
                return await dead_letter(record, attempt, str(failure))
        await asyncio.sleep(BACKOFF * attempt)


async def take_payment(order):
    timeout = aiohttp.ClientTimeout(total=1)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session:
            async with session.post(os.environ["DOWNSTREAM_URL"] + "/v1/attempt", data=order) as response:
                if response.status != 200:
                    raise Refused(await response.text(errors="replace"), response.status)
    except (aiohttp.ClientError, asyncio.TimeoutError) as error:
        raise Refused(repr(error)) from error


async def dead_letter(record, attempts, reason):
    await broker.publish(
        record.value,
        topic=os.environ["KAFKA_DLQ_TOPIC"],
        key=record.key,
        headers={
            "x-error": reason,
            "x-attempts": str(attempts),
            "x-topic": record.topic,
            "x-partition": str(record.partition),
            "x-offset": str(record.offset),
        },
    )


if __name__ == "__main__":
    asyncio.run(app.run())
