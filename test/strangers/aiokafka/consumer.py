"""A consumer on aiokafka as its documentation writes one that commits by hand: batches by getmany, the partitions of a batch side by side, a commit per
partition, and a rebalance listener that waits for the batch under way. All settings of the client are its defaults, but for what the work needs."""

import asyncio
import base64
import io
import json
import logging
import math
import os
import random
import signal
import time

import aiohttp
import asyncpg
import fastavro
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

# "unlimited": a record is tried until it succeeds or is refused for good.
ATTEMPTS = os.environ.get("ATTEMPTS", "5")
MAX_ATTEMPTS = math.inf if ATTEMPTS == "unlimited" else int(ATTEMPTS)
BACKOFF, MAX_BACKOFF, JITTER = 0.05, float(os.environ.get("MAX_BACKOFF", 0.4)), 0.02
FAILURE = ("x-error-reason", "x-retry-attempt", "source-topic", "partition", "offset", "epoch")

ON_UNREADABLE = os.environ.get("ON_UNREADABLE")  # "end" or "again": what becomes of the loop at a value that is not an order; values are not read without it
DEAD_LETTERS_URL = os.environ.get("DEAD_LETTERS_URL")  # an error store, or a database, that takes dead letters in the place of a topic
TABLE = "CREATE TABLE IF NOT EXISTS dead_letters (position text PRIMARY KEY, letter jsonb NOT NULL)"
PLANTED_BUG = os.environ.get("PLANTED_BUG")  # a mistake that tests plant, to see it named

logger = logging.getLogger("worker")


def order(value):
    """Returns the value as it came, which is sent on; raises where it is not an order."""
    if value is not None and not isinstance(json.loads(value)["id"], str):
        raise ValueError("the id is not text")
    return value


def own_headers(message):
    """Returns what the application wrote: all headers, but for the last of each in FAILURE if the message comes back from the dead-letter topic with all of them."""
    last = {name: index for index, (name, _) in enumerate(message.headers) if name in FAILURE}
    drop = set(last.values()) if len(last) == len(FAILURE) else ()
    return [header for index, header in enumerate(message.headers) if index not in drop]


def encoded(data):
    return None if data is None else base64.b64encode(data).decode()


class Refused(Exception):
    def __init__(self, reason, status=None, retry_after=0.0):
        super().__init__(reason)
        self.status, self.retry_after = status, retry_after


class Interrupted(Exception):
    """The record was not finished: the service stops, or its partition goes."""


class Unreadable(Exception):
    """The value can't be decoded: it does not name a schema, or not one that it fits."""


