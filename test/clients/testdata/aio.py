"""Copies COUNT different records from one topic to another with aiokafka."""

import asyncio
import sys
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

bootstrap, source, target, group, count, mode = sys.argv[1:]


async def main():
    consumer = AIOKafkaConsumer(source, bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest")
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
    await producer.start()
    await consumer.start()
    copied, limit = set(), time.monotonic() + 90
    while len(copied) < int(count):
        if time.monotonic() > limit:
            sys.exit(f"only {len(copied)} records came in time")
        batches = await consumer.getmany(timeout_ms=500, max_records=50)
        messages = [message for batch in batches.values() for message in batch]
        if not messages:
            continue
        await asyncio.gather(*[await producer.send(target, value=message.value, key=message.key) for message in messages])
        try:
            await consumer.commit()
        except KafkaError as error:
            print("a commit failed:", error)
        copied.update(message.value for message in messages)
    await consumer.stop()
    await producer.stop()
    print("copied", len(copied))


asyncio.run(main())
