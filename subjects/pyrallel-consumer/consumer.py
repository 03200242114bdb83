"""A consumer built on pyrallel-consumer: its worker is one call of the downstream.

Retries, dead letters and offsets are the package's own. All its settings come from the environment, by the names that its configuration
classes give them: KAFKA_*, PARALLEL_CONSUMER_*, EXECUTION_*, PROCESS_*, and TASK_TIMEOUT_MS of the async engine.
"""

import asyncio
import faulthandler
import http.client
import json
import logging
import os
import signal
import urllib.parse

import aiohttp
from pyrallel_consumer import ExecutionMode, KafkaConfig, PyrallelConsumer

# Longer than the engines' own time limit for a task, so that it is theirs that counts.
CALL_TIMEOUT = 10  # seconds

# A stop that takes longer says where it hangs: before the grace of the contract is over, and with it the process.
STOP_HANGS = 12  # seconds

URL = os.environ["DLQBENCH_ORACLE_URL"] + "/v1/attempt"


class DownstreamError(Exception):
    """The downstream did not do what was asked of it."""


def position(item):
    return {"X-Kafka-Topic": item.tp.topic, "X-Kafka-Partition": str(item.tp.partition), "X-Kafka-Offset": str(item.offset)}


class AsyncWorker:
    """The worker of the async engine, on a pool of connections."""

    def __init__(self):
        self.session = None

    async def __call__(self, item):
        if self.session is None:
            self.session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=CALL_TIMEOUT))
        async with self.session.post(URL, data=item.payload or b"", headers=position(item)) as response:
            answer = await response.read()
            if response.status != 200:
                raise DownstreamError(json.loads(answer)["error"])

    async def close(self):
        if self.session is not None:
            await self.session.close()


class ProcessWorker:
    """The worker of the process engine: each of its processes has a connection of its own."""

    def __init__(self):
        self.connection = None

    def __call__(self, item):
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(URL).netloc, timeout=CALL_TIMEOUT)
            self.connection.request("POST", "/v1/attempt", body=item.payload or b"", headers=position(item))
            response = self.connection.getresponse()
            answer = response.read()
        except BaseException:  # also the engine's time limit, which is an exception out of a signal handler
            if self.connection is not None:
                self.connection.close()
            self.connection = None
            raise
        if response.status != 200:
            raise DownstreamError(json.loads(answer)["error"])

    async def close(self):
        pass


async def main():
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    environment = os.environ
    # Each failed attempt is reported with its stack trace there; what fails for good is reported elsewhere.
    logging.getLogger("pyrallel_consumer.execution_plane").setLevel(logging.CRITICAL)
    config = KafkaConfig(
        BOOTSTRAP_SERVERS=environment["DLQBENCH_BOOTSTRAP_SERVERS"].split(","), CONSUMER_GROUP=environment["DLQBENCH_GROUP_ID"]
    )
    in_processes = config.parallel_consumer.execution.mode == ExecutionMode.PROCESS
    worker = ProcessWorker() if in_processes else AsyncWorker()
    # Supervisors send TERM to a whole process group. The engine's processes, which are made here, leave it to the engine to end them in order.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    consumer = PyrallelConsumer(config=config, worker=worker, topic=environment["DLQBENCH_INPUT_TOPIC"])
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    await consumer.start()
    # Whatever comes first: it is told to stop, or it ends by itself.
    closed, stopped = asyncio.create_task(consumer.wait_closed()), asyncio.create_task(stopping.wait())
    await asyncio.wait({closed, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    faulthandler.dump_traceback_later(STOP_HANGS)
    try:
        await consumer.stop()
    finally:
        await worker.close()
    await closed


if __name__ == "__main__":
    asyncio.run(main())
