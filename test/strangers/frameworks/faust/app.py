"""A service on Faust: an agent that charges each order, tries again by itself, and sends what fails for good to the
dead-letter topic. Faust acknowledges an event when its agent asks for the next one, also if it raised, and commits what
is acknowledged every 2.8 s. So the agent does not go on before the dead letter is written. Settings are Faust's
defaults, but for the size of a dead letter and what several workers on one machine need."""

import asyncio
import os

import aiohttp
import faust

MAX_ATTEMPTS = 3
BACKOFF = 0.1
# A mistake that tests plant, to see it named; none otherwise.
PLANTED_BUG = os.environ.get("PLANTED_BUG")

app = faust.App(
    os.environ["KAFKA_GROUP"],
    broker=["kafka://" + broker for broker in os.environ["KAFKA_BROKERS"].split(",")],
    datadir=os.environ["DATA_DIR"],
    web_port=int(os.environ["PORT"]),
    producer_max_request_size=1048588,  # as the broker; a dead letter has more headers
)
orders = app.topic(os.environ["KAFKA_TOPIC"], key_serializer="raw", value_serializer="raw")
letters = app.topic(os.environ["KAFKA_DLQ_TOPIC"], key_serializer="raw", value_serializer="raw")


async def call(order):
    """Returns the status of the downstream's answer, or none without one."""
    try:
        async with app.http_client.post(
            os.environ["DOWNSTREAM_URL"] + "/v1/attempt", data=order, timeout=aiohttp.ClientTimeout(total=1)
        ) as response:
            await response.read()
            return response.status
    except (aiohttp.ClientError, asyncio.TimeoutError):
        return None


async def charged(order):
    for attempt in range(MAX_ATTEMPTS):
        status = await call(order)
        if status == 200:
            return True
        if status in (400, 404, 422):
            return False
        if attempt < MAX_ATTEMPTS - 1:
            await asyncio.sleep(BACKOFF * 2**attempt)
    return False


async def dead_letter(event):
    message = event.message
    headers = [
        *(message.headers or []),
        ("x-topic", message.topic.encode()),
        ("x-partition", str(message.partition).encode()),
        ("x-offset", str(message.offset).encode()),
    ]
    sent = await letters.send(key=message.key, value=message.value, headers=headers)
    if PLANTED_BUG != "send-awaited-once":
        await sent


@app.agent(orders)
async def charge(stream):
    async for event in stream.events():
        if event.message.value is None or await charged(event.message.value):
            continue
        while True:
            try:
                await dead_letter(event)
                break
            except Exception:
                if PLANTED_BUG == "exception-raised":
                    raise
                app.logger.exception("the dead letter was refused")
                await asyncio.sleep(1)


if __name__ == "__main__":
    app.main()