class Worker(ConsumerRebalanceListener):
    def __init__(self, consumer, producer, session):
        self.consumer, self.producer, self.session = consumer, producer, session
        self.registry, self.schemas = os.environ.get("SCHEMA_REGISTRY_URL"), {}
        self.busy, self.letters, self.table = asyncio.Lock(), set(), None
        self.interrupt = asyncio.Event()
        self.stopping = False

    async def on_partitions_revoked(self, revoked):
        self.interrupt.set()
        async with self.busy:  # the batch under way comes to its end, and is committed
            pass

    async def on_partitions_assigned(self, assigned):
        if not self.stopping:
            self.interrupt.clear()

    def stop(self):
        self.stopping = True
        self.interrupt.set()

    async def run(self):
        while not self.stopping:
            try:
                batch = await self.fetch()
            except (ValueError, KeyError, TypeError):  # the deserializer's
                if ON_UNREADABLE == "end":
                    raise
                logger.exception("a value is not an order")
                await asyncio.sleep(0.5)
                continue
            async with self.busy:
                if self.interrupt.is_set():
                    continue  # fetched before the partitions went: they are read again by who gets them
                await asyncio.gather(*(self.partition(tp, messages) for tp, messages in batch.items()))

    async def fetch(self):
        """Returns messages by partition. One at a time where unreadable ones are met again: getmany then keeps back those before it, too."""
        if ON_UNREADABLE != "again" or PLANTED_BUG == "deserializer-in-getmany":
            return await self.consumer.getmany(timeout_ms=200, max_records=1 if PLANTED_BUG == "auto-commit-at-stop" else 50)
        try:
            message = await asyncio.wait_for(self.consumer.getone(), 0.2)
        except asyncio.TimeoutError:
            return {}
        return {TopicPartition(message.topic, message.partition): [message]}

    async def partition(self, tp, messages):
        done = None
        try:
            for message in messages:
                await self.process(message)
                done = message.offset + 1
                if ATTEMPTS == "unlimited":  # the next one may take long: what is finished by now is committed before
                    await self.commit(tp, done)
        except Interrupted:
            pass
        if done is not None and ATTEMPTS != "unlimited" and PLANTED_BUG != "auto-commit-at-stop":
            await self.commit(tp, done)

    async def commit(self, tp, done):
        try:
            await self.consumer.commit({tp: done})
        except KafkaError as error:
            logger.error("commit of %s at %d failed: %s", tp, done, error)

    async def process(self, message):
        attempt, began = 0, time.monotonic()
        if PLANTED_BUG == "auto-commit-at-stop":
            order(message.value)
        try:
            body = await self.body(message.value)
        except Unreadable as failure:
            logger.error("%s-%d at %d: %s", message.topic, message.partition, message.offset, failure)
            await self.dead_letter(message, 1, str(failure))
            return
        while not self.interrupt.is_set():
            attempt += 1
            try:
                await self.call(message, body)
                return
            except Refused as failure:
                if failure.status == 422:
                    logger.info("refused by the business: %s", failure)
                    return
                if PLANTED_BUG == "ticket-at-first-failure" and attempt == 1 and failure.status != 400:
                    await self.dead_letter(message, attempt, str(failure))
                if failure.status == 400 or attempt == MAX_ATTEMPTS or PLANTED_BUG == "every-failure-is-final":
                    await self.dead_letter(message, attempt, str(failure))
                    return
                if PLANTED_BUG == "max-elapsed" and time.monotonic() - began > 5:
                    logger.error("%s-%d at %d: given up: %s", message.topic, message.partition, message.offset, failure)
                    return
                wait = min(BACKOFF * 2 ** min(attempt - 1, 30), MAX_BACKOFF) + random.uniform(0, JITTER)
                await self.sleep(max(wait, failure.retry_after))
        raise Interrupted

    async def body(self, value):
        """Returns what is sent on: the value, as JSON where it has a schema."""
        if self.registry is None or value is None:
            return value or b""
        if len(value) < 5 or value[0] != 0:
            raise Unreadable("the value names no schema")
        schema = await self.schema(int.from_bytes(value[1:5], "big"))
        try:
            return json.dumps(fastavro.schemaless_reader(io.BytesIO(value[5:]), schema)).encode()
        except (EOFError, ValueError, IndexError, TypeError, OverflowError) as error:
            raise Unreadable(f"the value does not fit its schema: {error!r}") from error

    async def schema(self, number):
        """Returns a schema. Asks the registry for it until it is there: only one that it does not know is the record's fault."""
        while number not in self.schemas:
            try:
                async with self.session.get(f"{self.registry}/schemas/ids/{number}") as response:
                    if response.status == 404:
                        raise Unreadable(f"there is no schema {number}")
                    response.raise_for_status()
                    self.schemas[number] = fastavro.parse_schema(json.loads((await response.json(content_type=None))["schema"]))
            except (aiohttp.ClientError, asyncio.TimeoutError) as error:
                logger.error("schema %d: %r", number, error)
                if PLANTED_BUG == "registry-error-is-unreadable":
                    raise Unreadable(f"there is no schema {number}") from error
                await self.sleep(0.5)
                if self.interrupt.is_set():
                    raise Interrupted from error
        return self.schemas[number]

    async def call(self, message, body):
        position = {"X-Kafka-Topic": message.topic, "X-Kafka-Partition": str(message.partition), "X-Kafka-Offset": str(message.offset)}
        try:
            async with self.session.post(os.environ["DOWNSTREAM_URL"] + "/v1/attempt", data=body, headers=position) as response:
                answer = await response.read()
                if response.status == 200:
                    return
                try:
                    reason = (await response.json(content_type=None))["error"]
                except (ValueError, KeyError, TypeError):
                    reason = answer.decode("utf-8", "replace")
                raise Refused(reason, response.status, float(response.headers.get("Retry-After", 0)))
        except (aiohttp.ClientError, asyncio.TimeoutError) as error:
            raise Refused(repr(error)) from error

    async def dead_letter(self, message, attempts, reason):
        """Returns when the dead letter is acknowledged."""
        if DEAD_LETTERS_URL:
            parked = self.park(message, attempts, reason)
            if PLANTED_BUG == "letter-not-awaited":
                self.letters.add(asyncio.create_task(parked))
            else:
                await parked
            return
        headers = own_headers(message) + [
            ("x-error-reason", reason.encode("utf-8", "replace")),
            ("x-retry-attempt", str(attempts).encode()),
            ("source-topic", message.topic.encode()),
            ("partition", str(message.partition).encode()),
            ("offset", str(message.offset).encode()),
            ("epoch", b"-1"),  # aiokafka does not tell it
        ]
        topic = os.environ.get("KAFKA_DLQ_TOPIC") or message.topic + ".dlt"
        while not self.interrupt.is_set():
            try:
                await self.producer.send_and_wait(topic, key=message, value=message, headers=headers)
                return
            except KafkaError as error:
                logger.error("dead letter of %s-%d at %d failed: %r", message.topic, message.partition, message.offset, error)
                await self.sleep(0.5)
        raise Interrupted

    async def park(self, message, attempts, reason):
        """Returns when the error store has taken the message. It is asked until it does: what it refuses today, it may take when somebody has looked at it."""
        letter = {
            "topic": message.topic, "partition": message.partition, "offset": message.offset, "attempts": attempts, "reason": reason,
            "key": encoded(message.key), "value": encoded(message.value), "headers": [[name, encoded(value)] for name, value in message.headers],
        }
        while not self.interrupt.is_set():
            try:
                if DEAD_LETTERS_URL.startswith("postgres:"):
                    await self.insert(letter)
                    return
                async with self.session.post(DEAD_LETTERS_URL + "/dead-letters", json=letter) as response:
                    if PLANTED_BUG != "status-not-checked":  # aiohttp does not raise by itself
                        response.raise_for_status()
                    return
            except (aiohttp.ClientError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError, asyncio.TimeoutError) as error:
                logger.error("dead letter of %s-%d at %d failed: %r", message.topic, message.partition, message.offset, error)
                await self.sleep(0.5)
        raise Interrupted

    async def insert(self, letter):
        if self.table is None:
            self.table = await asyncpg.create_pool(DEAD_LETTERS_URL, min_size=0, command_timeout=2)
            await self.table.execute(TABLE)
        async with self.table.acquire() as connection:
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute("INSERT INTO dead_letters (position, letter) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                                     f"{letter['topic']}-{letter['partition']}@{letter['offset']}", json.dumps(letter))
            if PLANTED_BUG != "not-committed":  # the pool rolls it back when it gets the connection back
                await transaction.commit()

    async def sleep(self, seconds):
        try:
            await asyncio.wait_for(self.interrupt.wait(), seconds)
        except asyncio.TimeoutError:
            pass


async def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s [%(levelname)s] %(name)s: %(message)s")
    logging.getLogger("aiokafka").setLevel(logging.WARNING)
    servers = os.environ["KAFKA_BROKERS"].split(",")
    topic = os.environ["KAFKA_TOPIC"]  # one, or a pattern that begins with ^
    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers,
        group_id=os.environ["KAFKA_GROUP"],
        enable_auto_commit=PLANTED_BUG == "auto-commit-at-stop",  # stop then commits the position, which is behind what was handed out
        auto_offset_reset="earliest",
        # With a pattern, topics without a leader are left out until the metadata is this old; 5 minutes by default.
        metadata_max_age_ms=5_000 if topic.startswith("^") else 300_000,
        value_deserializer=order if ON_UNREADABLE and PLANTED_BUG != "auto-commit-at-stop" else None,
    )
    # The producer refuses a record that has neither key nor value, before it serializes: so it is given the whole message for both.
    producer = AIOKafkaProducer(
        bootstrap_servers=servers, acks=1 if PLANTED_BUG == "acks-by-default" else "all",
        key_serializer=lambda message: message.key, value_serializer=lambda message: message.value,
    )
    await producer.start()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=1)) as session:
        worker = Worker(consumer, producer, session)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, worker.stop)
        consumer.subscribe(**({"pattern": topic} if topic.startswith("^") else {"topics": [topic]}), listener=worker)
        await consumer.start()
        try:
            await worker.run()
        finally:
            await consumer.stop()
            await producer.stop()
    logger.info("stopped")


if __name__ == "__main__":
    asyncio.run(main())
