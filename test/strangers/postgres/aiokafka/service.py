"""A service on aiokafka, grpcio and asyncpg as their documentation writes one: it charges each order by a call, inserts a row, and writes a result to a
topic. All settings of the clients are their defaults, but for what the work needs."""

import asyncio
import json
import logging
import os
import signal
import uuid

import asyncpg
import grpc
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener
from aiokafka.errors import KafkaError
from google.protobuf import wrappers_pb2
from google.rpc import error_details_pb2
from grpc_status import rpc_status

MAX_ATTEMPTS = 4
BACKOFF, MAX_BACKOFF = 0.05, 0.4
RETRYABLE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.ABORTED)

SCHEMA = "CREATE TABLE IF NOT EXISTS orders (id uuid PRIMARY KEY, receipt text NOT NULL)"
INSERT = "INSERT INTO orders (id, receipt) VALUES ($1, $2) ON CONFLICT DO NOTHING"

logger = logging.getLogger("orders")


class Interrupted(Exception):
    """The record was not finished: the service stops, or its partition goes."""


class Malformed(Exception):
    """The value is not an order."""


def read(value):
    """The text of an order and its id."""
    try:
        return value.decode(), uuid.UUID(json.loads(value)["orderId"])
    except (KeyError, TypeError, ValueError) as error:
        raise Malformed(repr(error)) from error


def final(error):
    """Whether trying again would not help."""
    if isinstance(error, Malformed):
        return True
    if isinstance(error, grpc.RpcError):
        return error.code() not in RETRYABLE
    return isinstance(error, (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError))


def asked(error):
    """The wait that an error asks for, in seconds; 0 if it asks for none."""
    status = rpc_status.from_call(error) if isinstance(error, grpc.RpcError) else None
    for detail in status.details if status else ():
        info = error_details_pb2.RetryInfo()
        if detail.Unpack(info):
            return info.retry_delay.ToTimedelta().total_seconds()
    return 0.0


class Service(ConsumerRebalanceListener):
    def __init__(self, consumer, producer, channel, pool):
        self.consumer, self.producer, self.pool = consumer, producer, pool
        self.charge = channel.unary_unary(
            "/acme.v1.Payments/Charge",
            request_serializer=wrappers_pb2.StringValue.SerializeToString,
            response_deserializer=wrappers_pb2.StringValue.FromString,
        )
        self.busy = asyncio.Lock()
        self.interrupt = asyncio.Event()
        self.stopping = False

    async def on_partitions_revoked(self, revoked):
        self.interrupt.set()
        async with self.busy:
            pass

    async def on_partitions_assigned(self, assigned):
        if not self.stopping:
            self.interrupt.clear()

    def stop(self):
        self.stopping = True
        self.interrupt.set()

    async def run(self):
        while not self.stopping:
            batch = await self.consumer.getmany(timeout_ms=200, max_records=50)
            async with self.busy:
                if self.interrupt.is_set():
                    continue
                await asyncio.gather(*(self.partition(tp, messages) for tp, messages in batch.items()))

    async def partition(self, tp, messages):
        done = None
        try:
            for message in messages:
                await self.handle(message)
                done = message.offset + 1
        except Interrupted:
            pass
        if done is not None:
            try:
                await self.consumer.commit({tp: done})
            except KafkaError as error:
                logger.error("commit of %s at %d failed: %s", tp, done, error)

    async def handle(self, message):
        if message.value is None:
            return  # a deleted order
        attempt = 0
        while not self.interrupt.is_set():
            attempt += 1
            try:
                await self.process(message)
                return
            except (Malformed, grpc.RpcError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError, asyncio.TimeoutError, KafkaError) as error:
                if isinstance(error, grpc.RpcError) and error.code() == grpc.StatusCode.FAILED_PRECONDITION:
                    logger.info("refused by the business: %s", error.details())
                    return
                if final(error) or attempt == MAX_ATTEMPTS:
                    await self.dead_letter(message, attempt, error)
                    return
                await self.sleep(max(min(BACKOFF * 2 ** (attempt - 1), MAX_BACKOFF), asked(error)))
        raise Interrupted

    async def process(self, message):
        text, order = read(message.value)
        receipt = await self.charge(wrappers_pb2.StringValue(value=text), timeout=1)
        async with self.pool.acquire(timeout=2) as connection, connection.transaction():
            await connection.execute(INSERT, order, receipt.value, timeout=1)
        result = json.dumps({"order": str(order), "receipt": receipt.value}).encode()
        await self.producer.send_and_wait(os.environ["KAFKA_RESULTS_TOPIC"], key=message.key, value=result)

    async def dead_letter(self, message, attempts, error):
        """Returns when the dead letter is acknowledged."""
        reason = error.details() if isinstance(error, grpc.RpcError) else repr(error)
        headers = list(message.headers) + [
            ("x-error-reason", (reason or "").encode("utf-8", "replace")),
            ("x-retry-attempt", str(attempts).encode()),
            ("source-topic", message.topic.encode()),
            ("partition", str(message.partition).encode()),
            ("offset", str(message.offset).encode()),
            ("epoch", b"-1"),  # aiokafka does not tell it
        ]
        while not self.interrupt.is_set():
            try:
                await self.producer.send_and_wait(os.environ["KAFKA_DLQ_TOPIC"], key=message.key, value=message.value, headers=headers)
                return
            except KafkaError as failed:
                logger.error("dead letter of %s-%d at %d failed: %r", message.topic, message.partition, message.offset, failed)
                await self.sleep(0.5)
        raise Interrupted

    async def sleep(self, seconds):
        try:
            await asyncio.wait_for(self.interrupt.wait(), seconds)
        except asyncio.TimeoutError:
            pass


async def make_table(pool):
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(7)")
        await connection.execute(SCHEMA)


async def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s [%(levelname)s] %(name)s: %(message)s")
    logging.getLogger("aiokafka").setLevel(logging.WARNING)
    servers = os.environ["KAFKA_BROKERS"].split(",")
    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers, group_id=os.environ["KAFKA_GROUP"], enable_auto_commit=False, auto_offset_reset="earliest"
    )
    producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all")
    pool = await asyncpg.create_pool(os.environ["DATABASE_URL"])
    await make_table(pool)
    await producer.start()
    async with grpc.aio.insecure_channel(os.environ["PAYMENTS_ADDR"]) as channel:
        service = Service(consumer, producer, channel, pool)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, service.stop)
        consumer.subscribe([os.environ["KAFKA_TOPIC"]], listener=service)
        await consumer.start()
        try:
            await service.run()
        finally:
            await consumer.stop()
            await producer.stop()
    await pool.close()
    logger.info("stopped")


if __name__ == "__main__":
    asyncio.run(main())
